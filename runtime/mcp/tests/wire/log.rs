//! What was logged on this thread.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// Collects the events of our crates until it is dropped.
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl Log {
    pub(crate) fn start() -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let guard = tracing::subscriber::set_default(Collector(lines.clone()));
        Self { lines, _guard: guard }
    }

    /// The lines of this event, each as `level key=value …`.
    pub(crate) fn of(&self, event: &str) -> Vec<String> {
        let wanted = format!(" event={event} ");
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .filter(|line| line.contains(&wanted))
            .cloned()
            .collect()
    }

    /// The same, as soon as there are so many.
    pub(crate) async fn until(&self, event: &str, times: usize) -> Vec<String> {
        loop {
            let lines = self.of(event);
            if lines.len() >= times {
                return lines;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

struct Collector(Arc<Mutex<Vec<String>>>);

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("agentd_mcp")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, "{}={value} ", field.name());
    }
}
