//! Addresses that a document may name, as rules over URLs. Pure: names are not resolved here; `agentd-net` guards the
//! dial itself.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// An MCP server: https, or loopback http.
    Mcp,
    /// A model: https, loopback http, or http where it says so.
    Model {
        /// `allow_plaintext`.
        allow_plaintext: bool,
    },
    /// Where an authorization server gives tokens: https, or loopback http.
    Authorization,
    /// A service of the installation: https only.
    Internal,
}

/// Where a document is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// Any machine: a server on the same host makes sense.
    #[default]
    Machine,
    /// A pod that the operator makes: nothing but the agent listens on its loopback.
    Pod,
}

/// What is wrong with an address, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

fn refused(problem: impl Into<String>, remedy: impl Into<String>) -> Refused {
    Refused {
        problem: problem.into(),
        remedy: remedy.into(),
    }
}

/// The URL, if it may be dialled for this purpose from this place.
pub fn check(text: &str, purpose: Purpose, place: Place) -> Result<Url, Refused> {
    const FORM: &str = "write https://host[:port][/path]";
    if text.is_empty() {
        return Err(refused("is empty", FORM));
    }
    let url = Url::parse(text).map_err(|error| refused(format!("is not a URL ({error})"), FORM))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused(
            "holds a user name or password",
            "take it out of the URL and refer to a secret in `auth` or `headers`",
        ));
    }
    if url.fragment().is_some() {
        return Err(refused(
            "holds a fragment (`#…`)",
            "take it out: it is never sent",
        ));
    }
    if text.contains(['{', '}']) {
        return Err(refused(
            "holds a placeholder or braces",
            "write the address out: no part of it is filled in",
        ));
    }
    let Some(host) = url.host() else {
        return Err(refused("names no host", FORM));
    };
    if let Host::Domain(name) = host
        && !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        return Err(refused("names a host that no host can be called", FORM));
    }
    if url.port() == Some(0) {
        return Err(refused("names port 0", "name the port of the server"));
    }
    if is_never(&host) {
        return Err(refused(
            "names a link-local, multicast or unspecified address",
            "name the host of the server: such addresses are never dialled",
        ));
    }
    check_scheme(&url, &host, purpose, place)?;
    Ok(url)
}

fn check_scheme(url: &Url, host: &Host<&str>, purpose: Purpose, place: Place) -> Result<(), Refused> {
    let loopback = is_loopback(host);
    let plaintext = matches!(
        purpose,
        Purpose::Model {
            allow_plaintext: true
        }
    );
    match (url.scheme(), purpose) {
        ("https", _) => Ok(()),
        ("http", Purpose::Mcp | Purpose::Authorization | Purpose::Model { .. })
            if loopback && place == Place::Machine =>
        {
            Ok(())
        }
        ("http", Purpose::Authorization) if loopback => Err(refused(
            "is on the pod's own loopback, where nothing but the agent listens",
            "name the authorization server by https",
        )),
        ("http", Purpose::Mcp | Purpose::Model { .. }) if loopback => Err(refused(
            "is on the pod's own loopback, where nothing but the agent listens",
            "name a Service by https, or let the operator run the server (McpServer `deployment`)",
        )),
        ("http", Purpose::Model { .. }) if plaintext && !is_public(host) => Ok(()),
        ("http", Purpose::Model { .. }) if plaintext => Err(refused(
            "is plain http to a public address",
            "use https: plaintext may not leave private networks",
        )),
        ("http", Purpose::Model { .. }) => Err(refused(
            "is plain http to another host",
            "use https, or allow plaintext for a model server in the cluster (`allow_plaintext`)",
        )),
        ("http", Purpose::Mcp | Purpose::Authorization) => Err(refused(
            "is plain http to another host",
            "use https; http is for loopback only",
        )),
        ("http", Purpose::Internal) => Err(refused("is plain http", "use https")),
        (scheme, _) => Err(refused(
            format!("has the scheme `{}`", agentd_base::text::clip(scheme, 20)),
            "use https",
        )),
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.to_canonical().is_loopback(),
    }
}

/// Whether an address as written is public; what a name resolves to is the guard's matter at the dial.
fn is_public(host: &Host<&str>) -> bool {
    let address = match host {
        Host::Domain(_) => return false,
        Host::Ipv4(address) => IpAddr::V4(*address),
        Host::Ipv6(address) => address.to_canonical(),
    };
    match address {
        IpAddr::V4(v4) => {
            // 100.64.0.0/10 is shared address space (RFC 6598), which some clusters use for pods.
            let [first, second, ..] = v4.octets();
            !(v4.is_private() || v4.is_loopback() || first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(v6) => !v6.is_unique_local() && !v6.is_loopback(),
    }
}

fn is_never(host: &Host<&str>) -> bool {
    let address = match host {
        Host::Domain(_) => return false,
        Host::Ipv4(address) => IpAddr::V4(*address),
        Host::Ipv6(address) => address.to_canonical(),
    };
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_multicast() || v4.is_unspecified() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_multicast() || v6.is_unspecified(),
    }
}

/// `a2a.listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// https; else plain http.
    pub tls: bool,
    /// Where.
    pub address: SocketAddr,
}

