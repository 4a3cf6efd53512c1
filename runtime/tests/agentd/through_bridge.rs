//! An agent, a bridge and a server: every hop with an identity.

use agentd_net::{Declared, Destination, HttpClient, Options, Timeouts, TlsMode};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::bridge::{Bridge, list};
use crate::install::{Install, mount};
use crate::mcp_server::McpServer;
use crate::model::Model;
use crate::pod::SHORT;
use crate::process::{Agentd, PATIENCE};

struct Through {
    bridge: Bridge,
    server: McpServer,
    model: Model,
    agent: Agentd,
    client: HttpClient,
    _folder: tempfile::TempDir,
}

impl Through {
    async fn start(install: &Install) -> Self {
        let server = McpServer::start().await;
        let bridge = Bridge::start(install, server.address, "/mcp", &["helper-agent"]).await;
        let model = Model::start().await;
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
        let address = agent.address("a2a.listen").await;
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
        let options = Options {
            tls,
            timeouts,
            ..Options::default()
        };
        let client = HttpClient::new(destination, options).unwrap();
        Self {
            bridge,
            server,
            model,
            agent,
            client,
            _folder: folder,
        }
    }

    /// The bridge lets only these in from now on.
    async fn admit(&mut self, install: &Install, dated: &str, accounts: &[&str]) {
        let files = [
            ("bridge.json", list(install, accounts)),
            ("bundle.pem", self.bridge.bundle.clone()),
        ];
        let files = [
            (files[0].0, files[0].1.as_str()),
            (files[1].0, files[1].1.as_str()),
        ];
        mount(&self.bridge.live, dated, &files);
        self.bridge.agentd.event("config.reloaded").await;
    }
}

/// The answer's text.
async fn ask(client: &HttpClient, id: &str, text: &str) -> String {
    let message =
        json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }], "contextId": "c" });
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
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_calls_a_tool_through_the_bridge_with_its_own_identity() {
    let install = Install::start().await;
    let mut through = Through::start(&install).await;
    let answer = ask(&through.client, "m1", "echo hello").await;
    assert_eq!(answer, "the tool said: echo: hello");
    assert_eq!(through.server.requests("tools/call").len(), 1);

    // Taken off the list, it is refused at its next call, and says so to the model.
    through.admit(&install, "..2", &["boss"]).await;
    let refused = ask(&through.client, "m2", "echo hello").await;
    assert!(refused.starts_with("the tool said: ERROR"), "{refused}");
    assert_eq!(through.server.requests("tools/call").len(), 1);
}

/// A worker in the middle of a turn dials with the SVID of the moment: the one it began with has run out by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_svid_reaches_a_worker_that_is_at_work() {
    let install = Install::with_svids_of(SHORT).await;
    let mut through = Through::start(&install).await;
    let client = through.client.clone();
    let asking = tokio::spawn(async move { ask(&client, "m1", "hold echo hello").await });
    through.model.holds().await;
    let workers = through.agent.workers();
    let expiry = |line: &Value| -> jiff::Timestamp { line["expires_at"].as_str().unwrap().parse().unwrap() };
    let old = expiry(through.agent.lines("identity.svid.renewed").last().unwrap());
    // One that was issued after the old one had run out.
    while expiry(&through.agent.event("identity.svid.renewed").await) <= old + SHORT {}
    // Its connection is cut, so that it has to shake hands again.
    through.admit(&install, "..2", &[]).await;
    through.admit(&install, "..3", &["helper-agent"]).await;
    through.model.release();
    assert_eq!(asking.await.unwrap(), "the tool said: echo: hello");
    assert_eq!(through.agent.workers(), workers);
}
