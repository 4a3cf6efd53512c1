//! A destination: a URL that passed the rules for where it comes from. It is the only thing that can be dialled, and it
//! carries the rule for the addresses its name may resolve to.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use agentd_base::class::{Class, Classified};
use url::{Host, Url};

use crate::guard::{Bounds, Reach};

/// Longer than any server takes.
const URL_BYTES: usize = 8 * 1024;

/// Where the URL was written, which decides what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// An MCP endpoint: https, or loopback http.
    Mcp,
    /// A model endpoint: https, loopback http, or http to a private address with `allow_plaintext`.
    Model {
        /// `intelligence.endpoints[].allow_plaintext`.
        allow_plaintext: bool,
    },
    /// Issuer, report endpoint, A2A peer: https.
    Internal,
    /// Our own loopback port, such as the bridge's upstream: http to this host.
    Upstream,
    /// What a caller gave, to be told of its task: https to a public address; with `allow_private` to any, and http to
    /// this host.
    Push {
        /// `a2a.push.allow_private`.
        allow_private: bool,
    },
}

/// A URL that may be dialled. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Destination(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    url: Url,
    bounds: Bounds,
    /// The destination that led to this one, for a discovered URL.
    leader: Option<Destination>,
    /// The least private class that this destination was ever found in.
    least: Mutex<Option<Reach>>,
}

/// Why a URL is no destination: what is wrong and the remedy. Never shows credentials of the URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DestinationError(pub String);

impl Classified for DestinationError {
    fn class(&self) -> Class {
        Class::Invalid
    }
}

impl Destination {
    /// A URL from the configuration.
    ///
    /// # Errors
    /// When the URL is malformed, or what [`Declared`] does not allow.
    pub fn declared(url: &str, declared: Declared) -> Result<Self, DestinationError> {
        let url = parse(url)?;
        let secure = url.scheme() == "https";
        let bounds = match declared {
            Declared::Mcp if secure => Bounds::ANY,
            Declared::Mcp => Bounds::LOOPBACK,
            Declared::Model { .. } if secure => Bounds::ANY,
            Declared::Model {
                allow_plaintext: true,
            } => Bounds::NOT_PUBLIC,
            Declared::Model {
                allow_plaintext: false,
            } => Bounds::LOOPBACK,
            Declared::Internal if secure => Bounds::ANY,
            Declared::Internal => return Err(error("must be https://")),
            Declared::Upstream if !secure => Bounds::LOOPBACK,
            Declared::Upstream => return Err(error("must be http:// to this host")),
            Declared::Push { allow_private: false } if secure => Bounds::PUBLIC,
            Declared::Push { allow_private: true } if secure => Bounds::ANY,
            Declared::Push { allow_private: true } => Bounds::LOOPBACK,
            Declared::Push { allow_private: false } => return Err(error("must be https://")),
        };
        if bounds == Bounds::LOOPBACK && !names_loopback(&url) {
            return Err(error(
                "plain http:// is for localhost and loopback addresses; use https://",
            ));
        }
        Self::build(url, bounds, None)
    }

    /// A URL that a peer named (redirect, OAuth metadata, agent card), reached through `self`. It is dialled only where
    /// none of its addresses is more private than those of `self`, and it is https unless `self` is loopback http.
    ///
    /// # Errors
    /// When the URL is malformed or breaks the rule.
    pub fn discovered(&self, url: &str) -> Result<Self, DestinationError> {
        let url = parse(url)?;
        if url.scheme() == "https" {
            return Self::build(url, Bounds::ANY, Some(self.clone()));
        }
        if !self.is_loopback_http() || !names_loopback(&url) {
            return Err(error("a URL that a server names must be https://"));
        }
        Self::build(url, Bounds::LOOPBACK, Some(self.clone()))
    }

    fn build(url: Url, bounds: Bounds, leader: Option<Self>) -> Result<Self, DestinationError> {
        if let Some(address) = literal(&url) {
            bounds.vet(address).map_err(DestinationError)?;
        }
        Ok(Self(Arc::new(Inner {
            url,
            bounds,
            leader,
            least: Mutex::default(),
        })))
    }

    /// The URL.
    pub fn url(&self) -> &Url {
        &self.0.url
    }

