//! A stream of a task's events (SSE): its state first, then what happens, to its end. A subscriber that goes away ends
//! its own stream and nothing else; one that does not read is waited for, in its share of the memory, and then let go.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::binding::Binding;
use crate::body::{Answer, held};
use crate::http::App;
use crate::limit;
use crate::service::Subscription;
use crate::wire::{Message, StreamResponse, TaskState, TaskStatus};

/// While nothing happens a comment is sent, so that whoever is between keeps the connection, and a peer that is gone
/// without saying so is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// What a stream shows.
pub(crate) enum Shown {
    /// A task and what happens to it.
    Task(Subscription),
    /// One message and nothing more.
    Message(Message),
}

/// Begins to send: the body of the answer.
pub(crate) fn open(app: &Arc<App>, caller: String, binding: Binding, shown: Shown) -> Answer {
    let (events, body) = mpsc::channel(1);
    let stream = Stream {
        app: app.clone(),
        caller,
        binding,
        events,
    };
    tokio::spawn(async move {
        match shown {
            Shown::Task(from) => stream.run(from).await,
            Shown::Message(message) => drop(stream.send(&StreamResponse::Message(message), true).await),
        }
    });
    Answer::Stream(body)
}

struct Stream {
    app: Arc<App>,
    caller: String,
    binding: Binding,
    events: mpsc::Sender<Bytes>,
}

impl Stream {
    async fn run(self, from: Subscription) {
        let Subscription { task, events } = from;
        let shown = task.status.clone();
        let is_over = shown.state.is_terminal();
        let Some(mut events) = events.filter(|_| !is_over) else {
            self.send(&StreamResponse::Task(task), true).await;
            return;
        };
        if self.send(&StreamResponse::Task(task), false).await.is_none() {
            return;
        }
        let mut has_moved = false;
        loop {
            let event = tokio::select! {
                () = self.events.closed() => return,
                () = sleep(KEEP_ALIVE) => {
                    if self.events.send(Bytes::from_static(b": \n\n")).await.is_err() {
                        return;
                    }
                    continue;
                }
                event = events.recv() => event,
            };
            let event = match event {
                Ok(event) => event,
                // Too slow for what happens: it may subscribe again, and gets the state as it is then.
                Err(RecvError::Lagged(missed)) => {
                    tracing::info!(event = "a2a.stream.lag", principal = self.caller, missed);
                    return;
                }
                Err(RecvError::Closed) => return,
            };
            let status = status_of(&event);
            // It was written before the task was read, and told after.
            if !has_moved && status == Some(&shown) {
                continue;
            }
            has_moved |= status.is_some();
            let is_last = status.is_some_and(|status| ends(&status.state));
            if self.send(&event, is_last).await.is_none() || is_last {
                return;
            }
        }
    }

    /// Sends one event; none when nobody reads it any more.
    async fn send(&self, event: &StreamResponse, is_last: bool) -> Option<()> {
        let bytes = self.binding.event(event, is_last).ok()?;
        let room = self.app.answering.reserve(&self.caller, bytes.len());
        let room = timeout(limit::TURN, room).await.ok()?.ok()?;
        timeout(limit::TURN, self.events.send(held(bytes, room)))
            .await
            .ok()?
            .ok()
    }
}

fn status_of(event: &StreamResponse) -> Option<&TaskStatus> {
    match event {
        StreamResponse::StatusUpdate(update) => Some(&update.status),
        StreamResponse::Task(_) | StreamResponse::Message(_) | StreamResponse::ArtifactUpdate(_) => None,
    }
}

/// Whether a stream ends with this state: nothing more happens, or nothing before somebody says something (11.7).
pub(crate) const fn ends(state: &TaskState) -> bool {
    match state {
        TaskState::Completed
        | TaskState::Failed
        | TaskState::Canceled
        | TaskState::Rejected
        | TaskState::InputRequired
        | TaskState::AuthRequired => true,
        TaskState::Unspecified | TaskState::Submitted | TaskState::Working => false,
    }
}
