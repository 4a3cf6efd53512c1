//! What of a server's unasked messages is let in: notifications, answers, `ping`, and `elicitation/create` where it was
//! declared. Other requests have no declared capability behind them and are dropped, as the user's document says; so is
//! what cannot be read the way the SDK would read it.

use std::time::Duration;

use agentd_base::text::clip;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use sse_stream::Sse;

use crate::fault::TransportError;

/// Values in one message: a list of ten thousand tools has a third of them, and what they are in memory is some tens of
/// megabytes.
pub(crate) const MESSAGE_VALUES: usize = 500_000;

/// Whether a message would be too much in memory.
pub(crate) fn too_many(message: &[u8]) -> bool {
    agentd_base::json::values(message) > MESSAGE_VALUES
}

/// What an event is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The answer to something we asked.
    Answer,
    /// Something we did not ask for, let in or not.
    Unasked,
}

/// A server that wants its stream to be left alone for longer is asked after this: else nobody would hear of it again.
const RETRY: Duration = Duration::from_secs(300);

/// An id that is longer is none: it could not be sent back, and some of them are remembered.
const ID_BYTES: usize = 4 * 1024;

/// A server's request that nobody here handles loses its data; its id stays, so that a stream resumes after it.
pub(crate) fn screen(mut event: Sse, elicitation: bool) -> (Sse, Kind) {
    let most = u64::try_from(RETRY.as_millis()).unwrap_or(u64::MAX);
    event.id = event.id.filter(|id| id.len() <= ID_BYTES);
    event.retry = event.retry.map(|retry| retry.min(most));
    // A member that is null is there, as the SDK sees it.
    #[derive(Deserialize)]
    struct Head {
        #[serde(default, deserialize_with = "there")]
        method: Option<String>,
        #[serde(default, deserialize_with = "there")]
        id: Option<Option<IgnoredAny>>,
    }
    let data = event.data.as_deref().unwrap_or_default().trim_start();
    let (drop, kind) = match serde_json::from_str(data) {
        // No notification, which has no id, and no request, whose id is not null (MCP, Requests): the SDK reads it as
        // neither, and other readers as either.
        Ok(Head {
            method: Some(_),
            id: Some(None),
        }) => (true, Kind::Unasked),
        Ok(Head {
            method: Some(method),
            id: Some(Some(_)),
        }) => {
            let handled = method == "ping" || (elicitation && method == "elicitation/create");
            if !handled {
                tracing::debug!(event = "mcp.request.dropped", method = %clip(&method, 64));
            }
            (!handled, Kind::Unasked)
        }
        Ok(Head {
            method: None,
            id: Some(Some(_)),
        }) => (false, Kind::Answer),
        Ok(_) => (false, Kind::Unasked),
        // A message with a key twice, or a method that is none: two readers could see two things in it.
        Err(error) if data.starts_with('{') => {
            tracing::debug!(event = "mcp.message.dropped", err = %agentd_base::json::why(&error));
            (true, Kind::Unasked)
        }
        // No message, so nothing that anybody would act on.
        Err(_) => (false, Kind::Unasked),
    };
    let data = match (drop, too_many(data.as_bytes())) {
        (true, _) => None,
        (false, false) => return (event, kind),
        (false, true) => {
            tracing::warn!(event = "mcp.message.dropped", err = %TransportError::Values);
            refusal(data)
        }
    };
    (Sse { data, ..event }, kind)
}

/// A member that is there, whatever it is.
fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(member: D) -> Result<Option<T>, D::Error> {
    T::deserialize(member).map(Some)
}

/// What an answer that is too much is replaced with, so that whoever waits for it hears so at once.
fn refusal(answer: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Head {
        id: RequestId,
        #[serde(default)]
        method: Option<IgnoredAny>,
    }
    let head: Head = serde_json::from_str(answer).ok()?;
    if head.method.is_some() {
        return None;
    }
    let error = ErrorData::internal_error(TransportError::Values.to_string(), None);
    serde_json::to_string(&ServerJsonRpcMessage::error(error, Some(head.id))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screened(data: &str, elicitation: bool) -> (bool, Kind) {
        let event = Sse::default().id("7").data(data);
        let (screened, kind) = screen(event.clone(), elicitation);
        assert_eq!(screened.id, event.id);
        (screened.data.is_some(), kind)
    }

    #[test]
    fn m14_only_what_is_handled_passes_the_screen() {
        for method in ["roots/list", "sampling/createMessage", "tasks/get", "x/y"] {
            let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"a":[1]}}}}"#);
            assert_eq!(screened(&request, true), (false, Kind::Unasked), "{method}");
        }
        let elicitation = r#"{"jsonrpc":"2.0","id":"x","method":"elicitation\/create"}"#;
        assert_eq!(screened(elicitation, true), (true, Kind::Unasked));
        assert_eq!(screened(elicitation, false), (false, Kind::Unasked));
        for (other, kind) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Kind::Unasked),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
                Kind::Unasked,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"method":"roots/list"}}"#,
                Kind::Answer,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#,
                Kind::Answer,
            ),
            // The server could not read what we asked (JSON-RPC 2.0, section 5).
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
                Kind::Unasked,
            ),
            ("not json", Kind::Unasked),
            ("", Kind::Unasked),
        ] {
            assert_eq!(screened(other, false), (true, kind), "{other}");
        }
    }

    #[test]
    fn m21_a_message_of_too_many_values_is_an_error_to_who_waits_for_it() {
        let zeros = |count: usize| vec!["0"; count].join(",");
        let answer = |count: usize| format!(r#"{{"id":7,"result":{{"content":[{}]}}}}"#, zeros(count));
        let event = |data: String| Sse::default().id("1").data(data);
        let (as_it_is, kind) = screen(event(answer(MESSAGE_VALUES - 100)), false);
        assert_eq!(
            (as_it_is.data, kind),
            (Some(answer(MESSAGE_VALUES - 100)), Kind::Answer)
        );
        let (refused, kind) = screen(event(answer(MESSAGE_VALUES)), false);
        let error: serde_json::Value = serde_json::from_str(&refused.data.unwrap()).unwrap();
        assert_eq!(
            (error, kind),
            (
                serde_json::json!({"jsonrpc": "2.0", "id": 7, "error":
                    {"code": -32603, "message": "the server's message holds more than 500000 values"}}),
                Kind::Answer
            )
        );
        let notice = format!(
            r#"{{"method":"notifications/x","params":{{"a":[{}]}}}}"#,
            zeros(MESSAGE_VALUES)
        );
        assert_eq!(screened(&notice, false), (false, Kind::Unasked));
    }

    #[test]
    fn m30_a_stream_is_asked_for_again_whatever_its_server_wants() {
        for (wanted, kept) in [(0, 0), (60_000, 60_000), (300_001, 300_000), (u64::MAX, 300_000)] {
            let event = Sse {
                retry: Some(wanted),
                ..Sse::default()
            };
            assert_eq!(screen(event, false).0.retry, Some(kept));
        }
    }

    /// What the head cannot be read of is no message: another reader could take the other of two keys.
    #[test]
    fn m14_a_message_that_reads_in_two_ways_is_dropped() {
        for twice in [
            r#"{"id":1,"method":"ping","method":"sampling/createMessage"}"#,
            r#"{"id":1,"id":2,"method":"ping"}"#,
            r#" {"id":1,"method":7}"#,
            r#"{"id":1,"method":["ping"]}"#,
            r#"{"id":1,"method":"ping""#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":null,"result":{}}"#,
        ] {
            assert_eq!(screened(twice, true), (false, Kind::Unasked), "{twice}");
        }
    }
}
