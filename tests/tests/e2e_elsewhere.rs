//! Agents on a real node whose state is kept elsewhere, by an HTTP service and by an MCP server: a new pod finds it there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use agentd_tests::caller::{Agent, ask, call, fetch_identity};
use agentd_tests::cluster::cluster;
use agentd_tests::model::{Request, asked};
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
    model: elsewhere.NAMESPACE
  mcpServers:
    - name: everything
      ref: {name: everything}
  a2a:
    principals:
      - {name: caller, serviceAccountRef: {name: caller}, role: user}
"#;

/// Where an agent keeps its state.
struct Elsewhere {
    /// More of `mcpServers`, and the whole of `store`; STORE is the service's URL.
    server: &'static str,
    store: &'static str,
    path: &'static str,
    start: fn(&Path, &Certificates) -> Outside,
}

impl Elsewhere {
    fn agent(&self, service: &Outside) -> String {
        AGENT
            .replace(
                "  a2a:\n",
                &format!("{}  store:{}\n  a2a:\n", self.server, self.store),
            )
            .replace("STORE", &service.url(self.path))
    }
}

/// What the service holds, by key.
fn held(file: &Path) -> BTreeMap<String, Value> {
    serde_json::from_str(&std::fs::read_to_string(file).expect("something was kept")).expect("JSON")
}

fn pod(namespace: &Namespace) -> String {
    let pods = namespace.kubectl(&["get", "pods", "-l", "agentd.io/agent=demo", "-o", "name"]);
    pods.ok().trim().to_owned()
}

#[tokio::test]
async fn state_at_an_http_service_outlives_the_pod_and_a_service_that_is_away_is_the_cause() {
    outlives_the_pod(&Elsewhere {
        server: "",
        store: "
    http:
      url: STORE
      timeout: 5s
      auth: {static: {bearer: {valueFrom: {secretKeyRef: {name: store, key: token}}}}}
      tls: {caBundle: {configMapKeyRef: {name: store-ca, key: ca.crt}}}",
        path: "/",
        start: |file, certificates| Outside::keys(file, TOKEN, certificates),
    })
    .await;
}

#[tokio::test]
async fn m18_state_at_an_mcp_server_outlives_the_pod_and_a_server_that_is_away_is_the_cause() {
    outlives_the_pod(&Elsewhere {
        server: "    - name: state
      url: STORE
      tls: {caBundle: {configMapKeyRef: {name: store-ca, key: ca.crt}}}
",
        store: " {mcp: {server: state}}",
        path: "/mcp",
        start: Outside::state,
    })
    .await;
}

async fn outlives_the_pod(elsewhere: &Elsewhere) {
    let certificates = Certificates::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.json");
    let service = (elsewhere.start)(&file, &certificates);

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
    namespace.apply(&elsewhere.agent(&service));
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
    // By what keeps the state the model could write its own history.
    let requests = asked(&namespace, &format!("elsewhere.{}", namespace.name()));
    assert!(!requests.is_empty());
    for Request { tools, .. } in requests {
        assert!(tools.iter().any(|tool| tool == "get-sum"), "{tools:?}");
        assert!(!tools.iter().any(|tool| tool.starts_with("state")), "{tools:?}");
    }
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
    let service = (elsewhere.start)(&file, &certificates);
    namespace.apply(&elsewhere.agent(&service));
    wait::for_condition(&agents, "demo", "Ready", "True", "", 2 * MINUTE).await;
    assert_eq!(call(&agent, &caller, "GetTask", &known), before);
    let said = namespace
        .kubectl(&["get", "configmaps,agents.agentd.io,pods,events", "-o", "yaml"])
        .ok()
        + &namespace.kubectl(&["logs", "deployment/demo-agent"]).ok();
    assert!(!said.contains(TOKEN), "the token is where it must not be");
}
