//! Every key of the document: it is a leaf with a variable and a flag, it is parsed, and what it is parsed into is what
//! was written. A key that is added to the document without a line here fails.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use agentd_base::duration::Duration;
use agentd_config::Document;
use agentd_config::document::*;
use agentd_config::paths::{self, Kind};

/// A leaf, a text of it as a variable or flag holds it, and the document that comes of it.
type Row = (&'static str, &'static str, fn(&mut Document));

const ROWS: &[Row] = &[
    ("agent.name", "triage", |d| d.agent.name = Some("triage".into())),
    ("agent.instruction", "be kind", |d| {
        d.agent.instruction = Some("be kind".into())
    }),
    ("agent.prompt", "do it", |d| d.agent.prompt = Some("do it".into())),
    ("agent.max_parallel_turns", "2", |d| {
        d.agent.max_parallel_turns = Some(2)
    }),
    ("agent.tools.internal", "none", |d| {
        d.agent.tools.internal = Some(vec![])
    }),
    ("agent.tools.mcp", "read_*, fs.stat", |d| {
        d.agent.tools.mcp = Some(["read_*", "fs.stat"].map(str::to_owned).to_vec())
    }),
    ("intelligence.endpoints", "https://gw.example/v1", |d| {
        d.intelligence.endpoints = vec![ModelEndpoint {
            url: "https://gw.example/v1".into(),
            ..ModelEndpoint::default()
        }];
    }),
    ("intelligence.model", "m", |d| {
        d.intelligence.model = Some("m".into())
    }),
    ("intelligence.dialect", "openai-responses", |d| {
        d.intelligence.dialect = Dialect::OpenaiResponses
    }),
    ("intelligence.structured_output", "tool", |d| {
        d.intelligence.structured_output = StructuredOutput::Tool
    }),
    (
        "intelligence.budget.windows",
        r#"[{"per": "day", "tokens": 9, "requests": 3, "reset": "05:00Z"}]"#,
        |d| {
            budget(d).windows = vec![Window {
                per: Per::Day,
                tokens: Some(9),
                requests: Some(3),
                reset: Some("05:00Z".parse().unwrap()),
            }]
        },
    ),
    ("intelligence.budget.lifetime_tokens", "9", |d| {
        budget(d).lifetime_tokens = Some(9)
    }),
    ("intelligence.budget.on_exhausted", "slow", |d| {
        budget(d).on_exhausted = Exhausted::Slow
    }),
    ("intelligence.budget.slow.factor", "0.25", |d| {
        budget(d).slow.factor = Some(0.25)
    }),
    ("intelligence.budget.degrade.model", "small", |d| {
        budget(d).degrade = Some(Degrade {
            model: "small".into(),
        })
    }),
    ("intelligence.budget.reserve.fixed", "9", |d| {
        budget(d).reserve.fixed = Some(9)
    }),
    ("mcp.default_timeout", "7s", |d| {
        d.mcp.default_timeout = Some(Duration::secs(7))
    }),
    ("mcp.servers", "fs=https://fs.example/mcp", |d| {
        let (name, endpoint) = ("fs".into(), "https://fs.example/mcp".into());
        d.mcp.servers = vec![McpServer {
            name,
            endpoint,
            ..McpServer::default()
        }];
    }),
    ("mcp.tools_refresh", "live", |d| {
        d.mcp.tools_refresh = ToolsRefresh::Live
    }),
    ("tools.disabled", "think", |d| {
        d.tools.disabled = vec!["think".into()]
    }),
    (
        "tools.overrides",
        r#"{"search.query": {"server": "s", "tool": "t", "args": {"q": "{{query}}"}, "result": "/hits"}}"#,
        |d| {
            let mapped = Override {
                server: "s".into(),
                tool: "t".into(),
                args: Some(serde_json::json!({"q": "{{query}}"})),
                result: Some("/hits".into()),
            };
            d.tools.overrides = [("search.query".to_owned(), mapped)].into();
        },
    ),
    ("knowledge.server", "kb", |d| {
        d.knowledge.server = Some("kb".into())
    }),
    ("search.server", "web", |d| d.search.server = Some("web".into())),
    ("memory.max_value_bytes", "9", |d| {
        d.memory.max_value_bytes = Some(9)
    }),
    ("memory.list_default_limit", "9", |d| {
        d.memory.list_default_limit = Some(9)
    }),
    (
        "skills.sources",
        r#"[{"server": "s", "discover": "prompts", "filter": "a*"}]"#,
        |d| {
            d.skills.sources = vec![SkillsSource {
                server: "s".into(),
                discover: Discover::Prompts,
                filter: Some("a*".into()),
            }]
        },
    ),
    ("skills.max_loaded", "9", |d| d.skills.max_loaded = Some(9)),
    ("skills.reference_prefix", "$", |d| {
        d.skills.reference_prefix = Some("$".into())
    }),
    ("skills.max_bytes", "9", |d| d.skills.max_bytes = Some(9)),
    ("context.compact_at", "0.5", |d| d.context.compact_at = Some(0.5)),
    ("context.keep_last", "9", |d| d.context.keep_last = Some(9)),
    ("context.model_window", "9000", |d| {
        d.context.model_window = Some(9000)
    }),
    ("context.plan.max_items", "9", |d| {
        d.context.plan.max_items = Some(9)
    }),
    ("a2a.listen", "https://0.0.0.0:8443", |d| {
        d.a2a.listen = Some("https://0.0.0.0:8443".into())
    }),
    ("a2a.url", "https://x.example", |d| {
        d.a2a.url = Some("https://x.example".into())
    }),
    ("a2a.external.url", "https://x.example", |d| {
        external(d).url = "https://x.example".into()
    }),
    ("a2a.external.tls.cert", "/cert", |d| {
        external_tls(d).cert = "/cert".into()
    }),
    ("a2a.external.tls.key", "/key", |d| {
        external_tls(d).key = "/key".into()
    }),
    (
        "a2a.skills",
        r#"[{"id": "s", "name": "n", "description": "d", "tags": ["t"], "examples": ["e"], "role": "user"}]"#,
        |d| {
            d.a2a.skills = vec![Skill {
                id: "s".into(),
                name: "n".into(),
                description: "d".into(),
                tags: vec!["t".into()],
                examples: vec!["e".into()],
                role: Some(Role::User),
            }]
        },
    ),
    (
        "a2a.extensions",
        r#"[{"uri": "urn:x", "description": "d", "required": true, "params": {"a": 1}, "role": "user"}]"#,
        |d| {
            d.a2a.extensions = vec![Extension {
                uri: "urn:x".into(),
                description: Some("d".into()),
                required: true,
                params: serde_json::Map::from_iter([("a".to_owned(), 1.into())]),
                role: Some(Role::User),
            }]
        },
    ),
    ("a2a.sign_card", "true", |d| d.a2a.sign_card = true),
    ("a2a.push.enabled", "true", |d| d.a2a.push.enabled = true),
    ("a2a.push.allow_private", "true", |d| {
        d.a2a.push.allow_private = true
    }),
    ("a2a.tls.cert", "/cert", |d| tls(d).cert = "/cert".into()),
    ("a2a.tls.key", "/key", |d| tls(d).key = "/key".into()),
    (
        "a2a.principals",
        r#"[{"name": "boss", "spiffe_id": "spiffe://td/x", "role": "user"}]"#,
        |d| {
            d.a2a.principals = vec![Principal::with_spiffe_id("boss", "spiffe://td/x", Role::User)];
        },
    ),
    ("a2a.dev", "true", |d| d.a2a.dev = true),
    ("store.kind", "memory", |d| d.store.kind = Some(StoreKind::Memory)),
    ("store.path", "/state", |d| d.store.path = Some("/state".into())),
    ("store.prefix", "p", |d| d.store.prefix = Some("p".into())),
    ("store.timeout", "3s", |d| {
        d.store.timeout = Some(Duration::secs(3))
    }),
    ("store.mcp.server", "s", |d| {
        mcp_store(d).server = "s".into();
    }),
    (
        "store.mcp.put",
        r#"{"tool": "t", "args": {"k": "{{key}}"}, "conflict": "taken"}"#,
        |d| {
            mcp_store(d).put = Some(McpOp {
                tool: "t".into(),
                args: Some(serde_json::json!({"k": "{{key}}"})),
                conflict: Some("taken".into()),
                ..McpOp::default()
            })
        },
    ),
    ("store.mcp.get", r#"{"tool": "g", "value": "/v"}"#, |d| {
        mcp_store(d).get = Some(McpOp {
            tool: "g".into(),
            value: Some("/v".into()),
            ..McpOp::default()
        })
    }),
    (
        "store.mcp.list",
        r#"{"tool": "l", "keys": "/k", "next": "/n"}"#,
        |d| {
            mcp_store(d).list = Some(McpOp {
                tool: "l".into(),
                keys: Some("/k".into()),
                next: Some("/n".into()),
                ..McpOp::default()
            })
        },
    ),
    ("store.mcp.delete", r#"{"tool": "d"}"#, |d| {
        mcp_store(d).delete = Some(McpOp {
            tool: "d".into(),
            ..McpOp::default()
        })
    }),
    ("store.http.base_url", "https://s.example", |d| {
        http_store(d).base_url = "https://s.example".into();
    }),
    ("store.http.headers", r#"{"A": "b"}"#, |d| {
        http_store(d).headers = [("A".to_owned(), "b".to_owned())].into();
    }),
    (
        "store.http.auth",
        r#"{"static": {"bearer": "{{secret:X}}"}}"#,
        |d| {
            http_store(d).auth = Some(Auth::Static(StaticAuth {
                bearer: "{{secret:X}}".into(),
            }));
        },
    ),
    ("store.http.tls.ca_file", "/ca", |d| {
        http_tls(d).ca_file = Some("/ca".into());
    }),
    ("store.http.tls.client_cert_file", "/c", |d| {
        http_tls(d).client_cert_file = Some("/c".into());
    }),
    ("store.http.tls.client_key_file", "/k", |d| {
        http_tls(d).client_key_file = Some("/k".into());
    }),
    ("store.http.tls.server_name", "h", |d| {
        http_tls(d).server_name = Some("h".into());
    }),
    ("store.http.tls.spiffe_id", "i", |d| {
        http_tls(d).spiffe_id = Some("i".into());
    }),
    (
        "store.http.put",
        r#"{"method": "POST", "url": "/x", "body": {"v": "{{value}}"}, "conflict_status": [409]}"#,
        |d| {
            http_store(d).put = Some(HttpOp {
                method: Some("POST".into()),
                url: Some("/x".into()),
                body: Some(serde_json::json!({"v": "{{value}}"})),
                conflict_status: Some(vec![409]),
                ..HttpOp::default()
            })
        },
    ),
    ("store.http.get", r#"{"value": "/v"}"#, |d| {
        http_store(d).get = Some(HttpOp {
            value: Some("/v".into()),
            ..HttpOp::default()
        })
    }),
    ("store.http.list", r#"{"keys": "/k", "next": "/n"}"#, |d| {
        http_store(d).list = Some(HttpOp {
            keys: Some("/k".into()),
            next: Some("/n".into()),
            ..HttpOp::default()
        })
    }),
    ("store.http.delete", r#"{"method": "POST"}"#, |d| {
        http_store(d).delete = Some(HttpOp {
            method: Some("POST".into()),
            ..HttpOp::default()
        })
    }),
    ("store.retention.tasks.ttl", "2d", |d| {
        d.store.retention.tasks.ttl = Some(Duration::secs(2 * 86_400))
    }),
    ("store.retention.tasks.bytes", "2000000", |d| {
        d.store.retention.tasks.bytes = Some(2_000_000)
    }),
    ("limits.run.steps", "9", |d| d.limits.run.steps = Some(9)),
    ("limits.run.tokens", "9", |d| d.limits.run.tokens = Some(9)),
    ("limits.run.deadline", "90", |d| {
        d.limits.run.deadline = Some(Duration::secs(90))
    }),
    ("limits.subagents.depth", "2", |d| {
        d.limits.subagents.depth = Some(2)
    }),
    ("limits.subagents.breadth", "2", |d| {
        d.limits.subagents.breadth = Some(2)
    }),
    ("limits.subagents.total", "2", |d| {
        d.limits.subagents.total = Some(2)
    }),
    ("limits.subagents.rate", "2/1s", |d| {
        d.limits.subagents.rate = Some("2/1s".parse().unwrap())
    }),
    ("lifecycle.drain_timeout", "1m", |d| {
        d.lifecycle.drain_timeout = Some(Duration::secs(60))
    }),
    ("lifecycle.live_folder", "/live", |d| {
        d.lifecycle.live_folder = Some("/live".into())
    }),
    ("lifecycle.watch_config", "true", |d| {
        d.lifecycle.watch_config = true
    }),
    ("identity.trust_domain", "td", |d| {
        identity(d).trust_domain = "td".into()
    }),
    ("identity.spiffe_id", "spiffe://td/a", |d| {
        identity(d).spiffe_id = "spiffe://td/a".into()
    }),
    ("identity.issuer_url", "https://i", |d| {
        identity(d).issuer_url = "https://i".into()
    }),
    ("identity.issuer_id", "spiffe://td/i", |d| {
        identity(d).issuer_id = "spiffe://td/i".into()
    }),
    ("identity.token_file", "/token", |d| {
        identity(d).token_file = "/token".into()
    }),
    ("identity.bundle_file", "/bundle", |d| {
        identity(d).bundle_file = "/bundle".into()
    }),
    ("report.url", "https://r", |d| report(d).url = "https://r".into()),
    ("report.server_id", "spiffe://td/r", |d| {
        report(d).server_id = "spiffe://td/r".into()
    }),
    ("security.tls_ca", "/ca", |d| {
        d.security.tls_ca = Some("/ca".into())
    }),
    ("security.allow_trifecta", "true", |d| {
        d.security.allow_trifecta = true
    }),
    ("security.exec.enabled", "true", |d| {
        d.security.exec.enabled = true
    }),
    ("observability.log_level", "warn", |d| {
        d.observability.log_level = Some(LogLevel::Warn)
    }),
];

