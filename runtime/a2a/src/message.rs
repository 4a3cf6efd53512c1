//! Parameters of `SendMessage` and of what names a task: checked by field, so that a caller learns every fault at once, then
//! parsed into the official types. Pure.

use a2a::FieldViolation;
use serde_json::{Map, Value};

use crate::fault::{Fault, violation};
use crate::service::{GetTask, SendMessage};
use crate::version::Version;
use crate::wire::{GetTaskRequest, Part, PartContent, SendMessageRequest, Task};
use crate::{limit, push};

/// The members of a part, exactly one of which is there.
const CONTENT: [&str; 4] = ["text", "raw", "url", "data"];

/// A parsed call with the history that its answer shall hold: `None` all, `Some(n)` the last n.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed<T> {
    pub(crate) request: T,
    pub(crate) history: Option<usize>,
}

/// `SendMessage`.
pub(crate) fn send(params: Value, version: Version) -> Result<Parsed<SendMessage>, Fault> {
    let mut found = Vec::new();
    check_message(params.get("message"), &mut found);
    let empty = Map::new();
    let configuration = match params.get("configuration") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(configuration)) => configuration,
        Some(_) => {
            found.push(violation("configuration", "must be an object"));
            &empty
        }
    };
    let history = check_history(configuration, "configuration.historyLength", &mut found);
    let push = push::of_message(configuration, version, &mut found);
    if !found.is_empty() {
        return Err(Fault::params(found));
    }
    let parsed: SendMessageRequest = serde_json::from_value(params).map_err(|error| malformed(&error))?;
    let message = parsed.message;
    if message
        .parts
        .iter()
        .any(|part| matches!(part.content, PartContent::Raw(_) | PartContent::Url(_)))
    {
        return Err(Fault::content_type(
            "this agent takes parts of `text` and `data`; its card says so",
        ));
    }
    let return_immediately = parsed
        .configuration
        .and_then(|c| c.return_immediately)
        .unwrap_or(false);
    Ok(Parsed {
        request: SendMessage {
            message_id: message.message_id,
            context_id: message.context_id.filter(|id| !id.is_empty()),
            task_id: message.task_id.filter(|id| !id.is_empty()),
            parts: message.parts,
            return_immediately,
            push,
            trace: None,
        },
        history,
    })
}

/// `GetTask`.
pub(crate) fn get(params: Value) -> Result<Parsed<GetTask>, Fault> {
    let mut found = Vec::new();
    let empty = Map::new();
    let fields = params.as_object().unwrap_or(&empty);
    check_id(fields, "id", "id", true, &mut found);
    let history = check_history(fields, "historyLength", &mut found);
    if !found.is_empty() {
        return Err(Fault::params(found));
    }
    let parsed: GetTaskRequest = serde_json::from_value(params).map_err(|error| malformed(&error))?;
    Ok(Parsed {
        request: GetTask { id: parsed.id },
        history,
    })
}

/// The task of `CancelTask` and `SubscribeToTask`.
pub(crate) fn id(params: &Value) -> Result<String, Fault> {
    let mut found = Vec::new();
    let empty = Map::new();
    let fields = params.as_object().unwrap_or(&empty);
    check_id(fields, "id", "id", true, &mut found);
    match fields.get("id").and_then(Value::as_str) {
        Some(id) if found.is_empty() => Ok(id.to_owned()),
        _ => Err(Fault::params(found)),
    }
}

/// Cuts a task's history to what was asked for.
pub(crate) fn cut_history(task: &mut Task, keep: Option<usize>) {
    match (keep, &mut task.history) {
        (Some(0), history) => *history = None,
        (Some(keep), Some(messages)) => {
            let surplus = messages.len().saturating_sub(keep);
            messages.drain(..surplus);
        }
        (_, None) | (None, _) => {}
    }
}

/// Parts as one text.
pub(crate) fn text_of(parts: &[Part]) -> String {
    let texts: Vec<String> = parts
        .iter()
        .filter_map(|part| match &part.content {
            PartContent::Text(text) => Some(text.clone()),
            PartContent::Data(data) => Some(data.to_string()),
            PartContent::Raw(_) | PartContent::Url(_) => None,
        })
        .collect();
    texts.join("\n\n")
}

fn malformed(error: &serde_json::Error) -> Fault {
    Fault::params(vec![violation("params", agentd_base::json::why(error))])
}

