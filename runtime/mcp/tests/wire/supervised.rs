//! Servers that are kept connected.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::report::{self, ServerState};
use agentd_config::defaults::CONNECT_TIMEOUT;
use agentd_config::document::{Mcp, McpServer};
use agentd_mcp::supervised::PACE;
use agentd_mcp::{Outbound, ServersView, Supervised};
use agentd_net::Pace;
use axum::http::StatusCode;
use tokio::sync::watch;

use crate::peer::Peer;
use crate::script::{Get, Script, tool};

/// Short waits between tries, so that a test does not wait.
const QUICK: Pace = Pace {
    first: Duration::from_millis(5),
    max: Duration::from_millis(20),
};

fn start(servers: Vec<McpServer>) -> Supervised {
    Supervised::start(&mcp(servers), "agent-0".into(), Outbound::default(), QUICK)
}

fn mcp(servers: Vec<McpServer>) -> Mcp {
    Mcp {
        servers,
        ..Mcp::default()
    }
}

async fn until(
    view: &mut watch::Receiver<Arc<ServersView>>,
    what: impl FnMut(&Arc<ServersView>) -> bool,
) -> Arc<ServersView> {
    view.wait_for(what).await.unwrap().clone()
}

fn states(view: &ServersView) -> Vec<ServerState> {
    view.servers.iter().map(|view| view.state).collect()
}

fn tools(view: &ServersView) -> Vec<&str> {
    view.catalogue
        .entries()
        .iter()
        .map(|entry| entry.qualified.as_str())
        .collect()
}

/// M05: a server that is down at the start is used once it is there, with nobody's help.
#[tokio::test]
async fn m05_a_server_that_is_down_at_the_start_comes_back() {
    let address = {
        let peer = Peer::start(Script::default()).await;
        peer.address
    };
    let good = Peer::start(Script {
        tools: [(String::new(), (vec![tool("other")], None))].into(),
        ..Script::default()
    })
    .await;
    let away = McpServer {
        name: "away".into(),
        endpoint: format!("http://{address}/mcp"),
        ..McpServer::default()
    };
    let supervised = start(vec![away, good.server("good")]);
    let mut view = supervised.view();
    let settled = until(&mut view, |view| view.settled()).await;
    assert_eq!(states(&settled), [ServerState::Failed, ServerState::Connected]);
    assert_eq!(tools(&settled), ["other"], "the run goes on with what is there");
    assert!(
        settled.servers[0]
            .message
            .as_deref()
            .unwrap()
            .starts_with("cannot connect to"),
        "{settled:?}"
    );

    let back = Peer::on(address, Script::default()).await;
    let view = until(&mut view, |view| view.servers[0].state == ServerState::Connected).await;
    assert_eq!(tools(&view), ["echo", "other"]);
    assert_eq!(view.servers[0].message, None);
    assert!(supervised.connection("away").is_some());
    supervised.close().await;
    back.seen("DELETE").await;
}

/// M05: with the real waits, the longest pause and one connect in vain stay under a minute.
#[test]
fn m05_the_longest_wait_is_under_a_minute() {
    assert!(PACE.max + CONNECT_TIMEOUT <= Duration::from_secs(60));
}

#[tokio::test]
async fn a_server_that_goes_away_is_noticed_and_taken_back() {
    let peer = Peer::start(Script {
        get: Get::Held,
        ..Script::default()
    })
    .await;
    let server = peer.server("s");
    let address = peer.address;
    let supervised = start(vec![server]);
    let mut view = supervised.view();
    let there = until(&mut view, |view| view.servers[0].state == ServerState::Connected).await;
    peer.seen("GET").await;
    drop(peer);
    let lost = until(&mut view, |view| view.servers[0].state == ServerState::Failed).await;
    assert!(lost.catalogue.entries().is_empty());
    // It is away, not another one: what is known of it is reported beside the state.
    let ([before], [now]) = (&there.report()[..], &lost.report()[..]) else {
        panic!("{lost:?}")
    };
    assert_eq!((before.tools.len(), before.tool_count), (1, 1));
    let away = report::Server {
        state: ServerState::Failed,
        message: now.message.clone(),
        ..before.clone()
    };
    assert!(now.message.is_some() && *now == away, "{now:?}");
    let peer = Peer::on(address, Script::default()).await;
    until(&mut view, |view| view.servers[0].state == ServerState::Connected).await;
    peer.seen("initialize").await;
    supervised.close().await;
}

