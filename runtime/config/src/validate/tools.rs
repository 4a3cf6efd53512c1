//! Checks of what the document says about our own tools and what stands behind them.

use super::{globs, known_server, pointer};
use crate::document::{Document, EXEC};
use crate::fault::Fault;
use crate::filter::ToolFilter;
use crate::shape::is_plain;

/// The contracts without an implementation of ours (contract/runtime.md section 5): a server's tool stands behind them.
const CONTRACTS: [&str; 6] = [
    "knowledge.search",
    "knowledge.get",
    "knowledge.list",
    "search.query",
    "search.fetch",
    "code.run",
];
/// More than there are servers is more than anybody wants.
const SOURCES: usize = 64;
/// Of `skills.reference_prefix`.
const PREFIX_CHARS: usize = 32;

/// What keeps a tool from standing behind `exec`, and what to do: each of the two gates by itself.
fn exec(is_built: bool, is_enabled: bool) -> Option<(&'static str, &'static str)> {
    match (is_built, is_enabled) {
        (true, true) => None,
        (true, false) => Some(("needs security.exec.enabled", "set it to true, or take this out")),
        (false, _) => Some(("needs a build with the feature `exec`", "take it out")),
    }
}

pub(super) fn check(document: &Document, faults: &mut Vec<Fault>) {
    let Document {
        agent,
        tools,
        knowledge,
        search,
        skills,
        ..
    } = document;
    for (key, list) in [
        ("agent.tools.internal", &agent.tools.internal),
        ("agent.tools.mcp", &agent.tools.mcp),
    ] {
        globs(key, list.as_deref().unwrap_or_default(), faults);
    }
    for name in &tools.disabled {
        if !is_plain(name) {
            faults.push(Fault::new(
                "tools.disabled",
                "holds what is not the name of a tool",
                "write names such as memory.set",
            ));
        }
    }
    for (name, mapped) in &tools.overrides {
        let key = crate::shape::join("tools.overrides", name);
        if name == EXEC {
            let exec = exec(cfg!(feature = "exec"), document.security.exec.enabled);
            faults.extend(exec.map(|(problem, remedy)| Fault::new(&key, problem, remedy)));
        } else if !CONTRACTS.contains(&name.as_str()) {
            let remedy = format!("use one of: {}", CONTRACTS.join(", "));
            faults.push(Fault::new(
                &key,
                "is not a tool that a server can stand behind",
                remedy,
            ));
        }
        if tools.disabled.contains(name) {
            faults.push(Fault::new(
                &key,
                "is in tools.disabled too",
                "keep one of the two",
            ));
        }
        known_server(&format!("{key}.server"), &mapped.server, document, faults);
        if mapped.tool.trim().is_empty() {
            faults.push(Fault::new(
                format!("{key}.tool"),
                "is empty",
                "write the tool's name at the server",
            ));
        }
        let server = document.mcp.servers.iter().find(|one| one.name == mapped.server);
        let is_kept_out = server
            .is_some_and(|server| ToolFilter::of(server).is_ok_and(|filter| !filter.admits(&mapped.tool)));
        if is_kept_out {
            faults.push(Fault::new(
                format!("{key}.tool"),
                "is kept out by the server's allow or exclude",
                "let it in there, or take the override out",
            ));
        }
        pointer(&format!("{key}.result"), mapped.result.as_deref(), faults);
    }
    for (key, mapped) in [("knowledge.server", knowledge), ("search.server", search)] {
        if let Some(server) = &mapped.server {
            known_server(key, server, document, faults);
        }
    }
    let is_prefix = |prefix: &str| {
        !prefix.is_empty() && prefix.chars().count() <= PREFIX_CHARS && !prefix.contains(char::is_whitespace)
    };
    if skills
        .reference_prefix
        .as_deref()
        .is_some_and(|prefix| !is_prefix(prefix))
    {
        faults.push(Fault::new(
            "skills.reference_prefix",
            "is empty, too long or holds white space",
            format!("write 1 to {PREFIX_CHARS} characters such as @skill:"),
        ));
    }
    if skills.sources.len() > SOURCES {
        faults.push(Fault::new(
            "skills.sources",
            format!("holds {} sources", skills.sources.len()),
            format!("keep at most {SOURCES}"),
        ));
    }
    for (index, source) in skills.sources.iter().enumerate() {
        let key = format!("skills.sources[{index}]");
        known_server(&format!("{key}.server"), &source.server, document, faults);
        if let Some(filter) = &source.filter {
            globs(&format!("{key}.filter"), std::slice::from_ref(filter), faults);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m3_exec_needs_the_build_and_the_switch() {
        assert_eq!(exec(true, true), None);
        for (is_built, is_enabled, named) in [
            (true, false, "security.exec.enabled"),
            (false, true, "feature `exec`"),
            (false, false, "feature `exec`"),
        ] {
            let (problem, _) = exec(is_built, is_enabled).unwrap();
            assert!(problem.contains(named), "{is_built} {is_enabled}: {problem}");
        }
    }

    #[test]
    fn m3_exec_stands_behind_nothing_unless_both_gates_are_open() {
        for enabled in [false, true] {
            let document: Document = serde_json::from_value(serde_json::json!({
                "mcp": { "servers": [{ "name": "box", "endpoint": "https://box.example/mcp", "tags": { "*": [] } }] },
                "tools": { "overrides": { "exec": { "server": "box", "tool": "run" } } },
                "security": { "exec": { "enabled": enabled } },
            }))
            .unwrap();
            let mut faults = Vec::new();
            check(&document, &mut faults);
            let is_open = cfg!(feature = "exec") && enabled;
            assert_eq!(faults.is_empty(), is_open, "{faults:?}");
            assert_eq!(document.may_exec(), is_open);
        }
    }
}
