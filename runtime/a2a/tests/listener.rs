//! Who gets in, what they may see, and what the listener survives.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use agentd_a2a::{Authentication, ListenError, Listener, Principals, Role, Transport, tls};
use agentd_base::drain::Drain;
use agentd_identity::Svid;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;
use support::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn the_card_is_public_and_cacheable() {
    let world = World::start().await;
    let mut nobody = world.as_nobody().await;
    let card = nobody.get("/.well-known/agent-card.json").await;
    assert_eq!(
        (card.status, card.header("content-type")),
        (200, "application/json")
    );
    assert_eq!(card.header("cache-control"), "public, max-age=60");
    assert_eq!(card.json()["capabilities"]["streaming"], json!(false));
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
async fn without_a_certificate_everything_else_is_401() {
    let world = World::start().await;
    let mut nobody = world.as_nobody().await;
    for path in ["/", "/message:send", "/tasks/task-0"] {
        let refused = nobody
            .try_call(path, "SendMessage", message("echo hi"))
            .await
            .unwrap();
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, "mutualTLS"),
            "{path}"
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
async fn an_id_that_no_principal_names_is_403() {
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
async fn a_message_is_answered_and_its_task_can_be_read() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    for (path, number) in [("/", 0), ("/agents/helper", 1), ("/agents/helper/", 2)] {
        let sent = alice
            .try_call(path, "SendMessage", message("echo hi"))
            .await
            .unwrap();
        assert_eq!((sent.status, sent.header("cache-control")), (200, "no-store"));
        let task = &sent.json()["result"]["task"];
        assert_eq!(task["id"], json!(format!("task-{number}")));
        assert_eq!(task["status"]["state"], json!("TASK_STATE_COMPLETED"));
        assert_eq!(task["artifacts"][0]["parts"], json!([{ "text": "hi" }]));
        let got = alice.call("GetTask", json!({ "id": task["id"] })).await;
        assert_eq!(got.json()["result"], *task);
    }
    let mut waiting = message("hold");
    waiting["configuration"] = json!({ "returnImmediately": true, "historyLength": 0 });
    let accepted = alice.call("SendMessage", waiting).await.json();
    assert_eq!(
        accepted["result"]["task"]["status"]["state"],
        json!("TASK_STATE_SUBMITTED")
    );
    assert_eq!(accepted["result"]["task"].get("history"), None);
    let one = alice
        .call("GetTask", json!({ "id": "task-3", "historyLength": 1 }))
        .await
        .json();
    assert_eq!(one["result"]["history"].as_array().unwrap().len(), 1);
    assert_eq!(one["result"]["history"][0]["messageId"], json!("reply"));
}

#[tokio::test]
async fn the_task_of_another_principal_is_as_unknown_as_one_that_never_was() {
    let world = World::start().await;
    world
        .as_caller(ALICE)
        .await
        .call("SendMessage", message("echo secret"))
        .await;
    let mut bob = world.as_caller(BOB).await;
    let theirs = bob.call("GetTask", json!({ "id": "task-0" })).await;
    let unknown = bob.call("GetTask", json!({ "id": "task-9" })).await;
    assert_eq!((theirs.status, theirs.error_code()), (200, -32001));
    assert_eq!(
        theirs.json().to_string().replace("task-0", "task-9"),
        unknown.json().to_string()
    );
    assert_eq!(
        theirs.json()["error"]["data"],
        json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                 "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org" }])
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
async fn what_a_caller_began_goes_on_without_it() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let sending = tokio::spawn(async move { alice.try_call("/", "SendMessage", message("hold")).await });
    world.agent.wait_for_arrival().await;
    sending.abort();
    let _ = sending.await;
    world.agent.release();
    world.agent.wait_for_arrival().await;
    let mut again = world.as_caller(ALICE).await;
    let task = again.call("GetTask", json!({ "id": "task-0" })).await.json();
    assert_eq!(task["result"]["status"]["state"], json!("TASK_STATE_COMPLETED"));
}

#[tokio::test]
async fn http2_serves_many_calls_on_one_connection() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let peer = Peer::connect_http2(world.address, world.showing(Some(&shown))).await;
    let Peer::Two(sender) = peer else { unreachable!() };
    let held = tokio::spawn({
        let sender = sender.clone();
        async move { Peer::Two(sender).call("SendMessage", message("hold")).await }
    });
    world.agent.wait_for_arrival().await;
    let quick = Peer::Two(sender.clone())
        .call("SendMessage", message("echo quick"))
        .await;
    assert_eq!(
        quick.json()["result"]["task"]["artifacts"][0]["parts"][0]["text"],
        json!("quick")
    );
    world.agent.release();
    assert_eq!(held.await.unwrap().status, 200);
    assert_eq!(
        Peer::Two(sender).get("/.well-known/agent-card.json").await.status,
        200
    );
}

