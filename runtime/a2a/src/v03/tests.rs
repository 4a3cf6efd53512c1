//! Tables: each method, kind, role and state, in both directions.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use crate::fault::Fault;
use crate::limit;
use crate::message;
use crate::operation::Operation;
use crate::wire::{
    Artifact, Message, Part, Role, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};

fn read(operation: Operation, value: Value) -> Result<Value, Fault> {
    let Value::Object(fields) = value else { panic!() };
    params(operation, fields)
}

/// The parameters of a message with these parts.
fn with_parts(parts: Value) -> Value {
    json!({ "message": { "kind": "message", "messageId": "m", "role": "user", "parts": parts } })
}

/// What 1.0 makes of parts.
fn parts(parts: Value) -> Result<Value, Fault> {
    read(Operation::SendMessage, with_parts(parts)).map(|read| read["message"]["parts"].clone())
}

fn faults(fault: &Fault) -> Vec<(String, String)> {
    let data = fault.to_wire().data.unwrap();
    let all = data[0]["fieldViolations"].as_array().unwrap();
    let text = |one: &Value, name| one[name].as_str().unwrap().to_owned();
    all.iter()
        .map(|one| (text(one, "field"), text(one, "description")))
        .collect()
}

#[test]
fn methods() {
    for (method, expected) in [
        ("message/send", Ok(Operation::SendMessage)),
        ("message/stream", Ok(Operation::SendStreamingMessage)),
        ("tasks/get", Ok(Operation::GetTask)),
        ("tasks/cancel", Ok(Operation::CancelTask)),
        ("tasks/resubscribe", Ok(Operation::SubscribeToTask)),
        (
            "tasks/pushNotificationConfig/set",
            Ok(Operation::CreatePushConfig),
        ),
        ("tasks/pushNotificationConfig/get", Ok(Operation::GetPushConfig)),
        (
            "tasks/pushNotificationConfig/list",
            Ok(Operation::ListPushConfigs),
        ),
        (
            "tasks/pushNotificationConfig/delete",
            Ok(Operation::DeletePushConfig),
        ),
        (
            "agent/getAuthenticatedExtendedCard",
            Ok(Operation::GetExtendedAgentCard),
        ),
        ("tasks/list", Err(-32601)),
        ("SendMessage", Err(-32601)),
        ("ListTasks", Err(-32601)),
        ("", Err(-32601)),
    ] {
        let found = operation(method).map_err(|fault| fault.code());
        assert_eq!(found, expected, "{method}");
    }
}

#[test]
fn a_whole_message() {
    let whole = json!({
        "message": {
            "kind": "message", "messageId": "m", "contextId": "c", "taskId": "t", "role": "user",
            "parts": [{ "kind": "text", "text": "hi", "metadata": { "a": 1 }, "raw": "AAAA" }],
            "metadata": { "b": 2 }, "extensions": ["https://x"], "referenceTaskIds": ["u"],
        },
        "configuration": {
            "blocking": false, "historyLength": 3, "acceptedOutputModes": ["text/plain"],
            "pushNotificationConfig": { "url": "https://y" }, "returnImmediately": 7,
        },
        "metadata": { "c": 3 },
        "tenant": "other",
    });
    for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
        assert_eq!(
            read(operation, whole.clone()).unwrap(),
            json!({
                "message": {
                    "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
                    "parts": [{ "text": "hi", "metadata": { "a": 1 } }],
                    "metadata": { "b": 2 }, "extensions": ["https://x"], "referenceTaskIds": ["u"],
                },
                "configuration": {
                    "returnImmediately": true, "historyLength": 3, "acceptedOutputModes": ["text/plain"],
                    "taskPushNotificationConfig": { "url": "https://y" },
                },
                "metadata": { "c": 3 },
            })
        );
    }
}

#[test]
fn who_does_not_say_whether_to_wait_is_answered_at_the_end() {
    for (blocking, immediately) in [(json!(true), false), (json!(false), true), (Value::Null, false)] {
        let mut sent = with_parts(json!([{ "kind": "text", "text": "hi" }]));
        sent["configuration"] = json!({ "blocking": blocking });
        let params = read(Operation::SendMessage, sent).unwrap();
        let parsed = message::send(params, Version::ZeroThree).unwrap();
        assert_eq!(parsed.request.return_immediately, immediately, "{blocking}");
    }
}

