//! What the stateless revision asks of a client beside its questions, and what structured results are held against.

use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_config::document::Mcp;
use agentd_mcp::{CallError, CallMeta, Connection, Outbound, Supervised};
use agentd_net::Pace;
use serde_json::{Map, Value, json};

use crate::log::Log;
use crate::peer::{Peer, boot, open};
use crate::script::{Discover, Get, Script, tool};

async fn call(
    connection: &Connection,
    tool: &str,
    arguments: Value,
) -> Result<agentd_mcp::ToolOutcome, CallError> {
    let arguments: Map<String, Value> = arguments.as_object().unwrap().clone();
    connection.call(tool, arguments, &CallMeta::default()).await
}

async fn offering(tools: Vec<Value>, discover: Discover) -> (Peer, Connection) {
    let peer = Peer::start(Script {
        discover,
        tools: [(String::new(), (tools, None))].into(),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    (peer, connection)
}

fn headed(name: &str, header: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": header}, "other": {"type": "string"}}}})
}

/// Arguments that a tool wants to see in headers go there, made safe; a tool whose header is none is left out, named.
#[tokio::test]
async fn m19_headers_of_tools_are_sent_and_a_tool_with_a_bad_one_is_left_out() {
    let log = Log::start();
    let (peer, connection) = offering(
        vec![headed("good", "Region"), headed("bad", "Re gion"), tool("plain")],
        Discover::Modern,
    )
    .await;
    let names: Vec<_> = connection
        .tools()
        .await
        .unwrap()
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    assert_eq!(names, ["good", "plain"]);
    assert!(
        log.of("mcp.spec.invalid")
            .iter()
            .any(|line| line.contains("name=bad "))
    );
    for (region, expected) in [
        (json!("eu"), Some("eu".to_owned())),
        (json!("é"), Some("=?base64?w6k=?=".to_owned())),
        (Value::Null, None),
    ] {
        let before = peer.count("tools/call");
        call(&connection, "good", json!({"region": region}))
            .await
            .unwrap();
        let seen = peer.seen_times("tools/call", before + 1).await;
        assert_eq!(seen.header("mcp-param-region"), expected.as_deref(), "{region}");
        assert_eq!(seen.header("mcp-name"), Some("good"));
        assert_eq!(seen.header("mcp-method"), Some("tools/call"));
    }
    // The server's tool is another one by now: it is listed again, and the call sent once more.
    peer.script().tools = [(String::new(), (vec![headed("good", "Place")], None))].into();
    let mismatch = json!({"error": {"code": -32020, "message": "Mcp-Param-Place is missing"}});
    peer.script().first = [mismatch.clone()].into();
    let before = peer.count("tools/call");
    assert_eq!(
        call(&connection, "good", json!({"region": "eu"}))
            .await
            .unwrap()
            .text,
        "hello"
    );
    assert_eq!(
        peer.seen_times("tools/call", before + 2)
            .await
            .header("mcp-param-place"),
        Some("eu")
    );
    // Once.
    peer.script().first = [mismatch.clone(), mismatch].into();
    let error = call(&connection, "good", json!({"region": "eu"}))
        .await
        .unwrap_err();
    assert!(
        matches!(error, CallError::Protocol { code: -32020, .. }),
        "{error}"
    );
    connection.close().await;
}

#[tokio::test]
async fn m22_a_structured_result_is_what_the_tool_promised_or_the_model_is_told() {
    let log = Log::start();
    let promised = json!({"name": "weather", "inputSchema": {"type": "object"}, "outputSchema": {
        "type": "object", "required": ["temperature"], "properties": {"temperature": {"type": "number"}}}});
    let far = json!({"name": "far", "inputSchema": {"type": "object"}, "outputSchema": {"$ref": "http://127.0.0.1:1/x"}});
    let (peer, connection) = offering(vec![promised, far, tool("echo")], Discover::Old).await;
    connection.tools().await.unwrap();
    let answer = |structured: Value| json!({"result": {"content": [], "structuredContent": structured}});
    let fits = json!({"temperature": 22.5});
    peer.script().call = answer(fits.clone());
    let outcome = call(&connection, "weather", json!({})).await.unwrap();
    assert_eq!(
        (outcome.structured, outcome.text.as_str()),
        (Some(fits.clone()), r#"{"temperature":22.5}"#)
    );
    // One that promised nothing: text, and no more.
    let outcome = call(&connection, "echo", json!({})).await.unwrap();
    assert_eq!(
        (outcome.structured, outcome.text.as_str()),
        (None, r#"{"temperature":22.5}"#)
    );
    // A schema that cannot be looked at without asking somebody else.
    assert_eq!(
        call(&connection, "far", json!({})).await.unwrap().structured,
        Some(fits)
    );
    assert!(log.of("tool.result.schema").is_empty());
    for (result, part) in [
        (answer(json!({"temperature": "warm"})), "promised: /temperature: "),
        (
            json!({"result": {"content": [{"type": "text", "text": "warm"}]}}),
            "promised: there is none",
        ),
    ] {
        peer.script().call = result;
        let outcome = call(&connection, "weather", json!({})).await.unwrap();
        assert!(outcome.text.contains(part), "{}", outcome.text);
        assert_eq!((outcome.structured, outcome.is_error), (None, false));
    }
    assert_eq!(log.of("tool.result.schema").len(), 2);
    // A failure promises nothing; a result without content is one.
    peer.script().call = json!({"result": {"isError": true}});
    let outcome = call(&connection, "weather", json!({})).await.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.is_error), ("", true));
    connection.close().await;
}

/// M17 on the notification stream: it lives past every clock of a request, and pings on it are answered.
#[tokio::test]
async fn field_m12_a_stream_outlives_the_clocks_and_answers_pings() {
    let peer = Peer::start(Script {
        get: Get::Held,
        call: Value::Null,
        ..Script::default()
    })
    .await;
    let limit = Duration::from_millis(200);
    let connection = open(&peer.hasty(limit), boot()).await;
    peer.seen("GET").await;
    for _ in 0..3 {
        assert_eq!(
            call(&connection, "echo", json!({})).await.unwrap_err(),
            CallError::Timeout(limit)
        );
    }
    peer.push(&json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
    assert_eq!(
        peer.seen("answer").await.body,
        json!({"jsonrpc": "2.0", "id": 7, "result": {}})
    );
    let mut tools = connection.tools_changed();
    peer.push(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    tools.changed().await.unwrap();
    assert_eq!(peer.count("GET"), 1);
    connection.close().await;
}

/// A call that is given up ends its stream, which is how the stateless revision says it.
#[tokio::test]
async fn m34_a_stateless_call_is_given_up_by_closing_its_stream() {
    let peer = Peer::start(Script {
        discover: Discover::Modern,
        call: Value::Null,
        ..Script::default()
    })
    .await;
    let limit = Duration::from_millis(200);
    let connection = open(&peer.hasty(limit), boot()).await;
    assert_eq!(
        call(&connection, "echo", json!({})).await.unwrap_err(),
        CallError::Timeout(limit)
    );
    peer.script().call = Script::default().call;
    assert_eq!(call(&connection, "echo", json!({})).await.unwrap().text, "hello");
    assert_eq!(peer.count("notifications/cancelled"), 0);
    connection.close().await;
}

#[tokio::test]
async fn m18_m23_a_failed_server_is_logged_and_left_out_and_tools_are_written_down() {
    let log = Log::start();
    let (good, bad) = (
        Peer::start(Script::default()).await,
        Peer::start(Script::default()).await,
    );
    bad.script().status = Some((axum::http::StatusCode::BAD_GATEWAY, None, ""));
    let mcp = Mcp {
        servers: vec![good.server("good"), bad.server("bad")],
        ..Mcp::default()
    };
    let pace = Pace {
        first: Duration::from_millis(5),
        max: Duration::from_millis(20),
    };
    let supervised = Supervised::start(&mcp, "agent-0".into(), Outbound::default(), pace);
    let mut view = supervised.view();
    let settled = view.wait_for(|view| view.settled()).await.unwrap().clone();
    assert_eq!(settled.servers[0].state, ServerState::Connected);
    assert_eq!(settled.catalogue.entries().len(), 1);
    assert!(log.until("mcp.connect.fail", 1).await[0].contains("mcp.server=bad "));
    let written = log.until("mcp.tool", 1).await;
    assert!(
        written[0].contains("gen_ai.tool.name=echo ") && written[0].contains("description=does echo "),
        "{written:?}"
    );
    // Another definition under the same name is said aloud, once.
    let changed = json!({"name": "echo", "description": "does more", "inputSchema": {"type": "object"}});
    good.script().tools = [(String::new(), (vec![changed], None))].into();
    supervised.check("good");
    let changed = log.until("mcp.tool.changed", 1).await;
    assert!(
        changed[0].starts_with("WARN") && changed[0].contains("description=does more "),
        "{changed:?}"
    );
    assert_eq!(log.of("mcp.tool").len(), 1);
    supervised.close().await;
}

/// For the prompt, from both handshakes.
#[tokio::test]
async fn m17_what_a_server_says_of_itself_is_kept_cut_and_cleaned() {
    let long = format!(" Be\u{7} kind.\n{} ", "x".repeat(20_000));
    let peer = Peer::start(Script {
        instructions: Some(long),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    let text = connection.instructions().unwrap();
    assert!(
        text.starts_with("Be kind.\nx") && text.ends_with("characters cut]"),
        "{text}"
    );
    assert!(text.chars().count() < 17_000);
    connection.close().await;
}
