//! What a caller is told when a request is not served: one type for everything that is answered in the JSON-RPC
//! envelope, and one shape for refusals below it (HTTP). Every error carries a `google.rpc.ErrorInfo` in an array.

use std::time::Duration;

use a2a::{
    ERROR_INFO_TYPE, FieldViolation, JsonRpcError, PROTOCOL_DOMAIN, TypedDetail, error_code as code,
    error_reason,
};
use http::StatusCode;
use serde_json::{Value, json};

use crate::service::{Away, ServiceError};
use crate::version::Version;
use crate::wire;

/// An error in the JSON-RPC envelope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    code: i32,
    message: String,
    violations: Vec<FieldViolation>,
    /// Ours, where the protocol's own reason for the code would not say that it passes.
    passing: Option<&'static str>,
    /// When it has passed, in seconds.
    retry: u64,
    /// The versions that are spoken, where another one was asked for.
    spoken: Option<&'static str>,
}

/// The domain of the reasons that are ours.
const DOMAIN: &str = "agentd.io";
/// The type of the detail that tells a caller to try again.
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// Answers that a caller does not read.
const BUSY: &str = "TOO_MANY_REQUESTS";
/// Messages that wait.
const FULL: &str = "TOO_MANY_MESSAGES";
/// Faults of parameters that are named in the message; a message may be wrong in each of its parts.
const NAMED: usize = 16;
/// When a caller may try again what passes: turns and disks take seconds.
const RETRY: u64 = 5;
/// Messages above the rate of a principal.
pub(crate) const QUOTA: &str = "QUOTA_EXCEEDED";

