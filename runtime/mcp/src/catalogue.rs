//! The tool catalogue: pure. From the tools of all servers to the names that people, filters and models see, and back.
//! The names depend on what the servers offer, never on the order in which they answered.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::digest;
use agentd_base::text::is_unseen;
use agentd_config::document::McpServer;
use agentd_config::filter::ToolFilter;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A name at a model provider (OpenAI, Anthropic and Gemini agree on this much).
const PROVIDER_CHARS: usize = 64;
/// A tool name longer than this is not taken: nobody could read it in a prompt or a filter.
const NAME_CHARS: usize = 256;

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
const FIRST_PARTY: [&str; 54] = [
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
const MARK: char = '~';

/// A tool as its server describes it; description and schema are untrusted text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The name at the server.
    pub name: String,
    /// For the model, cut.
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Map<String, Value>,
    /// JSON Schema of `structuredContent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    /// What the server claims about the tool, for audit: nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
    /// `sha256:…` over name, title, description, schemas and annotations.
    pub digest: String,
}

/// A tool that the agent may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name in logs, filters and prompts: `ns.tool`, the bare name, or `<server>.<tool>`.
    pub qualified: String,
    /// The name sent to the model: `^[a-zA-Z0-9_-]{1,64}$`.
    pub provider: String,
    /// The server's name in the document.
    pub server: String,
    /// What the server offers.
    pub tool: Tool,
}

/// All tools of an agent, by qualified name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalogue {
    entries: Vec<Entry>,
}

impl Catalogue {
    /// Applies allow and exclude, and names what is left.
    pub fn build<'a>(servers: impl IntoIterator<Item = (&'a McpServer, &'a [Tool])>) -> Self {
        let admitted: Vec<(&McpServer, &Tool)> = servers.into_iter().flat_map(admitted).collect();
        let qualified = qualify(&admitted);
        let provider = provider_names(qualified.iter());
        let mut entries: Vec<Entry> = admitted
            .into_iter()
            .zip(&qualified)
            .filter_map(|((server, tool), qualified)| {
                let provider = provider.get(qualified.as_str())?.clone();
                let (qualified, server, tool) = (qualified.clone(), server.name.clone(), tool.clone());
                Some(Entry {
                    qualified,
                    provider,
                    server,
                    tool,
                })
            })
            .collect();
        entries.sort_by(|one, other| one.qualified.cmp(&other.qualified));
        Self { entries }
    }

    /// By qualified name, sorted.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Finds what a model called.
    pub fn by_provider_name(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.provider == name)
    }

    /// Finds by qualified name.
    pub fn by_qualified_name(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.qualified == name)
    }

    /// Over names and tool digests; `None` when empty.
    pub fn digest(&self) -> Option<String> {
        if self.entries.is_empty() {
            return None;
        }
        let digests: BTreeMap<&str, &str> = self
            .entries
            .iter()
            .map(|entry| (entry.qualified.as_str(), entry.tool.digest.as_str()))
            .collect();
        Some(digest::of_files(&digests))
    }
}

/// A server's tools that its filter lets in: each name once, and only names that can be shown.
fn admitted<'a>((server, tools): (&'a McpServer, &'a [Tool])) -> Vec<(&'a McpServer, &'a Tool)> {
    // Validation refused a filter that is none; should one come here, it lets nothing in.
    let Ok(filter) = ToolFilter::new(server.allow.as_deref(), &server.exclude) else {
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let shown = |name: &str| {
        let plain = |c: char| !c.is_control() && !is_unseen(c);
        !name.is_empty() && name.chars().count() <= NAME_CHARS && name.chars().all(plain)
    };
    tools
        .iter()
        .filter(|tool| shown(&tool.name) && filter.admits(&tool.name) && seen.insert(tool.name.as_str()))
        .map(|tool| (server, tool))
        .collect()
}

