//! Calls an agent: reads its card, takes the first interface in the card's order that this client speaks, sends a
//! message and waits for the answer. How the peer is trusted and how we authenticate is in the options of
//! `agentd-net`; what the peer says is parsed into types and bounded there.

use a2a::{JsonRpcId, JsonRpcRequest, JsonRpcResponse, TRANSPORT_PROTOCOL_JSONRPC};
use agentd_base::class::{Class, Classified};
use agentd_base::id::SharedIds;
use agentd_base::json::why;
use agentd_base::text::clip;
use agentd_net::{Destination, DestinationError, HttpClient, NetError, Options, Response};
use bytes::Bytes;
use http::{HeaderName, Method, Request, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::card::WELL_KNOWN;
use crate::wire::{
    self, AgentCard, AgentInterface, GetTaskRequest, Message, Part, Role, SendMessageConfiguration,
    SendMessageRequest, SendMessageResponse, Task,
};

/// How much of a refusal's body is read for its message.
const REFUSAL_BYTES: usize = 8 * 1024;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The peer was not reached, or not understood as HTTP.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The URL, or one in the card, may not be dialled.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// HTTP refused it.
    #[error("the agent answered {status}: {message}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// What the body says.
        message: String,
    },
    /// The agent answered with an error of the protocol.
    #[error("the agent refused the call ({code}): {message}")]
    Rpc {
        /// The JSON-RPC code.
        code: i32,
        /// What it says.
        message: String,
    },
    /// The answer is not A2A 1.0.
    #[error("the agent's answer is not A2A {version}: {0}", version = wire::VERSION)]
    Protocol(String),
    /// The card lists no interface that this client speaks.
    #[error("the agent's card lists no JSONRPC interface of A2A {version}", version = wire::VERSION)]
    NoInterface,
}

impl Classified for ClientError {
    fn class(&self) -> Class {
        match self {
            Self::Net(error) => error.class(),
            Self::Destination(_) => Class::Invalid,
            Self::Refused { status, .. } if matches!(status.as_u16(), 401 | 403) => Class::Denied,
            Self::Refused { status, .. }
                if status.is_server_error() || matches!(status.as_u16(), 408 | 429) =>
            {
                Class::Unavailable
            }
            Self::Refused { .. } | Self::Rpc { .. } | Self::Protocol(_) | Self::NoInterface => Class::Invalid,
        }
    }
}

/// What to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// The text.
    pub text: String,
    /// The conversation to go on in.
    pub context_id: Option<String>,
    /// Answer as soon as the task is accepted.
    pub return_immediately: bool,
}

/// A client of one agent.
pub struct Client {
    base: Destination,
    options: Options,
    ids: SharedIds,
    /// The card's host is not reached from here: calls go where the card came from.
    forwarded: bool,
}

impl Client {
    /// A client of the agent at this URL. Dials nothing yet. A blocking send lasts as long as the agent's turn: give
    /// the options a clock that fits.
    pub fn new(base: Destination, options: Options, ids: SharedIds) -> Self {
        Self {
            base,
            options,
            ids,
            forwarded: false,
        }
    }

    /// The same for an agent that is reached through a tunnel, of which `base` is this end: of the URL in its card only
    /// the path counts. Who it is has to be told by its SPIFFE ID.
    pub fn forwarded(base: Destination, options: Options, ids: SharedIds) -> Self {
        Self {
            forwarded: true,
            ..Self::new(base, options, ids)
        }
    }

    /// The public card.
    ///
    /// # Errors
    /// When the agent cannot be reached or does not answer with a card.
    pub async fn card(&self) -> Result<AgentCard, ClientError> {
        let path = format!("{}{WELL_KNOWN}", self.base.url().path().trim_end_matches('/'));
        let http = HttpClient::new(self.base.clone(), self.options.clone())?;
        let request = request(Method::GET, &path, Bytes::new())?;
        parse(&accepted(http.send(request).await?).await?)
    }