fn tls(document: &mut Document) -> &mut ServerTls {
    document.a2a.tls.get_or_insert_with(no_files)
}

fn external(document: &mut Document) -> &mut External {
    document.a2a.external.get_or_insert_default()
}

fn external_tls(document: &mut Document) -> &mut ServerTls {
    external(document).tls.get_or_insert_with(no_files)
}

fn no_files() -> ServerTls {
    ServerTls {
        cert: "".into(),
        key: "".into(),
    }
}

fn mcp_store(document: &mut Document) -> &mut McpStore {
    document.store.mcp.get_or_insert_default()
}

fn http_store(document: &mut Document) -> &mut HttpStore {
    document.store.http.get_or_insert_default()
}

fn http_tls(document: &mut Document) -> &mut ClientTls {
    http_store(document).tls.get_or_insert_default()
}

fn budget(document: &mut Document) -> &mut Budget {
    document.intelligence.budget.get_or_insert_default()
}

fn identity(document: &mut Document) -> &mut Identity {
    document.identity.get_or_insert_with(|| Identity {
        trust_domain: String::new(),
        spiffe_id: String::new(),
        issuer_url: String::new(),
        issuer_id: String::new(),
        token_file: "".into(),
        bundle_file: "".into(),
    })
}

fn report(document: &mut Document) -> &mut Report {
    document.report.get_or_insert_with(|| Report {
        url: String::new(),
        server_id: String::new(),
    })
}

