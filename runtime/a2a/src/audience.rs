//! From where a caller sees the agent: by which name a request came. Pure.

use http::{HeaderMap, Uri, header};
use url::Url;

/// From where the agent is seen, where it has two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// By the name that it has where it runs.
    Inside,
    /// By its external one, or by a name that is neither: whoever has no other way in came from outside.
    Outside,
}

/// What proxies add, and nobody who calls from inside.
const FORWARDED: [&str; 3] = ["forwarded", "x-forwarded-host", "x-forwarded-for"];

/// From where a request came, when `inside` is the URL that the agent has where it runs.
pub(crate) fn audience(headers: &HeaderMap, uri: &Uri, inside: &Url) -> Audience {
    let through_proxy = FORWARDED.iter().any(|name| headers.contains_key(*name));
    let named = reached_by(headers, uri);
    let host = |url: &Url| url.host_str().map(str::to_ascii_lowercase);
    let is_inside = named.and_then(|named| host(&named)).is_some_and(|named| {
        host(inside).is_some_and(|own| {
            // The name of a Service goes on with the domain of its cluster, or does not.
            named
                .strip_prefix(&own)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    });
    if is_inside && !through_proxy {
        Audience::Inside
    } else {
        Audience::Outside
    }
}

/// The name and the port that a request says it reached, as a URL.
pub(crate) fn reached_by(headers: &HeaderMap, uri: &Uri) -> Option<Url> {
    let authority = uri.authority().map(|authority| authority.as_str());
    let host = match authority {
        Some(authority) => authority,
        None => headers.get(header::HOST)?.to_str().ok()?,
    };
    Url::parse(&format!("http://{host}/")).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn field_a05_who_calls_by_the_inner_name_and_through_no_proxy_is_inside() {
        let inside = Url::parse("https://helper-agent.team.svc:8443/").unwrap();
        let seen = |host: &str, more: &[&'static str]| {
            let mut headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
            for name in more {
                headers.insert(*name, HeaderValue::from_static("x"));
            }
            audience(&headers, &Uri::from_static("/"), &inside)
        };
        for host in [
            "helper-agent.team.svc:8443",
            "Helper-Agent.team.svc",
            "helper-agent.team.svc.cluster.local:8443",
        ] {
            assert_eq!(seen(host, &[]), Audience::Inside, "{host}");
            assert_eq!(seen(host, &["x-forwarded-for"]), Audience::Outside, "{host}");
        }
        for host in [
            "agents.example",
            "helper-agent.team.svcx",
            "10.0.0.7:8443",
            "",
            "a b",
        ] {
            assert_eq!(seen(host, &[]), Audience::Outside, "{host}");
        }
        let absolute = Uri::from_static("https://helper-agent.team.svc:8443/");
        assert_eq!(audience(&HeaderMap::new(), &absolute, &inside), Audience::Inside);
        assert_eq!(
            audience(&HeaderMap::new(), &Uri::from_static("/"), &inside),
            Audience::Outside
        );
    }
}
