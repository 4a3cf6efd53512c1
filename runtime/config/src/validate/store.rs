//! Checks of `store`: what is set fits the kind, and a remote one can be asked.

use super::{address, connection, known_server, pointer};
use crate::document::{Auth, Connection, Document, HttpOp, HttpStore, McpOp, McpStore, StoreKind};
use crate::endpoint::{Place, Purpose};
use crate::fault::Fault;
use crate::shape::is_plain;

/// The first segment of every key.
const PREFIX_BYTES: usize = 128;
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "PATCH", "DELETE"];

pub(super) fn check(document: &Document, place: Place, faults: &mut Vec<Fault>) {
    let store = &document.store;
    let kind = document.store_kind();
    let is_remote = matches!(kind, StoreKind::Mcp | StoreKind::Http);
    for (key, is_set, fits, remedy) in [
        (
            "store.path",
            store.path.is_some(),
            kind == StoreKind::File,
            "file",
        ),
        ("store.prefix", store.prefix.is_some(), is_remote, "mcp or http"),
        ("store.timeout", store.timeout.is_some(), is_remote, "mcp or http"),
        ("store.mcp", store.mcp.is_some(), kind == StoreKind::Mcp, "mcp"),
        (
            "store.http",
            store.http.is_some(),
            kind == StoreKind::Http,
            "http",
        ),
    ] {
        if is_set && !fits {
            faults.push(Fault::new(
                key,
                format!("has no effect with the {} store", label(kind)),
                format!("take it out, or set store.kind to {remedy}"),
            ));
        }
    }
    for (key, kind_needed, is_set) in [
        ("store.mcp", StoreKind::Mcp, store.mcp.is_some()),
        ("store.http", StoreKind::Http, store.http.is_some()),
    ] {
        if kind == kind_needed && !is_set {
            faults.push(Fault::new(
                key,
                format!("is missing: store.kind is {}", label(kind)),
                "say which server keeps the state",
            ));
        }
    }
    if let Some(prefix) = &store.prefix
        && (!is_plain(prefix) || prefix.len() > PREFIX_BYTES)
    {
        faults.push(Fault::new(
            "store.prefix",
            "is not a name",
            format!("use at most {PREFIX_BYTES} letters, digits, `-`, `_`, `.`"),
        ));
    }
    connection::positive("store.timeout", store.timeout, faults);
    connection::positive("store.retention.tasks.ttl", store.retention.tasks.ttl, faults);
    if let Some(mcp) = &store.mcp {
        check_mcp(mcp, document, faults);
    }
    if let Some(http) = &store.http {
        check_http(http, place, document, faults);
    }
}

fn check_mcp(mcp: &McpStore, document: &Document, faults: &mut Vec<Fault>) {
    known_server("store.mcp.server", &mcp.server, document, faults);
    for (name, op) in [
        ("put", &mcp.put),
        ("get", &mcp.get),
        ("list", &mcp.list),
        ("delete", &mcp.delete),
    ] {
        let Some(op) = op else { continue };
        let McpOp {
            tool,
            value,
            keys,
            next,
            ..
        } = op;
        let key = format!("store.mcp.{name}");
        if tool.trim().is_empty() {
            faults.push(Fault::new(
                format!("{key}.tool"),
                "is empty",
                "write the tool's name at the server",
            ));
        }
        pointers(&key, [value, keys, next], faults);
    }
}

fn check_http(http: &HttpStore, place: Place, document: &Document, faults: &mut Vec<Fault>) {
    let url = address("store.http.base_url", &http.base_url, Purpose::Mcp, place, faults);
    if let Some(Auth::OAuth2(_)) = &http.auth {
        faults.push(Fault::new(
            "store.http.auth.oauth2",
            "is for MCP servers only: no store is dialled with it yet",
            "use auth.static",
        ));
    }
    let reached = Connection {
        headers: http.headers.clone(),
        auth: http.auth.clone(),
        tls: http.tls.clone(),
        ..Connection::default()
    };
    connection::check("store.http", &reached, url.as_ref(), place, document, faults);
    for (name, op) in [
        ("put", &http.put),
        ("get", &http.get),
        ("list", &http.list),
        ("delete", &http.delete),
    ] {
        let Some(op) = op else { continue };
        check_op(&format!("store.http.{name}"), op, faults);
    }
}

fn check_op(key: &str, op: &HttpOp, faults: &mut Vec<Fault>) {
    let HttpOp {
        method,
        url,
        value,
        keys,
        next,
        conflict_status,
        ..
    } = op;
    if let Some(method) = method
        && !METHODS.contains(&method.as_str())
    {
        faults.push(Fault::new(
            format!("{key}.method"),
            "is not a method that a store is asked with",
            format!("write one of: {}", METHODS.join(", ")),
        ));
    }
    if let Some(url) = url
        && !url.starts_with('/')
    {
        faults.push(Fault::new(
            format!("{key}.url"),
            "is not a path below base_url",
            "begin it with `/`",
        ));
    }
    let statuses = conflict_status.as_deref().unwrap_or_default();
    if statuses.iter().any(|status| !(400..500).contains(status)) {
        faults.push(Fault::new(
            format!("{key}.conflict_status"),
            "holds a status that says no conflict",
            "write statuses from 400 to 499",
        ));
    }
    pointers(key, [value, keys, next], faults);
}

fn pointers(key: &str, [value, keys, next]: [&Option<String>; 3], faults: &mut Vec<Fault>) {
    for (name, text) in [("value", value), ("keys", keys), ("next", next)] {
        pointer(&format!("{key}.{name}"), text.as_deref(), faults);
    }
}

const fn label(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::File => "file",
        StoreKind::Memory => "memory",
        StoreKind::Mcp => "mcp",
        StoreKind::Http => "http",
    }
}
