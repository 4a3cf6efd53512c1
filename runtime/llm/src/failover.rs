//! An ordered list of endpoints as one model: the first that answers. What may pass is tried again with growing waits
//! and jitter, within the caller's deadline; a refused credential or request ends it at once.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::Classified as _;
use agentd_net::{Backoff, Pace};
use async_trait::async_trait;
use tokio::time::Instant;

use crate::error::{ModelError, Next};
use crate::message::{ModelReply, ModelRequest};
use crate::model::{CallContext, Endpoint, Model};

/// Tries of one endpoint in one request: as many as people wait for.
const TRIES: u32 = 3;
/// A longer `Retry-After` means "not today": the next endpoint, or the error, is of more use than the wait.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Endpoints in order of preference.
#[derive(Clone)]
pub struct Failover {
    endpoints: Vec<Arc<dyn Endpoint>>,
    pace: Pace,
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
        Self { endpoints, pace }
    }

    /// All tries of one endpoint. An error is the last one, and what to do about it.
    async fn endpoint(
        &self,
        endpoint: &dyn Endpoint,
        is_last: bool,
        request: &ModelRequest,
        context: &CallContext,
    ) -> Result<ModelReply, (ModelError, Next)> {
        let mut backoff = Backoff::new(self.pace);
        let mut tries = 0;
        loop {
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
                    log_reply(endpoint.name(), &reply, began, context);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            tries += 1;
            let next = error.next();
            tracing::warn!(
                event = "intel.result",
                run_id = context.run_id,
                endpoint = endpoint.name(),
                error.class = error.class().label(),
                err = %error,
                tries,
            );
            match wait(next, is_last, tries, &mut backoff, context.deadline) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err((error, next)),
            }
        }
    }
}

/// How long until the same endpoint is tried again; none when it is not.
fn wait(next: Next, is_last: bool, tries: u32, backoff: &mut Backoff, deadline: Instant) -> Option<Duration> {
    let pause = match next {
        Next::GiveUp | Next::Never => return None,
        Next::Elsewhere if !is_last => return None,
        Next::Again(Some(asked)) => backoff.wait().max(asked),
        Next::Again(None) | Next::Elsewhere => backoff.wait(),
    };
    let left = deadline.saturating_duration_since(Instant::now());
    (tries < TRIES && pause < left && pause <= LONGEST_WAIT).then_some(pause)
}

fn log_reply(endpoint: &str, reply: &ModelReply, began: Instant, context: &CallContext) {
    tracing::info!(
        event = "intel.result",
        run_id = context.run_id,
        endpoint,
        dur_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        tokens_input = reply.usage.input,
        tokens_output = reply.usage.output,
    );
}

#[async_trait]
impl Model for Failover {
    async fn complete(
        &self,
        request: &ModelRequest,
        context: &CallContext,
    ) -> Result<ModelReply, ModelError> {
        let mut last = ModelError::NoEndpoint;
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let is_last = index + 1 == self.endpoints.len();
            match self.endpoint(endpoint.as_ref(), is_last, request, context).await {
                Ok(reply) => return Ok(reply),
                Err((error, Next::GiveUp)) => return Err(error),
                Err((error, _)) => last = error,
            }
        }
        Err(last)
    }
}
