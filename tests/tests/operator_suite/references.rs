//! What an object refers to is watched; a status alone wakes nobody.

use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{for_condition, resources};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::harness::{LIMIT, Operator, live_name, pod_of, serve, until};
use crate::objects::{agent, remote, report, server};

/// The time in which a referrer notices.
pub(crate) const NOTICED: Duration = Duration::from_secs(5);

/// Waits until the live document of the pod says something.
pub(crate) async fn document(
    operator: &Operator,
    team: &Namespace,
    pod: &Pod,
    file: &str,
    says: impl Fn(&Value) -> bool,
) {
    let maps: Api<ConfigMap> = Api::namespaced(operator.client.clone(), team.name());
    let name = live_name(pod);
    until(maps, "agentd.io/revision", "in the document", NOTICED, |maps| {
        let text = maps.get(&name)?.data.as_ref()?.get(file)?;
        says(&serde_json::from_str(text).unwrap()).then_some(())
    })
    .await;
}

fn config_map(name: &str, key: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: NAMESPACE}}\ndata: {{{key}: '{value}'}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn r25_config_maps_created_late_changed_and_deleted() {
    let operator = Operator::start().await;
    let team = Namespace::new("r25");
    let agents = resources(&operator.client, team.name(), "Agent");
    let from = agent("triage", "").replace(
        "instruction: Help.",
        "instructionFrom: {configMapKeyRef: {name: words, key: text}}",
    );
    team.apply(&from);
    for_condition(&agents, "triage", "ResolvedRefs", "False", "RefNotFound", LIMIT).await;
    team.apply(&config_map("words", "text", "Be kind."));
    for_condition(&agents, "triage", "ResolvedRefs", "True", "", NOTICED).await;
    let up = operator.bring_up(team.name(), "triage", vec![]).await;
    let instruction =
        |text: &'static str| move |document: &Value| document["agent"]["instruction"] == json!(text);
    document(&operator, &team, &up.pod, "agentd.json", instruction("Be kind.")).await;
    team.apply(&config_map("words", "text", "Be brief."));
    document(&operator, &team, &up.pod, "agentd.json", instruction("Be brief.")).await;
    team.kubectl(&["delete", "configmap", "words"]).ok();
    let message = for_condition(&agents, "triage", "ResolvedRefs", "False", "RefNotFound", NOTICED).await;
    assert!(message.contains("words"), "{message}");
    // What runs keeps running.
    document(&operator, &team, &up.pod, "agentd.json", instruction("Be brief.")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r25_servers_and_what_they_refer_to_themselves() {
    let operator = Operator::start().await;
    let team = Namespace::new("r25");
    team.apply(&agent(
        "triage",
        "  mcpServers: [{name: web, ref: {name: search}, required: false}]",
    ));
    let agents = resources(&operator.client, team.name(), "Agent");
    for_condition(&agents, "triage", "ResolvedRefs", "False", "RefNotFound", LIMIT).await;
    let pod = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    let with_roots = remote("search", "https://search.example/mcp")
        + "  tls: {caBundle: {configMapKeyRef: {name: roots, key: ca.pem}}}\n";
    team.apply(&with_roots);
    // By way of the server.
    let message = for_condition(&agents, "triage", "ResolvedRefs", "False", "RefNotFound", NOTICED).await;
    assert!(
        message.contains("roots") || message.contains("search"),
        "{message}"
    );
    team.apply(&config_map("roots", "ca.pem", "x"));
    for_condition(&agents, "triage", "ResolvedRefs", "True", "", NOTICED).await;
    team.apply(&remote("search", "https://search.example/mcp"));
    let endpoint =
        |document: &Value| document["mcp"]["servers"][0]["endpoint"] == json!("https://search.example/mcp");
    let now = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    document(&operator, &team, &now, "agentd.json", endpoint).await;
    assert!(pod.uid().is_some());
    team.kubectl(&["delete", "mcpserver.agentd.io", "search"]).ok();
    for_condition(&agents, "triage", "ResolvedRefs", "False", "RefNotFound", NOTICED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r18_a_status_alone_wakes_nobody() {
    let operator = Operator::start().await;
    let team = Namespace::new("r18");
    team.apply(&agent(
        "triage",
        "  mcpServers: [{name: web, url: 'https://down.example/mcp'}]",
    ));
    let digest = operator.digest(team.name(), "triage", "").await;
    let pod = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    serve(&operator.client, &pod).await;
    let failed = report(&pod, &digest, vec![server("web", ServerState::Failed)]);
    operator.say(team.name(), "triage-agent", &failed).await;
    let agents = resources(&operator.client, team.name(), "Agent");
    for_condition(&agents, "triage", "ToolsReady", "False", "ServerNotReady", LIMIT).await;
    let settled = |object: Option<&kube::api::DynamicObject>| {
        let ready = object.and_then(|object| agentd_tests::wait::condition(object, "Ready"));
        ready.is_some_and(|(_, _, message)| message.starts_with("waiting for what is required"))
    };
    agentd_tests::wait::until(&agents, "triage", "settled", LIMIT, settled).await;
    // The same report again and again: nothing is written.
    let statuses = || operator.counter("agentd_operator_status_writes_total", "Agent");
    let settled = async {
        loop {
            let before = statuses().await;
            operator.say(team.name(), "triage-agent", &failed).await;
            if statuses().await == before {
                return before;
            }
        }
    };
    let before = tokio::time::timeout(LIMIT, settled).await.expect("it settles");
    for _ in 0..10 {
        operator.say(team.name(), "triage-agent", &failed).await;
    }
    assert_eq!(statuses().await, before);
    // Somebody else's status field: no reconcile follows. The one that does is another Agent's, which shows that the
    // watch has passed the change.
    let reconciles = || operator.counter("agentd_operator_reconciles_total", "controller=\"agent\"");
    let settled = reconciles().await;
    let patch = json!({"status": {"lastRun": {"id": "x"}}});
    agents
        .patch_status("triage", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    team.apply(&agent("later", "").replace("https://model", "http://model"));
    for_condition(&agents, "later", "Accepted", "False", "", LIMIT).await;
    let more = reconciles().await - settled;
    assert!(more <= 2.0, "{more} reconciles");
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_servers_that_hang_hold_nobody_up() {
    let count = if agentd_tests::cluster::is_soak() { 100 } else { 12 };
    let operator = Operator::start().await;
    let team = Namespace::new("r17");
    team.apply(&(remote("hole", "https://192.0.2.1/mcp") + &remote("tar", "https://203.0.113.7:9/mcp")));
    let uses = "  mcpServers: [{name: hole, ref: {name: hole}, required: false}, {name: tar, ref: {name: tar}, required: false}]\n  \
                store: {memory: {}}";
    let all: String = (0..count).map(|i| agent(&format!("a{i}"), uses)).collect();
    team.apply(&all);
    let begun = std::time::Instant::now();
    for i in 0..count {
        let down = ["hole", "tar"]
            .map(|name| server(name, ServerState::Connecting))
            .to_vec();
        operator.bring_up(team.name(), &format!("a{i}"), down).await;
    }
    assert!(
        begun.elapsed() < Duration::from_secs(2 * count + 20),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_longer_accepted_stays_in_the_agents_that_use_it() {
    let mut operator = Operator::start().await;
    let team = Namespace::new("standing");
    team.apply(&remote("search", "https://search.example/mcp"));
    team.apply(&agent(
        "triage",
        "  mcpServers: [{name: web, ref: {name: search}}]",
    ));
    let connected = vec![server("web", ServerState::Connected)];
    let up = operator.bring_up(team.name(), "triage", connected).await;
    let agents = resources(&operator.client, team.name(), "Agent");
    let servers = resources(&operator.client, team.name(), "McpServer");

    // A fault of the spec, and with it something that would be right.
    let broken = remote("search", "http://search.example/mcp") + "  namespacePrefix: other\n";
    team.apply(&broken);
    for_condition(&servers, "search", "Accepted", "False", "InvalidSpec", NOTICED).await;
    let note = for_condition(
        &agents,
        "triage",
        "Accepted",
        "True",
        "ServerNotAccepted",
        NOTICED,
    )
    .await;
    assert!(note.contains("`web` is used as it was before"), "{note}");
    let as_before = |document: &Value| {
        let server = &document["mcp"]["servers"][0];
        server["endpoint"] == json!("https://search.example/mcp") && server.get("ns").is_none()
    };
    document(&operator, &team, &up.pod, "agentd.json", as_before).await;
    for_condition(&agents, "triage", "Ready", "True", "Serving", NOTICED).await;

    // It is kept by what is in the cluster, not by this process.
    operator.kill().await;
    operator.resume().await;
    team.kubectl(&[
        "patch",
        "agent.agentd.io",
        "triage",
        "--type=merge",
        "-p",
        r#"{"spec":{"limits":{"steps":7}}}"#,
    ])
    .ok();
    let limited = |document: &Value| document["limits"]["run"]["steps"] == json!(7) && as_before(document);
    document(&operator, &team, &up.pod, "agentd.json", limited).await;

    team.apply(&remote("search", "https://elsewhere.example/mcp"));
    let mended = |document: &Value| {
        document["mcp"]["servers"][0]["endpoint"] == json!("https://elsewhere.example/mcp")
    };
    document(&operator, &team, &up.pod, "agentd.json", mended).await;
    for_condition(&agents, "triage", "Accepted", "True", "Accepted", NOTICED).await;
}
