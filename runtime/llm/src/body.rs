//! The body of a request: an object that is written member by member, and the tools in it with their names, which are
//! the same in every round of a turn and so are made once. Guarantees: the bytes are those of the whole written anew.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Serialize;
use serde_json::Value;

use crate::dialect::Dialect;
use crate::message::{ModelRequest, ToolSpec};
use crate::names::{self, Names};
use crate::schema::Profile;

/// A JSON object while it is written. Names are ours: none has to be escaped.
pub(crate) struct Object(Vec<u8>);

impl Object {
    pub(crate) fn new() -> Self {
        Self::with_room(0)
    }

    /// One that will take about so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        let mut text = Vec::with_capacity(bytes.max(64));
        text.push(b'{');
        Self(text)
    }

    /// One more member.
    pub(crate) fn put<T: Serialize>(&mut self, name: &'static str, value: T) {
        self.name(name);
        append(&mut self.0, &value);
    }

    /// One more member, a list. `write` adds its [`item`]s.
    pub(crate) fn put_list(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        self.name(name);
        let start = self.0.len();
        write(&mut self.0);
        match self.0.get_mut(start) {
            // The comma before the first of them.
            Some(first) => *first = b'[',
            None => self.0.push(b'['),
        }
        self.0.push(b']');
    }

    /// One more member, that was written before.
    pub(crate) fn put_written(&mut self, name: &'static str, json: &[u8]) {
        self.name(name);
        self.0.extend_from_slice(json);
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

/// One more item of a list.
pub(crate) fn item<T: Serialize>(list: &mut Vec<u8>, value: &T) {
    list.push(b',');
    append(list, value);
}

/// A value, a text, a number or a list of them as JSON, none of which can fail.
fn append<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(before);
        out.extend(b"null");
    }
}

/// What an endpoint was given last, as far as the next request is likely to be the same.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    written: Mutex<Option<Written>>,
    named: Mutex<Option<Named>>,
    /// Bytes of the last body.
    room: AtomicUsize,
}

/// What is kept cannot have made place for another list that then came to stand where it was.
fn is_of(kept: &Weak<[ToolSpec]>, tools: &Arc<[ToolSpec]>) -> bool {
    std::ptr::eq(kept.as_ptr(), Arc::as_ptr(tools))
}

/// The names of tools without those of the calls in a conversation.
#[derive(Debug)]
struct Named {
    of: Weak<[ToolSpec]>,
    dialect: Dialect,
    names: Arc<Names>,
}

#[derive(Debug)]
struct Written {
    /// Only to tell it again: a list that nobody uses any more is not kept, but its place is.
    of: Weak<[ToolSpec]>,
    profile: Profile,
    /// Their names on the wire, which depend on what else has a name, and the table that they were of.
    names: Vec<String>,
    table: Arc<Names>,
    /// As a list.
    json: Arc<[u8]>,
}

impl Shelf {
    /// A list of these tools and of one more; none when there is no tool.
    pub(crate) fn list(
        &self,
        tools: &Arc<[ToolSpec]>,
        more: Option<&ToolSpec>,
        profile: Profile,
        names: &Arc<Names>,
        write: impl Fn(&ToolSpec) -> Value,
    ) -> Option<Arc<[u8]>> {
        let kept = (!tools.is_empty()).then(|| self.kept(tools, profile, names, &write));
        let Some(more) = more else { return kept };
        let mut list = match kept.as_deref().and_then(|kept| kept.strip_suffix(b"]")) {
            Some(open) => [open, b","].concat(),
            None => b"[".to_vec(),
        };
        append(&mut list, &write(more));
        list.push(b']');
        Some(list.into())
    }

    /// The names of a request. Calls of what is offered, which is nearly all, add none to those of the tools.
    pub(crate) fn names(&self, request: &ModelRequest, dialect: Dialect) -> Arc<Names> {
        let mut last = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last
            .as_ref()
            .filter(|known| is_of(&known.of, &request.tools) && known.dialect == dialect);
        let offered = match known {
            Some(known) => known.names.clone(),
            None => {
                let names = Arc::new(Names::new(names::offered(&request.tools), dialect));
                *last = Some(Named {
                    of: Arc::downgrade(&request.tools),
                    dialect,
                    names: names.clone(),
                });
                names
            }
        };
        if names::called(request).all(|name| offered.has(name)) {
            return offered;
        }
        Arc::new(Names::of(request, dialect))
    }

