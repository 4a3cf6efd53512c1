//! What a subagent gets. Pure. It is minted from what its caller holds at this moment, by name: an unknown name, and one
//! that the caller does not hold, is an error before anything starts.

use std::collections::{BTreeMap, BTreeSet};

use agentd_agent::grants::READ;
use agentd_agent::request::SubagentRun;
use agentd_agent::skills::LOAD;
use agentd_agent::{Held, Holder, grants};
use agentd_base::text::clip;
use agentd_config::Document;
use agentd_config::filter::ToolFilter;
use agentd_mcp::{Catalogue, Entry};

use crate::supervisor::office::Behind;

/// A name that a model wrote, in an error.
const SHOWN_CHARS: usize = 100;

/// Who gives, and of what.
pub(super) struct Giver<'a> {
    pub(super) holder: Holder,
    pub(super) held: &'a Held,
    pub(super) document: &'a Document,
    pub(super) catalogue: &'a Catalogue,
    /// What stands behind the contracts without an implementation of ours.
    pub(super) contracts: &'a BTreeMap<String, Behind>,
}

impl Giver<'_> {
    /// The capabilities of a subagent that is asked for so.
    pub(super) fn mint(&self, asked: &SubagentRun) -> Result<Held, String> {
        let chosen = self.servers(asked.servers.as_deref())?;
        let gives = |tool: &str| self.gives(tool, &chosen);
        if !asked.skills.is_empty() && !gives(LOAD) {
            return Err(format!(
                "no skills can be given to a subagent here, since {LOAD} cannot"
            ));
        }
        let held = |entry: &&Entry| self.held.has_tool(&entry.server, &entry.tool.name);
        let mut servers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut internal = BTreeSet::new();
        let Some(tools) = &asked.tools else {
            for name in &chosen {
                servers.insert((*name).to_owned(), BTreeSet::new());
            }
            for entry in self.catalogue.entries().iter().filter(held) {
                if let Some(tools) = servers.get_mut(&entry.server) {
                    tools.insert(entry.tool.name.clone());
                }
            }
            internal.extend(grants::common().filter(|tool| gives(tool)).map(str::to_owned));
            return Ok(Held::Minted { servers, internal });
        };
        if asked.servers.is_some() {
            for name in &chosen {
                servers.insert((*name).to_owned(), BTreeSet::new());
            }
        }
        // Whoever is given a skill may load it, and has the server that it is of, if nothing else of it.
        for name in &asked.skill_servers {
            if chosen.contains(name.as_str()) {
                servers.entry(name.clone()).or_default();
            }
        }
        internal.extend((!asked.skills.is_empty()).then(|| LOAD.to_owned()));
        for name in tools {
            let dotted = dotted(name);
            if let Some(ours) = dotted.filter(|ours| grants::is_ours(ours)) {
                if !gives(&ours) {
                    return Err(format!("{ours} cannot be given to a subagent here"));
                }
                internal.insert(ours);
                continue;
            }
            let entry = self.catalogue.by_qualified_name(name);
            let entry = entry
                .or_else(|| self.catalogue.by_provider_name(name))
                .filter(held);
            let Some(entry) = entry.filter(|entry| chosen.contains(entry.server.as_str())) else {
                let name = clip(name, SHOWN_CHARS);
                return Err(format!(
                    "there is no tool {name} that you could give; name those that you have yourself"
                ));
            };
            let tools = servers.entry(entry.server.clone()).or_default();
            tools.insert(entry.tool.name.clone());
        }
        Ok(Held::Minted { servers, internal })
    }

    /// The tools of servers that are behind what is held, as (server, tool): its own, those behind contracts, and the
    /// reading of resources.
    pub(super) fn tools(&self, held: &Held) -> Vec<(String, String)> {
        let Held::Minted { servers, internal } = held else {
            let all = self.catalogue.entries().iter();
            return all
                .map(|entry| (entry.server.clone(), entry.tool.name.clone()))
                .collect();
        };
        let each = servers.iter();
        let own = each.flat_map(|(server, tools)| tools.iter().map(|tool| (server.clone(), tool.clone())));
        let behind = internal.iter().filter_map(|name| self.contracts.get(name));
        let behind = behind.map(|behind| (behind.server.clone(), behind.tool.clone()));
        let reads = servers.keys().filter(|_| internal.contains(READ));
        let reads = reads.map(|server| (server.clone(), READ.to_owned()));
        own.chain(behind).chain(reads).collect()
    }

    /// Whether the caller may have this tool of ours and a subagent may. One that a server stands behind is that server's.
    fn gives(&self, tool: &str, chosen: &BTreeSet<&str>) -> bool {
        if grants::is_contract(tool) {
            let behind = self.contracts.get(tool);
            if !behind.is_some_and(|behind| chosen.contains(behind.server.as_str())) {
                return false;
            }
        }
        let named = Held::Minted {
            servers: BTreeMap::new(),
            internal: BTreeSet::from([tool.to_owned()]),
        };
        !self.document.tools.disabled.iter().any(|name| name == tool)
            && grants::may(self.holder, self.held, tool)
            && grants::may(Holder::Subagent, &named, tool)
    }

    /// The servers that a subagent may get tools of.
    fn servers(&self, asked: Option<&[String]>) -> Result<BTreeSet<&str>, String> {
        let all = self
            .document
            .mcp
            .servers
            .iter()
            .map(|server| server.name.as_str());
        let all: BTreeSet<&str> = all.filter(|name| self.held.has_server(name)).collect();
        let Some(asked) = asked else {
            return Ok(all);
        };
        let mut chosen = BTreeSet::new();
        for name in asked {
            let Some(known) = all.get(name.as_str()) else {
                let name = clip(name, SHOWN_CHARS);
                let all: Vec<&str> = all.into_iter().collect();
                return Err(format!(
                    "there is no server {name} that you could give; there are: {}",
                    all.join(", ")
                ));
            };
            chosen.insert(*known);
        }
        Ok(chosen)
    }
}

