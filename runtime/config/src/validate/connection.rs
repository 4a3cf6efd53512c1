//! Checks of what any destination says about its connection: headers, credentials, TLS, clocks.

use std::collections::BTreeMap;

use agentd_base::duration::Duration;
use url::Url;

use super::{address, spiffe_id};
use crate::document::{Auth, ClientTls, Connection, Document, OAuth2Auth};
use crate::endpoint::{Place, Purpose};
use crate::fault::Fault;
use crate::header;
use crate::secret::Template;

/// A header's value before references are resolved.
const VALUE_BYTES: usize = 8 * 1024;
/// Servers refuse more; so do proxies.
const HEADERS: usize = 64;
/// Authorization servers name few; the request must stay one line.
const SCOPES: usize = 64;
/// A client's name or a scope.
const WORD_BYTES: usize = 1024;
const REFERENCE: &str = "write {{secret:NAME}} or {{secret-file:PATH}}";

pub(super) fn check(
    key: &str,
    connection: &Connection,
    url: Option<&Url>,
    place: Place,
    document: &Document,
    faults: &mut Vec<Fault>,
) {
    if connection.headers.len() > HEADERS {
        faults.push(Fault::new(
            format!("{key}.headers"),
            format!("holds {} headers", connection.headers.len()),
            format!("keep at most {HEADERS}"),
        ));
    }
    let mut names = BTreeMap::new();
    for name in connection.headers.keys() {
        // Names are equal whatever their case: the later one would take the place of the other.
        if let Some(other) = names.insert(name.to_ascii_lowercase(), name) {
            let other = agentd_base::text::clip(other, 80);
            faults.push(Fault::new(
                crate::shape::join(&format!("{key}.headers"), name),
                format!("is the same header as {other}"),
                "keep one of the two",
            ));
        }
    }
    for (name, value) in &connection.headers {
        check_header(
            &crate::shape::join(&format!("{key}.headers"), name),
            name,
            value,
            connection,
            faults,
        );
    }
    match &connection.auth {
        Some(Auth::Static(fixed)) => referenced(&format!("{key}.auth.static.bearer"), &fixed.bearer, faults),
        Some(Auth::OAuth2(client)) => check_oauth2(&format!("{key}.auth.oauth2"), client, place, faults),
        None => {}
    }
    if let Some(tls) = &connection.tls {
        check_tls(&format!("{key}.tls"), tls, url, document, faults);
    }
    positive(&format!("{key}.timeout"), connection.timeout, faults);
    positive(
        &format!("{key}.connect_timeout"),
        connection.connect_timeout,
        faults,
    );
}

fn check_header(key: &str, name: &str, value: &str, connection: &Connection, faults: &mut Vec<Fault>) {
    if !header::is_name(name) {
        faults.push(Fault::new(
            key,
            "is not a header name",
            "use letters, digits and `-`",
        ));
        return;
    }
    if header::is_reserved(name) {
        faults.push(Fault::new(key, "is set by the protocol itself", "take it out"));
    }
    if name.eq_ignore_ascii_case("authorization") && connection.auth.is_some() {
        faults.push(Fault::new(key, "is set by `auth` too", "keep one of the two"));
    }
    if value.len() > VALUE_BYTES || value.chars().any(|c| c.is_control() && c != '\t') {
        faults.push(Fault::new(
            key,
            "holds a line break, a control character or too much",
            format!("write one line of at most {VALUE_BYTES} bytes"),
        ));
    }
    if let Some(template) = template(key, value, faults)
        && header::is_credential(name)
        && !template.has_reference()
    {
        faults.push(Fault::new(
            key,
            "is a literal under a name that holds credentials",
            REFERENCE,
        ));
    }
}

/// A credential: it refers to a secret, and holds none.
pub(super) fn referenced(key: &str, text: &str, faults: &mut Vec<Fault>) {
    if let Some(template) = template(key, text, faults)
        && !template.has_reference()
    {
        faults.push(Fault::new(key, "is a literal, not a secret reference", REFERENCE));
    }
}

