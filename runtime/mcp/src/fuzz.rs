//! What servers say, whatever it is: bodies, events, entries of lists, results, questions and headers are taken or refused
//! in a few words, what is let in is what was declared, and nothing of it passes its bound.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::is_unseen;
use agentd_config::document::McpServer;
use agentd_net::Redactor;
use agentd_noise::{SECRET, changed, changed_text, json, value, words};
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::*;
use rmcp::model::{
    CallToolResult, GetPromptResult, JsonRpcMessage, ReadResourceResult, ServerJsonRpcMessage, ServerResult,
};
use serde_json::{Map, Value, json as object};
use sse_stream::Sse;

use crate::catalogue::{Catalogue, Tool};
use crate::events::{Of, Streams};
use crate::fault::{of_http, of_request};
use crate::mend::{Asked, List, message};
use crate::notices::Notices;
use crate::reading::{self, Structured};
use crate::schema::Checker;
use crate::status::{header, header_value, media_type, unauthorized, unexpected};
use crate::{form, prompt};

/// Names that mean something in a schema.
const RULES: &[&str] = &[
    "type",
    "properties",
    "items",
    "enum",
    "const",
    "pattern",
    "patternProperties",
    "$ref",
    "$defs",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "required",
    "format",
    "default",
    "minimum",
    "maxLength",
    "additionalProperties",
    "n",
];

fn schema() -> Value {
    object!({"$defs": {"t": {"type": "number"}}, "type": "object", "required": ["n"], "properties": {
        "n": {"$ref": "#/$defs/t"}, "s": {"type": "string", "pattern": "^a+$", "description": "d"},
        "e": {"enum": ["a", 1, null]}, "l": {"type": "array", "items": {"oneOf": [{"const": 1}, {"type": "boolean"}]}}}})
}

fn form() -> Value {
    object!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 9, "format": "email"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "score": {"type": "number", "default": 0.5},
        "news": {"type": "boolean", "default": true},
        "colour": {"type": "string", "enum": ["red", "blue"], "enumNames": ["Red", "Blue"]},
        "many": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "maxItems": 2},
    }})
}

fn lists() -> Vec<(List, Value)> {
    vec![
        (
            List::Tools,
            object!({"tools": [
                {"name": "a", "title": "A", "description": "d", "inputSchema": schema(), "outputSchema": schema(),
                    "annotations": {"readOnlyHint": true, "title": "t"}, "icons": [{"src": "https://x/i.png"}],
                    "execution": {"taskSupport": "forbidden"}, "_meta": {"x": 1}},
                {"name": "b.c/d", "inputSchema": {"type": "object"}},
            ], "nextCursor": "2", "_meta": {"y": [1]}}),
        ),
        (
            List::Resources,
            object!({"resources": [
                {"uri": "file:///a", "name": "a", "title": "A", "description": "d", "mimeType": "text/plain", "size": 7,
                    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-12-01T10:00:00Z"}},
                {"uri": "x:1", "name": "b"},
            ]}),
        ),
        (
            List::Templates,
            object!({"resourceTemplates": [
                {"uriTemplate": "file:///{path}", "name": "a", "title": "A", "description": "d", "mimeType": "text/plain"},
            ], "nextCursor": ""}),
        ),
    ]
}

fn results() -> Vec<Value> {
    vec![
        object!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "d", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "x:1", "text": "t", "mimeType": "text/plain"}},
            {"type": "resource", "resource": {"uri": "x:2", "blob": "AAAA"}},
        ], "structuredContent": {"n": 1, "s": "a"}, "isError": false, "_meta": {}}),
        object!({"contents": [{"uri": "x:1", "mimeType": "text/plain", "text": "t"}, {"uri": "x:2", "blob": "AAAA"}]}),
        object!({"description": "d", "messages": [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "assistant", "content": {"type": "resource", "resource": {"uri": "x:1", "text": "t"}}},
        ]}),
        object!({"resultType": "input_required", "requestState": "s", "inputRequests": {"k": {"method": "elicitation/create",
            "params": {"mode": "form", "message": "m", "requestedSchema": form()}}}}),
        object!({"resultType": "complete", "protocolVersion": "2025-11-25", "serverInfo": {"name": "n", "version": "1", "title": "t"},
            "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}, "logging": {}},
            "instructions": "i"}),
    ]
}

