//! Keys behind an HTTP service: `PUT`, `GET` and `DELETE` of `/<key>`, or what the document maps onto them. A write bears
//! `Idempotency-Key: <key>#<seq>`; 404 is none.

use std::time::Duration;

use agentd_base::json::why;
use agentd_base::text::clip;
use agentd_config::document::{Connection, HttpOp, HttpStore};
use agentd_mcp::Outbound;
use agentd_net::{Declared, Destination, HttpClient, NetError};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{Method, Request, StatusCode};
use serde_json::Value;

use super::template::{Values, in_path, in_query, keys_at, text_at};
use crate::kv::{KeyPage, Kv, KvError};

/// Words of a server in a message of ours.
const WORDS: usize = 256;
/// How a server says that somebody else wrote the key.
const CONFLICT: [u16; 2] = [409, 412];
/// A value that the service wraps in JSON is longer there, and so is what is no ASCII: of what the client reads this is a
/// third.
const VALUE: usize = 5 * 1024 * 1024;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JSON: &str = "application/json";

/// Why the store cannot be used as the document says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct HttpStoreError {
    /// The key of the document.
    pub key: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// An operation as the document or the default says.
struct Op {
    method: Method,
    url: String,
    body: Option<Value>,
    value: Option<String>,
    keys: String,
    next: String,
    conflicts: Vec<u16>,
}

/// An answer.
struct Answer {
    status: StatusCode,
    body: Bytes,
}

/// The keys of an HTTP service.
pub struct HttpKv {
    client: HttpClient,
    /// The path of `base_url`, without a slash at its end.
    base: String,
    put: Op,
    get: Op,
    list: Op,
    delete: Op,
}

impl Op {
    fn of(
        key: &'static str,
        given: Option<&HttpOp>,
        method: Method,
        url: &str,
    ) -> Result<Self, HttpStoreError> {
        let given = given.cloned().unwrap_or_default();
        let method = match given.method {
            None => method,
            Some(name) => Method::from_bytes(name.as_bytes()).map_err(|_| HttpStoreError {
                key,
                problem: format!("{} is no HTTP method", clip(&name, 32)),
            })?,
        };
        Ok(Self {
            method,
            url: given.url.unwrap_or_else(|| url.to_owned()),
            body: given.body,
            value: given.value,
            keys: given.keys.unwrap_or_else(|| "/keys".to_owned()),
            next: given.next.unwrap_or_else(|| "/next".to_owned()),
            conflicts: given.conflict_status.unwrap_or_else(|| CONFLICT.to_vec()),
        })
    }

    fn target(&self, base: &str, values: &Values<'_>) -> String {
        let (path, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let mut target = format!("{base}/{}", values.text(path.trim_start_matches('/'), in_path));
        if !query.is_empty() {
            target.push('?');
            target.push_str(&values.text(query, in_query));
        }
        target
    }
}

impl HttpKv {
    /// Makes the client; dials nothing.
    ///
    /// # Errors
    /// When the base URL, a header or an operation is unusable as written.
    pub fn new(store: &HttpStore, outbound: &Outbound, timeout: Duration) -> Result<Self, HttpStoreError> {
        let unusable = |problem: String| HttpStoreError {
            key: "store.http.base_url",
            problem,
        };
        let destination = Destination::declared(&store.base_url, Declared::Mcp)
            .map_err(|error| unusable(format!("the URL {error}")))?;
        let base = destination.url().path().trim_end_matches('/').to_owned();
        let connection = Connection {
            headers: store.headers.clone(),
            auth: store.auth.clone(),
            tls: store.tls.clone(),
            timeout: Some(agentd_base::duration::Duration(timeout)),
            connect_timeout: None,
        };
        let client = outbound
            .store_client(destination, &connection, timeout)
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self {
            client,
            base,
            put: Op::of(
                "store.http.put",
                store.put.as_ref(),
                Method::PUT,
                "/{{key}}?seq={{seq}}",
            )?,
            get: Op::of("store.http.get", store.get.as_ref(), Method::GET, "/{{key}}")?,
            list: Op::of(
                "store.http.list",
                store.list.as_ref(),
                Method::GET,
                "/?prefix={{prefix}}&after={{after}}",
            )?,
            delete: Op::of(
                "store.http.delete",
                store.delete.as_ref(),
                Method::DELETE,
                "/{{key}}?seq={{seq}}",
            )?,
        })
    }

