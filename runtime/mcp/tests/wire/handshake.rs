//! The handshake: what is declared, which revision is spoken, what counts as a failure.

use std::time::Duration;

use agentd_base::class::Class;
use agentd_base::report::{ServerInfo, ServerState};
use agentd_mcp::{Era, Hooks, Kind, Outbound};
use serde_json::json;

use crate::peer::{Peer, boot, open, refused};
use crate::script::{Discover, Get, Script};

const SHORT: Duration = Duration::from_millis(400);

#[tokio::test]
async fn m11_a_boot_connection_declares_nothing_and_is_titled() {
    let script = Script {
        instructions: Some(" Be kind.\u{7} ".into()),
        ..Script::default()
    };
    let peer = Peer::start(script).await;
    let connection = peer.boot().await;
    assert_eq!(connection.era(), Era::Legacy);
    assert_eq!(connection.instructions(), Some("Be kind."));
    assert_eq!(
        *connection.info(),
        ServerInfo {
            name: "scripted".into(),
            version: "9".into(),
            protocol_version: "2025-11-25".into(),
            capabilities: vec!["tools".into(), "tools.listChanged".into()],
        }
    );
    connection.tools().await.unwrap();
    peer.seen("GET").await;
    connection.close().await;

    let methods = peer.methods();
    let expected = [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "GET",
        "tools/list",
        "DELETE",
    ];
    // The GET runs beside the list.
    assert_eq!(methods.len(), expected.len(), "{methods:?}");
    assert!(
        expected
            .iter()
            .all(|method| methods.iter().any(|seen| seen == method)),
        "{methods:?}"
    );
    let initialize = peer.seen("initialize").await;
    let client = json!({"name": "agentd", "version": env!("CARGO_PKG_VERSION"), "title": "agent-0"});
    assert_eq!(
        initialize.body["params"],
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
    );
    assert_eq!(
        initialize.header("accept"),
        Some("application/json, text/event-stream")
    );
    assert_eq!(initialize.header("content-type"), Some("application/json"));
    assert_eq!(initialize.header("mcp-session-id"), None);
    for later in ["notifications/initialized", "GET", "tools/list", "DELETE"] {
        let seen = peer.seen(later).await;
        assert_eq!(seen.header("mcp-session-id"), Some("session-1"), "{later}");
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"), "{later}");
    }
    assert_eq!(peer.seen("GET").await.header("accept"), Some("text/event-stream"));
    let discover = peer.seen("server/discover").await;
    let meta = &discover.body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
}

#[tokio::test]
async fn m12_a_worker_offers_elicitation_has_no_title_and_does_not_probe_what_is_known() {
    let peer = Peer::start(Script::default()).await;
    let connection = open(
        &peer.server("s"),
        Kind::Worker {
            era: Some(Era::Legacy),
        },
    )
    .await;
    connection.close().await;
    assert_eq!(peer.count("server/discover"), 0);
    let client = json!({"name": "agentd", "version": env!("CARGO_PKG_VERSION")});
    assert_eq!(
        peer.seen("initialize").await.body["params"],
        json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client})
    );
}

#[tokio::test]
async fn field_m21_the_stateless_revision_is_spoken_where_it_is_offered() {
    for kind in [
        boot(),
        Kind::Worker { era: None },
        Kind::Worker {
            era: Some(Era::Stateless),
        },
    ] {
        let peer = Peer::start(Script {
            discover: Discover::Modern,
            ..Script::default()
        })
        .await;
        let connection = open(&peer.server("s"), kind).await;
        assert_eq!(connection.era(), Era::Stateless);
        assert_eq!(connection.info().protocol_version, "2026-07-28");
        assert_eq!(connection.tools().await.unwrap().len(), 1);
        connection.close().await;
        assert_eq!(peer.methods(), ["server/discover", "tools/list"]);
        let list = peer.seen("tools/list").await;
        assert_eq!(list.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(list.header("mcp-method"), Some("tools/list"));
        assert_eq!(
            list.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
    }
}

#[tokio::test]
async fn field_m21_whatever_an_older_server_makes_of_the_probe_initialize_follows() {
    for discover in [
        Discover::Page,
        Discover::Silent,
        Discover::SilentStream,
        Discover::Empty,
    ] {
        let peer = Peer::start(Script {
            discover,
            ..Script::default()
        })
        .await;
        let connection = open(&peer.hasty(SHORT), boot()).await;
        assert_eq!(connection.era(), Era::Legacy, "{discover:?}");
        connection.close().await;
    }
}

#[tokio::test]
async fn m15_older_revisions_are_accepted_and_unknown_ones_are_not() {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let peer = Peer::start(Script {
            version,
            ..Script::default()
        })
        .await;
        let connection = peer.boot().await;
        assert_eq!(connection.info().protocol_version, version);
        connection.tools().await.unwrap();
        assert_eq!(
            peer.seen("tools/list").await.header("mcp-protocol-version"),
            Some(version)
        );
        connection.close().await;
    }
    let peer = Peer::start(Script {
        version: "1999-01-01",
        ..Script::default()
    })
    .await;
    let error = refused(&peer.server("s")).await;
    assert_eq!(
        error.message,
        "the server speaks MCP revision 1999-01-01, which is not spoken here"
    );
    assert_eq!((error.state, error.class), (ServerState::Failed, Class::Invalid));
}

/// M04: the optional stream of a compliant server may stay open for ever, may never even begin, and may not exist.
#[tokio::test]
async fn m04_discovery_does_not_wait_for_the_optional_stream() {
    for get in [Get::Held, Get::Silent, Get::NotAllowed, Get::Broken] {
        let peer = Peer::start(Script {
            get,
            ..Script::default()
        })
        .await;
        let connection = peer.boot().await;
        assert_eq!(connection.tools().await.unwrap().len(), 1, "{get:?}");
        peer.seen("GET").await;
        connection.close().await;
    }
}

#[tokio::test]
async fn m15_a_handshake_that_does_not_end_is_a_failure() {
    let peer = Peer::start(Script {
        silent_initialize: true,
        ..Script::default()
    })
    .await;
    let error = refused(&peer.hasty(SHORT)).await;
    assert_eq!(error.message, "the handshake took longer than 400ms");
    assert_eq!(
        (error.state, error.class),
        (ServerState::Failed, Class::Unavailable)
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_the_cause() {
    let peer = Peer::start(Script::default()).await;
    let server = peer.server("s");
    let address = peer.address;
    drop(peer);
    // The port is free once the peer's runtime is gone.
    drop(Peer::on(address, Script::default()).await);
    let error = loop {
        match agentd_mcp::Connection::open(&server, None, boot(), &Outbound::default(), Hooks::default())
            .await
        {
            Ok(connection) => connection.close().await,
            Err(error) if error.message.contains("refused") => break error,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(
        error.message,
        format!("cannot connect to {address}: connection refused; is it running, and is the port right?")
    );
    assert_eq!(
        (error.state, error.class),
        (ServerState::Failed, Class::Unavailable)
    );
}
