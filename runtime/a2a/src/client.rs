//! Calls an agent: reads its card, takes the first interface in the card's order that this client speaks, sends
//! messages, asks for tasks, cancels and follows them. How the peer is trusted and how we authenticate is in the options
//! of `agentd-net`; what the peer says is parsed into types and bounded there.
//!
//! Guarantees: every call names the version of the protocol and the tenant of the card; a card is asked for again only
//! when it may have changed; a stream that breaks is taken up again and nothing of it is told twice.

mod cards;
mod error;
mod events;
mod follow;
mod seen;

use std::sync::Arc;
use std::time::Duration;

use a2a::{
    CancelTaskRequest, JsonRpcId, JsonRpcRequest, JsonRpcResponse, ListTasksRequest, SubscribeToTaskRequest,
    methods,
};
use agentd_base::id::SharedIds;
use agentd_base::json::why;
use agentd_base::text::clip;
use agentd_net::{Destination, NetError, Options, Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::cards::Cards;
#[cfg(test)]
pub(crate) use self::cards::{behind, card, interface};
pub use self::error::ClientError;
pub use self::follow::Follow;
use crate::wire::{
    self, AgentCard, GetTaskRequest, ListTasksResponse, Message, Part, Role, SendMessageConfiguration,
    SendMessageRequest, SendMessageResponse, Task, TaskState,
};

/// How much of a refusal's body is read for its message.
const REFUSAL_BYTES: usize = 8 * 1024;
/// The clock of every call but one that waits for a turn.
const PROMPTLY: Duration = Duration::from_secs(60);
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// The text.
    pub text: String,
    /// The message's id, which is the same when it is sent again; absent: a new one.
    pub message_id: Option<String>,
    /// The conversation to go on in.
    pub context_id: Option<String>,
    /// The task that waits for this message.
    pub task_id: Option<String>,
    /// Answer as soon as the task is accepted.
    pub return_immediately: bool,
}

/// Which tasks to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Of this conversation.
    pub context_id: Option<String>,
    /// In this state.
    pub state: Option<TaskState>,
    /// At most so many on the page.
    pub page_size: Option<i32>,
    /// The page that this token of the one before is for.
    pub page_token: Option<String>,
}

/// A client of one agent. Cheap to clone; clones share the card and the connections.
#[derive(Clone)]
pub struct Client {
    cards: Arc<Cards>,
    ids: SharedIds,
    /// The trace that the calls belong to.
    traceparent: Option<HeaderValue>,
}

/// The clock of a call.
#[derive(Debug, Clone, Copy)]
enum Clock {
    /// The client's own: the agent may work until then.
    Work,
    /// It is answered at once.
    Promptly,
}

impl Client {
    /// A client of the agent at this URL. Dials nothing yet. A blocking send lasts as long as the agent's turn: give
    /// the options a clock that fits.
    pub fn new(base: Destination, options: Options, ids: SharedIds) -> Self {
        Self::of(Cards::new(base, options, false), ids)
    }

    /// The same for an agent that is reached through a tunnel, of which `base` is this end: of the URL in its card only
    /// the path counts. Who it is has to be told by its SPIFFE ID.
    pub fn forwarded(base: Destination, options: Options, ids: SharedIds) -> Self {
        Self::of(Cards::new(base, options, true), ids)
    }

    fn of(cards: Cards, ids: SharedIds) -> Self {
        Self {
            cards: Arc::new(cards),
            ids,
            traceparent: None,
        }
    }

    /// The same client, whose calls belong to this trace (W3C `traceparent`). What is no header is left out.
    #[must_use]
    pub fn within(&self, traceparent: Option<&str>) -> Self {
        Self {
            traceparent: traceparent.and_then(|parent| HeaderValue::from_str(parent).ok()),
            ..self.clone()
        }
    }

    /// The public card, as it is known or as the agent has it now.
    ///
    /// # Errors
    /// When the agent cannot be reached or does not answer with a card.
    pub async fn card(&self) -> Result<Arc<AgentCard>, ClientError> {
        self.cards.card().await
    }

