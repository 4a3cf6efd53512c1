//! The two halves of a document, and what changed between two.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::collections::BTreeMap;

use agentd_base::duration::Duration;
use agentd_config::Document;
use agentd_config::document::*;
use agentd_config::reload::{Changes, Halves, changed, is_reloadable, merge, merge_patch, split};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::json;

fn word() -> impl Strategy<Value = String> {
    "[a-z]{1,6}"
}

fn duration() -> impl Strategy<Value = Option<Duration>> {
    of((0u64..100_000).prop_map(Duration::secs))
}

fn connection() -> impl Strategy<Value = Connection> {
    let tls = (of(word()), of(word()), of(word()), of(word()), of(word())).prop_map(
        |(ca_file, cert, key, server_name, spiffe_id)| ClientTls {
            ca_file: ca_file.map(Into::into),
            client_cert_file: cert.map(Into::into),
            client_key_file: key.map(Into::into),
            server_name,
            spiffe_id,
        },
    );
    let oauth2 = (
        word(),
        of(word()),
        of(word()),
        vec(word(), 0..3),
        of(word()),
        of(word()),
        of(word()),
    )
        .prop_map(
            |(client_id, client_secret, client_key, scopes, token_endpoint, issuer, resource)| {
                Auth::OAuth2(OAuth2Auth {
                    client_id,
                    client_secret,
                    client_key,
                    scopes,
                    token_endpoint,
                    issuer,
                    resource,
                })
            },
        );
    let auth = prop_oneof![
        word().prop_map(|bearer| Auth::Static(StaticAuth { bearer })),
        oauth2
    ];
    (
        btree_map(word(), word(), 0..3),
        of(auth),
        of(tls),
        duration(),
        duration(),
    )
        .prop_map(|(headers, auth, tls, timeout, connect_timeout)| Connection {
            headers,
            auth,
            tls,
            timeout,
            connect_timeout,
        })
}

fn endpoint() -> impl Strategy<Value = ModelEndpoint> {
    (of(word()), word(), any::<bool>(), connection()).prop_map(|(name, url, allow_plaintext, connection)| {
        ModelEndpoint {
            name,
            url,
            allow_plaintext,
            connection,
        }
    })
}

fn server() -> impl Strategy<Value = McpServer> {
    let tag = prop_oneof![Just(Tag::UntrustedInput), Just(Tag::Sensitive), Just(Tag::Egress)];
    let tags = btree_map(word(), vec(tag, 0..3), 0..3);
    let lists = (of(vec(word(), 0..3)), vec(word(), 0..3), tags);
    (word(), word(), of(word()), lists, duration(), connection()).prop_map(
        |(name, endpoint, ns, (allow, exclude, tags), call_timeout, connection)| McpServer {
            name,
            endpoint,
            ns,
            allow,
            exclude,
            tags,
            call_timeout,
            connection,
        },
    )
}

fn a2a() -> impl Strategy<Value = A2a> {
    let role = prop_oneof![Just(Role::Agent), Just(Role::User), Just(Role::Operator)];
    let principal = (word(), word(), role).prop_map(|(name, spiffe_id, role)| Principal {
        name,
        spiffe_id,
        role,
    });
    let tls = (word(), word()).prop_map(|(cert, key)| ServerTls {
        cert: cert.into(),
        key: key.into(),
    });
    (
        of(word()),
        of(word()),
        of(tls),
        vec(principal, 0..3),
        any::<bool>(),
    )
        .prop_map(|(listen, url, tls, principals, dev)| A2a {
            listen,
            url,
            tls,
            principals,
            dev,
        })
}

fn pod() -> impl Strategy<Value = (Option<Identity>, Option<Report>)> {
    let identity = (word(), word()).prop_map(|(one, two)| Identity {
        trust_domain: one.clone(),
        spiffe_id: two.clone(),
        issuer_url: one.clone(),
        issuer_id: two.clone(),
        token_file: one.into(),
        bundle_file: two.into(),
    });
    (
        of(identity),
        of((word(), word()).prop_map(|(url, server_id)| Report { url, server_id })),
    )
}

prop_compose! {
    fn document()(
        (name, instruction, prompt) in (of(word()), of(word()), of(word())),
        (endpoints, model) in (vec(endpoint(), 0..3), of(word())),
        (default_timeout, servers, live) in (duration(), vec(server(), 0..3), any::<bool>()),
        a2a in a2a(),
        kind in of(prop_oneof![Just(StoreKind::File), Just(StoreKind::Memory)]),
        (path, tls_ca, live_folder) in (of(word()), of(word()), of(word())),
        (steps, tokens, deadline) in (of(1u32..9), of(1u64..9), duration()),
        (drain_timeout, watch_config) in (duration(), any::<bool>()),
        (identity, report) in pod(),
        log_level in of(prop_oneof![Just(LogLevel::Error), Just(LogLevel::Info), Just(LogLevel::Debug)]),
        metrics in of(1u16..9),
    ) -> Document {
        Document {
            agent: Agent { name, instruction, prompt },
            intelligence: Intelligence { endpoints, model },
            mcp: Mcp {
                default_timeout,
                servers,
                tools_refresh: if live { ToolsRefresh::Live } else { ToolsRefresh::Reload },
            },
            a2a,
            store: Store { kind, path: path.map(Into::into) },
            limits: Limits { run: RunLimits { steps, tokens, deadline } },
            lifecycle: Lifecycle { drain_timeout, live_folder: live_folder.map(Into::into), watch_config },
            identity,
            report,
            security: Security { tls_ca: tls_ca.map(Into::into) },
            observability: Observability { log_level, metrics_addr: metrics.map(|port| ([127, 0, 0, 1], port).into()) },
        }
    }
}

