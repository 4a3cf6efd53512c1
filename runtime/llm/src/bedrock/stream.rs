//! A streamed answer of Converse: the events of Messages in other words, in binary messages. Pure; works on untrusted
//! bytes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::frames::{Frame, Frames};
use super::read;
use crate::dialect::Dialect;
use crate::message::Stop;
use crate::wire::{self, Counts, Draft, Fault, Heard, Piece, Reader, STREAM_BYTES};

/// The reader.
#[derive(Default)]
pub(crate) struct Stream {
    frames: Frames,
    received: usize,
    draft: Draft,
    /// The place of each block in the draft.
    places: BTreeMap<u64, usize>,
    stop: Option<Stop>,
    counts: Counts,
    /// The counts came, which is the last event.
    is_done: bool,
}

impl Stream {
    fn frame(&mut self, frame: &Frame, told: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let kind = frame.header(":message-type");
        let value: Value = if frame.payload.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&frame.payload).unwrap_or(Value::Null)
        };
        match kind {
            "event" | "" => {}
            "exception" => {
                let exception = frame.header(":exception-type");
                return Err(failure(exception, super::status(exception), &value));
            }
            _ => return Err(failure(frame.header(":error-code"), 500, &value)),
        }
        let index = value
            .get("contentBlockIndex")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        match frame.header(":event-type") {
            "contentBlockStart" => self.begin(index, &value),
            "contentBlockDelta" => self.go_on(index, value.get("delta").unwrap_or(&Value::Null), told),
            "messageStop" => {
                self.stop = Some(read::stop(wire::text(&value, "stopReason")));
                Ok(())
            }
            "metadata" => {
                self.counts = read::counts(value.get("usage").unwrap_or(&Value::Null));
                self.is_done = self.stop.is_some();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, index: u64, value: &Value) -> Result<(), Fault> {
        // Texts and reasoning begin with their first piece.
        if let Some(call) = value.pointer("/start/toolUse") {
            let (id, name) = (wire::text(call, "toolUseId"), wire::text(call, "name"));
            self.draft.weigh(id.len() + name.len())?;
            let place = self.draft.add(Piece::Call {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: String::new(),
            });
            self.places.insert(index, place);
        }
        Ok(())
    }

    fn go_on(&mut self, index: u64, delta: &Value, told: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        if let Some(text) = delta.get("text").and_then(Value::as_str) {
            let place = self.place(index, || Piece::Text(String::new()));
            return self.draft.text(place, text, told);
        }
        if let Some(call) = delta.get("toolUse") {
            let Some(place) = self.places.get(&index).copied() else {
                return Ok(());
            };
            return self.draft.arguments(place, wire::text(call, "input"));
        }
        let Some(Value::Object(reasoning)) = delta.get("reasoningContent") else {
            return Ok(());
        };
        let place = self.place(index, || Piece::Opaque(json!({"reasoningContent": {}})));
        for (field, more) in reasoning {
            let Some(more) = more.as_str() else { continue };
            self.draft.weigh(more.len())?;
            if let Some(Piece::Opaque(block)) = self.draft.piece(place) {
                append(block, field, more);
            }
        }
        Ok(())
    }

    fn place(&mut self, index: u64, piece: impl FnOnce() -> Piece) -> usize {
        let draft = &mut self.draft;
        *self.places.entry(index).or_insert_with(|| draft.add(piece()))
    }
}

/// More of a reasoning block, in the form that a whole one has.
fn append(block: &mut Value, field: &str, more: &str) {
    let Some(Value::Object(content)) = block.get_mut("reasoningContent") else {
        return;
    };
    let target = if field == "redactedContent" {
        Some(content)
    } else {
        let text = content
            .entry("reasoningText")
            .or_insert_with(|| Value::Object(Map::new()));
        text.as_object_mut()
    };
    let Some(target) = target else { return };
    match target.get_mut(field) {
        Some(Value::String(text)) => text.push_str(more),
        _ => {
            target.insert(field.to_owned(), more.into());
        }
    }
}

fn failure(code: &str, status: u16, value: &Value) -> Fault {
    let (message, _) =
        wire::error_words(value).unwrap_or_else(|| ("an error without words".to_owned(), String::new()));
    Fault::Status(status, wire::with_code(message, code))
}

impl Reader for Stream {
    fn push(&mut self, chunk: &[u8], told: &mut dyn FnMut(&str)) -> Result<bool, Fault> {
        self.received = self.received.saturating_add(chunk.len());
        if self.received > STREAM_BYTES {
            return Err(Fault::malformed(format!(
                "the stream is longer than {STREAM_BYTES} bytes"
            )));
        }
        self.frames.push(chunk);
        while !self.is_done
            && let Some(frame) = self.frames.next().map_err(Fault::malformed)?
        {
            self.frame(&frame, told)?;
        }
        Ok(self.is_done)
    }

    fn end(self: Box<Self>) -> Result<Heard, Fault> {
        let is_cut = !self.is_done && !self.frames.is_empty();
        match self.stop {
            Some(stop) if !is_cut => Ok(Heard {
                blocks: self.draft.blocks(Dialect::Bedrock),
                stop,
                counts: self.counts,
            }),
            _ => Err(Fault::malformed("the stream broke off")),
        }
    }
}
