//! From the SDK's errors to what a status and a model can use: who must act, and one line that says what was seen.

use agentd_base::class::Class;
use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::report::ServerState;
use agentd_base::text::clip;
use agentd_net::NetError;
use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::screen::MESSAGE_VALUES;

/// What our half of the transport adds to the SDK's errors.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TransportError {
    /// Below HTTP.
    #[error(transparent)]
    Net(#[from] NetError),
    /// 401 or 403 without a challenge.
    #[error("HTTP {0}")]
    Unauthorized(u16),
    /// Few bytes a value, so that what they are in memory is many times their length.
    #[error("the server's message holds more than {MESSAGE_VALUES} values")]
    Values,
}

/// The SDK's error over our transport.
pub(crate) type HttpError = StreamableHttpError<TransportError>;

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Reachable but refused, or not working.
    pub(crate) state: ServerState,
    /// Who must act.
    pub(crate) class: Class,
    /// One line.
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn failed(class: Class, message: impl Into<String>) -> Self {
        Self {
            state: ServerState::Failed,
            class,
            message: message.into(),
        }
    }

    fn unauthorized(what: &str) -> Self {
        Self {
            state: ServerState::Unauthorized,
            class: Class::Denied,
            message: format!("the server answered {what}; check the credential in its headers or auth"),
        }
    }
}

/// Of one HTTP exchange.
pub(crate) fn of_http(error: &HttpError) -> Fault {
    let broken = |message: String| Fault::failed(Class::Unavailable, message);
    match error {
        StreamableHttpError::Client(TransportError::Net(net)) => {
            use agentd_base::class::Classified as _;
            let state = match net {
                NetError::Authorization {
                    class: Class::Denied, ..
                } => ServerState::Unauthorized,
                _ => ServerState::Failed,
            };
            Fault {
                state,
                class: net.class(),
                message: net.to_string(),
            }
        }
        StreamableHttpError::Client(TransportError::Unauthorized(status)) => {
            Fault::unauthorized(&format!("HTTP {status}"))
        }
        StreamableHttpError::Client(error @ TransportError::Values) => broken(error.to_string()),
        StreamableHttpError::AuthRequired(_) => Fault::unauthorized("HTTP 401"),
        StreamableHttpError::InsufficientScope(_) => Fault::unauthorized("HTTP 403"),
        StreamableHttpError::HttpStatus(status) => {
            broken(format!("the server answered HTTP {}", status.status))
        }
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind
                .as_deref()
                .map_or_else(|| "nothing".into(), |kind| clip(kind, FOREIGN_CHARS));
            broken(format!(
                "the server answered with {kind} in place of MCP; is the path of the endpoint right?"
            ))
        }
        StreamableHttpError::UnexpectedServerResponse(text) => broken(format!(
            "the server's answer is not MCP: {}",
            clip(text, FOREIGN_CHARS)
        )),
        StreamableHttpError::SessionExpired => broken("the server has forgotten the session".into()),
        other => broken(clip(&other.to_string(), FOREIGN_CHARS)),
    }
}

fn of_transport(error: &DynamicTransportError) -> Fault {
    match error.error.downcast_ref::<HttpError>() {
        Some(http) => of_http(http),
        None => Fault::failed(Class::Unavailable, clip(&error.error.to_string(), FOREIGN_CHARS)),
    }
}

/// Of a handshake. `last` is what the transport saw last.
pub(crate) fn of_handshake(error: &ClientInitializeError, last: Option<Fault>) -> Fault {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_handshake(fallback, last),
        ClientInitializeError::JsonRpcError(error) => Fault::failed(
            Class::Unavailable,
            format!("the server refused the handshake: {}", of_rpc(error)),
        ),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> = server_supported.iter().map(|version| version.as_str()).collect();
            let versions = clip(&versions.join(", "), FOREIGN_CHARS);
            Fault::failed(
                Class::Invalid,
                format!("no MCP revision in common; the server speaks {versions}"),
            )
        }
        ClientInitializeError::ConnectionClosed(_) => last.unwrap_or_else(|| {
            Fault::failed(
                Class::Unavailable,
                "the server ended the exchange in the middle of the handshake",
            )
        }),
        other => Fault::failed(
            Class::Unavailable,
            format!(
                "the handshake failed: {}",
                clip(&other.to_string(), FOREIGN_CHARS)
            ),
        ),
    }
}

/// Of a request after the handshake, where the server gave no JSON-RPC error of its own.
pub(crate) fn of_request(error: &ServiceError, last: Option<Fault>) -> Fault {
    match error {
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::TransportClosed => last.unwrap_or_else(|| {
            Fault::failed(
                Class::Unavailable,
                "the server ended the exchange without an answer",
            )
        }),
        ServiceError::McpError(error) => Fault::failed(Class::Unavailable, of_rpc(error)),
        ServiceError::UnexpectedResponse => Fault::failed(
            Class::Unavailable,
            "the server's answer does not fit the question",
        ),
        other => Fault::failed(Class::Unavailable, clip(&other.to_string(), FOREIGN_CHARS)),
    }
}

fn of_rpc(error: &ErrorData) -> String {
    format!("error {}: {}", error.code.0, clip(&error.message, FOREIGN_CHARS))
}
