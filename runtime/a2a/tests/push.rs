//! A notification over TLS: to who is trusted, with all that was asked for, and to nobody else.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

mod support;

use std::sync::Arc;

use agentd_a2a::push::{Authentication, PushConfig, Sender};
use agentd_a2a::tls;
use agentd_a2a::version::Version;
use agentd_a2a::wire::{Task, TaskState, TaskStatus};
use agentd_net::TlsMode;
use agentd_net::tls::WebRoots;
use serde_json::{Value, json};
use support::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

fn task() -> Task {
    Task {
        id: "t".into(),
        context_id: "c".into(),
        status: TaskStatus {
            state: TaskState::Completed,
            message: None,
            timestamp: None,
        },
        artifacts: None,
        history: None,
        metadata: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_notification_goes_over_tls_to_who_is_trusted() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let authority = authority(TD);
    let server = tls::svid(&source(&authority, SERVER, &["localhost"]));
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let hook = tokio::spawn(async move {
        loop {
            let (stream, _) = socket.accept().await.unwrap();
            // Whoever does not trust it goes away.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut text = String::new();
            while !text.ends_with("}}}") {
                let mut piece = [0; 4096];
                let length = stream.read(&mut piece).await.unwrap();
                assert!(length > 0, "{text}");
                text.push_str(std::str::from_utf8(&piece[..length]).unwrap());
            }
            let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            return text;
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("ca.pem");
    std::fs::write(&roots, authority.bundle().to_pem()).unwrap();
    let config = PushConfig {
        id: "a".into(),
        url: format!("https://localhost:{port}/hook?x=1"),
        token: Some("hush".into()),
        authentication: Some(Authentication {
            scheme: "Bearer".into(),
            credentials: Some("secret".into()),
        }),
        version: Version::One,
    };
    let trusts = TlsMode::WebRoots(WebRoots {
        ca_files: vec![roots],
        ..WebRoots::default()
    });
    for (sender, why) in [
        (Sender::new(true, TlsMode::default()), "TLS"),
        (Sender::new(false, trusts.clone()), "refused"),
    ] {
        let refused = sender.send(&config, task()).await.unwrap_err();
        assert!(refused.contains(why), "{refused}");
        assert!(
            !refused.contains("hush") && !refused.contains("secret"),
            "{refused}"
        );
    }
    Sender::new(true, trusts).send(&config, task()).await.unwrap();
    let heard = hook.await.unwrap();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{head}");
    for line in [
        "authorization: Bearer secret",
        "x-a2a-notification-token: hush",
        "a2a-version: 1.0",
    ] {
        assert!(head.lines().any(|one| one == line), "{head}");
    }
    let status = json!({ "state": "TASK_STATE_COMPLETED" });
    let told = json!({ "task": { "id": "t", "contextId": "c", "status": status } });
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), told);
}
