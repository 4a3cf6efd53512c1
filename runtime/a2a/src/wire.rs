//! The wire types of A2A 1.0, from the official crate, and the one conversion they need.

pub use a2a::{
    AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Artifact, GetTaskRequest, ListTasksResponse,
    Message, Part, PartContent, Role, SendMessageConfiguration, SendMessageRequest, SendMessageResponse,
    StreamResponse, Task, TaskArtifactUpdateEvent, TaskPushNotificationConfig, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};

/// The protocol version that this crate speaks, as it stands on the wire.
pub const VERSION: &str = a2a::VERSION;
/// The version before, which the listener speaks too.
pub const VERSION_BEFORE: &str = "0.3";
/// The header (and query parameter) that names the version.
pub const VERSION_HEADER: &str = "a2a-version";

/// A timestamp of ours as the wire type has it: UTC, milliseconds.
pub fn timestamp(at: jiff::Timestamp) -> Option<chrono::DateTime<chrono::Utc>> {
    chrono::DateTime::from_timestamp_millis(at.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_utc_with_a_z() {
        let at: jiff::Timestamp = "2026-12-01T10:00:00.25Z".parse().unwrap();
        assert_eq!(
            serde_json::to_value(timestamp(at)).unwrap(),
            "2026-12-01T10:00:00.250Z"
        );
    }
}
