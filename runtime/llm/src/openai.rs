//! OpenAI-compatible Chat Completions with native tool calls, one try at a time, over `agentd-net`.

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::time::Duration;

use agentd_base::limit::FOREIGN_CHARS;
use agentd_net::{HttpClient, NetError};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::error::ModelError;
use crate::message::{ModelReply, ModelRequest};
use crate::model::{CallContext, Endpoint};

/// An answer of a million tokens is under 8 MiB.
const REPLY_BYTES: usize = 8 * 1024 * 1024;
/// An error's body is read this far for its message.
const ERROR_BYTES: usize = 16 * 1024;

/// A client of one endpoint: `POST <base>/chat/completions`.
pub struct ChatClient {
    name: String,
    model: String,
    client: HttpClient,
}

impl ChatClient {
    /// Over a client whose destination is the base URL, such as `https://gw.example/v1`. Its `total` clock bounds a try.
    pub fn new(name: impl Into<String>, model: impl Into<String>, client: HttpClient) -> Self {
        Self {
            name: name.into(),
            model: model.into(),
            client,
        }
    }

    fn request(&self, body: Bytes, context: &CallContext) -> Result<http::Request<Bytes>, ModelError> {
        let base = self.client.destination().url();
        let mut path = format!("{}/chat/completions", base.path().trim_end_matches('/'));
        if let Some(query) = base.query() {
            path = format!("{path}?{query}");
        }
        let mut request = http::Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json");
        if let Some(parent) = context
            .traceparent
            .as_deref()
            .and_then(|text| HeaderValue::from_str(text).ok())
        {
            request = request.header("traceparent", parent);
        }
        request
            .body(body)
            .map_err(|error| self.net(NetError::Invalid(error.to_string())))
    }

    fn net(&self, source: NetError) -> ModelError {
        match source {
            NetError::Credential(reason) => ModelError::Denied {
                endpoint: self.name.clone(),
                reason,
            },
            source => ModelError::Net {
                endpoint: self.name.clone(),
                source,
            },
        }
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ModelError {
        let endpoint = self.name.clone();
        let message = read::error_message(body).unwrap_or_else(|| "no message".to_owned());
        let message = agentd_base::text::clip(&message, FOREIGN_CHARS);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ModelError::Denied {
                endpoint,
                reason: format!("status {}", status.as_u16()),
            },
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                ModelError::Busy {
                    endpoint,
                    status,
                    retry_after: retry_after(headers),
                    message,
                }
            }
            status if status.is_client_error() => ModelError::Rejected {
                endpoint,
                status,
                message,
            },
            status => ModelError::Busy {
                endpoint,
                status,
                retry_after: retry_after(headers),
                message,
            },
        }
    }
}

#[async_trait]
impl Endpoint for ChatClient {
    fn name(&self) -> &str {
        &self.name
    }

    async fn attempt(&self, request: &ModelRequest, context: &CallContext) -> Result<ModelReply, ModelError> {
        let body = Bytes::from(write::request(&self.model, request));
        let response = self
            .client
            .send(self.request(body.clone(), context)?)
            .await
            .map_err(|error| self.net(error))?;
        if !response.status.is_success() {
            let body = response.body.prefix(ERROR_BYTES).await;
            return Err(self.refusal(response.status, &response.headers, &body));
        }
        let answer = response
            .body
            .bytes_within(REPLY_BYTES)
            .await
            .map_err(|error| self.net(error))?;
        read::reply(&answer, &body).map_err(|message| ModelError::Malformed {
            endpoint: self.name.clone(),
            message: agentd_base::text::clip(&message, FOREIGN_CHARS),
        })
    }
}

/// `Retry-After` in seconds (RFC 9110, 10.2.3). The form with a date needs a clock that both sides share; few send it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
        .map(Duration::from_secs)
}
