//! JSON lines on stderr, one flat object an event: `ts level event comp`, what is the same in each line of the process,
//! then the spans' and the event's fields; what several lines have is written once and copied.
//! Guarantees: one `write` a line, so that supervisor and workers can share a stderr; foreign crates speak from `warn`
//! up; audit lines do not depend on the level; what was said is logged only where the document asks for it. It must not
//! know what any event means: that is EVENTS.md.

use std::borrow::Cow;
use std::fmt::Debug;
use std::io::Write;
use std::sync::{Arc, OnceLock};

pub use agentd_base::text::AUDIT;
use agentd_base::text::{CONTENT, is_unseen};
use agentd_config::document::{LogLevel, Observability};
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, reload};

use crate::line::Line;

/// The event of a line that has none: a library wrote it.
const UNNAMED: &str = "log";

/// Changes what a running process logs.
#[derive(Clone)]
pub struct LevelHandle {
    filter: reload::Handle<Targets, Registry>,
    agent: Arc<OnceLock<Line>>,
}

impl Debug for LevelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LevelHandle")
    }
}

impl LevelHandle {
    /// From now on.
    pub fn set(&self, observability: &Observability) {
        // The only error is that the subscriber is gone, and then nobody logs.
        let _ = self
            .filter
            .reload(filter(observability.log_level(), observability.log_content));
    }

    /// From now on each line is of this agent. The first time counts: a process is of one.
    pub fn name(&self, agent_id: &str, agent_path: &str) {
        self.agent.get_or_init(|| {
            let mut line = Line::default();
            line.put("agent_id", agent_id);
            line.put("agent_path", agent_path);
            line
        });
    }
}

/// Installs the process's subscriber. `component` is `supervisor`, `agent`, `bridge` or `cli`.
pub fn install(component: &'static str, level: LogLevel) -> LevelHandle {
    let (filter, handle) = reload::Layer::new(filter(level, false));
    let agent = Arc::<OnceLock<Line>>::default();
    let lines = JsonLines {
        component,
        pid: std::process::id(),
        agent: agent.clone(),
        writer: std::io::stderr,
    };
    // A second install (a test in one process) keeps the first.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(lines.with_filter(filter)));
    LevelHandle {
        filter: handle,
        agent,
    }
}

fn filter(level: LogLevel, content: bool) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // Its faults reach us as errors, which are logged by those who know what they mean.
    let sdk = if level >= LevelFilter::DEBUG {
        LevelFilter::WARN
    } else {
        LevelFilter::OFF
    };
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("rmcp", sdk)
        .with_target("agentd", level)
        .with_target(AUDIT, LevelFilter::INFO)
        // Asked for by name, so whatever the level is.
        .with_target(
            CONTENT,
            if content {
                LevelFilter::INFO
            } else {
                LevelFilter::OFF
            },
        )
}

struct JsonLines<W> {
    component: &'static str,
    pid: u32,
    /// Whose it is, where that is known.
    agent: Arc<OnceLock<Line>>,
    writer: W,
}

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Fields::default();
        event.record(&mut own);
        let metadata = event.metadata();

        let mut line = Line::default();
        line.put("ts", &timestamp(jiff::Timestamp::now()));
        line.put("level", level(*metadata.level()));
        line.put("event", own.event.as_deref().unwrap_or(UNNAMED));
        line.put("comp", component(self.component, metadata.target()));
        line.put("pid", &self.pid);
        if let Some(agent) = self.agent.get() {
            line.extend(agent);
        }
        if !metadata.target().starts_with("agentd") {
            line.put("target", metadata.target());
        }
        if let Some(message) = &own.message {
            line.put("message", message);
        }
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.extend(&fields.others);
            }
        }
        line.extend(&own.others);
        let mut text = visible(line.json());
        text.push('\n');
        // Nobody is left to tell when stderr is gone.
        let _ = self.writer.make_writer().write_all(text.as_bytes());
    }
}

