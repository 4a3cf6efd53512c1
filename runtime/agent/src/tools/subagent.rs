//! `subagent.*`: work that is given away, with exactly the tools that it needs.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::supervised::Supervised;
use super::{duration, object, text};
use crate::internal::{Call, Came, Handler, Internal};
use crate::request::SIZE;
use crate::skills;

/// Begins one. Its skills are looked for on its caller's desk: one that is not there would be left out where the caller
/// reads nothing of it.
struct Run;

#[async_trait]
impl Handler for Run {
    async fn call(&self, mut call: Call<'_>) -> Came {
        let names = |key: &str| {
            let names = call.arguments.get(key)?.as_array()?;
            Some(names.iter().filter_map(Value::as_str).collect::<Vec<_>>())
        };
        let (wanted, chosen) = (names("skills").unwrap_or_default(), names("servers"));
        // Where there are no sources at all, the supervisor says so.
        if !wanted.is_empty() && call.desk.skills.has_sources() {
            match skills::servers_of(call.desk, &wanted, chosen.as_deref()) {
                Ok(servers) => {
                    let servers: Vec<Value> = servers.into_iter().map(Value::String).collect();
                    call.arguments.insert("skill_servers".to_owned(), servers.into());
                }
                Err(why) => return Came::error(why),
            }
        }
        Supervised.call(call).await
    }
}

pub(super) fn tools() -> Vec<Internal> {
    let handle = || text(128, "The subagent's handle.");
    vec![
        Internal::new(
            "subagent.run",
            "Gives work to a subagent, which sees nothing of this conversation but what it is told here.",
            run(),
            subagent(),
            &Run,
        ),
        Internal::new(
            "subagent.send",
            "Says something to a warm subagent and waits for its answer.",
            object([
                ("handle*", handle()),
                ("message*", text(100_000, "What is said to it.")),
            ]),
            subagent(),
            &Supervised,
        ),
        Internal::new(
            "subagent.kill",
            "Ends a subagent.",
            object([("handle*", handle()), ("reason", text(1000, "Why."))]),
            subagent(),
            &Supervised,
        ),
        Internal::new(
            "subagent.retire",
            "Lets a warm subagent end: it finishes what it does and takes no more messages.",
            object([("handle*", handle())]),
            subagent(),
            &Supervised,
        ),
        Internal::new(
            "subagent.status",
            "How a subagent is.",
            object([("handle*", handle())]),
            subagent(),
            &Supervised,
        ),
        Internal::new(
            "subagent.await",
            "Waits until a subagent has ended.",
            object([("handle*", handle()), ("timeout", duration("How long at most."))]),
            subagent(),
            &Supervised,
        ),
        Internal::new(
            "subagent.list",
            "The subagents of this conversation.",
            object([]),
            object([("subagents*", json!({"type": "array", "items": subagent()}))]),
            &Supervised,
        ),
    ]
}

/// The name of a skill as a text refers to it.
const SKILL: &str = r"^[A-Za-z0-9_-]([A-Za-z0-9_.:/-]{0,254}[A-Za-z0-9_-])?$";

fn memory() -> Value {
    json!({
        "description": "Memory of its process, such as 512M or 1.5GiB, or a number of bytes; at least 128 MiB.",
        "anyOf": [{"type": "string", "pattern": SIZE}, {"type": "integer", "minimum": 0}],
    })
}

fn run() -> Value {
    let names = |description: &str| json!({"type": "array", "maxItems": 256, "items": {"type": "string", "minLength": 1, "maxLength": 256}, "description": description});
    let said = object([
        ("role*", json!({"enum": ["user", "assistant"]})),
        ("content*", text(100_000, "The words.")),
    ]);
    let count = || json!({"type": "integer", "minimum": 1});
    object([
        (
            "instruction*",
            text(100_000, "What it is to do, with everything it needs to know."),
        ),
        (
            "mode",
            json!({
                "enum": ["sync", "async", "detached", "warm"],
                "description": "sync (the default) waits for the result; async goes on side by side and ends with this turn when that is cancelled; detached goes on in any case; warm waits for the first answer and takes more messages.",
            }),
        ),
        (
            "tools",
            names("The tools that it gets, by name. Absent: those of its servers. Never more than you have."),
        ),
        ("servers", names("The MCP servers that it gets. Absent: all.")),
        (
            "limits",
            object([
                ("steps", count()),
                ("tokens", count()),
                ("deadline", duration("Its time.")),
                ("memory", memory()),
                ("cpu", duration("Processor time of its process.")),
            ]),
        ),
        (
            "priority",
            json!({
                "enum": ["low", "normal", "high"],
                "description": "How its process is scheduled: high as this one, normal (the default) after it, low after all others.",
            }),
        ),
        (
            "skills",
            json!({
                "type": "array", "maxItems": 32, "items": {"type": "string", "pattern": SKILL},
                "description": "Skills that it begins with, by name.",
            }),
        ),
        (
            "context",
            json!({"type": "array", "maxItems": 64, "items": said, "description": "What was said before, for it to know."}),
        ),
        (
            "output_contract",
            text(10_000, "The form of its answer, in words."),
        ),
        (
            "output_schema",
            json!({"type": "object", "description": "JSON Schema of its answer."}),
        ),
    ])
}

/// What is said of a subagent.
fn subagent() -> Value {
    object([
        ("handle*", json!({"type": "string"})),
        ("mode*", json!({"type": "string"})),
        ("status*", json!({"type": "string"})),
        ("result", json!({"type": "string"})),
        ("reason", json!({"type": "string"})),
        ("uri", json!({"type": "string"})),
        ("steps", json!({"type": "integer"})),
        ("tokens", json!({"type": "integer"})),
        ("tool_calls", json!({"type": "integer"})),
    ])
}