#[tokio::test]
async fn versions_types_and_methods() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let with = |path: &str, version: Option<&str>, content_type: &str| {
        let mut request = rpc(path, "GetTask", json!({ "id": "x" }));
        request.headers_mut().remove("a2a-version");
        if let Some(version) = version {
            request
                .headers_mut()
                .insert("a2a-version", version.parse().unwrap());
        }
        request
            .headers_mut()
            .insert("content-type", content_type.parse().unwrap());
        request
    };
    let json = "application/json";
    for (request, code) in [
        (with("/", None, json), -32009),
        (with("/", Some("0.3"), json), -32009),
        (with("/", Some("9.9"), json), -32009),
        (with("/", Some("1.0.7"), json), -32001),
        (with("/?A2A-Version=1.0", None, json), -32001),
        (with("/?A2A-Version=9.9", None, json), -32009),
        (with("/?A2A-Version=1.0", Some("9.9"), json), -32009),
        (with("/", Some("1.0"), "text/plain"), -32005),
        (rpc("/", "tasks/get", json!({})), -32601),
        (rpc("/", "ListTasks", json!({})), -32004),
        (rpc("/", "CancelTask", json!({ "id": "x" })), -32004),
        (rpc("/", "SendStreamingMessage", message("echo hi")), -32004),
        (rpc("/", "SubscribeToTask", json!({ "id": "x" })), -32004),
        (rpc("/", "GetExtendedAgentCard", json!({})), -32004),
        (rpc("/", "CreateTaskPushNotificationConfig", json!({})), -32003),
        (rpc("/", "SendMessage", json!({})), -32602),
        (rpc("/", "SendMessage", message("away")), -32603),
    ] {
        let shown = format!("{request:?}");
        let answer = alice.send(request).await.unwrap();
        assert_eq!((answer.status, answer.error_code()), (200, code), "{shown}");
        assert!(!answer.json().to_string().contains("/secret/path"), "{shown}");
        let data = answer.json()["error"]["data"].clone();
        let info = data.as_array().unwrap().last().unwrap().clone();
        let domain = if code == -32603 {
            "agentd.io"
        } else {
            "a2a-protocol.org"
        };
        assert_eq!(info["domain"], json!(domain), "{shown}");
    }
    let get = alice.get("/").await;
    assert_eq!((get.status, get.header("allow")), (405, "POST"));
    assert_eq!(alice.get("/tasks/x").await.status, 404);
}

#[tokio::test]
async fn a_fault_of_the_agent_is_an_internal_error_and_nobody_else_notices() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(
        alice.call("SendMessage", message("break")).await.error_code(),
        -32603
    );
    assert_eq!(alice.call("SendMessage", message("echo hi")).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n";
    // Declared too large: refused before a byte of it is sent.
    let mut stream = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    let declared = format!("{head}content-length: {}\r\n\r\n", 1024 * 1024 + 1);
    stream.write_all(declared.as_bytes()).await.unwrap();
    assert!(first_line(&mut stream).await.starts_with("HTTP/1.1 413 "));
    // Not declared: refused when it has become too large.
    let mut stream = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    stream
        .write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    for _ in 0..33 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    assert!(first_line(&mut stream).await.starts_with("HTTP/1.1 413 "));
    // One byte less than too large is read.
    let mut alice = world.as_caller(ALICE).await;
    let mut request = rpc("/", "GetTask", json!({ "id": "x" }));
    let body = request.body().clone();
    let mut bytes = http_body_util::BodyExt::collect(body)
        .await
        .unwrap()
        .to_bytes()
        .to_vec();
    bytes.resize(1024 * 1024, b' ');
    *request.body_mut() = Full::from(Bytes::from(bytes));
    assert_eq!(alice.send(request).await.unwrap().error_code(), -32001);
}

#[tokio::test]
async fn heads_are_bounded() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let large = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "y".repeat(40 * 1024)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        "x: y\r\n".repeat(101)
    );
    let smuggled = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd";
    let spaced = "GET / HTTP/1.1\r\nhost : localhost\r\n\r\n";
    for (head, status) in [
        (large.as_str(), "431"),
        (&many, "431"),
        (smuggled, "400"),
        (spaced, "400"),
    ] {
        let mut stream = tls_stream(world.address, world.showing(Some(&shown)))
            .await
            .unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let line = first_line(&mut stream).await;
        assert!(
            line.starts_with(&format!("HTTP/1.1 {status} ")),
            "{line} for {:.60}",
            head
        );
    }
    let mut peer = Peer::connect_http2(world.address, world.showing(Some(&shown))).await;
    let request = Request::get("https://localhost/").header("x", "y".repeat(40 * 1024));
    let answer = peer.send(request.body(Full::default()).unwrap()).await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 431));
}

