//! McpServers.

use agentd_operator::controllers::mcp_server::{build, validate};
use serde_json::{Value, json};

use crate::world::{World, fixture, install, messages, patch, render_server};

/// `run.yaml` with a change of its spec.
pub(crate) fn server(change: Value) -> World {
    let text = fixture("mcp_server/run-full.yaml");
    let mut documents: Vec<Value> = text
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect();
    documents[0]["spec"] = json!({ "deployment": { "image": "registry.example/mcp-fs:1.2" } });
    patch(&mut documents[0]["spec"], &change);
    World::of(documents)
}

fn refused(change: Value) -> Vec<String> {
    match render_server(&server(change), &install()) {
        Ok(_) => Vec::new(),
        Err(rejected) => messages(&rejected.problems),
    }
}

#[test]
fn goldens() {
    for name in ["run", "run-full"] {
        let world = World::parse(&fixture(&format!("mcp_server/{name}.yaml")));
        let objects =
            render_server(&world, &install()).unwrap_or_else(|rejected| panic!("{name}: {rejected:#?}"));
        insta::assert_yaml_snapshot!(format!("mcp-server-{name}"), objects);
    }
}

#[test]
fn r03_a_thousand_renders_are_the_same_bytes() {
    let world = World::parse(&fixture("mcp_server/run-full.yaml"));
    let first = render_server(&world, &install()).unwrap().to_string();
    for _ in 0..1000 {
        assert_eq!(render_server(&world, &install()).unwrap().to_string(), first);
    }
}

#[test]
fn r12_replicas_that_are_not_set_are_not_written() {
    let replicas = |change: Value| {
        render_server(&server(change), &install()).unwrap()["deployment"]["spec"]
            .get("replicas")
            .cloned()
    };
    assert_eq!(replicas(json!({})), None);
    assert_eq!(
        replicas(json!({ "deployment": { "replicas": 0 } })),
        Some(json!(0))
    );
}

#[test]
fn a_remote_server_makes_nothing() {
    let remote = json!({ "deployment": null, "endpoint": "https://x.example/mcp" });
    assert_eq!(
        render_server(&server(remote), &install()).unwrap(),
        json!({ "url": "https://x.example/mcp" })
    );
}

#[test]
fn only_the_bridge_holds_token_and_bundle() {
    let world = server(json!({}));
    let validated = validate::validate(&world.server_inputs(), &install()).unwrap();
    let objects = build::build(&validated, &install()).unwrap().unwrap();
    let pod = objects.deployment.spec.unwrap().template.spec.unwrap();
    let mounts = |name: &str| {
        let container = pod
            .containers
            .iter()
            .find(|container| container.name == name)
            .unwrap();
        container
            .volume_mounts
            .iter()
            .flatten()
            .map(|mount| mount.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(mounts("server"), ["server-tmp"]);
    assert_eq!(mounts("bridge"), ["config", "live", "token", "tmp"]);
    assert_eq!(pod.automount_service_account_token, Some(false));
}

#[test]
fn who_may_call() {
    let allowed = |change: Value| {
        render_server(&server(change), &install()).unwrap()["live"]["data"]["bridge.json"]["allowed"].clone()
    };
    let (triage, other, ann) = (
        "spiffe://td.example/ns/support/sa/triage-agent",
        "spiffe://td.example/ns/support/sa/other-agent",
        "spiffe://td.example/ns/desk/sa/ann",
    );
    assert_eq!(allowed(json!({})), json!([other, triage]));
    let one = json!([{ "namespace": "support", "name": "triage" }]);
    assert_eq!(
        allowed(json!({ "allowedAgents": { "agents": one } })),
        json!([triage])
    );
    assert_eq!(allowed(json!({ "allowedAgents": { "agents": [] } })), json!([]));
    assert_eq!(
        allowed(json!({ "allowedAgents": { "agents": [], "spiffeIDs": [ann] } })),
        json!([ann])
    );
    assert_eq!(
        allowed(json!({ "allowedAgents": { "spiffeIDs": [ann] } })),
        json!([ann, other, triage])
    );
    let unreferenced = json!([{ "namespace": "support", "name": "nobody" }]);
    assert_eq!(
        allowed(json!({ "allowedAgents": { "agents": unreferenced } })),
        json!([])
    );
}

/// An agent that left the list leaves what runs, also when the spec is wrong otherwise.
#[test]
fn a_rejected_server_still_says_who_may_call() {
    let change = json!({ "tools": { "pin": true }, "allowedAgents": { "agents": [{ "namespace": "support", "name": "triage" }] } });
    let rejected = render_server(&server(change), &install()).unwrap_err();
    assert_eq!(
        messages(&rejected.problems),
        ["NotSupportedYet: spec.tools.pin is not supported yet; remove it"]
    );
    assert_eq!(
        rejected.allowed,
        ["spiffe://td.example/ns/support/sa/triage-agent"]
    );
}

#[test]
fn refusals_name_field_and_remedy() {
    let cases = [
        (
            json!({ "deployment": null, "endpoint": "http://mcp.example/mcp" }),
            "InvalidSpec: mcp.servers[fs].endpoint: is plain http to another host; use https; http is for loopback only",
        ),
        (
            json!({ "deployment": null, "endpoint": "https://x.example", "allowedAgents": { "spiffeIDs": ["spiffe://td.example/ns/a/sa/b"] } }),
            "InvalidSpec: spec.allowedAgents.spiffeIDs: has no effect on a server that runs elsewhere; remove it",
        ),
        (
            json!({ "allowedAgents": { "spiffeIDs": ["spiffe://other/ns/a/sa/b"] } }),
            "InvalidSpec: spec.deployment: allowed[0]: is of another trust domain, which this installation does not know; use an ID of td.example",
        ),
        (
            json!({ "allowedAgents": { "agents": [{ "namespace": "elsewhere", "name": "x" }] } }),
            "NotSupportedYet: spec.allowedAgents.agents[elsewhere/x] in another namespace is not supported yet; remove it",
        ),
        (
            json!({ "deployment": { "path": "mcp" } }),
            "InvalidSpec: spec.deployment: upstream_path: is not a path; write such as /mcp",
        ),
        (
            json!({ "deployment": null, "endpoint": "https://x.example", "headers": [{ "name": "X-A", "value": "one" }, { "name": "x-a", "value": "two" }] }),
            "InvalidSpec: spec.headers[x-a]: is the same header as X-A, whatever the case; keep one of the two",
        ),
        (
            json!({ "timeout": "0s" }),
            "InvalidSpec: mcp.servers[fs].timeout: is zero; give it some time, such as 30s",
        ),
        (
            json!({ "namespacePrefix": "a.b" }),
            "InvalidSpec: mcp.servers[fs].ns: is not a prefix; use at most 46 letters, digits, `-`, `_`",
        ),
    ];
    for (change, expected) in cases {
        let got = refused(change.clone());
        assert!(
            got.iter().any(|message| message == expected),
            "{change}\n  {got:?}"
        );
    }
}

#[test]
fn a_config_map_that_is_missing_is_named() {
    let env = json!([{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "nowhere", "key": "k" } } }]);
    let rejected = render_server(&server(json!({ "deployment": { "env": env } })), &install()).unwrap_err();
    assert!(rejected.problems.is_empty());
    assert_eq!(
        messages(&rejected.unresolved),
        ["RefNotFound: ConfigMap nowhere does not exist (spec.deployment.env[A]); create it"]
    );
}
