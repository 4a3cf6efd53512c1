//! One table: every operation of A2A 1.0, its method name, and the least role that may call it. An operation that is
//! not built yet is in the table with the answer that the specification has for a capability that is not there.

use crate::caller::Role;

/// An operation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `SendMessage`.
    SendMessage,
    /// `SendStreamingMessage`.
    SendStreamingMessage,
    /// `GetTask`.
    GetTask,
    /// `ListTasks`.
    ListTasks,
    /// `CancelTask`.
    CancelTask,
    /// `SubscribeToTask`.
    SubscribeToTask,
    /// `GetExtendedAgentCard`.
    GetExtendedAgentCard,
}

/// What a method name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// It is served.
    Served(Operation),
    /// It needs push notifications, which the card does not promise.
    PushNotSupported,
    /// It is no method of A2A 1.0.
    Unknown,
}

impl Operation {
    /// All that are served.
    pub const ALL: [Self; 7] = [
        Self::SendMessage,
        Self::SendStreamingMessage,
        Self::GetTask,
        Self::ListTasks,
        Self::CancelTask,
        Self::SubscribeToTask,
        Self::GetExtendedAgentCard,
    ];

    /// The least role that may call it. Whose task it may touch is decided by [`crate::Caller::may_see`].
    pub const fn least_role(self) -> Role {
        match self {
            Self::SendMessage
            | Self::SendStreamingMessage
            | Self::GetTask
            | Self::ListTasks
            | Self::CancelTask
            | Self::SubscribeToTask
            | Self::GetExtendedAgentCard => Role::Agent,
        }
    }

    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendMessage => a2a::methods::SEND_MESSAGE,
            Self::SendStreamingMessage => a2a::methods::SEND_STREAMING_MESSAGE,
            Self::GetTask => a2a::methods::GET_TASK,
            Self::ListTasks => a2a::methods::LIST_TASKS,
            Self::CancelTask => a2a::methods::CANCEL_TASK,
            Self::SubscribeToTask => a2a::methods::SUBSCRIBE_TO_TASK,
            Self::GetExtendedAgentCard => a2a::methods::GET_EXTENDED_AGENT_CARD,
        }
    }
}

impl Method {
    /// Looks a JSON-RPC method up.
    pub fn of(name: &str) -> Self {
        use a2a::methods as m;
        if let Some(operation) = Operation::ALL.into_iter().find(|one| one.name() == name) {
            return Self::Served(operation);
        }
        match name {
            m::CREATE_PUSH_CONFIG | m::GET_PUSH_CONFIG | m::LIST_PUSH_CONFIGS | m::DELETE_PUSH_CONFIG => {
                Self::PushNotSupported
            }
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_protocol_is_in_the_table_and_no_other() {
        for (name, method) in [
            ("SendMessage", Method::Served(Operation::SendMessage)),
            (
                "SendStreamingMessage",
                Method::Served(Operation::SendStreamingMessage),
            ),
            ("GetTask", Method::Served(Operation::GetTask)),
            ("ListTasks", Method::Served(Operation::ListTasks)),
            ("CancelTask", Method::Served(Operation::CancelTask)),
            ("SubscribeToTask", Method::Served(Operation::SubscribeToTask)),
            (
                "GetExtendedAgentCard",
                Method::Served(Operation::GetExtendedAgentCard),
            ),
            ("CreateTaskPushNotificationConfig", Method::PushNotSupported),
            ("GetTaskPushNotificationConfig", Method::PushNotSupported),
            ("ListTaskPushNotificationConfigs", Method::PushNotSupported),
            ("DeleteTaskPushNotificationConfig", Method::PushNotSupported),
            ("message/send", Method::Unknown),
            ("sendmessage", Method::Unknown),
            ("", Method::Unknown),
        ] {
            assert_eq!(Method::of(name), method, "{name}");
        }
    }
}
