//! Answers as servers send them, made readable for the SDK, which takes one whole or not at all: an entry of a list that
//! is none is taken out and named, and the others stay; a question whose form is none becomes one that is cancelled.
//! Pure but for the log.

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, InputRequest, Resource, ResourceTemplate, ServerJsonRpcMessage, Tool,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Entries that are named in one answer; the rest are counted.
const NAMED: usize = 16;
/// Where the names of a page's tools stand, so that one which the SDK takes out is named too.
const NAMES: &str = "agentd/names";
/// How an answer begins that is a question.
const INPUT_REQUIRED: &str = "input_required";

/// What was asked for, where its answer may need mending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A list.
    List(List),
    /// Something that may be answered by a question.
    Work,
}

impl Asked {
    /// By the request.
    pub(crate) fn by(message: &ClientJsonRpcMessage) -> Option<Self> {
        let ClientJsonRpcMessage::Request(request) = message else {
            return None;
        };
        match &request.request {
            ClientRequest::ListToolsRequest(_) => Some(Self::List(List::Tools)),
            ClientRequest::ListResourcesRequest(_) => Some(Self::List(List::Resources)),
            ClientRequest::ListResourceTemplatesRequest(_) => Some(Self::List(List::Templates)),
            ClientRequest::CallToolRequest(_) | ClientRequest::ReadResourceRequest(_) => Some(Self::Work),
            _ => None,
        }
    }

    /// The answer as the SDK can read it; `None` where it can as it is.
    pub(crate) fn mended(self, answer: &str, server: &str) -> Option<Value> {
        // Most answers are no questions, and many are large.
        if self == Self::Work && !answer.contains(INPUT_REQUIRED) {
            return None;
        }
        let mut answer = serde_json::from_str(answer).ok()?;
        match self {
            Self::List(list) => mend(list, &mut answer, server),
            Self::Work => mend_questions(&mut answer),
        }
        Some(answer)
    }
}

/// One message, as it came as a body.
pub(crate) fn message(
    body: &[u8],
    asked: Option<Asked>,
    server: &str,
) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    let text = std::str::from_utf8(body).ok();
    match asked
        .zip(text)
        .and_then(|(asked, text)| asked.mended(text, server))
    {
        Some(mended) => serde_json::from_value(mended),
        None => serde_json::from_slice(body),
    }
}

/// A list that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Resources,
    Templates,
}

impl List {
    fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    fn fault(self, entry: &Value) -> Option<String> {
        match self {
            Self::Tools => fault::<Tool>(entry),
            Self::Resources => fault::<Resource>(entry),
            Self::Templates => fault::<ResourceTemplate>(entry),
        }
    }
}

fn fault<T: DeserializeOwned>(entry: &Value) -> Option<String> {
    serde_json::from_value::<T>(entry.clone())
        .err()
        .map(|error| agentd_base::json::why(&error))
}

/// Takes out of an answer what is no entry of its list. Anything that is not such an answer stays as it is.
fn mend(list: List, answer: &mut Value, server: &str) {
    let Some(result) = answer.get_mut("result") else {
        return;
    };
    let Some(Value::Array(entries)) = result.get_mut(list.key()) else {
        return;
    };
    let (mut taken, mut more) = (Vec::new(), 0_usize);
    entries.retain(|entry| match list.fault(entry) {
        None => true,
        Some(why) if taken.len() < NAMED => {
            taken.push((name(entry), why));
            false
        }
        Some(_) => {
            more = more.saturating_add(1);
            false
        }
    });
    for (name, why) in taken {
        tracing::warn!(event = "mcp.spec.invalid", mcp.server = %server, name = %name, list = list.key(), err = %clip(&why, FOREIGN_CHARS), "left out");
    }
    if more > 0 {
        tracing::warn!(event = "mcp.spec.invalid", mcp.server = %server, list = list.key(), "{more} more left out");
    }
    if list == List::Tools {
        let names: Vec<Value> = entries
            .iter()
            .filter_map(|entry| entry.get("name").cloned())
            .collect();
        if let Some(result) = result.as_object_mut() {
            match result.get_mut("_meta") {
                Some(Value::Object(meta)) => drop(meta.insert(NAMES.into(), names.into())),
                _ => drop(result.insert("_meta".into(), json!({NAMES: names}))),
            }
        }
    }
}

