//! From the document to a model: endpoints in their order, each a client of its own, every call counted.

use std::sync::Arc;
use std::time::Instant;

use agentd_base::class::Classified as _;
use agentd_config::document::{Dialect, Intelligence, ModelEndpoint, StructuredOutput};
use agentd_llm::{
    CallContext, Endpoint, Failover, Model, ModelClient, ModelError, ModelReply, ModelRequest, Setup,
};
use agentd_mcp::Outbound;
use agentd_net::{Declared, Destination};
use async_trait::async_trait;
use tokio::sync::mpsc;

use super::frame::{FromWorker, ModelCalled};

/// The model of this document.
///
/// # Errors
/// When an endpoint cannot be dialled at all; validation has seen that before.
pub fn build(intelligence: &Intelligence, outbound: &Outbound) -> Result<Failover, String> {
    let endpoints = intelligence
        .endpoints
        .iter()
        .map(|endpoint| client(endpoint, intelligence, outbound));
    Ok(Failover::new(endpoints.collect::<Result<_, _>>()?))
}

fn client(
    endpoint: &ModelEndpoint,
    intelligence: &Intelligence,
    outbound: &Outbound,
) -> Result<Arc<dyn Endpoint>, String> {
    let declared = Declared::Model {
        allow_plaintext: endpoint.allow_plaintext,
    };
    let destination = Destination::declared(&endpoint.url, declared).map_err(|error| error.to_string())?;
    let name = endpoint.name.clone().unwrap_or_else(|| destination.authority());
    let http = outbound
        .patient_client(destination, &endpoint.connection)
        .map_err(|error| format!("{name}: {error}"))?;
    Ok(Arc::new(ModelClient::new(
        setup(endpoint, intelligence, name),
        http,
    )))
}

/// What the document says of how an endpoint is spoken to.
fn setup(endpoint: &ModelEndpoint, intelligence: &Intelligence, name: String) -> Setup {
    let mut headers = endpoint.connection.headers.keys();
    Setup {
        name,
        model: intelligence.model.clone().unwrap_or_default(),
        dialect: match intelligence.dialect {
            Dialect::Openai => agentd_llm::Dialect::Openai,
            Dialect::OpenaiResponses => agentd_llm::Dialect::OpenaiResponses,
            Dialect::Anthropic => agentd_llm::Dialect::Anthropic,
            Dialect::Bedrock => agentd_llm::Dialect::Bedrock,
        },
        structured_output: match intelligence.structured_output {
            StructuredOutput::Auto => agentd_llm::StructuredOutput::Auto,
            StructuredOutput::JsonSchema => agentd_llm::StructuredOutput::JsonSchema,
            StructuredOutput::Tool => agentd_llm::StructuredOutput::Tool,
            StructuredOutput::Prompt => agentd_llm::StructuredOutput::Prompt,
        },
        silence: Some(endpoint.connection.timeout()),
        declares_version: headers.any(|header| header.eq_ignore_ascii_case("anthropic-version")),
    }
}

/// A model whose calls the supervisor hears of.
pub struct Counted<M> {
    /// The model.
    pub model: M,
    /// To the supervisor.
    pub frames: mpsc::Sender<FromWorker>,
}

#[async_trait]
impl<M: Model> Model for Counted<M> {
    async fn complete(
        &self,
        request: &ModelRequest,
        context: &CallContext,
    ) -> Result<ModelReply, ModelError> {
        let began = Instant::now();
        let reply = self.model.complete(request, context).await;
        let usage = reply.as_ref().map(|reply| reply.usage).unwrap_or_default();
        let called = ModelCalled {
            run_id: context.run_id.clone(),
            input_tokens: usage.input,
            output_tokens: usage.output,
            error: reply.as_ref().err().map(|error| error.class().label().to_owned()),
            millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        // A supervisor that is gone counts nothing.
        let _ = self.frames.send(FromWorker::ModelCalled(called)).await;
        reply
    }
}