/// All rows and those of other types.
fn rows() -> Vec<Row> {
    let mut rows = ROWS.to_vec();
    rows.push(("observability.metrics_addr", "127.0.0.1:9090", |d| {
        d.observability.metrics_addr = Some(([127, 0, 0, 1], 9090).into());
    }));
    rows.push(("observability.log_content", "true", |d| {
        d.observability.log_content = true
    }));
    rows.push(("observability.otel.endpoint", "https://c.example", |d| {
        d.observability.otel = Some(Otel {
            endpoint: "https://c.example".into(),
        })
    }));
    rows
}

#[test]
fn every_leaf_has_a_row_and_every_row_a_leaf() {
    let leaves: Vec<_> = paths::leaves().into_iter().map(|leaf| leaf.path).collect();
    let rows: Vec<_> = rows().iter().map(|(path, _, _)| (*path).to_owned()).collect();
    assert_eq!(leaves, rows);
}

#[test]
fn every_leaf_is_documented_and_has_a_variable() {
    let leaves = paths::leaves();
    for leaf in &leaves {
        assert!(!leaf.help.is_empty(), "{}", leaf.path);
        assert_eq!(
            paths::find(&leaves, leaf.variable().trim_start_matches("AGENTD_")),
            Some(leaf)
        );
        assert_eq!(
            paths::find(&leaves, &leaf.path.replace(['.', '_'], "-")),
            Some(leaf)
        );
        assert!(!paths::RESERVED.contains(&leaf.variable().as_str()));
    }
    let variable = paths::find(&leaves, "limits.run.steps").unwrap().variable();
    assert_eq!(variable, "AGENTD_LIMITS_RUN_STEPS");
    for (alias, path) in paths::ALIASES {
        assert!(
            paths::find(&leaves, path).is_some() && paths::find(&leaves, alias).is_none(),
            "{alias}"
        );
    }
}

