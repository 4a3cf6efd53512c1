//! The body of a request: an object that is written member by member, and the tools in it, which are the same in every
//! round of a turn and so are written once. Guarantees: the bytes are those of the whole written anew.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Serialize;
use serde_json::Value;

use crate::message::ToolSpec;
use crate::names::Names;
use crate::schema::Profile;

/// A JSON object while it is written. Names are ours: none has to be escaped.
pub(crate) struct Object(Vec<u8>);

impl Object {
    pub(crate) fn new() -> Self {
        Self(b"{".to_vec())
    }

    /// One more member.
    pub(crate) fn put<T: Serialize>(&mut self, name: &'static str, value: T) {
        self.name(name);
        self.0.extend(json(&value));
    }

    /// One more member, that was written before.
    pub(crate) fn put_written(&mut self, name: &'static str, json: &[u8]) {
        self.name(name);
        self.0.extend(json);
    }

    fn name(&mut self, name: &'static str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend(name.as_bytes());
        self.0.extend(b"\":");
    }

    /// The whole.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// A value, a text, a number or a list of them as JSON, none of which can fail.
fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}

/// The tools that an endpoint was given last, as they were written for it.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<Option<Written>>);

#[derive(Debug)]
struct Written {
    /// Only to tell it again: a list that nobody uses any more is not kept, but its place is.
    of: Weak<[ToolSpec]>,
    profile: Profile,
    /// Their names on the wire, which depend on what else has a name.
    names: Vec<String>,
    /// One after the other with commas between.
    json: Arc<[u8]>,
}

impl Shelf {
    /// A list of these tools and of one more; none when there is no tool.
    pub(crate) fn list(
        &self,
        tools: &Arc<[ToolSpec]>,
        more: Option<&ToolSpec>,
        profile: Profile,
        names: &Names,
        write: impl Fn(&ToolSpec) -> Value,
    ) -> Option<Vec<u8>> {
        let kept = (!tools.is_empty()).then(|| self.kept(tools, profile, names, &write));
        let more = more.map(|tool| json(&write(tool)));
        if kept.is_none() && more.is_none() {
            return None;
        }
        let pieces = [kept.as_deref(), more.as_deref()];
        Some([b"[", joined(pieces.into_iter().flatten()).as_slice(), b"]"].concat())
    }

    fn kept(
        &self,
        tools: &Arc<[ToolSpec]>,
        profile: Profile,
        names: &Names,
        write: impl Fn(&ToolSpec) -> Value,
    ) -> Arc<[u8]> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wire = tools.iter().map(|tool| names.wire(&tool.name));
        // What is kept cannot have made place for another list that then came to stand where it was.
        let known = last.as_ref().filter(|known| {
            std::ptr::eq(known.of.as_ptr(), Arc::as_ptr(tools))
                && known.profile == profile
                && wire.clone().eq(&known.names)
        });
        if let Some(known) = known {
            return known.json.clone();
        }
        let written: Vec<Vec<u8>> = tools.iter().map(|tool| json(&write(tool))).collect();
        let json: Arc<[u8]> = joined(written.iter().map(Vec::as_slice)).into();
        *last = Some(Written {
            of: Arc::downgrade(tools),
            profile,
            names: wire.map(str::to_owned).collect(),
            json: json.clone(),
        });
        json
    }
}

fn joined<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut all = Vec::new();
    for (nth, piece) in pieces.enumerate() {
        if nth > 0 {
            all.push(b',');
        }
        all.extend(piece);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::dialect::Dialect;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: serde_json::Map::new(),
        }
    }

    #[test]
    fn the_same_tools_are_written_once_and_others_anew() {
        let (shelf, count) = (Shelf::default(), Cell::new(0));
        let list = |tools: &Arc<[ToolSpec]>, more: Option<&ToolSpec>, profile, called: &[&str]| {
            let offered = tools.iter().map(|tool| tool.name.as_str());
            let names = Names::new(offered.chain(called.iter().copied()), Dialect::Openai);
            let before = count.get();
            let list = shelf.list(tools, more, profile, &names, |tool| {
                count.set(count.get() + 1);
                json!({ "name": names.wire(&tool.name) })
            });
            let text = list.map(|list| String::from_utf8(list).unwrap());
            (text.unwrap_or_default(), count.get() - before)
        };
        let none: Arc<[ToolSpec]> = Vec::new().into();
        let two: Arc<[ToolSpec]> = vec![tool("a.b"), tool("c")].into();
        let same: Arc<[ToolSpec]> = two.to_vec().into();
        let answer = tool("answer");
        let both = r#"[{"name":"a_b"},{"name":"c"}]"#;
        let openai = Profile::Openai;
        assert_eq!(list(&none, None, openai, &[]), (String::new(), 0));
        assert_eq!(
            list(&none, Some(&answer), openai, &[]).0,
            r#"[{"name":"answer"}]"#
        );
        assert_eq!(list(&two, None, openai, &[]), (both.into(), 2));
        assert_eq!(list(&two, None, openai, &["c"]), (both.into(), 0));
        assert_eq!(
            list(&two, Some(&answer), openai, &[]),
            (r#"[{"name":"a_b"},{"name":"c"},{"name":"answer"}]"#.into(), 1)
        );
        assert_eq!(list(&same, None, openai, &[]), (both.into(), 2));
        assert_eq!(list(&same, None, Profile::Gemini, &[]), (both.into(), 2));
        // Something was called that has the name on the wire: the tool has another one.
        let (other, written) = list(&same, None, Profile::Gemini, &["a_b"]);
        assert!(written == 2 && other != both, "{other}");
        assert_eq!(Arc::strong_count(&same), 1, "what nobody uses any more is not held");
    }

    #[test]
    fn an_object_is_what_would_be_written_as_a_whole() {
        let mut object = Object::new();
        assert_eq!(Object::new().end(), b"{}");
        object.put("text", "a\"b");
        object.put_written("list", b"[1,2]");
        object.put("value", json!({ "x": null }));
        let whole: Value = serde_json::from_slice(&object.end()).unwrap();
        assert_eq!(
            whole,
            json!({ "text": "a\"b", "list": [1, 2], "value": { "x": null } })
        );
    }
}
