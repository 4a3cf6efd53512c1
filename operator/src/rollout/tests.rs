//! Objects as the API server gives them, and what is read from them.

use serde_json::{Value, json};

use super::*;

fn deployment(generation: i64, observed: i64) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "a-agent", "uid": "d", "generation": generation,
            "annotations": {"deployment.kubernetes.io/revision": "2"}},
        "spec": {"replicas": 1, "selector": {}, "template": {}},
        "status": {"observedGeneration": observed},
    }))
    .unwrap()
}

fn set(uid: &str, owner: &str, revision: &str, status: Value) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": uid, "uid": uid, "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a-agent", "uid": owner, "controller": true}]},
        "status": status,
    }))
    .unwrap()
}

fn pod(uid: &str, owner: &str, ready: bool, status: Value) -> Pod {
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": uid, "uid": uid,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]},
        "status": status,
    }))
    .unwrap();
    let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
    let status = pod.status.get_or_insert_default();
    status
        .conditions
        .get_or_insert_with(|| serde_json::from_value(conditions).unwrap());
    pod
}

fn failing(state: Value, last: Value) -> String {
    let status = json!({"containerStatuses": [{"name": "agentd", "image": "r/a:1", "imageID": "", "ready": false,
        "restartCount": 7, "state": state, "lastState": last}]});
    let rollout = assess(
        &deployment(1, 1),
        [&set("new", "d", "2", json!(null))],
        [&pod("p", "new", false, status)],
    );
    let trouble = rollout.trouble.unwrap();
    assert_eq!(trouble.reason, "PodFailed");
    trouble.message
}

#[test]
fn only_pods_of_the_current_revision_count_and_only_by_uid() {
    let sets = [
        set("old", "d", "1", json!(null)),
        set("new", "d", "2", json!(null)),
        set("alien", "x", "2", json!(null)),
    ];
    let pods = [
        pod("old-1", "old", true, json!({})),
        pod("new-1", "new", true, json!({})),
        pod("alien-1", "alien", true, json!({})),
    ];
    let rollout = assess(&deployment(3, 3), &sets, &pods);
    assert_eq!(
        rollout.current,
        [CurrentPod {
            name: "new-1".into(),
            uid: "new-1".into(),
            ready: true
        }]
    );
    assert_eq!((rollout.total, rollout.observed), (2, true));
}

#[test]
fn nothing_is_current_before_the_deployment_controller_has_seen_the_spec() {
    let rollout = assess(
        &deployment(4, 3),
        [&set("new", "d", "2", json!(null))],
        [&pod("p", "new", true, json!({}))],
    );
    assert_eq!((rollout.observed, rollout.current.len()), (false, 0));
}

#[test]
fn s02_quota_refusal_is_its_own_reason_without_the_generated_name() {
    let status = json!({"replicas": 0, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": "pods \"a-agent-5d-x7x2p\" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"}]});
    let rollout = assess(&deployment(1, 1), [&set("new", "d", "2", status)], []);
    let trouble = rollout.trouble.unwrap();
    assert_eq!(trouble.reason, "QuotaExceeded");
    assert_eq!(
        trouble.message,
        "the pod was refused: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0; raise the ResourceQuota or free some of it"
    );
}

#[test]
fn s11_a_crash_loop_reads_the_same_in_each_of_its_states() {
    let end = json!({"terminated": {"exitCode": 2, "reason": "Error", "message": "mcp.servers[0].endpoint: no URL\n"}});
    let expected = "container agentd ended with exit code 2: mcp.servers[0].endpoint: no URL";
    assert_eq!(
        failing(
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}),
            end.clone()
        ),
        expected
    );
    assert_eq!(failing(json!({"running": {}}), end.clone()), expected);
    assert_eq!(failing(end, json!({})), expected);
}

#[test]
fn s11_pull_errors_read_the_same_and_oom_is_named() {
    let expected =
        "container agentd: image `r/a:1` cannot be pulled; check its name, the registry and imagePullSecrets";
    assert_eq!(
        failing(
            json!({"waiting": {"reason": "ErrImagePull", "message": "rpc 1"}}),
            json!({})
        ),
        expected
    );
    assert_eq!(
        failing(
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "rpc 2"}}),
            json!({})
        ),
        expected
    );
    assert_eq!(
        failing(
            json!({"waiting": {"reason": "CrashLoopBackOff"}}),
            json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})
        ),
        "container agentd ended with exit code 137 (OOMKilled); see its log"
    );
    assert_eq!(
        failing(
            json!({"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"k\" not found"}}),
            json!({})
        ),
        "container agentd: CreateContainerConfigError: secret \"k\" not found"
    );
}

#[test]
fn a_pod_on_its_way_out_is_no_replica_and_still_there() {
    let mut pod = pod("p", "new", true, json!({}));
    let stopping = |pod: &Pod| {
        let rollout = assess(&deployment(1, 1), [&set("new", "d", "2", json!(null))], [pod]);
        (rollout.total, rollout.current.len(), rollout.stopping)
    };
    assert_eq!(stopping(&pod), (1, 1, false));
    pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(stopping(&pod), (0, 0, true));
}

#[test]
fn a_claim_that_nobody_provides_is_the_cause_while_no_node_has_the_pod() {
    let with = |spec: Value| {
        let mut pod = pod("p", "new", false, json!({"phase": "Pending", "conditions": []}));
        pod.spec = serde_json::from_value(spec).unwrap();
        assess(&deployment(1, 1), [&set("new", "d", "2", json!(null))], [&pod])
    };
    let volumes = json!([
        {"name": "state", "persistentVolumeClaim": {"claimName": "a-agent"}},
        {"name": "live", "configMap": {"name": "a-agent-live"}},
    ]);
    let claim = |phase: &str| -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {"name": "a-agent"}, "status": {"phase": phase}})).unwrap()
    };
    let placed = with(json!({"containers": [], "nodeName": "node1", "volumes": volumes}));
    assert_eq!(placed.claims, Vec::<String>::new());
    let mut waiting = with(json!({"containers": [], "volumes": volumes}));
    assert_eq!(waiting.claims, ["a-agent"]);
    waiting.held_up_by(&claim("Bound"));
    assert_eq!(waiting.trouble, None);
    waiting.held_up_by(&claim("Pending"));
    assert_eq!(
        waiting.trouble,
        Some(Trouble {
            reason: "Progressing",
            message: "the pod waits for its volume: PersistentVolumeClaim a-agent is Pending; its events name the cause"
                .to_owned()
        })
    );
}