fn check_message(message: Option<&Value>, found: &mut Vec<FieldViolation>) {
    let Some(Value::Object(message)) = message else {
        found.push(violation("message", "is required and must be an object"));
        return;
    };
    check_id(message, "messageId", "message.messageId", true, found);
    check_id(message, "contextId", "message.contextId", false, found);
    check_id(message, "taskId", "message.taskId", false, found);
    if message.get("role").and_then(Value::as_str) != Some("ROLE_USER") {
        found.push(violation("message.role", "is required and must be ROLE_USER"));
    }
    match message.get("parts") {
        Some(Value::Array(parts)) if parts.is_empty() => {
            found.push(violation("message.parts", "must hold at least one part"));
        }
        Some(Value::Array(parts)) if parts.len() > limit::PARTS => {
            found.push(violation(
                "message.parts",
                format!("must hold at most {} parts", limit::PARTS),
            ));
        }
        Some(Value::Array(parts)) => {
            for (index, part) in parts.iter().enumerate() {
                if let Some(problem) = part_problem(part) {
                    found.push(violation(format!("message.parts[{index}]"), problem));
                }
            }
        }
        _ => found.push(violation("message.parts", "is required and must be an array")),
    }
}

fn part_problem(part: &Value) -> Option<&'static str> {
    if !agentd_base::json::fits(part, limit::PART_LEVELS) {
        return Some("must not be nested more than 64 levels deep");
    }
    let Some(part) = part.as_object() else {
        return Some("must be an object");
    };
    let mut present = CONTENT
        .iter()
        .filter_map(|name| part.get(*name).map(|value| (*name, value)));
    match (present.next(), present.next()) {
        (Some(("data", _)), None) => None,
        (Some(("raw", Value::String(_))), None) if !is_base64(part) => Some("`raw` must be base64"),
        (Some((_, value)), None) if value.is_string() => None,
        (Some(_), None) => Some("`text`, `raw` and `url` must be strings"),
        (None, _) | (Some(_), Some(_)) => Some("must have exactly one of `text`, `raw`, `url`, `data`"),
    }
}

/// Whether the bytes of a part can be read, by the rules of the official types.
pub(crate) fn is_base64(part: &Map<String, Value>) -> bool {
    let raw = part.iter().filter(|(name, _)| *name == "raw");
    let raw = raw.map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
    serde_json::from_value::<Part>(Value::Object(raw)).is_ok()
}

pub(crate) fn check_id(
    fields: &Map<String, Value>,
    name: &str,
    path: &str,
    required: bool,
    found: &mut Vec<FieldViolation>,
) {
    match fields.get(name) {
        None | Some(Value::Null) if !required => {}
        Some(Value::String(id)) if id.chars().count() > limit::ID_CHARS => {
            found.push(violation(
                path,
                format!("must have at most {} characters", limit::ID_CHARS),
            ));
        }
        Some(Value::String(id)) if !id.is_empty() || !required => {}
        _ if required => found.push(violation(
            path,
            "is required and must be a string that is not empty",
        )),
        _ => found.push(violation(path, "must be a string")),
    }
}