/// The same JSON without a character that could steer a terminal or is unseen. serde_json escapes those below a space
/// alone; some terminals take U+009B for the beginning of a command as well.
pub fn visible(json: String) -> String {
    // Most lines are of nothing but these.
    if json.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 32);
    // In JSON such a character stands in a string and nowhere else.
    for c in json.chars() {
        if c.is_control() || is_unseen(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Who speaks: the parts that both kinds of process have are named for themselves.
fn component(process: &'static str, target: &str) -> &'static str {
    match target.split("::").next() {
        Some("agentd_mcp" | "rmcp") => "mcp",
        Some("agentd_llm") => "intel",
        _ => process,
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

fn timestamp(now: jiff::Timestamp) -> String {
    format!("{now:.3}")
}

/// Of an event or a span.
#[derive(Default)]
struct Fields {
    event: Option<String>,
    message: Option<String>,
    others: Line,
}

impl Fields {
    fn put<T: Serialize + ?Sized>(&mut self, field: &Field, value: &T) {
        let name = match field.name() {
            // One name for one thing (contract/runtime.md section 14).
            "error" => "err",
            "run.id" => "run_id",
            name => name.trim_start_matches("r#"),
        };
        self.others.put(name, value);
    }

    fn put_text(&mut self, field: &Field, text: Cow<'_, str>) {
        match field.name() {
            "event" => self.event = Some(text.into_owned()),
            "message" => self.message = Some(text.into_owned()),
            _ => self.put(field, &text),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put_text(field, format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, &value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, &value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, &value);
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, &value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines(level: LogLevel, act: impl FnOnce()) -> Vec<Value> {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = JsonLines {
            component: "test",
            pid: 7,
            agent: Arc::default(),
            writer: move || writer.clone(),
        };
        let subscriber = Registry::default().with(layer.with_filter(filter(level, false)));
        tracing::subscriber::with_default(subscriber, act);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_time_is_that_of_the_contract() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_796_244_912_005, "2026-12-02T20:55:12.005Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        ] {
            let time = jiff::Timestamp::from_microsecond(millis * 1000 + 999).unwrap();
            assert_eq!(timestamp(time), text);
        }
    }

    #[test]
    fn a_line_is_flat_and_carries_its_spans() {
        let lines = lines(LogLevel::Info, || {
            let span = tracing::info_span!("turn", run.id = "r1");
            let _entered = span.enter();
            tracing::info!(event = "turn.done", steps = 3, error = "e", "it\nended");
            tracing::debug!(event = "turn.round");
        });
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!(line["event"], "turn.done");
        assert_eq!(line["run_id"], "r1");
        assert_eq!(line["steps"], 3);
        assert_eq!(line["err"], "e");
        assert_eq!(line["message"], "it\nended");
        assert_eq!(line["comp"], "test");
        assert_eq!(line["pid"], 7);
        assert_eq!(line["level"], "info");
    }

    #[test]
    fn what_could_steer_a_terminal_is_escaped_in_a_line() {
        let words = "a\u{9b}31m\u{7f}\u{202e}\u{e0041}\u{1b}[2J é 語";
        let shown = |text: &str| visible(text.to_owned());
        let json = serde_json::to_string(words).unwrap();
        assert_eq!(
            shown(&json),
            "\"a\\u009b31m\\u007f\\u202e\\udb40\\udc41\\u001b[2J é 語\""
        );
        let read: String = serde_json::from_str(&shown(&json)).unwrap();
        assert_eq!(read, words);
        let plain = "{\"a\":\"é\"}";
        assert_eq!(shown(plain), plain);
    }

    #[test]
    fn audit_does_not_depend_on_the_level_and_foreign_crates_are_quiet() {
        let lines = lines(LogLevel::Error, || {
            tracing::info!(target: AUDIT, event = "audit", tool = "echo");
            tracing::warn!(target: "agentd::x", event = "x");
            tracing::error!(target: "rmcp::transport::worker", "quit");
            tracing::warn!(target: "hyper::proto", "closed");
        });
        let events: Vec<_> = lines.iter().map(|line| line["event"].clone()).collect();
        assert_eq!(events, ["audit"]);
    }

    #[test]
    fn a_line_of_a_library_is_an_event_of_one_name() {
        let lines = lines(LogLevel::Debug, || {
            tracing::error!(target: "rmcp::transport::worker", "quit");
            tracing::info!(target: "agentd_llm::failover", event = "intel.result");
        });
        let told: Vec<_> = lines
            .iter()
            .map(|line| json!([line["event"], line["comp"], line["target"], line["message"]]))
            .collect();
        assert_eq!(
            told,
            [
                json!(["log", "mcp", "rmcp::transport::worker", "quit"]),
                json!(["intel.result", "intel", null, null]),
            ]
        );
    }
}
