//! Whether a request is let in, and as whom. Pure: it reads the principals of the moment and decides.

use agentd_config::secret::SystemSecrets;
use agentd_identity::SpiffeId;
use http::{HeaderMap, StatusCode, Uri, header};

use crate::audience::reached_by;
use crate::bearer::Shown;
use crate::caller::{Caller, Principals};
use crate::listener::Authentication;
use crate::oidc::{Issuers, Unproven};
use crate::throttle::Throttle;

/// The challenge of a 401: no registered scheme stands for a client certificate; the name is that of OpenAPI.
const CHALLENGE: &str = "mutualTLS";
/// The same where tokens are taken too.
const CHALLENGE_OF_BOTH: &str = "mutualTLS, Bearer realm=\"agentd\"";
/// The same after one that is nobody's (RFC 6750, 3.1).
const CHALLENGE_AGAIN: &str = "mutualTLS, Bearer realm=\"agentd\", error=\"invalid_token\"";

/// When an issuer may be asked again, in seconds.
const ISSUER_AGAIN: &str = "10";

/// A refusal below JSON-RPC.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
    pub(crate) header: Option<(header::HeaderName, &'static str)>,
}

impl Refusal {
    pub(crate) const fn new(status: StatusCode, reason: &'static str, message: &'static str) -> Self {
        Self {
            status,
            reason,
            message,
            header: None,
        }
    }
}

/// Who the caller is, by the principals of this moment.
pub(crate) async fn authorise(
    authentication: &Authentication,
    peer: Option<&SpiffeId>,
    headers: &HeaderMap,
    uri: &Uri,
    unreadable: &Throttle,
    issuers: &Issuers,
) -> Result<Caller, Refusal> {
    match authentication {
        Authentication::Dev if is_for_loopback(headers, uri) => Ok(Caller::dev()),
        Authentication::Dev => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "HOST_NOT_ALLOWED",
            "a listener in development mode answers to localhost only",
        )),
        Authentication::Principals(current) => {
            let principals = current.borrow().clone();
            match_principal(&principals, peer, Shown::of(headers), unreadable, issuers).await
        }
    }
}

async fn match_principal(
    principals: &Principals,
    peer: Option<&SpiffeId>,
    shown: Shown<'_>,
    unreadable: &Throttle,
    issuers: &Issuers,
) -> Result<Caller, Refusal> {
    let mut caller = principals.matching(peer, shown.token(), &SystemSecrets, unreadable);
    let mut unproven_token = None;
    let people = principals.people();
    if let Some(token) = shown.token().filter(|_| !people.is_empty()) {
        match issuers.proven(token, people).await {
            Ok(claims) => caller = principals.vouched_for(caller, &claims),
            Err(unproven) => unproven_token = Some(unproven),
        }
    }
    if let Some(caller) = caller {
        return Ok(caller);
    }
    match unproven_token {
        Some(Unproven::Unknown) => {
            return Err(Refusal {
                header: Some((header::RETRY_AFTER, ISSUER_AGAIN)),
                ..Refusal::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "ISSUER_UNREACHABLE",
                    "the issuer of the token cannot be asked for its keys now, so nobody can say whose the token is",
                )
            });
        }
        Some(Unproven::Wrong(why)) if peer.is_none() => {
            return Err(Refusal {
                header: Some((header::WWW_AUTHENTICATE, CHALLENGE_AGAIN)),
                ..Refusal::new(StatusCode::UNAUTHORIZED, "TOKEN_NOT_VALID", why)
            });
        }
        Some(Unproven::Wrong(_)) | None => {}
    }
    let unproven = |challenge, reason, message| Refusal {
        header: Some((header::WWW_AUTHENTICATE, challenge)),
        ..Refusal::new(StatusCode::UNAUTHORIZED, reason, message)
    };
    Err(match (peer, principals.take_tokens(), shown) {
        (Some(_), _, _) => Refusal::new(
            StatusCode::FORBIDDEN,
            "PRINCIPAL_NOT_LISTED",
            "no principal of this agent matches the SPIFFE ID in the client certificate",
        ),
        (None, false, _) => unproven(
            CHALLENGE,
            "CLIENT_CERTIFICATE_REQUIRED",
            "present a client certificate with a SPIFFE ID of this agent's trust domain",
        ),
        (None, true, Shown::Nothing) => unproven(
            CHALLENGE_OF_BOTH,
            "CREDENTIALS_REQUIRED",
            "present a client certificate with a SPIFFE ID of this agent's trust domain, or a bearer token",
        ),
        (None, true, Shown::Token(_) | Shown::Other) => unproven(
            CHALLENGE_AGAIN,
            "TOKEN_NOT_VALID",
            "no principal of this agent matches what the Authorization header holds",
        ),
    })
}

/// In development mode every caller is an operator, so a web page whose name was pointed at this machine must not be
/// one: the name that it was reached by has to be local.
fn is_for_loopback(headers: &HeaderMap, uri: &Uri) -> bool {
    match reached_by(headers, uri).as_ref().and_then(|url| url.host()) {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn development_mode_answers_to_local_names_only() {
        let for_loopback = |host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
            is_for_loopback(&headers, &Uri::from_static("/"))
        };
        for host in [
            "localhost",
            "localhost:8443",
            "127.0.0.1:1",
            "127.8.8.8",
            "[::1]:8443",
            "x.localhost",
        ] {
            assert!(for_loopback(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "[::2]",
            "",
            "a b",
            "127.0.0.1@evil.example",
        ] {
            assert!(!for_loopback(host), "{host}");
        }
        assert!(!is_for_loopback(&HeaderMap::new(), &Uri::from_static("/")));
    }
}
