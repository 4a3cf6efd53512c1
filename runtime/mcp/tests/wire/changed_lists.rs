//! Lists that change: each word of a server has its own meaning, and too many of them are none.

use std::sync::Arc;

use agentd_base::report::ServerState;
use agentd_config::document::{Mcp, ToolsRefresh};
use agentd_mcp::ServersView;
use serde_json::json;

use crate::case::{Case, change_tools, changed, heard, mcp, subscribing};
use crate::log::Log;
use crate::script::Discover;

/// Three words of a server, three things that follow.
#[tokio::test]
async fn m31_each_notification_has_its_own_meaning() {
    for discover in [Discover::Old, Discover::Modern] {
        let mut case = Case::armed(subscribing(discover)).await;
        let counts = |case: &Case| {
            ["tools/list", "resources/list", "resources/read"].map(|what| case.peer.count(what))
        };
        if discover == Discover::Modern {
            case.peer.seen_times("subscriptions/listen", 2).await;
        }
        let say = |case: &Case, method: &str| {
            case.peer.push(&json!({"jsonrpc": "2.0", "method": method}));
            case.peer.tell(method, &json!({}));
        };
        let [tools, _, reads] = counts(&case);
        case.peer.script().resources = vec![json!({"uri": "a:9", "name": "new"})];
        say(&case, "notifications/resources/list_changed");
        let listed = |view: &Arc<ServersView>| {
            view.servers[0]
                .resources
                .first()
                .is_some_and(|resource| resource.uri == "a:9")
        };
        case.view.wait_for(listed).await.unwrap();
        let [now, _, after] = counts(&case);
        assert_eq!((now, after), (tools, reads), "{discover:?}");
        case.supervised.close().await;
    }
}

#[tokio::test]
async fn m24_changed_tools_are_logged_and_wait_for_a_reload() {
    let log = Log::start();
    for discover in [Discover::Old, Discover::Modern] {
        let before = log.of("mcp.tools_changed").len();
        let mut case = Case::armed(subscribing(discover)).await;
        case.tools(&["echo"]).await;
        heard(&case).await;
        let lists = case.peer.count("tools/list");
        change_tools(&case, "new").await;
        log.until("mcp.tools_changed", before + 1).await;
        heard(&case).await;
        assert_eq!(case.peer.count("tools/list"), lists);
        case.tools(&["echo"]).await;
        case.supervised.reload(&mcp(case.peer.server("s")));
        case.tools(&["new"]).await;
        assert_eq!(
            case.peer.count("initialize") + case.peer.count("server/discover"),
            if discover == Discover::Old { 2 } else { 1 }
        );
        case.supervised.close().await;
    }
}

#[tokio::test]
async fn m24_where_it_is_live_changed_tools_count_at_once_and_not_all_the_time() {
    let log = Log::start();
    for discover in [Discover::Old, Discover::Modern] {
        let mut case = Case::armed(subscribing(discover)).await;
        let live = Mcp {
            tools_refresh: ToolsRefresh::Live,
            ..mcp(case.peer.server("s"))
        };
        case.supervised.reload(&live);
        heard(&case).await;
        change_tools(&case, "new").await;
        case.tools(&["new"]).await;
        // A server that says it all the time is listed now and then; the last word counts.
        let lists = case.peer.count("tools/list");
        for number in 0..100 {
            change_tools(&case, &format!("t{number}")).await;
        }
        case.tools(&["t99"]).await;
        assert!(
            case.peer.count("tools/list") <= lists + 3,
            "{}",
            case.peer.count("tools/list")
        );
        case.supervised.close().await;
    }
    assert!(!log.of("mcp.tools_refreshed").is_empty());
}

/// One core of the agent's pod used to go to a server that only says that its tools changed.
#[tokio::test]
async fn a_server_that_says_too_much_loses_its_stream() {
    let log = Log::start();
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    case.peer.flood();
    let lines = log.until("mcp.stream.flood", 1).await;
    assert!(lines[0].starts_with("WARN"), "{lines:?}");
    // It is opened again after a while, and works.
    case.peer.seen_times("GET", 2).await;
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    // One that does it every time is not connected any more, and says why.
    case.peer.flood();
    log.until("mcp.stream.flood", 2).await;
    case.peer.seen_times("GET", 3).await;
    case.peer.script().silent_initialize = true;
    case.peer.flood();
    let view = case
        .view
        .wait_for(|view| view.servers[0].state == ServerState::Failed)
        .await
        .unwrap();
    let message = view.servers[0].message.clone().unwrap();
    assert!(message.contains("more than is asked for"), "{message}");
}
