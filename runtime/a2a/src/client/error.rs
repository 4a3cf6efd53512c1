//! Why a call of another agent failed.

use agentd_base::class::{Class, Classified};
use agentd_net::{DestinationError, NetError};
use http::StatusCode;

use crate::wire;

/// There is no such task, or it is not ours.
pub(super) const TASK_NOT_FOUND: i32 = -32001;
/// The agent does not do that, or not with this task.
pub(super) const UNSUPPORTED: i32 = -32004;
/// The agent does not speak this version.
const VERSION: i32 = -32009;

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
    #[error(
        "the agent's card lists no interface of A2A {version} over JSONRPC, which is what agentd speaks, but {listed}; \
         ask its operator for one",
        version = wire::VERSION
    )]
    NoInterface {
        /// What it lists.
        listed: String,
    },
    /// A stream broke again and again.
    #[error("the agent's stream broke {0} times in a row; ask for the task later")]
    Broken(u32),
}

impl ClientError {
    /// Whether there is no such task for us.
    pub const fn is_task_not_found(&self) -> bool {
        matches!(
            self,
            Self::Rpc {
                code: TASK_NOT_FOUND,
                ..
            }
        )
    }

    /// Whether the card that led to the call may be out of date.
    pub(super) fn doubts_card(&self) -> bool {
        match self {
            Self::Rpc { code, .. } => *code == VERSION,
            Self::Refused { status, .. } => {
                matches!(
                    *status,
                    StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE
                )
            }
            Self::Net(_)
            | Self::Destination(_)
            | Self::Protocol(_)
            | Self::NoInterface { .. }
            | Self::Broken(_) => false,
        }
    }
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
            Self::Broken(_) => Class::Unavailable,
            Self::Refused { .. } | Self::Rpc { .. } | Self::Protocol(_) | Self::NoInterface { .. } => {
                Class::Invalid
            }
        }
    }
}
