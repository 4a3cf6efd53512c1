//! Who gets in, and what they may see.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_a2a::operation::{Operation, Touches};
use agentd_a2a::{Authentication, ListenError, Listener, Principals, Role, Transport};
use agentd_base::drain::Drain;
use agentd_identity::Svid;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;

use crate::support::*;

/// An operation about this task, in every way that it can be asked for.
fn ways(operation: Operation, id: &str) -> Vec<Request<Full<Bytes>>> {
    let configs = format!("/tasks/{id}/pushNotificationConfigs");
    let (verb, path, before) = match operation {
        Operation::SendMessage => ("POST", "/message:send".to_owned(), Some("message/send")),
        Operation::SendStreamingMessage => ("POST", "/message:stream".to_owned(), Some("message/stream")),
        Operation::GetTask => ("GET", format!("/tasks/{id}"), Some("tasks/get")),
        Operation::ListTasks => ("GET", "/tasks".to_owned(), None),
        Operation::CancelTask => ("POST", format!("/tasks/{id}:cancel"), Some("tasks/cancel")),
        Operation::GetExtendedAgentCard => (
            "GET",
            "/extendedAgentCard".to_owned(),
            Some("agent/getAuthenticatedExtendedCard"),
        ),
        Operation::SubscribeToTask => (
            "POST",
            format!("/tasks/{id}:subscribe"),
            Some("tasks/resubscribe"),
        ),
        Operation::CreatePushConfig => ("POST", configs, Some("tasks/pushNotificationConfig/set")),
        Operation::GetPushConfig => (
            "GET",
            format!("{configs}/a"),
            Some("tasks/pushNotificationConfig/get"),
        ),
        Operation::ListPushConfigs => ("GET", configs, Some("tasks/pushNotificationConfig/list")),
        Operation::DeletePushConfig => (
            "DELETE",
            format!("{configs}/a"),
            Some("tasks/pushNotificationConfig/delete"),
        ),
    };
    let (params, old, body) = match operation {
        Operation::CreatePushConfig => {
            let config = json!({ "id": "a", "url": "https://x" });
            (
                json!({ "taskId": id, "id": "a", "url": "https://x" }),
                json!({ "taskId": id, "pushNotificationConfig": config }),
                config,
            )
        }
        Operation::GetPushConfig | Operation::ListPushConfigs | Operation::DeletePushConfig => (
            json!({ "taskId": id, "id": "a" }),
            json!({ "id": id, "pushNotificationConfigId": "a" }),
            json!(null),
        ),
        _ => (json!({ "id": id }), json!({ "id": id }), json!(null)),
    };
    let mut ways = vec![rpc("/", operation.name(), params), rest(verb, &path, body)];
    ways.extend(before.map(|method| {
        let mut request = rpc("/", method, old);
        request.headers_mut().remove("a2a-version");
        request
    }));
    ways
}

#[tokio::test]
async fn s1_the_card_is_public_and_cacheable() {
    let world = World::start().await;
    let mut nobody = world.as_nobody().await;
    let card = nobody.get("/.well-known/agent-card.json").await;
    assert_eq!(
        (card.status, card.header("content-type")),
        (200, "application/json")
    );
    assert_eq!(card.header("cache-control"), "public, max-age=60");
    assert_eq!(card.json()["capabilities"]["streaming"], json!(true));
    let etag = card.header("etag").to_owned();
    let again = Request::get("/.well-known/agent-card.json").header("host", "localhost");
    let again = nobody
        .send(
            again
                .header("if-none-match", &etag)
                .body(Full::default())
                .unwrap(),
        )
        .await
        .unwrap();
    assert_eq!(
        (again.status, again.body.len(), again.header("etag")),
        (304, 0, etag.as_str())
    );
    let post = nobody
        .try_call("/.well-known/agent-card.json", "GetTask", json!({}))
        .await
        .unwrap();
    assert_eq!((post.status, post.header("allow")), (405, "GET, HEAD"));
}

