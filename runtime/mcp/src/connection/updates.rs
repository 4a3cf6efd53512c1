//! What a server says unasked, asked for: `resources/subscribe` and the notification stream where there is a session,
//! one `subscriptions/listen` each where there is none. Both end as counters, so that whoever reads a resource hears of
//! everything that happened meanwhile, once.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use agentd_base::text::clip;
use agentd_net::{Backoff, Pace};
use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams};
use rmcp::service::{Subscription, SubscriptionEnd};
use rmcp::{Peer, RoleClient};
use tokio::sync::{Mutex, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Connection, Era, Inner};
use crate::call::CallError;
use crate::notices::Notices;

/// Between tries to listen again. A stream that is closed at once, for ever, is asked for twice a minute.
const RELISTEN: Pace = Pace {
    first: Duration::from_millis(200),
    max: Duration::from_secs(30),
};
/// A stream that lasted this long was a good one.
const STEADY: Duration = Duration::from_secs(30);

/// What one connection is subscribed to.
#[derive(Default)]
pub(super) struct Subscribed {
    /// How many want each URI.
    resources: std::sync::Mutex<BTreeMap<String, Wanted>>,
    /// Listens for changed lists, where there is no stream that says it anyway.
    lists: OnceLock<Task>,
}

/// How many want a resource. Held while the server is told of it, so that the last word is the right one, and no other
/// resource waits for it.
type Wanted = Arc<Mutex<usize>>;

impl Subscribed {
    fn wanted(&self, uri: &str) -> Wanted {
        self.all().entry(uri.to_owned()).or_default().clone()
    }

