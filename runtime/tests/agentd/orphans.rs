//! What processes leave behind: what a worker started, and in a container, of which agentd is the first process, what
//! anybody started there. Nothing of it stays as a zombie, and no worker's end is taken for it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use agentd::children::Children;
use agentd::worker::frame::FromWorker;
use agentd::worker::process::{Incoming, Worker};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::a2a::{Caller, answer, said};
use crate::process::{Agentd, PATIENCE, children_of, kill_worker, stat};
use crate::world::World;

impl World {
    /// Starts the agent by a line of a shell.
    async fn start_by(&self, line: &str) -> (Agentd, Caller) {
        let state = self.folder.path().join("state");
        let arguments = [
            "--intelligence",
            &self.model.url(),
            "--model",
            "scripted",
            "--instruction",
            "Be brief.",
            "--a2a.listen",
            "http://127.0.0.1:0",
            "--a2a.dev",
            "--store.path",
            state.to_str().unwrap(),
        ];
        let path = [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")];
        let mut agentd = Agentd::start_by_shell(line, &arguments, &path, self.folder.path());
        let a2a = agentd.address("a2a.listen").await;
        agentd.event("proc.ready").await;
        (agentd, Caller::new(&a2a))
    }

    /// A pipe, for which a process waits that is to end when the test says so.
    fn pipe(&self, name: &str) {
        nix::unistd::mkfifo(&self.folder.path().join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }

    async fn open(&self, name: &str) {
        let path = self.folder.path().join(name);
        let opening = tokio::task::spawn_blocking(move || {
            let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
            // Whoever only opens it may be gone.
            let _ = pipe.write_all(b"\n");
        });
        tokio::time::timeout(PATIENCE, opening)
            .await
            .expect("nobody waits")
            .unwrap();
    }

    /// What becomes of a turn whose worker is killed in the middle.
    async fn lose_a_turn(&mut self, caller: &Caller, worker: impl FnOnce() -> u32) -> Value {
        let sending = {
            let caller = caller.clone();
            tokio::spawn(async move { caller.send("m1", "hold", json!({ "contextId": "c" })).await })
        };
        self.model.holds().await;
        kill_worker(worker());
        let task = sending.await.unwrap();
        self.model.release();
        task
    }
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect(what);
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The process group, and the parent.
fn group_and_parent(pid: u32) -> (u32, u32) {
    let stat = stat(Path::new(&format!("/proc/{pid}"))).unwrap();
    (stat[2].parse().unwrap(), stat[1].parse().unwrap())
}

/// A worker that starts two processes, both of which hold its end of the socket, says one thing and is killed.
const LEAVES: &str = r"#!/bin/bash
exec 3<&0
sleep 100 <&3 2>/dev/null &
setsid bash -c ': <ready; read -t 100 <>end' <&3 2>/dev/null &
: <go
cat frame >&3
kill -9 $$
";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a child process of the test below: it adopts whatever the others leave behind"]
async fn adopting() {
    let world = World::new().await;
    ["ready", "go", "end"]
        .into_iter()
        .for_each(|name| world.pipe(name));
    let said = FromWorker::ServerFailed { server: "fs".into() };
    let frame = serde_json::to_string(&said).unwrap();
    let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
    std::fs::write(
        world.folder.path().join("frame"),
        [&length, frame.as_bytes()].concat(),
    )
    .unwrap();
    let script = world.folder.path().join("script");
    std::fs::write(&script, LEAVES).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::env::set_current_dir(world.folder.path()).unwrap();

    let children = Children::adopt().unwrap();
    let mut worker = Worker::spawn(&script, &children).unwrap();
    world.open("ready").await;
    let mut left = children_of(worker.pid());
    // The one in its group, and the one that has a group of its own.
    left.sort_by_key(|pid| group_and_parent(*pid).0 != worker.pid());
    let [grouped, apart] = left[..] else {
        panic!("{left:?}")
    };
    world.open("go").await;
    let ending = async { [worker.next().await, worker.next().await, worker.next().await] };
    let said = tokio::time::timeout(PATIENCE, ending).await;
    let [frame, exit, end] = said.expect("whoever holds its socket hides its end");
    assert!(
        matches!(&frame, Some(Incoming::Frame(FromWorker::ServerFailed { server })) if server == "fs"),
        "{frame:?}"
    );
    let Some(Incoming::Exited(exit)) = exit else {
        panic!("{exit:?}")
    };
    assert!(exit.is_kill() && exit.describe().contains("SIGKILL"), "{exit:?}");
    assert!(end.is_none());

    until("the group of the worker outlives it", || !is_there(grouped)).await;
    // What left the group is adopted, and reaped when it ends.
    assert_eq!(group_and_parent(apart), (apart, std::process::id()));
    world.open("end").await;
    until("it stays as a zombie", || !is_there(apart)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_leaves_behind_is_killed_with_its_group_or_adopted_and_reaped() {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orphans::adopting", "--ignored", "--nocapture"])
        .output()
        .await
        .unwrap();
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && out.contains("1 passed"),
        "{out}{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn as_the_first_process_of_a_container_it_reaps_what_others_leave_there() {
    let mut world = World::new().await;
    world.pipe("one");
    world.pipe("two");
    let line = r#"exec unshare --user --map-root-user --pid --fork --kill-child "$0" "$@""#;
    let (agentd, caller) = world.start_by(line).await;
    let first = agentd.workers()[0];
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))
        .unwrap();
    assert_eq!(numbers.split_whitespace().last(), Some("1"));

    // Somebody runs a shell in the container, as `kubectl exec` does, which leaves two processes there; one ends by a
    // signal that has no name.
    let shell = r#"bash -c ': <one; exit 3' & bash -c ': <two; kill -s 34 $$' & exit 0"#;
    let run = Command::new("nsenter")
        .args([
            "--target",
            &first.to_string(),
            "--user",
            "--pid",
            "--preserve-credentials",
        ])
        .args(["bash", "-c", shell])
        .current_dir(world.folder.path())
        .status()
        .await
        .unwrap();
    assert!(run.success());
    until("they are not adopted", || children_of(first).len() == 2).await;
    let left = children_of(first);
    world.open("two").await;
    until("one stays as a zombie", || children_of(first).len() == 1).await;
    world.open("one").await;
    until("both stay as zombies", || children_of(first).is_empty()).await;
    assert!(left.iter().all(|pid| !is_there(*pid)));

    // Its own are its own.
    let task = world.lose_a_turn(&caller, || children_of(first)[0]).await;
    assert_eq!(state(&task), "TASK_STATE_FAILED", "{task:#}");
    assert!(said(&task).contains("SIGKILL"), "{task:#}");
    let next = caller.send("m2", "hello", json!({ "contextId": "c" })).await;
    assert_eq!(answer(&next), "you said: hello", "{next:#}");
    kill(Pid::from_raw(i32::try_from(first).unwrap()), Signal::SIGTERM).unwrap();
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
}
