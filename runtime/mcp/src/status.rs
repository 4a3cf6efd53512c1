//! What a status, a media type or silence means to the SDK.

use std::borrow::Cow;

use agentd_net::{NetError, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage, ServerResult};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
    StreamableHttpPostResponse,
};

use crate::fault::{HttpError, TransportError};
use crate::screen::too_many;

/// The media type of one message.
pub(crate) const JSON: &str = "application/json";
/// The media type of a stream of them.
pub(crate) const EVENTS: &str = "text/event-stream";

/// How a POST ended.
pub(crate) type PostResult = Result<StreamableHttpPostResponse, HttpError>;

/// Whether this is the probe for the stateless revision.
pub(crate) fn discover(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::DiscoverRequest(_)))
}

/// 401 and 403, whatever their bodies say.
pub(crate) fn unauthorized(status: StatusCode, headers: &HeaderMap) -> Result<(), HttpError> {
    let challenge = header(headers, &WWW_AUTHENTICATE);
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => Err(StreamableHttpError::AuthRequired(
            AuthRequiredError::new(challenge),
        )),
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let scope = challenge
                .split_once("scope=\"")
                .and_then(|(_, rest)| rest.split('"').next());
            let scope = scope.map(str::to_owned);
            Err(StreamableHttpError::InsufficientScope(
                InsufficientScopeError::new(challenge, scope),
            ))
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, None) => Err(StreamableHttpError::Client(
            TransportError::Unauthorized(status.as_u16()),
        )),
        _ => Ok(()),
    }
}

/// A status that is no success: a JSON-RPC error in it is the server's answer, anything else a fault of HTTP.
pub(crate) async fn failure(
    message: &ClientJsonRpcMessage,
    session: bool,
    response: Response,
    limit: usize,
) -> PostResult {
    let status = response.status;
    let retry_after = header(&response.headers, &RETRY_AFTER);
    let json = media_type(&response.headers).as_deref() == Some(JSON);
    let slow_down = status == StatusCode::TOO_MANY_REQUESTS;
    let mut body = match json && !slow_down {
        true => response.body.bytes_within(limit).await.map_err(net)?,
        false => Bytes::new(),
    };
    if too_many(&body) {
        body.clear();
    }
    let error = match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    if status.is_client_error() && !slow_down && !session && discover(message) {
        let error = error.map_or_else(
            || ErrorData::invalid_request(format!("HTTP {status}"), None),
            |e| e.error,
        );
        return Ok(answer(message, error));
    }
    match error {
        Some(error) => Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::Error(error),
            None,
        )),
        None => Err(HttpStatusError::new(status.as_u16(), retry_after).into()),
    }
}

/// What the probe was answered with. A server that answers every method it does not know with a result is an older one.
pub(crate) fn of_probe(
    message: &ClientJsonRpcMessage,
    answer: StreamableHttpPostResponse,
) -> StreamableHttpPostResponse {
    match &answer {
        StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Response(response), _)
            if !matches!(response.result, ServerResult::DiscoverResult(_)) =>
        {
            older(message, "an answer to something else")
        }
        _ => answer,
    }
}

/// The sign by which the SDK knows an older server.
pub(crate) fn older(message: &ClientJsonRpcMessage, why: &'static str) -> StreamableHttpPostResponse {
    answer(message, ErrorData::invalid_request(why, None))
}

/// An error under the id of the request: an older server cannot be trusted to repeat it.
fn answer(message: &ClientJsonRpcMessage, error: ErrorData) -> StreamableHttpPostResponse {
    let id = match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    };
    StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, id), None)
}

/// A header's text.
pub(crate) fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Such a text as it is sent back: what is not ASCII goes as it came.
pub(crate) fn header_value(text: &str) -> Result<HeaderValue, HttpError> {
    HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| unexpected("a session or event id that cannot be sent back"))
}

/// The media type without its parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = header(headers, &CONTENT_TYPE)?;
    Some(
        value
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase(),
    )
}

/// An answer that is not what the protocol says.
pub(crate) fn unexpected(what: &str) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(what.to_owned()))
}

/// A fault below HTTP.
pub(crate) fn net(error: NetError) -> HttpError {
    StreamableHttpError::Client(error.into())
}
