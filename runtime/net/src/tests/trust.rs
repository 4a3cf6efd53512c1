//! TLS: roots, names, client certificates, SPIFFE IDs, and addresses that change under a name.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::clock::{Clock as _, SystemClock};
use agentd_identity::{Authority, IdentitySource, SpiffeId, TrustDomain};
use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::routing::any;

use super::client::{client, post};
use super::peer::{Ca, Peer, install_provider};
use crate::resolve::tests::Script;
use crate::tls::WebRoots;
use crate::{Declared, Destination, HttpClient, NetError, Options, TlsMode};

fn router() -> Router {
    Router::new().fallback(any(|request: AxumRequest| async move {
        let host = request
            .headers()
            .get("host")
            .map(|host| host.to_str().unwrap().to_owned());
        format!("{:?} {}", request.version(), host.unwrap_or_default())
    }))
}

fn web(roots: WebRoots) -> Options {
    Options {
        tls: TlsMode::WebRoots(roots),
        ..Options::default()
    }
}

fn with_ca(path: &Path) -> WebRoots {
    WebRoots {
        ca_files: vec![path.to_owned()],
        ..WebRoots::default()
    }
}

async fn get(client: &HttpClient) -> Result<String, NetError> {
    let body = client.send(post("/", "")).await?.body.bytes().await?;
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

async fn fails(client: &HttpClient, part: &str) {
    let error = get(client).await.unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[tokio::test]
async fn roots_are_bundled_or_given_and_names_must_match() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let ca = Ca::new();
    std::fs::write(&file, &ca.pem).unwrap();
    let peer = Peer::start(router(), Some(ca.server(&["127.0.0.1"], None))).await;
    let url = peer.url("https", "/");
    fails(
        &client(&url, web(WebRoots::default())),
        "signed by a CA that is not trusted; name the CA",
    )
    .await;
    assert_eq!(
        get(&client(&url, web(with_ca(&file)))).await.unwrap(),
        "HTTP/2.0 "
    );
    let named = client(&peer.named("localhost", "/"), web(with_ca(&file)));
    fails(&named, "its certificate is for another name").await;
}

#[tokio::test]
async fn a_ca_file_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let (old, new) = (Ca::new(), Ca::new());
    let first = Peer::start(router(), Some(old.server(&["127.0.0.1"], None))).await;
    let address = first.address;
    let client = client(&first.url("https", "/"), web(with_ca(&file)));
    fails(&client, "ca.pem: No such file").await;
    std::fs::write(&file, &old.pem).unwrap();
    get(&client).await.unwrap();

    drop(first);
    let listener = rebind(address).await;
    let second = Peer::on(listener, router(), Some(new.server(&["127.0.0.1"], None)));
    fails(&client, "not trusted").await;
    std::fs::write(&file, "no certificate any more").unwrap();
    fails(&client, "not trusted").await;
    std::fs::write(&file, &new.pem).unwrap();
    get(&client).await.unwrap();
    drop(second);
}

/// The port of a peer that was dropped, as soon as its listener is gone.
async fn rebind(address: std::net::SocketAddr) -> tokio::net::TcpListener {
    loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_and_its_absence_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (ca, clients) = (Ca::new(), Ca::new());
    std::fs::write(path("ca.pem"), &ca.pem).unwrap();
    let peer = Peer::start(router(), Some(ca.server(&["127.0.0.1"], Some(&clients)))).await;
    let url = peer.url("https", "/");
    fails(
        &client(&url, web(with_ca(&path("ca.pem")))),
        "demands a client certificate and got none",
    )
    .await;

    let pair = Some((path("tls.crt"), path("tls.key")));
    let roots = WebRoots {
        client_certificate: pair,
        ..with_ca(&path("ca.pem"))
    };
    let client = client(&url, web(roots));
    fails(&client, "tls.crt: No such file").await;
    let write = |(chain, key): (String, String)| {
        std::fs::write(path("tls.crt"), chain).unwrap();
        std::fs::write(path("tls.key"), key).unwrap();
    };
    write((clients.sign(&["a"]).0, clients.sign(&["b"]).1));
    fails(&client, "does not fit").await;
    write(Ca::new().sign(&["stranger"]));
    fails(&client, "it refused our client certificate").await;
    write(clients.sign(&["agent"]));
    get(&client).await.unwrap();
}

