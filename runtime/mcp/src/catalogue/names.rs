//! The names of tools, for people and for model providers: fit, unique, reversible, and none of ours. Pure.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::digest;
use agentd_config::document::McpServer;

use super::Tool;

/// A name at a model provider (OpenAI, Anthropic and Gemini agree on this much).
const PROVIDER_CHARS: usize = 64;
/// Families of our own tools (contract/mcp.md 1.1): nothing of a server is ever called so.
const FIRST_PARTY_FAMILIES: [&str; 10] = [
    "artifact.",
    "context.",
    "instruction.",
    "knowledge.",
    "memory.",
    "plan.",
    "search.",
    "skills.",
    "subagent.",
    "workflow.",
];
/// Our own tools by name (contract/runtime.md section 5).
#[rustfmt::skip]
pub(super) const FIRST_PARTY: [&str; 54] = [
    "artifact.create", "artifact.delete", "artifact.get", "artifact.list", "ask_human", "await", "code.run",
    "context.compact", "exec", "finish", "instruction.read", "instruction.subscribe", "knowledge.get",
    "knowledge.list", "knowledge.search", "memory.delete", "memory.get", "memory.list", "memory.pop", "memory.push",
    "memory.set", "memory.shift", "message.send", "plan.clear", "plan.create", "plan.get", "plan.update",
    "resource.read", "search.fetch", "search.query", "skills.list", "skills.load", "skills.unload", "sleep", "status",
    "subagent.await", "subagent.kill", "subagent.list", "subagent.retire", "subagent.run", "subagent.send",
    "subagent.status", "think", "workflow.cancel", "workflow.create", "workflow.delete", "workflow.list",
    "workflow.pause", "workflow.resume", "workflow.run", "workflow.signal", "workflow.status", "workflow.update",
    "workflow.wait",
];
/// Stands before a digest in a qualified name, and nowhere else.
pub(super) const MARK: char = '~';

/// The qualified names, in the order of the tools: `ns.tool` or the bare name; `<server>.<tool>` where that is one of
/// ours or stands for more than one; and that with a digest where even this is so.
pub(super) fn qualify(tools: &[(&McpServer, &Tool)]) -> Vec<String> {
    let short = |(server, tool): &(&McpServer, &Tool)| match &server.ns {
        Some(ns) => format!("{ns}.{}", tool.name),
        None => tool.name.clone(),
    };
    let long = |(server, tool): &(&McpServer, &Tool)| format!("{}.{}", server.name, tool.name);
    let exact = |(server, tool): &(&McpServer, &Tool)| {
        format!(
            "{}.{}{MARK}{}",
            server.name,
            tool.name,
            fingerprint(&[("server", &server.name), ("tool", &tool.name)])
        )
    };
    let names: Vec<String> = tools.iter().map(short).collect();
    let names = renamed(tools, names, long);
    renamed(tools, names, exact)
}

/// The same names, those that cannot stand replaced.
fn renamed<T>(tools: &[T], names: Vec<String>, other: impl Fn(&T) -> String) -> Vec<String> {
    let counts = counts(names.iter().cloned());
    let stands = |name: &str| {
        let first_party =
            FIRST_PARTY.contains(&name) || FIRST_PARTY_FAMILIES.iter().any(|family| name.starts_with(family));
        !first_party && !name.contains(MARK) && counts.get(name) == Some(&1)
    };
    tools
        .iter()
        .zip(names)
        .map(|(tool, name)| if stands(&name) { name } else { other(tool) })
        .collect()
}

fn counts(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    names.fold(BTreeMap::new(), |mut counts, name| {
        *counts.entry(name).or_default() += 1;
        counts
    })
}

/// A provider name for each qualified name. One that is fit as it is keeps it; the others are made fit, and where that
/// is too long, ambiguous or one of ours they end in a digest of the qualified name.
pub(super) fn provider_names<'a>(qualified: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, String> {
    let names: BTreeSet<&str> = qualified.map(String::as_str).collect();
    let counts = counts(names.iter().map(|name| fit(name)));
    let ours: BTreeSet<String> = FIRST_PARTY.iter().map(|name| fit(name)).collect();
    let stands = |name: &str| {
        let plain = fit(name);
        plain.len() <= PROVIDER_CHARS
            && !ours.contains(&plain)
            && (plain == name || counts.get(&plain) == Some(&1))
    };
    let mut digested: BTreeSet<&str> = names.iter().copied().filter(|name| !stands(name)).collect();
    // A server may name a tool as the digested name of another: then that one is digested too, and so on.
    loop {
        let taken: BTreeSet<String> = digested.iter().map(|name| with_digest(name)).collect();
        let before = digested.len();
        digested.extend(names.iter().copied().filter(|name| taken.contains(&fit(name))));
        if digested.len() == before {
            break;
        }
    }
    let provider = |name: &str| {
        if digested.contains(name) {
            with_digest(name)
        } else {
            fit(name)
        }
    };
    names.into_iter().map(|name| (name, provider(name))).collect()
}

pub(super) fn fit(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
                c
            } else {
                '_'
            }
        })
        .collect()
}

pub(super) fn with_digest(name: &str) -> String {
    let digest = fingerprint(&[("name", name)]);
    let room = PROVIDER_CHARS.saturating_sub(digest.len() + 1);
    let head: String = fit(name).chars().take(room).collect();
    format!("{head}_{digest}")
}

/// 16 hex digits: too many for a name that is made to fit another's.
fn fingerprint(parts: &[(&str, &str)]) -> String {
    let parts: BTreeMap<&str, &str> = parts.iter().copied().collect();
    digest::of_files(&parts)
        .chars()
        .skip("sha256:".len())
        .take(16)
        .collect()
}