fn messages() -> Vec<Value> {
    let say = |method: &str, params: Value| object!({"jsonrpc": "2.0", "method": method, "params": params});
    let ask = |method: &str, params: Value| object!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let mut all: Vec<Value> = results()
        .into_iter()
        .chain(lists().into_iter().map(|(_, list)| list))
        .map(|result| object!({"jsonrpc": "2.0", "id": 1, "result": result}))
        .collect();
    all.extend([
        object!({"jsonrpc": "2.0", "id": "1", "error": {"code": -32602, "message": SECRET, "data": {"uri": "x:1"}}}),
        object!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "m"}}),
        say("notifications/tools/list_changed", object!({})),
        say("notifications/resources/updated", object!({"uri": "file:///a/b?c#d"})),
        say("notifications/message", object!({"level": "info", "logger": "l", "data": SECRET})),
        say("notifications/progress", object!({"progressToken": 1, "progress": 0.5, "total": 1})),
        say("notifications/cancelled", object!({"requestId": 1, "reason": "r"})),
        ask("ping", object!({})),
        ask("roots/list", object!({})),
        ask("sampling/createMessage", object!({"messages": [], "maxTokens": 1})),
        ask("elicitation/create", object!({"mode": "form", "message": "m", "requestedSchema": form()})),
        ask("elicitation/create", object!({"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"})),
        object!([{"jsonrpc": "2.0", "id": 1, "method": "roots/list"}]),
    ]);
    all
}

/// What a list's answer becomes.
fn listed(list: List, body: &[u8]) {
    let answer = match message(body, Some(Asked::List(list)), "s") {
        Ok(answer) => answer,
        Err(error) => return refused(&agentd_base::json::why(&error)),
    };
    let JsonRpcMessage::Response(answer) = answer else {
        return;
    };
    match answer.result {
        ServerResult::ListToolsResult(page) => {
            let tools: Vec<Tool> = page.tools.into_iter().map(|tool| reading::tool(tool).0).collect();
            for tool in &tools {
                bounded(tool.description.as_deref(), 8 * 1024 + 40);
                let kept: Tool = serde_json::from_value(serde_json::to_value(tool).unwrap()).unwrap();
                assert_eq!(&kept, tool);
                let _ = Checker::of(&tool.input_schema, false);
            }
            named(&tools);
        }
        ServerResult::ListResourcesResult(page) => {
            for line in page.resources.into_iter().filter_map(reading::resource) {
                asked_for(&line.uri);
                short(&line.name);
                line.title.as_deref().map(short);
                line.mime_type.as_deref().map(short);
                bounded(line.description.as_deref(), 8 * 1024 + 40);
            }
        }
        ServerResult::ListResourceTemplatesResult(page) => {
            for line in page.resource_templates.into_iter().filter_map(reading::template) {
                asked_for(&line.uri_template);
                short(&line.name);
            }
        }
        _ => {}
    }
}

/// Whatever tools are called, people and models call each by a name of its own, and find it by that.
fn named(tools: &[Tool]) {
    let server = |name: &str| McpServer {
        name: name.into(),
        ..McpServer::default()
    };
    let (one, two) = (server("one"), server("two"));
    let catalogue = Catalogue::build([(&one, tools), (&two, tools)]);
    let mut seen = BTreeSet::new();
    for entry in catalogue.entries() {
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        assert!((1..=64).contains(&entry.provider.len()) && entry.provider.chars().all(fit));
        assert!(seen.insert(&entry.provider), "{}", entry.provider);
        assert_eq!(catalogue.by_provider_name(&entry.provider), Some(entry));
        assert_eq!(catalogue.by_qualified_name(&entry.qualified), Some(entry));
    }
}

/// A URI can be sent back and shown.
fn asked_for(uri: &str) {
    assert!(!uri.is_empty() && uri.chars().count() <= 2048);
    assert!(!uri.chars().any(|c| c.is_control() || is_unseen(c)));
}

fn short(text: &str) {
    assert!(text.chars().count() <= FOREIGN_CHARS && !text.chars().any(char::is_control));
}

fn bounded(text: Option<&str>, max: usize) {
    let text = text.unwrap_or_default();
    assert!(text.chars().count() <= max, "{}", text.len());
    assert!(
        !text
            .chars()
            .any(|c| is_unseen(c) || (c.is_control() && !matches!(c, '\n' | '\t')))
    );
}

/// An error of ours, as it is shown.
fn refused(why: &str) {
    words(&of_http(&unexpected(why)).message);
}

/// What a result is to a model.
fn told(result: &Value) {
    if let Ok(result) = serde_json::from_value::<CallToolResult>(result.clone()) {
        for structured in [
            Structured::Fits,
            Structured::Unknown,
            Structured::Unpromised,
            Structured::Broken("w".into()),
        ] {
            let outcome = reading::outcome(result.clone(), structured);
            assert!(
                outcome.text.chars().count() <= 256 * 1024 + 200,
                "{}",
                outcome.text.len()
            );
            assert!(outcome.links.len() <= 64);
            outcome.links.iter().for_each(|link| asked_for(link));
        }
        reading::whole(result);
    }
    if let Ok(result) = serde_json::from_value::<ReadResourceResult>(result.clone()) {
        assert!(reading::contents("x:1", result).len() <= 1_001);
    }
    if let Ok(result) = serde_json::from_value::<GetPromptResult>(result.clone()) {
        prompt::words(result);
    }
}

