//! The spans of a turn, and when they are sent: as a turn ends, by no timer.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use agentd_agent::{Servers, Status, ToolRunner, TurnOutcome};
use agentd_base::trace::TraceContext;
use agentd_config::Document;
use agentd_llm::Model;
use agentd_mcp::Outbound;
use opentelemetry::trace::{
    SpanBuilder, SpanContext, SpanId, SpanKind, Status as SpanStatus, TraceContextExt as _, TraceFlags,
    TraceId, TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, IdGenerator, RandomIdGenerator, SdkTracer, SdkTracerProvider,
};

use super::traced::{TracedModel, TracedServers, TracedTools};
use super::{About, export};

/// The processor's own clock, which we do not need: a turn's end is what sends.
const NEVER: Duration = Duration::from_secs(86_400);
/// Spans that wait for the turn's end; more are dropped by the SDK, which says so.
const SPANS: usize = 2_048;
/// Of the last spans, when the worker ends.
const GOODBYE: Duration = Duration::from_secs(2);

/// Where spans go. Without an endpoint nowhere.
#[derive(Debug, Default)]
pub struct Traces {
    provider: Option<SdkTracerProvider>,
    /// The process ends with the turn, so that what is not sent by then is lost.
    is_last: bool,
}

impl Traces {
    /// As the document says. Inside a runtime.
    ///
    /// # Errors
    /// When the endpoint cannot be dialled as written.
    pub fn open(document: &Document, outbound: &Outbound) -> Result<Self, String> {
        let Some(otel) = &document.observability.otel else {
            return Ok(Self::default());
        };
        let batches = BatchConfigBuilder::default()
            .with_scheduled_delay(NEVER)
            .with_max_queue_size(SPANS)
            .build();
        let processor = BatchSpanProcessor::builder(export::exporter(otel, outbound)?)
            .with_batch_config(batches)
            .build();
        let name = document.agent.name.clone().unwrap_or_else(|| "agentd".to_owned());
        let resource = Resource::builder()
            .with_service_name(name)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_id_generator(RunIds(RandomIdGenerator::default()))
            .with_resource(resource)
            .build();
        Ok(Self {
            provider: Some(provider),
            is_last: document.agent.prompt.is_some(),
        })
    }

    /// Begins a turn.
    pub fn turn(&self, about: About<'_>) -> TurnSpan {
        let provider = self.provider.clone();
        // A provider without processors makes contexts and keeps nothing.
        let tracer = provider
            .clone()
            .unwrap_or_else(|| {
                SdkTracerProvider::builder()
                    .with_id_generator(RunIds(RandomIdGenerator::default()))
                    .build()
            })
            .tracer("agentd");
        RUN.set(Some(TraceContext::of_run(about.run_id, about.parent)));
        let span = tracer.build_with_context(
            SpanBuilder::from_name(format!("invoke_agent {}", about.agent))
                .with_kind(SpanKind::Internal)
                .with_attributes([
                    KeyValue::new("gen_ai.operation.name", "invoke_agent"),
                    KeyValue::new("gen_ai.agent.name", about.agent.to_owned()),
                    KeyValue::new("gen_ai.provider.name", about.provider),
                    KeyValue::new("gen_ai.request.model", about.model.to_owned()),
                    KeyValue::new("run.id", about.run_id.to_owned()),
                ]),
            &about.parent.map_or_else(Context::new, remote),
        );
        RUN.set(None);
        TurnSpan {
            inner: Arc::new(Inner {
                context: Context::new().with_span(span),
                tracer,
                provider: about.provider,
                model: about.model.to_owned(),
            }),
            sends: provider,
            is_last: self.is_last,
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take() {
            // It waits for the collector: not on a thread that others need.
            std::thread::spawn(move || provider.shutdown_with_timeout(GOODBYE));
        }
    }
}

/// A turn that is traced.
pub struct TurnSpan {
    inner: Arc<Inner>,
    sends: Option<SdkTracerProvider>,
    is_last: bool,
}

/// What the decorators share.
pub(super) struct Inner {
    pub(super) context: Context,
    pub(super) tracer: SdkTracer,
    pub(super) provider: &'static str,
    pub(super) model: String,
}

impl TurnSpan {
    /// W3C trace context of the turn.
    pub fn traceparent(&self) -> String {
        traceparent(self.inner.context.span().span_context())
    }

    /// The same model, each request a span.
    pub fn model<M: Model>(&self, model: M) -> impl Model + use<M> {
        TracedModel {
            model,
            turn: self.inner.clone(),
        }
    }

    /// The same tools, each call a span.
    pub fn tools<T: ToolRunner>(&self, tools: T) -> impl ToolRunner + use<T> {
        TracedTools {
            tools,
            turn: self.inner.clone(),
        }
    }

    /// The same servers, each request a span.
    pub fn servers<S: Servers>(&self, servers: S) -> impl Servers + use<S> {
        TracedServers {
            servers,
            turn: self.inner.clone(),
        }
    }

    /// Ends the turn and sends what was gathered: behind its back, but for a process that ends with it.
    pub async fn end(self, outcome: &TurnOutcome) {
        let context = &self.inner.context;
        let span = context.span();
        span.set_attribute(KeyValue::new(
            "gen_ai.usage.input_tokens",
            signed(outcome.usage.input),
        ));
        span.set_attribute(KeyValue::new(
            "gen_ai.usage.output_tokens",
            signed(outcome.usage.output),
        ));
        if outcome.status != Status::Completed {
            let label = outcome.status.label();
            span.set_attribute(KeyValue::new("error.type", label));
            span.set_status(SpanStatus::error(label));
        }
        span.end();
        if let Some(provider) = self.sends {
            let sent = tokio::task::spawn_blocking(move || {
                if let Err(error) = provider.force_flush() {
                    tracing::warn!(event = "otel.export.fail", err = %error);
                }
            });
            if self.is_last {
                // A collector that is slower has lost them.
                let _ = tokio::time::timeout(GOODBYE, sent).await;
            }
        }
    }
}

/// Under what another process does.
fn remote(parent: TraceContext) -> Context {
    let (trace, span) = parent.ids();
    let flags = TraceFlags::default().with_sampled(parent.is_sampled());
    let (trace, span) = (TraceId::from(trace), SpanId::from(span));
    let parent = SpanContext::new(trace, span, flags, true, TraceState::default());
    Context::new().with_remote_span_context(parent)
}

pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn traceparent(context: &SpanContext) -> String {
    format!(
        "00-{}-{}-{:02x}",
        context.trace_id(),
        context.span_id(),
        context.trace_flags() & TraceFlags::SAMPLED
    )
}

thread_local! {
    /// The place in its trace of the turn whose span is being made on this thread.
    static RUN: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// Random ids, but for the turn's, which its supervisor knows too.
#[derive(Debug)]
struct RunIds(RandomIdGenerator);

impl IdGenerator for RunIds {
    fn new_trace_id(&self) -> TraceId {
        RUN.get()
            .map_or_else(|| self.0.new_trace_id(), |run| TraceId::from(run.ids().0))
    }

    fn new_span_id(&self) -> SpanId {
        RUN.get()
            .map_or_else(|| self.0.new_span_id(), |run| SpanId::from(run.ids().1))
    }
}
