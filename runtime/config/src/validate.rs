//! What a document must be beyond its shape. Pure. The operator runs the same checks over what it renders and shows the
//! same texts. Never shows a value that could be a credential.

mod bridge;
mod card;
mod connection;
mod listener;
mod spending;
mod store;
mod tools;

use std::collections::BTreeSet;

use agentd_base::limit::{INSTRUCTION_BYTES, SERVERS};

pub use bridge::validate_bridge;

use crate::document::{Auth, Document, Identity, Report};
use crate::endpoint::{self, Place, Purpose};
use crate::fault::Fault;
use crate::filter::{ToolFilter, ToolTags};
use crate::secret;
use crate::shape::is_plain;
use crate::spiffe;

/// A name of ours: long enough for `<namespace>.<name>`.
const NAME_BYTES: usize = 128;
/// A prefix of tool names; with the tool's own name it must still fit what models take.
const PREFIX_BYTES: usize = 46;

/// Every fault of the agent's document, in its order; empty when it can run.
pub fn validate(document: &Document, place: Place) -> Vec<Fault> {
    let mut faults = Vec::new();
    agent(document, &mut faults);
    intelligence(document, place, &mut faults);
    mcp(document, place, &mut faults);
    tools::check(document, &mut faults);
    listener::check(document, place, &mut faults);
    store::check(document, place, &mut faults);
    rest(document, place, &mut faults);
    trifecta(document, &mut faults);
    faults
}

/// What servers are declared to do must not meet in one agent, unless that is accepted.
fn trifecta(document: &Document, faults: &mut Vec<Fault>) {
    if document.security.allow_trifecta {
        return;
    }
    if let Some(found) = crate::trifecta::declared(document) {
        faults.push(Fault::new(
            crate::trifecta::KEY,
            found.to_string(),
            "keep one out by tools or tags, or set it to true",
        ));
    }
}

fn agent(document: &Document, faults: &mut Vec<Fault>) {
    let agent = &document.agent;
    if let Some(name) = &agent.name
        && (!is_plain(name) || name.len() > NAME_BYTES)
    {
        faults.push(Fault::new(
            "agent.name",
            "is not a name",
            format!("use at most {NAME_BYTES} letters, digits, `-`, `_`, `.`"),
        ));
    }
    text("agent.instruction", agent.instruction.as_deref(), faults);
    text("agent.prompt", agent.prompt.as_deref(), faults);
    if let Some(instruction) = &agent.instruction {
        let refers = ["{{secret:", "{{secret-file:"]
            .iter()
            .any(|start| instruction.contains(start));
        if refers && secret::instruction(instruction).is_none() {
            faults.push(Fault::new(
                "agent.instruction",
                "mixes text and a secret reference",
                "let the whole text be one reference, or write it out",
            ));
        }
    }
    if document.instruction_uri().is_some() && document.mcp.servers.is_empty() {
        faults.push(Fault::new(
            "agent.instruction",
            "is the URI of a resource, and there is no MCP server to read it from",
            "declare its server in mcp.servers, or write the instruction out",
        ));
    }
    match (&agent.prompt, &agent.instruction, document.is_service()) {
        (Some(_), _, true) => faults.push(Fault::new(
            "agent.prompt",
            "does not go together with a2a.listen",
            "take one out: an agent does one task or answers others",
        )),
        (None, None, false) => faults.push(Fault::new(
            "agent.prompt",
            "is missing, and so are agent.instruction and a2a.listen: there is nothing to do",
            "set one of them",
        )),
        _ => {}
    }
}

/// A text of a person: not empty, not too long.
fn text(key: &str, text: Option<&str>, faults: &mut Vec<Fault>) {
    let Some(text) = text else { return };
    if text.trim().is_empty() {
        faults.push(Fault::new(key, "is empty", "write it, or take the key out"));
    }
    if text.len() > INSTRUCTION_BYTES {
        faults.push(Fault::new(
            key,
            format!("has {} bytes", text.len()),
            format!("shorten it to {INSTRUCTION_BYTES}"),
        ));
    }
}

