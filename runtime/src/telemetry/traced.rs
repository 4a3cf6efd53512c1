//! Models, tools and servers whose calls are spans. Each passes the call on unchanged but for its trace context.

use std::sync::Arc;

use agentd_agent::{Observation, Offer, Servers, SoFar, ToolRunner, View};
use agentd_base::class::Classified as _;
use agentd_llm::{CallContext, Model, ModelError, ModelReply, ModelRequest, Stop, ToolCall};
use agentd_mcp::{CallError, CallMeta, Content, Entry, ReadError, ToolOutcome};
use async_trait::async_trait;
use opentelemetry::trace::{
    FutureExt as _, SpanBuilder, SpanKind, Status as SpanStatus, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use serde_json::{Map, Value};

use super::spans::{Inner, signed, traceparent};

/// A span under whatever is going on here, else under the turn.
fn child(turn: &Inner, name: String, kind: SpanKind, attributes: Vec<KeyValue>) -> Context {
    let current = Context::current();
    let parent = if current.span().span_context().is_valid() {
        current
    } else {
        turn.context.clone()
    };
    let builder = SpanBuilder::from_name(name)
        .with_kind(kind)
        .with_attributes(attributes);
    let span = turn.tracer.build_with_context(builder, &parent);
    parent.with_span(span)
}

fn failed(context: &Context, class: &'static str) {
    context.span().set_attribute(KeyValue::new("error.type", class));
    context.span().set_status(SpanStatus::error(class));
}

pub(super) struct TracedModel<M> {
    pub(super) model: M,
    pub(super) turn: Arc<Inner>,
}

#[async_trait]
impl<M: Model> Model for TracedModel<M> {
    async fn complete(
        &self,
        request: &ModelRequest,
        context: &CallContext,
    ) -> Result<ModelReply, ModelError> {
        let turn = &self.turn;
        let attributes = vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", turn.provider),
            KeyValue::new("gen_ai.request.model", turn.model.clone()),
        ];
        let span = child(turn, format!("chat {}", turn.model), SpanKind::Client, attributes);
        let context = CallContext {
            traceparent: Some(traceparent(span.span().span_context())),
            ..context.clone()
        };
        let reply = self
            .model
            .complete(request, &context)
            .with_context(span.clone())
            .await;
        match &reply {
            Ok(reply) => {
                let ended = span.span();
                ended.set_attribute(KeyValue::new(
                    "gen_ai.usage.input_tokens",
                    signed(reply.usage.input),
                ));
                ended.set_attribute(KeyValue::new(
                    "gen_ai.usage.output_tokens",
                    signed(reply.usage.output),
                ));
                ended.set_attribute(KeyValue::new(
                    "gen_ai.response.finish_reasons",
                    opentelemetry::Value::Array(
                        vec![opentelemetry::StringValue::from(reason(reply.stop))].into(),
                    ),
                ));
            }
            Err(error) => failed(&span, error.class().label()),
        }
        span.span().end();
        reply
    }
}

fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "stop",
        Stop::Length => "length",
        Stop::Refused => "content_filter",
        Stop::Other => "other",
    }
}

pub(super) struct TracedTools<T> {
    pub(super) tools: T,
    pub(super) turn: Arc<Inner>,
}

#[async_trait]
impl<T: ToolRunner> ToolRunner for TracedTools<T> {
    fn may_wait(&self, so_far: SoFar) {
        self.tools.may_wait(so_far);
    }

    async fn view(&self) -> Arc<View> {
        self.tools.view().await
    }

    async fn call(&self, call: &ToolCall, ordinal: u32) -> Observation {
        // A model writes any name: it is cut before it stands in a span.
        let name = agentd_base::text::clip(&call.name, 64);
        let attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", name.clone()),
            KeyValue::new("gen_ai.tool.call.id", agentd_base::text::clip(&call.id, 128)),
        ];
        let span = child(
            &self.turn,
            format!("execute_tool {name}"),
            SpanKind::Internal,
            attributes,
        );
        let seen = self.tools.call(call, ordinal).with_context(span.clone()).await;
        if seen.is_error {
            failed(&span, "tool_error");
        }
        span.span().end();
        seen
    }
}

pub(super) struct TracedServers<S> {
    pub(super) servers: S,
    pub(super) turn: Arc<Inner>,
}

impl<S> TracedServers<S> {
    fn begin(&self, method: &'static str, what: &str, server: &str, meta: &CallMeta) -> (Context, CallMeta) {
        let attributes = vec![
            KeyValue::new("mcp.method.name", method),
            KeyValue::new("mcp.server", server.to_owned()),
        ];
        let name = format!("{method} {what}");
        let span = child(&self.turn, name, SpanKind::Client, attributes);
        let meta = CallMeta {
            traceparent: Some(traceparent(span.span().span_context())),
            ..meta.clone()
        };
        (span, meta)
    }
}

#[async_trait]
impl<S: Servers> Servers for TracedServers<S> {
    async fn offer(&self) -> Arc<Offer> {
        self.servers.offer().await
    }

    async fn call(
        &self,
        entry: &Entry,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<ToolOutcome, CallError>> {
        let (span, meta) = self.begin("tools/call", &entry.tool.name, &entry.server, meta);
        let answer = self
            .servers
            .call(entry, arguments, &meta)
            .with_context(span.clone())
            .await;
        match &answer {
            Some(Ok(outcome)) if outcome.is_error => failed(&span, "tool_error"),
            Some(Ok(_)) => {}
            Some(Err(error)) => failed(&span, error.class().label()),
            None => failed(&span, "unavailable"),
        }
        span.span().end();
        answer
    }

    async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<String, CallError>> {
        let (span, meta) = self.begin("prompts/get", name, server, meta);
        let answer = self
            .servers
            .prompt(server, name, arguments, &meta)
            .with_context(span.clone())
            .await;
        match &answer {
            Some(Ok(_)) => {}
            Some(Err(error)) => failed(&span, error.class().label()),
            None => failed(&span, "unavailable"),
        }
        span.span().end();
        answer
    }

    async fn read(
        &self,
        server: &str,
        uri: &str,
        meta: &CallMeta,
    ) -> Option<Result<Vec<Content>, ReadError>> {
        let (span, meta) = self.begin("resources/read", server, server, meta);
        let answer = self
            .servers
            .read(server, uri, &meta)
            .with_context(span.clone())
            .await;
        if !matches!(answer, Some(Ok(_))) {
            failed(&span, "unavailable");
        }
        span.span().end();
        answer
    }
}
