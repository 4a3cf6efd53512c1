//! A streamed answer of Responses: texts as they come, and the whole of it with the last event. Pure; works on untrusted
//! bytes.

use serde_json::Value;

use super::read;
use crate::sse::{Event, Events};
use crate::wire::{self, Fault, Heard, REPLY_BYTES, Reader};

/// The reader.
#[derive(Default)]
pub(crate) struct Stream {
    events: Events,
    /// Items that are complete, for servers that leave them out of the last event.
    items: Vec<Value>,
    kept: usize,
    /// How much was told, of which the items hold the same again.
    told: usize,
    /// The text part that was told last.
    part: Option<(u64, u64)>,
    last: Option<Value>,
}

impl Stream {
    fn event(&mut self, event: &Event, told: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" || self.last.is_some() {
            return Ok(());
        }
        let mut value: Value =
            serde_json::from_str(data).map_err(|error| Fault::unreadable("an event is no JSON", &error))?;
        let kind = match wire::text(&value, "type") {
            "" => event.name.clone(),
            kind => kind.to_owned(),
        };
        match kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                let number = |field: &str| value.get(field).and_then(Value::as_u64).unwrap_or(0);
                let part = (number("output_index"), number("content_index"));
                let delta = wire::text(&value, "delta");
                self.told = weighed(self.told, delta.len())?;
                if !delta.is_empty() {
                    if self.part.is_some_and(|last| last != part) {
                        told("\n");
                    }
                    self.part = Some(part);
                    told(delta);
                }
            }
            "response.output_item.done" => {
                self.kept = weighed(self.kept, data.len())?;
                self.items.extend(value.get_mut("item").map(Value::take));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.last = value.get_mut("response").map(Value::take);
            }
            "error" => return Err(read::failure(&value)),
            _ => {}
        }
        Ok(())
    }
}

fn weighed(before: usize, more: usize) -> Result<usize, Fault> {
    let bytes = before.saturating_add(more);
    if bytes > REPLY_BYTES {
        return Err(Fault::malformed(format!(
            "the answer is longer than {REPLY_BYTES} bytes"
        )));
    }
    Ok(bytes)
}

impl Reader for Stream {
    fn push(&mut self, chunk: &[u8], told: &mut dyn FnMut(&str)) -> Result<bool, Fault> {
        for event in self.events.push(chunk)? {
            self.event(&event, told)?;
        }
        Ok(self.last.is_some())
    }

    fn end(mut self: Box<Self>) -> Result<Heard, Fault> {
        if let Some(event) = self.events.rest() {
            self.event(&event, &mut |_| {})?;
        }
        match &self.last {
            Some(last) => read::response(last, &self.items),
            None => Err(Fault::malformed("the stream broke off")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_told_has_a_bound_and_is_not_counted_twice() {
        let delta = |text: &str| {
            let event = json!({"type": "response.output_text.delta", "delta": text});
            format!("data: {event}\n\n").into_bytes()
        };
        let text = "x".repeat(REPLY_BYTES / 8);
        let mut stream = Stream::default();
        let mut told = 0;
        for _ in 0..8 {
            stream
                .push(&delta(&text), &mut |text| told += text.len())
                .unwrap();
        }
        let item = json!({"type": "response.output_item.done", "item": {"type": "message", "content": text}});
        stream
            .push(format!("data: {item}\n\n").as_bytes(), &mut |_| {})
            .unwrap();
        assert_eq!(told, REPLY_BYTES);
        let fault = stream.push(&delta("x"), &mut |text| told += text.len());
        assert!(matches!(fault, Err(Fault::Malformed(_))), "{fault:?}");
        assert_eq!(told, REPLY_BYTES);
    }
}