pub(crate) fn check_history(
    fields: &Map<String, Value>,
    path: &str,
    found: &mut Vec<FieldViolation>,
) -> Option<usize> {
    match fields.get("historyLength") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_i64().and_then(|length| i32::try_from(length).ok()) {
            Some(length) if length >= 0 => usize::try_from(length).ok(),
            _ => {
                found.push(violation(path, "must be a whole number, 0 or more"));
                None
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn send(params: Value) -> Result<Parsed<SendMessage>, Fault> {
        super::send(params, Version::One)
    }

    fn fields(fault: &Fault) -> Vec<String> {
        let wire = fault.to_wire();
        let data = wire.data.unwrap();
        data[0]["fieldViolations"]
            .as_array()
            .map(|all| {
                all.iter()
                    .map(|one| one["field"].as_str().unwrap().to_owned())
                    .collect()
            })
            .unwrap_or_default()
    }

    #[test]
    fn a_whole_message() {
        let parsed = send(json!({
            "message": {
                "messageId": "m1", "role": "ROLE_USER", "contextId": "c1", "taskId": "",
                "parts": [{ "text": "hello" }, { "data": { "a": 1 }, "mediaType": "application/json" }],
                "somethingNew": true,
            },
            "configuration": { "returnImmediately": true, "historyLength": 0, "acceptedOutputModes": ["text/plain"] },
        }))
        .unwrap();
        assert_eq!(
            parsed,
            Parsed {
                request: SendMessage {
                    message_id: "m1".into(),
                    context_id: Some("c1".into()),
                    task_id: None,
                    parts: vec![
                        Part::text("hello"),
                        Part::data(json!({ "a": 1 })).with_media_type("application/json"),
                    ],
                    return_immediately: true,
                    push: None,
                    trace: None,
                },
                history: Some(0),
            }
        );
        assert_eq!(parsed.request.text(), "hello\n\n{\"a\":1}");
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let fault = send(json!({
            "message": { "messageId": "", "contextId": 7, "role": "ROLE_AGENT", "parts": [{}, { "text": "a", "url": "b" }, { "text": 1 }] },
            "configuration": { "historyLength": -1 },
        }))
        .unwrap_err();
        assert_eq!(fault.code(), -32602);
        assert_eq!(
            fields(&fault),
            [
                "message.messageId",
                "message.contextId",
                "message.role",
                "message.parts[0]",
                "message.parts[1]",
                "message.parts[2]",
                "configuration.historyLength",
            ]
        );
        assert_eq!(fields(&send(json!({})).unwrap_err()), ["message"]);
        assert_eq!(
            fields(&send(json!({ "message": [], "configuration": 1 })).unwrap_err()),
            ["message", "configuration"]
        );
        let none = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [] } });
        assert_eq!(fields(&send(none).unwrap_err()), ["message.parts"]);
        assert_eq!(fields(&get(json!({ "id": "" })).unwrap_err()), ["id"]);
        assert_eq!(fields(&get(json!([])).unwrap_err()), ["id"]);
        assert_eq!(
            fields(&get(json!({ "id": "x".repeat(257), "historyLength": "1" })).unwrap_err()),
            ["id", "historyLength"]
        );
    }

    #[test]
    fn bounds() {
        let parts = vec![json!({ "text": "x" }); limit::PARTS + 1];
        let many = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": parts } });
        assert_eq!(fields(&send(many).unwrap_err()), ["message.parts"]);
        let long = json!({ "message": { "messageId": "m".repeat(257), "role": "ROLE_USER", "parts": [{ "text": "" }] } });
        assert_eq!(fields(&send(long).unwrap_err()), ["message.messageId"]);
    }

    #[test]
    fn what_the_card_does_not_promise_is_refused_with_its_own_code() {
        let message = |part: Value| json!({ "messageId": "m", "role": "ROLE_USER", "parts": [part] });
        let raw = send(json!({ "message": message(json!({ "raw": "aGk=" })) })).unwrap_err();
        assert_eq!(raw.code(), -32005);
        let url = send(json!({ "message": message(json!({ "url": "https://x/y" })) })).unwrap_err();
        assert_eq!(url.code(), -32005);
        let push = |config: Value| {
            send(json!({
                "message": message(json!({ "text": "x" })),
                "configuration": { "taskPushNotificationConfig": config },
            }))
        };
        let taken = push(json!({ "url": "https://x/y" }))
            .unwrap()
            .request
            .push
            .unwrap();
        assert_eq!((taken.id.as_str(), taken.url.as_str()), ("", "https://x/y"));
        assert_eq!(push(Value::Null).unwrap().request.push, None);
        let path = "configuration.taskPushNotificationConfig";
        assert_eq!(fields(&push(json!([])).unwrap_err()), [path]);
        assert_eq!(fields(&push(json!({})).unwrap_err()), [format!("{path}.url")]);
        let base64 = send(json!({ "message": message(json!({ "raw": "%" })) })).unwrap_err();
        assert_eq!(
            (base64.code(), fields(&base64)),
            (-32602, vec!["message.parts[0]".to_owned()])
        );
    }

    #[test]
    fn history_is_cut_from_the_front() {
        let message = |id: &str| crate::wire::Message {
            message_id: id.into(),
            ..crate::wire::Message::new(crate::wire::Role::User, vec![])
        };
        let task = |history| Task {
            id: "t".into(),
            context_id: "c".into(),
            status: crate::wire::TaskStatus {
                state: crate::wire::TaskState::Working,
                message: None,
                timestamp: None,
            },
            artifacts: None,
            history,
            metadata: None,
        };
        let all = vec![message("1"), message("2"), message("3")];
        for (keep, left) in [
            (None, Some(all.clone())),
            (Some(0), None),
            (Some(2), Some(vec![message("2"), message("3")])),
            (Some(9), Some(all.clone())),
        ] {
            let mut cut = task(Some(all.clone()));
            cut_history(&mut cut, keep);
            assert_eq!(cut.history, left, "{keep:?}");
        }
        let mut none = task(None);
        cut_history(&mut none, Some(2));
        assert_eq!(none.history, None);
    }
}