/// A name of ours as the contract writes it, from that or from the form that models are given.
fn dotted(name: &str) -> Option<String> {
    if grants::is_ours(name) {
        return Some(name.to_owned());
    }
    let (family, rest) = name.split_once('_')?;
    Some(format!("{family}.{rest}"))
}

/// The document of a worker that runs a subagent: of the servers those that it was given, with the tools that it was given.
pub fn narrowed(document: &Document, held: &Held) -> Document {
    let mut document = document.clone();
    let Held::Minted { servers, .. } = held else {
        return document;
    };
    document
        .mcp
        .servers
        .retain(|server| servers.contains_key(&server.name));
    for server in &mut document.mcp.servers {
        let named = servers.get(&server.name).into_iter().flatten();
        // A name that reads as a pattern would let in others; what it was not given its router refuses in any case.
        let plain = |name: &String| !name.contains(['*', '?', '[', ']', '{', '}', '!', '\\']);
        if !named.clone().all(plain) {
            continue;
        }
        // What the document lets in may be less by now than what was given.
        let filter = ToolFilter::of(server);
        let admitted = |name: &&String| filter.as_ref().is_ok_and(|filter| filter.admits(name));
        server.allow = Some(named.filter(admitted).cloned().collect());
    }
    document
}

#[cfg(test)]
mod tests {
    use agentd_config::document::McpServer;
    use agentd_mcp::Tool;
    use serde_json::{Value, json};

    use super::*;

    fn document() -> Document {
        serde_json::from_value(json!({
            "mcp": {"servers": [
                {"name": "fs", "endpoint": "https://fs.example/mcp", "ns": "f"},
                {"name": "db", "endpoint": "https://db.example/mcp"},
                {"name": "off", "endpoint": "https://off.example/mcp"},
            ]},
        }))
        .unwrap()
    }

    fn catalogue(document: &Document) -> Catalogue {
        let tool = |name: &str| Tool {
            name: name.into(),
            ..Tool::default()
        };
        let tools = [vec![tool("read"), tool("write")], vec![tool("query")]];
        let servers: Vec<(&McpServer, &[Tool])> = document
            .mcp
            .servers
            .iter()
            .zip(&tools)
            .map(|(server, tools)| (server, tools.as_slice()))
            .collect();
        Catalogue::build(servers)
    }

    fn minted(holder: Holder, held: &Held, asked: Value) -> Result<Value, String> {
        let mut document = document();
        document.tools.disabled = vec!["memory.set".into()];
        let catalogue = catalogue(&document);
        let giver = Giver {
            holder,
            held,
            document: &document,
            catalogue: &catalogue,
            contracts: &BTreeMap::new(),
        };
        let mut asked = asked;
        asked["instruction"] = "go".into();
        let held = giver.mint(&serde_json::from_value(asked).unwrap())?;
        let Held::Minted { servers, internal } = held else {
            panic!("everything")
        };
        let common = grants::common()
            .filter(|tool| *tool != "memory.set" && !grants::is_contract(tool))
            .collect::<BTreeSet<_>>();
        let is_common = internal.iter().map(String::as_str).collect::<BTreeSet<_>>() == common;
        Ok(json!([
            servers,
            if is_common {
                json!("common")
            } else {
                json!(internal)
            }
        ]))
    }

