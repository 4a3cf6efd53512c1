//! A scripted server, its supervision, and one watch on one of its resources.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_config::document::{Mcp, McpServer};
use agentd_mcp::{Change, Content, Digest, Outbound, ResourceConsumer, ServersView, Supervised, Watch};
use agentd_net::Pace;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::peer::Peer;
use crate::script::{Discover, Get, Script, text, tool};

pub(crate) const QUICK: Pace = Pace {
    first: Duration::from_millis(5),
    max: Duration::from_millis(20),
};

/// What a consumer was given.
#[derive(Debug, PartialEq)]
pub(crate) enum Got {
    Armed(String),
    Changed(String),
}

pub(crate) struct Consumer {
    pub(crate) got: mpsc::UnboundedSender<Got>,
    /// Takes as long as there is no permit.
    pub(crate) busy: Option<Arc<Semaphore>>,
}

pub(crate) fn read(change: &Change) -> String {
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
pub(crate) struct Case {
    pub(crate) peer: Peer,
    pub(crate) supervised: Supervised,
    pub(crate) view: watch::Receiver<Arc<ServersView>>,
    pub(crate) got: mpsc::UnboundedReceiver<Got>,
    pub(crate) watch: Option<Watch>,
}

pub(crate) fn subscribing(discover: Discover) -> Script {
    Script {
        discover,
        get: Get::Held,
        capabilities: json!({"resources": {"subscribe": true, "listChanged": true}, "tools": {"listChanged": true}}),
        ..Script::default()
    }
}

pub(crate) fn mcp(server: McpServer) -> Mcp {
    Mcp {
        servers: vec![server],
        ..Mcp::default()
    }
}

pub(crate) fn consumer(busy: Option<Arc<Semaphore>>) -> (Arc<Consumer>, mpsc::UnboundedReceiver<Got>) {
    let (sender, got) = mpsc::unbounded_channel();
    (Arc::new(Consumer { got: sender, busy }), got)
}

impl Case {
    pub(crate) async fn new(script: Script) -> Self {
        Self::with(script, None, None).await
    }

    pub(crate) async fn with(script: Script, known: Option<Digest>, busy: Option<Arc<Semaphore>>) -> Self {
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

    pub(crate) async fn next(&mut self) -> Got {
        self.got.recv().await.unwrap()
    }

    /// Armed, and everything that could still read once more has been dealt with.
    pub(crate) async fn armed(script: Script) -> Self {
        let mut case = Self::new(script).await;
        assert_eq!(case.next().await, Got::Armed("one".into()));
        case
    }

    pub(crate) fn now(&self, content: &str) {
        self.peer.script().contents.insert("a:1", text("a:1", content));
    }

    /// Says that the resource changed, in the way of the era.
    pub(crate) async fn say(&self, uri: &str) {
        let params = json!({ "uri": uri });
        let method = "notifications/resources/updated";
        self.peer
            .push(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        self.peer.tell(method, &params);
    }

    pub(crate) async fn change(&self, content: &str) {
        self.now(content);
        self.say("a:1").await;
    }

    pub(crate) async fn tools(&mut self, names: &[&str]) {
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

pub(crate) fn changed(content: &str) -> Got {
    Got::Changed(content.into())
}

/// Waits until whatever was said before has arrived.
pub(crate) async fn heard(case: &Case) {
    let connection = case.supervised.connection("s").unwrap();
    let mut changes = connection.resources_changed();
    let method = "notifications/resources/list_changed";
    case.peer.push(&json!({"jsonrpc": "2.0", "method": method}));
    while case.peer.tell(method, &json!({})) == 0 && connection.era() == agentd_mcp::Era::Stateless {
        tokio::task::yield_now().await;
    }
    changes.changed().await.unwrap();
}

pub(crate) async fn change_tools(case: &Case, name: &str) {
    case.peer.script().tools = [(String::new(), (vec![tool(name)], None))].into();
    let method = "notifications/tools/list_changed";
    case.peer.push(&json!({"jsonrpc": "2.0", "method": method}));
    case.peer.tell(method, &Value::Object(Default::default()));
}
