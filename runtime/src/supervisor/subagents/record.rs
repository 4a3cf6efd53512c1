//! What is known of a subagent, as it is stored and as its caller is told. Pure.

use agentd_agent::Status;
use agentd_agent::request::Mode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::supervisor::turns::TurnEnd;

/// What a caller is told of an answer: a distillate, not a transcript.
const RESULT_BYTES: usize = 8000;
/// Of our own resources: those that subagents end with.
pub(super) const RESOURCES: &str = "agentd://subagents/";
/// Said of one that the process before this one left in the middle.
const RESTARTED: &str = "the agent was restarted while this subagent ran; tools may have been called already";

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// A turn of it runs.
    Running,
    /// Warm, and waits for a message.
    Waiting,
    /// How its last turn ended.
    Ended(Status),
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its name; its first run has it too.
    pub(super) handle: String,
    /// The run or the subagent that began it.
    pub(super) parent: String,
    /// Generations below a conversation.
    pub(super) depth: u32,
    pub(super) mode: Mode,
    pub(super) state: State,
    pub(super) result: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) steps: u64,
    pub(super) tokens: u64,
    pub(super) tool_calls: u64,
    pub(super) began_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

impl Record {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// After a turn of it. A warm one whose turn went well waits for the next message.
    pub(super) fn after(&mut self, end: TurnEnd, now: Timestamp) {
        let (status, result, reason) = match end {
            TurnEnd::Done(result) => {
                self.steps += result.steps;
                self.tokens += result.tokens;
                self.tool_calls += result.tool_calls;
                (result.status, Some(distilled(result.text)), result.reason)
            }
            TurnEnd::Broken {
                reason, tool_calls, ..
            } => {
                self.tool_calls += tool_calls;
                (Status::Failed, None, Some(reason))
            }
        };
        self.result = result.filter(|text| !text.is_empty());
        self.reason = reason;
        if self.mode == Mode::Warm && status == Status::Completed {
            self.state = State::Waiting;
        } else {
            self.end(status, now);
        }
    }

    /// It is over, and did not do what it was to do.
    pub(super) fn fail(&mut self, reason: String, now: Timestamp) {
        self.reason = Some(reason);
        self.end(Status::Failed, now);
    }

    /// It is over.
    pub(super) fn end(&mut self, status: Status, now: Timestamp) {
        self.state = State::Ended(status);
        self.ended_at = Some(now);
    }

    /// As the next process finds it: what was in the middle has failed.
    pub(super) fn restarted(mut self, now: Timestamp) -> Self {
        if !self.is_over() {
            self.reason = Some(match self.state {
                State::Waiting => {
                    "the agent was restarted, and what this warm subagent knew is gone".to_owned()
                }
                _ => RESTARTED.to_owned(),
            });
            self.end(Status::Failed, now);
        }
        self
    }

    /// In a word.
    pub(super) fn status(&self) -> &'static str {
        match self.state {
            State::Running => "running",
            State::Waiting => "waiting",
            State::Ended(status) => status.label(),
        }
    }

    /// For the model.
    pub(super) fn told(&self) -> Value {
        let mut told = json!({
            "handle": self.handle,
            "mode": self.mode,
            "status": self.status(),
            "steps": self.steps,
            "tokens": self.tokens,
            "tool_calls": self.tool_calls,
        });
        let words = [("result", self.result.clone()), ("reason", self.reason.clone())];
        let uri =
            matches!(self.mode, Mode::Async | Mode::Detached).then(|| format!("{RESOURCES}{}", self.handle));
        if let Some(told) = told.as_object_mut() {
            for (name, text) in words.into_iter().chain([("uri", uri)]) {
                if let Some(text) = text {
                    told.insert(name.to_owned(), text.into());
                }
            }
        }
        told
    }

    /// As its resource is read.
    pub(super) fn read(&self) -> String {
        match (&self.state, &self.result, &self.reason) {
            (State::Running | State::Waiting, _, _) => "[the subagent has not ended]".to_owned(),
            (State::Ended(Status::Completed), Some(result), _) => result.clone(),
            (State::Ended(status), result, reason) => {
                let words = [result.as_deref(), reason.as_deref()].into_iter().flatten();
                let words: Vec<&str> = words.collect();
                format!("[{}] {}", status.label(), words.join("\n"))
            }
        }
    }
}

/// At most [`RESULT_BYTES`], cut between characters.
fn distilled(text: String) -> String {
    const NOTE: &str = "\n[cut here]";
    if text.len() <= RESULT_BYTES {
        return text;
    }
    let mut end = RESULT_BYTES - NOTE.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{NOTE}", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(mode: Mode, state: State) -> Record {
        Record {
            handle: "h".into(),
            parent: "c".into(),
            depth: 1,
            mode,
            state,
            result: None,
            reason: None,
            steps: 0,
            tokens: 0,
            tool_calls: 0,
            began_at: Timestamp::UNIX_EPOCH,
            ended_at: None,
        }
    }

    #[test]
    fn an_answer_is_distilled_between_characters() {
        assert_eq!(distilled("ä".repeat(4000)).len(), 8000);
        let cut = distilled("ä".repeat(4001));
        assert!(
            cut.len() <= 8000 && cut.ends_with("ä\n[cut here]"),
            "{}",
            cut.len()
        );
    }

    #[test]
    fn what_a_restart_finds_in_the_middle_has_failed_and_what_had_ended_stands() {
        let now = Timestamp::UNIX_EPOCH;
        for state in [State::Running, State::Waiting] {
            let told = record(Mode::Warm, state).restarted(now).told();
            assert_eq!(told["status"], "failed");
            assert!(told["reason"].as_str().unwrap().contains("restarted"));
        }
        let ended = record(Mode::Async, State::Ended(Status::Completed));
        assert_eq!(ended.clone().restarted(now), ended);
    }

    #[test]
    fn a_broken_worker_fails_its_subagent_with_the_reason() {
        let mut record = record(Mode::Warm, State::Running);
        let end = TurnEnd::Broken {
            reason: "the worker process was killed by SIGKILL".into(),
            began: true,
            tool_calls: 2,
        };
        record.after(end, Timestamp::UNIX_EPOCH);
        assert_eq!(record.told()["status"], "failed");
        assert_eq!(record.read(), "[failed] the worker process was killed by SIGKILL");
        assert_eq!(record.tool_calls, 2);
    }
}
