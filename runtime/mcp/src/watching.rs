//! Watching a resource: subscribe, read, tell who waits, wait for the next word of the server; again after every loss,
//! restart and reload. The consumer learns what the resource is now, at least once for every change: a change that was
//! missed while the server was away is found by comparing digests, and words that come while one is dealt with are one
//! more read.

use std::sync::Arc;

use agentd_base::text::clip;
use agentd_net::{Backoff, Pace};
use async_trait::async_trait;
use tokio::sync::{oneshot, watch};

use crate::call::CallMeta;
use crate::connection::Connection;
use crate::connection::updates::{News, Push, Updates};
use crate::notices::URI_CHARS;
use crate::resource::{Content, Digest, ReadError};
use crate::supervised::{Link, Links};

/// Waits for a resource to change.
#[async_trait]
pub trait ResourceConsumer: Send + Sync {
    /// The resource is another one now, or its server says that it changed. What changes before this returns is one
    /// more change after it.
    async fn changed(&self, change: Change);

    /// The first content where nothing was known: what later changes are measured by, not a change.
    async fn armed(&self, _first: Change) {}
}

/// What a resource is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The server's name in the document.
    pub server: String,
    /// What is watched.
    pub uri: String,
    /// As read after the change.
    pub contents: Vec<Content>,
    /// Of the contents: kept by the consumer, it lets the next watch find what this one missed.
    pub digest: Digest,
}

/// A resource is watched for as long as this is kept.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Watch {
    _stop: oneshot::Sender<()>,
}

/// What is watched, and for whom.
pub(crate) struct Watching {
    pub(crate) server: String,
    pub(crate) uri: String,
    pub(crate) instance: String,
    pub(crate) pace: Pace,
    pub(crate) consumer: Arc<dyn ResourceConsumer>,
}

pub(crate) fn start(watching: Watching, known: Option<Digest>, links: watch::Receiver<Links>) -> Watch {
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(watching.run(Memory::new(known), links, stopped));
    Watch { _stop: stop }
}

/// Why a read is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The server said that the resource changed.
    Notified,
    /// Something may have been missed.
    Missed,
}

/// What a read means.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The first content.
    Armed,
    /// Tell the consumer.
    Changed,
    /// It knows already.
    Same,
}

/// What the consumer was told last. Pure.
#[derive(Debug, Clone)]
struct Memory {
    last: Option<Digest>,
    /// The next word of the server may be of what was read already.
    echo: bool,
}

impl Memory {
    fn new(known: Option<Digest>) -> Self {
        Self {
            last: known,
            echo: false,
        }
    }

    /// `said`: the server spoke while the read was under way.
    fn judge(&mut self, reason: Reason, said: bool, digest: &Digest) -> Verdict {
        let same = self.last.as_ref() == Some(digest);
        let first = self.last.is_none();
        let echo = self.echo;
        // A late word that finds yet another content is followed by the late word of that one.
        self.echo = said || (echo && !(reason == Reason::Notified && same));
        self.last = Some(digest.clone());
        match reason {
            Reason::Missed if first => Verdict::Armed,
            Reason::Missed if same => Verdict::Same,
            Reason::Missed => {
                // A stream that is resumed repeats what was said meanwhile.
                self.echo = true;
                Verdict::Changed
            }
            Reason::Notified if same && echo => Verdict::Same,
            // The content may be what it was: the server says that something happened, and is believed.
            Reason::Notified => Verdict::Changed,
        }
    }
}

/// Why a connection is not used any longer.
enum Left {
    /// Nobody wants to know any more.
    Stopped,
    /// The connection is lost or another one.
    Lost,
    /// Something failed on a connection that stands.
    Failed,
}

impl Watching {
    async fn run(
        self,
        mut memory: Memory,
        mut links: watch::Receiver<Links>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut backoff = Backoff::new(self.pace);
        loop {
            let link = tokio::select! {
                _ = &mut stopped => return,
                link = self.link(&mut links) => link,
            };
            // The supervision is gone.
            let Some(link) = link else { return };
            match self
                .on(&link, &mut memory, &mut links, &mut stopped, &mut backoff)
                .await
            {
                Left::Stopped => return,
                Left::Lost => {}
                Left::Failed => {
                    // A server that has no stream is known to be gone by nothing else.
                    link.check();
                    tokio::select! {
                        _ = &mut stopped => return,
                        () = tokio::time::sleep(backoff.wait()) => {}
                    }
                }
            }
        }
    }

    /// The server's connection, as soon as there is one.
    async fn link(&self, links: &mut watch::Receiver<Links>) -> Option<Link> {
        let there = links.wait_for(|links| links.contains_key(&self.server)).await;
        there.ok()?.get(&self.server).cloned()
    }

    async fn on(
        &self,
        link: &Link,
        memory: &mut Memory,
        links: &mut watch::Receiver<Links>,
        stopped: &mut oneshot::Receiver<()>,
        backoff: &mut Backoff,
    ) -> Left {
        let connection = &link.connection;
        let mut updates = tokio::select! {
            _ = &mut *stopped => return Left::Stopped,
            () = self.replaced(connection, links) => return Left::Lost,
            updates = Updates::of(connection.clone(), &self.uri) => match updates {
                Ok(updates) => updates,
                Err(error) => {
                    self.log_failure("resources/subscribe", &error.to_string());
                    return Left::Failed;
                }
            },
        };
        if let Push::PullOnly(why) = updates.push() {
            self.log_pull_only(why);
        }
        let left = tokio::select! {
            _ = &mut *stopped => Left::Stopped,
            () = self.replaced(connection, links) => Left::Lost,
            left = self.follow(connection, &mut updates, memory, backoff) => left,
        };
        if matches!(left, Left::Stopped) {
            updates.end().await;
        }
        left
    }

