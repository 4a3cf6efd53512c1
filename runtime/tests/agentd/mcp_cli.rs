//! `agentd mcp`: every verb as a user types it, against a scripted server.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::notes::Notes;
use crate::process::{PATIENCE, PROGRAM, outcome};

/// The program, with no variables but these.
fn agentd(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .arg("mcp")
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Exit code, standard output, standard error.
async fn run_with(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    outcome(agentd(arguments, variables)).await
}

async fn run(arguments: &[&str]) -> (i32, String, String) {
    run_with(arguments, &[]).await
}

async fn json_of(arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = run(&[arguments, &["-o", "json"]].concat()).await;
    assert_eq!(code, 0, "{arguments:?}: {stderr}");
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stdout}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_as_text_and_as_json() {
    let notes = Notes::start().await;
    let url = notes.url();
    let (code, stdout, stderr) = run(&["tools", &url]).await;
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(
        stdout,
        "notes 1 (MCP 2025-11-25): 3 tools\nTOOL  DESCRIPTION\necho  says it again\nfail  fails[2J\nask   asks\n"
    );
    let tools = json_of(&["tools", &url]).await;
    assert_eq!(tools["server"]["name"], "notes");
    assert_eq!(tools["tools"][0]["name"], "echo");
    assert!(
        tools["tools"][0]["digest"]
            .as_str()
            .unwrap()
            .starts_with("sha256:"),
        "{tools}"
    );

    let (_, stdout, _) = run(&["resources", &url]).await;
    assert_eq!(
        stdout,
        "notes 1 (MCP 2025-11-25): 1 resource\nURI         TYPE        NAME\nnote://one  text/plain  one\n\n\
         TEMPLATE    TYPE  NAME\nnote://{n}        by name\n"
    );
    let resources = json_of(&["resources", &url]).await;
    assert_eq!(resources["resources"][0]["uri"], "note://one");
    assert_eq!(resources["templates"][0]["uri_template"], "note://{n}");

    assert_eq!(run(&["read", &url, "note://one"]).await.1, "one\n");
    let read = json_of(&["read", &url, "note://one"]).await;
    assert_eq!(
        (&read["uri"], &read["contents"][0]["text"]["text"]),
        (&json!("note://one"), &json!("one"))
    );

    let (code, stdout, _) = run(&["ping", &url]).await;
    assert!(
        code == 0 && stdout.starts_with("notes 1 (MCP 2025-11-25) answered in "),
        "{stdout}"
    );
    assert!(json_of(&["ping", &url]).await["ms"].is_number());

    assert_eq!(run(&["call", &url, "echo", r#"{"a":1}"#]).await.1, "{\"a\":1}\n");
    let called = json_of(&["call", &url, "echo", r#"{"a":1}"#]).await;
    assert_eq!(
        called,
        json!({ "text": "{\"a\":1}", "is_error": false, "structured": null })
    );
}

/// contract/runtime.md section 3.
#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_says_whose_fault_it_is() {
    let notes = Notes::start().await;
    let url = notes.url();
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = format!("http://{free}/mcp");
    for (arguments, expected) in [
        (&["tools", "nobody"][..], 2),
        (&["tools", "http://example.org/mcp"], 2),
        (&["tools", "https://169.254.169.254/mcp"], 2),
        (
            &[
                "tools",
                &url,
                "--header",
                "Authorization: Bearer abcdef0123456789",
            ],
            2,
        ),
        (&["tools", &url, "-c", "/no/such/file.yaml"], 2),
        (&["call", &url, "echo", "[1]"], 2),
        (&["call", &url, "echo", "{"], 2),
        (&["watch", &url, "note://one", "--count", "x"], 2),
        (&["tools", &nobody], 6),
        (&["call", &nobody, "echo"], 6),
        (&["watch", &nobody, "note://one"], 6),
        (&["call", &url, "fail"], 1),
        (&["call", &url, "nothing"], 1),
        (&["read", &url, "note://two"], 1),
    ] {
        let (code, stdout, stderr) = run(arguments).await;
        assert_eq!(code, expected, "{arguments:?}: {stdout}{stderr}");
        assert!(!stderr.contains("abcdef0123456789"), "{stderr}");
        if arguments == ["call", &url, "fail"] {
            assert_eq!((stdout.as_str(), stderr.as_str()), ("no [31msuch file\n", ""));
        } else {
            assert_eq!(stdout, "", "{arguments:?}");
            let line: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
            assert!(
                line["event"] == "mcp.fail" || line["event"] == "config.invalid",
                "{line}"
            );
        }
    }
}

/// A name is looked up where `agentd run` looks: files, variables, flags. What else an agent needs may be missing.
#[tokio::test(flavor = "multi_thread")]
async fn m10_a_server_is_found_by_its_name_in_every_layer() {
    let notes = Notes::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agentd.yaml");
    let servers = json!([{ "name": "notes", "endpoint": notes.url(), "headers": { "X-From": "file", "X-Token": "{{secret:TOKEN}}" } }]);
    std::fs::write(&config, json!({ "mcp": { "servers": servers } }).to_string()).unwrap();
    let config = config.to_str().unwrap();
    let token = ("TOKEN", "s3cr3t-value");
    let declared = servers.to_string();
    let flag = format!("notes={}", notes.url());
    for (arguments, variables) in [
        (&["ping", "notes", "-c", config][..], &[token][..]),
        (&["ping", "notes"], &[token, ("AGENTD_CONFIG", config)]),
        (&["ping", "notes"], &[token, ("AGENTD_MCP_SERVERS", &declared)]),
        (&["ping", "notes", "--mcp", &flag], &[token]),
        (
            &[
                "ping",
                &notes.url(),
                "--header",
                "X-From: file",
                "--header",
                "X-Token: {{secret:TOKEN}}",
            ],
            &[token],
        ),
    ] {
        let before = notes.shared.headers.lock().unwrap().len();
        let (code, _, stderr) = run_with(arguments, variables).await;
        assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?} {variables:?}");
        let headers = notes.shared.headers.lock().unwrap().split_off(before);
        if !arguments.contains(&"--mcp") {
            assert_eq!(
                (&headers[0]["x-from"], &headers[0]["x-token"]),
                (&"file".parse().unwrap(), &"s3cr3t-value".parse().unwrap())
            );
        }
    }
    // A secret that is not there is named, and never shown when it is.
    let (code, _, stderr) = run_with(&["ping", "notes", "-c", config], &[]).await;
    assert!(code != 0 && stderr.contains("TOKEN"), "{code} {stderr}");
}

/// M28: what is printed is read after the server said that something changed.
#[tokio::test(flavor = "multi_thread")]
async fn m28_watch_prints_each_change_and_ends_in_order() {
    let notes = Notes::start().await;
    for (count, end) in [
        (Some("2"), None),
        (None, Some(Signal::SIGINT)),
        (None, Some(Signal::SIGTERM)),
    ] {
        notes.change("one");
        let url = notes.url();
        let mut arguments = vec!["watch", url.as_str(), "note://one", "-o", "json"];
        arguments.extend(count.iter().flat_map(|count| ["--count", count]));
        let mut child = agentd(&arguments, &[]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = async || -> Value {
            let line = tokio::time::timeout(PATIENCE, lines.next_line())
                .await
                .unwrap()
                .unwrap()
                .unwrap();
            serde_json::from_str(&line).unwrap()
        };
        let said = next().await;
        assert_eq!(
            (&said["event"], &said["contents"][0]["text"]["text"]),
            (&json!("armed"), &json!("one"))
        );
        for text in ["two", "three"] {
            notes.change(text);
            let said = next().await;
            assert_eq!(
                (&said["event"], &said["uri"], &said["contents"][0]["text"]["text"]),
                (&json!("changed"), &json!("note://one"), &json!(text))
            );
        }
        if let Some(signal) = end {
            kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), signal).unwrap();
        }
        let status = tokio::time::timeout(PATIENCE, child.wait())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{count:?} {end:?}");
    }
}

/// M13: the question goes to the terminal, not to stdin; where there is none it is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn m13_a_question_is_asked_at_the_terminal() {
    for (typed, expected) in [
        (
            "y\nAda\n",
            json!({ "action": "accept", "content": { "name": "Ada" } }),
        ),
        ("d\n", json!({ "action": "decline" })),
        ("c\n", json!({ "action": "cancel" })),
    ] {
        let notes = Notes::start().await;
        // `script` gives the program a terminal, and types what we write.
        let mut child = Command::new("/usr/bin/script")
            .args([
                "-qec",
                &format!("{PROGRAM} mcp call {} ask", notes.url()),
                "/dev/null",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(typed.as_bytes()).await.unwrap();
        let mut answered = notes.shared.answered.subscribe();
        let answered = tokio::time::timeout(PATIENCE, answered.wait_for(Option::is_some))
            .await
            .unwrap();
        assert_eq!(answered.unwrap().clone().unwrap(), expected);
        drop(stdin);
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
            .await
            .unwrap()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{shown}");
        assert!(
            shown.contains("Who\\u{1b}[31m are you?") || shown.contains("Who[31m are you?"),
            "{shown}"
        );
    }
    let notes = Notes::start().await;
    let mut command = Command::new("/usr/bin/setsid");
    command
        .args(["--wait", PROGRAM, "mcp", "call", &notes.url(), "ask"])
        .stdin(Stdio::null());
    let output = tokio::time::timeout(PATIENCE, command.output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "{\"action\":\"cancel\"}\n",
        "{output:?}"
    );
}
