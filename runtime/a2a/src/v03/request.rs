//! Methods and parameters of 0.3, checked by field in the words of 0.3, and made parameters of 1.0. What 0.3 does not
//! know is left out, so that no member of 1.0 is said in a request of 0.3.

use a2a::FieldViolation;
use serde_json::{Map, Value};

use super::answer::WRAPPED;
use super::push;
use crate::fault::{Fault, violation};
use crate::limit;
use crate::message::{check_history, check_id, is_base64};
use crate::operation::{Method, Operation};

/// The operation behind a method of 0.3.
pub(crate) fn operation(method: &str) -> Result<Operation, Fault> {
    match method {
        "message/send" => Ok(Operation::SendMessage),
        "message/stream" => Ok(Operation::SendStreamingMessage),
        "tasks/get" => Ok(Operation::GetTask),
        "tasks/cancel" => Ok(Operation::CancelTask),
        "tasks/resubscribe" => Ok(Operation::SubscribeToTask),
        "tasks/pushNotificationConfig/set" => Ok(Operation::CreatePushConfig),
        "tasks/pushNotificationConfig/get" => Ok(Operation::GetPushConfig),
        "tasks/pushNotificationConfig/list" => Ok(Operation::ListPushConfigs),
        "tasks/pushNotificationConfig/delete" => Ok(Operation::DeletePushConfig),
        "agent/getAuthenticatedExtendedCard" => Ok(Operation::GetExtendedAgentCard),
        _ if Method::of(method) == Method::Unknown => Err(Fault::method(method)),
        _ => Err(Fault::method_of_one(method)),
    }
}

/// The parameters that 1.0 has for what these say.
pub(crate) fn params(operation: Operation, params: Map<String, Value>) -> Result<Value, Fault> {
    let mut found = Vec::new();
    let params = match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => send(params, &mut found),
        Operation::GetTask => {
            check_history(&params, "historyLength", &mut found);
            named(params, &["id", "historyLength"], &mut found)
        }
        Operation::CancelTask | Operation::SubscribeToTask => named(params, &["id"], &mut found),
        Operation::CreatePushConfig => push::create(params, &mut found),
        Operation::GetPushConfig | Operation::DeletePushConfig | Operation::ListPushConfigs => {
            push::named(params, operation, &mut found)
        }
        // No method of 0.3 leads to the first, and the second has none.
        Operation::ListTasks | Operation::GetExtendedAgentCard => Map::new(),
    };
    if found.is_empty() {
        Ok(Value::Object(params))
    } else {
        Err(Fault::params(found))
    }
}

/// Parameters that name a task.
fn named(
    mut params: Map<String, Value>,
    members: &[&str],
    found: &mut Vec<FieldViolation>,
) -> Map<String, Value> {
    check_id(&params, "id", "id", true, found);
    check_object(&params, "metadata", "metadata", found);
    params.retain(|name, _| members.contains(&name.as_str()));
    params
}

fn send(mut params: Map<String, Value>, found: &mut Vec<FieldViolation>) -> Map<String, Value> {
    let mut sent = Map::new();
    match params.remove("message") {
        Some(Value::Object(message)) => {
            sent.insert("message".to_owned(), Value::Object(said(message, found)));
        }
        _ => found.push(violation("message", "is required and must be an object")),
    }
    match params.remove("configuration") {
        None | Some(Value::Null) => {}
        Some(Value::Object(configuration)) => {
            let configuration = configured(configuration, found);
            sent.insert("configuration".to_owned(), Value::Object(configuration));
        }
        Some(_) => found.push(violation("configuration", "must be an object")),
    }
    check_object(&params, "metadata", "metadata", found);
    carry(&mut params, &mut sent, &[("metadata", "metadata")]);
    sent
}

/// A message of a caller.
fn said(mut message: Map<String, Value>, found: &mut Vec<FieldViolation>) -> Map<String, Value> {
    // The schema requires it, the examples of the specification leave it out.
    if !matches!(
        message.get("kind").map(Value::as_str),
        None | Some(Some("message"))
    ) {
        found.push(violation("message.kind", "must be `message`"));
    }
    check_id(&message, "messageId", "message.messageId", true, found);
    check_id(&message, "contextId", "message.contextId", false, found);
    check_id(&message, "taskId", "message.taskId", false, found);
    if message.get("role").and_then(Value::as_str) != Some("user") {
        found.push(violation("message.role", "is required and must be `user`"));
    }
    check_object(&message, "metadata", "message.metadata", found);
    check_texts(&message, "extensions", "message.extensions", found);
    check_texts(&message, "referenceTaskIds", "message.referenceTaskIds", found);
    let mut out = Map::new();
    out.insert("role".to_owned(), "ROLE_USER".into());
    match message.remove("parts") {
        Some(Value::Array(parts)) if parts.is_empty() => {
            found.push(violation("message.parts", "must hold at least one part"));
        }
        Some(Value::Array(parts)) if parts.len() > limit::PARTS => {
            let problem = format!("must hold at most {} parts", limit::PARTS);
            found.push(violation("message.parts", problem));
        }
        Some(Value::Array(parts)) => {
            let parts = parts.into_iter().enumerate().filter_map(|(index, one)| {
                part(one)
                    .map_err(|(member, problem)| {
                        found.push(violation(format!("message.parts[{index}]{member}"), problem));
                    })
                    .ok()
            });
            out.insert("parts".to_owned(), parts.map(Value::Object).collect());
        }
        _ => found.push(violation("message.parts", "is required and must be an array")),
    }
    let same = [
        "messageId",
        "contextId",
        "taskId",
        "metadata",
        "extensions",
        "referenceTaskIds",
    ];
    carry(&mut message, &mut out, &same.map(|name| (name, name)));
    out
}

