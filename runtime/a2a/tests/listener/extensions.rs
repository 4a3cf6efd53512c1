//! Extensions: what a call names and what of it is active, in both bindings and both versions.

use agentd_a2a::{CardConfig, Role};
use agentd_config::document::Extension;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::support::*;

const TRACED: &str = "https://x.example/traced/v1";
const REQUIRED: &str = "https://x.example/required/v1";
const OPERATORS: &str = "https://x.example/operators/v1";

async fn world() -> World {
    let extension = |uri: &str, required, role| Extension {
        uri: uri.to_owned(),
        required,
        role,
        ..Extension::default()
    };
    World::promising(|config| CardConfig {
        extensions: vec![
            extension(TRACED, false, None),
            extension(REQUIRED, true, None),
            extension(OPERATORS, false, Some(Role::Operator)),
        ],
        ..config
    })
    .await
}

/// A call that names these extensions, in the header of its version.
fn naming(
    mut request: Request<Full<bytes::Bytes>>,
    header: &'static str,
    named: &str,
) -> Request<Full<bytes::Bytes>> {
    request.headers_mut().insert(header, named.parse().unwrap());
    request
}

fn before(method: &str, params: Value) -> Request<Full<bytes::Bytes>> {
    let mut request = rpc("/", method, params);
    request.headers_mut().remove("a2a-version");
    request
}

#[tokio::test]
async fn s11_a_required_extension_that_is_not_named_is_refused_on_both_bindings() {
    let world = world().await;
    let mut alice = world.as_caller(ALICE).await;
    let refusal = |named: &str| {
        json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                 "reason": "EXTENSION_SUPPORT_REQUIRED", "domain": "a2a-protocol.org" }, named])
    };
    for named in ["", TRACED] {
        let call = naming(
            rpc("/", "SendMessage", message("echo hi")),
            "a2a-extensions",
            named,
        );
        let refused = alice.send(call).await.unwrap();
        let error = &refused.json()["error"];
        assert_eq!((refused.status, refused.error_code()), (200, -32008));
        assert_eq!(json!([error["data"][0], named]), refusal(named));
        assert!(error["message"].as_str().unwrap().contains(REQUIRED), "{error}");
        let call = naming(
            rest("POST", "/message:send", message("echo hi")),
            "a2a-extensions",
            named,
        );
        let refused = alice.send(call).await.unwrap();
        let error = &refused.json()["error"];
        assert_eq!(
            (refused.status, &error["status"]),
            (400, &json!("FAILED_PRECONDITION"))
        );
        assert_eq!(json!([error["details"][0], named]), refusal(named));
    }
    let said = json!({ "message": { "kind": "message", "messageId": "m", "role": "user",
                       "parts": [{ "kind": "text", "text": "echo hi" }] } });
    // The header of the other version names nothing.
    let call = naming(before("message/send", said), "a2a-extensions", REQUIRED);
    assert_eq!(alice.send(call).await.unwrap().error_code(), -32008);
    assert!(world.agent.tasks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn s11_what_is_active_stands_in_the_answer_and_what_is_not_does_not() {
    let world = world().await;
    let all = format!("{OPERATORS}, urn:unknown,{REQUIRED},{TRACED}");
    for (own, active) in [
        (ALICE, format!("{TRACED}, {REQUIRED}")),
        (ADMIN, format!("{TRACED}, {REQUIRED}, {OPERATORS}")),
    ] {
        let mut caller = world.as_caller(own).await;
        for request in [
            rpc("/", "SendMessage", message("echo hi")),
            rpc("/", "SendStreamingMessage", message("echo hi")),
            rest("POST", "/message:send", message("echo hi")),
            rest("GET", "/tasks", Value::Null),
        ] {
            let shown = format!("{request:?}");
            let answer = caller
                .send(naming(request, "a2a-extensions", &all))
                .await
                .unwrap();
            assert_eq!(
                (answer.status, answer.header("a2a-extensions")),
                (200, active.as_str()),
                "{shown}"
            );
        }
        let call = naming(
            before("tasks/get", json!({ "id": "task-0" })),
            "x-a2a-extensions",
            &all,
        );
        let answer = caller.send(call).await.unwrap();
        assert_eq!(
            (answer.header("x-a2a-extensions"), answer.header("a2a-extensions")),
            (active.as_str(), "")
        );
    }
}

#[tokio::test]
async fn an_agent_that_declares_none_says_nothing_of_them() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let call = naming(
        rpc("/", "SendMessage", message("echo hi")),
        "a2a-extensions",
        "urn:a",
    );
    let answer = alice.send(call).await.unwrap();
    assert_eq!((answer.status, answer.headers.get("a2a-extensions")), (200, None));
    let card = alice.get("/.well-known/agent-card.json").await.json();
    assert_eq!(card["capabilities"].get("extensions"), None);
}
