//! What a message id asks for: the TCK's scenarios. Pure.

use std::time::Duration;

use agentd_a2a::wire::{Part, TaskState};
use serde_json::json;

/// Longer than the TCK waits for two subscribers.
const LONG: Duration = Duration::from_secs(4);
const FILE: &str = "output.txt";
const TEXT: &str = "text/plain";

/// One thing that happens to a task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// It is in this state, with these words.
    State(TaskState, Option<&'static str>),
    /// An artifact, or its first piece.
    Artifact(Part),
    /// The last piece of it.
    Rest(Part),
    /// Nothing for so long.
    Pause(Duration),
}

/// The words of an answer without a task.
pub(crate) fn answered(message_id: &str) -> Option<&'static str> {
    message_id
        .starts_with("tck-message-response")
        .then_some("Direct message response")
}

/// Whether what happens is to be seen as it happens: it waits for whoever follows it.
pub(crate) fn is_followed(message_id: &str) -> bool {
    message_id.starts_with("tck-stream") || message_id.starts_with("test-resubscribe")
}

/// What happens; the prefix that is longer stands before the one that it begins with.
pub(crate) fn steps(message_id: &str) -> Vec<Step> {
    use Step::{Artifact, Pause, Rest, State};
    use TaskState::{Completed, InputRequired, Rejected, Working};
    let file = |part: Part| part.with_filename(FILE).with_media_type(TEXT);
    let worked = |steps: Vec<Step>| {
        let begun = std::iter::once(State(Working, None));
        begun.chain(steps).chain([State(Completed, None)]).collect()
    };
    let cases: [(&str, Vec<Step>); 14] = [
        (
            "tck-artifact-text",
            worked(vec![Artifact(Part::text("Generated text content"))]),
        ),
        (
            "tck-artifact-file-url",
            worked(vec![Artifact(file(Part::url("https://example.com/output.txt")))]),
        ),
        (
            "tck-artifact-file",
            worked(vec![Artifact(file(Part::raw(b"tck".to_vec())))]),
        ),
        (
            "tck-artifact-data",
            worked(vec![Artifact(Part::data(json!({"key": "value", "count": 42})))]),
        ),
        (
            "tck-input-required",
            vec![State(InputRequired, Some("What else?"))],
        ),
        ("tck-reject-task", vec![State(Rejected, Some("rejected"))]),
        (
            "tck-stream-001",
            worked(vec![Artifact(Part::text("Stream hello from TCK"))]),
        ),
        ("tck-stream-002", vec![State(Completed, None)]),
        (
            "tck-stream-003",
            worked(vec![Artifact(Part::text("Stream task lifecycle"))]),
        ),
        (
            "tck-stream-ordering-001",
            worked(vec![Artifact(Part::text("Ordered output"))]),
        ),
        (
            "tck-stream-artifact-text",
            worked(vec![Artifact(Part::text("Streamed text content"))]),
        ),
        (
            "tck-stream-artifact-file",
            worked(vec![Artifact(file(Part::raw(b"tck".to_vec())))]),
        ),
        (
            "tck-stream-artifact-chunked",
            worked(vec![
                Artifact(Part::text("chunk-1 ")),
                Rest(Part::text("chunk-2")),
            ]),
        ),
        ("test-resubscribe-message-id", worked(vec![Pause(LONG)])),
    ];
    let found = cases
        .into_iter()
        .find(|(prefix, _)| message_id.starts_with(prefix));
    found.map_or_else(
        || vec![State(Completed, Some("Hello from TCK"))],
        |(_, steps)| steps,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_prefix_is_not_taken_for_the_shorter_one() {
        let url = steps("tck-artifact-file-url-7f");
        let file = steps("tck-artifact-file-7f");
        assert_ne!(url, file);
        assert_eq!(
            steps("anything"),
            [Step::State(TaskState::Completed, Some("Hello from TCK"))]
        );
    }
}
