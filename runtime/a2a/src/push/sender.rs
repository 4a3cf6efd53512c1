//! Sends one notification: the task, in the version of whoever asked for it, to a URL that is judged when it is given and
//! again when it is dialled. Redirects are not followed, and of an answer its status alone is looked at.

use std::time::Duration;

use agentd_net::{
    Declared, Destination, HttpClient, Limits, NetError, Options, Redirects, Timeouts, TlsMode,
};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request};

use super::PushConfig;
use crate::binding::JSON;
use crate::rest::MEDIA_TYPE;
use crate::service::ServiceError;
use crate::version::Version;
use crate::wire::{StreamResponse, Task};
use crate::{v03, wire};

/// The header with the token of a configuration.
const TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");
/// A webhook takes a message and does its work later.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    response: Some(Duration::from_secs(15)),
    total: Some(Duration::from_secs(15)),
};
/// What is read of an answer, so that its connection ends in good order.
const ANSWER_BYTES: usize = 4096;
/// How long a URL that is given may be looked up.
const LOOKUP: Duration = Duration::from_secs(3);

/// Sends notifications. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    allow_private: bool,
    tls: TlsMode,
}

impl Sender {
    /// To public addresses, or with `allow_private` to any but those that are never dialled; what is trusted is `tls`.
    pub fn new(allow_private: bool, tls: TlsMode) -> Self {
        Self { allow_private, tls }
    }

    /// Judges the URL of a configuration that is given, whose fields stand at `field`. A name that nobody knows now is
    /// taken: where it leads is judged again at each delivery.
    ///
    /// # Errors
    /// When it is no URL that may be dialled. What the name leads to is not told: the caller may not know.
    pub async fn vet(&self, url: &str, field: &'static str) -> Result<(), ServiceError> {
        let invalid = |problem: &str| ServiceError::Invalid {
            field,
            problem: problem.to_owned(),
        };
        let target = self.target(url).map_err(|problem| invalid(&problem))?;
        match tokio::time::timeout(LOOKUP, target.vet()).await {
            Ok(Err(NetError::Refused(_))) => Err(invalid(
                "must not lead to a private, loopback, link-local or metadata address",
            )),
            Ok(Ok(()) | Err(_)) | Err(_) => Ok(()),
        }
    }

    /// Sends the task.
    ///
    /// # Errors
    /// Why it did not arrive, without what is secret.
    pub async fn send(&self, config: &PushConfig, task: Task) -> Result<(), String> {
        let client = self.target(&config.url)?;
        let request = request(config, task, client.destination().url().as_str())?;
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status;
        response.body.prefix(ANSWER_BYTES).await;
        if status.is_success() {
            return Ok(());
        }
        Err(format!(
            "{} answered {}",
            client.destination().authority(),
            status.as_u16()
        ))
    }

    fn target(&self, url: &str) -> Result<HttpClient, String> {
        let declared = Declared::Push {
            allow_private: self.allow_private,
        };
        let target = Destination::declared(url, declared).map_err(|error| error.to_string())?;
        let options = Options {
            tls: self.tls.clone(),
            timeouts: TIMEOUTS,
            limits: Limits {
                body_bytes: ANSWER_BYTES,
                ..Limits::default()
            },
            ..Options::default()
        };
        HttpClient::new(target, options).map_err(|error| error.to_string())
    }
}

/// What is sent.
fn request(config: &PushConfig, task: Task, url: &str) -> Result<Request<Bytes>, String> {
    let (media_type, body) = match config.version {
        Version::One => (MEDIA_TYPE, serde_json::to_vec(&StreamResponse::Task(task))),
        Version::ZeroThree => (JSON, v03::task(&task).map(|task| task.to_string().into_bytes())),
    };
    let body = body.map_err(|error| error.to_string())?;
    let mut request = Request::post(url)
        .header(CONTENT_TYPE, media_type)
        .header(wire::VERSION_HEADER, config.version.name())
        .body(Bytes::from(body))
        .map_err(|error| error.to_string())?;
    // One that leads elsewhere is an answer like another.
    request.extensions_mut().insert(Redirects::Returned);
    let secret = |text: &str| {
        let mut value = HeaderValue::from_str(text).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        Ok::<_, String>(value)
    };
    if let Some(token) = &config.token {
        request.headers_mut().insert(TOKEN, secret(token)?);
    }
    if let Some(given) = &config.authentication {
        let credentials = given.credentials.as_deref().unwrap_or_default();
        let value = format!("{} {credentials}", given.scheme);
        request
            .headers_mut()
            .insert(AUTHORIZATION, secret(value.trim_end())?);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::push::Authentication;
    use crate::wire::{TaskState, TaskStatus};

    fn config(version: Version) -> PushConfig {
        PushConfig {
            id: "a".into(),
            url: "https://hook.example/x?y=1".into(),
            token: Some("hush".into()),
            authentication: Some(Authentication {
                scheme: "Bearer".into(),
                credentials: Some("secret".into()),
            }),
            version,
        }
    }

    #[test]
    fn a_notification_is_in_the_version_of_its_caller() {
        let task = Task {
            id: "t".into(),
            context_id: "c".into(),
            status: TaskStatus {
                state: TaskState::Completed,
                message: None,
                timestamp: None,
            },
            artifacts: None,
            history: None,
            metadata: None,
        };
        for (version, media_type, body) in [
            (
                Version::One,
                "application/a2a+json",
                json!({ "task": { "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } }),
            ),
            (
                Version::ZeroThree,
                "application/json",
                json!({ "kind": "task", "id": "t", "contextId": "c", "status": { "state": "completed" } }),
            ),
        ] {
            let config = config(version);
            let sent = request(&config, task.clone(), &config.url).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(sent.body()).unwrap(), body);
            let header = |name: &str| sent.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(header("content-type"), media_type);
            assert_eq!(header("a2a-version"), version.name());
            assert_eq!(header("x-a2a-notification-token"), "hush");
            assert_eq!(header("authorization"), "Bearer secret");
            let shown = format!("{sent:?}");
            assert!(!shown.contains("hush") && !shown.contains("secret"), "{shown}");
        }
    }

    #[tokio::test]
    async fn a_url_is_judged_when_it_is_given() {
        let vet = async |url: &'static str, allow_private| {
            let sender = Sender::new(allow_private, TlsMode::default());
            sender.vet(url, "url").await.map_err(|error| error.to_string())
        };
        for url in [
            "http://hook.example/",
            "https://10.0.0.1/",
            "https://localhost/",
            "https://169.254.169.254/latest",
            "https://[fd00:ec2::254]/",
            "https://user:hush@hook.example/",
            "nonsense",
        ] {
            let refused = vet(url, false).await.unwrap_err();
            assert!(refused.starts_with("url: "), "{refused}");
            assert!(!refused.contains("hush"), "{refused}");
        }
        assert!(vet("https://169.254.169.254/latest", true).await.is_err());
        assert!(vet("http://10.0.0.1/", true).await.is_err());
        for url in ["http://localhost:1/", "https://10.0.0.1/", "https://localhost/"] {
            vet(url, true).await.unwrap();
        }
        // It may be known later, and is judged then.
        vet("https://nowhere.invalid/", false).await.unwrap();
    }
}
