//! The contract between what is rendered and the runtime: the very loader of `agentd` reads what the operator writes, for
//! every field, and an optional field that is left out is left out of the document too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use agentd_config::live::Live;
use agentd_config::load::{self, Layers};
use agentd_config::{BridgeDocument, Document};
use agentd_operator::controllers::{agent, mcp_server};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::agent::agent as agent_with;
use crate::fields::{AGENT, Field, SERVER};
use crate::mcp_server::server as server_with;
use crate::world::{World, fixture, install};

/// A pair of ConfigMaps as its pod has it: a file, and a folder at one moment.
fn mounted(config: &ConfigMap, live: &ConfigMap, file: &str) -> (PathBuf, Live) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "contract-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(file);
    std::fs::write(&path, &config.data.as_ref().unwrap()[file]).unwrap();
    let files: BTreeMap<String, Vec<u8>> = live
        .data
        .iter()
        .flatten()
        .map(|(name, text)| (name.clone(), text.clone().into_bytes()))
        .collect();
    let digest = agentd_base::digest::of_files(&files);
    (
        path,
        Live {
            folder,
            files,
            digest,
        },
    )
}

/// The texts of a pair, opened; none holds a null, which would take a key away where halves are merged.
#[track_caller]
fn without_null(maps: [&ConfigMap; 2], file: &str) -> [Value; 2] {
    fn nulls(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(path.to_owned()),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    nulls(&format!("{path}[{at}]"), item, found);
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    nulls(&format!("{path}.{key}"), field, found);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    maps.map(|map| {
        let text: Value = serde_json::from_str(&map.data.as_ref().unwrap()[file]).unwrap();
        let mut found = Vec::new();
        nulls("", &text, &mut found);
        assert_eq!(found, Vec::<String>::new(), "{text}");
        text
    })
}

/// What the runtime makes of an Agent's pair, and the pair.
fn run_agent(world: &World) -> (Document, [Value; 2]) {
    let validated = agent::validate::validate(&world.agent_inputs(&install()), &install()).unwrap();
    let objects = agent::build::build(&validated, &install()).unwrap();
    let texts = without_null([&objects.config, &objects.live], "agentd.json");
    let (path, live) = mounted(&objects.config, &objects.live, "agentd.json");
    assert_eq!(live.digest, objects.config_digest);
    let layers = Layers {
        files: vec![path.clone()],
        ..Layers::default()
    };
    let loaded = load::reload(&layers, Some(live)).unwrap_or_else(|errors| panic!("{errors}"));
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    (loaded.document, texts)
}

/// The same of a server that the operator runs.
fn run_bridge(world: &World) -> Option<BridgeDocument> {
    let validated = mcp_server::validate::validate(&world.server_inputs(), &install()).unwrap();
    let objects = mcp_server::build::build(&validated, &install()).unwrap()?;
    without_null([&objects.config, &objects.live], "bridge.json");
    let (path, live) = mounted(&objects.config, &objects.live, "bridge.json");
    let loaded = load::reload_bridge(std::slice::from_ref(&path), Some(live));
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    Some(loaded.document)
}

/// The specs with and without each field that is honoured.
fn honoured(table: &'static [Field]) -> impl Iterator<Item = Value> {
    // Those that the runtime does not read yet are refused, here as there.
    let is_read = |field: &&Field| {
        let spec = || serde_saphyr::from_str(field.with).unwrap();
        field.awaited.is_none() || crate::world::render_agent(&agent_with(spec()), &install()).is_ok()
    };
    let specs = table
        .iter()
        .filter(|field| field.refused.is_none())
        .filter(is_read);
    specs
        .flat_map(|field| [field.without, field.with])
        .map(|text| serde_saphyr::from_str(text).unwrap())
}

#[test]
fn field_m10_every_field_of_an_agent_is_read_by_the_runtime() {
    for spec in honoured(AGENT) {
        run_agent(&agent_with(spec));
    }
    for name in ["minimal", "full"] {
        run_agent(&World::parse(&fixture(&format!("agent/{name}.yaml"))));
    }
}

#[test]
fn field_m10_every_field_of_an_mcp_server_is_read_by_bridge_and_agents() {
    for spec in honoured(SERVER) {
        let mut world = server_with(spec);
        run_bridge(&world);
        world
            .agents
            .retain(|agent| agent.metadata.name.as_deref() == Some("triage"));
        run_agent(&world);
    }
}

/// A list that is left out is absent, and one that is empty is empty, all the way into the runtime's own types.
#[test]
fn field_m10_an_omitted_list_never_becomes_null() {
    let server = |rest: Value| {
        let mut server = json!({ "name": "s", "url": "https://s.example/mcp" });
        crate::world::patch(&mut server, &rest);
        json!({ "mcpServers": [server] })
    };
    let oauth = |rest: Value| {
        let secret = json!({ "valueFrom": { "secretKeyRef": { "name": "a", "key": "b" } } });
        let mut client = json!({ "clientID": "me", "clientSecret": secret });
        crate::world::patch(&mut client, &rest);
        server(json!({ "auth": { "oauth2": client } }))
    };
    let first = "/mcp/servers/0";
    let cases = [
        (server(json!({})), "/allow", None),
        (server(json!({ "tools": {} })), "/allow", None),
        (
            server(json!({ "tools": { "allow": [] } })),
            "/allow",
            Some(json!([])),
        ),
        (
            server(json!({ "tools": { "allow": ["a"] } })),
            "/allow",
            Some(json!(["a"])),
        ),
        (server(json!({ "tools": { "deny": [] } })), "/exclude", None),
        (
            server(json!({ "tools": { "deny": ["a"] } })),
            "/exclude",
            Some(json!(["a"])),
        ),
        (server(json!({ "headers": [] })), "/headers", None),
        (server(json!({ "tags": [], "toolTags": [] })), "/tags", None),
        (
            server(json!({ "toolTags": [{ "name": "x", "tags": [] }] })),
            "/tags",
            Some(json!({ "x": [] })),
        ),
        (
            server(json!({ "tags": ["egress"] })),
            "/tags",
            Some(json!({ "*": ["egress"] })),
        ),
        (oauth(json!({})), "/auth/oauth2/scopes", None),
        (oauth(json!({ "scopes": [] })), "/auth/oauth2/scopes", None),
        (
            oauth(json!({ "scopes": ["read"] })),
            "/auth/oauth2/scopes",
            Some(json!(["read"])),
        ),
    ];
    for (spec, path, expected) in cases {
        let (document, [_, live]) = run_agent(&agent_with(spec.clone()));
        let entry = live.pointer(first).unwrap();
        assert_eq!(entry.pointer(path), expected.as_ref(), "{spec}");
        let read = serde_json::to_value(&document.mcp.servers[0]).unwrap();
        assert_eq!(read, *entry, "{spec}");
    }
    for spec in [
        json!({}),
        json!({ "mcpServers": [] }),
        json!({ "a2a": { "principals": [] } }),
    ] {
        let (document, [_, live]) = run_agent(&agent_with(spec.clone()));
        assert_eq!(live.pointer("/mcp/servers"), None, "{spec}");
        assert_eq!(live.pointer("/a2a/principals"), None, "{spec}");
        assert!(
            document.mcp.servers.is_empty() && document.a2a.principals.is_empty(),
            "{spec}"
        );
    }
    let bridge = run_bridge(&server_with(json!({ "allowedAgents": { "agents": [] } }))).unwrap();
    assert_eq!(bridge.allowed, Vec::<String>::new());
}

#[test]
fn oauth2_and_tags_arrive_as_the_runtime_reads_them() {
    use agentd_config::document::{Auth, OAuth2Auth, Tag};

    let (document, _) = run_agent(&World::parse(&fixture("agent/full.yaml")));
    let server = |name: &str| {
        document
            .mcp
            .servers
            .iter()
            .find(|server| server.name == name)
            .unwrap()
    };
    let mail = server("mail");
    assert_eq!(
        mail.connection.auth,
        Some(Auth::OAuth2(OAuth2Auth {
            client_id: "triage".to_owned(),
            client_secret: Some("{{secret-file:/etc/agentd/secrets/mail-client/secret}}".to_owned()),
            client_key: None,
            scopes: vec!["mail:read".to_owned(), "mail:send".to_owned()],
            token_endpoint: Some("https://login.example:9443/token".to_owned()),
            issuer: None,
            resource: None,
        }))
    );
    assert_eq!(
        mail.tags,
        BTreeMap::from([
            ("*".to_owned(), vec![Tag::UntrustedInput, Tag::Sensitive]),
            ("send_*".to_owned(), vec![Tag::Egress]),
        ])
    );
    // What an McpServer says of itself arrives at whoever references it.
    let desk = server("desk");
    let Some(Auth::OAuth2(client)) = &desk.connection.auth else {
        panic!("{desk:?}");
    };
    assert_eq!(
        (&client.token_endpoint, client.issuer.as_deref()),
        (&None, Some("https://login.example"))
    );
    assert_eq!(desk.tags, BTreeMap::from([("*".to_owned(), vec![Tag::Egress])]));
    assert_eq!(
        document.mcp.tools_refresh,
        agentd_config::document::ToolsRefresh::Live
    );
}
