//! What a connection is asked for: calls, reads, a ping. Each has a clock, which stands still while the server waits for
//! a person's answer (that has a clock of its own); each is sent once, and what a server of the stateless revision asks
//! back is answered and the same request sent again with what it wants to see.

use std::future::Future;
use std::time::Duration;

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::report::ServerState;
use agentd_base::text::{CONTENT, clip, content};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, InputRequest,
    InputRequiredResult, InputResponses, PingRequest, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerResult,
};
use rmcp::service::ServiceError;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{Connection, Era};
use crate::call::{CallError, CallMeta, HEADER_MISMATCH, ToolOutcome, WholeOutcome};
use crate::fault::of_request;
use crate::gate::PATIENCE;
use crate::reading::{self, Structured};
use crate::resource::{Content, ReadError};

/// Times that a server may ask back before it must answer.
const ROUNDS: u32 = 10;
/// Questions in one round.
const QUESTIONS: usize = 8;
/// What a server has to answer the GET of its notification stream before the first call comes all the same.
const STREAM: Duration = Duration::from_secs(1);
/// Before a request is sent again that nobody was asked for, so that a server cannot make us busy.
const STATE_ONLY: Duration = Duration::from_millis(100);

/// How one sending of a request ended.
pub(super) enum Round<T> {
    Done(T),
    Asked(Box<InputRequiredResult>),
}

/// A request that can be sent again with answers.
pub(super) trait Again: Clone + Send {
    type Result: Send;

    fn send(
        self,
        connection: &Connection,
    ) -> impl Future<Output = Result<Round<Self::Result>, CallError>> + Send;

    fn with(&mut self, answers: Option<InputResponses>, state: Option<String>);
}

impl Again for CallToolRequestParams {
    type Result = CallToolResult;

    async fn send(self, connection: &Connection) -> Result<Round<CallToolResult>, CallError> {
        match connection.0.peer.call_tool_once(self).await {
            Ok(CallToolResponse::Complete(result)) => Ok(Round::Done(result)),
            Ok(CallToolResponse::InputRequired(asked)) => Ok(Round::Asked(Box::new(asked))),
            Ok(_) => Err(CallError::Unavailable(
                "the server's answer is not a tool's result".into(),
            )),
            Err(error) => Err(connection.call_error(&error)),
        }
    }

    fn with(&mut self, answers: Option<InputResponses>, state: Option<String>) {
        self.input_responses = answers;
        self.request_state = state;
    }
}

impl Again for ReadResourceRequestParams {
    type Result = ReadResourceResult;

    async fn send(self, connection: &Connection) -> Result<Round<ReadResourceResult>, CallError> {
        match connection.0.peer.read_resource_once(self).await {
            Ok(ReadResourceResponse::Complete(result)) => Ok(Round::Done(result)),
            Ok(ReadResourceResponse::InputRequired(asked)) => Ok(Round::Asked(Box::new(asked))),
            Ok(_) => Err(CallError::Unavailable(
                "the server's answer is not a resource's contents".into(),
            )),
            Err(error) => Err(connection.call_error(&error)),
        }
    }

    fn with(&mut self, answers: Option<InputResponses>, state: Option<String>) {
        self.input_responses = answers;
        self.request_state = state;
    }
}

impl Connection {
    /// `tools/call` by the server's own name for the tool, within `call_timeout`. Never sent twice, but
    /// where the server says that it looked at its headers alone.
    ///
    /// # Errors
    /// See [`CallError`]. A tool that ran and failed is no error: [`ToolOutcome::is_error`].
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Result<ToolOutcome, CallError> {
        let result = self.answered(tool, arguments, meta).await?;
        let structured = match self.0.facts.structured {
            true => {
                let failed = result.is_error == Some(true);
                let given = result.structured_content.as_ref();
                self.0.outputs.judge(tool, given, failed).await
            }
            false => Structured::Unknown,
        };
        if let Structured::Broken(why) = &structured {
            tracing::warn!(event = "tool.result.schema", mcp.server = %self.0.server, gen_ai.tool.name = %clip(tool, FOREIGN_CHARS));
            // What is wrong quotes the value.
            tracing::info!(target: CONTENT, event = "content.schema", mcp.server = %self.0.server, reason = content(why));
        }
        Ok(reading::outcome(result, structured))
    }