#[test]
fn parts_in_both_directions() {
    let marked = json!({ "m": true });
    for (old, new) in [
        (json!({ "kind": "text", "text": "hi" }), json!({ "text": "hi" })),
        (
            json!({ "kind": "text", "text": "", "metadata": marked }),
            json!({ "text": "", "metadata": marked }),
        ),
        (
            json!({ "kind": "data", "data": { "a": [1] }, "metadata": marked }),
            json!({ "data": { "a": [1] }, "metadata": marked }),
        ),
        (
            json!({ "kind": "data", "data": { "value": 1 } }),
            json!({ "data": { "value": 1 } }),
        ),
        (
            json!({ "kind": "data", "data": { "value": [1, 2] }, "metadata": { "m": true, "data_part_compat": true } }),
            json!({ "data": [1, 2], "metadata": marked }),
        ),
        (
            json!({ "kind": "data", "data": { "value": null }, "metadata": { "data_part_compat": true } }),
            json!({ "data": null }),
        ),
        (
            json!({ "kind": "file", "file": { "bytes": "AQID", "mimeType": "image/png", "name": "a.png" }, "metadata": marked }),
            json!({ "raw": "AQID", "mediaType": "image/png", "filename": "a.png", "metadata": marked }),
        ),
        (
            json!({ "kind": "file", "file": { "uri": "https://x/a" } }),
            json!({ "url": "https://x/a" }),
        ),
    ] {
        assert_eq!(parts(json!([old])).unwrap(), json!([new]), "{old}");
        let part: Part = serde_json::from_value(new).unwrap();
        let told = Message {
            message_id: "m".into(),
            ..Message::new(Role::Agent, vec![part])
        };
        assert_eq!(
            event(&StreamResponse::Message(told), true).unwrap(),
            json!({ "kind": "message", "messageId": "m", "role": "agent", "parts": [old] })
        );
    }
}

#[test]
fn every_fault_is_named_at_once_in_the_words_of_0_3() {
    let id = "x".repeat(limit::ID_CHARS + 1);
    let wrong = json!({
        "message": {
            "kind": "task", "messageId": "", "contextId": 7, "taskId": id, "role": "ROLE_USER", "metadata": [],
            "extensions": "a", "referenceTaskIds": [1],
            "parts": [
                7, {}, { "text": "no kind" }, { "kind": "image" }, { "kind": "text" }, { "kind": "text", "text": 1 },
                { "kind": "text", "text": "a", "metadata": 1 }, { "kind": "data", "data": [1] },
                { "kind": "file" }, { "kind": "file", "file": {} },
                { "kind": "file", "file": { "bytes": "AAAA", "uri": "https://x" } },
                { "kind": "file", "file": { "bytes": "not base64!" } },
                { "kind": "file", "file": { "uri": "https://x", "name": 1 } },
            ],
        },
        "configuration": {
            "blocking": 1, "historyLength": -1, "acceptedOutputModes": {}, "pushNotificationConfig": "https://x",
        },
        "metadata": 1,
    });
    let fault = read(Operation::SendMessage, wrong).unwrap_err();
    assert_eq!(fault.code(), -32602);
    let expected = [
        ("message.kind", "must be `message`"),
        (
            "message.messageId",
            "is required and must be a string that is not empty",
        ),
        ("message.contextId", "must be a string"),
        ("message.taskId", "must have at most 256 characters"),
        ("message.role", "is required and must be `user`"),
        ("message.metadata", "must be an object"),
        ("message.extensions", "must be an array of strings"),
        ("message.referenceTaskIds", "must be an array of strings"),
        ("message.parts[0]", "must be an object"),
        (
            "message.parts[1].kind",
            "is required and must be `text`, `file` or `data`",
        ),
        (
            "message.parts[2].kind",
            "is required and must be `text`, `file` or `data`",
        ),
        (
            "message.parts[3].kind",
            "is required and must be `text`, `file` or `data`",
        ),
        ("message.parts[4].text", "is required and must be a string"),
        ("message.parts[5].text", "is required and must be a string"),
        ("message.parts[6].metadata", "must be an object"),
        ("message.parts[7].data", "is required and must be an object"),
        ("message.parts[8].file", "is required and must be an object"),
        (
            "message.parts[9].file",
            "must have exactly one of `bytes` and `uri`, a string",
        ),
        (
            "message.parts[10].file",
            "must have exactly one of `bytes` and `uri`, a string",
        ),
        ("message.parts[11].file.bytes", "must be base64"),
        ("message.parts[12].file", "`mimeType` and `name` must be strings"),
        ("configuration.historyLength", "must be a whole number, 0 or more"),
        ("configuration.acceptedOutputModes", "must be an array of strings"),
        ("configuration.blocking", "must be true or false"),
        ("configuration.pushNotificationConfig", "must be an object"),
        ("metadata", "must be an object"),
    ];
    let expected = expected.map(|(field, problem)| (field.to_owned(), problem.to_owned()));
    assert_eq!(faults(&fault), expected);
}

#[test]
fn what_is_missing_is_named() {
    let fields = |operation, value| {
        let found = faults(&read(operation, value).unwrap_err());
        found.into_iter().map(|(field, _)| field).collect::<Vec<_>>()
    };
    let send = Operation::SendMessage;
    assert_eq!(fields(send, json!({})), ["message"]);
    assert_eq!(
        fields(send, json!({ "message": {}, "configuration": [] })),
        [
            "message.messageId",
            "message.role",
            "message.parts",
            "configuration"
        ]
    );
    assert_eq!(fields(send, with_parts(json!([]))), ["message.parts"]);
    let many = vec![json!({ "kind": "text", "text": "x" }); limit::PARTS + 1];
    assert_eq!(fields(send, with_parts(json!(many))), ["message.parts"]);
    assert_eq!(
        fields(Operation::GetTask, json!({ "historyLength": "1", "metadata": 1 })),
        ["historyLength", "id", "metadata"]
    );
    for operation in [Operation::CancelTask, Operation::SubscribeToTask] {
        assert_eq!(fields(operation, json!({ "id": "" })), ["id"]);
    }
}

