//! A disk that takes no more: new work is refused with the reason, what is there can be read, and when there is room
//! the agent goes on by itself.

use std::process::Command;

use super::*;

/// No file is larger than this, in KiB: writing more fails as on a full disk.
const LIMITED: &str = r#"trap '' XFSZ; ulimit -S -f 3072; exec "$0" "$@""#;

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

    let text = "x".repeat(200_000);
    let (mut taken, mut refused) = (Vec::new(), None);
    for n in 0..100 {
        let answer = caller
            .try_send(&format!("m{n}"), &text, json!({ "returnImmediately": true }))
            .await
            .unwrap();
        match answer.get("error") {
            None => taken.push(answer["result"]["task"]["id"].as_str().unwrap().to_owned()),
            Some(error) => {
                refused = Some((n, error.clone()));
                break;
            }
        }
    }
    let (n, error) = refused.expect("3 MiB hold no 20 MB");
    assert_eq!(
        error["message"], "the agent's store cannot be used now; send it again later",
        "{error:#}"
    );
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
    let again = caller.send(&format!("m{n}"), &text, json!({})).await;
    assert_eq!(again["status"]["state"], "TASK_STATE_COMPLETED");
    for id in taken {
        assert_eq!(caller.ended(&id).await["status"]["state"], "TASK_STATE_COMPLETED");
    }
}