    /// As [`Connection::call`], for an answer that is data of ours and not for a model: whole and as it is, within the
    /// bound of a message. `structuredContent`, else the text as JSON, else the text.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call_whole(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Result<WholeOutcome, CallError> {
        let result = self.answered(tool, arguments, meta).await?;
        Ok(reading::whole(result))
    }

    /// What the server answers to a call.
    async fn answered(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Result<CallToolResult, CallError> {
        if !self.0.facts.offers_tools {
            return Err(CallError::NotOffered("tools"));
        }
        let mut parameters = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        parameters.meta = Some(reading::call_meta(meta));
        match self.within(self.rounds(parameters.clone())).await {
            // The server wants headers of a tool that is another one since it was listed; it has done nothing yet.
            Err(CallError::Protocol {
                code: HEADER_MISMATCH,
                ..
            }) if self.tools().await.is_ok() => self.within(self.rounds(parameters)).await,
            result => result,
        }
    }

    /// `resources/read`, within `call_timeout`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(&self, uri: &str, meta: &CallMeta) -> Result<Vec<Content>, ReadError> {
        if !self.0.facts.offers_resources {
            return Err(CallError::NotOffered("resources").into());
        }
        let parameters = ReadResourceRequestParams::new(uri).with_meta(reading::call_meta(meta));
        match self.within(self.rounds(parameters)).await {
            Ok(result) => Ok(reading::contents(uri, result)),
            Err(error) if error.is_not_found() => Err(ReadError::NotFound { uri: uri.to_owned() }),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the server answers, within its `timeout`: `ping`, or `server/discover` where there is no ping.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub async fn ping(&self) -> Result<(), CallError> {
        let peer = &self.0.peer;
        let answer = async {
            match self.0.facts.era {
                Era::Legacy => {
                    let request = ClientRequest::PingRequest(PingRequest::default());
                    match peer.send_request(request).await {
                        Ok(ServerResult::EmptyResult(_)) => Ok(()),
                        Ok(_) => Err(ServiceError::UnexpectedResponse),
                        Err(error) => Err(error),
                    }
                }
                Era::Stateless => peer.discover(Default::default()).await.map(drop),
            }
        };
        self.bounded(answer).await
    }

    /// One exchange within the server's clock.
    pub(super) async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, CallError> {
        let limit = self.0.timeout;
        match tokio::time::timeout(limit, answer).await {
            Err(_) => Err(CallError::Timeout(limit)),
            Ok(answer) => answer.map_err(|error| self.call_error(&error)),
        }
    }

    /// Sends until there is an answer that asks for nothing.
    pub(super) async fn rounds<P: Again>(&self, mut parameters: P) -> Result<P::Result, CallError> {
        for _ in 0..ROUNDS {
            match parameters.clone().send(self).await? {
                Round::Done(result) => return Ok(result),
                Round::Asked(asked) => {
                    let answers = self.answers(asked.input_requests.unwrap_or_default()).await?;
                    parameters.with(answers, asked.request_state);
                }
            }
        }
        Err(CallError::InputRequired)
    }

    /// What a person says to each question; `None` when there was none.
    async fn answers(
        &self,
        asked: std::collections::BTreeMap<String, InputRequest>,
    ) -> Result<Option<InputResponses>, CallError> {
        if asked.is_empty() {
            tokio::time::sleep(STATE_ONLY).await;
            return Ok(None);
        }
        if asked.len() > QUESTIONS {
            return Err(CallError::InputRequired);
        }
        let mut answers = InputResponses::new();
        for (key, request) in asked {
            // Only elicitation is ever declared: nothing else is answered, as on a stream.
            let (InputRequest::Elicitation(request), true) = (request, self.0.elicits) else {
                return Err(CallError::InputRequired);
            };
            let answer = self.0.gate.answer(request.params).await;
            answers.insert(key, serde_json::to_value(answer).unwrap_or_default());
        }
        Ok(Some(answers))
    }

    /// Waits, once, for the notification stream. The SDK opens it beside the first request, and a server may ask its
    /// question there and drop it while there is no stream: the call would wait in vain for an answer to it.
    async fn hear(&self) {
        if !self.0.elicits || self.0.facts.era != Era::Legacy {
            return;
        }
        let waited = async {
            let mut answered = self.0.notices.of_answered();
            let _ = tokio::time::timeout(STREAM, answered.wait_for(|answered| *answered)).await;
        };
        self.0.hears.get_or_init(|| waited).await;
    }

    /// Bounds a request by `call_timeout`, without the time in which a person was asked. Dropping the request tells the
    /// server that it is cancelled.
    pub(super) async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        self.hear().await;
        let limit = self.0.call_timeout;
        let mut asking = self.0.gate.asking();
        let (mut left, mut patience) = (limit, PATIENCE.saturating_mul(ROUNDS));
        let mut request = std::pin::pin!(request);
        loop {
            let waits = *asking.borrow_and_update() > 0;
            let clock = if waits { &mut patience } else { &mut left };
            let began = Instant::now();
            tokio::select! {
                biased;
                answer = &mut request => return answer,
                () = tokio::time::sleep(*clock) => return Err(CallError::Timeout(limit)),
                _ = asking.changed() => *clock = clock.saturating_sub(began.elapsed()),
            }
        }
    }

    pub(super) fn call_error(&self, error: &ServiceError) -> CallError {
        if let ServiceError::McpError(error) = error {
            let message = clip(&error.message, reading::ERROR_CHARS);
            return CallError::Protocol {
                code: error.code.0,
                message,
            };
        }
        let fault = of_request(error, self.0.health.fault());
        match fault.state {
            ServerState::Unauthorized => CallError::Denied(fault.message),
            ServerState::Connecting | ServerState::Connected | ServerState::Failed => {
                CallError::Unavailable(fault.message)
            }
        }
    }
}