#[tokio::test]
async fn another_server_name_is_asked_for_and_checked_while_host_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let ca = Ca::new();
    std::fs::write(&file, &ca.pem).unwrap();
    let peer = Peer::start(router(), Some(ca.server(&["mcp.example"], None))).await;
    let named = |name: &str| {
        web(WebRoots {
            server_name: Some(name.into()),
            ..with_ca(&file)
        })
    };
    let url = peer.url("https", "/");
    assert_eq!(
        get(&client(&url, named("mcp.example"))).await.unwrap(),
        format!("HTTP/1.1 {}", peer.address)
    );
    fails(&client(&url, named("other.example")), "for another name").await;
    let destination = Destination::declared(&url, Declared::Mcp).unwrap();
    assert!(matches!(
        HttpClient::new(destination, named("10.0.0.1")),
        Err(NetError::Invalid(_))
    ));
}

#[tokio::test]
async fn a_name_is_vetted_at_each_connection_and_what_was_vetted_is_dialled() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let ca = Ca::new();
    std::fs::write(&file, &ca.pem).unwrap();
    let peer = Peer::start(router(), Some(ca.server(&["mcp.example"], None))).await;
    // The second answer is an attack: were the name resolved a second time for the first connection, it would show.
    let script = Script::new(&[(
        "mcp.example",
        &[&["127.0.0.1"], &["127.0.0.1", "169.254.169.254"]],
    )]);
    let destination = Destination::declared(&peer.named("mcp.example", "/"), Declared::Mcp).unwrap();
    let client = HttpClient::with_lookup(destination, web(with_ca(&file)), Arc::new(script)).unwrap();
    get(&client).await.unwrap();
    drop(peer);
    loop {
        // The pool notices the end of its connection by itself, and then the name is looked up again.
        match get(&client).await.unwrap_err() {
            NetError::Refused(why) => {
                assert!(why.contains("169.254.169.254 is a link-local address"), "{why}");
                return;
            }
            NetError::Interrupted { .. } => {}
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn spiffe_ids_are_exact() {
    install_provider();
    let domain: TrustDomain = "test.agentd.internal".parse().unwrap();
    let now = SystemClock.now();
    let authority = Authority::generate(&domain, now).unwrap();
    let id = |account: &str| -> SpiffeId { format!("spiffe://{domain}/ns/x/sa/{account}").parse().unwrap() };
    let source = |account: &str, authority: &Authority| {
        let source = IdentitySource::new(domain.clone());
        source.set_bundle(authority.bundle().clone()).unwrap();
        source
            .set_svid(
                authority
                    .own_svid(&id(account), &[], Duration::from_secs(3600), now)
                    .unwrap(),
            )
            .unwrap();
        source
    };
    let server = agentd_identity::tls::server_config(
        &source("server", &authority),
        agentd_identity::tls::ClientAuth::Required,
    );
    let peer = Peer::start(router(), Some(server)).await;
    let with = |tls| {
        client(
            &peer.url("https", "/"),
            Options {
                tls,
                ..Options::default()
            },
        )
    };
    let ours = source("agent", &authority);

    let bare = IdentitySource::new(domain.clone());
    let early = TlsMode::Spiffe {
        source: bare.clone(),
        expected: id("server"),
    };
    fails(&with(early), "this process has no SVID yet").await;
    let blind = TlsMode::SpiffeServerOnly {
        source: bare,
        expected: id("server"),
    };
    fails(&with(blind), "this process has no trust bundle yet").await;
    assert_eq!(peer.connections(), 0);

    let right = TlsMode::Spiffe {
        source: ours.clone(),
        expected: id("server"),
    };
    assert_eq!(get(&with(right)).await.unwrap(), "HTTP/2.0 ");
    let wrong = TlsMode::Spiffe {
        source: ours.clone(),
        expected: id("other"),
    };
    fails(
        &with(wrong),
        "and the peer is `spiffe://test.agentd.internal/ns/x/sa/server`",
    )
    .await;
    let silent = TlsMode::SpiffeServerOnly {
        source: ours,
        expected: id("server"),
    };
    fails(&with(silent), "demands a client certificate").await;
    let stranger = source("agent", &Authority::generate(&domain, now).unwrap());
    let foreign = TlsMode::Spiffe {
        source: stranger,
        expected: id("server"),
    };
    fails(&with(foreign), "does not verify").await;
}

#[tokio::test]
async fn roots_are_a_file_and_nothing_that_has_no_end() {
    for path in ["/dev/zero", "/dev", "/nowhere"] {
        let destination = Destination::declared("https://127.0.0.1:1", Declared::Mcp).unwrap();
        let client = HttpClient::new(destination, web(with_ca(Path::new(path)))).unwrap();
        fails(&client, &format!("certificate file {path}: ")).await;
    }
}