    /// Reads, and reads again whenever there is news.
    async fn follow(
        &self,
        connection: &Connection,
        updates: &mut Updates,
        memory: &mut Memory,
        backoff: &mut Backoff,
    ) -> Left {
        let mut reason = Reason::Missed;
        loop {
            if let Err(error) = self.read(connection, updates, memory, reason).await {
                self.log_failure("resources/read", &error.to_string());
                // What is not there may come; anything else is tried again with a new subscription.
                if !matches!(error, ReadError::NotFound { .. }) {
                    return Left::Failed;
                }
            }
            backoff.reset();
            reason = loop {
                match updates.next().await {
                    Ok(News::Updated) => break Reason::Notified,
                    Ok(News::Missed) => break Reason::Missed,
                    Ok(News::PullOnly(why)) => self.log_pull_only(why),
                    Err(error) => {
                        self.log_failure("resources/subscribe", &error.to_string());
                        return Left::Failed;
                    }
                }
            };
        }
    }

    async fn read(
        &self,
        connection: &Connection,
        updates: &Updates,
        memory: &mut Memory,
        reason: Reason,
    ) -> Result<(), ReadError> {
        let meta = CallMeta {
            instance: self.instance.clone(),
            ..CallMeta::default()
        };
        let contents = connection.read(&self.uri, &meta).await?;
        let digest = Digest::of(&contents);
        // Counts once the consumer has it: a connection that is lost meanwhile ends this half way, and the next one tells
        // it again.
        let mut told = memory.clone();
        let verdict = told.judge(reason, updates.pending(), &digest);
        let change = Change {
            server: self.server.clone(),
            uri: self.uri.clone(),
            contents,
            digest,
        };
        match verdict {
            Verdict::Armed => self.consumer.armed(change).await,
            Verdict::Changed => self.consumer.changed(change).await,
            Verdict::Same => {
                tracing::debug!(event = "mcp.resource.same", mcp.server = %self.server, uri = %clip(&self.uri, URI_CHARS));
            }
        }
        *memory = told;
        Ok(())
    }

    /// Resolves when the connection is lost, or another one is the server's.
    async fn replaced(&self, connection: &Connection, links: &mut watch::Receiver<Links>) {
        let other = |links: &Links| {
            !links
                .get(&self.server)
                .is_some_and(|link| link.connection.is(connection))
        };
        tokio::select! {
            () = connection.lost() => {}
            _ = links.wait_for(other) => {}
        }
    }

    fn log_failure(&self, what: &str, error: &str) {
        tracing::warn!(event = "mcp.watch.fail", mcp.server = %self.server, uri = %clip(&self.uri, URI_CHARS), err = %error, "{what}");
    }

    fn log_pull_only(&self, why: &str) {
        tracing::warn!(event = "mcp.watch.pull_only", mcp.server = %self.server, uri = %clip(&self.uri, URI_CHARS), "{why}: changes are not noticed before the next connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(of: &str) -> Digest {
        Digest::from(of.to_owned())
    }

    /// Reads in a row: why, what was said meanwhile, what was read; and what each means.
    fn verdicts(known: Option<&str>, reads: &[(Reason, bool, &str)]) -> Vec<Verdict> {
        let mut memory = Memory::new(known.map(digest));
        reads
            .iter()
            .map(|(reason, said, read)| memory.judge(*reason, *said, &digest(read)))
            .collect()
    }

    use Reason::{Missed, Notified};
    use Verdict::{Armed, Changed, Same};

    #[test]
    fn the_first_content_is_no_change_unless_another_was_known() {
        assert_eq!(verdicts(None, &[(Missed, false, "a")]), [Armed]);
        assert_eq!(verdicts(Some("a"), &[(Missed, false, "a")]), [Same]);
        assert_eq!(
            verdicts(Some("a"), &[(Missed, false, "b"), (Missed, false, "b")]),
            [Changed, Same]
        );
        assert_eq!(
            verdicts(None, &[(Notified, false, "a")]),
            [Changed],
            "the first read failed"
        );
    }

    #[test]
    fn a_word_of_the_server_counts_whatever_is_read() {
        assert_eq!(
            verdicts(
                Some("a"),
                &[
                    (Notified, false, "b"),
                    (Notified, false, "b"),
                    (Notified, false, "a")
                ]
            ),
            [Changed, Changed, Changed]
        );
    }

    #[test]
    fn what_was_said_while_it_was_read_counts_once() {
        // The second word came while the first was dealt with: it may be of what was read, or not.
        assert_eq!(
            verdicts(Some("a"), &[(Notified, true, "b"), (Notified, false, "b")]),
            [Changed, Same]
        );
        assert_eq!(
            verdicts(Some("a"), &[(Notified, true, "b"), (Notified, false, "c")]),
            [Changed, Changed]
        );
    }

    #[test]
    fn a_missed_change_that_is_said_late_counts_once() {
        assert_eq!(
            verdicts(
                Some("a"),
                &[
                    (Missed, false, "b"),
                    (Notified, false, "b"),
                    (Notified, false, "b")
                ]
            ),
            [Changed, Same, Changed]
        );
        // Each word comes when its change was read already, and finds the next one.
        assert_eq!(
            verdicts(
                Some("a"),
                &[
                    (Missed, false, "b"),
                    (Notified, false, "c"),
                    (Missed, false, "c"),
                    (Notified, false, "d"),
                    (Notified, false, "d"),
                    (Notified, false, "d")
                ]
            ),
            [Changed, Changed, Same, Changed, Same, Changed]
        );
        assert_eq!(
            verdicts(Some("a"), &[(Notified, false, "b"), (Missed, false, "b")]),
            [Changed, Same]
        );
    }
}