/// A part, or the member that is wrong and why.
fn part(part: Value) -> Result<Map<String, Value>, (&'static str, &'static str)> {
    let Value::Object(mut part) = part else {
        return Err(("", "must be an object"));
    };
    let kind = part.remove("kind");
    let mut metadata = match part.remove("metadata") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return Err((".metadata", "must be an object")),
    };
    let mut out = Map::new();
    match kind.as_ref().and_then(Value::as_str) {
        Some("text") => match part.remove("text") {
            Some(text @ Value::String(_)) => {
                out.insert("text".to_owned(), text);
            }
            _ => return Err((".text", "is required and must be a string")),
        },
        Some("data") => match part.remove("data") {
            Some(Value::Object(data)) => {
                out.insert("data".to_owned(), unwrapped(data, &mut metadata));
            }
            _ => return Err((".data", "is required and must be an object")),
        },
        Some("file") => match part.remove("file") {
            Some(Value::Object(file)) => out = content(file)?,
            _ => return Err((".file", "is required and must be an object")),
        },
        _ => return Err((".kind", "is required and must be `text`, `file` or `data`")),
    }
    if !metadata.is_empty() {
        out.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Ok(out)
}

/// The content of a file: its bytes, or where it is.
fn content(mut file: Map<String, Value>) -> Result<Map<String, Value>, (&'static str, &'static str)> {
    let one = "must have exactly one of `bytes` and `uri`, a string";
    let mut out = Map::new();
    match (file.remove("bytes"), file.remove("uri")) {
        (Some(bytes @ Value::String(_)), None) => {
            out.insert("raw".to_owned(), bytes);
            if !is_base64(&out) {
                return Err((".file.bytes", "must be base64"));
            }
        }
        (None, Some(uri @ Value::String(_))) => {
            out.insert("url".to_owned(), uri);
        }
        _ => return Err((".file", one)),
    }
    for name in ["mimeType", "name"] {
        if !matches!(file.get(name), None | Some(Value::Null | Value::String(_))) {
            return Err((".file", "`mimeType` and `name` must be strings"));
        }
    }
    carry(
        &mut file,
        &mut out,
        &[("mimeType", "mediaType"), ("name", "filename")],
    );
    Ok(out)
}

/// Data of 1.0 need not be an object and of 0.3 must: what we wrapped, and a caller sends back, is what it was.
fn unwrapped(mut data: Map<String, Value>, metadata: &mut Map<String, Value>) -> Value {
    let is_wrapped = data.len() == 1 && metadata.get(WRAPPED) == Some(&Value::Bool(true));
    if is_wrapped && let Some(value) = data.remove("value") {
        metadata.remove(WRAPPED);
        return value;
    }
    Value::Object(data)
}

fn configured(mut configuration: Map<String, Value>, found: &mut Vec<FieldViolation>) -> Map<String, Value> {
    check_history(&configuration, "configuration.historyLength", found);
    check_texts(
        &configuration,
        "acceptedOutputModes",
        "configuration.acceptedOutputModes",
        found,
    );
    let mut out = Map::new();
    match configuration.get("blocking") {
        None | Some(Value::Null) => {}
        Some(Value::Bool(blocking)) => {
            out.insert("returnImmediately".to_owned(), Value::Bool(!blocking));
        }
        Some(_) => found.push(violation("configuration.blocking", "must be true or false")),
    }
    if let Some(config) = push::config(&mut configuration, "configuration.", found) {
        out.insert("taskPushNotificationConfig".to_owned(), Value::Object(config));
    }
    let same = [
        ("historyLength", "historyLength"),
        ("acceptedOutputModes", "acceptedOutputModes"),
    ];
    carry(&mut configuration, &mut out, &same);
    out
}

/// Moves members that are there, under the names that 1.0 has for them.
pub(super) fn carry(from: &mut Map<String, Value>, to: &mut Map<String, Value>, members: &[(&str, &str)]) {
    for (old, new) in members {
        if let Some(value) = from.remove(*old).filter(|value| !value.is_null()) {
            to.insert((*new).to_owned(), value);
        }
    }
}

pub(super) fn check_object(
    fields: &Map<String, Value>,
    name: &str,
    path: &str,
    found: &mut Vec<FieldViolation>,
) {
    if !matches!(fields.get(name), None | Some(Value::Null | Value::Object(_))) {
        found.push(violation(path, "must be an object"));
    }
}

pub(super) fn check_texts(
    fields: &Map<String, Value>,
    name: &str,
    path: &str,
    found: &mut Vec<FieldViolation>,
) {
    let right = match fields.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::Array(all)) => all.iter().all(Value::is_string),
        Some(_) => false,
    };
    if !right {
        found.push(violation(path, "must be an array of strings"));
    }
}
