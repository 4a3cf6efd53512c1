//! What an agent may do is decided on a real node too: by the tags of its servers before it has a pod, and by its budget
//! before its model is asked.

use std::time::Duration;

use agentd_tests::caller::{Agent, ask, call, fetch_identity};
use agentd_tests::cluster::cluster;
use agentd_tests::model::asked;
use agentd_tests::namespace::Namespace;
use agentd_tests::samples::{reach_outside, sample};
use agentd_tests::wait;
use kube::api::DynamicObject;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);

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
    model: policies.NAMESPACE
  mcpServers:
    - name: everything
      ref: {name: everything}
    - name: remote
      ref: {name: remote}
  a2a:
    principals:
      - {name: caller, serviceAccountRef: {name: caller}, role: user}
  store: {memory: {}}
"#;

/// A namespace with everything that the agent refers to. The server that the operator runs is tagged, the other is not,
/// and so counts as one that brings in text of strangers.
fn furnished(prefix: &str, tags: &str) -> Namespace {
    let namespace = Namespace::new(prefix);
    reach_outside(namespace.name());
    for file in ["caller.yaml", "mcpserver-remote.yaml"] {
        namespace.apply(&sample(namespace.name(), file));
    }
    let tagged = format!("spec:\n  tags: {tags}\n");
    namespace.apply(&sample(namespace.name(), "mcpserver-everything.yaml").replace("spec:\n", &tagged));
    namespace
}

#[tokio::test]
async fn servers_whose_tags_make_the_lethal_trifecta_get_no_pod_and_one_that_is_allowed_to_says_so() {
    let namespace = furnished("trifecta", "[sensitive, egress]");
    namespace.apply(AGENT);
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    let refused = wait::for_condition(&agents, "demo", "Accepted", "False", "LethalTrifecta", LIMIT).await;
    let legs =
        "untrusted_input by remote, sensitive by everything and egress by everything meet in one agent";
    assert_eq!(
        refused,
        format!("{legs}; keep one out by tools.deny, or set spec.security.allowTrifecta")
    );
    for (condition, status) in [("Ready", "False"), ("Stalled", "True")] {
        wait::for_condition(&agents, "demo", condition, status, "LethalTrifecta", LIMIT).await;
    }
    let made = namespace.kubectl(&[
        "get",
        "deployments,pods",
        "-l",
        "agentd.io/agent=demo",
        "-o",
        "name",
    ]);
    assert_eq!(made.ok(), "");

    namespace.apply(&format!("{AGENT}  security: {{allowTrifecta: true}}\n"));
    wait::for_condition(&agents, "demo", "Ready", "True", "", LIMIT).await;
    let lines = namespace.kubectl(&["logs", "deployment/demo-agent"]).ok();
    let audited: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a JSON line"))
        .filter(|line| line["event"] == "audit" && line["action"] == "trifecta.allowed")
        .map(|line| json!([line["principal"], line["target"], line["outcome"]]))
        .collect();
    assert_eq!(audited, [json!(["system", legs, "ok"])]);
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let answer = ask(&Agent::of(&namespace, "demo"), "What is 2 plus 40?", &caller).ok();
    assert!(answer.contains("is 42"), "{answer}");
}

#[tokio::test]
async fn a_budget_that_is_used_up_refuses_the_next_message_and_the_status_says_so_in_its_words() {
    let namespace = furnished("budget", "[]");
    // A question and what the tool said: two requests.
    let budget = "    budget: {windows: [{per: week, requests: 2}], onExhausted: refuse}\n";
    namespace.apply(&AGENT.replace("  mcpServers:\n", &format!("{budget}  mcpServers:\n")));
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    wait::for_condition(&agents, "demo", "Ready", "True", "", LIMIT).await;
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let agent = Agent::of(&namespace, "demo");
    let first = ask(&agent, "What is 2 plus 40?", &caller).ok();
    assert!(first.contains("is 42"), "{first}");

    let message = json!({"messageId": "more", "role": "ROLE_USER", "parts": [{"text": "What is 1 plus 1?"}]});
    let sent = call(&agent, &caller, "SendMessage", &json!({"message": message}));
    let spent = "the requests of this week (2, intelligence.budget) are used up";
    let status = &sent["task"]["status"];
    assert_eq!(status["state"], "TASK_STATE_REJECTED", "{sent:#}");
    assert_eq!(status["message"]["parts"], json!([{"text": spent}]), "{sent:#}");
    assert_eq!(
        asked(&namespace, &format!("policies.{}", namespace.name())).len(),
        2
    );

    // A turn that ends soon after another is told of later.
    let told = |agent: Option<&DynamicObject>| {
        agent.is_some_and(|agent| agent.data["status"]["lastRun"]["outcome"] == "refused")
    };
    let told = wait::until(&agents, "demo", "lastRun refused", LIMIT, told).await;
    let run = &told.expect("it is there").data["status"]["lastRun"];
    assert_eq!(
        (&run["reason"], &run["tokens"]),
        (&json!(spent), &json!(0)),
        "{run:#}"
    );
    // It serves on: what is refused is no fault of the pod.
    wait::for_condition(&agents, "demo", "Ready", "True", "", LIMIT).await;
}
