//! A disk that takes no more: new work is refused with the reason, what is there can be read, and when there is room
//! the agent goes on by itself.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::*;
use crate::process::PATIENCE;

/// No file is larger than this, in KiB: writing more fails as on a full disk.
const LIMITED: &str = r#"trap '' XFSZ; ulimit -S -f 3072; exec "$0" "$@""#;

/// What fills it.
fn text() -> String {
    "x".repeat(200_000)
}

/// Sends messages until one is refused, for the reason that it is to be: the tasks of those that were taken, and the
/// number of the one that was not.
async fn fill(caller: &Caller) -> (Vec<String>, usize) {
    let mut taken = Vec::new();
    for n in 0..100 {
        let at_once = json!({ "returnImmediately": true });
        let answer = caller.try_send(&format!("m{n}"), &text(), at_once).await.unwrap();
        if answer["error"].is_object() {
            assert_refused(&answer);
            return (taken, n);
        }
        taken.push(answer["result"]["task"]["id"].as_str().unwrap().to_owned());
    }
    panic!("it holds 20 MB");
}

fn assert_refused(answer: &Value) {
    assert_eq!(
        answer["error"]["message"], "the agent's store cannot be used now; send it again later",
        "{answer:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_new_work_keeps_what_is_there_and_is_noticed_when_it_is_not_full() {
    let world = World::new().await;
    let store = world.folder.path().join("state");
    let document = world.document("full", &json!({ "kind": "file", "path": store }), &json!([]));
    let arguments = [
        "run",
        "-c",
        &document,
        "--observability.metrics_addr",
        "127.0.0.1:0",
    ];
    let mut agentd = Agentd::start_by_shell(LIMITED, &arguments, &[], world.folder.path());
    let caller = Caller::new(&agentd.address("a2a.listen").await);
    let admin = Caller::new(&agentd.address("metrics.serving").await);
    agentd.event("proc.ready").await;
    let first = caller.send("first", "hello", json!({})).await;
    assert_eq!(first["status"]["state"], "TASK_STATE_COMPLETED", "{first:#}");

    let (taken, n) = fill(&caller).await;
    assert_eq!(
        admin.get("/readyz").await.unwrap(),
        (
            503,
            "store: the last write failed or hangs; it is tried again until one succeeds\n".to_owned()
        )
    );
    let failed = agentd.event("store.put.fail").await;
    let why = failed["err"].as_str().unwrap();
    assert!(why.contains("agentd.db") && why.contains("volume"), "{why}");
    assert_eq!(caller.task(first["id"].as_str().unwrap()).await, first);

    // Somebody makes room.
    let pid = agentd.pid().to_string();
    let freed = Command::new("/usr/bin/prlimit")
        .args(["--pid", &pid, "--fsize=unlimited"])
        .status()
        .unwrap();
    assert!(freed.success());
    agentd.event("store.recovered").await;
    assert_eq!(admin.get("/readyz").await.unwrap().0, 200);
    let again = caller.send(&format!("m{n}"), &text(), json!({})).await;
    assert_eq!(again["status"]["state"], "TASK_STATE_COMPLETED");
    for id in taken {
        assert_eq!(caller.ended(&id).await["status"]["state"], "TASK_STATE_COMPLETED");
    }
}

/// A file system of its own, as long as this lives, which is filled by somebody else.
struct Disk {
    holder: Child,
    folder: PathBuf,
}

impl Disk {
    async fn new(folder: PathBuf) -> Self {
        let line = r#"mkdir "$0" && mount -t tmpfs -o size=32m none "$0" && echo mounted && exec sleep 1000"#;
        let mut holder = tokio::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", line])
            .arg(&folder)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
        let said = tokio::time::timeout(PATIENCE, said.next_line()).await.unwrap();
        assert_eq!(said.unwrap().as_deref(), Some("mounted"));
        Self { holder, folder }
    }

    /// A line of a shell that makes `"$0" "$@"` see it.
    fn line(&self) -> String {
        let pid = self.holder.id().unwrap();
        format!(r#"exec /usr/bin/nsenter --target {pid} --user --mount --preserve-credentials "$0" "$@""#)
    }

    /// Runs a line of a shell in its folder.
    fn run(&self, line: &str) {
        let line = format!("cd {} && {line}", self.folder.display());
        let run = Command::new("/bin/sh")
            .args(["-c", &self.line(), "/bin/sh", "-c", &line])
            .status();
        assert!(run.unwrap().success());
    }

    /// Starts the program in it.
    fn program(&self, world: &World, arguments: &[&str]) -> Agentd {
        Agentd::start_by_shell(&self.line(), arguments, &[], world.folder.path())
    }

    async fn start(&self, world: &World, document: &str) -> (Agentd, Caller) {
        let mut agentd = self.program(world, &["run", "-c", document]);
        let caller = Caller::new(&agentd.address("a2a.listen").await);
        agentd.event("proc.ready").await;
        (agentd, caller)
    }
}

/// The disk is full for everybody, and the agent dies: it starts on the full disk, and what it took is there.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_on_a_full_disk_starts_there_with_all_that_it_took() {
    let mut world = World::new().await;
    let disk = Disk::new(world.folder.path().join("disk")).await;
    let store = json!({ "kind": "file", "path": disk.folder.join("state") });
    let document = world.document("full", &store, &json!([]));
    let (mut agentd, caller) = disk.start(&world, &document).await;
    let first = caller.send("first", "hello", json!({})).await;
    assert_eq!(first["status"]["state"], "TASK_STATE_COMPLETED", "{first:#}");
    let at_once = || json!({ "returnImmediately": true });
    let subagent = r#"calls [["subagent_run", {"instruction": "hold on"}]]"#;
    let working = caller.send("working", subagent, at_once()).await;
    world.model.holds().await;
    disk.run("! head -c 64M /dev/zero 2>/dev/null >others");
    let (taken, n) = fill(&caller).await;
    let failed = agentd.event("store.put.fail").await;
    let why = failed["err"].as_str().unwrap();
    assert!(why.contains("agentd.db") && why.contains("free space"), "{why}");
    let id = |task: &Value| task["id"].as_str().unwrap().to_owned();
    assert_eq!(caller.task(&id(&first)).await, first);
    kill_worker(agentd.pid());
    agentd.end().await;

    let (mut agentd, caller) = disk.start(&world, &document).await;
    assert_eq!(caller.task(&id(&first)).await, first);
    assert_refused(
        &caller
            .try_send(&format!("m{n}"), &text(), at_once())
            .await
            .unwrap(),
    );
    disk.run("rm others");
    agentd.event("store.recovered").await;
    let again = caller.send(&format!("m{n}"), &text(), json!({})).await;
    assert_eq!(again["status"]["state"], "TASK_STATE_COMPLETED");
    for id in taken.into_iter().chain([id(&working)]) {
        let task = caller.ended(&id).await;
        let is_cut_short = crate::a2a::said(&task).contains("restarted");
        let state = if is_cut_short {
            "TASK_STATE_FAILED"
        } else {
            "TASK_STATE_COMPLETED"
        };
        assert_eq!(task["status"]["state"], state, "{task:#}");
    }
    // Nothing says of the subagent that it lives.
    let marks = async || {
        let looking = disk.program(&world, &["store", "export", "-c", &document]);
        let (status, out, log) = looking.end().await;
        assert_eq!(status.code(), Some(0), "{log:#?}");
        let lines = out
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["record"]["scope"] == "live").count()
    };
    let gone = async { while marks().await > 0 {} };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}
