//! What a server said unasked on one connection, for whoever waits for it: counters that only grow, so that nobody who
//! is busy misses a word and a flood of words is one. What nobody waits for is logged, never dropped in silence.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_base::text::clip;
use tokio::sync::watch;
use tokio::time::Instant;

/// The same thing is logged once in this time, with the number of times it was not.
const LOG: Duration = Duration::from_secs(1);
/// Resources that are not worth a search for those that nobody waits for any more.
const FEW: usize = 64;
/// A part of a URI that is longer is looked for by nobody: each is compared, and there is one for each of its slashes.
const PART_BYTES: usize = 2 * 1024;
/// A URI in a log line.
pub(crate) const URI_CHARS: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Notices {
    server: String,
    tools: watch::Sender<u64>,
    resources: watch::Sender<u64>,
    missed: watch::Sender<u64>,
    sessions: watch::Sender<u64>,
    pull_only: watch::Sender<bool>,
    answered: watch::Sender<bool>,
    updated: Mutex<Updated>,
    said: Mutex<Said>,
}

/// Who waits for which resource.
#[derive(Debug, Default)]
struct Updated {
    by_uri: HashMap<String, watch::Sender<u64>>,
    /// How many there may be before those that nobody waits for are taken out.
    most: usize,
}

/// When each kind of line was logged last.
#[derive(Debug, Default)]
struct Said {
    tools: Seldom,
    resources: Seldom,
    undelivered: Seldom,
}

impl Notices {
    pub(crate) fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            tools: watch::Sender::default(),
            resources: watch::Sender::default(),
            missed: watch::Sender::default(),
            sessions: watch::Sender::default(),
            pull_only: watch::Sender::default(),
            answered: watch::Sender::default(),
            updated: Mutex::default(),
            said: Mutex::default(),
        }
    }

    /// `notifications/tools/list_changed`.
    pub(crate) fn tools_changed(&self) {
        if let Some(more) = lock(&self.said).tools.now() {
            tracing::info!(event = "mcp.tools_changed", mcp.server = %self.server, more);
        }
        count(&self.tools);
    }

    /// `notifications/resources/list_changed`.
    pub(crate) fn resources_changed(&self) {
        if let Some(more) = lock(&self.said).resources.now() {
            tracing::info!(event = "mcp.resources_changed", mcp.server = %self.server, more);
        }
        count(&self.resources);
    }

    /// `notifications/resources/updated`. It may name a part of what was subscribed to.
    pub(crate) fn updated(&self, uri: &str) {
        let mut heard = false;
        {
            let updated = lock(&self.updated);
            for sender in holders(uri).filter_map(|watched| updated.by_uri.get(watched)) {
                if sender.receiver_count() > 0 {
                    count(sender);
                    heard = true;
                }
            }
        }
        if !heard && let Some(more) = lock(&self.said).undelivered.now() {
            tracing::warn!(event = "mcp.resource.undelivered", mcp.server = %self.server, uri = %clip(uri, URI_CHARS), more, "nobody waits for it");
        }
    }

    /// A push channel was opened: what was said while there was none is unknown. `again`: there was one before, so the
    /// lists may be others too.
    pub(crate) fn push_opened(&self, again: bool) {
        self.pull_only.send_replace(false);
        count(&self.missed);
        if again {
            self.lists_missed();
        }
    }

    /// The lists may have changed, and nobody could say it.
    pub(crate) fn lists_missed(&self) {
        count(&self.tools);
        count(&self.resources);
    }

    /// A new session began by itself, or what stands for one: it knows none of our subscriptions.
    pub(crate) fn session_began(&self) {
        count(&self.sessions);
    }

    /// The server answered the first time that a push channel was asked for, in whatever way.
    pub(crate) fn push_answered(&self) {
        self.answered.send_replace(true);
    }

    /// The server has no push channel.
    pub(crate) fn no_push(&self) {
        self.pull_only.send_replace(true);
    }

    pub(crate) fn of_tools(&self) -> watch::Receiver<u64> {
        self.tools.subscribe()
    }

    pub(crate) fn of_resources(&self) -> watch::Receiver<u64> {
        self.resources.subscribe()
    }

    pub(crate) fn of_missed(&self) -> watch::Receiver<u64> {
        self.missed.subscribe()
    }

    pub(crate) fn of_sessions(&self) -> watch::Receiver<u64> {
        self.sessions.subscribe()
    }

    pub(crate) fn of_answered(&self) -> watch::Receiver<bool> {
        self.answered.subscribe()
    }

    pub(crate) fn of_pull_only(&self) -> watch::Receiver<bool> {
        self.pull_only.subscribe()
    }

    /// Updates of one URI. Listeners that are gone leave nothing behind.
    pub(crate) fn of(&self, uri: &str) -> watch::Receiver<u64> {
        let mut updated = lock(&self.updated);
        if updated.by_uri.len() >= updated.most {
            updated.by_uri.retain(|_, sender| sender.receiver_count() > 0);
            updated.most = (2 * updated.by_uri.len()).max(FEW);
        }
        updated.by_uri.entry(uri.to_owned()).or_default().subscribe()
    }

    /// About how many resources somebody waits for.
    pub(crate) fn watched(&self) -> usize {
        lock(&self.updated).by_uri.len()
    }
}