    /// Sends a message and returns the task as the agent answered it, or its direct answer.
    ///
    /// # Errors
    /// When the agent cannot be reached, refuses, or answers with something else.
    pub async fn send(&self, outgoing: Outgoing) -> Result<SendMessageResponse, ClientError> {
        let line = self.cards.line().await?;
        let message = Message {
            message_id: outgoing.message_id.unwrap_or_else(|| self.ids.next()),
            context_id: outgoing.context_id,
            task_id: outgoing.task_id,
            ..Message::new(Role::User, vec![Part::text(outgoing.text)])
        };
        let params = SendMessageRequest {
            message,
            configuration: Some(SendMessageConfiguration {
                accepted_output_modes: None,
                task_push_notification_config: None,
                history_length: None,
                return_immediately: Some(outgoing.return_immediately),
            }),
            metadata: None,
            tenant: line.tenant.clone(),
        };
        self.call(&line, Clock::Work, methods::SEND_MESSAGE, &params)
            .await
    }

    /// A task of ours.
    ///
    /// # Errors
    /// As [`Self::send`]; a task that is not there is [`ClientError::Rpc`] with -32001.
    pub async fn task(&self, id: &str) -> Result<Task, ClientError> {
        let line = self.cards.line().await?;
        let params = GetTaskRequest {
            id: id.to_owned(),
            history_length: None,
            tenant: line.tenant.clone(),
        };
        self.call(&line, Clock::Promptly, methods::GET_TASK, &params)
            .await
    }

    /// A page of our tasks, the one that changed last first.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn tasks(&self, listing: Listing) -> Result<ListTasksResponse, ClientError> {
        let line = self.cards.line().await?;
        let params = ListTasksRequest {
            context_id: listing.context_id,
            status: listing.state,
            page_size: listing.page_size,
            page_token: listing.page_token,
            history_length: Some(0),
            status_timestamp_after: None,
            include_artifacts: None,
            tenant: line.tenant.clone(),
        };
        self.call(&line, Clock::Promptly, methods::LIST_TASKS, &params)
            .await
    }

    /// Cancels a task; as it is then.
    ///
    /// # Errors
    /// As [`Self::task`]; one that has ended is [`ClientError::Rpc`] with -32002.
    pub async fn cancel(&self, id: &str) -> Result<Task, ClientError> {
        let line = self.cards.line().await?;
        let params = CancelTaskRequest {
            id: id.to_owned(),
            metadata: None,
            tenant: line.tenant.clone(),
        };
        self.call(&line, Clock::Promptly, methods::CANCEL_TASK, &params)
            .await
    }

    /// Follows a task of ours: its state first, then what happens to it, to its end or until it waits for somebody.
    pub fn follow(&self, id: &str) -> Follow {
        Follow::new(self.clone(), id.to_owned())
    }

    async fn call<P: Serialize, R: DeserializeOwned>(
        &self,
        line: &cards::Line,
        clock: Clock,
        method: &str,
        params: &P,
    ) -> Result<R, ClientError> {
        let (call, request) = self.request(line, method, params, "application/json")?;
        let http = match clock {
            Clock::Work => &line.working,
            Clock::Promptly => &line.promptly,
        };
        let answer = async {
            let response = http.send(request).await?;
            let answer: JsonRpcResponse = parse(&accepted(response).await?)?;
            outcome(answer, &call)
        };
        self.judged(answer.await).await
    }

    /// The same; what says that the agent is not where its card says makes that be asked for again.
    async fn judged<T>(&self, answer: Result<T, ClientError>) -> Result<T, ClientError> {
        if let Err(error) = &answer
            && error.doubts_card()
        {
            self.cards.forget().await;
        }
        answer
    }

    /// The stream of a task's events, from its state on.
    async fn subscribe(&self, id: &str) -> Result<events::Events, ClientError> {
        let line = self.cards.line().await?;
        let params = SubscribeToTaskRequest {
            id: id.to_owned(),
            tenant: line.tenant.clone(),
        };
        let (call, request) = self.request(&line, methods::SUBSCRIBE_TO_TASK, &params, events::MEDIA_TYPE)?;
        let answer = async {
            let response = line.promptly_begun.send(request).await?;
            events::of(response, call).await
        };
        self.judged(answer.await).await
    }

    fn request<P: Serialize>(
        &self,
        line: &cards::Line,
        method: &str,
        params: &P,
        accept: &'static str,
    ) -> Result<(JsonRpcId, Request<Bytes>), ClientError> {
        let unwritable = |error: serde_json::Error| ClientError::Protocol(error.to_string());
        let params = serde_json::to_value(params).map_err(unwritable)?;
        let call = JsonRpcRequest::new(JsonRpcId::String(self.ids.next()), method, Some(params));
        let body = serde_json::to_vec(&call).map_err(unwritable)?;
        let mut request = request(Method::POST, line.url.as_str(), Bytes::from(body), accept)?;
        if let Some(traceparent) = &self.traceparent {
            request.headers_mut().insert(TRACEPARENT, traceparent.clone());
        }
        Ok((call.id, request))
    }
}

