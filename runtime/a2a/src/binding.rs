//! How an outcome is written in each binding, alone or as an event of a stream. Pure.

use a2a::JsonRpcId;
use http::StatusCode;
use serde_json::Value;

use crate::fault::Fault;
use crate::operation::Operation;
use crate::version::Version;
use crate::wire::{Message, SendMessageResponse, StreamResponse, Task};
use crate::{rest, rpc, v03};

/// The media type of JSON-RPC, and of the card.
pub(crate) const JSON: &str = "application/json";

/// What a request came in, and its answer goes out in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Binding {
    /// With the id of the request, in its version.
    JsonRpc(JsonRpcId, Version),
    HttpJson,
}

impl Binding {
    /// The media type of an answer.
    pub(crate) const fn media_type(&self) -> &'static str {
        match self {
            Self::JsonRpc(..) => JSON,
            Self::HttpJson => rest::MEDIA_TYPE,
        }
    }

    /// What it is spoken in.
    pub(crate) const fn version(&self) -> Version {
        match self {
            Self::JsonRpc(_, version) => *version,
            Self::HttpJson => Version::One,
        }
    }

    /// An answer.
    pub(crate) fn answer(&self, outcome: Result<Value, Fault>) -> (StatusCode, Vec<u8>) {
        match (self, outcome) {
            (Self::JsonRpc(id, _), outcome) => (StatusCode::OK, rpc::answer(id.clone(), outcome)),
            (Self::HttpJson, Ok(value)) => (StatusCode::OK, value.to_string().into_bytes()),
            (Self::HttpJson, Err(fault)) => {
                let (status, body) = fault.to_http();
                (status, body.to_string().into_bytes())
            }
        }
    }

    /// The task that an operation answers.
    pub(crate) fn task(&self, operation: Operation, task: Task) -> serde_json::Result<Value> {
        match (self, operation) {
            (Self::JsonRpc(_, Version::ZeroThree), _) => v03::task(&task),
            (Self::JsonRpc(_, Version::One) | Self::HttpJson, Operation::SendMessage) => {
                serde_json::to_value(SendMessageResponse::Task(task))
            }
            (
                Self::JsonRpc(_, Version::One) | Self::HttpJson,
                Operation::SendStreamingMessage
                | Operation::GetTask
                | Operation::ListTasks
                | Operation::CancelTask
                | Operation::SubscribeToTask
                | Operation::GetExtendedAgentCard
                | Operation::CreatePushConfig
                | Operation::GetPushConfig
                | Operation::ListPushConfigs
                | Operation::DeletePushConfig,
            ) => serde_json::to_value(task),
        }
    }

    /// The message that answers one.
    pub(crate) fn message(&self, message: Message) -> serde_json::Result<Value> {
        match self {
            Self::JsonRpc(_, Version::ZeroThree) => v03::event(&StreamResponse::Message(message), true),
            Self::JsonRpc(_, Version::One) | Self::HttpJson => {
                serde_json::to_value(SendMessageResponse::Message(message))
            }
        }
    }

    /// An event of a stream; `is_last` when the stream ends with it.
    pub(crate) fn event(&self, event: &StreamResponse, is_last: bool) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::JsonRpc(_, Version::One) | Self::HttpJson => {
                Ok(self.line(Ok(serde_json::to_value(event)?)))
            }
            Self::JsonRpc(_, Version::ZeroThree) => {
                let mut lines = self.line(Ok(v03::event(event, is_last)?));
                if let (StreamResponse::Task(task), true) = (event, is_last) {
                    lines.append(&mut self.line(Ok(v03::end(task)?)));
                }
                Ok(lines)
            }
        }
    }

    /// An outcome as an event. JSON without white space is one line.
    pub(crate) fn line(&self, outcome: Result<Value, Fault>) -> Vec<u8> {
        let (_, json) = self.answer(outcome);
        [b"data: ".as_slice(), &json, b"\n\n"].concat()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::{TaskState, TaskStatus};

    fn task(state: TaskState) -> Task {
        Task {
            id: "a\nb".into(),
            context_id: "c".into(),
            status: TaskStatus {
                state,
                message: None,
                timestamp: None,
            },
            artifacts: None,
            history: None,
            metadata: None,
        }
    }

    /// The events, each of which is one line.
    fn events(bytes: Vec<u8>) -> Vec<Value> {
        let text = String::from_utf8(bytes).unwrap();
        let lines = text.strip_suffix("\n\n").unwrap().split("\n\n");
        lines
            .map(|line| {
                let json = line.strip_prefix("data: ").unwrap();
                assert!(!json.contains('\n'));
                serde_json::from_str(json).unwrap()
            })
            .collect()
    }

    #[test]
    fn an_event_is_one_line_of_either_binding() {
        let event = StreamResponse::Task(task(TaskState::Completed));
        let result = json!({ "task": { "id": "a\nb", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } });
        let rpc = Binding::JsonRpc(JsonRpcId::Number(7), Version::One).event(&event, true);
        assert_eq!(
            events(rpc.unwrap()),
            [json!({ "jsonrpc": "2.0", "id": 7, "result": result })]
        );
        assert_eq!(events(Binding::HttpJson.event(&event, true).unwrap()), [result]);
    }

    #[test]
    fn a_stream_of_0_3_says_which_event_is_its_last() {
        let binding = Binding::JsonRpc(JsonRpcId::Number(7), Version::ZeroThree);
        let event = StreamResponse::Task(task(TaskState::Completed));
        let answered = |result: Value| json!({ "jsonrpc": "2.0", "id": 7, "result": result });
        let status = json!({ "state": "completed" });
        let whole = answered(json!({ "kind": "task", "id": "a\nb", "contextId": "c", "status": status }));
        let end = answered(
            json!({ "kind": "status-update", "taskId": "a\nb", "contextId": "c", "status": status, "final": true }),
        );
        assert_eq!(
            events(binding.event(&event, false).unwrap()),
            std::slice::from_ref(&whole)
        );
        assert_eq!(events(binding.event(&event, true).unwrap()), [whole, end]);
    }

    #[test]
    fn a_task_stands_in_an_answer_as_its_version_has_it() {
        let version = |version| Binding::JsonRpc(JsonRpcId::Null, version);
        let kept = task(TaskState::Working);
        for (binding, operation, member) in [
            (version(Version::One), Operation::SendMessage, "task"),
            (version(Version::One), Operation::GetTask, "id"),
            (Binding::HttpJson, Operation::SendMessage, "task"),
            (Binding::HttpJson, Operation::CancelTask, "id"),
            (version(Version::ZeroThree), Operation::SendMessage, "kind"),
            (version(Version::ZeroThree), Operation::GetTask, "kind"),
        ] {
            let shown = binding.task(operation, kept.clone()).unwrap();
            assert!(shown.get(member).is_some(), "{binding:?} {operation:?}: {shown}");
            assert_eq!(shown.get("kind").is_some(), member == "kind", "{shown}");
        }
    }

    #[test]
    fn an_error_has_its_status_where_http_carries_it() {
        let (status, body) = Binding::HttpJson.answer(Err(Fault::internal()));
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body,
            json!({ "error": {
                "code": 500, "status": "INTERNAL",
                "message": "the agent met an internal error; its log says more",
                "details": [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INTERNAL_ERROR",
                              "domain": "a2a-protocol.org" }],
            } })
        );
        let (status, _) = Binding::JsonRpc(JsonRpcId::Null, Version::One).answer(Err(Fault::internal()));
        assert_eq!(status, StatusCode::OK);
    }
}
