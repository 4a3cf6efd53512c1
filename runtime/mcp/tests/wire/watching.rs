//! Watched resources: notify, then read; again after every loss; once for each change.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_config::document::{Mcp, McpServer, ToolsRefresh};
use agentd_mcp::{Change, Content, Digest, Outbound, ResourceConsumer, ServersView, Supervised, Watch};
use agentd_net::Pace;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::log::Log;
use crate::peer::Peer;
use crate::script::{Discover, Get, Script, text, tool};

const QUICK: Pace = Pace {
    first: Duration::from_millis(5),
    max: Duration::from_millis(20),
};

/// What a consumer was given.
#[derive(Debug, PartialEq)]
enum Got {
    Armed(String),
    Changed(String),
}

struct Consumer {
    got: mpsc::UnboundedSender<Got>,
    /// Takes as long as there is no permit.
    busy: Option<Arc<Semaphore>>,
}

fn read(change: &Change) -> String {
    let texts = change.contents.iter().map(|part| match part {
        Content::Text { text, .. } => text.as_str(),
        Content::Blob { base64, .. } => base64.as_str(),
    });
    texts.collect()
}

#[async_trait]
impl ResourceConsumer for Consumer {
    async fn changed(&self, change: Change) {
        self.got.send(Got::Changed(read(&change))).unwrap();
        if let Some(busy) = &self.busy {
            busy.acquire().await.unwrap().forget();
        }
    }

    async fn armed(&self, first: Change) {
        self.got.send(Got::Armed(read(&first))).unwrap();
    }
}

/// A server, its supervision, and one watch.
struct Case {
    peer: Peer,
    supervised: Supervised,
    view: watch::Receiver<Arc<ServersView>>,
    got: mpsc::UnboundedReceiver<Got>,
    watch: Option<Watch>,
}

fn subscribing(discover: Discover) -> Script {
    Script {
        discover,
        get: Get::Held,
        capabilities: json!({"resources": {"subscribe": true, "listChanged": true}, "tools": {"listChanged": true}}),
        ..Script::default()
    }
}

fn mcp(server: McpServer) -> Mcp {
    Mcp {
        servers: vec![server],
        ..Mcp::default()
    }
}

fn consumer(busy: Option<Arc<Semaphore>>) -> (Arc<Consumer>, mpsc::UnboundedReceiver<Got>) {
    let (sender, got) = mpsc::unbounded_channel();
    (Arc::new(Consumer { got: sender, busy }), got)
}

impl Case {
    async fn new(script: Script) -> Self {
        Self::with(script, None, None).await
    }

    async fn with(script: Script, known: Option<Digest>, busy: Option<Arc<Semaphore>>) -> Self {
        let legacy = script.discover != Discover::Modern;
        let held = script.get == Get::Held;
        let peer = Peer::start(script).await;
        let server = peer.server("s");
        let supervised = Supervised::start(&mcp(server), "agent-0".into(), Outbound::default(), QUICK);
        let mut view = supervised.view();
        view.wait_for(|view| view.servers[0].state == ServerState::Connected)
            .await
            .unwrap();
        if legacy && held {
            peer.seen("GET").await;
        }
        let (consumer, got) = consumer(busy);
        let watch = supervised.watch("s", "a:1", consumer, known);
        Self {
            peer,
            supervised,
            view,
            got,
            watch: Some(watch),
        }
    }

    async fn next(&mut self) -> Got {
        self.got.recv().await.unwrap()
    }

    /// Armed, and everything that could still read once more has been dealt with.
    async fn armed(script: Script) -> Self {
        let mut case = Self::new(script).await;
        assert_eq!(case.next().await, Got::Armed("one".into()));
        case
    }

    fn now(&self, content: &str) {
        self.peer.script().contents.insert("a:1", text("a:1", content));
    }