#[tokio::test]
async fn s12_without_a_certificate_everything_else_is_401() {
    let world = World::start().await;
    let mut nobody = world.as_nobody().await;
    let mut requests: Vec<Request<Full<Bytes>>> = vec![rest("GET", "/nothing", json!(null))];
    for operation in Operation::ALL {
        requests.extend(ways(operation, "task-0"));
    }
    for request in requests {
        let asked = format!("{} {}", request.method(), request.uri());
        let refused = nobody.send(request).await.unwrap();
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, "mutualTLS"),
            "{asked}"
        );
        assert_eq!(refused.reason(), "CLIENT_CERTIFICATE_REQUIRED");
    }
    assert!(world.agent.tasks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_certificate_that_does_not_verify_ends_the_handshake() {
    let world = World::start().await;
    let same_name = authority(TD);
    let foreign = authority("other.internal");
    let expired = {
        let (key, csr) = agentd_identity::request::new_key_and_csr().unwrap();
        let begun = now() - jiff::SignedDuration::from_hours(2);
        let signed = world
            .authority
            .sign_svid(&csr, &id(ALICE), &[], Duration::from_secs(3600), begun)
            .unwrap();
        Svid::from_pem(
            signed.chain_pem.as_bytes(),
            key.as_bytes(),
            world.authority.bundle(),
            begun,
        )
        .unwrap()
    };
    let foreign = foreign
        .own_svid(
            &id("spiffe://other.internal/ns/team/sa/alice"),
            &[],
            Duration::from_secs(3600),
            now(),
        )
        .unwrap();
    for (name, shown) in [
        ("another root", svid(&same_name, ALICE, &[])),
        ("another trust domain", foreign),
        ("expired", expired),
    ] {
        // In TLS 1.3 the client's part of the handshake ends first: it learns of the alert when it reads.
        let outcome = match Peer::connect(world.address, world.showing(Some(&shown))).await {
            Ok(mut peer) => peer.try_call("/", "SendMessage", message("echo hi")).await,
            Err(error) => Err(error),
        };
        assert!(outcome.is_err(), "{name}: {outcome:?}");
    }
    assert!(world.agent.tasks.lock().unwrap().is_empty());
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(alice.call("SendMessage", message("echo hi")).await.status, 200);
}

#[tokio::test]
async fn s12_an_id_that_no_principal_names_is_403() {
    let world = World::start().await;
    let mut mallory = world.as_caller(MALLORY).await;
    let refused = mallory.call("SendMessage", message("echo hi")).await;
    assert_eq!(
        (refused.status, refused.reason().as_str()),
        (403, "PRINCIPAL_NOT_LISTED")
    );
    assert_eq!(mallory.get("/.well-known/agent-card.json").await.status, 200);
    assert!(world.agent.tasks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn s10_the_task_of_another_principal_is_as_unknown_as_one_that_never_was() {
    let world = World::start().await;
    world
        .as_caller(ALICE)
        .await
        .call("SendMessage", message("echo secret"))
        .await;
    let mut bob = world.as_caller(BOB).await;
    let theirs = bob.call("GetTask", json!({ "id": "task-0" })).await;
    assert_eq!((theirs.status, theirs.error_code()), (200, -32001));
    assert_eq!(
        theirs.json()["error"]["data"],
        json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                 "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org" }])
    );
    // By each operation that names a task, in each binding and version: the same bytes.
    world.agent.pushes.store(true, Ordering::SeqCst);
    for operation in Operation::ALL {
        if operation.rule().touches != Touches::Named {
            continue;
        }
        for (theirs, unknown) in ways(operation, "task-0")
            .into_iter()
            .zip(ways(operation, "task-9"))
        {
            let asked = format!("{} {}", theirs.method(), theirs.uri());
            let (theirs, unknown) = (bob.send(theirs).await.unwrap(), bob.send(unknown).await.unwrap());
            let text = String::from_utf8(theirs.body.to_vec()).unwrap();
            assert!(text.contains("TASK_NOT_FOUND"), "{asked}: {text}");
            assert_eq!(
                text.replace("task-0", "task-9").as_bytes(),
                unknown.body,
                "{asked}"
            );
            assert_eq!(theirs.status, unknown.status, "{asked}");
            let without_date = |answer: &Answer| {
                let mut headers = answer.headers.clone();
                headers.remove("date");
                headers
            };
            assert_eq!(without_date(&theirs), without_date(&unknown), "{asked}");
        }
    }
    let listed = bob.call("ListTasks", json!({})).await.json();
    assert_eq!(
        (&listed["result"]["tasks"], &listed["result"]["totalSize"]),
        (&json!([]), &json!(0))
    );
    let mut admin = world.as_caller(ADMIN).await;
    assert_eq!(
        admin.call("GetTask", json!({ "id": "task-0" })).await.json()["result"]["id"],
        json!("task-0")
    );
}