/// A question that cannot be read is one that nobody can be asked, so it is made one that nobody is asked: a URL that is
/// none.
fn mend_questions(answer: &mut Value) {
    let questions = answer
        .pointer_mut("/result/inputRequests")
        .and_then(Value::as_object_mut);
    for question in questions.into_iter().flat_map(|questions| questions.values_mut()) {
        let asks = question.get("method").and_then(Value::as_str) == Some("elicitation/create");
        if asks && fault::<InputRequest>(question).is_some() {
            *question = json!({"method": "elicitation/create",
                "params": {"mode": "url", "message": "", "url": "", "elicitationId": ""}});
        }
    }
}

/// The names that a page of tools had when it came.
pub(crate) fn names(meta: Option<&serde_json::Map<String, Value>>) -> impl Iterator<Item = &str> {
    let names = meta.and_then(|meta| meta.get(NAMES)).and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn name(entry: &Value) -> String {
    let name = ["name", "uri", "uriTemplate"]
        .iter()
        .find_map(|key| entry.get(key)?.as_str());
    clip(name.unwrap_or("?"), FOREIGN_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(list: List, entries: Value) -> Value {
        let mut answer = json!({"id": 1, "result": {list.key(): entries, "nextCursor": "2"}});
        mend(list, &mut answer, "s");
        assert_eq!(answer["result"]["nextCursor"], "2");
        answer["result"][list.key()].clone()
    }

    /// M19, M25, M27: what is no entry harms no other.
    #[test]
    fn m19_an_entry_that_is_none_is_taken_out_and_the_others_stay() {
        let good = json!({"name": "good", "inputSchema": {"type": "object"}});
        for bad in [
            json!({"name": "t"}),
            json!(7),
            json!(null),
            json!({"name": 1, "inputSchema": {}}),
            json!({"name": "t", "inputSchema": "x"}),
            json!({"name": "t", "inputSchema": {}, "annotations": 3}),
        ] {
            assert_eq!(mended(List::Tools, json!([bad, good, bad])), json!([good]));
        }
        let good = json!({"uri": "a:1", "name": "one"});
        assert_eq!(
            mended(List::Resources, json!([{"uri": "a:2"}, good, []])),
            json!([good])
        );
        let good = json!({"uriTemplate": "a:{x}", "name": "one"});
        assert_eq!(
            mended(List::Templates, json!([{"name": "x"}, good])),
            json!([good])
        );
        let many: Vec<Value> = vec![json!({}); 1000];
        assert_eq!(mended(List::Tools, json!(many)), json!([]));
    }

    #[test]
    fn what_is_no_list_stays_as_it_is() {
        for answer in [
            json!({"id": 1, "error": {"code": 1, "message": "m"}}),
            json!({"result": {"tools": {}}}),
            json!([1]),
        ] {
            let mut mended = answer.clone();
            mend(List::Tools, &mut mended, "s");
            assert_eq!(mended, answer);
        }
    }

    #[test]
    fn m13_a_question_whose_form_is_none_is_made_one_that_is_cancelled() {
        let ask = |schema: Value| json!({"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}});
        let good = ask(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
        let bad = ask(json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}));
        let answer = json!({"id": 1, "result": {"resultType": "input_required", "requestState": "s",
            "inputRequests": {"good": good, "bad": bad, "other": {"method": "roots/list"}}}});
        let mended = Asked::Work.mended(&answer.to_string(), "s").unwrap();
        let questions = &mended["result"]["inputRequests"];
        assert_eq!(
            (&questions["good"], &questions["other"]["method"]),
            (&good, &json!("roots/list"))
        );
        assert_eq!(questions["bad"]["params"]["mode"], "url");
        assert!(fault::<InputRequest>(&questions["bad"]).is_none());
        assert_eq!(Asked::Work.mended(r#"{"result": {"content": []}}"#, "s"), None);
    }

    #[test]
    fn the_names_of_a_page_go_with_it() {
        let tool = |name: &str| json!({"name": name, "inputSchema": {}});
        for meta in [json!(null), json!({"x": 1})] {
            let mut answer = json!({"result": {"tools": [tool("a"), {}, tool("b")], "_meta": meta}});
            mend(List::Tools, &mut answer, "s");
            let meta = answer["result"]["_meta"].as_object();
            assert_eq!(names(meta).collect::<Vec<_>>(), ["a", "b"]);
        }
        assert_eq!(names(None).count(), 0);
    }
}