fn check_oauth2(key: &str, client: &OAuth2Auth, place: Place, faults: &mut Vec<Fault>) {
    let OAuth2Auth {
        client_id,
        client_secret,
        client_key,
        scopes,
        token_endpoint,
        issuer,
        resource,
    } = client;
    let printable = |c: char| c == ' ' || c.is_ascii_graphic();
    if client_id.is_empty() || client_id.len() > WORD_BYTES || !client_id.chars().all(printable) {
        faults.push(Fault::new(
            format!("{key}.client_id"),
            "is empty, too long, or holds what a client ID may not",
            "write the ID that the authorization server gave, printable ASCII",
        ));
    }
    template(&format!("{key}.client_id"), client_id, faults);
    for (name, text) in [("client_secret", client_secret), ("client_key", client_key)] {
        if let Some(text) = text {
            referenced(&format!("{key}.{name}"), text, faults);
        }
    }
    // This grant is for clients that can show who they are (RFC 6749 section 4.4).
    if client_secret.is_some() == client_key.is_some() {
        let (what, remedy) = match client_key {
            Some(_) => ("holds both client_secret and client_key", "keep one of the two"),
            None => (
                "holds neither client_secret nor client_key",
                "set one of the two to a secret reference",
            ),
        };
        faults.push(Fault::new(key, what, remedy));
    }
    // RFC 6749 section 3.3.
    let in_scope = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    let is_scope = |text: &String| !text.is_empty() && text.len() <= WORD_BYTES && text.chars().all(in_scope);
    if scopes.len() > SCOPES || !scopes.iter().all(is_scope) {
        faults.push(Fault::new(
            format!("{key}.scopes"),
            "holds too many, or one that is no scope",
            format!("write at most {SCOPES}, each one word without quotes, such as files:read"),
        ));
    }
    for (name, url) in [("token_endpoint", token_endpoint), ("issuer", issuer)] {
        if let Some(url) = url {
            address(
                &format!("{key}.{name}"),
                url,
                Purpose::Authorization,
                place,
                faults,
            );
        }
    }
    if let Some(resource) = resource
        && !Url::parse(resource).is_ok_and(|url| url.fragment().is_none())
    {
        faults.push(Fault::new(
            format!("{key}.resource"),
            "is not an absolute URI without a fragment",
            "write such as https://mcp.example/mcp",
        ));
    }
}

fn template(key: &str, text: &str, faults: &mut Vec<Fault>) -> Option<Template> {
    match Template::parse(text) {
        Ok(template) => Some(template),
        Err(error) => {
            faults.push(Fault::new(key, error.to_string(), REFERENCE));
            None
        }
    }
}

fn check_tls(key: &str, tls: &ClientTls, url: Option<&Url>, document: &Document, faults: &mut Vec<Fault>) {
    let ClientTls {
        ca_file,
        client_cert_file,
        client_key_file,
        server_name,
        spiffe_id: id,
    } = tls;
    if url.is_some_and(|url| url.scheme() == "http") {
        faults.push(Fault::new(
            key,
            "has no effect on an http address",
            "use https, or take it out",
        ));
    }
    if client_cert_file.is_some() != client_key_file.is_some() {
        faults.push(Fault::new(
            key,
            "holds one of client_cert_file and client_key_file",
            "set both, or neither",
        ));
    }
    if server_name
        .as_deref()
        .is_some_and(|name| url::Host::parse(name).is_err())
    {
        faults.push(Fault::new(
            format!("{key}.server_name"),
            "is not a host name",
            "write such as mcp.example",
        ));
    }
    let Some(id) = id else { return };
    let id_key = format!("{key}.spiffe_id");
    if ca_file.is_some() || client_cert_file.is_some() || client_key_file.is_some() || server_name.is_some() {
        faults.push(Fault::new(
            id_key.clone(),
            "does not go together with other keys of tls",
            "take the others out: the SPIFFE ID says who the server is",
        ));
    }
    if document.identity.is_none() {
        faults.push(Fault::new(
            id_key.clone(),
            "needs identity: mutual TLS uses the own SVID",
            "set identity, or take the ID out",
        ));
    }
    spiffe_id(&id_key, id, document.identity.as_ref(), faults);
}

pub(super) fn positive(key: &str, duration: Option<Duration>, faults: &mut Vec<Fault>) {
    if duration.is_some_and(|duration| duration.0.is_zero()) {
        faults.push(Fault::new(key, "is zero", "give it some time, such as 30s"));
    }
}
