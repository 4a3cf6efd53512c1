//! `agentd a2a send`: one message to an agent, its answer on stdout.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_a2a::client::{Client, ClientError, Outgoing};
use agentd_a2a::wire::{Part, PartContent, SendMessageResponse, Task, TaskState};
use agentd_base::class::{Class, Classified, exit};
use agentd_base::{clock, id};
use agentd_config::document::LogLevel;
use agentd_identity::{Bundle, IdentitySource, SpiffeId, Svid};
use agentd_net::{Declared, Destination, DestinationError, Options, Timeouts, TlsMode};

use super::code_of;
use super::identity_fetch::{BUNDLE, KEY, SVID};
use super::kubectl::{self, KubectlError};
use crate::cli::A2aSend;
use crate::logging;

/// A turn's default time limit, and a little.
const WAIT: Duration = Duration::from_secs(3700);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("{0}")]
    Argument(String),
    #[error("{}: {problem}", path.display())]
    Identity { path: PathBuf, problem: String },
    #[error(transparent)]
    Destination(#[from] DestinationError),
    #[error(transparent)]
    Kubectl(#[from] KubectlError),
    #[error(transparent)]
    Call(#[from] ClientError),
    #[error("the answer cannot be shown: {0}")]
    Output(#[from] serde_json::Error),
}

impl Classified for SendError {
    fn class(&self) -> Class {
        match self {
            Self::Argument(_) | Self::Identity { .. } | Self::Destination(_) => Class::Invalid,
            Self::Kubectl(error) => error.class(),
            Self::Call(error) => error.class(),
            Self::Output(_) => Class::Internal,
        }
    }
}

/// Runs the command; the exit code.
pub async fn run(arguments: A2aSend) -> u8 {
    logging::install("cli", LogLevel::Warn);
    match send(&arguments).await {
        Ok((text, code)) => super::answered(&text, code),
        // A refusal of the peer is no fault of the command line.
        Err(SendError::Call(error)) => {
            tracing::error!(event = "a2a.send", error.class = error.class().label(), err = %error);
            exit::FAILURE
        }
        Err(error) => {
            tracing::error!(event = "a2a.send", error.class = error.class().label(), err = %error);
            code_of(error.class())
        }
    }
}

async fn send(arguments: &A2aSend) -> Result<(String, u8), SendError> {
    let tls = match (&arguments.identity, &arguments.server_id) {
        (Some(folder), Some(server)) => {
            let expected: SpiffeId = server
                .parse()
                .map_err(|error| SendError::Argument(format!("--server-id: {error}")))?;
            TlsMode::Spiffe {
                source: identity(folder, &expected)?,
                expected,
            }
        }
        _ => TlsMode::default(),
    };
    let forward = match arguments.port_forward {
        true => Some(kubectl::port_forward(&arguments.url).await?),
        false => None,
    };
    let url = match &forward {
        Some(forward) => near(&arguments.url, &forward.url())?,
        None => arguments.url.clone(),
    };
    // Loopback http is for an agent in development mode.
    let declared = if url.starts_with("http://") {
        Declared::Mcp
    } else {
        Declared::Internal
    };
    let destination = Destination::declared(&url, declared)?;
    let timeouts = Timeouts {
        response: Some(WAIT),
        total: Some(WAIT),
        ..Timeouts::default()
    };
    let options = Options {
        tls,
        timeouts,
        ..Options::default()
    };
    let client = if forward.is_some() {
        Client::forwarded(destination, options, id::uuids())
    } else {
        Client::new(destination, options, id::uuids())
    };
    let outgoing = Outgoing {
        text: arguments.text.clone(),
        context_id: arguments.context.clone(),
        return_immediately: false,
    };
    let answer = client.send(outgoing).await?;
    let code = match &answer {
        SendMessageResponse::Task(task) if task.status.state != TaskState::Completed => exit::FAILURE,
        SendMessageResponse::Task(_) | SendMessageResponse::Message(_) => exit::DONE,
    };
    let text = match (arguments.json, answer) {
        (true, SendMessageResponse::Task(task)) => serde_json::to_string_pretty(&task)?,
        (true, SendMessageResponse::Message(message)) => serde_json::to_string_pretty(&message)?,
        (false, SendMessageResponse::Task(task)) => answer_of(&task),
        (false, SendMessageResponse::Message(message)) => text_of(&message.parts),
    };
    Ok((text, code))
}

/// The agent's URL at this end of the port-forward.
fn near(far: &str, end: &str) -> Result<String, SendError> {
    let parse =
        |url: &str| url::Url::parse(url).map_err(|error| SendError::Argument(format!("{url}: {error}")));
    let (far, mut near) = (parse(far)?, parse(end)?);
    near.set_path(far.path());
    Ok(near.into())
}

/// The folder that `identity fetch` wrote.
fn identity(folder: &Path, server: &SpiffeId) -> Result<IdentitySource, SendError> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| SendError::Identity {
            path,
            problem: error.to_string(),
        })
    };
    let (key, chain, bundle) = (read(KEY)?, read(SVID)?, read(BUNDLE)?);
    let unusable = |problem: String| SendError::Identity {
        path: folder.to_owned(),
        problem,
    };
    let source = IdentitySource::new(server.trust_domain().clone());
    let bundle = Bundle::from_pem(server.trust_domain().clone(), &bundle)
        .map_err(|error| unusable(error.to_string()))?;
    let svid = Svid::from_pem(&chain, &key, &bundle, clock::system().now())
        .map_err(|error| unusable(format!("{error}; agentd identity fetch makes a new one")))?;
    source
        .set_bundle(bundle)
        .map_err(|error| unusable(error.to_string()))?;
    source
        .set_svid(svid)
        .map_err(|error| unusable(error.to_string()))?;
    Ok(source)
}

/// The artifacts' text, or what the status says.
fn answer_of(task: &Task) -> String {
    let artifacts = task
        .artifacts
        .iter()
        .flatten()
        .map(|artifact| text_of(&artifact.parts));
    let text = artifacts.collect::<Vec<_>>().join("\n");
    if !text.is_empty() {
        return text;
    }
    let said = task
        .status
        .message
        .as_ref()
        .map(|message| text_of(&message.parts))
        .unwrap_or_default();
    let state = serde_json::to_value(&task.status.state).unwrap_or_default();
    match (&task.status.state, state.as_str()) {
        (TaskState::Completed, _) | (_, None) => said,
        (_, Some(state)) => format!("{state}: {said}"),
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
