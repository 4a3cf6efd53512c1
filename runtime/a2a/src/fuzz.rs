//! What callers and peers say, whatever it is: requests of both bindings are answered with one result or one error of
//! bounded size, and cards and answers of peers are taken or refused in a few words.

use a2a::{JsonRpcId, JsonRpcResponse};
use agentd_noise::{changed, changed_text, json, value, words};
use http::{HeaderMap, HeaderValue, Method as Verb, Request};
use proptest::prelude::*;
use serde_json::{Value, json as object};
use url::Url;

use crate::bearer::Shown;
use crate::call::{has_media_type, version, with_body};
use crate::client::{behind, card as card_of, interface, outcome, parse as read, refusal_message};
use crate::fault::Fault;
use crate::operation::Operation;
use crate::rest::{Found, find};
use crate::rpc::{Call, answer, operation, parse};
use crate::version::Version;
use crate::wire::{SendMessageResponse, Task};
use crate::{limit, list, message, push};

/// Names that mean something.
const KEYS: &[&str] = &[
    "message",
    "messageId",
    "contextId",
    "taskId",
    "role",
    "parts",
    "text",
    "raw",
    "url",
    "data",
    "metadata",
    "configuration",
    "historyLength",
    "returnImmediately",
    "id",
    "tenant",
    "status",
    "pageSize",
    "pageToken",
    "statusTimestampAfter",
    "includeArtifacts",
    "taskPushNotificationConfig",
];

/// A task of a peer.
fn task() -> Value {
    object!({
        "id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-12-01T10:00:00Z",
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}},
        "artifacts": [{"artifactId": "a", "parts": [{"data": {"n": 1}}, {"raw": "AAAA"}, {"url": "https://x"}]}],
        "history": [],
    })
}

fn requests() -> Vec<Value> {
    let call = |method: &str, params: Value| object!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    vec![
        call(
            "SendMessage",
            object!({
                "message": {"messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER", "metadata": {},
                    "parts": [{"text": "hi"}, {"data": {"n": 1.5}}, {"raw": "AAAA"}, {"url": "https://x"}]},
                "configuration": {"historyLength": 1, "returnImmediately": true, "taskPushNotificationConfig": null},
            }),
        ),
        call(
            "SendStreamingMessage",
            object!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}),
        ),
        call("GetTask", object!({"id": "t", "historyLength": 2})),
        call("CancelTask", object!({"id": "t"})),
        call(
            "ListTasks",
            object!({"contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 7, "pageToken": "t",
            "statusTimestampAfter": "2026-12-01T10:00:00Z", "includeArtifacts": true}),
        ),
        call(
            "CreateTaskPushNotificationConfig",
            object!({"taskId": "t", "url": "https://x", "token": "k",
            "authentication": {"scheme": "Bearer", "credentials": "c"}}),
        ),
        object!([{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}]),
    ]
}

/// An error is short, as JSON-RPC carries it and as HTTP does.
fn refused(fault: &Fault) {
    words(&fault.to_wire().message);
    let (_, body) = fault.to_http();
    assert!(
        body.to_string().len() < 64 * 1024,
        "{} bytes",
        body.to_string().len()
    );
}

/// What an operation makes of its parameters.
fn understood(operation: Operation, params: Value) -> Result<Value, Fault> {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            message::send(params, Version::One).map(|parsed| {
                assert!(parsed.request.message_id.chars().count() <= limit::ID_CHARS);
                assert!(!parsed.request.parts.is_empty() && parsed.request.parts.len() <= limit::PARTS);
                object!(parsed.request.text())
            })
        }
        Operation::ListTasks => list::parse(&params).map(|listing| object!(listing.request.context_id)),
        Operation::GetTask => message::get(params).map(|parsed| object!(parsed.request.id)),
        Operation::CancelTask | Operation::SubscribeToTask => message::id(&params).map(|id| object!(id)),
        Operation::GetExtendedAgentCard => Ok(object!({})),
        Operation::CreatePushConfig
        | Operation::GetPushConfig
        | Operation::ListPushConfigs
        | Operation::DeletePushConfig => push::understand(operation, &params, Version::One).map(|asked| {
            assert!(asked.task_id.chars().count() <= limit::ID_CHARS);
            object!([asked.id, asked.config.map(|config| config.shown(&asked.task_id))])
        }),
    }
}

