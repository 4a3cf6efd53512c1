//! Everything that is logged on this thread, ours and the SDK's, at every level.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::server::{SECRET, TOKEN, basic};

/// Collects until it is dropped.
pub(crate) struct Output {
    text: Arc<Mutex<String>>,
    _guard: DefaultGuard,
}

impl Output {
    pub(crate) fn start() -> Self {
        let text = Arc::<Mutex<String>>::default();
        let guard = tracing::subscriber::set_default(Collector(text.clone()));
        Self { text, _guard: guard }
    }

    /// Neither the log nor `more` holds what was told in confidence.
    pub(crate) fn is_clean(&self, more: &str) {
        let logged = self.text.lock().unwrap().clone();
        assert!(!logged.is_empty());
        for canary in [SECRET, TOKEN, basic("svc", SECRET).trim_start_matches("Basic ")] {
            for text in [logged.as_str(), more] {
                let line = text.lines().find(|line| line.contains(canary));
                assert_eq!(line, None);
            }
        }
    }
}

struct Collector(Arc<Mutex<String>>);

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Text(&self.0));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Text(&self.0));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Text(&self.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text<'a>(&'a Mutex<String>);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let mut text = self.0.lock().unwrap();
        let _ = writeln!(text, "{}={value:?}", field.name());
    }
}