/// `https://ADDRESS:PORT` or `http://ADDRESS:PORT`; the address is an IP or `localhost`, port 0 is any.
pub fn listen(text: &str) -> Result<Listen, Refused> {
    const FORM: &str = "write https://ADDRESS:PORT, such as https://0.0.0.0:8443";
    let url = Url::parse(text).map_err(|error| refused(format!("is not a URL ({error})"), FORM))?;
    let tls = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(refused("is neither https nor http", FORM)),
    };
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    if !bare || !url.username().is_empty() || url.password().is_some() {
        return Err(refused("holds more than an address and a port", FORM));
    }
    let ip = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        Some(Host::Domain("localhost")) => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        Some(Host::Domain(_)) | None => return Err(refused("names a host where an address belongs", FORM)),
    };
    let port = url
        .port_or_known_default()
        .ok_or_else(|| refused("names no port", FORM))?;
    Ok(Listen {
        tls,
        address: SocketAddr::new(ip, port),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Purpose = Purpose::Model {
        allow_plaintext: false,
    };
    const PLAIN: Purpose = Purpose::Model {
        allow_plaintext: true,
    };

    #[test]
    fn the_schemes_by_purpose_and_place() {
        use Place::{Machine, Pod};
        use Purpose::{Authorization, Internal, Mcp};
        for (text, purpose, place, allowed) in [
            ("https://mcp.example/mcp", Mcp, Pod, true),
            ("https://10.0.0.1:8443", Mcp, Pod, true),
            ("http://127.0.0.1:9000/mcp", Mcp, Machine, true),
            ("http://localhost/mcp", Mcp, Machine, true),
            ("http://[::1]:1/mcp", Mcp, Machine, true),
            ("http://127.0.0.1:9000/mcp", Mcp, Pod, false),
            ("http://mcp.example/mcp", Mcp, Machine, false),
            ("http://localhost.example/mcp", Mcp, Machine, false),
            ("http://model.ns.svc/v1", MODEL, Pod, false),
            ("http://model.ns.svc/v1", PLAIN, Pod, true),
            ("http://127.0.0.1/v1", PLAIN, Pod, false),
            ("http://10.0.0.1/v1", PLAIN, Pod, true),
            ("http://100.64.1.1/v1", PLAIN, Pod, true),
            ("http://[fd00::1]/v1", PLAIN, Pod, true),
            ("http://1.1.1.1/v1", PLAIN, Pod, false),
            ("http://[2606:4700::1]/v1", PLAIN, Pod, false),
            ("http://LOCALHOST./mcp", Mcp, Machine, true),
            ("https://mcp.example:0/", Mcp, Machine, false),
            ("http://127.0.0.1/v1", MODEL, Machine, true),
            ("http://issuer.ns.svc", Internal, Machine, false),
            ("http://127.0.0.1", Internal, Machine, false),
            ("https://issuer.ns.svc:8443", Internal, Pod, true),
            ("https://login.example/token", Authorization, Pod, true),
            ("http://127.0.0.1:9000/token", Authorization, Machine, true),
            ("http://127.0.0.1:9000/token", Authorization, Pod, false),
            ("http://login.example/token", Authorization, Machine, false),
            ("https://169.254.169.254/token", Authorization, Machine, false),
            ("ftp://mcp.example", Mcp, Machine, false),
            ("unix:///run/x", Mcp, Machine, false),
            ("mcp.example", Mcp, Machine, false),
            ("", Mcp, Machine, false),
            ("https://", Mcp, Machine, false),
            ("https://$HOST/mcp", Mcp, Machine, false),
            ("https://${HOST}/mcp", Mcp, Machine, false),
            ("https://mcp.example/{tenant}", Mcp, Machine, false),
            ("https://mcp.example/{{secret:TENANT}}", Mcp, Machine, false),
            ("https://bücher.example/mcp", Mcp, Machine, true),
            ("https://me:pw@mcp.example", Mcp, Machine, false),
            ("https://mcp.example/#x", Mcp, Machine, false),
            ("https://169.254.169.254/latest", Mcp, Machine, false),
            ("https://[fe80::1]/", Mcp, Machine, false),
            ("https://[::ffff:169.254.169.254]/", Mcp, Machine, false),
            ("https://0.0.0.0/", Mcp, Machine, false),
            ("https://224.0.0.1/", Mcp, Machine, false),
        ] {
            assert_eq!(
                check(text, purpose, place).is_ok(),
                allowed,
                "{text} {purpose:?} {place:?}"
            );
        }
    }

    #[test]
    fn a_refusal_never_shows_the_password() {
        let error = check("https://me:hunter2@x", Purpose::Mcp, Place::Machine).unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn listeners() {
        let parsed = listen("https://0.0.0.0:8443").unwrap();
        assert_eq!(
            (parsed.tls, parsed.address),
            (true, "0.0.0.0:8443".parse().unwrap())
        );
        let parsed = listen("http://localhost:0").unwrap();
        assert_eq!(
            (parsed.tls, parsed.address),
            (false, "127.0.0.1:0".parse().unwrap())
        );
        assert_eq!(
            listen("https://[::]:8443").unwrap().address,
            "[::]:8443".parse().unwrap()
        );
        for bad in [
            "0.0.0.0:8443",
            "https://host:1",
            "https://0.0.0.0:1/path",
            "https://a@0.0.0.0:1",
            "tcp://1.1.1.1:1",
        ] {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }
}
