//! What supervisor and worker say to each other. How it travels is in `framing`.

use std::collections::BTreeSet;

use agentd_agent::{Held, Holder, Instruction, Reply, Request, Resumed, Status, TurnLimits};
use agentd_config::Document;
use agentd_mcp::{Answer, Era, Question, Tool};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroize;

use super::confine::Confine;
use crate::origin::Origin;

/// From the supervisor to the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// The first frame, and again before the next turn when the configuration has changed.
    Configure(Box<Configure>),
    /// The pod's SVID and bundle; again whenever they rotate.
    Identity(IdentityMaterial),
    /// The tools of a server as the agent's catalogue has them; again when that has others. Without it the worker goes by
    /// what it lists itself.
    Tools {
        /// The server's name in the document.
        server: String,
        /// All of them, before allow and exclude.
        tools: Vec<Tool>,
    },
    /// Run a turn. The worker runs one at a time and answers with [`FromWorker::Done`].
    Turn(Box<Turn>),
    /// End the turn with this run id soon and answer.
    Cancel {
        /// The turn's.
        run_id: String,
    },
    /// What a person said to [`FromWorker::Ask`].
    Answer {
        /// The question's.
        id: u64,
        /// The answer.
        answer: Answer,
    },
    /// What came of [`FromWorker::Request`].
    Reply {
        /// The request's.
        id: u64,
        /// What came of it.
        reply: Reply,
    },
}

/// What a worker needs of the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Configure {
    /// Grows with each accepted change of the configuration.
    pub generation: u64,
    /// The document. Secrets in it are references, resolved by the worker at use.
    pub document: Document,
    /// The supervisor's process: a worker whose parent is another one is an orphan.
    pub parent: u32,
}

/// Certificates and key as PEM.
#[derive(Clone, Serialize, Deserialize)]
pub struct IdentityMaterial {
    /// The trust domain.
    pub trust_domain: String,
    /// Roots.
    pub bundle: Option<String>,
    /// Leaf first; absent before the first SVID.
    pub certificates: Option<String>,
    /// PKCS#8.
    pub key: Option<SecretPem>,
}

impl std::fmt::Debug for IdentityMaterial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdentityMaterial")
            .field("trust_domain", &self.trust_domain)
            .finish_non_exhaustive()
    }
}

/// A key on its way to a worker: wiped when dropped, never shown.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretPem(String);

impl SecretPem {
    /// Takes a PEM text.
    pub fn new(pem: String) -> Self {
        Self(pem)
    }

    /// The PEM text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for SecretPem {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// One turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Turn {
    /// The run's id: the same when the turn is run again after a crash, and part of every idempotency key.
    pub run_id: String,
    /// The agent's name, for `_meta` of tool calls.
    pub instance: String,
    /// Whose the turn is, and what it is part of.
    pub origin: Origin,
    /// The conversation so far; `null` when it begins.
    pub transcript: Value,
    /// What the caller says.
    pub text: String,
    /// What it goes on with, where it waited and was given up.
    pub resumed: Option<Resumed>,
    /// The kind of turn.
    pub holder: Holder,
    /// What it may see and call.
    pub held: Held,
    /// What it may use up.
    pub limits: TurnLimits,
    /// What a subagent is told of itself; empty else.
    pub role: String,
    /// What binds the worker's process from now on.
    pub confine: Confine,
    /// JSON Schema of the answer, where one was asked for.
    pub output_schema: Option<Value>,
    /// The supervisor has resources of its own for this conversation.
    pub has_own: bool,
    /// The contracts without an implementation of ours that a server stands behind.
    pub mapped: BTreeSet<String>,
    /// What the agent is for, where that is a resource; none where the document says it.
    pub instruction: Option<Instruction>,
    /// Somebody hears the answer while it is written: [`FromWorker::Text`] is of use.
    pub is_heard: bool,
    /// The servers that answer at this moment: only these are dialled, so that one that is down costs a turn nothing.
    pub servers: Vec<Reachable>,
}

/// A server that the supervisor is connected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reachable {
    /// The name in the document.
    pub name: String,
    /// How it is spoken to, so that the worker need not probe.
    pub era: Option<Era>,
    /// Of what it listed to the supervisor: with another one the worker lists anew, whatever it was told itself.
    pub digest: String,
}