pub(crate) fn outcome<R: DeserializeOwned>(
    answer: JsonRpcResponse,
    asked: &JsonRpcId,
) -> Result<R, ClientError> {
    if let Some(error) = answer.error {
        let message = clip(&error.message, agentd_base::limit::MESSAGE_CHARS);
        return Err(ClientError::Rpc {
            code: error.code,
            message,
        });
    }
    if answer.id != *asked {
        return Err(ClientError::Protocol(
            "it carries the id of another call".to_owned(),
        ));
    }
    let result = answer
        .result
        .ok_or_else(|| ClientError::Protocol("it has neither result nor error".into()))?;
    serde_json::from_value(result).map_err(|error| ClientError::Protocol(why(&error)))
}

fn request(
    method: Method,
    uri: &str,
    body: Bytes,
    accept: &'static str,
) -> Result<Request<Bytes>, ClientError> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, accept)
        .header(HeaderName::from_static(wire::VERSION_HEADER), wire::VERSION)
        .body(body)
        .map_err(|error| NetError::Invalid(error.to_string()).into())
}

/// The body of a 2xx; anything else as an error with what its body says.
async fn accepted(response: Response) -> Result<Bytes, ClientError> {
    if response.status.is_success() {
        return Ok(response.body.bytes().await?);
    }
    let body = response.body.prefix(REFUSAL_BYTES).await;
    Err(ClientError::Refused {
        status: response.status,
        message: refusal_message(&body),
    })
}

pub(crate) fn refusal_message(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = value
        .pointer("/error/message")
        .and_then(serde_json::Value::as_str);
    let text = message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    clip(text.trim(), agentd_base::limit::MESSAGE_CHARS)
}

pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| ClientError::Protocol(why(&error)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers() {
        let asked = JsonRpcId::String("1".into());
        let answer = |value| serde_json::from_value::<JsonRpcResponse>(value).unwrap();
        let error = outcome::<Task>(
            answer(
                json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32001, "message": "no\nsuch" } }),
            ),
            &asked,
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "the agent refused the call (-32001): no such"
        );
        let other = outcome::<Task>(
            answer(json!({ "jsonrpc": "2.0", "id": "2", "result": {} })),
            &asked,
        );
        assert!(matches!(other, Err(ClientError::Protocol(_))));
        let neither = outcome::<Task>(answer(json!({ "jsonrpc": "2.0", "id": "1" })), &asked);
        assert!(matches!(neither, Err(ClientError::Protocol(_))));
    }

    #[test]
    fn refusals_are_told_in_their_own_words() {
        assert_eq!(
            refusal_message(br#"{"error":{"message":"present a certificate"}}"#),
            "present a certificate"
        );
        assert_eq!(refusal_message(b"<html>\n"), "<html>");
    }
}
