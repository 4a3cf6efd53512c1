//! The JSON-RPC envelope and the version negotiation: bytes to a call, a call's outcome to bytes. Pure.

use a2a::{JsonRpcId, JsonRpcResponse};
use agentd_base::json::{values, why};
use serde_json::Value;

use crate::fault::Fault;
use crate::operation::{Method, Operation};
use crate::version::Version;
use crate::{limit, v03};

/// A request that may be carried out.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: JsonRpcId,
    /// What the answer must be in.
    pub(crate) version: Version,
    pub(crate) operation: Operation,
    /// Those of 1.0, whatever the version.
    pub(crate) params: Value,
}

/// A request that is answered with an error, and the id that the answer carries.
#[derive(Debug, PartialEq)]
pub(crate) struct Refused {
    pub(crate) id: JsonRpcId,
    pub(crate) fault: Fault,
}

/// Parses a body. `version` is what the caller named. The version is judged before the method, so
/// that a caller of another version hears of the version and not of a method that it is right to call.
pub(crate) fn parse(body: &[u8], version: Option<&str>) -> Result<Call, Refused> {
    let refuse = |id: JsonRpcId| move |fault: Fault| Refused { id, fault };
    if values(body) > limit::VALUES {
        let problem = format!("it holds more than {} values", limit::VALUES);
        return Err(refuse(JsonRpcId::Null)(Fault::request(&problem)));
    }
    let value: Value =
        serde_json::from_slice(body).map_err(|error| refuse(JsonRpcId::Null)(Fault::parse(&why(&error))))?;
    let Value::Object(mut request) = value else {
        return Err(refuse(JsonRpcId::Null)(Fault::request(
            "it must be one object; batches are not part of A2A",
        )));
    };
    let id = match request.remove("id").map(serde_json::from_value::<JsonRpcId>) {
        Some(Ok(id)) => id,
        Some(Err(_)) => {
            return Err(refuse(JsonRpcId::Null)(Fault::request(
                "`id` must be a string or a whole number",
            )));
        }
        None => return Err(refuse(JsonRpcId::Null)(Fault::request("`id` is missing"))),
    };
    // It stands in every event of a stream.
    if matches!(&id, JsonRpcId::String(id) if id.chars().count() > limit::ID_CHARS) {
        let problem = format!("`id` must have at most {} characters", limit::ID_CHARS);
        return Err(refuse(JsonRpcId::Null)(Fault::request(&problem)));
    }
    if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(refuse(id)(Fault::request("`jsonrpc` must be \"2.0\"")));
    }
    let Some(Value::String(method)) = request.remove("method") else {
        return Err(refuse(id)(Fault::request("`method` must be a string")));
    };
    let Some(version) = Version::of(version) else {
        return Err(refuse(id)(Fault::version(version)));
    };
    match understood(version, &method, request.remove("params")) {
        Ok((operation, params)) => Ok(Call {
            id,
            version,
            operation,
            params,
        }),
        Err(fault) => Err(refuse(id)(fault)),
    }
}

fn understood(version: Version, method: &str, params: Option<Value>) -> Result<(Operation, Value), Fault> {
    let operation = match version {
        Version::One => operation(method)?,
        Version::ZeroThree => v03::operation(method)?,
    };
    let params = match (params, operation) {
        // There is nothing to say, and in 0.3 no place to say it.
        (None | Some(Value::Null), Operation::GetExtendedAgentCard) => {
            Some(Value::Object(serde_json::Map::new()))
        }
        (params, _) => params,
    };
    let Some(Value::Object(params)) = params else {
        return Err(Fault::params(vec![crate::fault::violation(
            "params",
            "must be an object",
        )]));
    };
    let params = match version {
        Version::One => Value::Object(params),
        Version::ZeroThree => v03::params(operation, params)?,
    };
    Ok((operation, params))
}

/// The operation behind a method of 1.0.
pub(crate) fn operation(method: &str) -> Result<Operation, Fault> {
    match Method::of(method) {
        Method::Served(operation) => Ok(operation),
        Method::Unknown => Err(Fault::method(method)),
    }
}

