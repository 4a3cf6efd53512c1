//! `agentd a2a`: one agent, called as another would call it. What was asked for goes to stdout, as text for people or as
//! JSON for programs; why there is nothing goes to stderr.

mod reach;
mod show;
mod watch;

use std::io::Write as _;

use agentd_a2a::client::{Client, ClientError, Listing, Outgoing};
use agentd_a2a::wire::{SendMessageResponse, Task, TaskState};
use agentd_base::class::{Class, Classified, exit};
use agentd_config::document::LogLevel;

use self::reach::ReachError;
use self::show::Shown;
use crate::cli::{A2a, A2aVerb};
use crate::logging;

/// Tasks that are asked for at once: what any agent gives.
const PAGE: u16 = 50;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum A2aError {
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error("{error}{}", remedy(.error))]
    Call { error: ClientError },
    #[error("the answer could not be written to standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl From<ClientError> for A2aError {
    fn from(error: ClientError) -> Self {
        Self::Call { error }
    }
}

impl A2aError {
    /// contract/runtime.md section 3. A refusal of the agent is no fault of the command line.
    fn code(&self) -> u8 {
        match self {
            Self::Reach(error) => super::code_of(error.class()),
            Self::Call {
                error: ClientError::Destination(_),
            } => exit::CONFIG,
            Self::Call { error } if error.class() == Class::Unavailable => exit::DEPENDENCY,
            Self::Call { .. } | Self::Output(_) => exit::FAILURE,
        }
    }

    fn class(&self) -> Class {
        match self {
            Self::Reach(error) => error.class(),
            Self::Call { error } => error.class(),
            Self::Output(_) => Class::Internal,
        }
    }
}

/// What the user can do about it, where that is not in the error.
fn remedy(error: &ClientError) -> &'static str {
    match error {
        ClientError::Rpc { code: -32001, .. } => {
            "; `agentd a2a tasks URL` lists the tasks of the identity that you call with"
        }
        ClientError::Rpc { code: -32002, .. } => "; `agentd a2a tasks URL ID` shows how it ended",
        error if error.class() == Class::Denied => {
            "; call with an identity that a principal of the agent names: --identity and --server-id, or another one"
        }
        _ => "",
    }
}

/// Runs the command; the exit code.
pub async fn run(arguments: A2a) -> u8 {
    logging::install("cli", LogLevel::Warn);
    match carry_out(&arguments).await {
        Ok(code) => code,
        Err(error) => {
            let code = error.code();
            tracing::error!(event = "a2a.fail", exit = code, error.class = error.class().label(), err = %error);
            code
        }
    }
}

async fn carry_out(arguments: &A2a) -> Result<u8, A2aError> {
    let reached = reach::reach(arguments).await?;
    let (client, json) = (&reached.client, arguments.json);
    match &arguments.verb {
        A2aVerb::Card => done(&show::card(&*client.card().await?), json, exit::DONE),
        A2aVerb::Send {
            text,
            context,
            task,
            no_wait,
        } => {
            let outgoing = Outgoing {
                text: text.clone(),
                context_id: context.clone(),
                task_id: task.clone(),
                return_immediately: *no_wait,
                ..Outgoing::default()
            };
            match client.send(outgoing).await? {
                SendMessageResponse::Task(task) if *no_wait => {
                    done(&show::task_at_once(&task), json, code_if_taken(&task))
                }
                SendMessageResponse::Task(task) => {
                    done(&show::task(&task), json, code_of(&task.status.state))
                }
                SendMessageResponse::Message(message) => done(&show::message(&message), json, exit::DONE),
            }
        }
        A2aVerb::Tasks { id: Some(id), .. } => {
            let task = client.task(id).await?;
            done(&show::task(&task), json, exit::DONE)
        }
        A2aVerb::Tasks {
            id: None,
            context,
            state,
            limit,
        } => {
            let tasks = listed(client, context.as_deref(), state.as_deref(), *limit).await?;
            done(&show::tasks(&tasks), json, exit::DONE)
        }
        A2aVerb::Watch { id } => watch::watch(client, id, json).await,
        A2aVerb::Cancel { id } => {
            let task = client.cancel(id).await?;
            let code = match task.status.state {
                TaskState::Canceled => exit::DONE,
                // It was asked for, and is not done yet or came too late.
                _ => exit::FAILURE,
            };
            done(&show::task_at_once(&task), json, code)
        }
    }
}

/// So many of the tasks, page by page.
async fn listed(
    client: &Client,
    context: Option<&str>,
    state: Option<&str>,
    limit: u16,
) -> Result<Vec<Task>, A2aError> {
    let mut tasks = Vec::new();
    let mut page_token = None;
    loop {
        let left = usize::from(limit).saturating_sub(tasks.len());
        let listing = Listing {
            context_id: context.map(str::to_owned),
            state: state.and_then(show::state_of),
            page_size: i32::try_from(left.min(usize::from(PAGE))).ok(),
            page_token: page_token.take(),
        };
        let page = client.tasks(listing).await?;
        let is_empty = page.tasks.is_empty();
        tasks.extend(page.tasks.into_iter().take(left));
        if is_empty || page.next_page_token.is_empty() || tasks.len() >= usize::from(limit) {
            return Ok(tasks);
        }
        page_token = Some(page.next_page_token);
    }
}

/// The exit code of an ended or interrupted task.
const fn code_of(state: &TaskState) -> u8 {
    match state {
        TaskState::Completed => exit::DONE,
        TaskState::Rejected => exit::REFUSED,
        TaskState::InputRequired | TaskState::AuthRequired => exit::PARTIAL,
        TaskState::Failed
        | TaskState::Canceled
        | TaskState::Unspecified
        | TaskState::Submitted
        | TaskState::Working => exit::FAILURE,
    }
}

/// That of one whose end nobody waits for.
const fn code_if_taken(task: &Task) -> u8 {
    match &task.status.state {
        TaskState::Submitted | TaskState::Working => exit::DONE,
        state => code_of(state),
    }
}

/// The exit code, when it could be written.
fn done(shown: &Shown, json: bool, code: u8) -> Result<u8, A2aError> {
    print(shown, json).map(|_| code)
}

/// Whether somebody may want more: whoever closed our output has seen enough.
fn print(shown: &Shown, json: bool) -> Result<bool, A2aError> {
    match writeln!(std::io::stdout(), "{}", shown.text(json)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}
