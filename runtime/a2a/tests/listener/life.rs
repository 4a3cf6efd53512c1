//! What changes while it serves: a drain, certificates.

use std::time::Duration;

use agentd_a2a::{Authentication, Listener, Transport, tls};
use agentd_base::drain::Drain;
use agentd_identity::Svid;
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::*;

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

#[tokio::test]
async fn field_a05_whoever_names_the_outer_host_is_shown_its_certificate_and_others_the_svid() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let mut config = tls::svid(&world.source);
    tls::by_name(&mut config, "agents.example", &cert, &key);
    let listener = Listener::bind(
        "127.0.0.1:0".parse().unwrap(),
        Transport::Tls(Box::new(config)),
        Authentication::Principals(world.principals.subscribe()),
    )
    .await
    .unwrap();
    let (drain, address) = (Drain::new(), listener.local_addr());
    tokio::spawn(listener.serve(world.agent.clone(), card(address, "https"), drain.watch()));
    let own = world.source.current().svid.clone().unwrap().chain()[0].to_vec();
    let served = async |name: &'static str| {
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(world.showing(None)));
        let stream = connector.connect(name.try_into().unwrap(), stream).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    assert_eq!(
        served("agents.example").await,
        own,
        "until its certificate is there"
    );
    for _ in 0..2 {
        let outer = svid(&world.authority, SERVER, &["agents.example"]);
        std::fs::write(&cert, outer.chain_pem()).unwrap();
        std::fs::write(&key, outer.key_pem().as_bytes()).unwrap();
        let outer = outer.chain()[0].to_vec();
        assert_eq!(served("agents.example").await, outer);
        assert_eq!(served("Agents.Example").await, outer);
        assert_eq!(served("localhost").await, own);
    }
}