/// From the worker to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// The worker has the turn: the first frame about it, before anything is called.
    Began {
        /// The turn's.
        run_id: String,
    },
    /// A tool call has ended.
    ToolCalled(ToolCalled),
    /// A server that was said to be reachable is not.
    ServerFailed {
        /// Its name in the document.
        server: String,
    },
    /// A server told the worker that it has other tools now, which it may not have told the supervisor.
    ServerChanged {
        /// Its name in the document.
        server: String,
    },
    /// A model call has ended.
    ModelCalled(ModelCalled),
    /// More of the answer, while it is written. What counts in the end is the result.
    Text {
        /// The turn's.
        run_id: String,
        /// What goes on from what was told before.
        text: String,
        /// What was told before is void: this begins anew.
        restart: bool,
    },
    /// A server asks a person. Answered with [`ToWorker::Answer`].
    Ask {
        /// The turn's.
        run_id: String,
        /// Unique in this worker.
        id: u64,
        /// What it asks.
        question: Question,
    },
    /// The turn asks for something that only the supervisor can do. Answered with [`ToWorker::Reply`].
    Request {
        /// The turn's.
        run_id: String,
        /// Unique in this worker, among questions too.
        id: u64,
        /// What it asks for.
        request: Box<Request>,
    },
    /// Nobody waits for the answer or the reply any more.
    Withdraw {
        /// The question's or the request's.
        id: u64,
    },
    /// The turn has ended: the last frame about it.
    Done(Box<TurnResult>),
}

/// One call, for audit and metrics. Neither arguments nor results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCalled {
    /// Of what.
    pub action: Action,
    /// The run, and the call in it.
    pub request_id: String,
    /// The server's name in the document; none for a tool of ours.
    pub server: Option<String>,
    /// The tool's or the prompt's name at the server, or our tool; empty for what is read.
    pub tool: String,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// From request to answer.
    pub millis: u64,
    /// W3C trace context of the call.
    pub trace: String,
}

impl ToolCalled {
    /// A call of a run that begins; until it is told otherwise it has failed.
    pub fn begin(action: Action, run_id: &str, ordinal: u32) -> Self {
        Self {
            action,
            request_id: format!("{run_id}/{ordinal}"),
            server: None,
            tool: String::new(),
            outcome: ToolOutcome::Failed,
            millis: 0,
            trace: String::new(),
        }
    }
}

/// What kind of call it is. There is one [`Action::Tool`] for each call of a model; what our own tools ask of servers to
/// carry theirs out is told besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// The model called a tool.
    #[serde(rename = "tool.call")]
    Tool,
    /// `tools/call` at the server that stands behind a contract.
    #[serde(rename = "contract.call")]
    Contract,
    /// `resources/read`.
    #[serde(rename = "resource.read")]
    Read,
    /// `prompts/get`.
    #[serde(rename = "prompt.get")]
    Prompt,
}

impl Action {
    /// As the audit names it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tool => "tool.call",
            Self::Contract => "contract.call",
            Self::Read => "resource.read",
            Self::Prompt => "prompt.get",
        }
    }
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool did it.
    Ok,
    /// The tool ran and says that it failed.
    ToolError,
    /// The server answered with an error, or not in time.
    Failed,
    /// The server cannot be reached, or does not let us in.
    Unavailable,
    /// It was not tried: the turn has no such tool, or the arguments are none.
    Refused,
}

impl ToolOutcome {
    /// A label for metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
        }
    }
}

/// One model call, for metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCalled {
    /// The turn's.
    pub run_id: String,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// The class of the error, if it failed.
    pub error: Option<String>,
    /// From request to answer.
    pub millis: u64,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// The turn's.
    pub run_id: String,
    /// How.
    pub status: Status,
    /// The answer; may be empty.
    pub text: String,
    /// Why it is not `completed`, for people.
    pub reason: Option<String>,
    /// The same without words of the model's or of its endpoint, where that is something.
    pub plain: Option<String>,
    /// The conversation with this turn in it.
    pub transcript: Value,
    /// Model and tool calls.
    pub steps: u64,
    /// Tokens both ways.
    pub tokens: u64,
    /// Tool calls.
    pub tool_calls: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_show() {
        let material = IdentityMaterial {
            trust_domain: "td".into(),
            bundle: None,
            certificates: None,
            key: Some(SecretPem::new("KEYBODY".into())),
        };
        let frame = ToWorker::Identity(material);
        assert!(!format!("{frame:?}").contains("KEYBODY"));
    }
}
