//! A streamed answer of Chat Completions. Calls are put together across chunks, whether they come in pieces or whole,
//! with an index or without, with ids of their own or one for all. Pure; works on untrusted bytes.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::read::{self, Own};
use crate::dialect::Dialect;
use crate::message::{Arguments, Stop};
use crate::sse::{Event, Events};
use crate::wire::{self, Counts, Draft, Fault, Heard, Piece, Reader};

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Value,
    /// Some servers stream what is no stream.
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Value,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Value,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    index: Value,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: Value,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

/// The reader.
#[derive(Default)]
pub(crate) struct Stream {
    events: Events,
    draft: Draft,
    own: Own,
    text: Option<usize>,
    refusal: Option<usize>,
    /// The index of a call on the wire, where it has one, and its place in the draft.
    calls: Vec<(Option<u64>, usize)>,
    finish: Value,
    has_finished: bool,
    /// Anything was said at all: an end alone is no answer.
    has_begun: bool,
    /// `[DONE]` came: what follows is not read.
    is_done: bool,
    counts: Counts,
}

impl Stream {
    fn event(&mut self, event: &Event, told: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.has_finished = true;
            self.is_done = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        let chunk: Chunk =
            serde_json::from_str(data).map_err(|error| Fault::unreadable("an event is no chunk", &error))?;
        if !chunk.error.is_null() {
            return Err(failure(data, &chunk.error));
        }
        if chunk.usage.is_object() {
            let counts = read::counts(&chunk.usage);
            self.counts = Counts {
                input: counts.input.or(self.counts.input),
                output: counts.output.or(self.counts.output),
                cached: counts.cached.max(self.counts.cached),
            };
        }
        let mut choices = chunk.choices.into_iter().flatten();
        // One was asked for.
        let Some(choice) = choices.find(|choice| choice.index.as_u64().unwrap_or(0) == 0) else {
            return Ok(());
        };
        self.has_begun = true;
        if !choice.finish_reason.is_null() {
            self.finish = choice.finish_reason;
            self.has_finished = true;
        }
        let Some(delta) = choice.delta else {
            return Ok(());
        };
        self.delta(&delta, told)?;
        let whole: Value = serde_json::from_str(data).unwrap_or(Value::Null);
        let message = whole
            .pointer("/choices/0/delta")
            .or_else(|| whole.pointer("/choices/0/message"));
        let calls = message
            .and_then(|message| message.get("tool_calls"))
            .and_then(Value::as_array);
        let mut pieces = calls.into_iter().flatten();
        for call in delta.tool_calls.iter().flatten() {
            let nth = self.call(call)?;
            if let Some(piece) = pieces.next() {
                let bytes = self.own.call(nth, piece);
                self.draft.weigh(bytes)?;
            }
        }
        let bytes = message.map_or(0, |message| self.own.message(message));
        self.draft.weigh(bytes)
    }

    fn delta(&mut self, delta: &Delta, told: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let text = read::text(&delta.content);
        if !text.is_empty() {
            let draft = &mut self.draft;
            let place = *self
                .text
                .get_or_insert_with(|| draft.add(Piece::Text(String::new())));
            self.draft.text(place, &text, told)?;
        }
        if let Some(refusal) = delta.refusal.as_str().filter(|refusal| !refusal.is_empty()) {
            let draft = &mut self.draft;
            let place = *self
                .refusal
                .get_or_insert_with(|| draft.add(Piece::Text(String::new())));
            self.draft.text(place, refusal, told)?;
        }
        Ok(())
    }

