//! An ordered list of endpoints as one model: the first that is well answers. What may pass is tried again with growing
//! waits and jitter, within the caller's deadline; a refused credential or request ends it at once. Which endpoint is
//! asked next is decided by [`crate::breaker`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_base::class::Classified as _;
use agentd_base::text::{CONTENT, content};
use agentd_net::pace::jittered;
use agentd_net::{Backoff, Pace};
use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::breaker::{Breakers, Choice};
use crate::error::{ModelError, Next};
use crate::message::{ModelReply, ModelRequest};
use crate::model::{CallContext, Endpoint, Model, Sink};

/// Tries of one endpoint in one request: as many as people wait for.
const TRIES: u32 = 3;
/// A longer `Retry-After` means "not today": the next endpoint, or the error, is of more use than the wait.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// Added to what a server asks for, so that its clients do not come back in step.
const SPREAD: Duration = Duration::from_millis(500);

/// Endpoints in order of preference. Clones share what is known of them.
#[derive(Clone)]
pub struct Failover {
    endpoints: Arc<[Arc<dyn Endpoint>]>,
    pace: Pace,
    health: Arc<Health>,
}

/// How the endpoints are.
struct Health {
    breakers: Mutex<Breakers>,
    /// A probe has ended.
    changed: Notify,
}

impl Health {
    fn breakers(&self) -> MutexGuard<'_, Breakers> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request that an endpoint is asked by. Dropped without a word, it lets the next one probe.
struct Turn<'a> {
    health: &'a Health,
    place: usize,
    is_told: bool,
}

impl Turn<'_> {
    fn answered(&mut self) {
        self.health.breakers().answered(self.place);
        self.end();
    }

    /// Whether it is left alone from now on.
    fn failed(&mut self) -> bool {
        let mut breakers = self.health.breakers();
        breakers.failed(self.place, Instant::now());
        let is_open = breakers.is_open(self.place);
        drop(breakers);
        self.end();
        is_open
    }

    fn end(&mut self) {
        self.is_told = true;
        self.health.changed.notify_waiters();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.health.breakers().left(self.place);
            self.health.changed.notify_waiters();
        }
    }
}

impl Failover {
    /// Over some endpoints, with waits from half a second to eight.
    pub fn new(endpoints: Vec<Arc<dyn Endpoint>>) -> Self {
        let pace = Pace {
            first: Duration::from_millis(500),
            max: Duration::from_secs(8),
        };
        Self::with_pace(endpoints, pace)
    }

    /// Over some endpoints, with given waits.
    pub fn with_pace(endpoints: Vec<Arc<dyn Endpoint>>, pace: Pace) -> Self {
        let health = Health {
            breakers: Mutex::new(Breakers::new(endpoints.len())),
            changed: Notify::new(),
        };
        Self {
            endpoints: endpoints.into(),
            pace,
            health: Arc::new(health),
        }
    }

    /// The next endpoint, once there is one; none when all were asked.
    async fn next(&self, asked: &[usize], deadline: Instant) -> Option<(usize, bool)> {
        loop {
            // Before the look, so that no probe ends unseen between the two.
            let changed = self.health.changed.notified();
            let choice = self.health.breakers().choose(asked, Instant::now());
            match choice {
                Choice::Ask { place, is_probe } => return Some((place, is_probe)),
                Choice::Over => return None,
                // Those that are left alone are not waited for when another was asked just now.
                Choice::Wait(_) if !asked.is_empty() => return None,
                Choice::Wait(until) => {
                    let until = until.unwrap_or(deadline).min(deadline);
                    let _ = tokio::time::timeout_at(until, changed).await;
                    if Instant::now() >= deadline {
                        return None;
                    }
                }
            }
        }
    }

