//! Follows a task of another agent to its end: by the agent's stream, which is taken up again whenever it breaks, or by
//! asking again and again where the agent has no streams. What is told is the same in both ways, once, and in order.

use std::collections::VecDeque;
use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_net::{Backoff, Pace};
use futures::StreamExt as _;
use tokio::time::sleep;

use super::error::UNSUPPORTED;
use super::events::Events;
use super::seen::{Seen, TooMuch};
use super::{Client, ClientError};
use crate::stream::ends;
use crate::wire::{StreamResponse, Task};

/// Breaks in a row without a word between them: with the pauses some three minutes, in which a pod is replaced.
const BREAKS: u32 = 12;
/// Between a break and the next try.
const AGAIN: Pace = Pace {
    first: Duration::from_millis(250),
    max: Duration::from_secs(30),
};
/// Between two questions, where there is no stream.
const ASK: Pace = Pace {
    first: Duration::from_millis(250),
    max: Duration::from_secs(10),
};

/// A task that is followed.
pub struct Follow {
    client: Client,
    id: String,
    from: From,
    seen: Seen,
    /// To be told before anything else happens.
    news: VecDeque<StreamResponse>,
    /// A stream broke: pieces may have been missed that no state shows.
    has_broken: bool,
    breaks: u32,
    again: Backoff,
    ask: Backoff,
    is_over: bool,
}

/// Where news comes from.
enum From {
    /// To be found out.
    Nothing,
    Stream(Events),
    Questions,
}

impl Follow {
    pub(super) fn new(client: Client, id: String) -> Self {
        Self {
            client,
            id,
            from: From::Nothing,
            seen: Seen::default(),
            news: VecDeque::new(),
            has_broken: false,
            breaks: 0,
            again: Backoff::new(AGAIN),
            ask: Backoff::new(ASK),
            is_over: false,
        }
    }

    /// The next event: first the task, then its changes. None after its end, or after a state in which it waits for
    /// somebody.
    ///
    /// # Errors
    /// When the agent refuses, says what cannot be understood, or stays away. Nothing comes after an error.
    pub async fn next(&mut self) -> Option<Result<StreamResponse, ClientError>> {
        loop {
            if let Some(event) = self.news.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.go_on().await {
                self.is_over = true;
                return Some(Err(error));
            }
        }
    }

    /// The task when it has ended or waits for somebody.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn ended(mut self) -> Result<Task, ClientError> {
        while let Some(event) = self.next().await {
            event?;
        }
        self.client.task(&self.id).await
    }

    async fn go_on(&mut self) -> Result<(), ClientError> {
        match &mut self.from {
            From::Nothing => match open(&self.client, &self.id).await {
                Ok(from) => self.from = from,
                Err(error) => self.broke(error).await?,
            },
            From::Questions => {
                if self.seen.has_begun() {
                    sleep(self.ask.wait()).await;
                }
                match self.client.task(&self.id).await {
                    Ok(task) => {
                        self.heard();
                        self.task(task)?;
                    }
                    Err(error) => self.broke(error).await?,
                }
            }
            From::Stream(events) => match events.next().await {
                Some(Ok(event)) => {
                    self.heard();
                    self.event(event).await?;
                }
                Some(Err(error)) => self.broke(error).await?,
                None => self.ended_early().await?,
            },
        }
        Ok(())
    }

    fn heard(&mut self) {
        self.breaks = 0;
        self.again.reset();
    }

    /// What is away for a while is waited for.
    async fn broke(&mut self, error: ClientError) -> Result<(), ClientError> {
        if error.class() != Class::Unavailable {
            return Err(error);
        }
        self.ended_early().await
    }

    async fn ended_early(&mut self) -> Result<(), ClientError> {
        self.has_broken = true;
        self.breaks = self.breaks.saturating_add(1);
        if self.breaks > BREAKS {
            return Err(ClientError::Broken(self.breaks));
        }
        if matches!(self.from, From::Stream(_)) {
            self.from = From::Nothing;
        }
        tracing::debug!(event = "a2a.follow.again", run.id = self.id, breaks = self.breaks);
        sleep(self.again.wait()).await;
        Ok(())
    }

    async fn event(&mut self, event: StreamResponse) -> Result<(), ClientError> {
        let names = match &event {
            StreamResponse::Task(task) => Some(&task.id),
            StreamResponse::StatusUpdate(update) => Some(&update.task_id),
            StreamResponse::ArtifactUpdate(update) => Some(&update.task_id),
            StreamResponse::Message(_) => None,
        };
        if names.is_some_and(|id| *id != self.id) {
            return Err(ClientError::Protocol(
                "its stream tells of another task".to_owned(),
            ));
        }
        match event {
            StreamResponse::Task(task) => return self.task(task),
            // Pieces may have been missed: the task says all of it, and its state.
            StreamResponse::StatusUpdate(update) if self.has_broken && ends(&update.status.state) => {
                return match self.client.task(&self.id).await {
                    Ok(task) => self.task(task),
                    Err(error) => self.broke(error).await,
                };
            }
            StreamResponse::StatusUpdate(update) => {
                if !self.seen.is_news(&update.status) {
                    return Ok(());
                }
                self.is_over = ends(&update.status.state);
                self.news.push_back(StreamResponse::StatusUpdate(update));
            }
            StreamResponse::ArtifactUpdate(update) => {
                self.seen.piece(&update).map_err(too_much)?;
                self.news.push_back(StreamResponse::ArtifactUpdate(update));
            }
            StreamResponse::Message(message) => {
                self.is_over = true;
                self.news.push_back(StreamResponse::Message(message));
            }
        }
        Ok(())
    }

    fn task(&mut self, task: Task) -> Result<(), ClientError> {
        if task.id != self.id {
            return Err(ClientError::Protocol("it answers with another task".to_owned()));
        }
        self.is_over = ends(&task.status.state);
        let news = self.seen.task(task).map_err(too_much)?;
        if !news.is_empty() {
            self.ask.reset();
        }
        self.news.extend(news);
        Ok(())
    }
}

/// Not of the one who follows: a stream is for one thread at a time.
async fn open(client: &Client, id: &str) -> Result<From, ClientError> {
    if !client.cards.line().await?.streams {
        return Ok(From::Questions);
    }
    match client.subscribe(id).await {
        Ok(events) => Ok(From::Stream(events)),
        // It has ended, or the agent has no streams after all: its state says which.
        Err(ClientError::Rpc {
            code: UNSUPPORTED, ..
        }) => Ok(From::Questions),
        Err(error) => Err(error),
    }
}

fn too_much(much: TooMuch) -> ClientError {
    ClientError::Protocol(much.to_string())
}
