//! A scripted server of 2025-11-25 that does everything right, with a session and without a GET stream. A fault suite
//! takes one of its answers away and leaves the rest.

use serde_json::{Value, json};

use super::tap::{Act, Asked};

/// The tool that it has.
#[must_use]
pub fn echo() -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    json!({ "name": "echo", "description": "says it again", "inputSchema": schema })
}

/// The right answer.
#[must_use]
pub fn sane(asked: &Asked) -> Act {
    let what = asked.what();
    let result = match what.as_str() {
        "server/discover" => {
            let error = json!({ "code": -32000, "message": "Bad Request: Server not initialized" });
            let answer = json!({ "jsonrpc": "2.0", "id": null, "error": error });
            return Act::text(400, "application/json", answer.to_string());
        }
        "initialize" => {
            let capabilities = json!({ "tools": { "listChanged": true }, "resources": { "subscribe": true, "listChanged": true } });
            let result = json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "serverInfo": { "name": "sane", "version": "1" },
            });
            return Act::json(&asked.result(&result)).with("mcp-session-id", "session-1");
        }
        "tools/list" => json!({ "tools": [echo()] }),
        "tools/call" => {
            let text = format!(
                "echo: {}",
                asked.body["params"]["arguments"]["text"]
                    .as_str()
                    .unwrap_or_default()
            );
            json!({ "content": [{ "type": "text", "text": text }] })
        }
        "resources/list" => json!({ "resources": [{ "uri": "note://one", "name": "one" }] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => {
            let uri = &asked.body["params"]["uri"];
            json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": "note one" }] })
        }
        "resources/subscribe" | "resources/unsubscribe" | "ping" => json!({}),
        "DELETE" => return Act::status(200),
        "GET" => return Act::status(405),
        _ => return Act::status(202),
    };
    Act::json(&asked.result(&result))
}
