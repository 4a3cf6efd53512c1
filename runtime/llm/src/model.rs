//! The traits: a model that answers, and one endpoint that may.

use async_trait::async_trait;
use tokio::time::Instant;

use crate::error::ModelError;
use crate::message::{ModelReply, ModelRequest};

/// What surrounds one request.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The run, for logs.
    pub run_id: String,
    /// W3C trace context, sent along.
    pub traceparent: Option<String>,
    /// When an answer is of no use any more.
    pub deadline: Instant,
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
