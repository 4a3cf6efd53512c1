//! One HTTP request: the public card, or an authorised JSON-RPC call. The caller is matched against the principals of
//! this moment before a byte of the body is read.

use std::sync::Arc;
use std::time::Instant;

use agentd_identity::SpiffeId;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body;
use serde_json::Value;
use tracing::Instrument as _;

use crate::access::{Refusal, authorise};
use crate::caller::Caller;
use crate::card::{CACHE_CONTROL, Card, WELL_KNOWN};
use crate::fault::{Fault, refusal_body};
use crate::listener::Authentication;
use crate::operation::Operation;
use crate::service::{Service, ServiceError};
use crate::throttle::Throttle;
use crate::{limit, message, rpc, wire};

const JSON: &str = "application/json";

/// What all connections share.
pub(crate) struct App {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) card: Arc<Card>,
    pub(crate) authentication: Authentication,
    pub(crate) denials: Throttle,
}

/// Answers one request.
pub(crate) async fn handle<B>(
    app: &App,
    peer: Option<&SpiffeId>,
    request: Request<B>,
) -> Response<Full<Bytes>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let outcome = if route(head.uri.path(), app.card.base_path()) == Route::Card {
        card(&app.card, &head.method, &head.headers)
    } else {
        match authorise(&app.authentication, peer, &head.headers, &head.uri) {
            Ok(caller) => call(app, caller, &head, body).await,
            Err(refusal) => {
                denied(app, peer, &refusal);
                Err(refusal)
            }
        }
    };
    outcome.unwrap_or_else(|refusal| refuse(&refusal))
}

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Card,
    Rpc,
    Nowhere,
}

/// `URL` and `URL/` are the same, with the path of the promised URL or, behind a proxy that strips it, without.
fn route(path: &str, base: &str) -> Route {
    let path = path
        .strip_prefix(base)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        .unwrap_or(path);
    match path {
        WELL_KNOWN => Route::Card,
        "" | "/" => Route::Rpc,
        _ => Route::Nowhere,
    }
}

fn card(card: &Card, method: &Method, headers: &HeaderMap) -> Result<Response<Full<Bytes>>, Refusal> {
    if method != Method::GET && method != Method::HEAD {
        return Err(Refusal {
            header: Some((header::ALLOW, "GET, HEAD")),
            ..Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "the card is read with GET",
            )
        });
    }
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| card.matches(value));
    let mut response = if known {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        json_response(StatusCode::OK, card.body())
    };
    if let Ok(etag) = HeaderValue::from_str(card.etag()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
    Ok(response)
}

async fn call<B>(
    app: &App,
    caller: Caller,
    head: &http::request::Parts,
    body: B,
) -> Result<Response<Full<Bytes>>, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if route(head.uri.path(), app.card.base_path()) == Route::Nowhere {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            "there is nothing at this path",
        ));
    }
    if head.method != Method::POST {
        return Err(Refusal {
            header: Some((header::ALLOW, "POST")),
            ..Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "calls are sent with POST",
            )
        });
    }
    if !is_json(&head.headers) {
        let fault = Fault::content_type("send the call with Content-Type: application/json");
        return Ok(answer(a2a::JsonRpcId::Null, Err(fault)));
    }
    let bytes = read(body).await?;
    let call = match rpc::parse(&bytes, version(head).as_deref()) {
        Ok(call) => call,
        Err(refused) => return Ok(answer(refused.id, Err(refused.fault))),
    };
    if !caller.has_role(call.operation.least_role()) {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "ROLE_NOT_SUFFICIENT",
            "the role of this principal does not allow the operation",
        ));
    }
    let span = tracing::info_span!(
        "a2a",
        peer.spiffe_id = caller.key(),
        operation = call.operation.name()
    );
    let outcome = dispatch(app, caller, call.operation, call.params)
        .instrument(span)
        .await;
    Ok(answer(call.id, outcome))
}

