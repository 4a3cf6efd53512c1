//! The SDK's seam: what it asks for becomes an HTTP request, with the headers of the protocol and a word on whether it
//! may be sent twice. What becomes of the request is [`Transport`]'s.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_net::Replay;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, StreamableHttpClient, StreamableHttpResponseLimits,
};

use super::{LAST_EVENT, Limits, NO_SESSION, SESSION, Transport};
use crate::events::Events;
use crate::fault::{HttpError, TransportError, of_http};
use crate::status::{EVENTS, JSON, PostResult, discover, header_value, unexpected};

impl StreamableHttpClient for Transport {
    type Error = TransportError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> PostResult {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> PostResult {
        let mut limits = StreamableHttpResponseLimits::default();
        limits.max_sse_event_size = max_sse_event_size;
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> PostResult {
        let limits = Limits {
            event: limits.max_sse_event_size,
            body: limits.max_json_response_size,
        };
        let body = serde_json::to_vec(&message)?;
        let mut request = build(
            Method::POST,
            &uri,
            session_id.as_deref(),
            auth_header,
            custom_headers,
        )?;
        request.headers_mut().insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        *request.body_mut() = Bytes::from(body);
        request.extensions_mut().insert(replay(&message));
        let outcome = match discover(&message) {
            true => self.probe(&message, request, limits).await,
            false => self.post(&message, request, limits).await,
        };
        self.0.health.note(outcome.as_ref().err().map(of_http));
        if outcome.is_ok() {
            self.notice(&message);
        }
        outcome
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        if &*session_id == NO_SESSION {
            return Ok(());
        }
        let request = build(
            Method::DELETE,
            &uri,
            Some(&session_id),
            auth_header,
            custom_headers,
        )?;
        let status = self.send(request).await?.status;
        match status {
            // The server keeps sessions to itself, or has forgotten this one.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(HttpStatusError::new(status.as_u16(), None).into()),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, HttpError> {
        let max = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            max,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<Events, HttpError> {
        let mut request = build(
            Method::GET,
            &uri,
            session_id.as_deref(),
            auth_header,
            custom_headers,
        )?;
        request
            .headers_mut()
            .insert(ACCEPT, HeaderValue::from_static(EVENTS));
        if let Some(id) = last_event_id {
            request.headers_mut().insert(LAST_EVENT, header_value(&id)?);
        }
        self.stream(request, max_sse_event_size).await
    }
}

fn build(
    method: Method,
    uri: &str,
    session: Option<&str>,
    auth: Option<String>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> Result<Request<Bytes>, HttpError> {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = method;
    *request.uri_mut() = uri
        .parse()
        .map_err(|_| unexpected("the endpoint cannot be sent"))?;
    request.headers_mut().extend(headers);
    if let Some(session) = session.filter(|session| *session != NO_SESSION) {
        request.headers_mut().insert(SESSION, header_value(session)?);
    }
    if let Some(token) = auth {
        let mut bearer = header_value(&format!("Bearer {token}"))?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    Ok(request)
}

/// A tool call may have been carried out before its connection died; everything else may be sent twice.
fn replay(message: &ClientJsonRpcMessage) -> Replay {
    match message {
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::CallToolRequest(_)) =>
        {
            Replay::Unsafe
        }
        _ => Replay::Safe,
    }
}