    /// Takes up a piece of a call; the call's number.
    fn call(&mut self, piece: &Call) -> Result<usize, Fault> {
        let id = read::id(&piece.id);
        let function = piece.function.as_ref();
        let name = function
            .and_then(|function| function.name.as_str())
            .unwrap_or_default();
        let more = read::arguments(function.and_then(|function| function.arguments.as_deref()));
        let index = piece.index.as_u64();
        self.draft.weigh(id.len() + name.len())?;
        let known = match index {
            Some(_) => self.calls.iter().rposition(|(known, _)| *known == index),
            None => self.calls.len().checked_sub(1),
        };
        let known = known.filter(|nth| !self.is_another(*nth, &id, name, &more));
        let nth = known.unwrap_or_else(|| {
            let place = self.draft.add(Piece::Call {
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            });
            self.calls.push((index, place));
            self.calls.len() - 1
        });
        let Some((_, place)) = self.calls.get(nth).copied() else {
            return Ok(nth);
        };
        if let Some(Piece::Call {
            id: known_id,
            name: known_name,
            ..
        }) = self.draft.piece(place)
        {
            // Some servers repeat both with every piece.
            if known_id.is_empty() {
                *known_id = id;
            }
            if known_name.is_empty() {
                name.clone_into(known_name);
            }
        }
        self.draft.arguments(place, &more)?;
        Ok(nth)
    }

    /// Whether a piece begins another call than the one whose index it has, or the last: it has another id, or it names
    /// a function when that call is complete.
    fn is_another(&mut self, nth: usize, id: &str, name: &str, more: &str) -> bool {
        let Some((_, place)) = self.calls.get(nth).copied() else {
            return true;
        };
        let Some(Piece::Call {
            id: known,
            name: named,
            arguments,
        }) = self.draft.piece(place)
        else {
            return true;
        };
        let has_other_id = !id.is_empty() && !known.is_empty() && known != id;
        if has_other_id {
            return true;
        }
        let begins = !name.is_empty() && !named.is_empty() && (!more.is_empty() || named != name);
        // They are read only where it matters and where they can be complete: not again with each of many pieces.
        let arguments = arguments.trim();
        let may_be_complete = arguments.is_empty() || arguments == "null" || arguments.ends_with('}');
        if !begins || !may_be_complete {
            return false;
        }
        match Arguments::parse(arguments) {
            Arguments::Object(_) => !arguments.is_empty() || named != name,
            Arguments::Invalid(_) => false,
        }
    }
}

/// An error within the stream. Its code may be a status.
fn failure(data: &str, error: &Value) -> Fault {
    let value: Value = serde_json::from_str(data).unwrap_or(Value::Null);
    let words = wire::said(&value).unwrap_or_else(|| "an error without words".to_owned());
    let code = error.get("code").or_else(|| error.get("status"));
    let number = code
        .and_then(Value::as_u64)
        .and_then(|code| u16::try_from(code).ok());
    let status = number
        .filter(|code| (400..600).contains(code))
        .unwrap_or_else(|| {
            let code = code.and_then(Value::as_str).unwrap_or_default();
            let kind = wire::text(error, "type");
            super::status(code).or_else(|| super::status(kind)).unwrap_or(500)
        });
    Fault::Status(status, words)
}

impl Reader for Stream {
    fn push(&mut self, chunk: &[u8], told: &mut dyn FnMut(&str)) -> Result<bool, Fault> {
        for event in self.events.push(chunk)? {
            if !self.is_done {
                self.event(&event, told)?;
            }
        }
        Ok(self.is_done)
    }

    fn end(mut self: Box<Self>) -> Result<Heard, Fault> {
        if let Some(event) = self.events.rest().filter(|_| !self.is_done) {
            self.event(&event, &mut |_| {})?;
        }
        if !self.has_finished {
            return Err(Fault::malformed("the stream broke off"));
        }
        if !self.has_begun {
            return Err(Fault::malformed("the stream ended before an answer began"));
        }
        let stop = if self.refusal.is_some() {
            Stop::Refused
        } else {
            read::stop(&self.finish)
        };
        let mut blocks: Vec<_> = self.own.block().into_iter().collect();
        blocks.extend(self.draft.blocks(Dialect::Openai));
        Ok(Heard {
            blocks,
            stop,
            counts: self.counts,
        })
    }
}
