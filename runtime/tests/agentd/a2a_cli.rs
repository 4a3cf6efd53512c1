//! `agentd a2a`: every verb as a user types it, against an agent of the official Python SDK in all that it can be told to
//! do, and against our own.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::a2a_tasks::agent;
use crate::model::Model;
use crate::peers::installed;
use crate::process::{PATIENCE, PROGRAM, outcome};

const SERVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/peers/python/a2a_peer_server.py"
);

/// Exit code, standard output, standard error.
async fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(PROGRAM);
    command
        .arg("a2a")
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .kill_on_drop(true);
    outcome(command).await
}

async fn json_of(arguments: &[&str]) -> (i32, Vec<Value>) {
    let (code, stdout, stderr) = run(&[arguments, &["-o", "json"]].concat()).await;
    let lines = stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    assert!(!lines.is_empty(), "{arguments:?}: {stderr}");
    (code, lines)
}

/// An agent that we did not write.
struct Peer {
    _process: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Peer {
    async fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new(installed("python").await.join("bin/python"))
            .arg(SERVER)
            .args(more)
            .arg("--log")
            .arg(folder.path().join("log"))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap();
        let line = line.unwrap().unwrap();
        let url = line.strip_prefix("ready ").unwrap().to_owned();
        Self {
            _process: process,
            url,
            folder,
        }
    }

    /// What was sent to it.
    fn requests(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        log.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_the_python_sdk_in_all_that_it_does() {
    let peer = Peer::start(&["--tenant", "acme"]).await;
    let url = peer.url.as_str();
    for (message, code, said) in [
        ("echo hi", 0, "echo: echo hi\n"),
        ("artifact hi", 0, "hi\n"),
        ("slow 0.3 hi", 0, "hi\n"),
        ("chunks 3", 0, "c0 \nc1 \nc2 \n"),
        ("data {\"a\":1}", 0, "{\"a\":1.0}\n"),
        ("direct hi", 0, "direct hi\n"),
        (
            "need a name",
            3,
            "input-required: need: a name\nanswer with --task ",
        ),
        ("auth", 3, "auth-required: need a credential\nanswer with --task "),
        ("fail", 1, "failed: failed on request\n"),
        ("reject", 5, "rejected: rejected on request\n"),
    ] {
        let (exit, stdout, stderr) = run(&["send", url, message]).await;
        let told = match code {
            3 => stdout
                .split_inclusive("answer with --task ")
                .next()
                .unwrap_or_default(),
            _ => stdout.as_str(),
        };
        assert_eq!((exit, told), (code, said), "{message}: {stderr}");
    }

    // A question is answered by a message with the task's id.
    let (_, asked) = json_of(&["send", url, "need more"]).await;
    let id = asked[0]["id"].as_str().unwrap();
    let (code, stdout, stderr) = run(&["send", url, "artifact done", "--task", id]).await;
    assert_eq!((code, stdout.as_str()), (0, "done\n"), "{stderr}");

    // One that goes on is listed, followed, cancelled.
    let (code, taken) = json_of(&["send", url, "slow 30 never", "--no-wait"]).await;
    assert_eq!(code, 0, "{taken:?}");
    let id = taken[0]["id"].as_str().unwrap();
    let watching = tokio::spawn({
        let (url, id) = (url.to_owned(), id.to_owned());
        async move { json_of(&["watch", &url, &id]).await }
    });
    let (code, listed) = json_of(&["tasks", url, "--state", "working"]).await;
    assert_eq!((code, &listed[0]["tasks"][0]["id"]), (0, &json!(id)));
    let (code, stdout, _) = run(&["cancel", url, id]).await;
    assert_eq!((code, stdout), (0, format!("{id} canceled\n")));
    let (code, events) = watching.await.unwrap();
    assert_eq!(code, 1);
    assert_eq!(
        events.last().unwrap()["statusUpdate"]["status"]["state"],
        "TASK_STATE_CANCELED",
        "{events:?}"
    );
    let (code, _, stderr) = run(&["cancel", url, id]).await;
    assert!(code == 1 && stderr.contains("shows how it ended"), "{stderr}");
    let (code, _, stderr) = run(&["tasks", url, "nope"]).await;
    assert!(code == 1 && stderr.contains("lists the tasks"), "{stderr}");

    // Every call names the version, and the tenant of the card.
    for request in peer.requests() {
        assert_eq!(request["headers"]["a2a-version"], "1.0", "{request}");
        if request["method"] == "POST" {
            let body: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
            assert_eq!(body["params"]["tenant"], "acme", "{body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_streams_is_asked_and_one_of_version_0_3_is_refused_by_name() {
    let peer = Peer::start(&["--no-stream"]).await;
    let url = peer.url.as_str();
    let (_, taken) = json_of(&["send", url, "slow 1 hi", "--no-wait"]).await;
    let id = taken[0]["id"].as_str().unwrap();
    let (code, stdout, stderr) = run(&["watch", url, id]).await;
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.ends_with("answer: hi\n[completed]\n"), "{stdout}");

    let old = Peer::start(&["--v03-only"]).await;
    let (code, _, stderr) = run(&["send", &old.url, "echo hi"]).await;
    assert!(
        code == 1 && stderr.contains("0.3") && stderr.contains("A2A 1.0"),
        "{stderr}"
    );
    assert!(old.requests().iter().all(|request| request["method"] == "GET"));
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_agent_and_none() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let url = format!("http://{address}");
    let (code, stdout, _) = run(&["card", &url]).await;
    assert!(
        code == 0 && stdout.contains("JSONRPC") && stdout.contains(&address),
        "{stdout}"
    );
    let (code, stdout, stderr) = run(&["send", &url, "hello"]).await;
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("hello"), "{stdout}");
    let (_, listed) = json_of(&["tasks", &url, "--limit", "1"]).await;
    let id = listed[0]["tasks"][0]["id"].as_str().unwrap();
    let (code, stdout, _) = run(&["tasks", &url, id]).await;
    assert!(code == 0 && stdout.contains("hello"), "{stdout}");
    let (code, events) = json_of(&["watch", &url, id]).await;
    assert_eq!((code, events.len()), (0, 1), "{events:?}");
    assert_eq!(events[0]["task"]["status"]["state"], "TASK_STATE_COMPLETED");

    for (arguments, expected, part) in [
        (&["card", "http://127.0.0.1:1/"][..], 6, "cannot connect"),
        (&["card", "http://192.0.2.1/"], 2, "https"),
        (&["card", "nonsense"], 2, "not a URL"),
    ] {
        let (code, stdout, stderr) = run(arguments).await;
        assert_eq!((code, stdout.as_str()), (expected, ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}
