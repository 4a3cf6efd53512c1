//! One HTTP request: the public card, or an authorised JSON-RPC call. The caller is matched against the principals of
//! this moment before a byte of the body is read.

use std::sync::Arc;
use std::time::Instant;

use agentd_identity::SpiffeId;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Body;
use serde_json::Value;
use tracing::Instrument as _;

use crate::access::{Refusal, authorise};
use crate::body::{held, read};
use crate::budget::Budget;
use crate::caller::Caller;
use crate::card::{CACHE_CONTROL, Card, WELL_KNOWN};
use crate::fault::{Fault, refusal_body};
use crate::listener::Authentication;
use crate::operation::Operation;
use crate::service::{GetTask, Service, ServiceError};
use crate::throttle::Throttle;
use crate::{limit, message, rpc, wire};

const JSON: &str = "application/json";

/// What all connections share.
pub(crate) struct App {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) card: Arc<Card>,
    pub(crate) authentication: Authentication,
    pub(crate) denials: Throttle,
    pub(crate) failures: Throttle,
    /// Bodies that are being read.
    pub(crate) reading: Budget,
    /// Answers that are being made and sent.
    pub(crate) answering: Budget,
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
            Ok(caller) => call(app, caller, head, body).await,
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

/// A task that a caller asked for, in one way or the other.
struct Wanted {
    id: a2a::JsonRpcId,
    operation: Operation,
    caller: Caller,
    task_id: String,
    /// Not before its end.
    wait: bool,
    history: Option<usize>,
}

/// A call that is answered at once.
struct Unmet {
    id: a2a::JsonRpcId,
    fault: Fault,
}

async fn call<B>(
    app: &App,
    caller: Caller,
    head: http::request::Parts,
    body: B,
) -> Result<Response<Full<Bytes>>, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // What was sent is not kept while the task runs: the head and the body end with this.
    let wanted = match take(app, caller, head, body).await? {
        Ok(wanted) => wanted,
        Err(unmet) => return Ok(answer(unmet.id, Err(unmet.fault))),
    };
    if wanted.wait {
        app.service.ended(&wanted.task_id).await;
    }
    let Ok(Ok(room)) = tokio::time::timeout(
        limit::TURN,
        app.answering.reserve(wanted.caller.key(), limit::ANSWER_BYTES),
    )
    .await
    else {
        return Ok(answer(wanted.id, Err(Fault::busy())));
    };
    let outcome = show(app, &wanted).await;
    let bytes = rpc::answer(wanted.id, outcome);
    Ok(envelope(held(bytes, room)))
}

/// Reads a request and does what it asks for, so far that only its task has to be shown.
async fn take<B>(
    app: &App,
    caller: Caller,
    head: http::request::Parts,
    body: B,
) -> Result<Result<Wanted, Unmet>, Refusal>
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
        return Ok(Err(Unmet {
            id: a2a::JsonRpcId::Null,
            fault,
        }));
    }
    let (bytes, _reserved) = read(&app.reading, caller.key(), body).await?;
    let call = match rpc::parse(&bytes, version(&head).as_deref()) {
        Ok(call) => call,
        Err(rpc::Refused { id, fault }) => return Ok(Err(Unmet { id, fault })),
    };
    drop(bytes);
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
    let (id, operation) = (call.id.clone(), call.operation);
    let begun = begin(app, &caller, call).instrument(span).await;
    Ok(match begun {
        Ok((task_id, wait, history)) => Ok(Wanted {
            id,
            operation,
            caller,
            task_id,
            wait,
            history,
        }),
        Err(fault) => Err(Unmet { id, fault }),
    })
}

/// The task that is asked for, whether its end is, and how much of its history.
async fn begin(app: &App, caller: &Caller, call: rpc::Call) -> Result<(String, bool, Option<usize>), Fault> {
    match call.operation {
        Operation::SendMessage => {
            let message::Parsed { request, history } = message::send(call.params)?;
            tracing::info!(event = "a2a.message", message.id = request.message_id);
            let wait = !request.return_immediately;
            // On a task of its own: a caller that goes away must not stop what it began half-way.
            let (service, caller) = (app.service.clone(), caller.clone());
            let running = async move { service.send_message(&caller, request).await };
            let task_id = tokio::spawn(running.in_current_span())
                .await
                .unwrap_or_else(|ended| Err(ServiceError::Internal(ended.to_string())))
                .map_err(|error| told(app, &error))?;
            Ok((task_id, wait, history))
        }
        Operation::GetTask => {
            let parsed = message::get(call.params)?;
            Ok((parsed.request.id, false, parsed.history))
        }
    }
}

/// The result of a call.
async fn show(app: &App, wanted: &Wanted) -> Result<Value, Fault> {
    let request = GetTask {
        id: wanted.task_id.clone(),
    };
    let mut task = app
        .service
        .get_task(&wanted.caller, request)
        .await
        .map_err(|error| told(app, &error))?;
    message::cut_history(&mut task, wanted.history);
    match wanted.operation {
        Operation::SendMessage => to_value(&wire::SendMessageResponse::Task(task)),
        Operation::GetTask => to_value(&task),
    }
}

/// What the caller is told; what it is not told goes to the log.
fn told(app: &App, error: &ServiceError) -> Fault {
    if matches!(
        error,
        ServiceError::Unavailable { .. } | ServiceError::Internal(_)
    ) && let Some(left_out) = app.failures.pass(Instant::now())
    {
        tracing::error!(event = "a2a.failed", err = %error, left_out);
    }
    Fault::from(error)
}

fn to_value(result: &impl serde::Serialize) -> Result<Value, Fault> {
    serde_json::to_value(result).map_err(|error| {
        tracing::error!(event = "a2a.task.encode.fail", err = %error);
        Fault::internal()
    })
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
    envelope(Bytes::from(rpc::answer(id, outcome)))
}

fn envelope(bytes: Bytes) -> Response<Full<Bytes>> {
    let mut response = json_response(StatusCode::OK, bytes);
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
