//! Servers, and documents, that do everything at once: nothing is lost, nothing grows without a bound, nobody waits for
//! somebody else.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_config::document::{Mcp, ToolsRefresh};
use agentd_mcp::{Change, Outbound, ResourceConsumer, Supervised};
use agentd_net::Pace;
use async_trait::async_trait;
use serde_json::json;
use tokio::sync::watch;

use crate::peer::Peer;
use crate::script::{Discover, Get, Script, tool};

const QUICK: Pace = Pace {
    first: Duration::from_millis(5),
    max: Duration::from_millis(20),
};

fn pushing() -> Script {
    Script {
        discover: Discover::Old,
        get: Get::Held,
        capabilities: json!({"resources": {"subscribe": true}, "tools": {"listChanged": true}}),
        ..Script::default()
    }
}

async fn supervised(peer: &Peer, mcp: &Mcp) -> Supervised {
    let supervised = Supervised::start(mcp, "agent-0".into(), Outbound::default(), QUICK);
    let mut view = supervised.view();
    view.wait_for(|view| view.servers[0].state == ServerState::Connected)
        .await
        .unwrap();
    peer.seen("GET").await;
    supervised
}

fn mcp(peer: &Peer) -> Mcp {
    Mcp {
        servers: vec![peer.server("s")],
        tools_refresh: ToolsRefresh::Live,
        ..Mcp::default()
    }
}

/// Counts the watches that know the first content.
struct Told {
    armed: watch::Sender<usize>,
}

#[async_trait]
impl ResourceConsumer for Told {
    async fn armed(&self, _: Change) {
        self.armed.send_modify(|armed| *armed += 1);
    }

    async fn changed(&self, _: Change) {}
}

/// A server that never answers one subscription keeps no other from being made.
#[tokio::test]
async fn m28_a_subscription_that_hangs_holds_up_no_other() {
    let peer = Peer::start(Script {
        silent_subscribe: Some("a:2"),
        ..pushing()
    })
    .await;
    let supervised = supervised(&peer, &mcp(&peer)).await;
    let consumer = Arc::new(Told {
        armed: watch::Sender::default(),
    });
    let _hangs = supervised.watch("s", "a:2", consumer.clone(), None);
    peer.seen("resources/subscribe").await;
    let _watch = supervised.watch("s", "a:1", consumer.clone(), None);
    consumer
        .armed
        .subscribe()
        .wait_for(|armed| *armed == 1)
        .await
        .unwrap();
    supervised.close().await;
}

/// The stream cannot be had again: that is a lost server, not one that has nothing to say.
#[tokio::test]
async fn m30_a_stream_that_is_refused_later_is_a_loss() {
    let peer = Peer::start(pushing()).await;
    let supervised = supervised(&peer, &mcp(&peer)).await;
    peer.script().get = Get::Unauthorized;
    peer.hang_up();
    peer.seen_times("initialize", 2).await;
    supervised.close().await;
}

/// One connection, the tools of the last word, and no more lists than somebody asked for.
#[tokio::test(flavor = "multi_thread")]
async fn m24_reloads_and_changed_tools_at_once_end_in_what_is_there() {
    let peer = Peer::start(pushing()).await;
    let mcp = mcp(&peer);
    let supervised = supervised(&peer, &mcp).await;
    for number in 0..300 {
        peer.script().tools = [(String::new(), (vec![tool(&format!("t{number}"))], None))].into();
        peer.push(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        supervised.reload(&mcp);
    }
    let mut view = supervised.view();
    let last = |view: &Arc<agentd_mcp::ServersView>| view.catalogue.by_qualified_name("t299").is_some();
    view.wait_for(last).await.unwrap();
    assert_eq!((peer.count("initialize"), peer.count("GET")), (1, 1));
    assert!(peer.count("tools/list") < 310, "{}", peer.count("tools/list"));
    supervised.close().await;
}
