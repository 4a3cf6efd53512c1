//! Callers that show a token.

use std::path::Path;
use std::sync::Arc;

use agentd_a2a::{Principals, Role};
use agentd_config::document::Principal;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;

use crate::support::*;

const AUTHORIZATION: &str = "authorization";

/// Lets those of [`listed`] call, and who shows what this file holds, as a user.
fn lists_desk(world: &World, token: &Path) {
    let reference = format!("{{{{secret-file:{}}}}}", token.display());
    let mut entries = listed();
    entries.push(Principal::with_bearer("desk", reference, Role::User));
    world.principals.send_replace(Arc::new(Principals::new(&entries)));
}

fn with_tokens(mut request: Request<Full<Bytes>>, tokens: &[&str]) -> Request<Full<Bytes>> {
    for token in tokens {
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().append(AUTHORIZATION, value);
    }
    request
}

fn says(text: &str, token: &str) -> Request<Full<Bytes>> {
    with_tokens(rpc("/", "SendMessage", message(text)), &[token])
}

#[tokio::test]
async fn a_token_is_enough_counts_as_it_is_now_and_makes_things_of_its_own() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first-token\n").unwrap();
    lists_desk(&world, &file);
    world
        .as_caller(ALICE)
        .await
        .call("SendMessage", message("echo secret"))
        .await;
    let mut nobody = world.as_nobody().await;
    assert_eq!(
        nobody.send(says("echo hi", "first-token")).await.unwrap().status,
        200
    );
    assert_eq!(world.agent.tasks.lock().unwrap()["task-1"].0, "bearer:desk");
    let get =
        |id: &str, token: &str| with_tokens(rest("GET", &format!("/tasks/{id}"), json!(null)), &[token]);
    assert_eq!(
        nobody.send(get("task-1", "first-token")).await.unwrap().status,
        200
    );
    assert_eq!(
        nobody.send(get("task-0", "first-token")).await.unwrap().status,
        404,
        "alice's"
    );

    std::fs::write(&file, "second-token").unwrap();
    for (token, status) in [("first-token", 401), ("second-token", 200)] {
        assert_eq!(
            nobody.send(says("echo 2", token)).await.unwrap().status,
            status,
            "{token}"
        );
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(
        nobody.send(says("echo 3", "second-token")).await.unwrap().status,
        401
    );
    world
        .principals
        .send_replace(Arc::new(Principals::new(&listed())));
    let refused = nobody.send(says("echo 4", "second-token")).await.unwrap();
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (401, "mutualTLS")
    );
}

#[tokio::test]
async fn what_is_nobodys_is_refused_with_what_would_be_right() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "the-token").unwrap();
    lists_desk(&world, &file);
    let mut nobody = world.as_nobody().await;
    let ask = || rpc("/", "SendMessage", message("echo hi"));
    let mut basic = ask();
    basic
        .headers_mut()
        .insert(AUTHORIZATION, "Basic dGhlLXRva2Vu".parse().unwrap());
    let again = "mutualTLS, Bearer realm=\"agentd\", error=\"invalid_token\"";
    for (request, challenge, reason) in [
        (
            ask(),
            "mutualTLS, Bearer realm=\"agentd\"",
            "CREDENTIALS_REQUIRED",
        ),
        (with_tokens(ask(), &["the-toke"]), again, "TOKEN_NOT_VALID"),
        (
            with_tokens(ask(), &["the-token", "the-token"]),
            again,
            "TOKEN_NOT_VALID",
        ),
        (basic, again, "TOKEN_NOT_VALID"),
    ] {
        let refused = nobody.send(request).await.unwrap();
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, challenge)
        );
        assert_eq!(refused.reason(), reason);
    }
    let mut mallory = world.as_caller(MALLORY).await;
    let refused = mallory.send(says("echo hi", "no-token")).await.unwrap();
    assert_eq!(
        (refused.status, refused.reason().as_str()),
        (403, "PRINCIPAL_NOT_LISTED")
    );
    assert!(world.agent.tasks.lock().unwrap().is_empty());
    // Either is enough, and what is made belongs to whom the certificate names where an entry matches it.
    assert_eq!(
        mallory.send(says("echo hi", "the-token")).await.unwrap().status,
        200
    );
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(
        alice.send(says("echo hi", "the-token")).await.unwrap().status,
        200
    );
    assert_eq!(alice.send(says("echo hi", "no-token")).await.unwrap().status, 200);
    let tasks = world.agent.tasks.lock().unwrap();
    let owners = ["task-0", "task-1", "task-2"].map(|id| tasks[id].0.clone());
    assert_eq!(owners, ["bearer:desk", ALICE, ALICE]);
}

#[tokio::test]
async fn more_messages_than_its_rate_are_refused_for_a_while_and_others_are_served() {
    let world = World::start().await;
    let mut entries = listed();
    entries[0].quotas.rate = Some("2/1h".parse().unwrap());
    world.principals.send_replace(Arc::new(Principals::new(&entries)));
    let mut alice = world.as_caller(ALICE).await;
    for _ in 0..2 {
        assert_eq!(
            alice.call("SendMessage", message("echo hi")).await.json()["error"],
            json!(null)
        );
    }
    let refused = alice.rest("POST", "/message:send", message("echo hi")).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["status"].clone()),
        (429, json!("RESOURCE_EXHAUSTED"))
    );
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1790..=1800).contains(&seconds), "{seconds}");
    for method in ["SendMessage", "SendStreamingMessage"] {
        let refused = alice.call(method, message("echo hi")).await;
        let details = refused.json()["error"]["data"].clone();
        assert_eq!(details[1]["reason"], json!("QUOTA_EXCEEDED"), "{details}");
        assert!(
            details[0]["retryDelay"].as_str().unwrap().starts_with("1"),
            "{details}"
        );
    }
    assert_eq!(world.agent.tasks.lock().unwrap().len(), 2);
    // What is there can be read, and nobody else pays for it.
    assert_eq!(alice.rest("GET", "/tasks/task-0", json!(null)).await.status, 200);
    let mut bob = world.as_caller(BOB).await;
    assert_eq!(
        bob.rest("POST", "/message:send", message("echo hi")).await.status,
        200
    );
}

#[tokio::test]
async fn who_shows_a_token_is_no_stranger_whose_connection_ends_soon() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "the-token").unwrap();
    lists_desk(&world, &file);
    let connect = || Peer::connect_http2(world.address, world.showing(None));
    let (mut known, mut stranger) = (connect().await, connect().await);
    let path = "https://localhost/";
    let ask = || rpc(path, "SendMessage", message("echo hi"));
    assert_eq!(
        known
            .send(with_tokens(ask(), &["the-token"]))
            .await
            .unwrap()
            .status,
        200
    );
    assert_eq!(stranger.send(ask()).await.unwrap().status, 401);
    tokio::time::sleep(agentd_a2a::limit::IDLE_STRANGER + std::time::Duration::from_secs(2)).await;
    assert_eq!(
        known
            .send(with_tokens(ask(), &["the-token"]))
            .await
            .unwrap()
            .status,
        200
    );
    assert!(stranger.send(ask()).await.is_err());
}