    /// All tries of one endpoint. An error is the last one, and what to do about it.
    async fn endpoint(
        &self,
        place: usize,
        is_probe: bool,
        is_last: bool,
        asked: (&ModelRequest, &CallContext),
        heard: &Heard,
    ) -> Result<ModelReply, (ModelError, Next)> {
        let (request, context) = asked;
        let Some(endpoint) = self.endpoints.get(place) else {
            return Err((ModelError::NoEndpoint, Next::GiveUp));
        };
        let mut backoff = Backoff::new(self.pace);
        let mut tries = 0;
        loop {
            let mut turn = Turn {
                health: &self.health,
                place,
                is_told: false,
            };
            heard.again();
            let began = Instant::now();
            tracing::debug!(
                event = "intel.call",
                run_id = context.run_id,
                endpoint = endpoint.name()
            );
            let attempt = endpoint.attempt(request, context);
            let outcome = tokio::time::timeout_at(context.deadline, attempt).await;
            let error = match outcome.unwrap_or(Err(ModelError::Deadline)) {
                Ok(reply) => {
                    turn.answered();
                    log_reply(endpoint.name(), &reply, began, context);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            tries += 1;
            let next = error.next();
            let is_open = next != Next::GiveUp && turn.failed();
            drop(turn);
            tracing::warn!(
                event = "intel.result",
                run_id = context.run_id,
                endpoint = endpoint.name(),
                error.class = error.class().label(),
                err = error.plain(),
                tries,
            );
            tracing::info!(
                target: CONTENT,
                event = "content.model_error",
                run_id = context.run_id,
                text = content(&error.to_string()),
            );
            let may_again = !is_probe && tries < TRIES;
            let pause = wait(next, is_last, &mut backoff, context.deadline);
            match pause.filter(|_| may_again && !is_open) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err((error, next)),
            }
        }
    }
}

/// How long until the same endpoint is tried again; none when it is not.
fn wait(next: Next, is_last: bool, backoff: &mut Backoff, deadline: Instant) -> Option<Duration> {
    let pause = match next {
        Next::GiveUp | Next::Never => return None,
        Next::Elsewhere if !is_last => return None,
        Next::Again(Some(asked)) if asked > LONGEST_WAIT => return None,
        Next::Again(Some(asked)) => backoff.wait().max(asked + jittered(SPREAD, 1.0)),
        Next::Again(None) | Next::Elsewhere => backoff.wait(),
    };
    let left = deadline.saturating_duration_since(Instant::now());
    (pause < left).then_some(pause)
}

/// Between the endpoints and who hears the text: a try that begins again says so first.
struct Heard {
    sink: Option<Arc<dyn Sink>>,
    has_text: AtomicBool,
}

impl Heard {
    fn again(&self) {
        let had_text = self.has_text.swap(false, Ordering::Relaxed);
        if let (true, Some(sink)) = (had_text, &self.sink) {
            sink.restart();
        }
    }
}

impl Sink for Heard {
    fn text(&self, delta: &str) {
        self.has_text.store(true, Ordering::Relaxed);
        if let Some(sink) = &self.sink {
            sink.text(delta);
        }
    }

    fn restart(&self) {
        self.again();
    }
}

fn log_reply(endpoint: &str, reply: &ModelReply, began: Instant, context: &CallContext) {
    tracing::info!(
        event = "intel.result",
        run_id = context.run_id,
        endpoint,
        dur_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        tokens_input = reply.usage.input,
        tokens_output = reply.usage.output,
        tokens_cached = reply.usage.cached,
    );
}

#[async_trait]
impl Model for Failover {
    async fn complete(
        &self,
        request: &ModelRequest,
        context: &CallContext,
    ) -> Result<ModelReply, ModelError> {
        let heard = Arc::new(Heard {
            sink: context.sink.clone(),
            has_text: false.into(),
        });
        let context = CallContext {
            sink: context.sink.as_ref().map(|_| heard.clone() as Arc<dyn Sink>),
            ..context.clone()
        };
        let mut last = None;
        let mut asked = Vec::new();
        while let Some((place, is_probe)) = self.next(&asked, context.deadline).await {
            asked.push(place);
            let is_last = !self.health.breakers().has_other(&asked, Instant::now());
            let outcome = self
                .endpoint(place, is_probe, is_last, (request, &context), &heard)
                .await;
            match outcome {
                Ok(reply) => return Ok(reply),
                Err((error, Next::GiveUp)) => return Err(error),
                Err((error, _)) => last = Some(error),
            }
        }
        Err(last.unwrap_or(if self.endpoints.is_empty() {
            ModelError::NoEndpoint
        } else {
            ModelError::Deadline
        }))
    }
}