fn intelligence(document: &Document, place: Place, faults: &mut Vec<Fault>) {
    let intelligence = &document.intelligence;
    if intelligence.endpoints.is_empty() {
        faults.push(Fault::new(
            "intelligence.endpoints",
            "is missing: there is no model to think with",
            "name at least one, such as https://gw.example/v1",
        ));
    }
    match &intelligence.model {
        None => faults.push(Fault::new(
            "intelligence.model",
            "is missing: there is no default model",
            "set it to a name that the endpoint knows",
        )),
        Some(model) if model.trim().is_empty() => faults.push(Fault::new(
            "intelligence.model",
            "is empty",
            "set it to a name that the endpoint knows",
        )),
        Some(_) => {}
    }
    let mut names = BTreeSet::new();
    for (index, model) in intelligence.endpoints.iter().enumerate() {
        let key = entry("intelligence.endpoints", model.name.as_deref(), index);
        if let Some(name) = &model.name {
            named(&key, name, &mut names, faults);
        }
        let purpose = Purpose::Model {
            allow_plaintext: model.allow_plaintext,
        };
        let url = address(&format!("{key}.url"), &model.url, purpose, place, faults);
        if let Some(Auth::OAuth2(_)) = &model.connection.auth {
            faults.push(Fault::new(
                format!("{key}.auth.oauth2"),
                "is for MCP servers only: no model endpoint is dialled with it yet",
                "use auth.static",
            ));
        }
        connection::check(&key, &model.connection, url.as_ref(), place, document, faults);
    }
    if let Some(budget) = &intelligence.budget {
        spending::check(budget, faults);
    }
}

fn mcp(document: &Document, place: Place, faults: &mut Vec<Fault>) {
    connection::positive("mcp.default_timeout", document.mcp.default_timeout, faults);
    if document.mcp.servers.len() > SERVERS {
        faults.push(Fault::new(
            "mcp.servers",
            format!("holds {} servers", document.mcp.servers.len()),
            format!("keep at most {SERVERS}"),
        ));
    }
    let mut names = BTreeSet::new();
    for (index, server) in document.mcp.servers.iter().enumerate() {
        let key = entry("mcp.servers", Some(&server.name), index);
        named(&key, &server.name, &mut names, faults);
        let url = address(
            &format!("{key}.endpoint"),
            &server.endpoint,
            Purpose::Mcp,
            place,
            faults,
        );
        if let Some(ns) = &server.ns
            && (!is_plain(ns) || ns.contains('.') || ns.len() > PREFIX_BYTES)
        {
            faults.push(Fault::new(
                format!("{key}.ns"),
                "is not a prefix",
                format!("use at most {PREFIX_BYTES} letters, digits, `-`, `_`"),
            ));
        }
        for (list, globs) in [
            ("allow", server.allow.as_deref().unwrap_or_default()),
            ("exclude", &server.exclude),
        ] {
            self::globs(&format!("{key}.{list}"), globs, faults);
        }
        if let Err(error) = ToolTags::new(&server.tags) {
            faults.push(Fault::new(
                format!("{key}.tags"),
                error.to_string(),
                "write a name, or a pattern such as read_*",
            ));
        }
        connection::positive(&format!("{key}.call_timeout"), server.call_timeout, faults);
        connection::check(&key, &server.connection, url.as_ref(), place, document, faults);
    }
}

fn rest(document: &Document, place: Place, faults: &mut Vec<Fault>) {
    if document.lifecycle.watch_config && !document.is_service() {
        faults.push(Fault::new(
            "lifecycle.watch_config",
            "has no effect on a task that is done once: it keeps the configuration that it began with",
            "take it out, or set a2a.listen",
        ));
    }
    if let Some(otel) = &document.observability.otel {
        let purpose = Purpose::Model {
            allow_plaintext: true,
        };
        address(
            "observability.otel.endpoint",
            &otel.endpoint,
            purpose,
            place,
            faults,
        );
    }
    connection::positive("limits.run.deadline", document.limits.run.deadline, faults);
    connection::positive(
        "lifecycle.drain_timeout",
        document.lifecycle.drain_timeout,
        faults,
    );
    if let Some(own) = &document.identity {
        identity(own, faults);
    }
    if let Some(report) = &document.report {
        check_report(report, document.identity.as_ref(), faults);
    }
}