fn count(counter: &watch::Sender<u64>) {
    counter.send_modify(|count| *count = count.wrapping_add(1));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The resources that changed with this one: itself, and those that it is a part of (a file in a folder).
fn holders(changed: &str) -> impl Iterator<Item = &str> {
    let parts = changed
        .char_indices()
        .take_while(|(at, _)| *at <= PART_BYTES)
        .filter(|(_, c)| matches!(c, '/' | '?' | '#'));
    let parts = parts.flat_map(|(at, c)| {
        let with_slash = (c == '/').then(|| changed.get(..=at)).flatten();
        [changed.get(..at), with_slash]
    });
    let parts = parts
        .flatten()
        .filter(move |part| *part != changed && !part.is_empty());
    std::iter::once(changed).chain(parts)
}

/// Lets a line through once in [`LOG`], with the number of those that were held back.
#[derive(Debug, Default)]
struct Seldom {
    last: Option<Instant>,
    held: u64,
}

impl Seldom {
    fn now(&mut self) -> Option<u64> {
        let soon = self.last.is_some_and(|last| last.elapsed() < LOG);
        if soon {
            self.held = self.held.saturating_add(1);
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_resource_is_its_own_change_and_no_neighbours() {
        for (watched, changed, expected) in [
            ("file:///a", "file:///a", true),
            ("file:///a", "file:///a/b", true),
            ("file:///a/", "file:///a/b", true),
            ("file:///a", "file:///a#x", true),
            ("file:///a", "file:///ab", false),
            ("file:///a/b", "file:///a", false),
            ("", "file:///a", false),
            ("file:///", "file:///a", true),
            ("a:1?x", "a:1?x#y", true),
            ("a:1", "a:1?x#y", true),
        ] {
            let held = holders(changed).filter(|holder| *holder == watched).count();
            assert_eq!(held, usize::from(expected), "{watched} {changed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_is_let_through_once_in_a_while_with_the_number_of_those_held_back() {
        let mut seldom = Seldom::default();
        assert_eq!((seldom.now(), seldom.now(), seldom.now()), (Some(0), None, None));
        tokio::time::advance(LOG).await;
        assert_eq!((seldom.now(), seldom.now()), (Some(2), None));
    }

    #[tokio::test]
    async fn an_update_reaches_each_of_its_listeners_and_those_alone() {
        let notices = Notices::new("s");
        let (mut one, mut two) = (notices.of("a:1"), notices.of("a:1"));
        let other = notices.of("a:2");
        notices.updated("a:1");
        notices.updated("a:1");
        one.changed().await.unwrap();
        two.changed().await.unwrap();
        assert!(!one.has_changed().unwrap() && !other.has_changed().unwrap());
        drop((one, two));
        for gone in 0..10_000 {
            drop(notices.of(&format!("b:{gone}")));
        }
        assert!(notices.watched() <= FEW, "who is gone leaves nothing behind");
        drop(other);
    }
}