#[test]
fn kinds_follow_from_the_types() {
    let kind = |path: &str| paths::find(&paths::leaves(), path).unwrap().kind.clone();
    assert_eq!(kind("agent.name"), Kind::Text);
    assert_eq!(kind("limits.run.steps"), Kind::Integer);
    assert_eq!(kind("limits.run.deadline"), Kind::Duration);
    assert_eq!(kind("a2a.dev"), Kind::Boolean);
    assert_eq!(kind("mcp.servers"), Kind::List);
    assert_eq!(
        kind("store.kind"),
        Kind::Choice(["file", "memory", "mcp", "http"].map(str::to_owned).to_vec())
    );
    let levels = ["error", "warn", "info", "debug"].map(str::to_owned).to_vec();
    assert_eq!(kind("observability.log_level"), Kind::Choice(levels));
}

#[test]
fn every_key_is_parsed_into_its_field() {
    let leaves = paths::leaves();
    for (path, text, expected) in rows() {
        let leaf = paths::find(&leaves, path).unwrap();
        let parsed = leaf.document(text, "a test").unwrap();
        let mut document = Document::default();
        expected(&mut document);
        // Siblings that must be there are empty in both.
        let mut whole = serde_json::to_value(&document).unwrap();
        agentd_config::reload::merge_patch(&mut whole, &parsed);
        assert_eq!(
            serde_json::from_value::<Document>(whole).unwrap(),
            document,
            "{path}"
        );
        let written = serde_json::to_value(&document).unwrap();
        let pointer = format!("/{}", path.replace('.', "/"));
        assert!(written.pointer(&pointer).is_some(), "{path} is not written");
    }
}