    /// `host:port`, for messages.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host(), self.port())
    }

    /// Whether it is plain http.
    pub(crate) fn is_plaintext(&self) -> bool {
        self.0.url.scheme() == "http"
    }

    /// Whether `url` has the scheme, host and port of this destination, and no credentials.
    pub(crate) fn same_origin(&self, url: &Url) -> bool {
        let ours = &self.0.url;
        ours.scheme() == url.scheme()
            && ours.host() == url.host()
            && ours.port_or_known_default() == url.port_or_known_default()
            && url.username().is_empty()
            && url.password().is_none()
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// Keeps where it was found now; the least private class so far. What it leads to is judged by that one: a name whose
    /// answers change must not lead to where the server that spoke could not.
    pub(crate) fn found(&self, now: Reach) -> Reach {
        let mut least = self.0.least.lock().unwrap_or_else(PoisonError::into_inner);
        let reach = least.map_or(now, |least| least.min(now));
        *least = Some(reach);
        reach
    }

    pub(crate) fn leader(&self) -> Option<&Self> {
        self.0.leader.as_ref()
    }

    pub(crate) fn host(&self) -> &str {
        self.0.url.host_str().unwrap_or_default()
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.url.port_or_known_default().unwrap_or(443)
    }

    /// The address, when the host is written as one.
    pub(crate) fn literal(&self) -> Option<IpAddr> {
        literal(&self.0.url)
    }

    fn is_loopback_http(&self) -> bool {
        self.is_plaintext() && self.0.bounds == Bounds::LOOPBACK
    }
}

fn parse(text: &str) -> Result<Url, DestinationError> {
    if text.len() > URL_BYTES {
        return Err(error("is longer than a URL may be (8 KiB)"));
    }
    let url = Url::parse(text).map_err(|fault| error(&format!("is not a URL ({fault})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(error("must be https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(error(
            "must not hold credentials; use headers or auth with a secret reference",
        ));
    }
    if url.fragment().is_some() {
        return Err(error("must not have a fragment (#…)"));
    }
    if url.host_str().is_none_or(str::is_empty) || url.port() == Some(0) {
        return Err(error("must name a host and a port that can be dialled"));
    }
    Ok(url)
}

fn error(text: &str) -> DestinationError {
    DestinationError(text.to_owned())
}

fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
        Host::Domain(_) => None,
    }
}

