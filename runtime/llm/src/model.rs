//! The traits: a model that answers, and one endpoint that may.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::error::ModelError;
use crate::message::{ModelReply, ModelRequest};

/// Hears the text of an answer while it is written. Must not block.
pub trait Sink: Send + Sync {
    /// More of it. All of them together are [`ModelReply::text`], but for line breaks between its blocks.
    fn text(&self, delta: &str);
    /// What was heard so far is void: the answer begins again.
    fn restart(&self);
}

/// Hears nothing. With it an answer is streamed all the same: its pieces are its signs of life.
#[derive(Debug, Clone, Copy)]
pub struct Mute;

impl Sink for Mute {
    fn text(&self, _: &str) {}
    fn restart(&self) {}
}

/// What surrounds one request.
#[derive(Clone)]
pub struct CallContext {
    /// The run, for logs.
    pub run_id: String,
    /// W3C trace context, sent along.
    pub traceparent: Option<String>,
    /// When an answer is of no use any more.
    pub deadline: Instant,
    /// Who hears the text as it is written; none: the answer comes as a whole.
    pub sink: Option<Arc<dyn Sink>>,
}

impl fmt::Debug for CallContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CallContext")
            .field("run_id", &self.run_id)
            .field("traceparent", &self.traceparent)
            .field("deadline", &self.deadline)
            .field("sink", &self.sink.is_some())
            .finish()
    }
}

/// A model. Dropping the future gives the request up.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks once; tries and endpoints are its own matter.
    async fn complete(&self, request: &ModelRequest, context: &CallContext)
    -> Result<ModelReply, ModelError>;
}

/// One endpoint. [`crate::Failover`] makes a model of some.
#[async_trait]
pub trait Endpoint: Send + Sync {
    /// For logs and metrics.
    fn name(&self) -> &str;
    /// One try.
    async fn attempt(&self, request: &ModelRequest, context: &CallContext) -> Result<ModelReply, ModelError>;
}