    async fn put_as(&self, key: &str, seq: u64, text: &str, idempotency: String) -> Result<(), KvError> {
        let values = Values {
            key: Some(key),
            seq: Some(seq),
            value: Some(text),
            ..Values::default()
        };
        let answer = self.exchange(&self.put, values, Some(idempotency)).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Err(not_there(&self.put)),
            _ => Ok(()),
        }
    }

    /// One exchange. An answer is one that says what became of the request: 2xx or 404.
    async fn exchange(&self, op: &Op, values: Values<'_>, key: Option<String>) -> Result<Answer, KvError> {
        let mut request = Request::builder()
            .method(op.method.clone())
            .uri(op.target(&self.base, &values));
        if let Some(key) = key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        let body = match (&op.body, values.value) {
            (Some(template), _) => Some(values.fill(template).to_string()),
            (None, value) => value.map(str::to_owned),
        };
        if body.is_some() {
            request = request.header(CONTENT_TYPE, JSON);
        }
        let request = request
            .body(Bytes::from(body.unwrap_or_default()))
            .map_err(|error| KvError::Unsent(error.to_string()))?;
        let response = self.client.send(request).await.map_err(|error| failed(&error))?;
        let status = response.status;
        if status.is_success() || status == StatusCode::NOT_FOUND {
            let body = response.body.bytes().await.map_err(|error| failed(&error))?;
            return Ok(Answer { status, body });
        }
        let words = response.body.prefix(WORDS).await;
        let text = format!(
            "HTTP {}: {}",
            status.as_u16(),
            clip(&String::from_utf8_lossy(&words), WORDS)
        );
        Err(match status {
            _ if op.conflicts.contains(&status.as_u16()) => KvError::Conflict(text),
            StatusCode::REQUEST_TIMEOUT => KvError::Unknown(text),
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::INSUFFICIENT_STORAGE => KvError::TooLarge(text),
            _ if status.is_server_error() => KvError::Unknown(text),
            _ => KvError::Refused(text),
        })
    }
}

/// An exchange without an answer.
fn failed(error: &NetError) -> KvError {
    match error {
        NetError::Refused(_) | NetError::Credential(_) | NetError::Invalid(_) => {
            KvError::Unsent(error.to_string())
        }
        _ if error.is_connect() => KvError::Unsent(error.to_string()),
        _ => KvError::Unknown(error.to_string()),
    }
}

/// A write at a path that is not there.
fn not_there(op: &Op) -> KvError {
    KvError::Refused(format!(
        "HTTP 404 to {}; is store.http.base_url right?",
        op.method
    ))
}

fn json_of(answer: &Answer) -> Result<Value, KvError> {
    serde_json::from_slice(&answer.body)
        .map_err(|error| KvError::Refused(format!("the answer is no JSON: {}", why(&error))))
}

#[async_trait]
impl Kv for HttpKv {
    async fn put(&self, key: &str, seq: u64, text: &str) -> Result<(), KvError> {
        self.put_as(key, seq, text, format!("{key}#{seq}")).await
    }

    async fn put_instead(&self, key: &str, seq: u64, text: &str) -> Result<(), KvError> {
        self.put_as(key, seq, text, format!("{key}#{seq}#instead")).await
    }

    fn limit(&self) -> usize {
        VALUE
    }

    async fn get(&self, key: &str) -> Result<Option<String>, KvError> {
        let values = Values {
            key: Some(key),
            ..Values::default()
        };
        let answer = self.exchange(&self.get, values, None).await?;
        match (answer.status, &self.get.value) {
            (StatusCode::NOT_FOUND | StatusCode::NO_CONTENT, _) => Ok(None),
            (_, Some(pointer)) => Ok(text_at(&json_of(&answer)?, pointer)),
            (_, None) => {
                let text = String::from_utf8(answer.body.to_vec());
                let text = text.map_err(|_| KvError::Refused("the answer is no text".to_owned()))?;
                Ok((!text.is_empty()).then_some(text))
            }
        }
    }

    async fn list(&self, prefix: &str, next: Option<&str>) -> Result<KeyPage, KvError> {
        let values = Values {
            prefix: Some(prefix),
            after: next,
            ..Values::default()
        };
        let answer = self.exchange(&self.list, values, None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Err(not_there(&self.list));
        }
        let answer = json_of(&answer)?;
        let keys = keys_at(&answer, &self.list.keys).ok_or_else(|| {
            KvError::Refused(format!(
                "the list of keys has no list of texts at `{}`; say where it is in store.http.list.keys",
                self.list.keys
            ))
        })?;
        Ok(KeyPage {
            keys,
            next: text_at(&answer, &self.list.next),
        })
    }

    fn deletes(&self) -> bool {
        true
    }

    async fn delete(&self, key: &str, seq: u64) -> Result<(), KvError> {
        let values = Values {
            key: Some(key),
            seq: Some(seq),
            ..Values::default()
        };
        let exchange = self.exchange(&self.delete, values, Some(format!("{key}#{seq}")));
        exchange.await.map(drop)
    }

    fn place(&self) -> String {
        format!(
            "HTTP store at {} (store.http.base_url)",
            self.client.destination().authority()
        )
    }
}
