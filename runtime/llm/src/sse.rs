//! `text/event-stream`, as the HTML standard has it: events out of chunks of any size. Pure; bounded by the caller, who
//! counts what it pushes.

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
}

impl Events {
    /// Takes a chunk; the events that it completes.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for byte in chunk {
            let ends_crlf = *byte == b'\n' && self.after_cr;
            self.after_cr = *byte == b'\r';
            if ends_crlf {
                continue;
            }
            if matches!(byte, b'\r' | b'\n') {
                events.extend(self.line());
            } else {
                self.line.push(*byte);
            }
        }
        events
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
                .flat_map(|chunk| events.push(chunk))
                .collect();
            seen.extend(events.rest());
            assert_eq!(seen, expected, "{size}");
            assert_eq!(events.rest(), None);
        }
    }
}