    /// How much the next body will be, about.
    pub(crate) fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// A body was so long. The next is longer by what a round adds.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.room.store(bytes + bytes / 8, Ordering::Relaxed);
    }

    fn kept(
        &self,
        tools: &Arc<[ToolSpec]>,
        profile: Profile,
        names: &Arc<Names>,
        write: impl Fn(&ToolSpec) -> Value,
    ) -> Arc<[u8]> {
        let mut last = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let wire = tools.iter().map(|tool| names.wire(&tool.name));
        let known = last.as_ref().filter(|known| {
            is_of(&known.of, tools)
                && known.profile == profile
                && (Arc::ptr_eq(&known.table, names) || wire.clone().eq(&known.names))
        });
        if let Some(known) = known {
            return known.json.clone();
        }
        let mut list = Vec::new();
        // One at a time: as values they take twenty times as much.
        for tool in tools.iter() {
            list.push(if list.is_empty() { b'[' } else { b',' });
            append(&mut list, &write(tool));
        }
        list.push(b']');
        let json: Arc<[u8]> = list.into();
        *last = Some(Written {
            of: Arc::downgrade(tools),
            profile,
            names: wire.map(str::to_owned).collect(),
            table: names.clone(),
            json: json.clone(),
        });
        json
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::message::{Arguments, Block, Message, ToolCall};

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
            let names = Arc::new(names);
            let before = count.get();
            let list = shelf.list(tools, more, profile, &names, |tool| {
                count.set(count.get() + 1);
                json!({ "name": names.wire(&tool.name) })
            });
            let text = list.map(|list| String::from_utf8(list.to_vec()).unwrap());
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
        assert_eq!(
            Arc::strong_count(&same),
            1,
            "what nobody uses any more is not held"
        );
    }

    #[test]
    fn names_are_those_of_the_request_made_anew_and_are_made_once() {
        let shelf = Shelf::default();
        let request = |tools: &Arc<[ToolSpec]>, called: &[&str]| {
            let call = |name: &&str| {
                Block::ToolCall(ToolCall {
                    id: String::new(),
                    name: (*name).to_owned(),
                    arguments: Arguments::Invalid(String::new()),
                })
            };
            ModelRequest {
                messages: vec![Message::Assistant(called.iter().map(call).collect())].into(),
                tools: tools.clone(),
                ..ModelRequest::default()
            }
        };
        let two: Arc<[ToolSpec]> = vec![tool("a.b"), tool("c")].into();
        let same: Arc<[ToolSpec]> = two.to_vec().into();
        let other: Arc<[ToolSpec]> = vec![tool("a.b"), tool("a_b")].into();
        let called: [&[&str]; 5] = [&[], &["c"], &["a.b", "c", "c"], &["a_b"], &["gone", "c"]];
        for tools in [&two, &same, &other, &two] {
            for called in called {
                for dialect in [Dialect::Openai, Dialect::Bedrock] {
                    let request = request(tools, called);
                    let names = shelf.names(&request, dialect);
                    assert_eq!(*names, Names::of(&request, dialect), "{called:?}");
                }
            }
        }
        let first = shelf.names(&request(&two, &[]), Dialect::Openai);
        let second = shelf.names(&request(&two, &["c"]), Dialect::Openai);
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn an_object_is_what_would_be_written_as_a_whole() {
        let mut object = Object::new();
        assert_eq!(Object::new().end(), b"{}");
        object.put("text", "a\"b");
        object.put_written("list", b"[1,2]");
        object.put_list("items", |list| {
            item(list, &"x");
            item(list, &3);
        });
        object.put_list("none", |_| {});
        object.put("value", json!({ "x": null }));
        let whole: Value = serde_json::from_slice(&object.end()).unwrap();
        assert_eq!(
            whole,
            json!({ "text": "a\"b", "list": [1, 2], "items": ["x", 3], "none": [], "value": { "x": null } })
        );
    }
}