/// A server without a stream shows its loss only when it is asked.
#[tokio::test]
async fn a_server_without_a_stream_is_asked_again_on_demand() {
    let peer = Peer::start(Script::default()).await;
    let supervised = start(vec![peer.server("s")]);
    let mut view = supervised.view();
    until(&mut view, |view| view.servers[0].state == ServerState::Connected).await;
    peer.script().tools = [(String::new(), (vec![tool("new")], None))].into();
    supervised.check("s");
    let refreshed = until(&mut view, |view| tools(view) == ["new"]).await;
    assert_eq!(states(&refreshed), [ServerState::Connected]);
    assert_eq!(peer.count("initialize"), 1);
    peer.script().status = Some((StatusCode::UNAUTHORIZED, Some("Bearer"), ""));
    supervised.check("s");
    let refused = until(&mut view, |view| {
        view.servers[0].state == ServerState::Unauthorized
    })
    .await;
    assert!(refused.catalogue.entries().is_empty());
    supervised.close().await;
}

#[tokio::test]
async fn a_reload_dials_what_changed_and_lists_the_rest_again() {
    let (kept, moved) = (
        Peer::start(Script::default()).await,
        Peer::start(Script::default()).await,
    );
    let supervised = start(vec![kept.server("kept"), moved.server("moved")]);
    let mut view = supervised.view();
    let both = until(&mut view, |view| {
        states(view) == [ServerState::Connected, ServerState::Connected]
    })
    .await;
    assert_eq!(tools(&both), ["kept.echo", "moved.echo"]);

    let excluding = McpServer {
        exclude: vec!["*".into()],
        ..moved.server("moved")
    };
    supervised.reload(&mcp(vec![kept.server("kept"), excluding]));
    let now = until(&mut view, |view| {
        states(view) == [ServerState::Connected, ServerState::Connected]
    })
    .await;
    assert_eq!(tools(&now), ["echo"]);
    kept.seen_times("tools/list", 2).await;
    assert_eq!(kept.count("initialize"), 1);
    assert_eq!(moved.count("initialize"), 2);
    moved.seen("DELETE").await;

    supervised.reload(&mcp(Vec::new()));
    assert!(view.borrow().servers.is_empty());
    kept.seen("DELETE").await;
    assert!(supervised.connection("kept").is_none());
}

#[tokio::test]
async fn the_report_says_what_is_true() {
    let many = (0..300).map(|number| tool(&format!("t{number:03}"))).collect();
    let peer = Peer::start(Script {
        tools: [(String::new(), (many, None))].into(),
        ..Script::default()
    })
    .await;
    let closed = Peer::start(Script {
        status: Some((StatusCode::FORBIDDEN, None, "")),
        ..Script::default()
    })
    .await;
    let supervised = start(vec![peer.server("z"), closed.server("a")]);
    let mut view = supervised.view();
    let report = until(&mut view, |view| view.settled()).await.report();
    let [refused, connected] = report.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(
        (refused.name.as_str(), refused.state),
        ("a", ServerState::Unauthorized)
    );
    assert_eq!(
        refused.info, None,
        "nothing is known of it, which is not the same as no tools"
    );
    assert!(refused.message.as_deref().unwrap().contains("HTTP 403"));
    assert_eq!(
        (connected.name.as_str(), connected.state),
        ("z", ServerState::Connected)
    );
    assert_eq!((connected.tools.len(), connected.tool_count), (256, 300));
    assert_eq!(connected.tools[0].name, "t000");
    assert_eq!(connected.info.as_ref().unwrap().protocol_version, "2025-11-25");
    supervised.close().await;
}
