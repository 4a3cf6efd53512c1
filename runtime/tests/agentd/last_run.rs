//! What the operator is told of the turn that ended last.

use agentd_base::report::LastRun;
use serde_json::json;

use crate::pod::Pod;

#[tokio::test(flavor = "multi_thread")]
async fn field_l10_the_limit_that_ended_a_turn_and_what_it_cost_are_reported() {
    let pod = Pod::new().await;
    let key = pod.folder.path().join("key");
    std::fs::write(&key, "k").unwrap();
    let mut half = pod.reloadable(&["boss"], &key);
    half["limits"] = json!({ "run": { "steps": 1 } });
    pod.mount("..1", &half);
    let (mut agentd, url, _) = pod.start_with(&pod.configure()).await;
    agentd.event("identity.svid.renewed").await;
    let (_, before) = pod.install.report(|_| true).await;
    assert_eq!(before.last_run, None);
    let boss = pod.identity("boss").await;
    let sent = pod.send(&url, "echo the secret plan", &boss, &[]).await;
    assert_eq!(sent.status.code(), Some(1), "{sent:?}");

    let (_, report) = pod.install.report(|report| report.last_run.is_some()).await;
    let run = report.last_run.unwrap();
    assert!(run.ended_at >= run.started_at);
    assert_eq!(
        run,
        LastRun {
            id: run.id.clone(),
            trigger: "message".into(),
            outcome: "exhausted_steps".into(),
            reason: Some("limits.run.steps (1) is used up".into()),
            steps: 1,
            tokens: 10,
            ..run
        }
    );
}
