//! What of an Agent is refused, with which words.

use serde_json::{Value, json};

use crate::agent::agent;
use crate::world::{install, messages, patch, render_agent};

fn refused(change: Value) -> Vec<String> {
    match render_agent(&agent(change), &install()) {
        Ok(_) => Vec::new(),
        Err(rejected) => messages(&rejected.problems),
    }
}

/// The texts are the runtime's own: `agentd` prints the same lines and exits 2.
#[test]
fn faults_have_the_text_of_the_runtime() {
    let servers = |name: &str, url: &str| json!({ "mcpServers": [{ "name": name, "url": url }] });
    let http = refused(servers("fs", "http://mcp.example/mcp"));
    assert_eq!(
        http,
        [
            "InvalidSpec: mcp.servers[fs].endpoint: is plain http to another host; use https; http is for loopback only"
        ]
    );
    let loopback = refused(servers("fs", "http://127.0.0.1:3000/mcp"));
    assert_eq!(
        loopback,
        [
            "InvalidSpec: mcp.servers[fs].endpoint: is on the pod's own loopback, where nothing but the agent listens; name a Service by https, or let the operator run the server (McpServer `deployment`)"
        ]
    );
    let nameless = refused(servers("", "https://mcp.example/mcp"));
    assert_eq!(
        nameless,
        ["InvalidSpec: mcp.servers[0].name: is empty; give it a name"]
    );
    let model = refused(json!({ "intelligence": { "model": null } }));
    assert_eq!(
        model,
        [
            "InvalidSpec: intelligence.model: is missing: there is no default model; set it to a name that the endpoint knows"
        ]
    );
    let foreign = refused(
        json!({ "a2a": { "principals": [{ "name": "x", "role": "user", "spiffeID": "spiffe://other/ns/a/sa/b" }] } }),
    );
    assert_eq!(
        foreign,
        [
            "InvalidSpec: a2a.principals[x].spiffe_id: is of another trust domain, which this installation does not know; use an ID of td.example"
        ]
    );
    let rendered = |endpoint: &str| {
        let document = agentd_config::Document {
            mcp: agentd_config::document::Mcp {
                servers: vec![agentd_config::document::McpServer {
                    name: "fs".into(),
                    endpoint: endpoint.into(),
                    ..agentd_config::document::McpServer::default()
                }],
                ..agentd_config::document::Mcp::default()
            },
            ..agentd_config::Document::default()
        };
        let faults = agentd_config::validate::validate(&document, agentd_config::endpoint::Place::Machine);
        faults
            .iter()
            .filter(|fault| fault.key.starts_with("mcp."))
            .map(|fault| format!("InvalidSpec: {fault}"))
            .collect::<Vec<_>>()
    };
    for endpoint in [
        "",
        "ftp://x",
        "not a url",
        "https://user:pass@host/",
        "http://mcp.example/mcp",
        "https://169.254.169.254/",
    ] {
        assert_eq!(refused(servers("fs", endpoint)), rendered(endpoint), "{endpoint}");
    }
}

#[test]
fn credentials_stay_in_secrets() {
    let server = |rest: Value| {
        let mut one = json!({ "name": "s", "url": "https://s.example/mcp" });
        patch(&mut one, &rest);
        json!({ "mcpServers": [one] })
    };
    let literal = refused(server(
        json!({ "headers": [{ "name": "Authorization", "value": "Bearer abc" }] }),
    ));
    assert_eq!(
        literal,
        [
            "InvalidSpec: spec.mcpServers[s].headers[Authorization].value: is a literal under a name that holds credentials; put it into a Secret and use valueFrom.secretKeyRef"
        ]
    );
    let token = refused(server(
        json!({ "headers": [{ "name": "X-Any", "value": "{{secret-file:/var/run/agentd/token/token}}" }] }),
    ));
    assert!(token[0].contains("holds `{{`"), "{token:?}");
    let twice = json!({ "headers": [{ "name": "X-A", "value": "one" }, { "name": "x-a", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }] });
    assert_eq!(
        refused(server(twice)),
        [
            "InvalidSpec: spec.mcpServers[s].headers[x-a]: is the same header as X-A, whatever the case; keep one of the two"
        ]
    );
    let outside = json!({ "auth": { "static": { "bearer": { "valueFrom": { "secretKeyRef": { "name": "s", "key": "../../token" } } } } } });
    assert!(refused(server(outside))[0].contains("letters, digits"));
    for text in [
        "{{secret-file:/var/run/agentd/token/token}}",
        " {{secret:AGENTD_POD_UID}}\n",
    ] {
        assert!(refused(json!({ "instruction": text }))[0].contains("is a secret reference"));
    }
}

#[test]
fn a_config_map_that_is_missing_blocks_and_says_which_key() {
    let from = |name: &str, key: &str| json!({ "instruction": null, "instructionFrom": { "configMapKeyRef": { "name": name, "key": key } } });
    for (name, key, expected) in [
        (
            "nowhere",
            "k",
            "RefNotFound: ConfigMap nowhere does not exist (spec.instructionFrom); create it",
        ),
        (
            "instructions",
            "k",
            "RefNotFound: ConfigMap instructions has no key k (spec.instructionFrom); add it",
        ),
    ] {
        let rejected = render_agent(&agent(from(name, key)), &install()).unwrap_err();
        assert!(rejected.problems.is_empty(), "{:?}", rejected.problems);
        assert_eq!(messages(&rejected.unresolved), [expected]);
    }
    let tls = json!({ "caBundle": { "configMapKeyRef": { "name": "nowhere", "key": "k" } } });
    let rejected = render_agent(
        &agent(json!({ "mcpServers": [{ "name": "s", "url": "https://s.example", "tls": tls }] })),
        &install(),
    )
    .unwrap_err();
    assert_eq!(
        messages(&rejected.unresolved),
        ["RefNotFound: ConfigMap nowhere does not exist (spec.mcpServers[s].tls.caBundle); create it"]
    );
}

