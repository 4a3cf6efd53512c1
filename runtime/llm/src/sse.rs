//! `text/event-stream`, as the HTML standard has it: events out of chunks of any size. Pure; the stream and each of its
//! events are bounded.

use crate::wire::{Fault, REPLY_BYTES, STREAM_BYTES};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// `event:`, empty when there was none.
    pub(crate) name: String,
    /// `data:`, its lines joined.
    pub(crate) data: String,
}

/// The events of a stream.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    after_cr: bool,
    name: String,
    data: String,
    has_data: bool,
    has_begun: bool,
    received: usize,
}

impl Events {
    /// Takes a chunk; the events that it completes.
    ///
    /// # Errors
    /// When the stream, or an event in it, is longer than any answer.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Event>, Fault> {
        self.received = self.received.saturating_add(chunk.len());
        if self.received > STREAM_BYTES {
            return Err(Fault::malformed(format!(
                "the stream is longer than {STREAM_BYTES} bytes"
            )));
        }
        let mut events = Vec::new();
        let lines = chunk.split_inclusive(|byte| matches!(byte, b'\r' | b'\n'));
        for line in lines {
            let ends_crlf = line == b"\n" && self.after_cr;
            self.after_cr = line.ends_with(b"\r");
            if ends_crlf {
                continue;
            }
            match line {
                [text @ .., b'\r' | b'\n'] => {
                    self.line.extend_from_slice(text);
                    events.extend(self.line());
                }
                text => self.line.extend_from_slice(text),
            }
        }
        if self.line.len().saturating_add(self.data.len()) > REPLY_BYTES {
            return Err(Fault::malformed(format!(
                "one event is longer than {REPLY_BYTES} bytes"
            )));
        }
        Ok(events)
    }

    /// The event that the stream broke off in; the standard drops it, but some servers leave out its last line end.
    pub(crate) fn rest(&mut self) -> Option<Event> {
        let last = self.line();
        last.or_else(|| self.dispatch())
    }

    /// A line is complete; an event where it is empty.
    fn line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = match (self.has_begun, line.strip_prefix('\u{feff}')) {
            (false, Some(rest)) => rest,
            _ => line.as_ref(),
        };
        self.has_begun = true;
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            // Comments, ids and times to come back are of no use to us.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.into(),
            data: data.into(),
        }
    }

    #[test]
    fn events_in_every_form() {
        let stream = "\u{feff}: hello\r\n\r\nevent: a\r\ndata: one\r\ndata:two\r\rdata\n\nid: 7\n\ndata:  x: y\n\nevent: b\n\ndata: last";
        let expected = [
            event("a", "one\ntwo"),
            event("", ""),
            event("", " x: y"),
            event("", "last"),
        ];
        for size in 1..stream.len() {
            let mut events = Events::default();
            let mut seen: Vec<_> = stream
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| events.push(chunk).unwrap())
                .collect();
            seen.extend(events.rest());
            assert_eq!(seen, expected, "{size}");
            assert_eq!(events.rest(), None);
        }
    }
}
