//! What happens to an open task, for those who follow it: its states, and its answer while it is written, in the same
//! order for everybody. Who comes late gets what was said so far at once, and nothing twice. It waits for nobody: who
//! does not keep up loses its place.

use std::sync::{Arc, Mutex};

use agentd_a2a::wire::{
    Artifact, Part, StreamResponse, Task as WireTask, TaskArtifactUpdateEvent, TaskStatusUpdateEvent,
};
use agentd_state::{Task, TaskState};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::asking::Record;
use super::lock;
use crate::supervisor::record::{ANSWER, wire_task};
use crate::supervisor::turns::Listener;

/// Events that one who follows may be behind: some seconds of a fast model.
const BEHIND: usize = 64;
/// An answer that is longer is told when it is there: this is kept for those who come late.
const SAID: usize = 1024 * 1024;

/// One open task.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) id: String,
    /// Of its task.
    pub(super) conversation: String,
    state: watch::Sender<TaskState>,
    events: broadcast::Sender<Arc<StreamResponse>>,
    said: Mutex<Said>,
    /// Held while its turn begins, and while it is cancelled before; whether it has begun.
    pub(super) begun: tokio::sync::Mutex<bool>,
    /// The record while its turn runs.
    pub(super) record: tokio::sync::Mutex<Record>,
    /// Questions of the turn wait here for one another.
    pub(super) line: tokio::sync::Mutex<()>,
    /// A caller wants it to end.
    pub(super) cancelled: CancellationToken,
    /// Its turn is to end: for that reason, or with the process.
    pub(super) stop: CancellationToken,
}

/// The answer so far.
#[derive(Debug, Default)]
struct Said {
    context_id: String,
    text: String,
    /// What comes next is more of it.
    goes_on: bool,
    /// It is too long to be told before its end.
    is_long: bool,
}

impl Feed {
    pub(super) fn new(id: &str, conversation: &str, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            id: id.to_owned(),
            conversation: conversation.to_owned(),
            state: watch::Sender::new(TaskState::Submitted),
            events: broadcast::Sender::new(BEHIND),
            said: Mutex::default(),
            begun: tokio::sync::Mutex::default(),
            record: tokio::sync::Mutex::default(),
            line: tokio::sync::Mutex::default(),
            cancelled: CancellationToken::new(),
            stop,
        })
    }

    /// Where it stands. Ends when this process has done with the task.
    pub(super) fn states(&self) -> watch::Receiver<TaskState> {
        self.state.subscribe()
    }

    /// Where the process before left it.
    pub(super) fn stands(&self, state: TaskState) {
        self.state.send_replace(state);
    }

    /// What happens from now on, and the answer so far.
    pub(super) fn follow(&self) -> (broadcast::Receiver<Arc<StreamResponse>>, Option<Artifact>) {
        let said = lock(&self.said);
        let events = self.events.subscribe();
        let text = (!said.text.is_empty()).then(|| said.text.clone());
        (events, text.map(|text| artifact(&self.id, text)))
    }

    /// The task's state was stored.
    pub(super) fn publish(&self, task: &Task) {
        {
            let mut said = lock(&self.said);
            said.context_id.clone_from(&task.context_id);
            if self.events.receiver_count() > 0 {
                self.tell_whole(&said, wire_task(task.clone()));
            }
        }
        self.state.send_replace(task.state);
    }

    /// What is not told yet of the answer, and the state.
    fn tell_whole(&self, said: &Said, task: WireTask) {
        for artifact in task.artifacts.into_iter().flatten() {
            let whole = artifact
                .parts
                .iter()
                .filter_map(Part::as_text)
                .collect::<String>();
            match whole.strip_prefix(said.text.as_str()) {
                Some("") => {}
                Some(rest) if !said.text.is_empty() => {
                    self.tell_artifact(&task.context_id, self.piece(rest), true, true);
                }
                _ => self.tell_artifact(&task.context_id, artifact, false, true),
            }
        }
        let _ = self
            .events
            .send(Arc::new(StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                task_id: task.id,
                context_id: task.context_id,
                status: task.status,
                metadata: None,
            })));
    }

    fn piece(&self, text: &str) -> Artifact {
        artifact(&self.id, text.to_owned())
    }

    fn tell_artifact(&self, context_id: &str, artifact: Artifact, append: bool, is_last: bool) {
        let update = TaskArtifactUpdateEvent {
            task_id: self.id.clone(),
            context_id: context_id.to_owned(),
            artifact,
            append: Some(append),
            last_chunk: Some(is_last),
            metadata: None,
        };
        let _ = self.events.send(Arc::new(StreamResponse::ArtifactUpdate(update)));
    }
}

