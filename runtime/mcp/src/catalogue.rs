//! The tool catalogue: pure. From the tools of all servers to the names that people, filters and models see, and back.
//! The names depend on what the servers offer, never on the order in which they answered.

mod names;

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::digest;
use agentd_base::text::is_unseen;
use agentd_config::document::McpServer;
use agentd_config::filter::ToolFilter;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::names::{provider_names, qualify};

/// A tool name longer than this is not taken: nobody could read it in a prompt or a filter.
const NAME_CHARS: usize = 256;

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
    let Ok(filter) = ToolFilter::of(server) else {
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

#[cfg(test)]
mod tests {
    use super::names::{FIRST_PARTY, MARK, fit, with_digest};
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