proptest! {
    #[test]
    fn the_halves_make_the_whole(document in document()) {
        let halves = split(&document).unwrap();
        prop_assert_eq!(&merge(&halves).unwrap(), &document);
        // As text, the way it travels.
        let travelled = Halves {
            restart_only: serde_json::from_str(&halves.restart_only.to_string()).unwrap(),
            reloadable: serde_json::from_str(&halves.reloadable.to_string()).unwrap(),
        };
        prop_assert_eq!(merge(&travelled).unwrap(), document);
    }

    #[test]
    fn a_change_shows_in_the_half_it_belongs_to(old in document(), new in document()) {
        let (left, right) = (split(&old).unwrap(), split(&new).unwrap());
        let changes = Changes::between(&old, &new).unwrap();
        prop_assert_eq!(changes.restart_only.is_empty(), left.restart_only == right.restart_only);
        prop_assert_eq!(changes.reloadable.is_empty(), left.reloadable == right.reloadable);
        prop_assert_eq!(
            changes.restart_only.len() + changes.reloadable.len(),
            changed(&old, &new).unwrap().len()
        );
    }
}

#[test]
fn changes_are_named_by_their_leaves() {
    let old = Document::default();
    let mut new = Document::default();
    new.agent.name = Some("x".into());
    new.agent.instruction = Some("y".into());
    new.limits.run.steps = Some(1);
    new.security.tls_ca = Some("/ca".into());
    new.mcp.servers.push(McpServer {
        name: "a".into(),
        ..McpServer::default()
    });
    let all = [
        "agent.name",
        "agent.instruction",
        "mcp.servers",
        "limits.run.steps",
        "security.tls_ca",
    ];
    assert_eq!(changed(&old, &new).unwrap(), all);
    assert_eq!(
        Changes::between(&old, &new).unwrap(),
        Changes {
            reloadable: ["agent.instruction", "mcp.servers", "limits.run.steps"]
                .map(str::to_owned)
                .to_vec(),
            restart_only: ["agent.name", "security.tls_ca"].map(str::to_owned).to_vec(),
        }
    );
    assert_eq!(changed(&new, &new).unwrap(), Vec::<String>::new());
    assert!(
        !is_reloadable("agent.instructions") && !is_reloadable("mcpx") && is_reloadable("mcp.servers[0]")
    );
}

#[test]
fn merge_patch_follows_the_examples_of_rfc_7396() {
    for (mut target, patch, expected) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        ),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (
            json!({}),
            json!({"a": {"bb": {"ccc": null}}}),
            json!({"a": {"bb": {}}}),
        ),
    ] {
        merge_patch(&mut target, &patch);
        assert_eq!(target, expected);
    }
}

#[test]
fn headers_of_an_entry_do_not_leak_into_the_other_half() {
    let mut document = Document::default();
    document.mcp.servers.push(McpServer {
        name: "fs".into(),
        connection: Connection {
            headers: BTreeMap::from([("X".into(), "1".into())]),
            ..Connection::default()
        },
        ..McpServer::default()
    });
    document.store.kind = Some(StoreKind::Memory);
    let halves = split(&document).unwrap();
    assert_eq!(halves.restart_only, json!({"store": {"kind": "memory"}}));
    assert_eq!(
        halves.reloadable,
        json!({"mcp": {"servers": [{"name": "fs", "endpoint": "", "headers": {"X": "1"}}]}})
    );
}

/// Every leaf of the schema, and whether a running process takes it up (contract/runtime.md section 4). A leaf that is
/// added to the document without a line here fails.
const CLASSES: [(&str, bool); 33] = [
    ("agent.name", false),
    ("agent.instruction", true),
    // Of a task that is done once, by a process that reloads nothing.
    ("agent.prompt", false),
    ("intelligence.endpoints", true),
    ("intelligence.model", true),
    ("mcp.default_timeout", true),
    ("mcp.servers", true),
    ("mcp.tools_refresh", true),
    ("a2a.listen", false),
    // In the card, which is made with the listener.
    ("a2a.url", false),
    ("a2a.tls.cert", false),
    ("a2a.tls.key", false),
    ("a2a.principals", true),
    ("a2a.dev", false),
    ("store.kind", false),
    ("store.path", false),
    ("limits.run.steps", true),
    ("limits.run.tokens", true),
    ("limits.run.deadline", true),
    ("lifecycle.drain_timeout", false),
    ("lifecycle.live_folder", false),
    ("lifecycle.watch_config", false),
    ("identity.trust_domain", false),
    ("identity.spiffe_id", false),
    ("identity.issuer_url", false),
    ("identity.issuer_id", false),
    ("identity.token_file", false),
    ("identity.bundle_file", false),
    ("report.url", false),
    ("report.server_id", false),
    ("security.tls_ca", false),
    ("observability.log_level", true),
    ("observability.metrics_addr", false),
];

#[test]
fn every_path_of_the_schema_is_reloadable_or_restart_only() {
    let leaves = agentd_config::paths::leaves();
    let found: Vec<(&str, bool)> = leaves
        .iter()
        .map(|leaf| (leaf.path.as_str(), is_reloadable(&leaf.path)))
        .collect();
    assert_eq!(found, CLASSES);
    for path in Document::RELOADABLE {
        assert!(
            leaves
                .iter()
                .any(|leaf| leaf.path == path || leaf.path.starts_with(&format!("{path}."))),
            "{path} is no path of the schema"
        );
    }
}
