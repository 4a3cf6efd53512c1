//! Operator and issuer die, are away, and change places: agents that work notice nothing, and the status is true again
//! afterwards. One test at a time, since all of them disturb the install; a binary of its own, so that no other test
//! is disturbed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_tests::caller::{Agent, Identity, ask, fetch_identity};
use agentd_tests::cluster::cluster;
use agentd_tests::namespace::Namespace;
use agentd_tests::samples::{await_samples, reach_outside, ready_namespace, samples};
use agentd_tests::{install, wait};
use kube::Api;
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::sync::Mutex;

const MINUTE: Duration = Duration::from_secs(60);
static ONE: Mutex<()> = Mutex::const_new(());

fn read(namespace: &Namespace, object: &str) -> Value {
    serde_json::from_str(&namespace.kubectl(&["get", object, "-o", "json"]).ok()).expect("JSON")
}

fn scale(component: &str, replicas: u8) {
    let deployment = format!("deployment/{}-{component}", install::release());
    install::kubectl(&["scale", &deployment, &format!("--replicas={replicas}")]).ok();
}

fn rolled_out(component: &str) {
    let deployment = format!("deployment/{}-{component}", install::release());
    install::kubectl(&["rollout", "status", &deployment, "--timeout=120s"]).ok();
}

/// Changes a limit, which the agent's pod takes up without a restart, and waits until it runs: that needs an operator
/// that sees specs, writes objects and hears reports.
async fn takes_a_change(agents: &Api<DynamicObject>, namespace: &Namespace, steps: u32) {
    let patch = format!(r#"{{"spec":{{"limits":{{"steps":{steps}}}}}}}"#);
    namespace
        .kubectl(&["patch", "agents.agentd.io", "demo", "--type=merge", "-p", &patch])
        .ok();
    wait::for_condition(agents, "demo", "Ready", "True", "", 2 * MINUTE).await;
    let status = read(namespace, "agents.agentd.io/demo")["status"].clone();
    assert_eq!(status["configDigest"], status["runningDigest"]);
}

/// The UID of the agent's pod, and how often its container was started again.
fn pod(namespace: &Namespace) -> (Value, Value) {
    let pods = namespace
        .kubectl(&["get", "pods", "-l", "agentd.io/agent=demo", "-o", "json"])
        .ok();
    let pods: Value = serde_json::from_str(&pods).expect("JSON");
    let pod = &pods["items"][0];
    (
        pod["metadata"]["uid"].clone(),
        pod["status"]["containerStatuses"][0]["restartCount"].clone(),
    )
}

/// Asks again and again until told to stop: how many answers there were, or the first that was wrong.
fn keep_asking(agent: &Agent, caller: &Identity, stop: &AtomicBool) -> Result<u32, String> {
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        let finished = ask(agent, "What is 20 plus 3?", caller);
        if finished.code != 0 || finished.stdout.trim() != "The tool says: The sum of 20 and 3 is 23." {
            return Err(finished.to_string());
        }
        answers += 1;
    }
    Ok(answers)
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_work_and_status_holds_while_operator_and_issuer_are_killed() {
    let _one = ONE.lock().await;
    let (namespace, client) = ready_namespace("killed").await;
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let before = read(&namespace, "agents.agentd.io/demo");
    let servers_before =
        ["everything", "remote"].map(|name| read(&namespace, &format!("mcpservers.agentd.io/{name}")));
    let pod_before = pod(&namespace);
    let agent = Agent::of(&namespace, "demo");

    let stop = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| keep_asking(&agent, &caller, &stop));
        let label = format!("app.kubernetes.io/instance={}", install::release());
        install::kubectl(&["delete", "pods", "-l", &label, "--grace-period=0", "--force"]).ok();
        for component in ["controllers", "issuer"] {
            rolled_out(component);
        }
        stop.store(true, Ordering::Relaxed);
        asking.join().expect("no panic")
    });
    assert!(asked.expect("every message was answered") > 0);

    let agents = wait::resources(&client, namespace.name(), "Agent");
    takes_a_change(&agents, &namespace, 21).await;
    await_samples(&client, namespace.name()).await;
    let after = read(&namespace, "agents.agentd.io/demo");
    for key in [
        "url",
        "spiffeID",
        "tools",
        "protocolVersions",
        "reported",
        "replicas",
        "readyReplicas",
        "selector",
    ] {
        assert_eq!(before["status"][key], after["status"][key], "{key}");
    }
    for before in servers_before {
        let name = before["metadata"]["name"].as_str().expect("a name");
        let after = read(&namespace, &format!("mcpservers.agentd.io/{name}"));
        for key in ["address", "serverInfo", "toolCount", "resourceCount", "tools"] {
            assert_eq!(before["status"][key], after["status"][key], "{name} {key}");
        }
    }
    assert_eq!(pod_before, pod(&namespace), "the agent's pod noticed nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_gets_ready_when_operator_and_issuer_come_up_last() {
    let _one = ONE.lock().await;
    let namespace = Namespace::new("last");
    reach_outside(namespace.name());
    scale("controllers", 0);
    scale("issuer", 0);
    let gone = format!("app.kubernetes.io/instance={}", install::release());
    install::kubectl(&["wait", "--for=delete", "pods", "-l", &gone, "--timeout=60s"]).ok();
    for (_, yaml) in samples(namespace.name()) {
        let _ = cluster().apply(&yaml).ok();
    }
    // The issuer last of all: the pods are there before anybody can sign for them.
    scale("controllers", 1);
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    wait::for_condition(&agents, "demo", "IdentityReady", "False", "", MINUTE).await;
    scale("issuer", 2);
    await_samples(&client, namespace.name()).await;
    rolled_out("issuer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_controllers_pod_takes_over_with_the_reports() {
    let _one = ONE.lock().await;
    let (namespace, client) = ready_namespace("leader").await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    scale("controllers", 2);
    rolled_out("controllers");
    let leaders = || install::kubectl(&["get", "pods", "-l", "agentd.io/leader=true", "-o", "name"]).ok();
    let first = leaders();
    assert_eq!(first.lines().count(), 1, "{first}");
    install::kubectl(&["delete", first.trim()]).ok();
    takes_a_change(&agents, &namespace, 22).await;
    let second = leaders();
    assert_eq!(second.lines().count(), 1, "{second}");
    assert_ne!(first, second);
    scale("controllers", 1);
    rolled_out("controllers");
    // Whoever is left leads.
    takes_a_change(&agents, &namespace, 23).await;
}
