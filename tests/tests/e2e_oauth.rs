//! `auth.oauth2` on a real node: an McpServer and an inline server whose tokens come from an authorization server, both
//! programs that we did not write, outside of the nodes.

use std::time::Duration;

use agentd_tests::caller::{Agent, ask, fetch_identity};
use agentd_tests::cluster::cluster;
use agentd_tests::namespace::Namespace;
use agentd_tests::outside::{Certificates, Outside};
use agentd_tests::samples::{reach_outside, sample};
use agentd_tests::wait;
use kube::api::DynamicObject;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// A secret that the authorization server does not know, and the one that it does.
const WRONG: &str = "canary-not-the-secret";
const RIGHT: &str = "svc-secret";

/// An McpServer, and an Agent that uses it and, inline, the same server with other clocks and tags.
const OBJECTS: &str = r#"
apiVersion: agentd.io/v1alpha1
kind: McpServer
metadata: {name: guarded, namespace: NAMESPACE}
spec:
  endpoint: SERVER
  auth:
    oauth2:
      clientID: svc
      clientSecret: {valueFrom: {secretKeyRef: {name: oauth-client, key: secret}}}
      scopes: ["mcp:read"]
      tokenEndpoint: ISSUER/token
  tls: {caBundle: {configMapKeyRef: {name: oauth-ca, key: ca.crt}}}
  timeout: 20s
  connectTimeout: 5s
  callTimeout: 30s
  namespacePrefix: guarded
  tags: [untrusted_input]
  toolTags:
    - {name: "re*", tags: [sensitive, egress]}
---
apiVersion: agentd.io/v1alpha1
kind: Agent
metadata: {name: demo, namespace: NAMESPACE}
spec:
  instruction: Answer with the tools.
  # Its servers' tags give all three legs.
  security: {allowTrifecta: true}
  intelligence:
    endpoints:
      - name: gateway
        url: https://model.agentd-demo-outside.svc:8443/v1
        auth: {static: {bearer: {valueFrom: {secretKeyRef: {name: model-token, key: token}}}}}
        tls: {caBundle: {configMapKeyRef: {name: demo-ca, key: ca.crt}}}
    model: demo-model
  mcpServers:
    - name: guarded
      ref: {name: guarded}
    - name: remote
      url: SERVER
      auth:
        oauth2:
          clientID: svc
          clientSecret: {valueFrom: {secretKeyRef: {name: oauth-client, key: secret}}}
          scopes: ["mcp:read"]
          tokenEndpoint: ISSUER/token
      tls: {caBundle: {configMapKeyRef: {name: oauth-ca, key: ca.crt}}}
      timeout: 21s
      connectTimeout: 6s
      callTimeout: 31s
      namespacePrefix: remote
      tags: [egress]
      toolTags:
        - {name: who, tags: [sensitive]}
  a2a:
    principals:
      - {name: caller, serviceAccountRef: {name: caller}, role: user}
"#;

fn read(namespace: &Namespace, object: &str) -> Value {
    serde_json::from_str(&namespace.kubectl(&["get", object, "-o", "json"]).ok()).expect("JSON")
}

fn secret(namespace: &Namespace, value: &str) {
    namespace.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: oauth-client, namespace: NAMESPACE}}\nstringData: {{secret: {value}}}\n"
    ));
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

