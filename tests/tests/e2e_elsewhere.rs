//! An agent on a real node that speaks Anthropic's wire and keeps its state at an HTTP service: a new pod finds it there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use agentd_tests::caller::{Agent, ask, call, curl, fetch_identity};
use agentd_tests::cluster::cluster;
use agentd_tests::command::run_with;
use agentd_tests::namespace::Namespace;
use agentd_tests::outside::{Certificates, Outside};
use agentd_tests::samples::{reach_outside, sample};
use agentd_tests::wait;
use kube::api::DynamicObject;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const TOKEN: &str = "canary-of-the-store";

const AGENT: &str = r#"
apiVersion: agentd.io/v1alpha1
kind: Agent
metadata: {name: demo, namespace: NAMESPACE}
spec:
  instruction: Answer.
  intelligence:
    endpoints:
      - name: gateway
        url: https://model.agentd-demo-outside.svc:8443/v1
        auth: {static: {bearer: {valueFrom: {secretKeyRef: {name: model-token, key: token}}}}}
        tls: {caBundle: {configMapKeyRef: {name: demo-ca, key: ca.crt}}}
    model: demo-model
    dialect: anthropic
  mcpServers:
    - name: everything
      ref: {name: everything}
  store:
    http:
      url: STORE
      timeout: 5s
      auth: {static: {bearer: {valueFrom: {secretKeyRef: {name: store, key: token}}}}}
      tls: {caBundle: {configMapKeyRef: {name: store-ca, key: ca.crt}}}
  a2a:
    principals:
      - {name: caller, serviceAccountRef: {name: caller}, role: user}
"#;

fn read(namespace: &Namespace, object: &str) -> Value {
    serde_json::from_str(&namespace.kubectl(&["get", object, "-o", "json"]).ok()).expect("JSON")
}

/// What the service holds, by key.
fn held(file: &Path) -> BTreeMap<String, Value> {
    serde_json::from_str(&std::fs::read_to_string(file).expect("something was kept")).expect("JSON")
}

/// What the scripted model server was asked, by its own journal.
fn wires(namespace: &Namespace) -> String {
    let secret = read(namespace, "secret/model-token");
    let folder = tempfile::tempdir().expect("a folder");
    let header = folder.path().join("header");
    let token = run_with(
        Command::new("base64").arg("-d"),
        secret["data"]["token"].as_str().expect("a token").as_bytes(),
    );
    std::fs::write(&header, format!("authorization: Bearer {}", token.ok())).expect("written");
    let header = format!("@{}", header.display());
    curl(
        "https://model.agentd-demo-outside.svc:8443/v1/_requests",
        &["--insecure", "--header", &header],
    )
    .ok()
}

fn pod(namespace: &Namespace) -> String {
    let pods = namespace.kubectl(&["get", "pods", "-l", "agentd.io/agent=demo", "-o", "name"]);
    pods.ok().trim().to_owned()
}

#[tokio::test]
async fn state_at_an_http_service_outlives_the_pod_and_a_service_that_is_away_is_the_cause() {
    let certificates = Certificates::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.json");
    let service = Outside::keys(&file, TOKEN, &certificates);

    let namespace = Namespace::new("elsewhere");
    reach_outside(namespace.name());
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "store", "namespace": namespace.name()},
            "stringData": {"token": TOKEN}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "store-ca", "namespace": namespace.name()},
            "data": {"ca.crt": certificates.authority()}},
    ]});
    namespace.apply(&objects.to_string());
    for file in ["caller.yaml", "mcpserver-everything.yaml"] {
        namespace.apply(&sample(namespace.name(), file));
    }
    namespace.apply(&AGENT.replace("STORE", &service.url("/")));
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    wait::for_condition(&agents, "demo", "Ready", "True", "", 2 * MINUTE).await;
    assert_eq!(
        namespace.kubectl(&["get", "pvc", "-o", "name"]).ok(),
        "",
        "no claim"
    );

    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let agent = Agent::of(&namespace, "demo");
    let message =
        json!({"messageId": "first", "role": "ROLE_USER", "parts": [{"text": "What is 2 plus 40?"}]});
    let sent = call(&agent, &caller, "SendMessage", &json!({"message": message}));
    let known = json!({"id": sent["task"]["id"]});
    let before = call(&agent, &caller, "GetTask", &known);
    assert_eq!(before["status"]["state"], "TASK_STATE_COMPLETED", "{before:#}");
    assert!(before.to_string().contains("is 42"), "{before:#}");
    assert!(wires(&namespace).contains("/v1/messages"));
    let own = format!("agentd.{}/demo/", namespace.name());
    let keys = held(&file);
    assert!(
        !keys.is_empty() && keys.keys().all(|key| key.starts_with(&own)),
        "{keys:?}"
    );

    // Another pod, which has nothing of the first one.
    let first = pod(&namespace);
    namespace.kubectl(&["delete", &first, "--wait=true"]).ok();
    namespace
        .kubectl(&["rollout", "status", "deployment/demo-agent", "--timeout=60s"])
        .ok();
    assert_ne!(pod(&namespace), first);
    wait::for_condition(&agents, "demo", "Ready", "True", "", MINUTE).await;
    assert_eq!(call(&agent, &caller, "GetTask", &known), before);
    assert!(ask(&agent, "What is 1 plus 1?", &caller).ok().contains("is 2"));

    // Without the service nothing can be kept, and no pod starts.
    drop(service);
    namespace
        .kubectl(&["delete", &pod(&namespace), "--wait=true"])
        .ok();
    let named = |agent: Option<&DynamicObject>| {
        agent
            .and_then(|agent| wait::condition(agent, "Ready"))
            .is_some_and(|(status, _, message)| status == "False" && message.contains("exit code 6"))
    };
    wait::until(&agents, "demo", "exit code 6", MINUTE, named).await;

    // It comes back at another port; what it held is there.
    let service = Outside::keys(&file, TOKEN, &certificates);
    namespace.apply(&AGENT.replace("STORE", &service.url("/")));
    wait::for_condition(&agents, "demo", "Ready", "True", "", 2 * MINUTE).await;
    assert_eq!(call(&agent, &caller, "GetTask", &known), before);
    let said = namespace
        .kubectl(&["get", "configmaps,agents.agentd.io,pods,events", "-o", "yaml"])
        .ok()
        + &namespace.kubectl(&["logs", "deployment/demo-agent"]).ok();
    assert!(!said.contains(TOKEN), "the token is where it must not be");
}
