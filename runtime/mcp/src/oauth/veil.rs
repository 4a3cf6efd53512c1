//! Addresses that are written in metadata, past the SDK. It refuses private ones by itself, whatever led to them, and has
//! no switch for clients of one's own; here the guard of `net` judges, which knows the endpoint that led there. So the
//! SDK sees a name in place of an address, and whoever dials sees the address.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::LOCATION;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::Value;
use url::{Host, Position, Url};

use super::token::parameter;

/// Where the names are. Nobody's (RFC 2606): one that is not lifted leads nowhere.
const ZONE: &str = ".address.invalid";
/// Whom a server names.
const NAMED: [&str; 2] = ["authorization_server", "authorization_servers"];
/// What one that was asked by such a name says of itself: the SDK compares both.
const ISSUER: &str = "issuer";

/// A client that the SDK asks by these names.
pub(super) struct Veiled<C>(pub(super) Arc<C>);

impl<C: OAuthHttpClient> OAuthHttpClient for Veiled<C> {
    fn execute(&self, mut request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let asked = request.request.uri().to_string();
            let real = lifted_url(&asked);
            let by_name = real.is_some();
            if let Some(real) = real {
                *request.request.uri_mut() = real.parse()?;
            }
            let mut response = self.0.execute(request).await?;
            if let Some(veiled) = veiled_metadata(response.body(), by_name) {
                *response.body_mut() = veiled;
            }
            let location = response.headers().get(LOCATION).filter(|_| by_name);
            if let Some(to) = location.and_then(|to| to.to_str().ok()).map(veiled) {
                response.headers_mut().insert(LOCATION, to.parse()?);
            }
            Ok(response)
        })
    }
}

/// What the SDK reads of a challenge, with `resource_metadata` veiled. It looks for the names of parameters wherever they
/// stand, in other words too, so it sees those that are parameters, and nothing else.
pub(super) fn veiled_challenge(challenge: &str) -> String {
    let parameters = ["resource_metadata", "error", "scope"].map(|name| {
        let value = parameter(challenge, name)?;
        let value = if name == "resource_metadata" {
            veiled(&value)
        } else {
            value
        };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        Some(format!("{name}=\"{value}\""))
    });
    let parameters: Vec<_> = parameters.into_iter().flatten().collect();
    format!("Bearer {}", parameters.join(", "))
}

/// The URL with a name in place of an address. This host has none: the SDK knows where it may be named, as the guard does.
pub(super) fn veiled(url: &str) -> String {
    let Ok(parsed) = Url::parse(url) else {
        return url.to_owned();
    };
    let label = match parsed.host() {
        Some(Host::Ipv4(address)) if address.is_loopback() => return url.to_owned(),
        Some(Host::Ipv6(address)) if address.is_loopback() => return url.to_owned(),
        Some(Host::Ipv4(address)) => format!("v4-{}", address.to_string().replace('.', "-")),
        Some(Host::Ipv6(address)) => {
            let groups = address.segments().map(|group| format!("{group:x}"));
            format!("v6-{}", groups.join("-"))
        }
        Some(Host::Domain(_)) | None => return url.to_owned(),
    };
    named(url, &parsed, &format!("{label}{ZONE}"))
}

/// The URL with the address back in place; `None` where its host is no name of ours.
pub(super) fn lifted_url(url: &str) -> Option<String> {
    let parsed = Url::parse(url).ok()?;
    let host = host(parsed.host_str()?.strip_suffix(ZONE)?)?;
    Some(named(url, &parsed, &host.to_string()))
}

/// The URL with another host, and the rest as it was written, where it was written so: issuers are compared letter by
/// letter.
fn named(url: &str, parsed: &Url, host: &str) -> String {
    let (before, after) = (&parsed[..Position::BeforeHost], &parsed[Position::AfterHost..]);
    let written = url
        .strip_prefix(&parsed[..Position::AfterHost])
        .filter(|rest| rest.is_empty() || rest.starts_with([':', '/', '?', '#']));
    format!("{before}{host}{}", written.unwrap_or(after))
}

/// A text with the addresses back in place.
pub(super) fn lifted(text: &str) -> Cow<'_, str> {
    let mut lifted = Cow::Borrowed(text);
    let mut from = 0;
    while let Some(at) = lifted.get(from..).and_then(|rest| rest.find(ZONE)) {
        let end = from + at;
        let before = lifted.get(..end).unwrap_or_default();
        let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let start = before.trim_end_matches(part).len();
        match before.get(start..).and_then(host) {
            Some(host) => {
                let host = host.to_string();
                from = start + host.len();
                lifted.to_mut().replace_range(start..end + ZONE.len(), &host);
            }
            None => from = end + ZONE.len(),
        }
    }
    lifted
}

/// The address that a label stands for, as URLs have it.
fn host(label: &str) -> Option<Host> {
    let (kind, rest) = label.split_once('-')?;
    match kind {
        "v4" => rest.replace('-', ".").parse().ok().map(Host::Ipv4),
        "v6" => rest.replace('-', ":").parse().ok().map(Host::Ipv6),
        _ => None,
    }
}

