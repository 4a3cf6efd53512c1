//! What one who follows a task was told of it. From that and the task as it is now follows what is still to be told, so
//! that a stream which broke goes on where it was: nothing is lost, nothing is told twice. Pure.

use crate::wire::{
    Artifact, Part, PartContent, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatus,
    TaskStatusUpdateEvent,
};

/// What a task of a peer may say to one who follows it: the pieces are kept to know what was told.
const SEEN_BYTES: usize = 16 * 1024 * 1024;
/// Artifacts of one task.
const ARTIFACTS: usize = 1024;

/// It says more than that.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("its task says more than {SEEN_BYTES} bytes, or has more than {ARTIFACTS} artifacts")]
pub(super) struct TooMuch;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Nothing before the first state.
    status: Option<TaskStatus>,
    /// By their ids, in the order in which they came.
    artifacts: Vec<(String, Vec<Part>)>,
    bytes: usize,
}

impl Seen {
    /// Whether a state was told at all.
    pub(super) const fn has_begun(&self) -> bool {
        self.status.is_some()
    }

    /// A task as it is: what of it is news. The first time that is the task.
    pub(super) fn task(&mut self, task: Task) -> Result<Vec<StreamResponse>, TooMuch> {
        if self.status.is_none() {
            for artifact in task.artifacts.iter().flatten() {
                self.keep(artifact, false)?;
            }
            self.status = Some(task.status.clone());
            return Ok(vec![StreamResponse::Task(task)]);
        }
        let mut news = self.missed(&task)?;
        if self.is_news(&task.status) {
            news.push(StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                task_id: task.id,
                context_id: task.context_id,
                status: task.status,
                metadata: None,
            }));
        }
        Ok(news)
    }

    /// What of the task's artifacts was not told yet, as updates.
    fn missed(&mut self, task: &Task) -> Result<Vec<StreamResponse>, TooMuch> {
        let mut news = Vec::new();
        for artifact in task.artifacts.iter().flatten() {
            let known = self.artifacts.iter().find(|(id, _)| *id == artifact.artifact_id);
            let (parts, append) = match known {
                None => (artifact.parts.clone(), false),
                Some((_, told)) => match rest(told, &artifact.parts) {
                    Some(rest) if rest.is_empty() => continue,
                    Some(rest) => (rest, true),
                    None => (artifact.parts.clone(), false),
                },
            };
            let artifact = Artifact {
                parts,
                ..artifact.clone()
            };
            self.keep(&artifact, append)?;
            news.push(StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: task.id.clone(),
                context_id: task.context_id.clone(),
                artifact,
                append: Some(append),
                last_chunk: None,
                metadata: None,
            }));
        }
        Ok(news)
    }

    /// Notes a piece that is told now.
    pub(super) fn piece(&mut self, update: &TaskArtifactUpdateEvent) -> Result<(), TooMuch> {
        self.keep(&update.artifact, update.append == Some(true))
    }

    /// Whether this state was not told yet; it is now.
    pub(super) fn is_news(&mut self, status: &TaskStatus) -> bool {
        let is_news = self.status.as_ref() != Some(status);
        self.status = Some(status.clone());
        is_news
    }

    fn keep(&mut self, artifact: &Artifact, append: bool) -> Result<(), TooMuch> {
        let size = |parts: &[Part]| parts.iter().map(weight).sum::<usize>();
        let at = match self
            .artifacts
            .iter()
            .position(|(id, _)| *id == artifact.artifact_id)
        {
            Some(at) => at,
            None if self.artifacts.len() == ARTIFACTS => return Err(TooMuch),
            None => {
                self.bytes = self.bytes.saturating_add(artifact.artifact_id.len());
                self.artifacts.push((artifact.artifact_id.clone(), Vec::new()));
                self.artifacts.len().saturating_sub(1)
            }
        };
        if let Some((_, parts)) = self.artifacts.get_mut(at) {
            if !append {
                self.bytes = self.bytes.saturating_sub(size(parts));
                parts.clear();
            }
            self.bytes = self.bytes.saturating_add(size(&artifact.parts));
            join(parts, artifact.parts.iter().cloned());
        }
        if self.bytes > SEEN_BYTES {
            return Err(TooMuch);
        }
        Ok(())
    }
}

/// About what a part takes.
fn weight(part: &Part) -> usize {
    let content = match &part.content {
        PartContent::Text(text) | PartContent::Url(text) => text.len(),
        PartContent::Raw(raw) => raw.len(),
        PartContent::Data(data) => data.to_string().len(),
    };
    content.saturating_add(std::mem::size_of::<Part>())
}

/// Adds parts; a text that follows a text of the same kind is one text with it, as pieces of an answer are.
fn join(parts: &mut Vec<Part>, more: impl Iterator<Item = Part>) {
    for part in more {
        if let Some(last) = parts.last_mut()
            && is_of_kind(last, &part)
            && let (PartContent::Text(before), PartContent::Text(text)) = (&mut last.content, &part.content)
        {
            before.push_str(text);
            continue;
        }
        parts.push(part);
    }
}

