//! Somebody who waits for a resource to change, as the workflow engine will.

use std::sync::Arc;

use agentd_config::document::{Mcp, McpServer};
use agentd_mcp::supervised::PACE;
use agentd_mcp::{Change, Content, Outbound, ResourceConsumer, Supervised, Watch};
use async_trait::async_trait;
use tokio::sync::mpsc;

use super::soon;

/// What a watch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// What the resource was at first.
    Armed(Change),
    /// What it is now.
    Changed(Change),
}

struct Consumer(mpsc::UnboundedSender<News>);

#[async_trait]
impl ResourceConsumer for Consumer {
    async fn armed(&self, first: Change) {
        let _ = self.0.send(News::Armed(first));
    }

    async fn changed(&self, change: Change) {
        let _ = self.0.send(News::Changed(change));
    }
}

/// One server, supervised, and a watch on one of its resources.
pub struct Watcher {
    /// The connection's supervision.
    pub supervised: Supervised,
    news: mpsc::UnboundedReceiver<News>,
    watch: Option<Watch>,
}

impl Watcher {
    /// Begins to watch.
    #[must_use]
    pub fn start(server: McpServer, uri: &str) -> Self {
        let name = server.name.clone();
        let mcp = Mcp {
            servers: vec![server],
            ..Mcp::default()
        };
        let supervised = Supervised::start(&mcp, "agent-0".into(), Outbound::default(), PACE);
        let (sender, news) = mpsc::unbounded_channel();
        let watch = supervised.watch(&name, uri, Arc::new(Consumer(sender)), None);
        Self {
            supervised,
            news,
            watch: Some(watch),
        }
    }

    /// The next thing that it says.
    ///
    /// # Panics
    /// When it says nothing.
    pub async fn next(&mut self) -> News {
        soon("news of the resource", self.news.recv())
            .await
            .expect("the watch lives")
    }

    /// The text that the resource had at first.
    ///
    /// # Panics
    /// When that is not what it says next.
    pub async fn armed(&mut self) -> String {
        match self.next().await {
            News::Armed(first) => text(&first),
            other @ News::Changed(_) => panic!("{other:?}"),
        }
    }

    /// The text that it has after its next change.
    ///
    /// # Panics
    /// When that is not what it says next.
    pub async fn changed(&mut self) -> String {
        match self.next().await {
            News::Changed(change) => text(&change),
            other @ News::Armed(_) => panic!("{other:?}"),
        }
    }

    /// Whether nothing waits to be taken.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.news.is_empty()
    }

    /// Ends the watch; the connection stays.
    pub fn stop(&mut self) {
        self.watch = None;
    }
}

fn text(change: &Change) -> String {
    let texts = change.contents.iter().map(|content| match content {
        Content::Text { text, .. } => text.as_str(),
        Content::Blob { base64, .. } => base64.as_str(),
    });
    texts.collect()
}
