//! `workflow.*`. This agent has no workflow engine: the tools say so.

use async_trait::async_trait;
use serde_json::json;

use super::{duration, object, text};
use crate::internal::{Call, Came, Handler, Internal};

struct None;

#[async_trait]
impl Handler for None {
    async fn call(&self, call: Call<'_>) -> Came {
        match call.tool {
            "workflow.list" => Came::Value(json!({"workflows": []})),
            _ => Came::error("there are no workflows here"),
        }
    }
}

pub(super) fn tools() -> Vec<Internal> {
    let name = || text(64, "The workflow's name.");
    let run = || text(128, "The run.");
    let either = || object([("run", run()), ("name", name())]);
    let definition = || json!({"type": "object", "description": "The definition."});
    let reason = || text(1000, "Why.");
    let tool =
        |name, description, parameters| Internal::new(name, description, parameters, json!(null), &None);
    vec![
        tool(
            "workflow.run",
            "Begins a run of a workflow.",
            object([
                ("name*", name()),
                ("inputs", json!({"type": "object"})),
                ("start", text(64, "The start node.")),
                ("wait", json!({"type": "boolean"})),
                ("timeout", duration("How long to wait.")),
            ]),
        ),
        tool(
            "workflow.create",
            "Makes a workflow.",
            object([("definition*", definition()), ("arm", json!({"type": "boolean"}))]),
        ),
        tool(
            "workflow.update",
            "Changes a workflow.",
            object([("name*", name()), ("definition*", definition())]),
        ),
        tool(
            "workflow.delete",
            "Drops a workflow.",
            object([("name*", name())]),
        ),
        tool("workflow.list", "Lists the workflows.", object([])),
        tool("workflow.status", "How a run or a workflow is.", either()),
        tool(
            "workflow.cancel",
            "Ends a run.",
            object([("run*", run()), ("reason", reason())]),
        ),
        tool(
            "workflow.wait",
            "Waits for a run.",
            object([("run*", run()), ("timeout", duration("How long to wait."))]),
        ),
        tool(
            "workflow.pause",
            "Holds a run or a workflow.",
            object([
                ("run", run()),
                ("name", name()),
                ("before_step", text(64, "The step.")),
            ]),
        ),
        tool(
            "workflow.resume",
            "Lets a run or a workflow go on.",
            object([
                ("run", run()),
                ("name", name()),
                ("before_step", text(64, "The step.")),
            ]),
        ),
        tool(
            "workflow.signal",
            "Sends a signal.",
            object([("name*", name()), ("payload", json!({})), ("run", run())]),
        ),
    ]
}