#[test]
fn what_names_a_task() {
    let asked = json!({ "id": "t", "historyLength": 2, "metadata": {}, "tenant": "x" });
    assert_eq!(
        read(Operation::GetTask, asked.clone()).unwrap(),
        json!({ "id": "t", "historyLength": 2 })
    );
    for operation in [Operation::CancelTask, Operation::SubscribeToTask] {
        assert_eq!(read(operation, asked.clone()).unwrap(), json!({ "id": "t" }));
    }
}

#[test]
fn a_message_that_1_0_refuses_is_refused() {
    let file = with_parts(json!([{ "kind": "file", "file": { "uri": "https://x" } }]));
    let params = read(Operation::SendMessage, file).unwrap();
    assert_eq!(
        message::send(params, Version::ZeroThree).unwrap_err().code(),
        -32005
    );
    let mut push = with_parts(json!([{ "kind": "text", "text": "hi" }]));
    push["configuration"] = json!({ "pushNotificationConfig": { "url": "https://x" } });
    let params = read(Operation::SendMessage, push).unwrap();
    let taken = message::send(params, Version::ZeroThree)
        .unwrap()
        .request
        .push
        .unwrap();
    assert_eq!(taken.version, Version::ZeroThree);
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: crate::wire::timestamp("2026-12-01T10:00:00Z".parse().unwrap()),
    }
}

#[test]
fn states_roles_and_which_event_is_the_last() {
    for (state, name) in [
        (TaskState::Submitted, "submitted"),
        (TaskState::Working, "working"),
        (TaskState::InputRequired, "input-required"),
        (TaskState::AuthRequired, "auth-required"),
        (TaskState::Completed, "completed"),
        (TaskState::Failed, "failed"),
        (TaskState::Canceled, "canceled"),
        (TaskState::Rejected, "rejected"),
        (TaskState::Unspecified, "unknown"),
    ] {
        let update = StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: "t".into(),
            context_id: "c".into(),
            status: status(state),
            metadata: None,
        });
        for is_last in [false, true] {
            assert_eq!(
                event(&update, is_last).unwrap(),
                json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "final": is_last,
                        "status": { "state": name, "timestamp": "2026-12-01T10:00:00Z" } })
            );
        }
    }
    for (role, name) in [
        (Role::User, "user"),
        (Role::Agent, "agent"),
        (Role::Unspecified, "agent"),
    ] {
        let message = StreamResponse::Message(Message::new(role, Vec::new()));
        assert_eq!(event(&message, true).unwrap()["role"], name);
    }
}

#[test]
fn a_whole_task_and_a_piece_of_an_artifact() {
    let marked = || Some(HashMap::from([("m".to_owned(), json!(1))]));
    let said = Message {
        message_id: "m".into(),
        context_id: Some("c".into()),
        task_id: Some("t".into()),
        metadata: marked(),
        extensions: Some(vec!["https://x".into()]),
        reference_task_ids: Some(vec!["u".into()]),
        ..Message::new(Role::Agent, vec![Part::text("on it")])
    };
    let artifact = Artifact {
        artifact_id: "a".into(),
        name: Some("n".into()),
        description: Some("d".into()),
        parts: vec![Part::text("hi")],
        metadata: marked(),
        extensions: Some(vec!["https://x".into()]),
    };
    let mut status = status(TaskState::InputRequired);
    status.message = Some(said.clone());
    let whole = Task {
        id: "t".into(),
        context_id: "c".into(),
        status,
        artifacts: Some(vec![artifact.clone()]),
        history: Some(vec![said]),
        metadata: marked(),
    };
    let message = json!({
        "kind": "message", "messageId": "m", "contextId": "c", "taskId": "t", "role": "agent",
        "parts": [{ "kind": "text", "text": "on it" }],
        "metadata": { "m": 1 }, "extensions": ["https://x"], "referenceTaskIds": ["u"],
    });
    let shown = json!({
        "artifactId": "a", "name": "n", "description": "d", "parts": [{ "kind": "text", "text": "hi" }],
        "metadata": { "m": 1 }, "extensions": ["https://x"],
    });
    let expected = json!({
        "kind": "task", "id": "t", "contextId": "c",
        "status": { "state": "input-required", "timestamp": "2026-12-01T10:00:00Z", "message": message },
        "artifacts": [shown], "history": [message], "metadata": { "m": 1 },
    });
    assert_eq!(task(&whole).unwrap(), expected);
    assert_eq!(event(&StreamResponse::Task(whole), false).unwrap(), expected);
    let piece = StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
        task_id: "t".into(),
        context_id: "c".into(),
        artifact,
        append: Some(true),
        last_chunk: Some(false),
        metadata: marked(),
    });
    assert_eq!(
        event(&piece, false).unwrap(),
        json!({ "kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": shown,
                "append": true, "lastChunk": false, "metadata": { "m": 1 } })
    );
}
