//! `agentd mcp`: one server, asked as the agent would ask it. What was asked for goes to stdout, as text for people or
//! as JSON for programs; why there is nothing goes to stderr.

mod show;
mod target;
mod terminal;
mod watch;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use agentd_base::class::{Class, Classified, exit};
use agentd_base::{id, text};
use agentd_config::ConfigErrors;
use agentd_config::document::LogLevel;
use agentd_mcp::{CallError, CallMeta, ConnectError, Connection, Hooks, Kind, ReadError};
use serde_json::{Map, Value};

use self::show::Shown;
use self::target::Target;
use super::invalid;
use crate::cli::{Mcp, Verb};
use crate::logging;

/// The title of our connections, where an agent has its instance's name.
const INSTANCE: &str = "agentd mcp";
/// An argument that is no JSON is repeated so far.
const SHOWN: usize = 64;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum McpError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    Away(String),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl McpError {
    /// contract/runtime.md section 3.
    fn code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Usage(_) => exit::CONFIG,
            Self::Connect(_) | Self::Away(_) => exit::DEPENDENCY,
            Self::Call(error) | Self::Read(ReadError::Call(error)) => match error.class() {
                Class::Unavailable | Class::Denied => exit::DEPENDENCY,
                Class::Invalid | Class::Conflict | Class::Internal => exit::FAILURE,
            },
            Self::Read(ReadError::NotFound { .. }) | Self::System(_) => exit::FAILURE,
        }
    }
}

/// Runs the command; the exit code.
pub async fn run(arguments: Mcp, environment: impl IntoIterator<Item = (String, String)>) -> u8 {
    logging::install("cli", LogLevel::Warn);
    match carry_out(arguments, environment).await {
        Ok(code) => code,
        Err(McpError::Config(errors)) => invalid(&errors),
        Err(error) => {
            let code = error.code();
            tracing::error!(event = "mcp.fail", exit = code, err = %error);
            code
        }
    }
}

async fn carry_out(
    arguments: Mcp,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<u8, McpError> {
    // Before anything is dialled.
    let given = match &arguments.verb {
        Verb::Call { arguments, .. } => call_arguments(arguments)?,
        _ => Map::new(),
    };
    let target = Target::of(&arguments, environment).await?;
    let json = arguments.json;
    let name = &target.server().name;
    match &arguments.verb {
        Verb::Watch { uri, count } => watch::watch(&target, uri, *count, json).await,
        Verb::Tools => {
            let connection = open(&target, Hooks::default()).await?;
            let tools = connection.tools().await;
            connection.close().await;
            done(&show::tools(connection.info(), &tools?), json)
        }
        Verb::Resources => {
            let connection = open(&target, Hooks::default()).await?;
            let lists = async {
                Ok((
                    connection.resources().await?,
                    connection.resource_templates().await?,
                ))
            };
            let lists: Result<_, McpError> = lists.await;
            connection.close().await;
            let (resources, templates) = lists?;
            done(&show::resources(connection.info(), &resources, &templates), json)
        }
        Verb::Read { uri } => {
            let connection = open(&target, Hooks::default()).await?;
            let contents = connection.read(uri, &meta(name)).await;
            connection.close().await;
            done(&show::contents(name, uri, &contents?), json)
        }
        Verb::Ping => {
            let connection = open(&target, Hooks::default()).await?;
            let began = Instant::now();
            let answered = connection.ping().await;
            let took = began.elapsed();
            connection.close().await;
            answered?;
            done(&show::ping(connection.info(), took), json)
        }
        Verb::Call { tool, .. } => {
            let hooks = Hooks {
                elicitor: Some(Arc::new(terminal::Terminal)),
            };
            let connection = open(&target, hooks).await?;
            let outcome = connection.call(tool, given, &meta(name)).await;
            connection.close().await;
            let outcome = outcome?;
            let printed = done(&show::outcome(&outcome), json)?;
            Ok(if outcome.is_error { exit::FAILURE } else { printed })
        }
    }
}

async fn open(target: &Target, hooks: Hooks) -> Result<Connection, ConnectError> {
    // Only who can answer a question says so.
    let kind = if hooks.elicitor.is_some() {
        Kind::Worker { era: None }
    } else {
        Kind::Boot {
            instance: INSTANCE.into(),
        }
    };
    Connection::open(
        target.server(),
        target.default_timeout(),
        kind,
        target.outbound(),
        hooks,
    )
    .await
}

fn meta(server: &str) -> CallMeta {
    let ids = id::uuids();
    CallMeta {
        run_id: ids.next().to_string(),
        instance: INSTANCE.into(),
        traceparent: None,
        idempotency_key: format!("{server}/{}", ids.next()),
        ordinal: 0,
    }
}

fn call_arguments(json: &str) -> Result<Map<String, Value>, McpError> {
    match serde_json::from_str(json) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        _ => Err(McpError::Usage(format!(
            "the arguments must be a JSON object, such as '{{\"a\":1}}', not `{}`",
            text::clip(json, SHOWN)
        ))),
    }
}

/// The exit code, when it could be written.
fn done(shown: &Shown, json: bool) -> Result<u8, McpError> {
    print(shown, json).map(|_| exit::DONE)
}

/// Whether somebody may want more: whoever closed our output has seen enough.
fn print(shown: &Shown, json: bool) -> Result<bool, McpError> {
    match writeln!(std::io::stdout(), "{}", shown.text(json)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}
