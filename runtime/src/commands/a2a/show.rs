//! What an agent answers as text for people and as JSON for programs. Pure. Text of an agent reaches a terminal without
//! its control characters; JSON is as the protocol has it.

use agentd_a2a::wire::{
    AgentCard, AgentInterface, Artifact, Message, Part, PartContent, StreamResponse, Task, TaskState,
    TaskStatus,
};
use agentd_base::text::clip;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::STATES;
use crate::commands::table::{clean, table};
use crate::logging::visible;

/// A cell of a table.
const CELL: usize = 100;

/// An answer in both forms.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    text: String,
    json: Value,
}

impl Shown {
    fn new(text: String, json: &impl Serialize) -> Self {
        Self {
            text,
            json: serde_json::to_value(json).unwrap_or_default(),
        }
    }

    /// JSON is one line, so that several answers are JSON lines.
    pub(super) fn text(&self, json: bool) -> String {
        if json {
            visible(self.json.to_string())
        } else {
            self.text.clone()
        }
    }
}

/// The card.
pub(super) fn card(card: &AgentCard) -> Shown {
    let mut text = format!("{} {}", clip(&card.name, CELL), clip(&card.version, CELL));
    if !card.description.is_empty() {
        text.push('\n');
        text.push_str(&clean(&card.description));
    }
    let interfaces: Vec<[String; 3]> = card.supported_interfaces.iter().map(interface).collect();
    text.push_str("\n\n");
    text.push_str(&table(["INTERFACE", "VERSION", "URL"], &interfaces));
    if !card.skills.is_empty() {
        let skills = card.skills.iter();
        let skills: Vec<[String; 3]> = skills
            .map(|skill| [&skill.id, &skill.name, &skill.description].map(|cell| clip(cell, CELL)))
            .collect();
        text.push_str("\n\n");
        text.push_str(&table(["SKILL", "NAME", "DESCRIPTION"], &skills));
    }
    Shown::new(text, card)
}

fn interface(interface: &AgentInterface) -> [String; 3] {
    let AgentInterface {
        protocol_binding,
        protocol_version,
        url,
        ..
    } = interface;
    [protocol_binding, protocol_version, url].map(|cell| clip(cell, CELL))
}

/// A task by what it answered.
pub(super) fn task(task: &Task) -> Shown {
    Shown::new(clean(&answer_of(task)), task)
}

/// A task by its id: nobody waits for its answer.
pub(super) fn task_at_once(task: &Task) -> Shown {
    let state = word(&task.status.state);
    Shown::new(format!("{} {state}", clip(&task.id, CELL)), task)
}

/// A direct answer.
pub(super) fn message(message: &Message) -> Shown {
    Shown::new(clean(&text_of(&message.parts)), message)
}

/// `{"tasks": […]}`
pub(super) fn tasks(tasks: &[Task]) -> Shown {
    let rows: Vec<[String; 4]> = tasks
        .iter()
        .map(|task| {
            let changed = task
                .status
                .timestamp
                .map(|at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string());
            [
                clip(&task.id, CELL),
                word(&task.status.state).to_owned(),
                changed.unwrap_or_default(),
                clip(&task.context_id, CELL),
            ]
        })
        .collect();
    let text = table(["TASK", "STATE", "CHANGED", "CONTEXT"], &rows);
    Shown::new(text, &json!({ "tasks": tasks }))
}

/// An event of a task that is followed.
pub(super) fn event(event: &StreamResponse) -> Shown {
    let text = match event {
        StreamResponse::Task(task) => {
            let artifacts = task
                .artifacts
                .iter()
                .flatten()
                .map(|artifact| of_artifact(artifact, false));
            let lines = std::iter::once(of_status(&task.status)).chain(artifacts);
            lines.collect::<Vec<_>>().join("\n")
        }
        StreamResponse::Message(message) => clean(&text_of(&message.parts)),
        StreamResponse::StatusUpdate(update) => of_status(&update.status),
        StreamResponse::ArtifactUpdate(update) => of_artifact(&update.artifact, update.append == Some(true)),
    };
    Shown::new(text, event)
}

fn of_status(status: &TaskStatus) -> String {
    let said = status
        .message
        .as_ref()
        .map(|message| clean(&text_of(&message.parts)));
    match said {
        Some(said) if !said.is_empty() => format!("[{}] {said}", word(&status.state)),
        _ => format!("[{}]", word(&status.state)),
    }
}

fn of_artifact(artifact: &Artifact, more: bool) -> String {
    let name = artifact.name.as_ref().unwrap_or(&artifact.artifact_id);
    let sign = if more { "+" } else { ":" };
    format!("{}{sign} {}", clip(name, CELL), clean(&text_of(&artifact.parts)))
}

/// The artifacts' text, or what the status says.
fn answer_of(task: &Task) -> String {
    let said = task
        .status
        .message
        .as_ref()
        .map(|message| text_of(&message.parts));
    let said = said.unwrap_or_default();
    let state = word(&task.status.state);
    // What it asks, whatever it made so far.
    if matches!(
        task.status.state,
        TaskState::InputRequired | TaskState::AuthRequired
    ) {
        return format!("{state}: {said}\nanswer with --task {}", task.id);
    }
    let artifacts = task
        .artifacts
        .iter()
        .flatten()
        .map(|artifact| text_of(&artifact.parts));
    let text = artifacts.collect::<Vec<_>>().join("\n");
    if !text.is_empty() {
        return text;
    }
    match task.status.state {
        TaskState::Completed => said,
        _ => format!("{state}: {said}"),
    }
}

fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.content {
        PartContent::Text(text) => Some(text.clone()),
        PartContent::Data(data) => Some(data.to_string()),
        PartContent::Raw(_) | PartContent::Url(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A state as a user writes it.
const fn word(state: &TaskState) -> &'static str {
    match state {
        TaskState::Unspecified => "unknown",
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::InputRequired => "input-required",
        TaskState::AuthRequired => "auth-required",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::Rejected => "rejected",
    }
}

/// The state of a word of [`STATES`].
pub(super) fn state_of(said: &str) -> Option<TaskState> {
    let states = [
        TaskState::Submitted,
        TaskState::Working,
        TaskState::InputRequired,
        TaskState::AuthRequired,
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Canceled,
        TaskState::Rejected,
    ];
    let at = STATES.iter().position(|word| *word == said)?;
    states.into_iter().nth(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_a_state_and_back() {
        for said in STATES {
            assert_eq!(word(&state_of(said).unwrap()), said);
        }
        assert_eq!(state_of("done"), None);
    }

    #[test]
    fn what_an_agent_says_does_not_steer_the_terminal() {
        let hostile: Task = serde_json::from_value(json!({
            "id": "t\u{1b}[2J", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" },
            "artifacts": [{ "artifactId": "a\u{1b}", "parts": [{ "text": "\u{1b}]0;x\u{7}hi\n" }, { "data": { "a": 1 } }] }],
        }))
        .unwrap();
        let shown = [
            task(&hostile),
            task_at_once(&hostile),
            tasks(std::slice::from_ref(&hostile)),
            event(&StreamResponse::Task(hostile)),
        ];
        for shown in shown {
            for text in [shown.text(false), shown.text(true)] {
                assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
            }
        }
    }
}
