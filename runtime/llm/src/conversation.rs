//! The conversation of a request. A round adds to its end, and every round tells all of it: what was written of it for an
//! endpoint is kept beside it, so that the next round writes no more than what is new. Guarantees: what is written is what
//! would be written anew.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dialect::Dialect;
use crate::message::Message;
use crate::names::Names;
use crate::wire::{Ask, Quirks};

/// See the module. It is compared and copied as its messages are.
#[derive(Default)]
pub struct Conversation {
    messages: Vec<Message>,
    written: Mutex<Option<Written>>,
}

/// The first messages, as items of a list of JSON, and all that what was written of them depends on.
struct Written {
    dialect: Dialect,
    origin: String,
    quirks: Quirks,
    names: Arc<Names>,
    messages: usize,
    items: Vec<u8>,
}

impl Written {
    fn begin(ask: &Ask<'_>) -> Self {
        Self {
            dialect: ask.dialect,
            origin: ask.origin.to_owned(),
            quirks: ask.quirks,
            names: ask.names.clone(),
            messages: 0,
            items: Vec::new(),
        }
    }

    fn is_for(&self, ask: &Ask<'_>) -> bool {
        self.dialect == ask.dialect
            && self.origin == ask.origin
            && self.quirks == ask.quirks
            && (Arc::ptr_eq(&self.names, &ask.names) || self.names == ask.names)
    }
}

impl Conversation {
    /// One more message.
    pub fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// The first messages alone.
    pub fn truncate(&mut self, messages: usize) {
        self.messages.truncate(messages);
        let written = self.written.get_mut().unwrap_or_else(PoisonError::into_inner);
        if written
            .as_ref()
            .is_some_and(|written| written.messages > messages)
        {
            *written = None;
        }
    }

    /// Adds all messages to the items of a list. `write` adds one, by what an [`Ask`] has beside its request.
    pub(crate) fn write(&self, ask: &Ask<'_>, items: &mut Vec<u8>, write: impl Fn(&Message, &mut Vec<u8>)) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let known = written.take().filter(|written| written.is_for(ask));
        let known = written.insert(known.unwrap_or_else(|| Written::begin(ask)));
        for message in self.messages.iter().skip(known.messages) {
            write(message, &mut known.items);
        }
        known.messages = self.messages.len();
        items.extend_from_slice(&known.items);
    }
}

impl Deref for Conversation {
    type Target = [Message];

    fn deref(&self) -> &[Message] {
        &self.messages
    }
}

impl AsRef<[Message]> for Conversation {
    fn as_ref(&self) -> &[Message] {
        &self.messages
    }
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self {
            messages,
            written: Mutex::default(),
        }
    }
}

impl Clone for Conversation {
    fn clone(&self) -> Self {
        self.messages.clone().into()
    }
}

impl<T: AsRef<[Message]>> PartialEq<T> for Conversation {
    fn eq(&self, other: &T) -> bool {
        self.messages == other.as_ref()
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.messages.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::body::Shelf;
    use crate::codec;
    use crate::message::{Arguments, Block, ModelRequest, Opaque, ToolCall, ToolResult, ToolSpec};
    use crate::wire::Way;

    fn ask<'a>(request: &'a ModelRequest, shelf: &'a Shelf, origin: &'a str, quirks: Quirks) -> Ask<'a> {
        Ask {
            dialect: Dialect::Openai,
            model: "m",
            origin,
            request,
            stream: false,
            names: shelf.names(request, Dialect::Openai),
            way: Way::Prompt,
            quirks,
            shelf,
        }
    }

    /// A call with something of the endpoint's own, and its result.
    fn round(name: &str, id: &str) -> [Message; 2] {
        let call = ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: Arguments::parse(r#"{"a":"\"b\""}"#),
        };
        let own = Opaque {
            dialect: Dialect::Openai,
            origin: "one".into(),
            value: json!({"message": {"signature": "s"}}),
        };
        let result = ToolResult {
            call_id: id.into(),
            content: "done".into(),
            is_error: false,
        };
        let said = vec![Block::Opaque(own), Block::ToolCall(call)];
        [Message::Assistant(said), Message::Results(vec![result])]
    }

    #[test]
    fn what_is_kept_is_what_would_be_written_anew() {
        let tool = ToolSpec {
            name: "a.b".into(),
            description: String::new(),
            input_schema: serde_json::Map::new(),
        };
        let mut request = ModelRequest {
            tools: vec![tool].into(),
            ..ModelRequest::default()
        };
        let shelf = Shelf::default();
        let same = |request: &ModelRequest, origin: &str, quirks: Quirks| {
            let kept = codec::body(&ask(request, &shelf, origin, quirks));
            let anew = codec::body(&ask(&request.clone(), &Shelf::default(), origin, quirks));
            assert_eq!(String::from_utf8(kept), String::from_utf8(anew));
        };
        let plain = Quirks::default();
        same(&request, "one", plain);
        request.messages.push(Message::User("go".into()));
        same(&request, "one", plain);
        for (name, id) in [("a.b", "1"), ("a.b", "2"), ("a_b", "3"), ("a.b", "4")] {
            for message in round(name, id) {
                request.messages.push(message);
            }
            same(&request, "one", plain);
            same(&request, "one", plain);
        }
        same(&request, "other", plain);
        let no_opaque = Quirks {
            no_opaque: true,
            ..plain
        };
        same(&request, "one", no_opaque);
        same(&request, "one", plain);
        for messages in [9, 4, 0] {
            request.messages.truncate(messages);
            request.messages.push(Message::User("instead".into()));
            same(&request, "one", plain);
        }
    }

    #[test]
    fn a_message_is_written_once() {
        let mut request = ModelRequest::default();
        let (shelf, written) = (Shelf::default(), Cell::new(0));
        let mut total = Vec::new();
        for nth in 1..=3 {
            request.messages.push(Message::User("go".into()));
            total.clear();
            let ask = ask(&request, &shelf, "one", Quirks::default());
            request.messages.write(&ask, &mut total, |_, items| {
                written.set(written.get() + 1);
                items.push(b'x');
            });
            assert_eq!((written.get(), total.len()), (nth, nth));
        }
    }
}