#[tokio::test]
async fn handshakes_that_never_end_keep_nobody_waiting() {
    let world = World::start().await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        // The first bytes of a ClientHello that never comes.
        stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap();
        silent.push(stream);
    }
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(alice.call("SendMessage", message("echo hi")).await.status, 200);
    // What is no TLS at all is told so and closed.
    let mut plain = TcpStream::connect(world.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest).await;
    assert_eq!(rest.first(), Some(&0x15), "a TLS alert");
}

#[tokio::test]
async fn what_is_slow_is_ended_by_a_clock() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    let mut half_head = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    half_head.write_all(b"GET / HTTP/1.1\r\nhost: loc").await.unwrap();
    let mut half_body = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    let head =
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    half_body.write_all(head.as_bytes()).await.unwrap();
    let mut idle = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    let stranger = Peer::connect_http2(world.address, world.showing(None)).await;
    // A round trip, so that what was sent has arrived before the clock stands still and jumps to the next timer.
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(alice.call("SendMessage", message("echo hi")).await.status, 200);
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let mut rest = Vec::new();
    assert_eq!(silent.read_to_end(&mut rest).await.unwrap_or(0), 0);
    let _ = half_head.read_to_end(&mut rest).await;
    let _ = idle.read_to_end(&mut rest).await;
    let Peer::Two(stranger) = stranger else {
        unreachable!()
    };
    assert!(
        stranger.is_closed(),
        "who shows no certificate is not kept waiting for"
    );
    assert!(first_line(&mut half_body).await.starts_with("HTTP/1.1 408 "));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_drain_finishes_what_is_in_flight_and_takes_nothing_new() {
    let world = World::start().await;
    let mut idle = world.as_caller(BOB).await;
    assert_eq!(idle.call("SendMessage", message("echo hi")).await.status, 200);
    let mut alice = world.as_caller(ALICE).await;
    let held = tokio::spawn(async move { alice.try_call("/", "SendMessage", message("hold")).await });
    for _ in 0..3 {
        world.agent.wait_for_arrival().await;
    }
    let mut signal = world.drain.watch();
    let draining = tokio::spawn(world.drain.run(Duration::from_secs(30)));
    signal.signaled().await;
    drop(signal);
    let closed = idle.try_call("/", "SendMessage", message("echo late")).await;
    assert!(closed.is_err(), "idle connections are closed: {closed:?}");
    assert!(!draining.is_finished());
    world.agent.release();
    let answer = held.await.unwrap().unwrap();
    assert_eq!(
        answer.json()["result"]["task"]["status"]["state"],
        json!("TASK_STATE_COMPLETED")
    );
    assert!(draining.await.unwrap(), "the drain ends with the last answer");
    assert!(TcpStream::connect(world.address).await.is_err());
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

#[tokio::test]
async fn given_certificates_are_read_again_when_they_change() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let write = |svid: &Svid| {
        std::fs::write(&cert, svid.chain_pem()).unwrap();
        std::fs::write(&key, svid.key_pem().as_bytes()).unwrap();
    };
    assert!(tls::given(&cert, &key, None).is_err());
    let first = svid(&world.authority, SERVER, &["localhost"]);
    write(&first);
    let config = tls::given(&cert, &key, Some(&world.source)).unwrap();
    let listener = Listener::bind(
        "127.0.0.1:0".parse().unwrap(),
        Transport::Tls(Box::new(config)),
        Authentication::Principals(world.principals.subscribe()),
    )
    .await
    .unwrap();
    let (drain, address) = (Drain::new(), listener.local_addr());
    tokio::spawn(listener.serve(world.agent.clone(), card(address, "https"), drain.watch()));
    let shown = svid(&world.authority, ALICE, &[]);
    let served = async || {
        let stream = tls_stream(address, world.showing(Some(&shown))).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    assert_eq!(served().await, first.chain()[0].to_vec());
    std::fs::write(&cert, "half of a fi").unwrap();
    assert_eq!(
        served().await,
        first.chain()[0].to_vec(),
        "a broken file leaves the one before in use"
    );
    let second = svid(&world.authority, SERVER, &["localhost", "helper.example"]);
    write(&second);
    assert_eq!(served().await, second.chain()[0].to_vec());
    let mut alice = Peer::connect(address, world.showing(Some(&shown))).await.unwrap();
    assert_eq!(alice.call("SendMessage", message("echo hi")).await.status, 200);
    let mut nobody = Peer::connect(address, world.showing(None)).await.unwrap();
    assert_eq!(nobody.call("SendMessage", message("echo hi")).await.status, 401);
}

async fn first_line(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    let mut byte = [0];
    while stream.read_exact(&mut byte).await.is_ok() && byte != *b"\n" {
        read.push(byte[0]);
    }
    String::from_utf8_lossy(&read).into_owned()
}
