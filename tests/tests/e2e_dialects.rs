//! Each wire of `intelligence.dialect` on a real node: the model is asked by it, and its tool call is carried out.

use std::time::Duration;

use agentd_tests::caller::{Agent, ask, fetch_identity};
use agentd_tests::cluster::cluster;
use agentd_tests::model::{self, asked};
use agentd_tests::namespace::Namespace;
use agentd_tests::samples::{reach_outside, sample};
use agentd_tests::wait;

const LIMIT: Duration = Duration::from_secs(120);

const AGENT: &str = r#"
apiVersion: agentd.io/v1alpha1
kind: Agent
metadata: {name: DIALECT, namespace: NAMESPACE}
spec:
  instruction: Answer.
  intelligence:
    endpoints:
      - name: gateway
        url: BASE
        auth: {static: {bearer: {valueFrom: {secretKeyRef: {name: model-token, key: token}}}}}
        tls: {caBundle: {configMapKeyRef: {name: demo-ca, key: ca.crt}}}
    model: MODEL
    dialect: DIALECT
  mcpServers:
    - name: everything
      ref: {name: everything}
  a2a:
    principals:
      - {name: caller, serviceAccountRef: {name: caller}, role: user}
  store: {memory: {}}
"#;

/// A dialect, what follows the host in the URL of its endpoint, and where it asks a model.
const WIRES: [(&str, &str, &str); 4] = [
    ("openai", "/v1", "/v1/chat/completions"),
    ("openai-responses", "/v1", "/v1/responses"),
    ("anthropic", "/v1", "/v1/messages"),
    ("bedrock", "", "/model/MODEL/converse-stream"),
];

#[tokio::test]
async fn an_agent_of_each_dialect_answers_with_what_a_tool_said() {
    let namespace = Namespace::new("dialects");
    reach_outside(namespace.name());
    for file in ["caller.yaml", "mcpserver-everything.yaml"] {
        namespace.apply(&sample(namespace.name(), file));
    }
    let model = |dialect: &str| format!("{dialect}.{}", namespace.name());
    for (dialect, base, _) in WIRES {
        namespace.apply(
            &AGENT
                .replace("MODEL", &model(dialect))
                .replace("DIALECT", dialect)
                .replace("BASE", &format!("{}{base}", model::HOST)),
        );
    }
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    for (dialect, ..) in WIRES {
        wait::for_condition(&agents, dialect, "Ready", "True", "", LIMIT).await;
    }
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    for (dialect, _, path) in WIRES {
        let answer = ask(&Agent::of(&namespace, dialect), "What is 2 plus 40?", &caller).ok();
        assert_eq!(
            answer.trim(),
            "The tool says: The sum of 2 and 40 is 42.",
            "{dialect}"
        );
        let model = model(dialect);
        let paths: Vec<_> = asked(&namespace, &model)
            .into_iter()
            .map(|request| request.path)
            .collect();
        // The call of the tool, and the answer.
        assert_eq!(
            paths,
            [path.replace("MODEL", &model), path.replace("MODEL", &model)]
        );
    }
}
