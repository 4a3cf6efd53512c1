//! Contracts without an implementation of ours: there only when the operator mapped them onto a server
//! (contract/mcp.md 1.1), and called there by the supervisor.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::supervised::came;
use super::{duration, object, text};
use crate::internal::{Call, Came, Handler, Internal};
use crate::request::{Mapped, Request};

struct Contract;

pub(super) fn tools() -> Vec<Internal> {
    let query = || text(4096, "What is searched for.");
    let limit =
        || json!({"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many at most."});
    let contract = |name: &'static str, description, parameters: Value, result: Value| {
        Internal::new(name, description, parameters, result, &Contract)
    };
    vec![
        contract(
            "knowledge.search",
            "Searches what is known.",
            object([
                ("query*", query()),
                ("top_k", limit()),
                ("filters", json!({"type": "object"})),
            ]),
            json!({"type": "object", "required": ["hits"], "properties": {"hits": {"type": "array"}}}),
        )
        .when(|desk| desk.context.choice.mapped.contains("knowledge.search")),
        contract(
            "knowledge.get",
            "Reads a document that is known.",
            object([("id", text(1024, "Its id.")), ("uri", text(8192, "Its URI."))]),
            json!({"type": "object", "required": ["content"]}),
        )
        .when(|desk| desk.context.choice.mapped.contains("knowledge.get")),
        contract(
            "knowledge.list",
            "Lists what is known.",
            object([("prefix", text(1024, "What the names begin with."))]),
            json!({"type": ["object", "array"]}),
        )
        .when(|desk| desk.context.choice.mapped.contains("knowledge.list")),
        contract(
            "search.query",
            "Searches.",
            object([
                ("query*", query()),
                ("kind", json!({"enum": ["web", "docs", "code"]})),
                ("limit", limit()),
                ("freshness", text(64, "How new.")),
            ]),
            json!({"type": "object", "required": ["results"], "properties": {"results": {"type": "array"}}}),
        )
        .when(|desk| desk.context.choice.mapped.contains("search.query")),
        contract(
            "search.fetch",
            "Fetches a page that a search found.",
            object([
                ("url*", text(8192, "The page.")),
                ("max_bytes", json!({"type": "integer", "minimum": 1})),
            ]),
            json!(null),
        )
        .when(|desk| desk.context.choice.mapped.contains("search.fetch")),
        contract(
            "code.run",
            "Runs a program.",
            object([
                ("language*", text(64, "The language.")),
                ("code*", text(200_000, "The program.")),
                ("files", json!({"type": "object"})),
                ("timeout", duration("How long at most.")),
            ]),
            ran(),
        )
        .when(|desk| desk.context.choice.mapped.contains("code.run")),
        contract(
            "exec",
            "Runs a command.",
            object([
                ("cmd*", text(4096, "The command.")),
                (
                    "args",
                    json!({"type": "array", "maxItems": 256, "items": {"type": "string"}}),
                ),
                ("cwd", text(4096, "The folder.")),
                ("stdin", json!({"type": "string"})),
                ("timeout", duration("How long at most.")),
            ]),
            ran(),
        )
        .when(|desk| desk.context.choice.mapped.contains("exec")),
    ]
}

fn ran() -> Value {
    json!({"type": "object", "required": ["stdout", "stderr", "exit_code"]})
}

#[async_trait]
impl Handler for Contract {
    async fn call(&self, call: Call<'_>) -> Came {
        let meta = call.desk.meta("", call.tool, &call.arguments, call.ordinal);
        let request = Request::Mapped(Mapped {
            tool: call.tool.to_owned(),
            arguments: call.arguments,
            idempotency_key: meta.idempotency_key,
            traceparent: meta.traceparent,
            ordinal: meta.ordinal,
        });
        came(call.desk.supervisor.request(request).await)
    }
}