/// The events of a stream in these chunks, up to its end.
fn heard(chunks: Vec<Bytes>, elicitation: bool, asked: Option<Asked>) -> Vec<Option<Sse>> {
    let redactor = Redactor::new([SECRET.into()]);
    let notices = Arc::new(Notices::new("s"));
    let streams = Arc::new(Streams::new("s", elicitation, notices));
    let stream = futures::stream::iter(chunks.into_iter().map(Ok)).boxed();
    let events = streams.heard(stream, redactor, Of::Answer(asked), |_| {});
    let events = events.map(Result::ok).collect::<Vec<_>>();
    events.now_or_never().unwrap()
}

fn cut(bytes: &[u8], size: usize) -> Vec<Bytes> {
    bytes.chunks(size.max(1)).map(Bytes::copy_from_slice).collect()
}

/// What comes in on a stream is what was declared, without what was told in confidence.
fn admitted(event: &Sse, elicitation: bool) {
    assert!(event.retry.is_none_or(|retry| retry <= 300_000));
    assert!(event.id.as_ref().is_none_or(|id| id.len() <= 4096));
    if let Some(id) = &event.id {
        assert!(
            header_value(id).is_ok() || id.chars().any(char::is_control),
            "{id:?}"
        );
    }
    let Some(data) = &event.data else { return };
    assert!(!data.contains(SECRET), "{data}");
    match serde_json::from_str::<ServerJsonRpcMessage>(data) {
        Ok(JsonRpcMessage::Request(_)) => {
            let message: Value = serde_json::from_str(data).unwrap();
            let method = message["method"].as_str().unwrap();
            assert!(
                method == "ping" || (elicitation && method == "elicitation/create"),
                "{method} was let in"
            );
        }
        Ok(JsonRpcMessage::Error(error)) => {
            words(&of_request(&rmcp::ServiceError::McpError(error.error), None).message);
        }
        Ok(JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_)) | Err(_) => {}
    }
}

/// The text of an event stream that says these.
fn stream(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut text = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        text.extend(format!("event: message\nid: {number}\nretry: 10\ndata: ").into_bytes());
        text.extend(
            message
                .iter()
                .map(|byte| if *byte == b'\n' { b' ' } else { *byte }),
        );
        text.extend(b"\n\n");
    }
    text
}

