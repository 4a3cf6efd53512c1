//! The events of the log: the table of them (EVENTS.md) against the sources, and one schema for each line that a process
//! writes, which the harness holds each process of each test against.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use crate::process::Agentd;

/// What the table says of an event.
struct Row {
    levels: BTreeSet<&'static str>,
    components: BTreeSet<&'static str>,
}

static TABLE: LazyLock<BTreeMap<&str, Row>> = LazyLock::new(|| {
    let rows = include_str!("../../EVENTS.md")
        .lines()
        .filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let row = Row {
            levels: cells[2].split_whitespace().collect(),
            components: cells[3].split_whitespace().collect(),
        };
        assert!(cells.len() == 6 && !cells[4].is_empty(), "{line}");
        (cells[1].trim_matches('`'), row)
    })
    .collect()
});

/// What is wrong with a line of the log (contract/runtime.md section 14); none when it is as it should be.
pub fn fault(line: &Value) -> Option<String> {
    // The language's own last words of a process that gets no more memory.
    let is_last_words =
        |text: &str| text.starts_with("memory allocation of ") || text.starts_with("note: run with `RUST_");
    if line.as_str().is_some_and(is_last_words) {
        return None;
    }
    let Some(members) = line.as_object() else {
        return Some(format!("no JSON object: {line}"));
    };
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let (name, level, component) = (text("event"), text("level"), text("comp"));
    let is_known = TABLE
        .get(name)
        .is_some_and(|row| row.levels.contains(level) && row.components.contains(component));
    if !is_known {
        return Some(format!("not in EVENTS.md with this level and comp: {line}"));
    }
    let ts = text("ts");
    if ts.len() != 24 || !ts.ends_with('Z') || ts.parse::<jiff::Timestamp>().is_err() || !line["pid"].is_u64()
    {
        return Some(format!("ts or pid: {line}"));
    }
    let is_hex = |value: &Value, digits: usize| {
        value.as_str().is_some_and(|text| {
            text.len() == digits && text.bytes().all(|b| b"0123456789abcdef".contains(&b))
        })
    };
    let wrong = members.iter().find(|(name, value)| match name.as_str() {
        "run_id" | "agent_id" | "agent_path" | "err" | "message" | "target" => !value.is_string(),
        "trace_id" => !is_hex(value, 32),
        "span_id" | "parent_span_id" => !is_hex(value, 16),
        "dur_ms" => !value.is_u64(),
        // One name for one thing.
        "error" | "run.id" | "duration_ms" => true,
        _ => value.is_object() || value.is_array(),
    });
    let wrong = wrong.map(|(name, _)| name.as_str());
    let wrong = wrong.or_else(|| missing(line));
    wrong.map(|name| format!("{name}: {line}"))
}

/// Written where no more than the run's id is known: before its record was read, and where that could not be.
const BY_ID: [&str; 8] = [
    "a2a.cancel",
    "a2a.push.delivered",
    "a2a.push.failed",
    "a2a.push.registered",
    "restore.task.corrupt",
    "store.get.fail",
    "store.put.fail",
    "turn.failed",
];

/// A member that a line has to have beside those that it has, or to have otherwise.
fn missing(line: &Value) -> Option<&'static str> {
    let text = |name: &str| line[name].as_str();
    let (id, path) = (text("agent_id"), text("agent_path"));
    if id.is_some() != path.is_some() || id.zip(path).is_some_and(|(id, path)| !path.ends_with(id)) {
        return Some("agent_path");
    }
    let (trace, span, parent) = (text("trace_id"), text("span_id"), text("parent_span_id"));
    let is_placed = trace.is_some() && span.is_some() && text("run_id").is_some() && id.is_some();
    let is_loose = trace.is_none() && span.is_none() && parent.is_none();
    if !is_placed && !is_loose {
        return Some("trace_id, span_id, run_id, agent_id");
    }
    if text("run_id").is_some() && !is_placed && !BY_ID.contains(&text("event").unwrap_or_default()) {
        return Some("trace_id");
    }
    (parent.is_some() && parent == span).then_some("parent_span_id")
}