impl Fault {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            violations: Vec::new(),
            passing: None,
            retry: RETRY,
            spoken: None,
        }
    }

    fn passing(reason: &'static str, message: &str) -> Self {
        Self {
            passing: Some(reason),
            ..Self::new(code::INTERNAL_ERROR, message)
        }
    }

    pub(crate) fn parse(problem: &str) -> Self {
        Self::new(code::PARSE_ERROR, format!("the body is not JSON: {problem}"))
    }

    pub(crate) fn request(problem: &str) -> Self {
        Self::new(
            code::INVALID_REQUEST,
            format!("the body is not a JSON-RPC 2.0 request: {problem}"),
        )
    }

    pub(crate) fn method(name: &str) -> Self {
        Self::new(
            code::METHOD_NOT_FOUND,
            format!("there is no method `{}`", agentd_base::text::clip(name, 64)),
        )
    }

    pub(crate) fn params(violations: Vec<FieldViolation>) -> Self {
        let named = violations.iter().take(NAMED);
        let mut named: Vec<String> = named
            .map(|violation| format!("{}: {}", violation.field, violation.description))
            .collect();
        let more = violations.len().saturating_sub(NAMED);
        if more > 0 {
            named.push(format!("and {more} more"));
        }
        let message = named.join("; ");
        Self {
            violations,
            ..Self::new(code::INVALID_PARAMS, message)
        }
    }

    /// A method of 1.0 in a request of 0.3.
    pub(crate) fn method_of_one(name: &str) -> Self {
        let (asked, other) = (Version::ZeroThree.name(), Version::One.name());
        Self::new(
            code::METHOD_NOT_FOUND,
            format!(
                "A2A {asked}, which a request without A2A-Version is, has no method `{name}`; send `A2A-Version: {other}`"
            ),
        )
    }

    /// JSON-RPC in a version that is not spoken.
    pub(crate) fn version(asked: Option<&str>) -> Self {
        Self::other_version(asked, "1.0, 0.3", "1.0 and 0.3")
    }

    /// HTTP+JSON in such a version; one in 0.3 is one too.
    pub(crate) fn version_of_rest(asked: Option<&str>) -> Self {
        Self::other_version(asked, wire::VERSION, "1.0 here, and 0.3 in JSON-RPC")
    }

    fn other_version(asked: Option<&str>, spoken: &'static str, speaks: &str) -> Self {
        let message = match asked {
            Some(version) => format!(
                "A2A version `{}` is not supported; this agent speaks {speaks}",
                agentd_base::text::clip(version, 16)
            ),
            None => format!(
                "a request without the header A2A-Version is A2A 0.3, which is not supported; this agent speaks {speaks}"
            ),
        };
        Self {
            spoken: Some(spoken),
            ..Self::new(code::VERSION_NOT_SUPPORTED, message)
        }
    }

    /// What the caller must name in a header and does not.
    pub(crate) fn extension_required(missing: &[&str], header: &str) -> Self {
        Self::new(
            code::EXTENSION_SUPPORT_REQUIRED,
            format!(
                "this agent requires extensions that the call does not name; send `{header}: {}`",
                missing.join(", ")
            ),
        )
    }

    pub(crate) fn push_not_supported() -> Self {
        Self::new(
            code::PUSH_NOTIFICATION_NOT_SUPPORTED,
            "this agent sends no push notifications; its card says so",
        )
    }

    pub(crate) fn content_type(problem: impl Into<String>) -> Self {
        Self::new(code::CONTENT_TYPE_NOT_SUPPORTED, problem)
    }

    pub(crate) fn internal() -> Self {
        Self::new(
            code::INTERNAL_ERROR,
            "the agent met an internal error; its log says more",
        )
    }

    pub(crate) fn busy() -> Self {
        Self::passing(
            BUSY,
            "answers to this caller that it has not read yet are too many; read them, then ask again",
        )
    }

    /// The caller sends more than its principals let it, and may go on after this time.
    pub(crate) fn quota(wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self {
            retry: seconds,
            ..Self::passing(
                QUOTA,
                "this caller has sent as many messages as its principal may; send it again later",
            )
        }
    }

    /// After how many seconds it may be tried again, where it passes.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.passing.map(|_| self.retry)
    }

    pub(crate) fn nothing_to_follow() -> Self {
        Self::new(
            code::UNSUPPORTED_OPERATION,
            "the task has ended and nothing more happens to it; read it instead",
        )
    }

    /// The code on the wire.
    #[cfg(test)]
    pub(crate) const fn code(&self) -> i32 {
        self.code
    }

    /// The `error` member.
    pub(crate) fn to_wire(&self) -> JsonRpcError {
        JsonRpcError {
            code: self.code,
            message: self.message.clone(),
            data: Some(Value::Array(self.details())),
        }
    }

    /// The status and the body where HTTP carries the error (section 5.4 of the specification).
    pub(crate) fn to_http(&self) -> (StatusCode, Value) {
        let (status, name) = match (self.code, self.passing) {
            (code::TASK_NOT_FOUND | code::METHOD_NOT_FOUND, _) => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            (
                code::TASK_NOT_CANCELABLE
                | code::PUSH_NOTIFICATION_NOT_SUPPORTED
                | code::UNSUPPORTED_OPERATION
                | code::EXTENDED_CARD_NOT_CONFIGURED
                | code::EXTENSION_SUPPORT_REQUIRED
                | code::VERSION_NOT_SUPPORTED,
                _,
            ) => (StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
            (
                code::CONTENT_TYPE_NOT_SUPPORTED
                | code::PARSE_ERROR
                | code::INVALID_REQUEST
                | code::INVALID_PARAMS,
                _,
            ) => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
            (_, Some(BUSY | FULL | QUOTA)) => (StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED"),
            (_, Some(_)) => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
            (_, None) => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
        };
        let body = json!({ "error": {
            "code": status.as_u16(),
            "status": name,
            "message": self.message,
            "details": self.details(),
        } });
        (status, body)
    }

    fn details(&self) -> Vec<Value> {
        let mut data = Vec::new();
        if !self.violations.is_empty() {
            data.push(json!(TypedDetail::bad_request(self.violations.clone())));
        }
        match self.passing {
            Some(reason) => {
                data.push(json!({ "@type": RETRY_INFO, "retryDelay": format!("{}s", self.retry) }));
                data.push(json!({ "@type": ERROR_INFO_TYPE, "reason": reason, "domain": DOMAIN }));
            }
            None => data.push(error_info(error_reason(self.code), self.spoken)),
        }
        data
    }
}

impl From<&ServiceError> for Fault {
    fn from(error: &ServiceError) -> Self {
        match error {
            // The protocol has no code of its own for it.
            ServiceError::TaskNotFound(_) | ServiceError::NoPushConfig(_) => {
                Self::new(code::TASK_NOT_FOUND, error.to_string())
            }
            ServiceError::TaskEnded(_) => Self::new(code::UNSUPPORTED_OPERATION, error.to_string()),
            ServiceError::NotCancelable(_) => Self::new(code::TASK_NOT_CANCELABLE, error.to_string()),
            ServiceError::Invalid { field, problem } => {
                Self::params(vec![violation(*field, problem.clone())])
            }
            ServiceError::Unavailable { away, .. } => match away {
                Away::Full => Self::passing(FULL, "too many messages wait already; send it again later"),
                Away::Stopping => Self::passing(
                    "AGENT_STOPPING",
                    "the agent is about to stop; send it again later",
                ),
                Away::Store => Self::passing(
                    "STORE_UNAVAILABLE",
                    "the agent's store cannot be used now; send it again later",
                ),
            },
            ServiceError::Internal(_) => Self::internal(),
        }
    }
}

/// A field and what is wrong with it.
pub(crate) fn violation(field: impl Into<String>, description: impl Into<String>) -> FieldViolation {
    FieldViolation {
        field: field.into(),
        description: description.into(),
    }
}

/// Built here and not with the official type, whose map has no order: the same error is the same bytes.
fn error_info(reason: &str, spoken: Option<&str>) -> Value {
    let mut info = json!({ "@type": ERROR_INFO_TYPE, "reason": reason, "domain": PROTOCOL_DOMAIN });
    if let (Some(spoken), Some(info)) = (spoken, info.as_object_mut()) {
        info.insert("metadata".to_owned(), json!({ "supportedVersions": spoken }));
    }
    info
}

/// The JSON body of a refusal that never reached the JSON-RPC envelope.
pub(crate) fn refusal_body(http: http::StatusCode, reason: &str, message: &str) -> Value {
    let status = match http.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 => "DEADLINE_EXCEEDED",
        429 => "RESOURCE_EXHAUSTED",
        _ => "INVALID_ARGUMENT",
    };
    json!({ "error": {
        "code": http.as_u16(),
        "status": status,
        "message": message,
        "details": [error_info(reason, None)],
    } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_on_the_wire() {
        assert_eq!(
            serde_json::to_value(Fault::params(vec![violation("message.parts", "is missing")]).to_wire())
                .unwrap(),
            json!({
                "code": -32602,
                "message": "message.parts: is missing",
                "data": [
                    { "@type": "type.googleapis.com/google.rpc.BadRequest",
                      "fieldViolations": [{ "field": "message.parts", "description": "is missing" }] },
                    { "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                      "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org" },
                ],
            })
        );
        assert_eq!(
            serde_json::to_value(Fault::version(Some("9.9")).to_wire()).unwrap(),
            json!({
                "code": -32009,
                "message": "A2A version `9.9` is not supported; this agent speaks 1.0 and 0.3",
                "data": [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                           "reason": "VERSION_NOT_SUPPORTED", "domain": "a2a-protocol.org",
                           "metadata": { "supportedVersions": "1.0, 0.3" } }],
            })
        );
    }

    #[test]
    fn what_went_wrong_inside_is_not_told_to_callers() {
        for error in [
            ServiceError::Unavailable {
                away: Away::Store,
                detail: "/var/lib/agentd is full".into(),
            },
            ServiceError::Internal("/var/lib/agentd is full".into()),
        ] {
            let wire = serde_json::to_string(&Fault::from(&error).to_wire()).unwrap();
            assert!(!wire.contains("/var/lib"), "{wire}");
            assert!(wire.contains("-32603"), "{wire}");
        }
    }

    #[test]
    fn what_passes_says_so_and_why() {
        for (away, reason) in [
            (Away::Full, "TOO_MANY_MESSAGES"),
            (Away::Stopping, "AGENT_STOPPING"),
            (Away::Store, "STORE_UNAVAILABLE"),
        ] {
            let error = ServiceError::Unavailable {
                away,
                detail: String::new(),
            };
            let wire = Fault::from(&error).to_wire();
            assert_eq!(wire.code, -32603);
            assert_eq!(
                wire.data,
                Some(json!([
                    { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "5s" },
                    { "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "agentd.io" },
                ]))
            );
        }
    }
}