/// Metadata as the SDK may see it; `None` where it is as it was.
fn veiled_metadata(body: &[u8], by_name: bool) -> Option<Vec<u8>> {
    let mut metadata: serde_json::Map<String, Value> = serde_json::from_slice(body).ok()?;
    let mut changed = false;
    let mut veil = |value: &mut Value| {
        if let Value::String(url) = value {
            let veiled = veiled(url);
            changed |= veiled != *url;
            *url = veiled;
        }
    };
    for key in NAMED.into_iter().chain(by_name.then_some(ISSUER)) {
        match metadata.get_mut(key) {
            Some(Value::Array(urls)) => urls.iter_mut().for_each(&mut veil),
            Some(url) => veil(url),
            None => {}
        }
    }
    changed.then(|| serde_json::to_vec(&metadata).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::transport::auth::WWWAuthenticateParams;

    #[test]
    fn an_address_is_a_name_to_the_sdk_and_an_address_to_us() {
        for (url, name) in [
            ("https://10.0.0.5", "https://v4-10-0-0-5.address.invalid"),
            (
                "https://10.0.0.5:8443/as/",
                "https://v4-10-0-0-5.address.invalid:8443/as/",
            ),
            (
                "https://169.254.169.254/",
                "https://v4-169-254-169-254.address.invalid/",
            ),
            (
                "https://[fd00::1]/x",
                "https://v6-fd00-0-0-0-0-0-0-1.address.invalid/x",
            ),
            // As URLs write it, and not as sockets do.
            (
                "https://[::ffff:102:304]/x",
                "https://v6-0-0-0-0-0-ffff-102-304.address.invalid/x",
            ),
            // What reads like the host and is not it stays.
            (
                "https://1.1.1.1@1.1.1.1/1.1.1.1",
                "https://1.1.1.1@v4-1-1-1-1.address.invalid/1.1.1.1",
            ),
        ] {
            assert_eq!(lifted_url(name).as_deref(), Some(url));
            assert_eq!(veiled(url), name);
            assert_eq!(lifted(name), url);
            assert_eq!(lifted(&format!("at {name}, {name}")), format!("at {url}, {url}"));
        }
        // Written in another way, it is the same address.
        assert_eq!(
            veiled("https://0x0a.5/x"),
            "https://v4-10-0-0-5.address.invalid/x"
        );
        for url in [
            "https://as.example/10.0.0.5",
            "http://127.0.0.1:1/",
            "https://[::1]/x",
            "nonsense",
            "mailto:a@10.0.0.5",
            "",
        ] {
            assert_eq!(veiled(url), url);
            assert_eq!(lifted_url(url), None);
        }
        let elsewhere = "https://as.example/v4-10-0-0-5.address.invalid";
        assert_eq!(lifted_url(elsewhere), None);
        for text in [
            "x.address.invalid",
            "v4-1-2.address.invalid",
            ".address.invalid",
            "v6-é.address.invalid",
        ] {
            assert_eq!(lifted(text), text);
        }
    }

    /// Two readers of a challenge see one thing in it.
    #[test]
    fn the_sdk_sees_the_parameters_of_a_challenge_and_nothing_that_reads_like_them() {
        let base = Url::parse("https://10.0.0.1/mcp").unwrap();
        let name = "https://v4-10-0-0-2.address.invalid/m";
        for (challenge, url, scope) in [
            (
                r#"Bearer resource_metadata="https://10.0.0.2/m", scope="a b""#,
                Some(name),
                Some("a b"),
            ),
            (
                r#"Basic realm="https://10.0.0.2/m", Bearer resource_metadata="https://10.0.0.2/m""#,
                Some(name),
                None,
            ),
            (
                r#"Bearer resource_metadata="https://10.0\.0.2/m""#,
                Some(name),
                None,
            ),
            (
                r#"Bearer realm="resource_metadata=https://10.0.0.9/x, scope=z", resource_metadata=https://10.0.0.2/m"#,
                Some(name),
                None,
            ),
            (r#"Bearer x-scope="z", scope="a\"b""#, None, Some("a\"b")),
            ("Bearer", None, None),
        ] {
            let seen = WWWAuthenticateParams::parse(&veiled_challenge(challenge), &base);
            let seen = (seen.resource_metadata_url.map(String::from), seen.scope);
            assert_eq!(
                seen,
                (url.map(str::to_owned), scope.map(str::to_owned)),
                "{challenge}"
            );
        }
    }

    #[test]
    fn metadata_is_veiled_where_the_sdk_judges_it() {
        let of = |text: &str, by_name| -> Option<Value> {
            veiled_metadata(text.as_bytes(), by_name).map(|body| serde_json::from_slice(&body).unwrap())
        };
        let veiled = |text: &str| of(text, true);
        assert_eq!(
            veiled(
                r#"{"resource":"https://10.0.0.1/mcp","authorization_servers":["https://10.0.0.2",7],"authorization_server":"https://as"}"#
            ),
            Some(serde_json::json!({
                "resource": "https://10.0.0.1/mcp",
                "authorization_servers": ["https://v4-10-0-0-2.address.invalid", 7],
                "authorization_server": "https://as"
            }))
        );
        assert_eq!(
            veiled(r#"{"issuer":"https://10.0.0.2","token_endpoint":"https://10.0.0.2/t"}"#),
            Some(serde_json::json!({
                "issuer": "https://v4-10-0-0-2.address.invalid",
                "token_endpoint": "https://10.0.0.2/t"
            }))
        );
        assert_eq!(
            of(r#"{"issuer":"https://10.0.0.2"}"#, false),
            None,
            "asked by its address"
        );
        for text in [r#"{"issuer":"https://as"}"#, "[]", "x", "{}"] {
            assert_eq!(veiled(text), None);
        }
    }
}