async fn dispatch(app: &App, caller: Caller, operation: Operation, params: Value) -> Result<Value, Fault> {
    match operation {
        Operation::SendMessage => {
            let parsed = message::send(params)?;
            tracing::info!(event = "a2a.message", message.id = parsed.request.message_id);
            // On a task of its own: a caller that goes away must not stop what it began half-way.
            let service = app.service.clone();
            let request = parsed.request;
            let running = async move { service.send_message(caller, request).await };
            let mut task = tokio::spawn(running.in_current_span())
                .await
                .unwrap_or_else(|ended| Err(ServiceError::Internal(ended.to_string())))
                .map_err(|error| told(&error))?;
            message::cut_history(&mut task, parsed.history);
            to_value(&wire::SendMessageResponse::Task(task))
        }
        Operation::GetTask => {
            let parsed = message::get(params)?;
            let mut task = app
                .service
                .get_task(caller, parsed.request)
                .await
                .map_err(|error| told(&error))?;
            message::cut_history(&mut task, parsed.history);
            to_value(&task)
        }
    }
}

/// What the caller is told; what it is not told goes to the log.
fn told(error: &ServiceError) -> Fault {
    if matches!(error, ServiceError::Unavailable(_) | ServiceError::Internal(_)) {
        tracing::error!(event = "a2a.failed", err = %error);
    }
    Fault::from(error)
}

fn to_value(result: &impl serde::Serialize) -> Result<Value, Fault> {
    serde_json::to_value(result).map_err(|error| {
        tracing::error!(event = "a2a.task.encode.fail", err = %error);
        Fault::internal()
    })
}

async fn read<B>(body: B) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large = Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "BODY_TOO_LARGE",
        "a request may have 1 MiB; send larger content by reference",
    );
    if body.size_hint().lower() > limit::BODY_BYTES as u64 {
        return Err(too_large);
    }
    match tokio::time::timeout(limit::BODY, Limited::new(body, limit::BODY_BYTES).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large),
        Ok(Err(_)) => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "BODY_INCOMPLETE",
            "the body ended before its end",
        )),
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "BODY_TOO_SLOW",
            "the body did not arrive within 30 seconds",
        )),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value
        .split(';')
        .next()
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case(JSON))
}

/// What the caller named in the header, else in the query.
fn version(head: &http::request::Parts) -> Option<String> {
    if let Some(value) = head.headers.get(wire::VERSION_HEADER) {
        return Some(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    url::form_urlencoded::parse(head.uri.query()?.as_bytes())
        .find(|(name, _)| name.eq_ignore_ascii_case(wire::VERSION_HEADER))
        .map(|(_, value)| value.into_owned())
}

fn denied(app: &App, peer: Option<&SpiffeId>, refusal: &Refusal) {
    if let Some(left_out) = app.denials.pass(Instant::now()) {
        let peer = peer.map_or_else(|| "none".to_owned(), ToString::to_string);
        tracing::warn!(
            event = "a2a.denied",
            peer.spiffe_id = peer,
            reason = refusal.reason,
            left_out
        );
    }
}

fn answer(id: a2a::JsonRpcId, outcome: Result<Value, Fault>) -> Response<Full<Bytes>> {
    let mut response = json_response(StatusCode::OK, Bytes::from(rpc::answer(id, outcome)));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn refuse(refusal: &Refusal) -> Response<Full<Bytes>> {
    let body = refusal_body(refusal.status, refusal.reason, refusal.message);
    let mut response = json_response(refusal.status, Bytes::from(body.to_string()));
    if let Some((name, value)) = &refusal.header {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn json_response(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_the_url_lead_to_the_same_place() {
        for (path, base, expected) in [
            ("/", "", Route::Rpc),
            ("/agents/a", "/agents/a", Route::Rpc),
            ("/agents/a/", "/agents/a", Route::Rpc),
            ("/", "/agents/a", Route::Rpc),
            ("/agents/ab", "/agents/a", Route::Nowhere),
            ("/.well-known/agent-card.json", "", Route::Card),
            ("/.well-known/agent-card.json", "/agents/a", Route::Card),
            ("/agents/a/.well-known/agent-card.json", "/agents/a", Route::Card),
            ("/message:send", "", Route::Nowhere),
            ("//", "", Route::Nowhere),
        ] {
            assert_eq!(route(path, base), expected, "{path} below {base}");
        }
    }

    #[test]
    fn content_types() {
        let json = |value: &str| {
            is_json(&HeaderMap::from_iter([(
                header::CONTENT_TYPE,
                HeaderValue::from_str(value).unwrap(),
            )]))
        };
        assert!(json("application/json"));
        assert!(json("Application/JSON; charset=utf-8"));
        for wrong in [
            "text/plain",
            "application/jsonp",
            "",
            "text/plain; application/json",
        ] {
            assert!(!json(wrong), "{wrong}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