/// The bytes of an answer.
pub(crate) fn answer(id: JsonRpcId, outcome: Result<Value, Fault>) -> Vec<u8> {
    let response = match outcome {
        Ok(result) => JsonRpcResponse::success(id, result),
        Err(fault) => JsonRpcResponse::error(id, fault.to_wire()),
    };
    serde_json::to_vec(&response).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(body: &str, version: Option<&str>) -> (JsonRpcId, i32) {
        let refused = parse(body.as_bytes(), version).unwrap_err();
        (refused.id, refused.fault.code())
    }

    #[test]
    fn a_call() {
        let body = json!({ "jsonrpc": "2.0", "id": "a", "method": "GetTask", "params": { "id": "t" } });
        for version in ["1.0", "1.0.7", " 1.0 "] {
            assert_eq!(
                parse(body.to_string().as_bytes(), Some(version)).unwrap(),
                Call {
                    id: JsonRpcId::String("a".into()),
                    version: Version::One,
                    operation: Operation::GetTask,
                    params: json!({ "id": "t" })
                }
            );
        }
    }

    #[test]
    fn errors_of_the_envelope() {
        let v = Some("1.0");
        assert_eq!(code("{", v), (JsonRpcId::Null, -32700));
        assert_eq!(code("", v), (JsonRpcId::Null, -32700));
        assert_eq!(code("\u{0}", v), (JsonRpcId::Null, -32700));
        assert_eq!(code("[]", v), (JsonRpcId::Null, -32600));
        assert_eq!(code("7", v), (JsonRpcId::Null, -32600));
        assert_eq!(code("{}", v), (JsonRpcId::Null, -32600));
        assert_eq!(
            code(r#"{"id":1.5,"jsonrpc":"2.0","method":"GetTask"}"#, v),
            (JsonRpcId::Null, -32600)
        );
        assert_eq!(
            code(r#"{"id":[],"jsonrpc":"2.0","method":"GetTask"}"#, v),
            (JsonRpcId::Null, -32600)
        );
        let long = json!({ "id": "x".repeat(limit::ID_CHARS + 1), "jsonrpc": "2.0", "method": "GetTask" });
        assert_eq!(code(&long.to_string(), v), (JsonRpcId::Null, -32600));
        assert_eq!(
            code(r#"{"id":1,"jsonrpc":"1.0","method":"GetTask"}"#, v),
            (JsonRpcId::Number(1), -32600)
        );
        assert_eq!(
            code(r#"{"id":1,"jsonrpc":"2.0"}"#, v),
            (JsonRpcId::Number(1), -32600)
        );
        assert_eq!(
            code(r#"{"id":1,"jsonrpc":"2.0","method":7}"#, v),
            (JsonRpcId::Number(1), -32600)
        );
        assert_eq!(
            code(r#"{"id":1,"jsonrpc":"2.0","method":"tasks/get"}"#, v),
            (JsonRpcId::Number(1), -32601)
        );
        assert_eq!(
            code(r#"{"id":1,"jsonrpc":"2.0","method":"GetTask"}"#, v),
            (JsonRpcId::Number(1), -32602)
        );
        assert_eq!(
            code(r#"{"id":1,"jsonrpc":"2.0","method":"GetTask","params":[1]}"#, v),
            (JsonRpcId::Number(1), -32602)
        );
        let extended = r#"{"id":1,"jsonrpc":"2.0","method":"GetExtendedAgentCard"}"#;
        assert_eq!(
            parse(extended.as_bytes(), v).unwrap().operation,
            Operation::GetExtendedAgentCard
        );
    }

    #[test]
    fn a_body_of_too_many_values_is_refused() {
        let many = |count: usize| {
            let zeros = vec!["0"; count].join(",");
            format!(r#"{{"id":1,"jsonrpc":"2.0","method":"GetTask","params":{{"id":[{zeros}]}}}}"#)
        };
        assert!(parse(many(limit::VALUES - 100).as_bytes(), Some("1.0")).is_ok());
        assert_eq!(code(&many(limit::VALUES), Some("1.0")), (JsonRpcId::Null, -32600));
    }

    #[test]
    fn a_deeply_nested_body_is_refused() {
        for (levels, expected) in [(50_000, -32700), (100_000, -32600)] {
            let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            assert_eq!(code(&deep, Some("1.0")), (JsonRpcId::Null, expected));
        }
    }

    #[test]
    fn a_call_of_0_3_is_one_of_1_0() {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": "t", "tenant": "x" } });
        for version in [None, Some(""), Some("0.3"), Some("0.3.0")] {
            assert_eq!(
                parse(body.to_string().as_bytes(), version).unwrap(),
                Call {
                    id: JsonRpcId::Number(1),
                    version: Version::ZeroThree,
                    operation: Operation::GetTask,
                    params: json!({ "id": "t" })
                }
            );
        }
        // No method of one version is served in the other.
        assert_eq!(
            code(&body.to_string(), Some("1.0")),
            (JsonRpcId::Number(1), -32601)
        );
        let newer = r#"{"id":1,"jsonrpc":"2.0","method":"GetTask","params":{"id":"t"}}"#;
        let refused = parse(newer.as_bytes(), None).unwrap_err().fault.to_wire();
        assert_eq!(refused.code, -32601);
        assert!(
            refused.message.contains("send `A2A-Version: 1.0`"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn other_versions_are_refused_even_for_methods_we_do_not_know() {
        for method in ["message/send", "SendMessage", "x"] {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {} }).to_string();
            for version in ["0.2.6", "1", "1.1", "9.9"] {
                assert_eq!(
                    code(&body, Some(version)),
                    (JsonRpcId::Number(1), -32009),
                    "{version}"
                );
            }
        }
    }
}