#[tokio::test]
async fn principals_count_from_the_next_request_and_a_removed_one_is_cut_off() {
    let world = World::start().await;
    let mut mallory = world.as_caller(MALLORY).await;
    assert_eq!(mallory.call("SendMessage", message("echo 1")).await.status, 403);
    let mut with_mallory = listed();
    with_mallory.push(principal("mallory", MALLORY, Role::User));
    world
        .principals
        .send_replace(Arc::new(Principals::new(&with_mallory)));
    assert_eq!(mallory.call("SendMessage", message("echo 2")).await.status, 200);

    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(alice.call("SendMessage", message("echo 3")).await.status, 200);
    let held = tokio::spawn(async move { mallory.try_call("/", "SendMessage", message("hold")).await });
    for _ in 0..5 {
        world.agent.wait_for_arrival().await;
    }
    world
        .principals
        .send_replace(Arc::new(Principals::new(&listed())));
    assert!(
        held.await.unwrap().is_err(),
        "the open connection of the removed principal is closed"
    );
    assert_eq!(
        alice.call("SendMessage", message("echo 4")).await.status,
        200,
        "others keep theirs"
    );
    let mut again = world.as_caller(MALLORY).await;
    assert_eq!(again.call("SendMessage", message("echo 5")).await.status, 403);
}

#[tokio::test]
async fn development_mode_is_loopback_http_where_everybody_is_an_operator() {
    let bind = |address: &str, transport, authentication| {
        Listener::bind(address.parse().unwrap(), transport, authentication)
    };
    let everywhere = bind("0.0.0.0:0", Transport::Plain, Authentication::Dev).await;
    assert!(matches!(everywhere, Err(ListenError::NotLoopback { .. })));
    let listener = bind("127.0.0.1:0", Transport::Plain, Authentication::Dev)
        .await
        .unwrap();
    let (agent, drain, address) = (agent(), Drain::new(), listener.local_addr());
    tokio::spawn(listener.serve(agent, card(address, "http"), drain.watch()));
    let mut peer = Peer::plain(address).await;
    assert_eq!(
        peer.get("/.well-known/agent-card.json")
            .await
            .json()
            .get("securitySchemes"),
        None
    );
    assert_eq!(peer.call("SendMessage", message("echo hi")).await.status, 200);
    let mut rebound = rpc("/", "SendMessage", message("echo hi"));
    rebound
        .headers_mut()
        .insert("host", "evil.example".parse().unwrap());
    let refused = peer.send(rebound).await.unwrap();
    assert_eq!(
        (refused.status, refused.reason().as_str()),
        (403, "HOST_NOT_ALLOWED")
    );
    let taken = bind(&address.to_string(), Transport::Plain, Authentication::Dev).await;
    assert!(matches!(taken, Err(ListenError::Bind { .. })));
}
