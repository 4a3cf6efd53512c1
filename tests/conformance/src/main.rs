//! The client that the official MCP conformance suite judges: agentd's own MCP layer, driven as a worker drives it, with
//! nobody at a browser. The suite appends the server's URL to the command line, names the scenario in
//! `MCP_CONFORMANCE_SCENARIO` and hands over what a scenario needs in `MCP_CONFORMANCE_CONTEXT`. A failed exchange is
//! exit 1 with one line; what was right and wrong on the wire is for the suite to say.

mod answers;
mod browser;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agentd_config::document::{Auth, Connection as DocumentConnection, McpServer, OAuth2Auth};
use agentd_mcp::{CallMeta, Connection, Hooks, Kind, Login, Outbound, Registered, Tool};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::answers::{Defaults, arguments};
use crate::browser::Browser;

/// The suite kills a client after 30 s; one that ends by itself says what it was doing.
const CLOCK: Duration = Duration::from_secs(25);

/// `MCP_CONFORMANCE_CONTEXT`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    client_id: Option<String>,
    client_secret: Option<String>,
    private_key_pem: Option<String>,
    #[serde(alias = "toolCalls")]
    tool_calls: Vec<ToolCall>,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

fn main() -> ExitCode {
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".into());
    let Some(url) = std::env::args()
        .next_back()
        .filter(|last| last.starts_with("http"))
    else {
        return failed("the last argument is the server's URL");
    };
    let context: Context = match serde_json::from_str(&context) {
        Ok(context) => context,
        Err(error) => return failed(&format!("MCP_CONFORMANCE_CONTEXT: {error}")),
    };
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    let outcome = runtime.block_on(async {
        tokio::time::timeout(CLOCK, run(&scenario, &url, &context))
            .await
            .unwrap_or_else(|_| Err(format!("not done within {CLOCK:?}")))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("conformance-client: {why}");
    ExitCode::FAILURE
}

/// Connects, lists the tools, calls them, and closes.
async fn run(scenario: &str, url: &str, context: &Context) -> Result<(), String> {
    let secret = secret_file(context).map_err(|error| error.to_string())?;
    let server = server(scenario, url, context, secret.path());
    let hooks = Hooks {
        elicitor: Some(Arc::new(Defaults)),
    };
    let kind = Kind::Worker { era: None };
    let connection = Connection::open(&server, None, kind, &outbound(url, context), hooks)
        .await
        .map_err(|error| error.to_string())?;
    let outcome = exercise(scenario, &connection, context).await;
    connection.close().await;
    outcome
}

async fn exercise(scenario: &str, connection: &Connection, context: &Context) -> Result<(), String> {
    for _ in 0..rounds(scenario) {
        let tools = connection.tools().await.map_err(|error| error.to_string())?;
        for (name, arguments) in calls(&tools, context) {
            // The scenarios in which a call has to fail are as many as those in which it must not.
            if let Err(error) = connection.call(&name, arguments, &meta(&name)).await {
                eprintln!("{name}: {error}");
            }
        }
    }
    Ok(())
}

/// Most scenarios show all they have at first sight.
fn rounds(scenario: &str) -> u32 {
    match scenario {
        // The rights of the second token are used further, and no third one is asked for.
        "auth/scope-step-up" => 4,
        // The server names another authorization server after it has seen a token.
        "auth/authorization-server-migration" => 3,
        _ => 1,
    }
}

fn calls(tools: &[Tool], context: &Context) -> Vec<(String, Map<String, Value>)> {
    if context.tool_calls.is_empty() {
        let all = tools
            .iter()
            .map(|tool| (tool.name.clone(), arguments(&tool.input_schema, tools)));
        return all.collect();
    }
    let given = context.tool_calls.iter();
    given
        .map(|call| (call.name.clone(), call.arguments.clone()))
        .collect()
}

fn meta(tool: &str) -> CallMeta {
    CallMeta {
        run_id: "conformance".into(),
        instance: "conformance".into(),
        traceparent: None,
        idempotency_key: tool.to_owned(),
        ordinal: 1,
    }
}

/// The client's secret or key where a document would have it.
fn secret_file(context: &Context) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    let given = context
        .client_secret
        .as_deref()
        .or(context.private_key_pem.as_deref());
    file.write_all(given.unwrap_or_default().as_bytes())?;
    Ok(file)
}

fn server(scenario: &str, url: &str, context: &Context, secret: &Path) -> McpServer {
    let reference = Some(format!("{{{{secret-file:{}}}}}", secret.display()));
    let (client_secret, client_key) = match context.private_key_pem {
        Some(_) => (None, reference),
        None => (reference, None),
    };
    let auth = scenario.starts_with("auth/client-credentials-").then(|| {
        Auth::OAuth2(OAuth2Auth {
            client_id: context.client_id.clone().unwrap_or_default(),
            client_secret,
            client_key,
            ..OAuth2Auth::default()
        })
    });
    McpServer {
        name: "conformance".into(),
        endpoint: url.into(),
        connection: DocumentConnection {
            auth,
            ..DocumentConnection::default()
        },
        ..McpServer::default()
    }
}

/// Somebody who logs in wherever the server asks for it.
fn outbound(url: &str, context: &Context) -> Outbound {
    let client = context.client_id.clone().map(|id| Registered {
        id,
        secret: context.client_secret.clone().map(Into::into),
    });
    Outbound {
        login: Some(Login {
            redirect: "http://localhost:3000/callback".into(),
            client_name: "agentd".into(),
            client_metadata: Some("https://conformance-test.local/client-metadata.json".into()),
            client,
            opener: Arc::new(Browser::new(url)),
        }),
        ..Outbound::default()
    }
}