    /// Sends a message and returns the task as the agent answered it, or its direct answer.
    ///
    /// # Errors
    /// When the agent cannot be reached, refuses, or answers with something else.
    pub async fn send(&self, outgoing: Outgoing) -> Result<SendMessageResponse, ClientError> {
        let interface = interface(self.card().await?)?;
        let message = Message {
            message_id: self.ids.next(),
            context_id: outgoing.context_id,
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
            tenant: interface.tenant.clone(),
        };
        self.call(&interface, a2a::methods::SEND_MESSAGE, &params).await
    }

    /// A task of ours.
    ///
    /// # Errors
    /// As [`Self::send`]; a task that is not there is [`ClientError::Rpc`] with -32001.
    pub async fn task(&self, id: &str) -> Result<Task, ClientError> {
        let interface = interface(self.card().await?)?;
        let params = GetTaskRequest {
            id: id.to_owned(),
            history_length: None,
            tenant: interface.tenant.clone(),
        };
        self.call(&interface, a2a::methods::GET_TASK, &params).await
    }

    async fn call<P: Serialize, R: DeserializeOwned>(
        &self,
        interface: &AgentInterface,
        method: &str,
        params: &P,
    ) -> Result<R, ClientError> {
        let params =
            serde_json::to_value(params).map_err(|error| ClientError::Protocol(error.to_string()))?;
        let call = JsonRpcRequest::new(JsonRpcId::String(self.ids.next()), method, Some(params));
        let body = serde_json::to_vec(&call).map_err(|error| ClientError::Protocol(error.to_string()))?;
        let target = if self.forwarded {
            self.base.discovered(&behind(self.base.url(), &interface.url)?)?
        } else {
            self.base.discovered(&interface.url)?
        };
        let request = request(Method::POST, target.url().as_str(), Bytes::from(body))?;
        let http = HttpClient::new(target, self.options.clone())?;
        let answer: JsonRpcResponse = parse(&accepted(http.send(request).await?).await?)?;
        outcome(answer, &call.id)
    }
}

/// The first interface, in the card's order, that this client speaks.
pub(crate) fn interface(card: AgentCard) -> Result<AgentInterface, ClientError> {
    card.supported_interfaces
        .into_iter()
        .find(|interface| {
            interface
                .protocol_binding
                .eq_ignore_ascii_case(TRANSPORT_PROTOCOL_JSONRPC)
                && interface.protocol_version == wire::VERSION
        })
        .ok_or(ClientError::NoInterface)
}

/// The path and query of a card's URL at this end of the tunnel.
pub(crate) fn behind(near: &Url, promised: &str) -> Result<String, ClientError> {
    let promised = Url::parse(promised)
        .map_err(|error| ClientError::Protocol(format!("the URL in the card: {error}")))?;
    let mut url = near.clone();
    url.set_path(promised.path());
    url.set_query(promised.query());
    Ok(url.into())
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

fn request(method: Method, uri: &str, body: Bytes) -> Result<Request<Bytes>, ClientError> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
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
    fn the_first_interface_that_is_spoken() {
        let card = |interfaces: serde_json::Value| -> AgentCard {
            serde_json::from_value(json!({
                "name": "n", "version": "1", "capabilities": {}, "supportedInterfaces": interfaces, "unknown": 1,
            }))
            .unwrap()
        };
        let one = |binding: &str, version: &str, url: &str| json!({ "url": url, "protocolBinding": binding, "protocolVersion": version });
        let chosen = interface(card(json!([
            one("GRPC", "1.0", "https://a"),
            one("JSONRPC", "0.3", "https://b"),
            one("JSONRPC", "1.0", "https://c"),
            one("JSONRPC", "1.0", "https://d"),
        ])));
        assert_eq!(chosen.unwrap().url, "https://c");
        assert!(matches!(
            interface(card(json!([]))),
            Err(ClientError::NoInterface)
        ));
    }

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