proptest! {
    #![proptest_config(agentd_noise::cases(96))]

    #[test]
    fn lists_that_are_nearly_right(
        which in 0_usize..3,
        tools in json(vec![lists()[0].1.clone()]),
        resources in json(vec![lists()[1].1.clone()]),
        templates in json(vec![lists()[2].1.clone()]),
    ) {
        let result = [tools, resources, templates][which].clone();
        let mut body = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":".to_vec();
        body.extend(result);
        body.push(b'}');
        listed(lists()[which].0, &body);
    }

    /// M19: what is no entry harms no other.
    #[test]
    fn an_entry_of_any_shape_leaves_the_others(entry in value(&["name", "inputSchema", "description", "annotations", "type"])) {
        let good = object!({"name": "good", "inputSchema": {"type": "object"}});
        let body = object!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [entry, good]}}).to_string();
        match message(body.as_bytes(), Some(Asked::List(List::Tools)), "s") {
            Ok(JsonRpcMessage::Response(answer)) => match answer.result {
                ServerResult::ListToolsResult(page) => prop_assert!(page.tools.iter().any(|tool| tool.name == "good")),
                other => prop_assert!(false, "{:?}", other),
            },
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn answers_that_are_nearly_right(body in json(messages())) {
        if let Err(error) = message(&body, Some(Asked::Work), "s") {
            refused(&agentd_base::json::why(&error));
        }
        if let Ok(answer) = serde_json::from_slice::<Value>(&body) {
            told(&answer["result"]);
        }
    }

    #[test]
    fn any_bytes_for_an_answer(body in changed(vec![Vec::new(), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}".to_vec()])) {
        for asked in [None, Some(Asked::Work), Some(Asked::List(List::Tools))] {
            if let Err(error) = message(&body, asked, "s") {
                refused(&agentd_base::json::why(&error));
            }
        }
    }

    #[test]
    fn streams_are_heard_alike_in_any_chunks_and_let_in_what_was_declared(
        said in prop::collection::vec(json(messages()), 1..4),
        edits in agentd_noise::Edits::any(0..3),
        size in 1_usize..200,
        elicitation in any::<bool>(),
    ) {
        let mut text = stream(&said);
        edits.apply(&mut text);
        let asked = Some(Asked::Work);
        let whole = heard(vec![Bytes::from(text.clone())], elicitation, asked);
        for event in whole.iter().flatten() {
            admitted(event, elicitation);
        }
        prop_assert!(whole.iter().rev().skip(1).all(Option::is_some), "an event after the end");
        // A line that cannot be read takes with it what came in the same chunk.
        if whole.iter().all(Option::is_some) {
            prop_assert_eq!(heard(cut(&text, size), elicitation, asked), whole);
        }
    }

    #[test]
    fn schemas_are_made_ready_or_refused_and_repeat_no_value(
        made in prop_oneof![json(vec![schema()]), value(RULES).prop_map(|schema| schema.to_string().into_bytes())],
        given in prop_oneof![value(RULES), Just(object!({"n": SECRET, "s": SECRET, "e": SECRET, "l": [SECRET]}))],
    ) {
        let Ok(made) = serde_json::from_slice::<Map<String, Value>>(&made) else { return Ok(()) };
        match Checker::of(&made, true) {
            Ok(checker) => if let Some(fault) = checker.fault(&given) {
                words(&fault);
            },
            Err(unfit) => words(&unfit.to_string()),
        }
    }

    /// M13: an answer that was made to fit a form fits it as it is.
    #[test]
    fn forms_that_are_nearly_right(
        made in json(vec![form()]),
        given in prop_oneof![value(&["name", "age", "score", "news", "colour", "many"]),
            Just(object!({"name": "a@b.c", "age": "7", "news": "yes", "colour": "red", "many": "x"}))],
    ) {
        let (Ok(made), Value::Object(given)) = (serde_json::from_slice::<Value>(&made), given) else { return Ok(()) };
        if !form::is_answerable(&made) {
            return Ok(());
        }
        if let Some(shaped) = form::shape(&made, given) {
            prop_assert_eq!(form::shape(&made, shaped.clone()), Some(shaped));
        }
    }

    #[test]
    fn heads_of_answers(
        status in prop::sample::select(vec![200_u16, 400, 401, 403, 404, 503]),
        kind in changed_text(&["application/json; charset=utf-8", "text/event-stream", "Application/JSON"]),
        challenge in changed_text(&["Bearer error=\"insufficient_scope\", scope=\"a b\"", "Bearer resource_metadata=\"https://x/m\""]),
        session in changed_text(&["0b5e-77aa", "a b", "é"]),
    ) {
        let mut headers = HeaderMap::new();
        for (name, text) in [("content-type", &kind), ("www-authenticate", &challenge), ("mcp-session-id", &session)] {
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
                headers.insert(name, value);
            }
        }
        if let Err(error) = unauthorized(StatusCode::from_u16(status).unwrap(), &headers) {
            words(&of_http(&error).message);
        }
        if let Some(kind) = media_type(&headers) {
            prop_assert!(!kind.contains(';') && kind.trim() == kind);
            words(&of_http(&rmcp::transport::streamable_http_client::StreamableHttpError::UnexpectedContentType(Some(kind))).message);
        }
        // A session that was taken up can be named again.
        if let Some(session) = header(&headers, &http::HeaderName::from_static("mcp-session-id")) {
            prop_assert!(header_value(&session).is_ok(), "{:?}", session);
        }
    }
}

/// Of no entry, event or URI becomes work that nobody can wait for.
#[test]
fn what_is_long_costs_no_more_than_its_length() {
    let began = std::time::Instant::now();
    let notices = Notices::new("s");
    let _watched = notices.of("file:///a");
    notices.updated(&format!("file:///{}", "/".repeat(1_000_000)));
    let id = "i".repeat(1_000_000);
    let kept = heard(
        cut(format!("id: {id}\ndata: x\n\n").as_bytes(), 1 << 16),
        false,
        None,
    );
    assert_eq!(kept.first().unwrap().as_ref().unwrap().id, None);
    let tools = (0..5_000).map(|n| Tool {
        name: "t".repeat(n % 250 + 1) + &n.to_string(),
        ..Tool::default()
    });
    named_fast(&tools.collect::<Vec<_>>());
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

fn named_fast(tools: &[Tool]) {
    let server = McpServer {
        name: "one".into(),
        ..McpServer::default()
    };
    assert!(Catalogue::build([(&server, tools)]).entries().len() > 4_000);
}
