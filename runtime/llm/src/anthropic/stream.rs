//! A streamed answer of Messages: blocks by index, each begun, continued and ended by events. Pure; works on untrusted
//! bytes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read;
use crate::dialect::Dialect;
use crate::message::Stop;
use crate::sse::{Event, Events};
use crate::wire::{self, Counts, Draft, Fault, Heard, Piece, Reader};

/// The reader.
#[derive(Default)]
pub(crate) struct Stream {
    events: Events,
    draft: Draft,
    /// The place of each block in the draft.
    places: BTreeMap<u64, usize>,
    stop: Option<Stop>,
    counts: Counts,
    is_done: bool,
}

impl Stream {
    fn event(&mut self, event: &Event, told: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" || self.is_done {
            return Ok(());
        }
        let value: Value =
            serde_json::from_str(data).map_err(|error| Fault::unreadable("an event is no JSON", &error))?;
        let kind = match wire::text(&value, "type") {
            "" => event.name.as_str(),
            kind => kind,
        };
        let index = value.get("index").and_then(Value::as_u64).unwrap_or(0);
        match kind {
            "message_start" => self.count(value.pointer("/message/usage")),
            "content_block_start" => {
                if let Some(block) = value.get("content_block") {
                    self.begin(index, block, data.len(), told)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = value.get("delta") {
                    self.go_on(index, delta, told)?;
                }
            }
            "message_delta" => {
                let reason = value.pointer("/delta/stop_reason").and_then(Value::as_str);
                self.stop = reason.map(read::stop).or(self.stop);
                self.count(value.get("usage"));
            }
            "message_stop" => self.is_done = true,
            "error" => return Err(read::failure(&value)),
            // Pings, ends of blocks, and what will be added: the API may send events that nobody knows.
            _ => {}
        }
        Ok(())
    }

    /// Counts are of all so far; some servers send them in parts.
    fn count(&mut self, usage: Option<&Value>) {
        let counts = read::counts(usage.unwrap_or(&Value::Null));
        self.counts = Counts {
            input: counts.input.filter(|input| *input > 0).or(self.counts.input),
            output: counts.output.or(self.counts.output),
            cached: counts.cached.max(self.counts.cached),
        };
    }

    fn begin(
        &mut self,
        index: u64,
        block: &Value,
        size: usize,
        told: &mut dyn FnMut(&str),
    ) -> Result<(), Fault> {
        self.draft.weigh(size)?;
        let piece = match wire::text(block, "type") {
            "text" => Piece::Text(String::new()),
            "tool_use" => Piece::Call {
                id: wire::text(block, "id").to_owned(),
                name: wire::text(block, "name").to_owned(),
                // Some servers send the whole of it here, and none after.
                arguments: match block.get("input") {
                    Some(Value::Object(input)) if !input.is_empty() => {
                        Value::Object(input.clone()).to_string()
                    }
                    _ => String::new(),
                },
            },
            _ => Piece::Opaque(block.clone()),
        };
        let place = self.draft.add(piece);
        self.places.insert(index, place);
        self.draft.text(place, wire::text(block, "text"), told)
    }

    fn go_on(&mut self, index: u64, delta: &Value, told: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let kind = wire::text(delta, "type");
        let place = match self.places.get(&index) {
            Some(place) => *place,
            // A server that does not say that a text begins.
            None if kind == "text_delta" => {
                let place = self.draft.add(Piece::Text(String::new()));
                self.places.insert(index, place);
                place
            }
            None => return Ok(()),
        };
        match kind {
            "text_delta" => self.draft.text(place, wire::text(delta, "text"), told),
            "input_json_delta" => {
                let more = wire::text(delta, "partial_json");
                if let Some(Piece::Call { arguments, .. }) = self.draft.piece(place)
                    && is_whole(arguments)
                    && !more.trim().is_empty()
                {
                    // It came whole and comes again in pieces.
                    arguments.clear();
                }
                self.draft.arguments(place, more)
            }
            "thinking_delta" => self.append(place, "thinking", wire::text(delta, "thinking")),
            "signature_delta" => self.append(place, "signature", wire::text(delta, "signature")),
            _ => Ok(()),
        }
    }

    fn append(&mut self, place: usize, field: &str, more: &str) -> Result<(), Fault> {
        self.draft.weigh(more.len())?;
        if let Some(Piece::Opaque(Value::Object(block))) = self.draft.piece(place) {
            match block.get_mut(field) {
                Some(Value::String(text)) => text.push_str(more),
                _ => {
                    block.insert(field.to_owned(), more.into());
                }
            }
        }
        Ok(())
    }
}

fn is_whole(arguments: &str) -> bool {
    arguments.starts_with('{')
        && arguments.ends_with('}')
        && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

impl Reader for Stream {
    fn push(&mut self, chunk: &[u8], told: &mut dyn FnMut(&str)) -> Result<bool, Fault> {
        for event in self.events.push(chunk)? {
            self.event(&event, told)?;
        }
        Ok(self.is_done)
    }

    fn end(mut self: Box<Self>) -> Result<Heard, Fault> {
        if let Some(event) = self.events.rest() {
            self.event(&event, &mut |_| {})?;
        }
        let Some(stop) = self.stop.or(self.is_done.then_some(Stop::End)) else {
            return Err(Fault::malformed("the stream broke off"));
        };
        Ok(Heard {
            blocks: self.draft.blocks(Dialect::Anthropic),
            stop,
            counts: self.counts,
        })
    }
}