    /// Says that the resource changed, in the way of the era.
    async fn say(&self, uri: &str) {
        let params = json!({ "uri": uri });
        let method = "notifications/resources/updated";
        self.peer
            .push(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        self.peer.tell(method, &params);
    }

    async fn change(&self, content: &str) {
        self.now(content);
        self.say("a:1").await;
    }

    async fn tools(&mut self, names: &[&str]) {
        let listed = |view: &Arc<ServersView>| {
            let entries = view.catalogue.entries();
            entries
                .iter()
                .map(|entry| entry.tool.name.as_str())
                .eq(names.iter().copied())
        };
        self.view.wait_for(listed).await.unwrap();
    }
}

fn changed(content: &str) -> Got {
    Got::Changed(content.into())
}

/// The mechanism follows from what was negotiated; what is heard is the same.
#[tokio::test]
async fn m37_m28_the_server_says_that_it_changed_and_it_is_read() {
    for discover in [Discover::Old, Discover::Modern] {
        let mut case = Case::armed(subscribing(discover)).await;
        for content in ["two", "three"] {
            case.change(content).await;
            assert_eq!(case.next().await, changed(content), "{discover:?}");
        }
        // It says that something happened, and is believed.
        case.change("three").await;
        assert_eq!(case.next().await, changed("three"), "{discover:?}");
        let (subscribes, listens) = (
            case.peer.count("resources/subscribe"),
            case.peer.count("subscriptions/listen"),
        );
        match discover {
            // One for the resource, one for the lists.
            Discover::Modern => assert_eq!((subscribes, listens), (0, 2)),
            _ => assert_eq!((subscribes, listens), (1, 0)),
        }
        let read = case.peer.seen("resources/read").await;
        let meta = &read.body["params"]["_meta"];
        assert_eq!(
            (&meta["agent/instance"], meta.get("agent/run_id")),
            (&json!("agent-0"), None)
        );
        case.supervised.close().await;
    }
}

#[tokio::test]
async fn m35_the_end_of_a_watch_and_of_a_connection_is_told() {
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    drop(case.watch.take());
    let told = case.peer.seen("resources/unsubscribe").await;
    assert_eq!(told.body["params"]["uri"], "a:1");

    // Two watches are one subscription, and its end comes with the last of them.
    let (one, mut first) = consumer(None);
    let (two, mut second) = consumer(None);
    let watches = [
        case.supervised.watch("s", "a:1", one, None),
        case.supervised.watch("s", "a:1", two, None),
    ];
    first.recv().await.unwrap();
    second.recv().await.unwrap();
    assert_eq!(case.peer.count("resources/subscribe"), 2);
    let [first, _second] = watches;
    drop(first);
    case.supervised.close().await;
    case.peer.seen("DELETE").await;
    let methods = case.peer.methods();
    let place = |what: &str| methods.iter().rposition(|seen| seen == what);
    assert_eq!(case.peer.count("resources/unsubscribe"), 2);
    assert!(place("resources/unsubscribe") < place("DELETE"), "{methods:?}");

    let mut case = Case::armed(subscribing(Discover::Modern)).await;
    assert_eq!(case.peer.listening(), 2);
    drop(case.watch.take());
    // The stream is closed: that is how the stateless revision says it.
    while case.peer.listening() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(case.peer.count("notifications/cancelled"), 0);
    case.supervised.close().await;
}

/// What is said while a read or the consumer is busy is one more read, never lost.
#[tokio::test]
async fn m28_what_is_said_meanwhile_is_one_more_read() {
    for discover in [Discover::Old, Discover::Modern] {
        let busy = Arc::new(Semaphore::new(0));
        let mut case = Case::with(subscribing(discover), None, Some(busy.clone())).await;
        assert_eq!(case.next().await, Got::Armed("one".into()));
        case.change("two").await;
        assert_eq!(case.next().await, changed("two"));
        let before = case.peer.count("resources/read");
        for number in 0..200 {
            case.change(&format!("v{number}")).await;
        }
        // Everything was heard once this is answered, as it came on the same streams before it.
        heard(&case).await;
        busy.add_permits(1);
        assert_eq!(case.next().await, changed("v199"), "{discover:?}");
        assert_eq!(case.peer.count("resources/read"), before + 1);
        busy.add_permits(100);
        case.supervised.close().await;
    }
}

/// Waits until whatever was said before has arrived.
async fn heard(case: &Case) {
    let connection = case.supervised.connection("s").unwrap();
    let mut changes = connection.resources_changed();
    let method = "notifications/resources/list_changed";
    case.peer.push(&json!({"jsonrpc": "2.0", "method": method}));
    while case.peer.tell(method, &json!({})) == 0 && connection.era() == agentd_mcp::Era::Stateless {
        tokio::task::yield_now().await;
    }
    changes.changed().await.unwrap();
}

#[tokio::test]
async fn m30_a_change_that_was_missed_while_the_stream_was_away_fires_once() {
    for (discover, gracefully) in [
        (Discover::Old, false),
        (Discover::Modern, true),
        (Discover::Modern, false),
    ] {
        let mut case = Case::armed(subscribing(discover)).await;
        let streams = |case: &Case| case.peer.count("GET") + case.peer.count("subscriptions/listen");
        let before = streams(&case);
        case.now("two");
        case.peer.hang_up();
        case.peer.end_listens(gracefully);
        assert_eq!(case.next().await, changed("two"), "{discover:?} {gracefully}");
        assert!(streams(&case) > before);
        // What a resumed stream repeats is of the change that was found already.
        case.say("a:1").await;
        case.change("three").await;
        assert_eq!(case.next().await, changed("three"), "{discover:?} {gracefully}");
        case.supervised.close().await;
    }
}

/// SSE: what was seen last is said when the stream is opened again.
#[tokio::test]
async fn m30_a_stream_is_resumed_with_the_last_event_id() {
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    case.peer.hang_up();
    let again = case.peer.seen_times("GET", 2).await;
    assert_eq!(again.header("last-event-id"), Some("n1"));
    assert_eq!(case.peer.seen("GET").await.header("last-event-id"), None);
    case.supervised.close().await;
}

/// M01: the session is gone; there is one new one, whoever finds out, and it is subscribed and read.
#[tokio::test]
async fn field_m01_a_session_that_is_lost_is_begun_anew_once_and_subscribed() {
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    let connection = case.supervised.connection("s").unwrap();
    case.now("two");
    *case.peer.sessions() += 1000;
    let meta = agentd_mcp::CallMeta::default();
    let call = || connection.call("echo", Default::default(), &meta);
    let (one, two, three) = tokio::join!(call(), call(), call());
    for outcome in [one, two, three] {
        assert_eq!(outcome.unwrap().text, "hello");
    }
    assert_eq!(case.peer.count("initialize"), 2);
    assert_eq!(case.next().await, changed("two"));
    assert_eq!(case.peer.count("resources/subscribe"), 2);
    case.change("three").await;
    assert_eq!(case.next().await, changed("three"));
    case.supervised.close().await;
}

#[tokio::test]
async fn m30_a_watch_survives_a_restart_and_a_reload() {
    for discover in [Discover::Old, Discover::Modern] {
        let mut case = Case::armed(subscribing(discover)).await;
        let address = case.peer.address;
        let server = case.peer.server("s");
        case.peer = {
            drop(case.peer);
            let script = subscribing(discover);
            let peer = Peer::on(address, script).await;
            peer.script()
                .contents
                .insert("a:1", text("a:1", "after the restart"));
            peer
        };
        assert_eq!(case.next().await, changed("after the restart"), "{discover:?}");
        // Another entry: another connection.
        case.now("after the reload");
        let renamed = McpServer {
            ns: Some("x".into()),
            ..server.clone()
        };
        case.supervised.reload(&mcp(renamed));
        assert_eq!(case.next().await, changed("after the reload"), "{discover:?}");
        // Gone, and back.
        case.supervised.reload(&Mcp::default());
        assert!(case.supervised.connection("s").is_none());
        case.now("back");
        case.supervised.reload(&mcp(server));
        assert_eq!(case.next().await, changed("back"), "{discover:?}");
        case.supervised.close().await;
    }
}

/// What the consumer saw before the process was started again is where it goes on.
#[tokio::test]
async fn m30_what_was_known_is_compared_with_what_is_there() {
    let one = Digest::of(&[Content::Text {
        uri: "a:1".into(),
        mime_type: Some("text/plain".into()),
        text: "one".into(),
    }]);
    let mut case = Case::with(subscribing(Discover::Old), Some(one.clone()), None).await;
    case.peer.seen("resources/read").await;
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"), "what was known is no change");
    let (again, mut got) = consumer(None);
    let _watch = case.supervised.watch("s", "a:1", again, Some(one));
    assert_eq!(got.recv().await.unwrap(), changed("two"));
    case.supervised.close().await;
}

#[tokio::test]
async fn m30_without_a_push_channel_the_content_is_there_for_who_asks() {
    let log = Log::start();
    let offered = json!({"resources": {"subscribe": true}});
    // No notification stream, in a session and without; one that fails for ever; no subscriptions at all.
    for (get, session, capabilities, subscribes) in [
        (Get::NotAllowed, true, offered.clone(), 1),
        (Get::NotAllowed, false, offered.clone(), 1),
        (Get::Broken, true, offered, 1),
        (Get::Held, true, json!({"resources": {}}), 0),
    ] {
        let before = log.of("mcp.watch.pull_only").len();
        let case = Case::armed(Script {
            get,
            session,
            capabilities,
            ..subscribing(Discover::Old)
        })
        .await;
        log.until("mcp.watch.pull_only", before + 1).await;
        assert_eq!(case.peer.count("resources/subscribe"), subscribes);
        assert_eq!(case.view.borrow().servers[0].state, ServerState::Connected);
        let connection = case.supervised.connection("s").unwrap();
        assert_eq!(
            connection.read("a:1", &Default::default()).await.unwrap().len(),
            1
        );
        case.supervised.close().await;
        assert_eq!(log.of("mcp.watch.pull_only").len(), before + 1);
    }
}

/// The channel was known to be none before anybody wanted to watch.
#[tokio::test]
async fn m30_a_watch_that_begins_later_is_pull_only_too() {
    let log = Log::start();
    for session in [true, false] {
        let before = log.of("mcp.watch.pull_only").len();
        let case = Case::armed(Script {
            get: Get::NotAllowed,
            session,
            ..subscribing(Discover::Old)
        })
        .await;
        log.until("mcp.watch.pull_only", before + 1).await;
        let (later, mut got) = consumer(None);
        let _watch = case.supervised.watch("s", "a:2", later, None);
        case.peer.script().contents.insert("a:2", text("a:2", "two"));
        case.peer.seen_times("resources/read", 2).await;
        log.until("mcp.watch.pull_only", before + 2).await;
        drop(got.try_recv());
        case.supervised.close().await;
    }
}

/// A server that gives no session has a stream of notifications too: it is opened, heard, opened again after a break, and
/// then told anew what is wanted, as nothing says that it still knows.
#[tokio::test]
async fn m30_a_server_without_sessions_is_heard_as_one_with_them() {
    let log = Log::start();
    let mut case = Case::armed(Script {
        session: false,
        ..subscribing(Discover::Old)
    })
    .await;
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    // It asks, and is answered.
    case.peer
        .push(&json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
    assert_eq!(case.peer.seen("answer").await.body["id"], 7);
    case.now("three");
    case.peer.hang_up();
    assert_eq!(case.next().await, changed("three"));
    case.peer.seen_times("resources/subscribe", 2).await;
    case.change("four").await;
    assert_eq!(case.next().await, changed("four"));
    case.supervised.close().await;
    let invented = |seen: &crate::peer::Seen| seen.header("mcp-session-id").map(str::to_owned);
    assert_eq!(case.peer.log().iter().find_map(invented), None);
    assert_eq!((case.peer.count("GET"), case.peer.count("DELETE")), (2, 0));
    assert_eq!(log.of("mcp.watch.pull_only"), Vec::<String>::new());
}

/// A word that comes late, of a change that was found already, brings the next change; the word of that one is late too.
#[tokio::test]
async fn m28_words_that_lag_behind_are_not_told_twice() {
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    case.now("two");
    case.peer.hang_up();
    assert_eq!(case.next().await, changed("two"));
    case.now("three");
    case.say("a:1").await;
    assert_eq!(case.next().await, changed("three"));
    let reads = case.peer.count("resources/read");
    case.say("a:1").await;
    case.peer.seen_times("resources/read", reads + 1).await;
    heard(&case).await;
    case.change("four").await;
    assert_eq!(case.next().await, changed("four"));
    // Nothing lags any more: a word counts whatever is read.
    case.say("a:1").await;
    assert_eq!(case.next().await, changed("four"));
    case.supervised.close().await;
}

/// M38: nothing that a server says is dropped in silence.
#[tokio::test]
async fn m28_what_nobody_waits_for_is_logged() {
    let log = Log::start();
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    case.say("a:7").await;
    let lines = log.until("mcp.resource.undelivered", 1).await;
    assert!(
        lines[0].contains("uri=a:7") && lines[0].starts_with("WARN"),
        "{lines:?}"
    );
    // A part of what is watched is news of it.
    case.now("two");
    case.say("a:1/part").await;
    assert_eq!(case.next().await, changed("two"));
    case.supervised.close().await;
}

/// A read that fails is tried again, and says why.
#[tokio::test]
async fn m28_a_read_that_fails_is_done_again() {
    let log = Log::start();
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    let fault = json!({"error": {"code": -32603, "message": "later"}});
    case.peer.script().first = [fault.clone(), fault].into();
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    assert!(log.of("mcp.watch.fail")[0].contains("later"));
    // What is not there is waited for.
    let gone = case.peer.script().contents.remove("a:1");
    assert!(gone.is_some());
    case.say("a:1").await;
    log.until("mcp.watch.fail", 3).await;
    case.change("again").await;
    assert_eq!(case.next().await, changed("again"));
    case.supervised.close().await;
}

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

async fn change_tools(case: &Case, name: &str) {
    case.peer.script().tools = [(String::new(), (vec![tool(name)], None))].into();
    let method = "notifications/tools/list_changed";
    case.peer.push(&json!({"jsonrpc": "2.0", "method": method}));
    case.peer.tell(method, &Value::Object(Default::default()));
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

/// A connection that is lost while the consumer is busy with a change has not told it: the next one does.
#[tokio::test]
async fn m30_a_change_counts_once_its_consumer_has_it() {
    let busy = Arc::new(Semaphore::new(0));
    let mut case = Case::with(subscribing(Discover::Old), None, Some(busy.clone())).await;
    assert_eq!(case.next().await, Got::Armed("one".into()));
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    let other = McpServer {
        ns: Some("x".into()),
        ..case.peer.server("s")
    };
    case.supervised.reload(&mcp(other));
    assert_eq!(case.next().await, changed("two"));
    busy.add_permits(10);
    case.supervised.close().await;
}
