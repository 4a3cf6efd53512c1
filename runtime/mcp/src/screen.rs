//! What of a server's unasked messages is let in: notifications, answers, `ping`, and `elicitation/create` where it was
//! declared. Other requests have no declared capability behind them and are dropped, as the user's document says.

use std::borrow::Cow;

use serde::Deserialize;
use sse_stream::Sse;

/// A server's request that nobody here handles loses its data; its id stays, so that a stream resumes after it.
pub(crate) fn screen(event: Sse, elicitation: bool) -> Sse {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
        id: Option<serde::de::IgnoredAny>,
    }
    let dropped = event.data.as_deref().is_some_and(|data| match serde_json::from_str(data) {
        Ok(Head { method: Some(method), id: Some(_) }) => {
            let handled = method == "ping" || (elicitation && method == "elicitation/create");
            if !handled {
                tracing::debug!(event = "mcp.request.dropped", method = %agentd_base::text::clip(&method, 64));
            }
            !handled
        }
        _ => false,
    });
    if dropped {
        Sse { data: None, ..event }
    } else {
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_handled_passes_the_screen() {
        let passes = |data: &str, elicitation: bool| {
            let event = Sse::default().id("7").data(data);
            let screened = screen(event.clone(), elicitation);
            assert_eq!(screened.id, event.id);
            screened.data.is_some()
        };
        for method in ["roots/list", "sampling/createMessage", "tasks/get", "x/y"] {
            let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"a":[1]}}}}"#);
            assert!(!passes(&request, true), "{method}");
        }
        let elicitation = r#"{"jsonrpc":"2.0","id":"x","method":"elicitation\/create"}"#;
        assert!(passes(elicitation, true));
        assert!(!passes(elicitation, false));
        for other in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"method":"roots/list"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#,
            "not json",
            "",
        ] {
            assert!(passes(other, false), "{other}");
        }
    }
}