/// Whether the host is written as this host: a loopback address, or `localhost` (RFC 6761).
fn names_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => Bounds::LOOPBACK.vet(IpAddr::V4(address)).is_ok(),
        Some(Host::Ipv6(address)) => Bounds::LOOPBACK.vet(IpAddr::V6(address)).is_ok(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN_MODEL: Declared = Declared::Model {
        allow_plaintext: true,
    };

    const PUSH: Declared = Declared::Push { allow_private: false };
    const PRIVATE_PUSH: Declared = Declared::Push { allow_private: true };

    #[test]
    fn what_may_be_declared() {
        for (url, declared) in [
            ("https://mcp.example/mcp", Declared::Mcp),
            ("https://10.0.0.1:8443/mcp?x=1", Declared::Mcp),
            ("https://127.0.0.1/mcp", Declared::Mcp),
            ("http://127.0.0.1:3000/mcp", Declared::Mcp),
            ("http://[::1]:3000/mcp", Declared::Mcp),
            ("http://localhost:3000/mcp", Declared::Mcp),
            ("http://LOCALHOST./mcp", Declared::Mcp),
            ("http://0x7f.1/mcp", Declared::Mcp),
            ("http://[::ffff:127.0.0.1]/mcp", Declared::Mcp),
            ("http://vllm.models.svc:8000/v1", PLAIN_MODEL),
            ("http://10.0.0.1/v1", PLAIN_MODEL),
            ("https://issuer.agentd.svc:8443", Declared::Internal),
            ("http://127.0.0.1:3000/mcp", Declared::Upstream),
            ("https://hook.example/a2a?x=1", PUSH),
            ("https://1.1.1.1/a2a", PUSH),
            ("https://10.0.0.1/a2a", PRIVATE_PUSH),
            ("https://127.0.0.1/a2a", PRIVATE_PUSH),
            ("http://localhost:3000/a2a", PRIVATE_PUSH),
        ] {
            assert!(Destination::declared(url, declared).is_ok(), "{url}");
        }
    }

    #[test]
    fn what_may_not() {
        for (url, declared, part) in [
            ("http://mcp.example/mcp", Declared::Mcp, "use https"),
            ("http://10.0.0.1/mcp", Declared::Mcp, "use https"),
            ("http://localhost.example.com/", Declared::Mcp, "use https"),
            ("http://127.0.0.1.nip.io/", Declared::Mcp, "use https"),
            (
                "http://vllm.models.svc/v1",
                Declared::Model {
                    allow_plaintext: false,
                },
                "use https",
            ),
            ("http://1.1.1.1/v1", PLAIN_MODEL, "may not leave private networks"),
            ("http://issuer:8443", Declared::Internal, "https"),
            ("https://127.0.0.1", Declared::Upstream, "http://"),
            ("https://169.254.169.254/latest", Declared::Mcp, "never dialled"),
            ("https://0xa9fea9fe/", Declared::Mcp, "never dialled"),
            ("https://2852039166/", Declared::Mcp, "never dialled"),
            ("https://[::ffff:a9fe:a9fe]/", Declared::Mcp, "never dialled"),
            ("https://0/", Declared::Mcp, "never dialled"),
            ("https://[fe80::1]/", Declared::Internal, "never dialled"),
            ("http://hook.example/", PUSH, "https"),
            ("http://127.0.0.1/", PUSH, "https"),
            ("https://10.0.0.1/", PUSH, "a private address"),
            ("https://[fd00::1]/", PUSH, "a private address"),
            ("https://127.0.0.1/", PUSH, "a loopback address"),
            ("https://[::ffff:127.0.0.1]/", PUSH, "a loopback address"),
            ("https://100.100.100.200/", PUSH, "never dialled"),
            ("https://169.254.169.254/", PRIVATE_PUSH, "never dialled"),
            ("http://hook.example/", PRIVATE_PUSH, "use https"),
            ("http://10.0.0.1/", PRIVATE_PUSH, "use https"),
            ("https://user@mcp.example/", Declared::Mcp, "credentials"),
            ("https://user:secret@mcp.example/", Declared::Mcp, "credentials"),
            ("https://mcp.example/#a", Declared::Mcp, "fragment"),
            ("https://mcp.example:0/", Declared::Mcp, "port"),
            ("ftp://mcp.example/", Declared::Mcp, "https"),
            ("file:///etc/passwd", Declared::Mcp, "https"),
            ("mcp.example", Declared::Mcp, "not a URL"),
            ("https://", Declared::Mcp, "not a URL"),
            ("https://exa mple/", Declared::Mcp, "not a URL"),
        ] {
            let error = Destination::declared(url, declared).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
            assert!(!error.contains("secret@"), "{error}");
        }
    }

    #[test]
    fn a_url_has_an_end() {
        let long = format!("https://mcp.example/{}", "a".repeat(URL_BYTES));
        assert!(Destination::declared(&long, Declared::Mcp).is_err());
    }

    #[test]
    fn a_discovered_url_is_https_unless_its_leader_is_loopback_http() {
        let public = Destination::declared("https://mcp.example/mcp", Declared::Mcp).unwrap();
        assert!(public.discovered("https://auth.example/token").is_ok());
        assert!(public.discovered("http://auth.example/token").is_err());
        assert!(public.discovered("http://127.0.0.1/token").is_err());
        assert!(public.discovered("https://169.254.169.254/token").is_err());
        let local = Destination::declared("http://127.0.0.1:1/mcp", Declared::Mcp).unwrap();
        assert!(local.discovered("http://127.0.0.1:2/token").is_ok());
        assert!(local.discovered("http://auth.example/token").is_err());
        let model = Destination::declared("http://10.0.0.1/v1", PLAIN_MODEL).unwrap();
        assert!(model.discovered("http://10.0.0.1/token").is_err());
    }

    #[test]
    fn origins() {
        let destination = Destination::declared("https://mcp.example/mcp", Declared::Mcp).unwrap();
        let same = |url: &str| destination.same_origin(&Url::parse(url).unwrap());
        assert!(same("https://MCP.example:443/other?x=1"));
        assert!(!same("http://mcp.example/mcp"));
        assert!(!same("https://mcp.example:444/mcp"));
        assert!(!same("https://mcp.example.evil/mcp"));
        assert!(!same("https://user@mcp.example/mcp"));
    }
}