    #[test]
    fn a_subagent_gets_what_is_named_of_what_its_caller_has() {
        let root = |asked: Value| minted(Holder::Root, &Held::All, asked).unwrap();
        for (asked, got) in [
            (
                json!({}),
                json!([{"db": ["query"], "fs": ["read", "write"], "off": []}, "common"]),
            ),
            (
                json!({"servers": ["fs"]}),
                json!([{"fs": ["read", "write"]}, "common"]),
            ),
            (json!({"servers": []}), json!([{}, "common"])),
            (json!({"tools": []}), json!([{}, []])),
            (json!({"tools": ["f.read"]}), json!([{"fs": ["read"]}, []])),
            (
                json!({"tools": ["f_read", "query"]}),
                json!([{"db": ["query"], "fs": ["read"]}, []]),
            ),
            (
                json!({"tools": ["query"], "servers": ["db", "off"]}),
                json!([{"db": ["query"], "off": []}, []]),
            ),
            (
                json!({"tools": ["query"], "skills": ["brief"], "skill_servers": ["off", "nowhere"]}),
                json!([{"db": ["query"], "off": []}, ["skills.load"]]),
            ),
            (
                json!({"tools": ["memory_get", "subagent.run", "context.compact"]}),
                json!([{}, ["context.compact", "memory.get", "subagent.run"]]),
            ),
        ] {
            assert_eq!(root(asked.clone()), got, "{asked}");
        }
    }

    #[test]
    fn what_is_unknown_or_not_held_is_an_error_before_anything_starts() {
        let narrow = Held::Minted {
            servers: [("fs".to_owned(), ["read".to_owned()].into())].into(),
            internal: ["subagent.run".to_owned(), "memory.get".to_owned()].into(),
        };
        for (holder, held, asked) in [
            (Holder::Root, &Held::All, json!({"tools": ["f.reed"]})),
            (Holder::Root, &Held::All, json!({"tools": ["read"]})),
            (Holder::Root, &Held::All, json!({"servers": ["fz"]})),
            (
                Holder::Root,
                &Held::All,
                json!({"servers": ["db"], "tools": ["f.read"]}),
            ),
            (Holder::Root, &Held::All, json!({"tools": ["memory.set"]})),
            (Holder::Root, &Held::All, json!({"tools": ["workflow.create"]})),
            (Holder::Root, &Held::All, json!({"tools": ["budget.reserve"]})),
            (Holder::Subagent, &narrow, json!({"tools": ["f.write"]})),
            (Holder::Subagent, &narrow, json!({"tools": ["query"]})),
            (Holder::Subagent, &narrow, json!({"tools": ["memory.list"]})),
            (Holder::Subagent, &narrow, json!({"servers": ["db"]})),
            (Holder::Subagent, &narrow, json!({"skills": ["brief"]})),
        ] {
            assert!(minted(holder, held, asked.clone()).is_err(), "{asked}");
        }
        let got = minted(Holder::Subagent, &narrow, json!({})).unwrap();
        assert_eq!(
            got,
            json!([{"fs": ["read"]}, ["memory.get"]]),
            "never more than its caller"
        );
    }

    #[test]
    fn the_worker_of_a_subagent_is_told_of_no_other_server_and_no_other_tool() {
        let held = Held::Minted {
            servers: [
                ("fs".to_owned(), ["read".to_owned()].into()),
                ("db".to_owned(), BTreeSet::new()),
            ]
            .into(),
            internal: BTreeSet::new(),
        };
        let narrow = narrowed(&document(), &held);
        let told: Vec<_> = narrow
            .mcp
            .servers
            .iter()
            .map(|server| (server.name.as_str(), server.allow.clone()))
            .collect();
        assert_eq!(
            told,
            [("fs", Some(vec!["read".to_owned()])), ("db", Some(vec![]))]
        );
        assert_eq!(narrowed(&document(), &Held::All), document());
    }

    #[test]
    fn m24_what_a_reload_takes_out_of_a_server_s_filter_a_living_subagent_has_no_more() {
        let held = Held::Minted {
            servers: [("fs".to_owned(), ["read", "write"].map(str::to_owned).into())].into(),
            internal: BTreeSet::new(),
        };
        let allowed = |allow: Option<&[&str]>, exclude: &[&str]| {
            let mut document = document();
            let server = &mut document.mcp.servers[0];
            server.allow = allow.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            server.exclude = exclude.iter().map(|name| (*name).to_owned()).collect();
            let narrow = narrowed(&document, &held);
            narrow.mcp.servers[0].allow.clone().unwrap()
        };
        assert_eq!(allowed(None, &[]), ["read", "write"]);
        assert_eq!(allowed(Some(&["read", "other"]), &[]), ["read"]);
        assert_eq!(allowed(Some(&["*"]), &["w*"]), ["read"]);
        assert_eq!(allowed(Some(&[]), &[]), Vec::<String>::new());
    }
}