impl Listener for Feed {
    fn heard(&self, text: &str, restart: bool) {
        let mut said = lock(&self.said);
        if restart {
            said.text.clear();
            (said.goes_on, said.is_long) = (false, false);
        }
        said.is_long |= said.text.len() + text.len() > SAID;
        if text.is_empty() || said.is_long {
            return;
        }
        said.text.push_str(text);
        let append = std::mem::replace(&mut said.goes_on, true);
        self.tell_artifact(&said.context_id, self.piece(text), append, false);
    }
}

/// The id of a task's answer: the same in a stream and in the task.
pub(super) fn answer_id(task_id: &str) -> String {
    format!("{task_id}-{ANSWER}")
}

fn artifact(task_id: &str, text: String) -> Artifact {
    Artifact {
        artifact_id: answer_id(task_id),
        name: Some(ANSWER.to_owned()),
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(state: TaskState, answer: Option<&str>) -> Task {
        let parts = |text| json!({ "artifactId": "t-answer", "name": "answer", "parts": [{ "text": text }] });
        Task {
            id: "t".into(),
            context_id: "c".into(),
            owner: "o".into(),
            state,
            updated_at: jiff::Timestamp::UNIX_EPOCH,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            status_message: None,
            asked: None,
            history: Vec::new(),
            hops: 0,
            trace: None,
            artifacts: answer.map(parts).into_iter().collect(),
        }
    }

    fn feed() -> Arc<Feed> {
        Feed::new("t", "o c", CancellationToken::new())
    }

    /// What was told, in short.
    fn told(events: &mut broadcast::Receiver<Arc<StreamResponse>>) -> Vec<String> {
        std::iter::from_fn(|| events.try_recv().ok())
            .map(|event| match &*event {
                StreamResponse::StatusUpdate(update) => format!("{:?}", update.status.state),
                StreamResponse::ArtifactUpdate(update) => {
                    assert_eq!(
                        (update.context_id.as_str(), update.artifact.artifact_id.as_str()),
                        ("c", "t-answer")
                    );
                    let sign = if update.append == Some(true) { "+" } else { "=" };
                    let end = if update.last_chunk == Some(true) { "." } else { "" };
                    format!("{sign}{}{end}", update.artifact.parts[0].as_text().unwrap())
                }
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn an_answer_is_told_once_however_it_comes() {
        for (heard, answer, expected) in [
            (vec![], "hi", vec!["=hi."]),
            (vec![("h", false), ("i", false)], "hi", vec!["=h", "+i"]),
            (vec![("h", false)], "hi", vec!["=h", "+i."]),
            (
                vec![("let me see", false), ("", true), ("hi", false)],
                "hi",
                vec!["=let me see", "=hi"],
            ),
            (
                vec![("let me see", false), ("h", true)],
                "hi",
                vec!["=let me see", "=h", "+i."],
            ),
            (vec![("something", false)], "else", vec!["=something", "=else."]),
        ] {
            let feed = feed();
            let mut first = feed.follow().0;
            feed.publish(&task(TaskState::Working, None));
            for (text, restart) in &heard {
                feed.heard(text, *restart);
            }
            feed.publish(&task(TaskState::Completed, Some(answer)));
            let expected: Vec<&str> = ["Working"]
                .into_iter()
                .chain(expected)
                .chain(["Completed"])
                .collect();
            assert_eq!(told(&mut first), expected, "{heard:?}");
        }
    }

    #[test]
    fn who_comes_late_gets_what_was_said_and_then_what_the_others_get() {
        let feed = feed();
        feed.publish(&task(TaskState::Working, None));
        feed.heard("one ", false);
        let (mut late, said) = feed.follow();
        assert_eq!(said.unwrap().parts[0].as_text(), Some("one "));
        feed.heard("two", false);
        feed.publish(&task(TaskState::Completed, Some("one two")));
        assert_eq!(told(&mut late), ["+two", "Completed"]);
        feed.heard("", true);
        assert!(feed.follow().1.is_none());
    }

    #[test]
    fn a_long_answer_is_told_at_its_end() {
        let feed = feed();
        feed.publish(&task(TaskState::Working, None));
        let mut events = feed.follow().0;
        feed.heard("start", false);
        feed.heard(&"x".repeat(SAID), false);
        feed.heard("more", false);
        assert_eq!(told(&mut events), ["=start"]);
        feed.publish(&task(TaskState::Completed, Some("start and so on")));
        assert_eq!(told(&mut events), ["+ and so on.", "Completed"]);
    }
}
