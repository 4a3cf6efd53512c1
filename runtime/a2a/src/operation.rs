//! One table: every operation of A2A 1.0, its method name, the least role that may call it, and whose things it
//! touches. Nothing is carried out that has no rule here; the card alone, which is no method, asks nobody who they are.
//! What needs push notifications is answered as the specification has it where the agent sends none.

use http::StatusCode;

use crate::access::Refusal;
use crate::caller::{Caller, Role};

/// Who may call an operation, and what of others it may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The least role.
    pub least: Role,
    /// Whose things it touches.
    pub touches: Touches,
}

/// Whose things an operation touches. What is another principal's does not exist for a caller
/// ([`Caller::theirs`]), an operator excepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touches {
    /// Nobody's: what it tells is of the agent.
    Nothing,
    /// What it makes belongs to the caller; what it goes on with has to.
    Makes,
    /// One thing that is named, which has to be the caller's.
    Named,
    /// All that are the caller's, and no other.
    Listed,
}

impl Rule {
    pub(crate) const fn of(least: Role, touches: Touches) -> Self {
        Self { least, touches }
    }

    /// Whether this caller may; the things that it touches are judged where they are found.
    pub(crate) fn admits(self, caller: &Caller) -> Result<(), Refusal> {
        if caller.has_role(self.least) {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "ROLE_NOT_SUFFICIENT",
            "the role of this principal does not allow the operation",
        ))
    }
}

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
    /// `CreateTaskPushNotificationConfig`.
    CreatePushConfig,
    /// `GetTaskPushNotificationConfig`.
    GetPushConfig,
    /// `ListTaskPushNotificationConfigs`.
    ListPushConfigs,
    /// `DeleteTaskPushNotificationConfig`.
    DeletePushConfig,
}

/// What a method name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// It is served.
    Served(Operation),
    /// It is no method of A2A 1.0.
    Unknown,
}

impl Operation {
    /// All that are served.
    pub const ALL: [Self; 11] = [
        Self::SendMessage,
        Self::SendStreamingMessage,
        Self::GetTask,
        Self::ListTasks,
        Self::CancelTask,
        Self::SubscribeToTask,
        Self::GetExtendedAgentCard,
        Self::CreatePushConfig,
        Self::GetPushConfig,
        Self::ListPushConfigs,
        Self::DeletePushConfig,
    ];

    /// Who may call it.
    pub const fn rule(self) -> Rule {
        match self {
            Self::SendMessage | Self::SendStreamingMessage => Rule::of(Role::Agent, Touches::Makes),
            Self::GetTask | Self::CancelTask | Self::SubscribeToTask => Rule::of(Role::Agent, Touches::Named),
            // Their configurations are those of a task.
            Self::CreatePushConfig | Self::GetPushConfig | Self::ListPushConfigs | Self::DeletePushConfig => {
                Rule::of(Role::Agent, Touches::Named)
            }
            Self::ListTasks => Rule::of(Role::Agent, Touches::Listed),
            Self::GetExtendedAgentCard => Rule::of(Role::Agent, Touches::Nothing),
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
            Self::CreatePushConfig => a2a::methods::CREATE_PUSH_CONFIG,
            Self::GetPushConfig => a2a::methods::GET_PUSH_CONFIG,
            Self::ListPushConfigs => a2a::methods::LIST_PUSH_CONFIGS,
            Self::DeletePushConfig => a2a::methods::DELETE_PUSH_CONFIG,
        }
    }
}

impl Method {
    /// Looks a JSON-RPC method up.
    pub fn of(name: &str) -> Self {
        let found = Operation::ALL.into_iter().find(|one| one.name() == name);
        found.map_or(Self::Unknown, Self::Served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_a_caller_is_in_the_table() {
        let agent = |touches| Rule::of(Role::Agent, touches);
        for operation in Operation::ALL {
            let expected = match operation.name() {
                "SendMessage" | "SendStreamingMessage" => agent(Touches::Makes),
                "GetTask"
                | "CancelTask"
                | "SubscribeToTask"
                | "CreateTaskPushNotificationConfig"
                | "GetTaskPushNotificationConfig"
                | "ListTaskPushNotificationConfigs"
                | "DeleteTaskPushNotificationConfig" => agent(Touches::Named),
                "ListTasks" => agent(Touches::Listed),
                "GetExtendedAgentCard" => agent(Touches::Nothing),
                other => panic!("{other} has no row in this test"),
            };
            assert_eq!(operation.rule(), expected, "{operation:?}");
        }
    }

    #[test]
    fn a_role_that_is_too_small_is_refused() {
        let caller = |role| Caller::of("k", &[role]);
        let may = |rule: Rule, role| rule.admits(&caller(role)).is_ok();
        let users = Rule::of(Role::User, Touches::Listed);
        assert!(!may(users, Role::Agent) && may(users, Role::User) && may(users, Role::Operator));
        let refused = users.admits(&caller(Role::Agent)).err().unwrap();
        assert_eq!(
            (refused.status, refused.reason),
            (StatusCode::FORBIDDEN, "ROLE_NOT_SUFFICIENT")
        );
        assert!(Operation::GetTask.rule().admits(&Caller::of("k", &[])).is_err());
    }

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
            (
                "CreateTaskPushNotificationConfig",
                Method::Served(Operation::CreatePushConfig),
            ),
            (
                "GetTaskPushNotificationConfig",
                Method::Served(Operation::GetPushConfig),
            ),
            (
                "ListTaskPushNotificationConfigs",
                Method::Served(Operation::ListPushConfigs),
            ),
            (
                "DeleteTaskPushNotificationConfig",
                Method::Served(Operation::DeletePushConfig),
            ),
            ("message/send", Method::Unknown),
            ("sendmessage", Method::Unknown),
            ("", Method::Unknown),
        ] {
            assert_eq!(Method::of(name), method, "{name}");
        }
    }
}
