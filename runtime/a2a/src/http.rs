//! One HTTP request: the public card, or an authorised call of either binding. The caller is matched against the
//! principals of this moment before a byte of the body is read.

use std::sync::Arc;
use std::time::Instant;

use agentd_identity::SpiffeId;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Body;

use crate::access::{Refusal, authorise};
use crate::binding::JSON;
use crate::body::Answer;
use crate::budget::Budget;
use crate::call::call;
use crate::card::{CACHE_CONTROL, Card, VARY, WELL_KNOWN};
use crate::connection::Recognition;
use crate::fault::refusal_body;
use crate::listener::Authentication;
use crate::oidc::Issuers;
use crate::quota::Quotas;
use crate::service::Service;
use crate::throttle::Throttle;

/// What all connections share.
pub(crate) struct App {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) card: Arc<Card>,
    pub(crate) authentication: Authentication,
    pub(crate) denials: Throttle,
    pub(crate) failures: Throttle,
    /// Messages of principals.
    pub(crate) quotas: Quotas,
    /// Tokens of principals that cannot be read.
    pub(crate) unreadable: Throttle,
    /// Who vouches for callers.
    pub(crate) issuers: Issuers,
    /// Bodies that are being read.
    pub(crate) reading: Budget,
    /// Answers that are being made and sent.
    pub(crate) answering: Budget,
}

/// Answers one request.
pub(crate) async fn handle<B>(
    app: &Arc<App>,
    peer: Option<&SpiffeId>,
    request: Request<B>,
) -> Response<Answer>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let outcome = if route(head.uri.path(), app.card.base_paths()) == Route::Card {
        card(&app.card, &head)
    } else {
        match authorise(
            &app.authentication,
            peer,
            &head.headers,
            &head.uri,
            &app.unreadable,
            &app.issuers,
        )
        .await
        {
            Ok(caller) => {
                if let Some(recognition) = head.extensions.get::<Recognition>() {
                    recognition.tell();
                }
                call(app, caller, head, body).await
            }
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
pub(crate) enum Route<'a> {
    Card,
    Rpc,
    /// Below the URL.
    Rest(&'a str),
}

/// `URL` and `URL/` are the same, with the path of a promised URL or, behind a proxy that strips it, without.
pub(crate) fn route<'a>(path: &'a str, bases: &[String]) -> Route<'a> {
    let below = |base: &String| {
        let rest = path.strip_prefix(base.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let path = bases.iter().find_map(below).unwrap_or(path);
    match path {
        WELL_KNOWN => Route::Card,
        "" | "/" => Route::Rpc,
        path => Route::Rest(path),
    }
}

fn card(card: &Card, head: &Parts) -> Result<Response<Answer>, Refusal> {
    if head.method != Method::GET && head.method != Method::HEAD {
        return Err(not_allowed("GET, HEAD", "the card is read with GET"));
    }
    let varies = card.varies();
    let card = card.public(&head.headers, &head.uri);
    let known = head
        .headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| card.matches(value));
    let mut response = if known {
        let mut response = Response::new(Answer::whole(Bytes::new()));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        typed(StatusCode::OK, JSON, Answer::whole(card.body()))
    };
    if let Ok(etag) = HeaderValue::from_str(card.etag()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
    if varies {
        response
            .headers_mut()
            .insert(header::VARY, HeaderValue::from_static(VARY));
    }
    Ok(response)
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

/// An answer of this moment.
pub(crate) fn answer_of(status: StatusCode, media_type: &'static str, body: Answer) -> Response<Answer> {
    let mut response = typed(status, media_type, body);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A path that is reached with other methods.
pub(crate) const fn not_allowed(allowed: &'static str, message: &'static str) -> Refusal {
    Refusal {
        status: StatusCode::METHOD_NOT_ALLOWED,
        reason: "METHOD_NOT_ALLOWED",
        message,
        header: Some((header::ALLOW, allowed)),
    }
}

fn refuse(refusal: &Refusal) -> Response<Answer> {
    let body = refusal_body(refusal.status, refusal.reason, refusal.message);
    let mut response = typed(refusal.status, JSON, Answer::whole(Bytes::from(body.to_string())));
    if let Some((name, value)) = &refusal.header {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn typed(status: StatusCode, media_type: &'static str, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
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
            ("/agents/ab", "/agents/a", Route::Rest("/agents/ab")),
            ("/.well-known/agent-card.json", "", Route::Card),
            ("/.well-known/agent-card.json", "/agents/a", Route::Card),
            ("/agents/a/.well-known/agent-card.json", "/agents/a", Route::Card),
            ("/message:send", "", Route::Rest("/message:send")),
            ("/agents/a/tasks/1", "/agents/a", Route::Rest("/tasks/1")),
            ("//", "", Route::Rest("//")),
        ] {
            assert_eq!(route(path, &[base.to_owned()]), expected, "{path} below {base}");
        }
        let both = ["/agents/a".to_owned(), "/a".to_owned()];
        assert_eq!(route("/agents/a/tasks", &both), Route::Rest("/tasks"));
        assert_eq!(route("/a/tasks", &both), Route::Rest("/tasks"));
    }
}
