//! Who may call follows what is in the cluster: Agents, ServiceAccounts and their labels, and the objects that use an
//! account themselves.

use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{for_condition, resources};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::harness::{LIMIT, Operator, pod_of, until};
use crate::objects::{agent, operated, remote};
use crate::references::{NOTICED, document};

#[tokio::test(flavor = "multi_thread")]
async fn r25_callers_come_and_go() {
    let operator = Operator::start().await;
    let team = Namespace::new("r25");
    let spec = "  a2a:\n    principals:\n      - {name: boss, agentRef: {name: boss}, role: agent}\n      \
                - {name: ci, serviceAccountRef: {name: ci}, role: user}\n      \
                - {name: people, namespace: {name: NAMESPACE, kind: Callers}, role: user}\n      \
                - {name: everyone, namespace: {name: NAMESPACE, kind: Agents}, role: agent}";
    team.apply(&agent("triage", spec));
    let pod = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    let callers = |wanted: &[(&str, &str)]| {
        let mut wanted: Vec<String> = wanted
            .iter()
            .map(|(name, account)| format!("{name} {account}"))
            .collect();
        wanted.sort();
        move |document: &Value| {
            let principals = document["a2a"]["principals"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let mut seen: Vec<String> = principals
                .iter()
                .map(|one| {
                    let id = one["spiffe_id"].as_str().unwrap().rsplit('/').next().unwrap();
                    let name = one["name"]
                        .as_str()
                        .unwrap()
                        .split(['/', '#', ' ', '.'])
                        .next()
                        .unwrap();
                    format!("{name} {id}")
                })
                .collect();
            seen.sort();
            seen == wanted
        }
    };
    let look = async |wanted: &[(&str, &str)]| {
        document(&operator, &team, &pod, "agentd.json", callers(wanted)).await
    };
    look(&[("everyone", "triage-agent")]).await;
    team.apply(&agent("boss", ""));
    look(&[
        ("boss", "boss-agent"),
        ("everyone", "boss-agent"),
        ("everyone", "triage-agent"),
    ])
    .await;
    team.apply(&agent("boss", "  suspend: true"));
    look(&[("everyone", "triage-agent")]).await;
    team.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: ci, namespace: NAMESPACE}\n");
    team.kubectl(&["label", "serviceaccount", "ci", "agentd.io/caller=true"])
        .ok();
    look(&[("ci", "ci"), ("everyone", "triage-agent"), ("people", "ci")]).await;
    // Whoever may call finds the bundle beside his account.
    let maps: Api<ConfigMap> = Api::namespaced(operator.client.clone(), team.name());
    let bundle = until(maps.clone(), "", "published", NOTICED, |maps| {
        maps.get("agentd-bundle").cloned()
    })
    .await;
    let data = bundle.data.as_ref().unwrap();
    assert!(data["bundle.pem"].contains("BEGIN CERTIFICATE"));
    assert_eq!(
        data["audience"],
        format!("agentd:{}/plum", operator.namespace.name())
    );
    assert_eq!(bundle.owner_references()[0].kind, "ClusterRole");
    team.kubectl(&["label", "serviceaccount", "ci", "agentd.io/caller-"])
        .ok();
    look(&[("everyone", "triage-agent")]).await;
    until(maps, "", "retired", NOTICED, |maps| {
        (!maps.contains_key("agentd-bundle")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_leave_the_lists_of_what_runs_also_while_the_spec_is_wrong() {
    let operator = Operator::start().await;
    let team = Namespace::new("narrow");
    let principals = "  a2a:\n    principals:\n      - {name: boss, agentRef: {name: boss}, role: agent}\n      \
                      - {name: other, spiffeID: 'spiffe://TD/ns/a/sa/b', role: user}\n";
    let domain = operator.authority().await.trust_domain().to_string();
    let principals = &principals.replace("TD", &domain);
    team.apply(&agent("boss", ""));
    team.apply(&agent("triage", principals));
    let up = operator.bring_up(team.name(), "triage", vec![]).await;
    let count = |wanted: usize| {
        move |document: &Value| document["a2a"]["principals"].as_array().map_or(0, Vec::len) == wanted
    };
    document(&operator, &team, &up.pod, "agentd.json", count(2)).await;
    team.apply(&agent(
        "triage",
        &format!("{principals}  podTemplate: {{spec: {{}}}}\n  limits: {{steps: 3}}"),
    ));
    let agents = resources(&operator.client, team.name(), "Agent");
    for_condition(&agents, "triage", "Accepted", "False", "NotSupportedYet", LIMIT).await;
    let steps = |document: &Value| document["limits"]["run"]["steps"] != json!(3);
    document(&operator, &team, &up.pod, "agentd.json", steps).await;
    team.kubectl(&["delete", "agent.agentd.io", "boss"]).ok();
    let boss_left = |document: &Value| {
        let principals = document["a2a"]["principals"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        principals
            .iter()
            .all(|one| !one["spiffe_id"].as_str().unwrap().ends_with("boss-agent"))
    };
    document(&operator, &team, &up.pod, "agentd.json", boss_left).await;
    document(&operator, &team, &up.pod, "agentd.json", count(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_lets_in_the_agents_that_reference_it_and_only_them() {
    let operator = Operator::start().await;
    let team = Namespace::new("bridge");
    team.apply(&operated("fs"));
    let pod = pod_of(&operator.client, team.name(), "agentd.io/mcp-server=fs", None).await;
    let allowed = |wanted: &'static [&'static str]| {
        move |document: &Value| {
            let ids = document["allowed"].as_array().cloned().unwrap_or_default();
            let names: Vec<_> = ids
                .iter()
                .map(|id| id.as_str().unwrap().rsplit('/').next().unwrap().to_owned())
                .collect();
            names == wanted
        }
    };
    document(&operator, &team, &pod, "bridge.json", allowed(&[])).await;
    let uses = "  mcpServers: [{name: fs, ref: {name: fs}}]";
    team.apply(&agent("triage", uses));
    team.apply(&agent("other", ""));
    document(&operator, &team, &pod, "bridge.json", allowed(&["triage-agent"])).await;
    team.apply(&agent("other", uses));
    document(
        &operator,
        &team,
        &pod,
        "bridge.json",
        allowed(&["other-agent", "triage-agent"]),
    )
    .await;
    team.apply(
        &(operated("fs")
            + &format!(
                "  allowedAgents: {{agents: [{{namespace: {}, name: other}}]}}\n",
                team.name()
            )),
    );
    document(&operator, &team, &pod, "bridge.json", allowed(&["other-agent"])).await;
    let agents = resources(&operator.client, team.name(), "Agent");
    let message = for_condition(
        &agents,
        "triage",
        "ResolvedRefs",
        "False",
        "RefNotPermitted",
        NOTICED,
    )
    .await;
    assert!(message.contains("fs"), "{message}");
    team.kubectl(&["delete", "agent.agentd.io", "other"]).ok();
    document(&operator, &team, &pod, "bridge.json", allowed(&[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r25_an_account_that_a_server_takes_is_no_caller_until_it_is_given_back() {
    let operator = Operator::start().await;
    let team = Namespace::new("r25");
    let account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: ACCOUNT, namespace: NAMESPACE, \
                   labels: {agentd.io/caller: 'true'}}\n";
    team.apply(&(account.replace("ACCOUNT", "fs-mcp") + &account.replace("ACCOUNT", "late-agent")));
    let spec = "  a2a:\n    principals:\n      \
                - {name: people, namespace: {name: NAMESPACE, kind: Callers}, role: user}";
    team.apply(&agent("triage", spec));
    let pod = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    let look = async |wanted: &'static [&'static str]| {
        let says = |document: &Value| {
            let principals = document["a2a"]["principals"].as_array();
            let ids = principals.into_iter().flatten();
            ids.map(|one| one["spiffe_id"].as_str().unwrap().rsplit('/').next().unwrap())
                .eq(wanted.iter().copied())
        };
        document(&operator, &team, &pod, "agentd.json", says).await;
    };
    look(&["fs-mcp", "late-agent"]).await;
    team.apply(&remote("fs", "https://fs.example/mcp"));
    team.apply(&agent("late", ""));
    look(&["fs-mcp"]).await;
    team.kubectl(&["delete", "mcpserver.agentd.io", "fs"]).ok();
    team.apply(&operated("fs"));
    look(&[]).await;
    team.kubectl(&["delete", "agent.agentd.io", "late"]).ok();
    team.kubectl(&["delete", "mcpserver.agentd.io", "fs"]).ok();
    look(&["fs-mcp", "late-agent"]).await;
}
