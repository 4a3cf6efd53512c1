//! Callers that show a token, of an agent that has no identity and a certificate of its user's.

use agentd_net::tls::WebRoots;
use agentd_net::{Declared, Destination, HttpClient, Options, TlsMode};
use bytes::Bytes;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::Agentd;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lets_in_and_its_rate_and_its_replacement_count_at_once() {
    let world = World::new().await;
    let folder = world.folder.path();
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), certificate.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), certificate.signing_key.serialize_pem()).unwrap();
    let token = folder.join("token");
    std::fs::write(&token, "first-token\n").unwrap();
    let principals = json!([{ "name": "desk", "role": "user", "quotas": { "rate": "1/1h" },
                              "bearer": format!("{{{{secret-file:{}}}}}", token.display()) }]);
    let document = json!({
        "agent": { "instruction": "Be brief." },
        "intelligence": { "endpoints": [{ "url": world.model.url() }], "model": "scripted" },
        "store": { "kind": "memory" },
        "a2a": { "listen": "https://127.0.0.1:0", "principals": principals,
                 "tls": { "cert": folder.join("cert.pem"), "key": folder.join("key.pem") } },
    });
    std::fs::write(folder.join("agent.json"), document.to_string()).unwrap();
    let mut agentd = Agentd::start(&["--config", "agent.json"], &[], folder);
    let address = agentd.address("a2a.listen").await;
    agentd.event("proc.ready").await;

    let port = address.rsplit(':').next().unwrap();
    let destination = Destination::declared(&format!("https://localhost:{port}/"), Declared::Mcp).unwrap();
    let roots = WebRoots {
        ca_files: vec![folder.join("cert.pem")],
        ..WebRoots::default()
    };
    let options = Options {
        tls: TlsMode::WebRoots(roots),
        ..Options::default()
    };
    let client = HttpClient::new(destination, options).unwrap();
    let send = async |token: Option<&str>| {
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
        let call =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
        let mut request = http::Request::post("/")
            .header("content-type", "application/json")
            .header("a2a-version", "1.0");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Bytes::from(call.to_string())).unwrap();
        let response = client.send(request).await.unwrap();
        let status = response.status.as_u16();
        let answer: Value = serde_json::from_slice(&response.body.bytes().await.unwrap()).unwrap();
        (status, answer)
    };
    assert_eq!(send(None).await.0, 401);
    assert_eq!(send(Some("no-token")).await.0, 401);
    let (status, answer) = send(Some("first-token")).await;
    let state = &answer["result"]["task"]["status"]["state"];
    assert_eq!(
        (status, state),
        (200, &json!("TASK_STATE_COMPLETED")),
        "{answer:#}"
    );
    let (_, more) = send(Some("first-token")).await;
    assert_eq!(
        more["error"]["data"][1]["reason"],
        json!("QUOTA_EXCEEDED"),
        "{more:#}"
    );
    std::fs::write(&token, "second-token").unwrap();
    assert_eq!(send(Some("first-token")).await.0, 401);
    assert_eq!(send(Some("second-token")).await.0, 200);
    agentd.signal(Signal::SIGTERM);
    let (status, _, lines) = agentd.end().await;
    assert!(status.success(), "{status}");
    let lines = Value::from(lines).to_string();
    assert!(!lines.contains("first-token") && !lines.contains("second-token"));
}