/// What the pod is told of its servers.
fn live_servers(namespace: &Namespace) -> Value {
    let maps = namespace
        .kubectl(&["get", "configmaps", "-l", "agentd.io/agent=demo", "-o", "json"])
        .ok();
    let maps: Value = serde_json::from_str(&maps).expect("JSON");
    let live = maps["items"]
        .as_array()
        .expect("items")
        .iter()
        .find(|map| {
            map["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.ends_with("-live"))
        })
        .expect("a live document");
    let document = live["data"]["agentd.json"].as_str().expect("a document");
    let document: Value = serde_json::from_str(document).expect("JSON");
    document["mcp"]["servers"].clone()
}

/// Everything in the namespace that people read, logs and events included.
fn said(namespace: &Namespace) -> String {
    let mut said = namespace
        .kubectl(&[
            "get",
            "configmaps,agents.agentd.io,mcpservers.agentd.io,deployments,pods,events",
            "-o",
            "yaml",
        ])
        .ok();
    for pod in namespace.kubectl(&["get", "pods", "-o", "name"]).ok().lines() {
        said += &namespace.kubectl(&["logs", pod, "--all-containers"]).ok();
    }
    said
}

#[tokio::test]
async fn m36_servers_with_oauth2_are_used_and_heal_when_a_wrong_secret_is_corrected() {
    let certificates = Certificates::new();
    let authorization = Outside::authorization(&certificates);
    let issuer = authorization.url("/as");
    let server = Outside::guarded(&issuer, &certificates);
    let endpoint = server.url("/mcp");

    let namespace = Namespace::new("oauth");
    reach_outside(namespace.name());
    secret(&namespace, WRONG);
    let authority = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "oauth-ca", "namespace": namespace.name()},
        "data": {"ca.crt": certificates.authority()},
    });
    namespace.apply(&authority.to_string());
    namespace.apply(&sample(namespace.name(), "caller.yaml"));
    namespace.apply(&OBJECTS.replace("SERVER", &endpoint).replace("ISSUER", &issuer));

    // Both servers are named with what the authorization server said.
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    let servers = wait::resources(&client, namespace.name(), "McpServer");
    let refused = |agent: Option<&DynamicObject>| {
        agent
            .and_then(|agent| wait::condition(agent, "ToolsReady"))
            .is_some_and(|(status, reason, message)| {
                status == "False"
                    && reason == "ServerUnauthorized"
                    && ["guarded", "remote"].iter().all(|name| message.contains(name))
            })
    };
    let what = "ToolsReady=False ServerUnauthorized for both servers";
    wait::until(&agents, "demo", what, 2 * MINUTE, refused).await;
    let message = wait::for_condition(
        &servers,
        "guarded",
        "Verified",
        "False",
        "ServerUnauthorized",
        MINUTE,
    )
    .await;
    assert!(
        message.contains("refuses the client svc: invalid_client"),
        "{message}"
    );
    // The pod reports before the kubelet says that it runs, and its log is read through the kubelet.
    namespace
        .kubectl(&[
            "wait",
            "--for=condition=Ready",
            "pods",
            "-l",
            "agentd.io/agent=demo",
            "--timeout=60s",
        ])
        .ok();
    let read_now = said(&namespace);
    assert!(read_now.contains("invalid_client"), "something was read");
    assert!(!read_now.contains(WRONG), "the secret is where it must not be");

    // The Secret is corrected, and nobody touches the pod.
    let before = pod(&namespace);
    secret(&namespace, RIGHT);
    for kind in ["Verified", "Ready"] {
        wait::for_condition(&servers, "guarded", kind, "True", "", 2 * MINUTE).await;
    }
    for kind in ["ToolsReady", "Ready"] {
        wait::for_condition(&agents, "demo", kind, "True", "", 2 * MINUTE).await;
    }
    assert_eq!(before, pod(&namespace), "the same pod, never started again");

    let status = read(&namespace, "mcpservers.agentd.io/guarded")["status"].clone();
    let tools = status["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["echo", "repeat", "who"], "{status:#}");
    for tool in tools {
        let digest = tool["digest"].as_str().expect("a digest");
        assert!(digest.starts_with("sha256:") && digest.len() == 71, "{tool}");
    }

    // What the specs say beside the credentials is what the pod is told.
    let file = "{{secret-file:/etc/agentd/secrets/oauth-client/secret}}";
    let tls = json!({"ca_file": "/etc/agentd/ca/oauth-ca/ca.crt"});
    assert_eq!(
        live_servers(&namespace),
        json!([
            {
                "name": "guarded", "endpoint": endpoint, "ns": "guarded",
                "timeout": "20s", "connect_timeout": "5s", "call_timeout": "30s", "tls": tls,
                "tags": {"*": ["untrusted_input"], "re*": ["sensitive", "egress"]},
                "auth": {"oauth2": {
                    "client_id": "svc", "client_secret": file, "scopes": ["mcp:read"], "token_endpoint": format!("{issuer}/token"),
                }},
            },
            {
                "name": "remote", "endpoint": endpoint, "ns": "remote",
                "timeout": "21s", "connect_timeout": "6s", "call_timeout": "31s", "tls": tls,
                "tags": {"*": ["egress"], "who": ["sensitive"]},
                "auth": {"oauth2": {
                    "client_id": "svc", "client_secret": file, "scopes": ["mcp:read"],
                    "token_endpoint": format!("{issuer}/token"),
                }},
            },
        ])
    );

    // The server knows by the token who speaks: by the McpServer, and by the inline one.
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let agent = Agent::of(&namespace, "demo");
    for question in ["Please echo this", "Let remote echo this"] {
        let answer = ask(&agent, question, &caller).ok();
        let said = json!({"result": format!("svc says: {question}")});
        assert_eq!(answer.trim(), format!("The tool says: {said}"));
    }
    let log = namespace.kubectl(&["logs", "deployment/demo-agent"]).ok();
    let calls: Vec<String> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["event"] == "tool.call")
        .map(|line| line["tool"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(calls.len(), 2, "{log}");

    // Neither secret and no token is where people read. A JWT begins with `eyJ`.
    let read_now = said(&namespace);
    for canary in [WRONG, RIGHT, "eyJ"] {
        assert!(!read_now.contains(canary), "{canary} is where it must not be");
    }
}