/// The lines of a process that knew whose it is, and did not say so.
fn nameless(lines: &[Value]) -> Vec<String> {
    let mut named = BTreeSet::new();
    let mut faults = Vec::new();
    for line in lines {
        let process = line["pid"].as_u64();
        if line["agent_id"].is_string() {
            named.insert(process);
        } else if named.contains(&process) {
            faults.push(format!("agent_id: {line}"));
        }
    }
    faults
}

impl Drop for Agentd {
    /// Whatever a test is about: what its process has said is as the log's schema has it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let lines = self.lines.lock().unwrap();
        let mut faults: Vec<String> = lines.iter().filter_map(fault).collect();
        faults.extend(nameless(&lines));
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

/// The sources of the runtime without their tests.
fn sources() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "tests" && name != "target" {
                walk(&path, found);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    let mut files = Vec::new();
    walk(Path::new(env!("CARGO_MANIFEST_DIR")), &mut files);
    assert!(files.len() > 100, "{files:?}");
    let product = |file: PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()
    };
    files.into_iter().map(product).collect()
}

/// The arguments of each call that writes a line, after its level.
fn written(source: &str) -> impl Iterator<Item = (&'static str, &str)> {
    ["error", "warn", "info", "debug", "trace"]
        .into_iter()
        .flat_map(move |level| {
            let begin = format!("tracing::{level}!(");
            let calls = source.match_indices(&begin).map(move |(at, begin)| {
                let rest = &source[at + begin.len()..];
                (level, rest.split(");").next().unwrap())
            });
            calls.collect::<Vec<_>>()
        })
}

#[test]
fn the_table_has_every_event_of_the_sources_and_no_other() {
    let sources = sources();
    let mut levels = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (level, arguments) in sources.iter().flat_map(|source| written(source)) {
        // One that is chosen between stands elsewhere; its level is checked where it is written.
        if arguments.starts_with("event,") {
            continue;
        }
        let (_, name) = arguments
            .split_once("event = ")
            .unwrap_or_else(|| panic!("an event without a name: {arguments}"));
        if let Some(name) = name.strip_prefix('"') {
            levels
                .entry(name.split('"').next().unwrap())
                .or_default()
                .insert(level);
        }
    }
    for (name, levels) in &levels {
        let row = TABLE
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in EVENTS.md"));
        assert!(levels.is_subset(&row.levels), "{name}: {levels:?}");
    }
    for (name, row) in TABLE.iter() {
        let named = format!("\"{name}\"");
        assert!(
            sources.iter().any(|source| source.contains(&named)),
            "nobody writes {name}"
        );
        if let Some(levels) = levels.get(name) {
            assert_eq!(*levels, row.levels, "{name}");
        }
    }
}

#[test]
fn a_line_that_is_not_of_the_schema_is_noticed() {
    let line = serde_json::json!({
        "ts": "2026-12-01T10:00:00.000Z", "level": "info", "event": "turn.start", "comp": "supervisor", "pid": 7,
        "run_id": "r", "trace_id": "0123456789abcdef0123456789abcdef", "span_id": "0123456789abcdef",
        "parent_span_id": "1123456789abcdef", "agent_id": "s", "agent_path": "a/s",
    });
    assert_eq!(fault(&line), None);
    for (member, value) in [
        ("ts", "yesterday".into()),
        ("level", "debug".into()),
        ("event", "turn.started".into()),
        ("comp", "mcp".into()),
        ("pid", Value::Null),
        ("trace_id", "0".into()),
        ("trace_id", Value::Null),
        ("span_id", "1123456789abcdef".into()),
        ("run_id", Value::Null),
        ("agent_id", "t".into()),
        ("agent_path", Value::Null),
        ("error", "e".into()),
        ("dur_ms", "3".into()),
        ("steps", serde_json::json!([1])),
    ] {
        let mut other = line.clone();
        other[member] = value;
        assert!(fault(&other).is_some(), "{other}");
    }
    assert!(fault(&"thread panicked".into()).is_some());
    let mut nobodys = line.clone();
    nobodys.as_object_mut().unwrap().remove("agent_id");
    assert_eq!(nameless(&[nobodys.clone(), line.clone()]), Vec::<String>::new());
    assert_eq!(nameless(&[line, nobodys]).len(), 1);
}