fn answered(body: &[u8]) {
    answered_in(body, Some("1.0"));
}

/// A body is answered with one result or one error.
pub(crate) fn answered_in(body: &[u8], version: Option<&str>) {
    let (id, outcome) = match parse(body, version) {
        Ok(Call {
            id,
            operation,
            params,
            ..
        }) => (id, understood(operation, params)),
        Err(refused) => (refused.id, Err(refused.fault)),
    };
    if let Err(fault) = &outcome {
        refused(fault);
    }
    let answer: Value = serde_json::from_slice(&answer(id, outcome)).unwrap();
    assert_eq!(answer["jsonrpc"], object!("2.0"));
    assert!(answer.get("result").is_some() != answer.get("error").is_some());
}

#[test]
fn a_message_that_is_wrong_in_every_part_is_refused_shortly() {
    let long = "\u{1F600}\n".repeat(20_000);
    for part in [
        object!({}),
        object!(7),
        object!({"text": 1, "raw": 2}),
        object!({"text": long, "url": long}),
    ] {
        let parts = vec![part; limit::PARTS];
        let message =
            object!({"messageId": long, "contextId": long, "taskId": [], "role": long, "parts": parts});
        answered(
            object!({"jsonrpc": "2.0", "id": long, "method": long, "params": {"message": message}})
                .to_string()
                .as_bytes(),
        );
        let params = object!({"message": message, "configuration": {"historyLength": long}});
        answered(
            object!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
                .to_string()
                .as_bytes(),
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(body in changed(vec![Vec::new(), b"{\"jsonrpc\":\"2.0\",\"id\":1}".to_vec()])) {
        answered(&body);
    }

    #[test]
    fn requests_that_are_nearly_right_are_answered(body in json(requests())) {
        answered(&body);
    }

    #[test]
    fn any_parameters_are_answered(
        method in prop::sample::select(vec!["SendMessage", "GetTask", "ListTasks"]),
        params in value(KEYS),
    ) {
        answered(object!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string().as_bytes());
    }

    #[test]
    fn any_message_is_answered(fields in value(KEYS), part in value(KEYS)) {
        let mut message = object!({ "messageId": "m", "role": "ROLE_USER", "parts": [part] });
        if let Value::Object(fields) = fields {
            message.as_object_mut().unwrap().extend(fields);
        }
        let params = object!({ "message": message });
        answered(object!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params }).to_string().as_bytes());
    }

    #[test]
    fn paths_queries_and_bodies(
        verb in prop::sample::select(vec![Verb::GET, Verb::POST, Verb::DELETE, Verb::PUT]),
        path in changed_text(&["/message:send", "/tasks/t1:cancel", "/tasks/t1", "/tasks", "/tasks/t1:subscribe",
            "/tasks/t1/pushNotificationConfigs/p", "/extendedAgentCard"]),
        query in changed_text(&["pageSize=2&includeArtifacts=true&status=TASK_STATE_WORKING&contextId=a%20b", "historyLength=3",
            "id=t2&pageToken=%00%ff&pageSize=99999999999999999999"]),
        body in json(requests()),
    ) {
        let Found::Call { method, mut params, has_body } = find(&verb, &path, Some(&query)) else { return Ok(()) };
        let operation = match operation(method) {
            Ok(operation) => operation,
            Err(fault) => return { refused(&fault); Ok(()) },
        };
        // The path says more than the query and the body.
        let named = params.get("id").cloned();
        if has_body {
            params = match with_body(params, &body) {
                Ok(params) => params,
                Err(fault) => return { refused(&fault); Ok(()) },
            };
        }
        if path.starts_with("/tasks/") {
            prop_assert_eq!(params.get("id").cloned(), named);
        }
        if let Err(fault) = understood(operation, Value::Object(params)) {
            refused(&fault);
        }
    }

    #[test]
    fn heads(
        text in changed_text(&["1.0", "1.0.7", " 1.0 ", "0.3", "application/json; charset=utf-8", "application/a2a+json"]),
        query in changed_text(&["A2A-Version=1.0", "a2a-version=%31.0&x=%ff"]),
    ) {
        if Version::of(Some(&text)) == Some(Version::One) {
            prop_assert!(text.trim().starts_with("1.0") && text.trim().len() < 14, "{:?}", text);
        }
        refused(&Fault::version(Some(&text)));
        let uri = http::Uri::builder().path_and_query(format!("/x?{query}")).build();
        let value = HeaderValue::from_bytes(text.as_bytes());
        if let (Ok(uri), Ok(value)) = (uri, value) {
            let (mut head, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
            version(&head);
            head.headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, value.clone())]);
            has_media_type(&head.headers, &["application/json"]);
            head.headers = HeaderMap::from_iter([(http::HeaderName::from_static("a2a-version"), value)]);
            version(&head);
        }
    }

    #[test]
    fn credentials_of_callers(
        lines in proptest::collection::vec(changed_text(&["Bearer abc.def-_~+/=", "bearer  x", "Basic eDp5", "Bearer"]), 0..3),
    ) {
        let values: Vec<_> = lines.iter().filter_map(|line| HeaderValue::from_bytes(line.as_bytes()).ok()).collect();
        let headers: HeaderMap = values.iter().map(|value| (http::header::AUTHORIZATION, value.clone())).collect();
        let shown = Shown::of(&headers);
        prop_assert_eq!(shown == Shown::Nothing, values.is_empty());
        if let Some(token) = shown.token() {
            prop_assert_eq!(values.len(), 1);
            prop_assert!(!token.is_empty() && !token.contains(char::is_whitespace), "{:?}", token);
            prop_assert!(values[0].to_str().unwrap().ends_with(token));
        }
    }

    #[test]
    fn cards_of_peers(card in json(vec![object!({
        "name": "n", "version": "1", "description": "d", "capabilities": {"streaming": true}, "skills": [],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "supportedInterfaces": [
            {"url": "https://a", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "https://b/a2a?x=1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"},
        ],
    })])) {
        let near = Url::parse("http://127.0.0.1:7/a2a").unwrap();
        let promised = card_of(&card).and_then(|card| interface(&card).map(|interface| interface.url.clone()));
        match promised {
            Ok(url) => match behind(&near, &url) {
                // However the card names it, it is at this end of the tunnel.
                Ok(url) => prop_assert_eq!(Url::parse(&url).unwrap().origin(), near.origin()),
                Err(error) => words(&error.to_string()),
            },
            Err(error) => words(&error.to_string()),
        }
    }

    #[test]
    fn answers_of_peers(body in json(vec![
        object!({"jsonrpc": "2.0", "id": "1", "result": task()}),
        object!({"jsonrpc": "2.0", "id": "1", "result": {"task": task()}}),
        object!({"jsonrpc": "2.0", "id": "1", "result": {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []}}}),
        object!({"jsonrpc": "2.0", "id": "1", "error": {"code": -32001, "message": "m", "data": [{"@type": "x"}]}}),
        object!({"error": {"code": 400, "message": "m"}}),
    ])) {
        let said = refusal_message(&body);
        prop_assert!(said.chars().count() <= agentd_base::limit::MESSAGE_CHARS && !said.chars().any(char::is_control));
        let asked = JsonRpcId::String("1".into());
        match read::<JsonRpcResponse>(&body) {
            Ok(answer) => {
                match outcome::<Task>(answer.clone(), &asked) {
                    Ok(task) => {
                        let written = serde_json::to_vec(&task).unwrap();
                        let again: Task = serde_json::from_slice(&written).unwrap();
                        prop_assert_eq!(serde_json::to_vec(&again).unwrap(), written);
                    }
                    Err(error) => words(&error.to_string()),
                }
                if let Err(error) = outcome::<SendMessageResponse>(answer, &asked) {
                    words(&error.to_string());
                }
            }
            Err(error) => words(&error.to_string()),
        }
    }
}