#[test]
fn every_key_of_an_entry_is_parsed_into_its_field() {
    let text = r#"{
      "intelligence": {"endpoints": [{"name": "n", "url": "u", "allow_plaintext": true, "headers": {"A": "b"},
        "auth": {"static": {"bearer": "{{secret:X}}"}}, "tls": {"ca_file": "/ca"}, "timeout": "1s", "connect_timeout": "2s"}]},
      "mcp": {"servers": [{"name": "s", "endpoint": "e", "ns": "p", "allow": [], "exclude": ["x"], "call_timeout": "3s",
        "tags": {"*": ["sensitive"], "send_*": ["egress", "untrusted_input"]},
        "headers": {"C": "d"}, "auth": {"oauth2": {"client_id": "i", "client_secret": "{{secret-file:/f}}", "client_key": "k", "scopes": ["a"],
        "token_endpoint": "t", "issuer": "u", "resource": "r"}}, "timeout": 4, "connect_timeout": 5,
        "tls": {"client_cert_file": "/c", "client_key_file": "/k", "server_name": "h", "spiffe_id": "i"}}]}
    }"#;
    let document: Document = serde_json::from_str(text).unwrap();
    let bearer = |text: &str| Some(Auth::Static(StaticAuth { bearer: text.into() }));
    let expected = ModelEndpoint {
        name: Some("n".into()),
        url: "u".into(),
        allow_plaintext: true,
        connection: Connection {
            headers: [("A".to_owned(), "b".to_owned())].into(),
            auth: bearer("{{secret:X}}"),
            tls: Some(ClientTls {
                ca_file: Some("/ca".into()),
                ..ClientTls::default()
            }),
            timeout: Some(Duration::secs(1)),
            connect_timeout: Some(Duration::secs(2)),
        },
    };
    assert_eq!(document.intelligence.endpoints, [expected]);
    let expected = McpServer {
        name: "s".into(),
        endpoint: "e".into(),
        ns: Some("p".into()),
        allow: Some(vec![]),
        exclude: vec!["x".into()],
        tags: [
            ("*".to_owned(), vec![Tag::Sensitive]),
            ("send_*".to_owned(), vec![Tag::Egress, Tag::UntrustedInput]),
        ]
        .into(),
        call_timeout: Some(Duration::secs(3)),
        connection: Connection {
            headers: [("C".to_owned(), "d".to_owned())].into(),
            auth: Some(Auth::OAuth2(OAuth2Auth {
                client_id: "i".into(),
                client_secret: Some("{{secret-file:/f}}".into()),
                client_key: Some("k".into()),
                scopes: vec!["a".into()],
                token_endpoint: Some("t".into()),
                issuer: Some("u".into()),
                resource: Some("r".into()),
            })),
            tls: Some(ClientTls {
                ca_file: None,
                client_cert_file: Some("/c".into()),
                client_key_file: Some("/k".into()),
                server_name: Some("h".into()),
                spiffe_id: Some("i".into()),
            }),
            timeout: Some(Duration::secs(4)),
            connect_timeout: Some(Duration::secs(5)),
        },
    };
    assert_eq!(document.mcp.servers, [expected]);
}

#[test]
fn the_json_schemas_are_these() {
    insta::assert_json_snapshot!("document", schemars::schema_for!(Document));
    insta::assert_json_snapshot!("bridge", schemars::schema_for!(agentd_config::BridgeDocument));
}
