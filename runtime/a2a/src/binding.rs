//! How an outcome is written in each binding, alone or as an event of a stream. Pure.

use a2a::JsonRpcId;
use http::StatusCode;
use serde_json::Value;

use crate::fault::Fault;
use crate::{rest, rpc};

/// The media type of JSON-RPC, and of the card.
pub(crate) const JSON: &str = "application/json";

/// What a request came in, and its answer goes out in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Binding {
    /// With the id of the request.
    JsonRpc(JsonRpcId),
    HttpJson,
}

impl Binding {
    /// The media type of an answer.
    pub(crate) const fn media_type(&self) -> &'static str {
        match self {
            Self::JsonRpc(_) => JSON,
            Self::HttpJson => rest::MEDIA_TYPE,
        }
    }

    /// An answer.
    pub(crate) fn answer(&self, outcome: Result<Value, Fault>) -> (StatusCode, Vec<u8>) {
        match (self, outcome) {
            (Self::JsonRpc(id), outcome) => (StatusCode::OK, rpc::answer(id.clone(), outcome)),
            (Self::HttpJson, Ok(value)) => (StatusCode::OK, value.to_string().into_bytes()),
            (Self::HttpJson, Err(fault)) => {
                let (status, body) = fault.to_http();
                (status, body.to_string().into_bytes())
            }
        }
    }

    /// An event of a stream. JSON without white space is one line.
    pub(crate) fn event(&self, value: Value) -> Vec<u8> {
        let (_, json) = self.answer(Ok(value));
        [b"data: ".as_slice(), &json, b"\n\n"].concat()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line_of_either_binding() {
        let value = json!({ "task": { "id": "a\nb" } });
        let rpc = Binding::JsonRpc(JsonRpcId::Number(7)).event(value.clone());
        let rpc = String::from_utf8(rpc).unwrap();
        let json = rpc.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(!json.contains('\n'));
        assert_eq!(
            serde_json::from_str::<Value>(json).unwrap(),
            json!({ "jsonrpc": "2.0", "id": 7, "result": value })
        );
        assert_eq!(Binding::HttpJson.event(json!({ "a": 1 })), b"data: {\"a\":1}\n\n");
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
        let (status, _) = Binding::JsonRpc(JsonRpcId::Null).answer(Err(Fault::internal()));
        assert_eq!(status, StatusCode::OK);
    }
}
