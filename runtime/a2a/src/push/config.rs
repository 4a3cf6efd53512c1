//! A configuration: from what a caller sends, checked by field, and what of it is shown. Pure.

use std::fmt;

use a2a::{AuthenticationInfo, FieldViolation, TaskPushNotificationConfig};
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fault::violation;
use crate::message::check_id;
use crate::version::Version;

/// A URL.
const URL_BYTES: usize = 2048;
/// A scheme of HTTP authentication.
const SCHEME_BYTES: usize = 64;
/// A token, and credentials.
const SECRET_BYTES: usize = 4096;

/// Where and how a caller wants to be told of a task. As JSON it is what is kept, secrets and all; for others than the
/// caller's endpoint there is [`PushConfig::shown`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushConfig {
    /// The caller's, or that of the task.
    pub id: String,
    /// Where.
    pub url: String,
    /// What the endpoint knows the agent by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How the agent authenticates itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// The version of its caller, in which it is told.
    pub version: Version,
}

/// The content of a header `Authorization`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// Such as `Bearer`.
    pub scheme: String,
    /// What goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

impl PushConfig {
    /// The same for this task, whose id it has when it has none.
    #[must_use]
    pub fn of(self, task_id: &str) -> Self {
        match self.id.is_empty() {
            true => Self {
                id: task_id.to_owned(),
                ..self
            },
            false => self,
        }
    }

    /// What may be shown: all but the token and the credentials.
    pub fn shown(&self, task_id: &str) -> TaskPushNotificationConfig {
        TaskPushNotificationConfig {
            url: self.url.clone(),
            id: Some(self.id.clone()),
            task_id: task_id.to_owned(),
            token: None,
            authentication: self.authentication.as_ref().map(|given| AuthenticationInfo {
                scheme: given.scheme.clone(),
                credentials: None,
            }),
            tenant: None,
        }
    }
}

impl fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushConfig")
            .field("id", &self.id)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

/// The one that a message comes with, if it does. Its id is that of the task, which may not be known yet, when it has none.
pub(crate) fn of_message(
    configuration: &Map<String, Value>,
    version: Version,
    found: &mut Vec<FieldViolation>,
) -> Option<PushConfig> {
    let path = "configuration.taskPushNotificationConfig";
    match configuration.get("taskPushNotificationConfig") {
        None | Some(Value::Null) => None,
        Some(Value::Object(fields)) => parse(fields, &format!("{path}."), version, found),
        Some(_) => {
            found.push(violation(path, "must be an object"));
            None
        }
    }
}

/// Reads one; `prefix` is where its fields stand.
pub(super) fn parse(
    fields: &Map<String, Value>,
    prefix: &str,
    version: Version,
    found: &mut Vec<FieldViolation>,
) -> Option<PushConfig> {
    let before = found.len();
    check_id(fields, "id", &format!("{prefix}id"), false, found);
    let text = |fields: &Map<String, Value>, name: &str| match fields.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    let url = text(fields, "url");
    if url.as_ref().is_none_or(|url| url.len() > URL_BYTES) {
        let problem = format!("is required and must be a URL of at most {URL_BYTES} bytes");
        found.push(violation(format!("{prefix}url"), problem));
    }
    check_header(fields, "token", prefix, SECRET_BYTES, found);
    let authentication = match fields.get("authentication") {
        None | Some(Value::Null) => None,
        Some(Value::Object(given)) => {
            let prefix = format!("{prefix}authentication.");
            let scheme = text(given, "scheme");
            if !scheme.as_deref().is_some_and(is_scheme) {
                let problem = "is required and must be a scheme of HTTP authentication, such as Bearer";
                found.push(violation(format!("{prefix}scheme"), problem));
            }
            check_header(given, "credentials", &prefix, SECRET_BYTES, found);
            scheme.map(|scheme| Authentication {
                scheme,
                credentials: text(given, "credentials"),
            })
        }
        Some(_) => {
            found.push(violation(format!("{prefix}authentication"), "must be an object"));
            None
        }
    };
    let url = url.filter(|_| found.len() == before)?;
    Some(PushConfig {
        id: text(fields, "id").unwrap_or_default(),
        url,
        token: text(fields, "token"),
        authentication,
        version,
    })
}

/// A token of RFC 9110.
fn is_scheme(text: &str) -> bool {
    text.len() <= SCHEME_BYTES && http::HeaderName::from_bytes(text.as_bytes()).is_ok()
}

/// What is sent in a header must be what a header can hold.
fn check_header(
    fields: &Map<String, Value>,
    name: &str,
    prefix: &str,
    most: usize,
    found: &mut Vec<FieldViolation>,
) {
    let fits = match fields.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.len() <= most && HeaderValue::from_str(text).is_ok(),
        Some(_) => false,
    };
    if !fits {
        let problem = format!("must be a string of at most {most} bytes that a header can hold");
        found.push(violation(format!("{prefix}{name}"), problem));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<PushConfig, Vec<String>> {
        let mut found = Vec::new();
        let Value::Object(fields) = value else { panic!() };
        let config = parse(&fields, "", Version::One, &mut found);
        config.ok_or_else(|| found.into_iter().map(|one| one.field).collect())
    }

    #[test]
    fn a_whole_one_is_shown_without_its_secrets() {
        let config = read(json!({
            "id": "a", "taskId": "t", "url": "https://hook.example/x", "token": "hush",
            "authentication": { "scheme": "Bearer", "credentials": "hush" }, "new": 1,
        }))
        .unwrap();
        let kept: PushConfig = serde_json::from_value(serde_json::to_value(&config).unwrap()).unwrap();
        assert_eq!(kept, config);
        assert_eq!(kept.token.as_deref(), Some("hush"));
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        assert_eq!(
            serde_json::to_value(config.shown("t")).unwrap(),
            json!({
                "id": "a", "taskId": "t", "url": "https://hook.example/x",
                "authentication": { "scheme": "Bearer" },
            })
        );
    }

    #[test]
    fn every_fault_is_named() {
        let long = "x".repeat(URL_BYTES + 1);
        for (given, expected) in [
            (json!({}), vec!["url"]),
            (json!({ "url": 7, "id": 7 }), vec!["id", "url"]),
            (json!({ "url": long }), vec!["url"]),
            (
                json!({ "url": "https://x", "token": "a\r\nb", "authentication": { "scheme": "a b" } }),
                vec!["token", "authentication.scheme"],
            ),
            (
                json!({ "url": "https://x", "authentication": { "scheme": "Bearer", "credentials": "\u{0}" } }),
                vec!["authentication.credentials"],
            ),
            (
                json!({ "url": "https://x", "authentication": [] }),
                vec!["authentication"],
            ),
        ] {
            assert_eq!(read(given.clone()).unwrap_err(), expected, "{given}");
        }
        let bare =
            read(json!({ "url": "https://x", "id": "", "token": null, "authentication": null })).unwrap();
        assert_eq!(
            (bare.id.as_str(), bare.token, bare.authentication),
            ("", None, None)
        );
    }
}