/// `identity`, the same for agents and bridges.
fn identity(identity: &Identity, faults: &mut Vec<Fault>) {
    if !spiffe::is_trust_domain(&identity.trust_domain) {
        faults.push(Fault::new(
            "identity.trust_domain",
            "is not a trust domain",
            "use lower-case letters, digits, `.`, `-`, `_`",
        ));
    }
    spiffe_id("identity.spiffe_id", &identity.spiffe_id, Some(identity), faults);
    spiffe_id("identity.issuer_id", &identity.issuer_id, Some(identity), faults);
    address(
        "identity.issuer_url",
        &identity.issuer_url,
        Purpose::Internal,
        Place::Machine,
        faults,
    );
}

/// `report`, the same for agents and bridges.
fn check_report(report: &Report, identity: Option<&Identity>, faults: &mut Vec<Fault>) {
    address(
        "report.url",
        &report.url,
        Purpose::Internal,
        Place::Machine,
        faults,
    );
    if identity.is_none() {
        faults.push(Fault::new(
            "report",
            "needs identity: reports go over mutual TLS",
            "set identity, or take report out",
        ));
    }
    spiffe_id("report.server_id", &report.server_id, identity, faults);
}

/// A SPIFFE ID of our own trust domain: no other can be verified.
fn spiffe_id(key: &str, id: &str, identity: Option<&Identity>, faults: &mut Vec<Fault>) {
    match (spiffe::trust_domain_of(id), identity) {
        (None, _) => faults.push(Fault::new(
            key,
            "is not a SPIFFE ID",
            "write spiffe://<trust domain>/ns/<namespace>/sa/<service account>",
        )),
        (Some(domain), Some(own)) if domain != own.trust_domain => faults.push(Fault::new(
            key,
            "is of another trust domain, which this installation does not know",
            format!("use an ID of {}", agentd_base::text::clip(&own.trust_domain, 80)),
        )),
        _ => {}
    }
}

fn address(
    key: &str,
    text: &str,
    purpose: Purpose,
    place: Place,
    faults: &mut Vec<Fault>,
) -> Option<url::Url> {
    match endpoint::check(text, purpose, place) {
        Ok(url) => Some(url),
        Err(refused) => {
            faults.push(Fault::new(key, refused.problem, refused.remedy));
            None
        }
    }
}

/// A name of `mcp.servers`.
fn known_server(key: &str, name: &str, document: &Document, faults: &mut Vec<Fault>) {
    if !document.mcp.servers.iter().any(|server| server.name == name) {
        faults.push(Fault::new(
            key,
            "names no server of mcp.servers",
            "name one of them, or add it there",
        ));
    }
}

/// A JSON pointer (RFC 6901) into a result.
fn pointer(key: &str, text: Option<&str>, faults: &mut Vec<Fault>) {
    let Some(text) = text else { return };
    let escapes = text.match_indices('~').all(|(at, _)| {
        let next = text.get(at + 1..).unwrap_or_default();
        next.starts_with(['0', '1'])
    });
    if !escapes || !(text.is_empty() || text.starts_with('/')) {
        faults.push(Fault::new(
            key,
            "is not a JSON pointer",
            "write such as /result/value, or the empty text for the whole",
        ));
    }
}

/// Globs over names of tools.
fn globs(key: &str, patterns: &[String], faults: &mut Vec<Fault>) {
    if let Err(error) = ToolFilter::new(Some(patterns), &[]) {
        faults.push(Fault::new(
            key,
            error.to_string(),
            "write a name, or a pattern such as read_*",
        ));
    }
}

/// A name that is not empty, plain, and new.
fn named<'a>(key: &str, name: &'a str, names: &mut BTreeSet<&'a str>, faults: &mut Vec<Fault>) {
    let key = format!("{key}.name");
    if name.is_empty() {
        faults.push(Fault::new(key, "is empty", "give it a name"));
    } else if !is_plain(name) || name.len() > NAME_BYTES {
        faults.push(Fault::new(
            key,
            "is not a name",
            format!("use at most {NAME_BYTES} letters, digits, `-`, `_`, `.`"),
        ));
    } else if !names.insert(name) {
        faults.push(Fault::new(key, "is used twice", "give each its own name"));
    }
}

/// `list[name]`, or `list[index]` where the name cannot stand there.
fn entry(list: &str, name: Option<&str>, index: usize) -> String {
    match name.filter(|name| is_plain(name)) {
        Some(name) => format!("{list}[{name}]"),
        None => format!("{list}[{index}]"),
    }
}
