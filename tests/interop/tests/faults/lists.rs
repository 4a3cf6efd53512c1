//! Lists that are too long, go round in circles, break off, or hold names that nobody should be shown.

use std::collections::BTreeSet;

use agentd_base::report::ServerState;
use agentd_config::document::Mcp;
use agentd_interop::sane::{echo as echo_tool, sane};
use agentd_interop::tap::{Act, Asked, Tap, event};
use agentd_interop::{boot, hasty, server, soon};
use agentd_mcp::supervised::PACE;
use agentd_mcp::{Outbound, Supervised};
use serde_json::{Value, json};

use crate::{CLOCK, bounded, but, echo, open};

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" } })
}

/// One page; `next` names the one after.
fn page(asked: &Asked, tools: &[Value], next: Option<&str>) -> Act {
    Act::json(&asked.result(&json!({ "tools": tools, "nextCursor": next })))
}

fn cursor(asked: &Asked) -> usize {
    asked.body["params"]["cursor"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn m19_ten_thousand_tools_are_taken_at_once_or_over_pages() {
    for per_page in [10_000, 100] {
        let tap = Tap::server(but("tools/list", move |asked| {
            let first = cursor(asked);
            let tools: Vec<Value> = (first..first + per_page)
                .map(|number| tool(&format!("tool-{number}")))
                .collect();
            let next = first + per_page;
            page(
                asked,
                &tools,
                (next < 10_000).then_some(next.to_string()).as_deref(),
            )
        }))
        .await;
        let connection = open(&server(tap.address.port()), boot()).await.unwrap();
        let tools = bounded("the list", connection.tools()).await.unwrap();
        let names: BTreeSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names.len(), 10_000);
        assert_eq!(tap.count("tools/list"), 10_000 / per_page);
        connection.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m19_a_list_without_end_and_cursors_that_repeat_end() {
    type Rule = fn(&Asked) -> Act;
    let rules: [(&str, Rule); 4] = [
        ("always the same cursor", |asked| {
            page(asked, &[tool("a")], Some("again"))
        }),
        ("a circle of three", |asked| {
            page(asked, &[tool("a")], Some(&((cursor(asked) + 1) % 3).to_string()))
        }),
        ("without end", |asked| {
            page(
                asked,
                &[tool(&format!("t{}", cursor(asked)))],
                Some(&(cursor(asked) + 1).to_string()),
            )
        }),
        ("a cursor of a megabyte", |asked| {
            page(asked, &[tool("a")], Some(&"c".repeat(1 << 20)))
        }),
    ];
    for (name, rule) in rules {
        let tap = Tap::server(but("tools/list", rule)).await;
        let connection = open(&server(tap.address.port()), boot()).await.unwrap();
        let tools = bounded(name, connection.tools()).await.unwrap();
        assert!(!tools.is_empty() && tools.len() <= 10_000, "{name}");
        assert!(
            tap.count("tools/list") <= 1_001,
            "{name}: {}",
            tap.count("tools/list")
        );
        assert_eq!(echo(&connection, "x").await.unwrap().text, "echo: x", "{name}");
        connection.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m19_a_list_that_breaks_off_is_an_error_and_the_next_one_works() {
    type Wrong = (&'static str, fn(&Asked) -> Act);
    let wrong: [Wrong; 8] = [
        ("HTML", |_| Act::text(200, "text/html", "<html></html>")),
        ("broken JSON", |_| {
            Act::text(200, "application/json", "{\"jsonrpc\"")
        }),
        ("invalid UTF-8", |_| {
            Act::text(200, "application/json", b"\xff".to_vec())
        }),
        ("a black hole", |_| Act::hole()),
        ("a byte a second", |_| {
            Act::dripped(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n".to_vec(),
                std::time::Duration::from_secs(1),
            )
        }),
        ("the second page is an error", |asked| match cursor(asked) {
            0 => page(asked, &[echo_tool()], Some("1")),
            _ => Act::json(
                &json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": { "code": -32603, "message": "broken" } }),
            ),
        }),
        ("the second page never comes", |asked| match cursor(asked) {
            0 => page(asked, &[echo_tool()], Some("1")),
            _ => Act::hole(),
        }),
        ("no list", |asked| {
            Act::json(&asked.result(&json!({ "tools": "many" })))
        }),
    ];
    for (name, act) in wrong {
        let tap = Tap::server(but("tools/list", act)).await;
        let connection = open(&hasty(tap.address.port(), CLOCK), boot()).await.unwrap();
        let error = bounded(name, connection.tools())
            .await
            .err()
            .unwrap_or_else(|| panic!("{name}: taken"));
        assert!(
            error.message.starts_with("tools/list") && error.message.len() < 2048,
            "{name}: {error}"
        );
        assert!(!error.message.chars().any(char::is_control), "{name}: {error:?}");
        tap.rule(sane);
        assert_eq!(
            bounded(name, connection.tools()).await.unwrap().len(),
            1,
            "{name}"
        );
        connection.close().await;
    }
}

/// M9, M23: whatever a server calls its tools, what people and models see is safe to show and tells them apart.
#[tokio::test(flavor = "multi_thread")]
async fn m09_hostile_names_reach_nobody_as_they_are() {
    let hostile = [
        "echo",
        "echo",
        "",
        " ",
        "finish",
        "memory.get",
        "a\u{1b}[31mred",
        "line\nbreak",
        "tab\there",
        "nul\0",
        "\u{202e}rtl",
        "a/b",
        "a.b",
        "a_b",
        "a:b",
        "ä",
        "💥",
        "__proto__",
        "{{secret:TOKEN}}",
        "subagent.run",
        "resource.read",
    ];
    let long = "x".repeat(5000);
    let tap = Tap::server(but("tools/list", move |asked| {
        let mut tools: Vec<Value> = hostile.iter().map(|name| tool(name)).collect();
        tools.push(tool(&long));
        page(asked, &tools, None)
    }))
    .await;
    let mcp = Mcp {
        servers: vec![server(tap.address.port())],
        ..Mcp::default()
    };
    let supervised = Supervised::start(&mcp, "agent-0".into(), Outbound::default(), PACE);
    let mut view = supervised.view();
    let connected = view.wait_for(|view| view.servers[0].state == ServerState::Connected);
    let catalogue = soon("the catalogue", connected).await.unwrap().catalogue.clone();
    let provider: BTreeSet<&str> = catalogue
        .entries()
        .iter()
        .map(|entry| entry.provider.as_str())
        .collect();
    assert_eq!(
        provider.len(),
        catalogue.entries().len(),
        "each has a name of its own"
    );
    for entry in catalogue.entries() {
        assert!(
            !entry.qualified.chars().any(char::is_control),
            "{:?}",
            entry.qualified
        );
        assert!(entry.qualified.len() < 1100, "{}", entry.qualified.len());
        let fit = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(
            entry.provider.len() <= 64 && entry.provider.chars().all(fit),
            "{}",
            entry.provider
        );
        for ours in ["finish", "memory.get", "subagent.run", "resource.read"] {
            assert_ne!(entry.qualified, ours);
            assert_ne!(entry.provider, ours.replace('.', "_"));
        }
        assert_eq!(catalogue.by_provider_name(&entry.provider), Some(entry));
    }
    assert!(catalogue.by_qualified_name("echo").is_some());
    supervised.close().await;
}

/// Field case M18: an exclude list alone leaves the rest, an allow list alone is all there is, and what is left out is not
/// told apart from what is not there.
#[tokio::test(flavor = "multi_thread")]
async fn field_m18_a_deny_list_alone_leaves_the_rest_and_a_refusal_does_not_tell_what_is_there() {
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (allow, exclude, expected) in [
        (None, vec![], vec!["delete_file", "read_file", "write_file"]),
        (None, names(&["delete_*"]), vec!["read_file", "write_file"]),
        (
            Some(names(&["read_*", "delete_file"])),
            vec![],
            vec!["delete_file", "read_file"],
        ),
        (
            Some(names(&["*_file"])),
            names(&["delete_*"]),
            vec!["read_file", "write_file"],
        ),
        (Some(vec![]), vec![], vec![]),
    ] {
        let tap = Tap::server(but("tools/list", |asked| {
            page(
                asked,
                &[tool("read_file"), tool("write_file"), tool("delete_file")],
                None,
            )
        }))
        .await;
        let declared = agentd_config::document::McpServer {
            allow,
            exclude,
            ..server(tap.address.port())
        };
        let mcp = Mcp {
            servers: vec![declared],
            ..Mcp::default()
        };
        let supervised = Supervised::start(&mcp, "agent-0".into(), Outbound::default(), PACE);
        let mut view = supervised.view();
        let connected = view.wait_for(|view| view.servers[0].state == ServerState::Connected);
        let catalogue = soon("the catalogue", connected).await.unwrap().catalogue.clone();
        let offered: Vec<&str> = catalogue
            .entries()
            .iter()
            .map(|entry| entry.qualified.as_str())
            .collect();
        assert_eq!(offered, expected);
        for name in ["delete_file", "no_such_tool"] {
            let found =
                catalogue.by_provider_name(name).is_some() || catalogue.by_qualified_name(name).is_some();
            assert_eq!(found, expected.contains(&name), "{name}");
        }
        supervised.close().await;
    }
}

/// A page as a stream, with empty `data:` lines and a notification before it.
#[tokio::test(flavor = "multi_thread")]
async fn m19_a_page_may_come_as_a_stream() {
    let tap = Tap::server(but("tools/list", |asked| {
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } });
        let answer = asked.result(&json!({ "tools": [echo_tool()] }));
        Act::events(&["data:\n\n".into(), event(&notice), event(&answer)])
    }))
    .await;
    let connection = open(&server(tap.address.port()), boot()).await.unwrap();
    assert_eq!(connection.tools().await.unwrap().len(), 1);
    connection.close().await;
}