    /// Forgets what nobody wants: neither now nor as soon as it can be held.
    fn forget(&self, uri: &str, wanted: Wanted) {
        let mut all = self.all();
        drop(wanted);
        let unwanted = |wanted: &mut Wanted| Arc::get_mut(wanted).is_some_and(|count| *count.get_mut() == 0);
        if all.get_mut(uri).is_some_and(unwanted) {
            all.remove(uri);
        }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Wanted>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with its handle.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How the changes of a resource become known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    /// The server says so.
    Subscribed,
    /// It does not: the content is there for who asks.
    PullOnly(&'static str),
}

const NO_STREAM_WHY: &str = "the server has no stream of notifications";
const NO_STREAM: Push = Push::PullOnly(NO_STREAM_WHY);

/// Why a resource is to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The server said that it changed.
    Updated,
    /// Nobody could say it for a while.
    Missed,
    /// From now on nobody will.
    PullOnly(&'static str),
}

/// The updates of one resource on one connection.
pub(crate) struct Updates {
    connection: Connection,
    uri: String,
    push: Push,
    updated: watch::Receiver<u64>,
    missed: watch::Receiver<u64>,
    sessions: watch::Receiver<u64>,
    pull_only: watch::Receiver<bool>,
    _listening: Option<Task>,
}

impl Updates {
    /// Subscribes, where that was offered.
    pub(crate) async fn of(connection: Connection, uri: &str) -> Result<Self, CallError> {
        let inner = &connection.0;
        let notices = &inner.notices;
        // Listened for before it is asked for: the first word may come with the answer.
        let mut updates = Self {
            uri: uri.to_owned(),
            push: Push::Subscribed,
            updated: notices.of(uri),
            missed: notices.of_missed(),
            sessions: notices.of_sessions(),
            pull_only: notices.of_pull_only(),
            _listening: None,
            connection: connection.clone(),
        };
        if !inner.facts.offers_subscribe {
            updates.push = Push::PullOnly("the server offers no subscriptions");
            return Ok(updates);
        }
        match inner.facts.era {
            Era::Legacy => connection.subscribe(uri).await?,
            Era::Stateless => {
                let filter = SubscriptionFilter::builder().resource_subscription(uri).build();
                let first = inner.listen(&filter).await?;
                if first.acknowledged().resource_subscriptions.is_none() {
                    updates.push = Push::PullOnly("the server did not take the subscription");
                    return Ok(updates);
                }
                let missed = watch::Sender::default();
                updates.missed = missed.subscribe();
                let listening = Listening {
                    peer: inner.peer.clone(),
                    limit: inner.timeout,
                    server: inner.server.clone(),
                    notices: notices.clone(),
                    missed: Some(missed),
                    filter,
                };
                updates._listening = Some(Task(tokio::spawn(listening.run(Some(first))).abort_handle()));
            }
        }
        Ok(updates)
    }

    /// How the next change becomes known.
    pub(crate) fn push(&self) -> Push {
        self.push
    }

    /// Whether the server said something that [`Updates::next`] did not give yet.
    pub(crate) fn pending(&self) -> bool {
        self.updated.has_changed().unwrap_or(false)
    }

    /// Waits until the resource is to be read again. What happened since the last call is one piece of news.
    pub(crate) async fn next(&mut self) -> Result<News, CallError> {
        loop {
            tokio::select! {
                biased;
                Ok(()) = self.updated.changed() => {
                    self.missed.mark_unchanged();
                    return Ok(News::Updated);
                }
                Ok(()) = self.sessions.changed() => {
                    if self.connection.0.facts.offers_subscribe {
                        self.connection.subscribe_again(&self.uri).await?;
                    }
                    return Ok(News::Missed);
                }
                Ok(()) = self.missed.changed() => return Ok(News::Missed),
                Ok(pull_only) = other_than(&mut self.pull_only, self.push == NO_STREAM), if self.streams() => {
                    if !pull_only {
                        // After all, in a session that began anew.
                        self.push = Push::Subscribed;
                        continue;
                    }
                    self.push = NO_STREAM;
                    return Ok(News::PullOnly(NO_STREAM_WHY));
                }
                else => return std::future::pending().await,
            }
        }
    }

    /// Whether it depends on a stream how changes become known.
    fn streams(&self) -> bool {
        matches!(self.push, Push::Subscribed | NO_STREAM)
    }

    /// Unsubscribes, if nobody else on this connection wants the same.
    pub(crate) async fn end(self) {
        if self.connection.0.facts.offers_subscribe && self.connection.era() == Era::Legacy {
            self.connection.unsubscribe(&self.uri).await;
        }
    }
}

impl Connection {
    /// Hears of changed lists also where no stream says so by itself.
    pub(super) fn listen_for_lists(&self) {
        let inner = &self.0;
        if inner.facts.era == Era::Legacy
            || !(inner.facts.tools_change || inner.facts.resources_change || inner.facts.prompts_change)
        {
            return;
        }
        inner.subscribed.lists.get_or_init(|| {
            let mut filter = SubscriptionFilter::default();
            filter.tools_list_changed = inner.facts.tools_change.then_some(true);
            filter.prompts_list_changed = inner.facts.prompts_change.then_some(true);
            filter.resources_list_changed = inner.facts.resources_change.then_some(true);
            let listening = Listening {
                peer: inner.peer.clone(),
                limit: inner.timeout,
                server: inner.server.clone(),
                notices: inner.notices.clone(),
                missed: None,
                filter,
            };
            Task(tokio::spawn(listening.run(None)).abort_handle())
        });
    }

    /// `resources/subscribe`, unless somebody on this connection did it already.
    async fn subscribe(&self, uri: &str) -> Result<(), CallError> {
        let wanted = self.0.subscribed.wanted(uri);
        let told = {
            let mut count = wanted.lock().await;
            let told = match *count {
                0 => self.tell_subscribe(uri).await,
                _ => Ok(()),
            };
            *count = count.saturating_add(usize::from(told.is_ok()));
            told
        };
        self.0.subscribed.forget(uri, wanted);
        told
    }

    /// In a new session, which knows of nothing.
    async fn subscribe_again(&self, uri: &str) -> Result<(), CallError> {
        let wanted = self.0.subscribed.wanted(uri);
        let _held = wanted.lock().await;
        self.tell_subscribe(uri).await
    }

    async fn tell_subscribe(&self, uri: &str) -> Result<(), CallError> {
        #[expect(deprecated, reason = "this is how the revisions with sessions do it")]
        let told = self.0.peer.subscribe(SubscribeRequestParams::new(uri));
        self.bounded(told).await
    }

    async fn unsubscribe(&self, uri: &str) {
        let wanted = self.0.subscribed.wanted(uri);
        {
            let mut count = wanted.lock().await;
            let before = *count;
            *count = before.saturating_sub(1);
            // None: the connection was closed, which ended all subscriptions.
            if before == 1 {
                self.tell_unsubscribe(uri).await;
            }
        }
        self.0.subscribed.forget(uri, wanted);
    }

    async fn tell_unsubscribe(&self, uri: &str) {
        #[expect(deprecated, reason = "this is how the revisions with sessions do it")]
        let told = self.0.peer.unsubscribe(UnsubscribeRequestParams::new(uri));
        if let Err(error) = self.bounded(told).await {
            tracing::debug!(event = "mcp.unsubscribe.fail", mcp.server = %self.0.server, err = %error);
        }
    }

    /// Ends all subscriptions; a part of closing.
    pub(super) async fn unsubscribe_all(&self) {
        let all = std::mem::take(&mut *self.0.subscribed.all());
        let told = all.into_iter().map(|(uri, wanted)| async move {
            if std::mem::take(&mut *wanted.lock().await) > 0 {
                self.tell_unsubscribe(&uri).await;
            }
        });
        futures::future::join_all(told).await;
    }
}

/// Waits until the value is another one; what was known before anybody asked counts.
async fn other_than(value: &mut watch::Receiver<bool>, is: bool) -> Result<bool, watch::error::RecvError> {
    value.wait_for(|now| *now != is).await.map(|now| *now)
}

impl Inner {
    async fn listen(&self, filter: &SubscriptionFilter) -> Result<Subscription, CallError> {
        listen(&self.peer, self.timeout, filter).await
    }
}

async fn listen(
    peer: &Peer<RoleClient>,
    limit: Duration,
    filter: &SubscriptionFilter,
) -> Result<Subscription, CallError> {
    match tokio::time::timeout(limit, peer.listen(filter.clone())).await {
        Err(_) => Err(CallError::Timeout(limit)),
        Ok(Err(error)) => Err(CallError::Unavailable(error.to_string())),
        Ok(Ok(subscription)) => Ok(subscription),
    }
}

/// One `subscriptions/listen`, taken up again whenever it ends.
struct Listening {
    peer: Peer<RoleClient>,
    limit: Duration,
    server: String,
    notices: Arc<Notices>,
    /// Of a resource: told when a new stream is open. Absent: of the lists.
    missed: Option<watch::Sender<u64>>,
    filter: SubscriptionFilter,
}

impl Listening {
    async fn run(self, mut open: Option<Subscription>) {
        let mut backoff = Backoff::new(RELISTEN);
        loop {
            let subscription = match open.take() {
                Some(first) => first,
                None => match listen(&self.peer, self.limit, &self.filter).await {
                    Ok(again) => {
                        self.opened_again();
                        again
                    }
                    Err(_) if self.peer.is_transport_closed() => return,
                    Err(error) => {
                        let wait = backoff.wait();
                        tracing::info!(event = "mcp.listen.fail", mcp.server = %self.server, err = %error, next_s = wait.as_secs());
                        tokio::time::sleep(wait).await;
                        continue;
                    }
                },
            };
            let since = Instant::now();
            let how = self.hear(subscription).await;
            if self.peer.is_transport_closed() {
                return;
            }
            if since.elapsed() >= STEADY {
                backoff.reset();
            }
            let wait = backoff.wait();
            tracing::info!(event = "mcp.listen.end", mcp.server = %self.server, how = %clip(&how, 128), next_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            tokio::time::sleep(wait).await;
        }
    }

    /// What was said while no stream was open is unknown.
    fn opened_again(&self) {
        match &self.missed {
            Some(missed) => missed.send_modify(|count| *count = count.wrapping_add(1)),
            None => self.notices.lists_missed(),
        }
    }

    /// Until the stream ends; says how.
    async fn hear(&self, mut subscription: Subscription) -> String {
        loop {
            match subscription.next().await {
                Ok(Some(ServerNotification::ResourceUpdatedNotification(changed))) => {
                    self.notices.updated(&changed.params.uri);
                }
                Ok(Some(ServerNotification::ToolListChangedNotification(_))) => self.notices.tools_changed(),
                Ok(Some(
                    ServerNotification::ResourceListChangedNotification(_)
                    | ServerNotification::PromptListChangedNotification(_),
                )) => {
                    self.notices.resources_changed();
                }
                // The SDK lets through what was acknowledged alone.
                Ok(Some(_)) => {}
                Ok(None) => {
                    return match subscription.end() {
                        Some(SubscriptionEnd::Graceful(_)) => "the server ended it".into(),
                        Some(SubscriptionEnd::Lagged { .. }) => "more was said than could be heard".into(),
                        Some(SubscriptionEnd::Cancelled) => "the server cancelled it".into(),
                        _ => "the stream broke".into(),
                    };
                }
                Err(error) => return error.to_string(),
            }
        }
    }
}