/// An ID that left a spec which is wrong otherwise leaves what runs.
#[test]
fn a_rejected_agent_still_says_who_may_call() {
    let change = json!({
        "workflows": [{ "name": "x" }],
        "a2a": { "principals": [{ "name": "boss", "agentRef": { "name": "boss" }, "role": "agent" }] }
    });
    let rejected = render_agent(&agent(change), &install()).unwrap_err();
    assert_eq!(
        messages(&rejected.problems),
        ["NotSupportedYet: spec.workflows is not supported yet; remove it"]
    );
    let ids: Vec<&str> = rejected
        .principals
        .iter()
        .map(|principal| principal.spiffe_id.as_deref().unwrap())
        .collect();
    assert_eq!(ids, ["spiffe://td.example/ns/support/sa/boss-agent"]);
}

#[test]
fn a_document_that_is_too_large_is_refused() {
    let servers: Vec<Value> = (0..64)
        .map(|index| {
            let headers: Vec<Value> = (0..32)
                .map(|header| json!({ "name": format!("X-{header}"), "value": "v".repeat(4000) }))
                .collect();
            json!({ "name": format!("s{index}"), "url": "https://s.example/mcp", "headers": headers })
        })
        .collect();
    let problems = refused(json!({ "mcpServers": servers }));
    assert!(problems[0].starts_with("ConfigTooLarge: "), "{problems:?}");
}

#[test]
fn keys_of_ours_cannot_be_set() {
    let problems = refused(
        json!({ "serviceAccount": { "labels": { "agentd.io/caller": "true" }, "annotations": { "agentd.io/x": "y" } } }),
    );
    assert_eq!(
        problems,
        [
            "InvalidSpec: spec.serviceAccount.annotations[agentd.io/x]: belongs to the operator; remove it",
            "InvalidSpec: spec.serviceAccount.labels[agentd.io/caller]: belongs to the operator; remove it",
        ]
    );
}

/// The API server answers such a Deployment with an error of its own, which is tried again.
#[test]
fn amounts_that_kubernetes_cannot_read_are_named() {
    let resources = json!({ "limits": { "memory": "lots" }, "requests": { "cpu": "500m" } });
    let fault = |path: &str| {
        format!(
            "InvalidSpec: spec.{path}.limits[memory]: `lots` is no amount; write a number with a unit, such as 500m, 2 or 1Gi"
        )
    };
    assert_eq!(refused(json!({ "resources": resources })), [fault("resources")]);
    let server = crate::mcp_server::server(json!({ "deployment": { "resources": resources } }));
    let rejected = crate::world::render_server(&server, &install())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(messages(&rejected.problems), [fault("deployment.resources")]);
}

#[test]
fn untrusted_input_sensitive_data_and_a_way_out_do_not_meet_in_one_agent() {
    let servers = |mail: Value| {
        let mut one = json!({ "name": "mail", "url": "https://mail.example/mcp", "tags": ["sensitive"],
            "toolTags": [{ "name": "send_*", "tags": ["egress"] }] });
        patch(&mut one, &mail);
        json!({ "mcpServers": [one, { "name": "web", "url": "https://web.example/mcp" }] })
    };
    assert_eq!(
        refused(servers(json!({}))),
        [
            "LethalTrifecta: untrusted_input by web, sensitive by mail and egress by mail/send_* meet in one agent; keep one out by tools.deny, or set spec.security.allowTrifecta"
        ]
    );
    // A person can say that it may be, keep a leg out, or say that the untagged server is harmless.
    let mut allowed = servers(json!({}));
    patch(&mut allowed, &json!({ "security": { "allowTrifecta": true } }));
    assert_eq!(refused(allowed), Vec::<String>::new());
    assert_eq!(
        refused(servers(json!({ "tools": { "deny": ["send_*"] } }))),
        Vec::<String>::new()
    );
    let mut harmless = servers(json!({}));
    harmless["mcpServers"][1]["toolTags"] = json!([{ "name": "*", "tags": [] }]);
    assert_eq!(refused(harmless), Vec::<String>::new());
    // What an McpServer says of itself counts as what an inline one says.
    let by_reference = json!({ "mcpServers": [
        { "name": "desk", "ref": { "name": "desk" } },
        { "name": "mail", "url": "https://mail.example/mcp", "tags": ["sensitive", "untrusted_input"] },
    ]});
    assert_eq!(refused(by_reference).len(), 1);
}

#[test]
fn a_store_needs_its_server() {
    let store = |servers: Value| json!({ "store": { "mcp": { "server": "kept" } }, "mcpServers": servers });
    let missing = refused(store(json!([])));
    assert!(
        missing.contains(
            &"InvalidSpec: spec.store.mcp.server: `kept` is not in spec.mcpServers; add the server there"
                .to_owned()
        ),
        "{missing:?}"
    );
    let rejected = render_agent(
        &agent(store(json!([{ "name": "kept", "ref": { "name": "nowhere" } }]))),
        &install(),
    )
    .unwrap_err();
    let unresolved = messages(&rejected.unresolved);
    assert!(
        unresolved.contains(
            &"RefNotFound: the store's server `kept` is not used: McpServer nowhere does not exist (spec.mcpServers[kept]); create it or remove the entry"
                .to_owned()
        ),
        "{unresolved:?}"
    );
}
