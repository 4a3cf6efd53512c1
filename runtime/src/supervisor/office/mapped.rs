//! Contracts without an implementation of ours: which server's tool stands behind each, and how a call is written for it
//! and its result read. Pure.

use std::collections::BTreeMap;

use agentd_config::Document;
use agentd_config::filter::ToolFilter;
use agentd_mcp::ServersView;
use serde_json::{Map, Value};

/// The contracts of `knowledge.server` and `search.server`.
const KNOWLEDGE: [&str; 3] = ["knowledge.get", "knowledge.list", "knowledge.search"];
const SEARCH: [&str; 2] = ["search.fetch", "search.query"];

/// What stands behind a contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Behind {
    /// The server's name in the document.
    pub server: String,
    /// The tool's name at the server.
    pub tool: String,
    /// The template of its arguments.
    args: Option<Value>,
    /// Where its result is.
    result: Option<String>,
}

/// The contracts that have something behind them now, by name. A server that is to offer tools of the contract's names
/// stands behind those that it offers.
pub fn contracts(document: &Document, view: &ServersView) -> BTreeMap<String, Behind> {
    let mut all = BTreeMap::new();
    for (mapped, names) in [
        (&document.knowledge, &KNOWLEDGE[..]),
        (&document.search, &SEARCH[..]),
    ] {
        let Some(server) = &mapped.server else {
            continue;
        };
        let offered = view.servers.iter().find(|one| one.server.name == *server);
        for name in names {
            let spellings = [(*name).to_owned(), name.replace('.', "_")];
            let tools = offered.iter().flat_map(|one| &one.tools);
            let tool = tools.map(|tool| &tool.name).find(|tool| spellings.contains(tool));
            if let Some(tool) = tool {
                let behind = Behind {
                    server: server.clone(),
                    tool: tool.clone(),
                    args: None,
                    result: None,
                };
                all.insert((*name).to_owned(), behind);
            }
        }
    }
    for (name, mapped) in &document.tools.overrides {
        let behind = Behind {
            server: mapped.server.clone(),
            tool: mapped.tool.clone(),
            args: mapped.args.clone(),
            result: mapped.result.clone(),
        };
        all.insert(name.clone(), behind);
    }
    all.retain(|name, behind| !document.tools.disabled.contains(name) && is_let_in(document, behind));
    all
}

/// Whether the server's filter lets the tool in that stands behind a contract: one that it keeps out is kept out under
/// every name.
fn is_let_in(document: &Document, behind: &Behind) -> bool {
    let server = document.mcp.servers.iter().find(|one| one.name == behind.server);
    server.is_some_and(|server| ToolFilter::of(server).is_ok_and(|filter| filter.admits(&behind.tool)))
}

impl Behind {
    /// The arguments that the tool is given.
    ///
    /// # Errors
    /// When the template makes no object of them.
    pub fn arguments(&self, given: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let Some(template) = &self.args else {
            return Ok(given);
        };
        match filled(template, &given) {
            Some(Value::Object(arguments)) => Ok(arguments),
            _ => Err("tools.overrides makes no object of these arguments".to_owned()),
        }
    }

    /// The contract's result in what the tool gave.
    ///
    /// # Errors
    /// When it is not where it should be.
    pub fn result(&self, mut given: Value) -> Result<Value, String> {
        let Some(pointer) = &self.result else {
            return Ok(given);
        };
        let found = given.pointer_mut(pointer).map(Value::take);
        found.ok_or_else(|| {
            format!(
                "the result of {} at {} has nothing at {pointer}",
                self.tool, self.server
            )
        })
    }
}

/// The template with the arguments in it; what names one that was not given is left out.
fn filled(template: &Value, given: &Map<String, Value>) -> Option<Value> {
    match template {
        Value::String(text) => {
            let name = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
            match name {
                Some(name) => given.get(name.trim()).cloned(),
                None => Some(template.clone()),
            }
        }
        Value::Array(items) => Some(items.iter().filter_map(|item| filled(item, given)).collect()),
        Value::Object(members) => {
            let members = members.iter();
            let filled = members.filter_map(|(key, value)| Some((key.clone(), filled(value, given)?)));
            Some(Value::Object(filled.collect()))
        }
        _ => Some(template.clone()),
    }
}

#[cfg(test)]
mod tests {
    use agentd_mcp::{ServerView, Tool};
    use serde_json::json;

    use super::*;

    fn mapped(more: Value) -> BTreeMap<String, Behind> {
        let mut document =
            json!({ "mcp": { "servers": [{ "name": "kb", "endpoint": "https://kb.example/mcp" }] } });
        document
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let document: Document = serde_json::from_value(document).unwrap();
        let mut server = ServerView::new(document.mcp.servers[0].clone());
        server.tools = ["knowledge_search", "search.query", "other"]
            .map(|name| Tool {
                name: name.into(),
                ..Tool::default()
            })
            .to_vec();
        let view = ServersView {
            servers: vec![server],
            ..ServersView::default()
        };
        contracts(&document, &view)
    }

    #[test]
    fn m3_a_contract_is_there_when_a_server_stands_behind_it() {
        let names = |more| mapped(more).into_keys().collect::<Vec<_>>();
        assert!(names(json!({})).is_empty());
        assert_eq!(
            names(json!({"knowledge": {"server": "kb"}})),
            ["knowledge.search"]
        );
        assert_eq!(
            names(json!({"search": {"server": "kb"}, "tools": {"disabled": ["search.query"]}})),
            Vec::<String>::new()
        );
        let both = json!({"search": {"server": "kb"}, "tools": {"overrides": {"code.run": {"server": "kb", "tool": "other"}}}});
        assert_eq!(names(both), ["code.run", "search.query"]);
    }

    #[test]
    fn m3_what_a_server_s_filter_keeps_out_stands_behind_no_contract() {
        let names = |filter: Value| {
            let mut server = json!({"name": "kb", "endpoint": "https://kb.example/mcp"});
            server
                .as_object_mut()
                .unwrap()
                .extend(filter.as_object().unwrap().clone());
            mapped(json!({
                "mcp": {"servers": [server]},
                "knowledge": {"server": "kb"},
                "tools": {"overrides": {"code.run": {"server": "kb", "tool": "other"}}},
            }))
            .into_keys()
            .collect::<Vec<_>>()
        };
        assert_eq!(names(json!({})), ["code.run", "knowledge.search"]);
        assert_eq!(names(json!({"allow": ["other"]})), ["code.run"]);
        assert_eq!(names(json!({"exclude": ["o*"]})), ["knowledge.search"]);
        assert_eq!(names(json!({"allow": []})), Vec::<String>::new());
    }

    #[test]
    fn m3_arguments_and_results_are_mapped() {
        let over = json!({"tools": {"overrides": {"search.query": {
            "server": "kb", "tool": "other",
            "args": {"q": "{{query}}", "n": "{{limit}}", "fixed": ["a", "{{kind}}"]},
            "result": "/data",
        }}}});
        let behind = mapped(over).remove("search.query").unwrap();
        let given = |value: Value| value.as_object().unwrap().clone();
        assert_eq!(
            behind
                .arguments(given(json!({"query": "tea", "kind": "web"})))
                .unwrap(),
            given(json!({"q": "tea", "fixed": ["a", "web"]}))
        );
        assert_eq!(
            behind.result(json!({"data": {"results": []}})).unwrap(),
            json!({"results": []})
        );
        assert!(behind.result(json!({})).is_err());
    }
}
