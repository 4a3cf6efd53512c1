//! What callers of 0.3 say, whatever it is, is answered; and what 1.0 answers, whatever it is, can be said in 0.3.

use agentd_noise::{changed, json, value};
use proptest::prelude::*;
use serde_json::{Value, json as object};

use super::{end, event, task};
use crate::fuzz::answered_in;
use crate::limit;
use crate::wire::StreamResponse;

/// Names that mean something.
const KEYS: &[&str] = &[
    "kind",
    "message",
    "messageId",
    "contextId",
    "taskId",
    "role",
    "parts",
    "text",
    "file",
    "bytes",
    "uri",
    "mimeType",
    "name",
    "data",
    "value",
    "data_part_compat",
    "metadata",
    "extensions",
    "referenceTaskIds",
    "configuration",
    "blocking",
    "historyLength",
    "acceptedOutputModes",
    "pushNotificationConfig",
    "id",
];
const METHODS: [&str; 7] = [
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "agent/getAuthenticatedExtendedCard",
];

fn call(method: &str, params: Value) -> Value {
    object!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn requests() -> Vec<Value> {
    let parts = object!([
        { "kind": "text", "text": "hi", "metadata": {} }, { "kind": "data", "data": { "n": 1.5 } },
        { "kind": "data", "data": { "value": 1 }, "metadata": { "data_part_compat": true } },
        { "kind": "file", "file": { "bytes": "AAAA", "mimeType": "image/png", "name": "a" } },
        { "kind": "file", "file": { "uri": "https://x" } },
    ]);
    let message = object!({ "kind": "message", "messageId": "m", "contextId": "c", "taskId": "t", "role": "user",
        "parts": parts, "metadata": {}, "extensions": ["https://x"], "referenceTaskIds": ["u"] });
    let configuration = object!({ "blocking": false, "historyLength": 1, "acceptedOutputModes": ["text/plain"],
        "pushNotificationConfig": { "url": "https://x", "token": "k", "authentication": { "schemes": ["Bearer"] } } });
    vec![
        call(
            "message/send",
            object!({ "message": message, "configuration": configuration, "metadata": {} }),
        ),
        call("message/stream", object!({ "message": message })),
        call(
            "tasks/get",
            object!({ "id": "t", "historyLength": 2, "metadata": {} }),
        ),
        call("tasks/cancel", object!({ "id": "t" })),
        call("tasks/resubscribe", object!({ "id": "t" })),
        object!([call("tasks/get", object!({ "id": "t" }))]),
    ]
}

/// Events of 1.0.
fn events() -> Vec<Value> {
    let parts = object!([
        { "text": "hi", "metadata": { "m": 1 } }, { "data": { "n": 1 } }, { "data": [1] }, { "raw": "AAAA", "filename": "a" },
        { "url": "https://x", "mediaType": "image/png" },
    ]);
    let message = object!({ "messageId": "m", "role": "ROLE_AGENT", "parts": parts, "taskId": "t" });
    let status = object!({ "state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "2026-12-01T10:00:00Z", "message": message });
    let artifact = object!({ "artifactId": "a", "name": "n", "parts": parts });
    vec![
        object!({ "task": { "id": "t", "contextId": "c", "status": status, "artifacts": [artifact], "history": [message] } }),
        object!({ "message": message }),
        object!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": status } }),
        object!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact, "append": true } }),
    ]
}

/// Everything that is of one of several kinds says which; a part has what its kind promises.
fn checked(said: &Value) {
    let kind = said["kind"].as_str().unwrap();
    match kind {
        "task" => {
            checked_status(&said["status"]);
            let all = |name: &str| said[name].as_array().cloned().unwrap_or_default();
            all("history").iter().for_each(checked);
            for artifact in all("artifacts") {
                checked_parts(&artifact["parts"]);
            }
        }
        "message" => {
            assert!(matches!(said["role"].as_str(), Some("user" | "agent")));
            checked_parts(&said["parts"]);
        }
        "status-update" => {
            assert!(said["final"].is_boolean());
            checked_status(&said["status"]);
        }
        "artifact-update" => checked_parts(&said["artifact"]["parts"]),
        _ => panic!("{kind}"),
    }
}

fn checked_status(status: &Value) {
    let state = status["state"].as_str().unwrap();
    assert!(
        state.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
        "{state}"
    );
    if let Some(message) = status.get("message") {
        checked(message);
    }
}

fn checked_parts(parts: &Value) {
    for part in parts.as_array().unwrap() {
        match part["kind"].as_str() {
            Some("text") => assert!(part["text"].is_string()),
            Some("data") => assert!(part["data"].is_object()),
            Some("file") => {
                let file = &part["file"];
                assert!(file["bytes"].is_string() != file["uri"].is_string(), "{file}");
            }
            kind => panic!("{kind:?}"),
        }
    }
}

#[test]
fn a_message_that_is_wrong_in_every_part_is_refused_shortly() {
    let long = "\u{1F600}\n".repeat(2_000);
    for part in [
        object!({}),
        object!({ "kind": long }),
        object!({ "kind": "file", "file": { "bytes": long } }),
    ] {
        let parts = vec![part; limit::PARTS];
        let message =
            object!({ "kind": long, "messageId": long, "taskId": [], "role": long, "parts": parts });
        let configuration = object!({ "blocking": long, "historyLength": long });
        let params = object!({ "message": message, "configuration": configuration });
        answered_in(call("message/send", params).to_string().as_bytes(), None);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(body in changed(vec![Vec::new(), call("message/send", object!({})).to_string().into_bytes()])) {
        answered_in(&body, None);
    }

    #[test]
    fn requests_that_are_nearly_right_are_answered(body in json(requests())) {
        answered_in(&body, Some("0.3"));
    }

    #[test]
    fn any_parameters_are_answered(method in prop::sample::select(METHODS.to_vec()), params in value(KEYS)) {
        answered_in(call(method, params).to_string().as_bytes(), None);
    }

    #[test]
    fn any_message_is_answered(fields in value(KEYS), part in value(KEYS), configuration in value(KEYS)) {
        let mut message = object!({ "messageId": "m", "role": "user", "parts": [part] });
        if let Value::Object(fields) = fields {
            message.as_object_mut().unwrap().extend(fields);
        }
        let params = object!({ "message": message, "configuration": configuration });
        answered_in(call("message/send", params).to_string().as_bytes(), None);
    }

    #[test]
    fn whatever_1_0_answers_can_be_said(body in json(events()), is_last in any::<bool>()) {
        let Ok(told) = serde_json::from_slice::<StreamResponse>(&body) else { return Ok(()) };
        checked(&event(&told, is_last).unwrap());
        if let StreamResponse::Task(whole) = &told {
            checked(&task(whole).unwrap());
            checked(&end(whole).unwrap());
        }
    }
}
