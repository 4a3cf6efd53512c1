//! `agentd mcp watch`: what the resource holds now, then again each time the server says that it changed, until the
//! user ends it. The connection is the supervised one of an agent: it comes back by itself, and a change that was missed
//! while it was away is printed once.

use std::sync::Arc;

use agentd_base::class::exit;
use agentd_base::duration::Duration;
use agentd_base::report::ServerState;
use agentd_config::document::Mcp;
use agentd_mcp::supervised::PACE;
use agentd_mcp::{Change, ResourceConsumer, Supervised};
use async_trait::async_trait;
use tokio::sync::mpsc;

use super::show::{self, Shown};
use super::target::Target;
use super::{INSTANCE, McpError, print};
use crate::signals::{Event, Signals};

/// Changes that wait for a slow reader of our output; more wait at the server.
const WAITING: usize = 16;

/// What is to be printed, in order.
enum News {
    Armed(Change),
    Changed(Change),
}

struct Printer(mpsc::Sender<News>);

#[async_trait]
impl ResourceConsumer for Printer {
    async fn armed(&self, change: Change) {
        // The command has ended when nobody takes it.
        let _ = self.0.send(News::Armed(change)).await;
    }

    async fn changed(&self, change: Change) {
        let _ = self.0.send(News::Changed(change)).await;
    }
}

/// Runs until it is ended, or until so many changes were printed; the exit code.
pub(super) async fn watch(
    target: &Target,
    uri: &str,
    count: Option<u64>,
    json: bool,
) -> Result<u8, McpError> {
    let mut signals = Signals::install()?;
    let name = target.server().name.clone();
    let mcp = Mcp {
        servers: vec![target.server().clone()],
        default_timeout: target.default_timeout().map(Duration),
        ..Mcp::default()
    };
    let supervised = Supervised::start(&mcp, INSTANCE.into(), target.outbound().clone(), PACE);
    // Nothing can be watched at a server that is not there to begin with; later it is waited for.
    let mut view = supervised.view();
    let settled = tokio::select! {
        view = view.wait_for(|view| view.settled()) => view.ok().and_then(|view| view.servers.first().cloned()),
        () = ended(&mut signals) => return Ok(exit::DONE),
    };
    match settled {
        Some(view) if view.state == ServerState::Connected => {}
        other => {
            let message = other.and_then(|view| view.message).unwrap_or_default();
            return Err(McpError::Away(message));
        }
    }
    let (sender, mut news) = mpsc::channel(WAITING);
    let watch = supervised.watch(&name, uri, Arc::new(Printer(sender)), None);
    let mut left = count;
    let code = loop {
        let said = tokio::select! {
            said = news.recv() => said,
            () = ended(&mut signals) => None,
        };
        let Some(said) = said else { break Ok(exit::DONE) };
        match print(&shown(&said), json) {
            Ok(true) => {}
            Ok(false) => break Ok(exit::DONE),
            Err(error) => break Err(error),
        }
        if matches!(said, News::Changed(_)) {
            left = left.map(|left| left.saturating_sub(1));
        }
        if left == Some(0) {
            break Ok(exit::DONE);
        }
    };
    drop(watch);
    supervised.close().await;
    code
}

async fn ended(signals: &mut Signals) {
    while signals.next().await != Event::End {}
}

fn shown(news: &News) -> Shown {
    match news {
        News::Armed(now) => show::news("armed", now),
        News::Changed(now) => show::news("changed", now),
    }
}
