//! Contracts without an implementation of ours: which server's tool stands behind each, and how a call is written for it
//! and its result read. Pure.

use std::collections::BTreeMap;

use agentd_config::Document;
use agentd_config::document::EXEC;
use agentd_config::filter::ToolFilter;
use agentd_mcp::ServersView;
use serde_json::{Map, Value};

/// The contracts of `knowledge.server` and `search.server`.
const KNOWLEDGE: [&str; 3] = ["knowledge.get", "knowledge.list", "knowledge.search"];
const SEARCH: [&str; 2] = ["search.fetch", "search.query"];

/// Characters of a result.
const RESULT_CHARS: usize = 256 * 1024;
/// What a number, and the like, takes of them.
const NUMBER_CHARS: usize = 8;
/// At the end of a text that was cut.
const CUT: &str = "\n[cut here]";

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
    if !document.may_exec() {
        all.remove(EXEC);
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

/// A result as a model is shown that of any tool of a server: without control characters, and not longer than most
/// contexts. Its form stays: what is too much is left out of texts and lists.
pub(super) fn shown(mut value: Value) -> Value {
    let mut left = RESULT_CHARS;
    cut(&mut value, &mut left);
    value
}

fn cut(value: &mut Value, left: &mut usize) {
    match value {
        Value::String(text) => {
            let clean = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
            let is_whole = text.len() <= *left && text.chars().all(|c| clean(&c));
            if !is_whole {
                let mut kept: String = text.chars().filter(clean).take(*left).collect();
                if text.chars().filter(clean).count() > *left {
                    kept.push_str(CUT);
                }
                *text = kept;
            }
            *left = left.saturating_sub(text.chars().count());
        }
        Value::Array(items) => {
            let mut kept = 0;
            for item in items.iter_mut() {
                if *left == 0 {
                    break;
                }
                cut(item, left);
                kept += 1;
            }
            items.truncate(kept);
        }
        Value::Object(members) => {
            for (name, member) in members {
                *left = left.saturating_sub(name.len());
                cut(member, left);
            }
        }
        _ => *left = left.saturating_sub(NUMBER_CHARS),
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
    #[test]
    fn m3_a_result_is_cleaned_and_cut_and_keeps_its_form() {
        let hit = |text: &str| json!({"title": "t", "text": text});
        let given = json!({"hits": [hit("a\u{1b}[31m\nb"), hit("c")], "total": 2});
        let told = json!({"hits": [hit("a[31m\nb"), hit("c")], "total": 2});
        assert_eq!(shown(given), told);
        let long = "ä".repeat(RESULT_CHARS);
        let told = shown(json!({"hits": [hit(&long), hit(&long), hit("c")], "more": long}));
        let size = told.to_string().chars().count();
        assert!((RESULT_CHARS..RESULT_CHARS + 100).contains(&size), "{size}");
        assert_eq!(told["hits"].as_array().unwrap().len(), 1);
        assert!(told["hits"][0]["text"].as_str().unwrap().ends_with(CUT));
        assert_eq!(told["more"], CUT);
        assert_eq!(
            shown(json!("x".repeat(RESULT_CHARS))).as_str().unwrap().len(),
            RESULT_CHARS
        );
    }
}
