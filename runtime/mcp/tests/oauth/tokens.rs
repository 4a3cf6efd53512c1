//! Tokens: how long they are used, of which type they are, and who waits for one.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::Class;
use serde_json::json;

use crate::server::{SECRET, Script, Servers};
use crate::{document, echo, open, refused, secret_file};

#[tokio::test]
async fn m36_a_token_that_is_refused_is_replaced_once_for_all_who_wait() {
    let servers = Servers::start(Script::default()).await;
    let secret = secret_file(SECRET);
    let connection = open(&document(&servers, secret.path(), |_| {})).await.unwrap();
    servers.revoke();
    let calls = (0..20).map(|key| {
        let connection = connection.clone();
        async move { echo(&connection, &key.to_string()).await }
    });
    for answer in futures::future::join_all(calls).await {
        answer.unwrap();
    }
    assert_eq!(servers.asked().len(), 2);
    connection.close().await;
}

#[tokio::test]
async fn m36_a_token_is_renewed_before_it_runs_out() {
    // Renewed at half its life, so it is due at once and good for a second.
    let servers = Servers::start(Script {
        expires_in: 1.into(),
        ..Script::default()
    })
    .await;
    let secret = secret_file(SECRET);
    let connection = open(&document(&servers, secret.path(), |_| {})).await.unwrap();
    // Not by a refusal: every token stays good here.
    while servers.asked().len() < 3 {
        echo(&connection, "1").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let bare = servers
        .requests()
        .iter()
        .filter(|(_, token)| token.is_none())
        .count();
    assert!(bare <= 2, "{bare}");
    connection.close().await;
}

/// A lifetime that is none is no reason to ask for a token with every request.
#[tokio::test]
async fn m36_a_token_is_of_use_whatever_is_said_of_its_life() {
    let secret = secret_file(SECRET);
    for lives in [json!("3600"), json!(-1), json!(0), json!("never"), json!(null)] {
        let servers = Servers::start(Script {
            expires_in: lives.clone(),
            ..Script::default()
        })
        .await;
        let connection = open(&document(&servers, secret.path(), |_| {})).await.unwrap();
        for key in ["1", "2", "3"] {
            echo(&connection, key).await.unwrap();
        }
        assert_eq!(servers.asked().len(), 1, "{lives}");
        connection.close().await;
    }
}

#[tokio::test]
async fn m36_a_token_of_another_type_is_refused_in_words() {
    let secret = secret_file(SECRET);
    let servers = Servers::start(Script {
        token_type: "DPoP",
        ..Script::default()
    })
    .await;
    let error = refused(&document(&servers, secret.path(), |_| {})).await;
    assert_eq!(error.class, Class::Denied);
    assert!(
        error
            .message
            .contains("gave a token of the type dpop, and only Bearer can be used here"),
        "{}",
        error.message
    );
}

/// A 401 with a challenge says nothing of the era: with the token, the probe begins anew.
#[tokio::test]
async fn m36_a_search_for_a_token_that_takes_long_makes_no_server_an_old_one() {
    let secret = secret_file(SECRET);
    let servers = Servers::start(Script {
        modern: true,
        slow: Duration::from_millis(6_500),
        ..Script::default()
    })
    .await;
    let mut server = document(&servers, secret.path(), |_| {});
    // A probe has half of it.
    server.connection.timeout = Some(agentd_base::duration::Duration(Duration::from_secs(12)));
    let connection = open(&server).await.unwrap();
    assert_eq!(connection.era(), agentd_mcp::Era::Stateless);
    connection.close().await;
}

#[tokio::test]
async fn m36_a_caller_that_gives_up_leaves_the_token_to_the_next() {
    let servers = Servers::start(Script::default()).await;
    let secret = secret_file(SECRET);
    let connection = Arc::new(open(&document(&servers, secret.path(), |_| {})).await.unwrap());
    servers.revoke();
    let waiting = tokio::spawn({
        let connection = connection.clone();
        async move { echo(&connection, "1").await }
    });
    while servers
        .requests()
        .iter()
        .filter(|(method, _)| method == "tools/call")
        .count()
        < 1
    {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    echo(&connection, "2").await.unwrap();
    assert!(servers.asked().len() <= 3, "{}", servers.asked().len());
}