fn is_of_kind(one: &Part, other: &Part) -> bool {
    (&one.filename, &one.media_type, &one.metadata) == (&other.filename, &other.media_type, &other.metadata)
}

/// What `whole` has after `told`; none when it does not begin with it.
fn rest(told: &[Part], whole: &[Part]) -> Option<Vec<Part>> {
    let mut joined = Vec::new();
    join(&mut joined, whole.iter().cloned());
    let mut whole = joined.into_iter();
    for (at, part) in told.iter().enumerate() {
        let next = whole.next()?;
        if next == *part {
            continue;
        }
        let is_last = at.saturating_add(1) == told.len();
        let (PartContent::Text(before), PartContent::Text(text)) = (&part.content, &next.content) else {
            return None;
        };
        let more = text
            .strip_prefix(before.as_str())
            .filter(|_| is_last && is_of_kind(part, &next))?;
        let more = Part {
            content: PartContent::Text(more.to_owned()),
            ..next
        };
        return Some(std::iter::once(more).chain(whole).collect());
    }
    Some(whole.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn task(state: &str, artifacts: Value) -> Task {
        let task =
            json!({ "id": "t", "contextId": "c", "status": { "state": state }, "artifacts": artifacts });
        serde_json::from_value(task).unwrap()
    }

    fn answer(texts: &[&str]) -> Value {
        let parts: Vec<Value> = texts.iter().map(|text| json!({ "text": text })).collect();
        json!([{ "artifactId": "a", "parts": parts }])
    }

    fn piece(text: &str, append: bool) -> TaskArtifactUpdateEvent {
        serde_json::from_value(json!({
            "taskId": "t", "contextId": "c", "append": append, "artifact": { "artifactId": "a", "parts": [{ "text": text }] },
        }))
        .unwrap()
    }

    /// In short.
    fn told(news: &[StreamResponse]) -> Vec<String> {
        let text = |parts: &[Part]| {
            parts
                .iter()
                .filter_map(Part::as_text)
                .collect::<Vec<_>>()
                .join("|")
        };
        let told = news.iter().map(|event| match event {
            StreamResponse::Task(_) => "task".to_owned(),
            StreamResponse::Message(_) => "message".to_owned(),
            StreamResponse::StatusUpdate(update) => format!("{:?}", update.status.state),
            StreamResponse::ArtifactUpdate(update) => {
                let sign = if update.append == Some(true) { "+" } else { "=" };
                format!("{sign}{}", text(&update.artifact.parts))
            }
        });
        told.collect()
    }

    #[test]
    fn what_is_still_to_be_told_follows_from_what_was() {
        for (pieces, now, expected) in [
            (&[][..], answer(&["one two"]), &["=one two", "Completed"][..]),
            (&["one "], answer(&["one two"]), &["+two", "Completed"]),
            (&["one ", "two"], answer(&["one two"]), &["Completed"]),
            (&["one ", "two"], answer(&["one ", "t", "wo"]), &["Completed"]),
            (&["one ", "two"], json!([]), &["Completed"]),
            // It began anew, or it was something else all the time.
            (&["one "], answer(&["other"]), &["=other", "Completed"]),
            (&["one two"], answer(&["one"]), &["=one", "Completed"]),
        ] {
            let mut seen = Seen::default();
            assert_eq!(
                told(&seen.task(task("TASK_STATE_WORKING", json!([]))).unwrap()),
                ["task"]
            );
            for (at, text) in pieces.iter().enumerate() {
                seen.piece(&piece(text, at > 0)).unwrap();
            }
            assert!(
                seen.task(task("TASK_STATE_WORKING", json!([])))
                    .unwrap()
                    .is_empty()
            );
            let end = task("TASK_STATE_COMPLETED", now);
            assert_eq!(told(&seen.task(end.clone()).unwrap()), expected, "{pieces:?}");
            assert!(seen.task(end).unwrap().is_empty(), "nothing is told twice");
        }
    }

    #[test]
    fn parts_that_are_no_texts_are_compared_whole() {
        let data = |value: i32| json!([{ "artifactId": "a", "parts": [{ "text": "x" }, { "data": value }, { "text": "y" }] }]);
        let mut seen = Seen::default();
        seen.task(task("TASK_STATE_WORKING", data(1))).unwrap();
        assert!(seen.task(task("TASK_STATE_WORKING", data(1))).unwrap().is_empty());
        assert_eq!(
            told(&seen.task(task("TASK_STATE_WORKING", data(2))).unwrap()),
            ["=x|y"]
        );
    }

    #[test]
    fn a_task_that_says_too_much_is_left() {
        let mut seen = Seen::default();
        let long = "x".repeat(SEEN_BYTES / 2);
        seen.piece(&piece(&long, false)).unwrap();
        seen.piece(&piece(&long, false)).unwrap();
        assert_eq!(seen.piece(&piece(&long, true)), Err(TooMuch));
        let many: Vec<Value> = (0..=ARTIFACTS)
            .map(|n| json!({ "artifactId": n.to_string(), "parts": [] }))
            .collect();
        let task = task("TASK_STATE_WORKING", many.into());
        assert_eq!(Seen::default().task(task), Err(TooMuch));
    }
}