/// The qualified names, in the order of the tools: `ns.tool` or the bare name; `<server>.<tool>` where that is one of
/// ours or stands for more than one; and that with a digest where even this is so.
fn qualify(tools: &[(&McpServer, &Tool)]) -> Vec<String> {
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
fn provider_names<'a>(qualified: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, String> {
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

fn fit(name: &str) -> String {
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

fn with_digest(name: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(name: &str, ns: Option<&str>) -> McpServer {
        McpServer {
            name: name.into(),
            ns: ns.map(Into::into),
            ..McpServer::default()
        }
    }

    fn tool(name: &str) -> Tool {
        Tool {
            name: name.into(),
            digest: digest::of(name.as_bytes()),
            ..Tool::default()
        }
    }

    fn tools(names: &[&str]) -> Vec<Tool> {
        names.iter().map(|name| tool(name)).collect()
    }

    fn build(servers: &[(McpServer, Vec<Tool>)]) -> Catalogue {
        Catalogue::build(servers.iter().map(|(server, tools)| (server, tools.as_slice())))
    }

    fn names(catalogue: &Catalogue) -> Vec<(&str, &str, &str)> {
        catalogue
            .entries()
            .iter()
            .map(|entry| {
                (
                    entry.qualified.as_str(),
                    entry.provider.as_str(),
                    entry.server.as_str(),
                )
            })
            .collect()
    }

    #[test]
    fn bare_then_namespace_then_server() {
        let catalogue = build(&[
            (server("fs", None), tools(&["read", "search", "search_nodes"])),
            (server("web", Some("w")), tools(&["fetch", "read"])),
            (server("docs", None), tools(&["search"])),
        ]);
        assert_eq!(
            names(&catalogue),
            [
                ("docs.search", "docs_search", "docs"),
                ("fs.search", "fs_search", "fs"),
                ("read", "read", "fs"),
                ("search_nodes", "search_nodes", "fs"),
                ("w.fetch", "w_fetch", "web"),
                ("w.read", "w_read", "web"),
            ]
        );
        assert_eq!(catalogue.by_provider_name("w_read").unwrap().tool.name, "read");
        assert_eq!(catalogue.by_qualified_name("fs.search").unwrap().server, "fs");
        assert!(catalogue.by_provider_name("write").is_none());
    }

    #[test]
    fn our_own_names_are_never_taken() {
        let catalogue = build(&[
            (
                server("memory", None),
                tools(&["get", "memory.get", "memory_get", "finish", "status"]),
            ),
            (server("x", Some("workflow")), tools(&["run"])),
        ]);
        let ours: BTreeSet<String> = FIRST_PARTY.iter().map(|name| fit(name)).collect();
        assert_eq!(catalogue.entries().len(), 6);
        for entry in catalogue.entries() {
            let qualified = entry.qualified.split(MARK).next().unwrap();
            assert!(
                !FIRST_PARTY.contains(&entry.qualified.as_str()),
                "{}",
                entry.qualified
            );
            assert!(!ours.contains(&entry.provider), "{}", entry.provider);
            assert!(
                qualified.len() == entry.qualified.len() || qualified.starts_with("memory."),
                "{qualified}"
            );
        }
        assert!(catalogue.by_qualified_name("get").is_some());
        assert!(catalogue.by_qualified_name("x.run").is_some());
    }

    #[test]
    fn allow_and_exclude_judge_the_servers_own_names() {
        let filtered = |allow: Option<&[&str]>, exclude: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let server = McpServer {
                allow: allow.map(owned),
                exclude: owned(exclude),
                ..server("fs", Some("f"))
            };
            let catalogue = build(&[(server, tools(&["read_a", "read_b", "write"]))]);
            catalogue
                .entries()
                .iter()
                .map(|entry| entry.tool.name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(filtered(None, &["read_b"]), ["read_a", "write"]);
        assert_eq!(filtered(Some(&["read_*"]), &["*_b"]), ["read_a"]);
        assert!(filtered(Some(&[]), &[]).is_empty());
        assert!(filtered(Some(&["f.read_a"]), &[]).is_empty());
        assert!(filtered(None, &["["]).is_empty());
    }

    #[test]
    fn the_digest_changes_with_any_definition_and_with_any_name() {
        let one = build(&[(server("fs", None), tools(&["read"]))]);
        let named = build(&[(server("fs", Some("f")), tools(&["read"]))]);
        let mut changed = tools(&["read"]);
        changed[0].digest = digest::of(b"other");
        let changed = build(&[(server("fs", None), changed)]);
        let all = BTreeSet::from([one.digest(), named.digest(), changed.digest()]);
        assert_eq!(all.len(), 3);
        assert_eq!(
            one.digest(),
            build(&[(server("fs", None), tools(&["read", "read"]))]).digest()
        );
        assert_eq!(Catalogue::default().digest(), None);
    }

    #[test]
    fn a_name_made_to_fit_anothers_digest_gets_one_itself() {
        let first = with_digest("a.b");
        let second = with_digest(&first);
        let catalogue = build(&[
            (server("good", None), tools(&["a.b", "a_b"])),
            (server("evil", None), tools(&[&first, &second])),
        ]);
        let providers: BTreeSet<_> = catalogue.entries().iter().map(|entry| &entry.provider).collect();
        assert_eq!(providers.len(), 4);
        assert_eq!(catalogue.by_qualified_name("a.b").unwrap().provider, first);
        assert_eq!(catalogue.by_provider_name(&first).unwrap().server, "good");
        assert_eq!(catalogue.by_provider_name("a_b").unwrap().server, "good");
    }

    proptest! {
        /// Whatever servers call their tools: fit for providers, one name for one tool, the same in any order.
        #[test]
        fn names_are_fit_unique_and_do_not_depend_on_order(
            first in proptest::collection::vec("[a-c._~ ä/]{0,4}|\\PC{0,80}|memory[._]get", 0..12),
            second in proptest::collection::vec("[a-c._~ ä/]{0,4}|\\PC{0,80}|memory[._]get", 0..12),
            ns in proptest::option::of("[a-c.]{1,3}"),
        ) {
            let list = |names: &[String]| names.iter().map(|name| tool(name)).collect::<Vec<_>>();
            let one = (server("a", ns.as_deref()), list(&first));
            let two = (server("a.b", None), list(&second));
            let catalogue = build(&[one.clone(), two.clone()]);
            let reversed = |(server, mut tools): (McpServer, Vec<Tool>)| { tools.reverse(); (server, tools) };
            prop_assert_eq!(&catalogue, &build(&[reversed(two), reversed(one)]));
            let mut providers = BTreeSet::new();
            let mut qualified = BTreeSet::new();
            for entry in catalogue.entries() {
                let fits = !entry.provider.is_empty()
                    && entry.provider.len() <= 64
                    && entry.provider.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
                prop_assert!(fits, "{:?}", entry.provider);
                prop_assert!(providers.insert(&entry.provider), "{:?}", entry.provider);
                prop_assert!(qualified.insert(&entry.qualified), "{:?}", entry.qualified);
                prop_assert_eq!(catalogue.by_provider_name(&entry.provider), Some(entry));
            }
            let shown = |name: &&String| !name.is_empty() && !name.chars().any(|c| c.is_control() || is_unseen(c));
            let expected: BTreeSet<_> = first.iter().filter(shown).map(|name| ("a", name))
                .chain(second.iter().filter(shown).map(|name| ("a.b", name))).collect();
            prop_assert_eq!(expected.len(), catalogue.entries().len());
        }
    }
}
