//! Addresses that are written in metadata, past the SDK. It refuses private ones by itself, whatever led to them, and has
//! no switch for clients of one's own; here the guard of `net` judges, which knows the endpoint that led there. So the
//! SDK sees a name in place of an address, and whoever dials sees the address.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::header::LOCATION;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::Value;
use url::{Host, Url};

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
            let real = lifted(&asked);
            let by_name = real != asked;
            if by_name {
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

/// A challenge whose `resource_metadata` is veiled.
pub(super) fn veiled_challenge(challenge: &str) -> String {
    match parameter(challenge, "resource_metadata") {
        Some(url) if !url.is_empty() => challenge.replacen(&url, &veiled(&url), 1),
        _ => challenge.to_owned(),
    }
}

/// The URL with a name in place of an address. This host has none: the SDK knows where it may be named, as the guard does.
fn veiled(url: &str) -> String {
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
    let (host, name) = (parsed.host_str().unwrap_or_default(), format!("{label}{ZONE}"));
    // As it was written, where it was written so: issuers are compared letter by letter.
    match url.contains(host) {
        true => url.replacen(host, &name, 1),
        false => parsed.as_str().replacen(host, &name, 1),
    }
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
        match before.get(start..).and_then(address) {
            Some(address) => {
                let host = match address {
                    IpAddr::V4(address) => address.to_string(),
                    IpAddr::V6(address) => format!("[{address}]"),
                };
                from = start + host.len();
                lifted.to_mut().replace_range(start..end + ZONE.len(), &host);
            }
            None => from = end + ZONE.len(),
        }
    }
    lifted
}

fn address(label: &str) -> Option<IpAddr> {
    let (kind, rest) = label.split_once('-')?;
    match kind {
        "v4" => rest.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "v6" => rest.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6),
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
        ] {
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
        }
        for text in [
            "x.address.invalid",
            "v4-1-2.address.invalid",
            ".address.invalid",
            "v6-é.address.invalid",
        ] {
            assert_eq!(lifted(text), text);
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
