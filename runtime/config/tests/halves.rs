//! The two halves of a document, and what changed between two.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::collections::BTreeMap;

use agentd_base::duration::Duration;
use agentd_base::rate::Rate;
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
    let oidc = (word(), word(), of(word()), btree_map(word(), word(), 0..2)).prop_map(
        |(issuer, audience, subject, claims)| Oidc {
            issuer,
            audience,
            subject,
            claims,
        },
    );
    let principal = (word(), of(word()), of(word()), of(oidc), role, of(1u32..9)).prop_map(
        |(name, spiffe_id, bearer, oidc, role, burst)| Principal {
            name,
            spiffe_id,
            bearer,
            oidc,
            role,
            quotas: Quotas {
                rate: burst.map(every_two_seconds),
            },
        },
    );
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
        promised(),
    )
        .prop_map(
            |(listen, url, tls, principals, dev, (external, skills, extensions, sign_card, push))| A2a {
                listen,
                url,
                external,
                skills,
                extensions,
                sign_card,
                push,
                tls,
                principals,
                dev,
            },
        )
}

/// What the card promises beside what every card does.
fn promised() -> impl Strategy<Value = (Option<External>, Vec<Skill>, Vec<Extension>, bool, Push)> {
    let role = || {
        of(prop_oneof![
            Just(Role::Agent),
            Just(Role::User),
            Just(Role::Operator)
        ])
    };
    let external = (word(), any::<bool>()).prop_map(|(url, secure)| External {
        tls: secure.then(|| ServerTls {
            cert: url.clone().into(),
            key: url.clone().into(),
        }),
        url,
    });
    let skill =
        (word(), vec(word(), 0..3), vec(word(), 0..3), role()).prop_map(|(id, tags, examples, role)| Skill {
            name: id.clone(),
            description: id.clone(),
            id,
            tags,
            examples,
            role,
        });
    let params = btree_map(word(), any::<i32>(), 0..3);
    let extension = (word(), of(word()), any::<bool>(), params, role()).prop_map(
        |(uri, description, required, params, role)| Extension {
            uri,
            description,
            required,
            params: params
                .into_iter()
                .map(|(name, value)| (name, value.into()))
                .collect(),
            role,
        },
    );
    (
        of(external),
        vec(skill, 0..3),
        vec(extension, 0..3),
        any::<bool>(),
        (any::<bool>(), any::<bool>()).prop_map(|(enabled, allow_private)| Push {
            enabled,
            allow_private,
        }),
    )
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

fn every_two_seconds(burst: u32) -> Rate {
    Rate {
        burst,
        per: Duration::secs(2),
    }
}

fn subagents() -> impl Strategy<Value = SubagentLimits> {
    (of(0u32..9), of(1u32..9), of(1u32..9), of(1u32..9)).prop_map(|(depth, breadth, total, burst)| {
        SubagentLimits {
            depth,
            breadth,
            total,
            rate: burst.map(every_two_seconds),
        }
    })
}

fn budget() -> impl Strategy<Value = Budget> {
    let per = prop_oneof![Just(Per::Second), Just(Per::Day), Just(Per::Week)];
    let window =
        (per, of(1u64..9), of(1u64..9), of(1u32..9)).prop_map(|(per, tokens, requests, hour)| Window {
            per,
            tokens,
            requests,
            reset: hour.map(|hour| format!("{hour:02}:30Z").parse().unwrap()),
        });
    let exhausted = prop_oneof![
        Just(Exhausted::Wait),
        Just(Exhausted::Slow),
        Just(Exhausted::Fail)
    ];
    let factor = of(1u8..9).prop_map(|tenths| tenths.map(|tenths| f64::from(tenths) / 10.0));
    (
        vec(window, 0..3),
        of(1u64..9),
        exhausted,
        factor,
        of(word()),
        of(1u64..9),
    )
        .prop_map(
            |(windows, lifetime_tokens, on_exhausted, factor, model, fixed)| Budget {
                windows,
                lifetime_tokens,
                on_exhausted,
                slow: Slow { factor },
                degrade: model.map(|model| Degrade { model }),
                reserve: Reserve { fixed },
            },
        )
}

fn context() -> impl Strategy<Value = Context> {
    (of(1u8..9), of(1u32..9), of(2000u64..9000), of(1u32..9)).prop_map(
        |(tenths, keep_last, model_window, max_items)| Context {
            compact_at: tenths.map(|tenths| f64::from(tenths) / 10.0),
            keep_last,
            model_window,
            plan: Plan { max_items },
        },
    )
}

fn tools() -> impl Strategy<Value = Tools> {
    let args = of(word()).prop_map(|word| word.map(|word| json!({"a": [word]})));
    let mapped = (word(), word(), args, of(word())).prop_map(|(server, tool, args, result)| Override {
        server,
        tool,
        args,
        result,
    });
    (vec(word(), 0..3), btree_map(word(), mapped, 0..3))
        .prop_map(|(disabled, overrides)| Tools { disabled, overrides })
}

fn mapped() -> impl Strategy<Value = Mapped> {
    of(word()).prop_map(|server| Mapped { server })
}

fn memory() -> impl Strategy<Value = Memory> {
    (of(1u32..9), of(1u32..9)).prop_map(|(max_value_bytes, list_default_limit)| Memory {
        max_value_bytes,
        list_default_limit,
    })
}

fn skills() -> impl Strategy<Value = Skills> {
    let discover = prop_oneof![
        Just(Discover::Auto),
        Just(Discover::Prompts),
        Just(Discover::Resources)
    ];
    let source = (word(), discover, of(word())).prop_map(|(server, discover, filter)| SkillsSource {
        server,
        discover,
        filter,
    });
    let bounds = (of(1u32..9), of(1u32..9));
    (vec(source, 0..3), bounds, of(word())).prop_map(
        |(sources, (max_loaded, max_bytes), reference_prefix)| Skills {
            sources,
            max_loaded,
            reference_prefix,
            max_bytes,
        },
    )
}

/// All but kind and path.
fn store() -> impl Strategy<Value = Store> {
    let mcp = (word(), word(), of(word())).prop_map(|(server, tool, value)| McpStore {
        server,
        get: Some(McpOp {
            tool,
            value,
            ..McpOp::default()
        }),
        ..McpStore::default()
    });
    let http =
        (word(), of(word()), of(vec(1u16..9, 0..3))).prop_map(|(base_url, method, conflict_status)| {
            HttpStore {
                base_url,
                put: Some(HttpOp {
                    method,
                    conflict_status,
                    ..HttpOp::default()
                }),
                ..HttpStore::default()
            }
        });
    (
        of(word()),
        duration(),
        of(mcp),
        of(http),
        (duration(), of(1u64..9)),
    )
        .prop_map(|(prefix, timeout, mcp, http, (ttl, bytes))| Store {
            kind: None,
            path: None,
            prefix,
            timeout,
            mcp,
            http,
            retention: Retention {
                tasks: TaskRetention { ttl, bytes },
            },
        })
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop_oneof![
        Just(Dialect::Openai),
        Just(Dialect::OpenaiResponses),
        Just(Dialect::Bedrock)
    ]
}

fn structured_output() -> impl Strategy<Value = StructuredOutput> {
    prop_oneof![Just(StructuredOutput::Auto), Just(StructuredOutput::Tool)]
}

prop_compose! {
    fn document()(
        (name, instruction, prompt) in (of(word()), of(word()), of(word())),
        (endpoints, model) in (vec(endpoint().boxed(), 0..3), of(word())),
        (default_timeout, servers, live) in (duration(), vec(server().boxed(), 0..3), any::<bool>()),
        a2a in a2a().boxed(),
        kind in of(prop_oneof![Just(StoreKind::File), Just(StoreKind::Memory)]),
        (path, tls_ca, live_folder) in (of(word()), of(word()), of(word())),
        (steps, tokens, deadline) in (of(1u32..9), of(1u64..9), duration()),
        (drain_timeout, watch_config) in (duration(), any::<bool>()),
        (identity, report) in pod().boxed(),
        log_level in of(prop_oneof![Just(LogLevel::Error), Just(LogLevel::Info), Just(LogLevel::Debug)]),
        metrics in of(1u16..9),
        (subagents, budget, context) in (subagents().boxed(), of(budget()).boxed(), context().boxed()),
        (tools, memory, skills, store_rest) in (tools().boxed(), memory().boxed(), skills().boxed(), store().boxed()),
        (knowledge, search) in (mapped(), mapped()),
        (dialect, structured_output) in (dialect(), structured_output()),
        (max_parallel_turns, internal, mcp) in (of(1u32..9), of(vec(word(), 0..3)), of(vec(word(), 0..3))),
        (allow_trifecta, log_content, otel) in (any::<bool>(), any::<bool>(), of(word())),
    ) -> Document {
        Document {
            agent: Agent { name, instruction, prompt, max_parallel_turns, tools: AgentTools { internal, mcp } },
            intelligence: Intelligence { endpoints, model, dialect, structured_output, budget },
            mcp: Mcp {
                default_timeout,
                servers,
                tools_refresh: if live { ToolsRefresh::Live } else { ToolsRefresh::Reload },
            },
            tools,
            knowledge,
            search,
            memory,
            skills,
            context,
            a2a,
            store: Store { kind, path: path.map(Into::into), ..store_rest },
            limits: Limits { run: RunLimits { steps, tokens, deadline }, subagents },
            lifecycle: Lifecycle { drain_timeout, live_folder: live_folder.map(Into::into), watch_config },
            identity,
            report,
            security: Security { tls_ca: tls_ca.map(Into::into), allow_trifecta, ..Security::default() },
            observability: Observability {
                log_level,
                metrics_addr: metrics.map(|port| ([127, 0, 0, 1], port).into()),
                log_content,
                otel: otel.map(|endpoint| Otel { endpoint }),
            },
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
const CLASSES: &[(&str, bool)] = &[
    ("agent.name", false),
    ("agent.instruction", true),
    // Of a task that is done once, by a process that reloads nothing.
    ("agent.prompt", false),
    ("agent.max_parallel_turns", true),
    ("agent.tools.internal", true),
    ("agent.tools.mcp", true),
    ("intelligence.endpoints", true),
    ("intelligence.model", true),
    ("intelligence.dialect", true),
    ("intelligence.structured_output", true),
    ("intelligence.budget.windows", true),
    ("intelligence.budget.lifetime_tokens", true),
    ("intelligence.budget.on_exhausted", true),
    ("intelligence.budget.slow.factor", true),
    ("intelligence.budget.degrade.model", true),
    ("intelligence.budget.reserve.fixed", true),
    ("mcp.default_timeout", true),
    ("mcp.servers", true),
    ("mcp.tools_refresh", true),
    ("tools.disabled", true),
    ("tools.overrides", true),
    ("knowledge.server", true),
    ("search.server", true),
    ("memory.max_value_bytes", true),
    ("memory.list_default_limit", true),
    ("skills.sources", true),
    ("skills.max_loaded", true),
    ("skills.reference_prefix", true),
    ("skills.max_bytes", true),
    ("context.compact_at", true),
    ("context.keep_last", true),
    ("context.model_window", true),
    ("context.plan.max_items", true),
    ("a2a.listen", false),
    // In the card, which is made with the listener.
    ("a2a.url", false),
    ("a2a.external.url", false),
    ("a2a.external.tls.cert", false),
    ("a2a.external.tls.key", false),
    ("a2a.skills", false),
    ("a2a.extensions", false),
    ("a2a.sign_card", false),
    ("a2a.push.enabled", false),
    ("a2a.push.allow_private", false),
    ("a2a.tls.cert", false),
    ("a2a.tls.key", false),
    ("a2a.principals", true),
    ("a2a.dev", false),
    ("store.kind", false),
    ("store.path", false),
    ("store.prefix", false),
    ("store.timeout", false),
    ("store.mcp.server", false),
    ("store.mcp.put", false),
    ("store.mcp.get", false),
    ("store.mcp.list", false),
    ("store.mcp.delete", false),
    ("store.http.base_url", false),
    ("store.http.headers", false),
    ("store.http.auth", false),
    ("store.http.tls.ca_file", false),
    ("store.http.tls.client_cert_file", false),
    ("store.http.tls.client_key_file", false),
    ("store.http.tls.server_name", false),
    ("store.http.tls.spiffe_id", false),
    ("store.http.put", false),
    ("store.http.get", false),
    ("store.http.list", false),
    ("store.http.delete", false),
    ("store.retention.tasks.ttl", false),
    ("store.retention.tasks.bytes", false),
    ("limits.run.steps", true),
    ("limits.run.tokens", true),
    ("limits.run.deadline", true),
    ("limits.subagents.depth", true),
    ("limits.subagents.breadth", true),
    ("limits.subagents.total", true),
    ("limits.subagents.rate", true),
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
    ("security.allow_trifecta", false),
    ("security.exec.enabled", false),
    ("observability.log_level", true),
    ("observability.metrics_addr", false),
    ("observability.log_content", true),
    ("observability.otel.endpoint", false),
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
