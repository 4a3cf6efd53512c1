//! An agent, a bridge and a server: every hop with an identity.

use agentd_net::{Declared, Destination, HttpClient, Options, Timeouts, TlsMode};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::bridge::{Bridge, list};
use crate::install::{Install, mount};
use crate::mcp_server::McpServer;
use crate::process::{Agentd, PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_calls_a_tool_through_the_bridge_with_its_own_identity() {
    let (install, server) = (Install::start().await, McpServer::start().await);
    let mut bridge = Bridge::start(&install, server.address, "/mcp", &["helper-agent"]).await;
    let model = crate::model::Model::start().await;
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    let half = json!({
        "intelligence": { "model": "scripted", "endpoints": [model.url()] },
        "mcp": { "servers": [{
            "name": "fs", "endpoint": format!("https://{}/mcp", bridge.address),
            "tls": { "spiffe_id": install.id("fs-mcp") },
        }] },
        "a2a": { "principals": [{ "name": "boss", "spiffe_id": install.id("boss"), "role": "user" }] },
    });
    mount(
        &live,
        "..1",
        &[
            ("agentd.json", &half.to_string()),
            ("bundle.pem", &install.bundle()),
        ],
    );
    let mut document = install.document("helper-agent", folder.path(), &live);
    let own = json!({ "a2a": { "listen": "https://127.0.0.1:0" }, "store": { "kind": "memory" } });
    document
        .as_object_mut()
        .unwrap()
        .extend(own.as_object().unwrap().clone());
    let config = folder.path().join("agentd.json");
    std::fs::write(&config, document.to_string()).unwrap();
    let mut agent = Agentd::start(&["-c", config.to_str().unwrap()], &[], folder.path());
    let address = agent.event("a2a.listen").await["address"]
        .as_str()
        .unwrap()
        .to_owned();
    agent.event("mcp.connect").await;

    let tls = TlsMode::Spiffe {
        source: install.identity("boss"),
        expected: install.id("helper-agent"),
    };
    let destination = Destination::declared(&format!("https://{address}"), Declared::Internal).unwrap();
    let timeouts = Timeouts {
        response: Some(PATIENCE),
        ..Timeouts::default()
    };
    let client = HttpClient::new(
        destination,
        Options {
            tls,
            timeouts,
            ..Options::default()
        },
    )
    .unwrap();
    let ask = async |id: &str| {
        let message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "echo hello" }], "contextId": "c" });
        let call =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
        let request = http::Request::post("/")
            .header("content-type", "application/json")
            .header("a2a-version", "1.0")
            .body(Bytes::from(call.to_string()))
            .unwrap();
        let response = client.send(request).await.unwrap();
        let answer: Value = serde_json::from_slice(&response.body.bytes().await.unwrap()).unwrap();
        answer["result"]["task"]["artifacts"][0]["parts"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(ask("m1").await, "the tool said: echo: hello");
    assert_eq!(server.requests("tools/call").len(), 1);

    // Taken off the list, it is refused at its next call, and says so to the model.
    mount(
        &bridge.live,
        "..2",
        &[
            ("bridge.json", &list(&install, &["boss"])),
            ("bundle.pem", &bridge.bundle),
        ],
    );
    bridge.agentd.event("config.reloaded").await;
    let refused = ask("m2").await;
    assert!(refused.starts_with("the tool said: ERROR"), "{refused}");
    assert_eq!(server.requests("tools/call").len(), 1);
}
