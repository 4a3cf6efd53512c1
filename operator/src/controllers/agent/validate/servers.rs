//! The MCP servers of an Agent: inline, or by reference to an McpServer that may be missing, closed or not accepted.
//! Pure. A reference that does not work leaves its server out; the rest is applied.

use std::collections::BTreeSet;

use agentd_config::document::McpServer;
use agentd_crds::agent::McpServerUse;
use kube::ResourceExt as _;

use super::Work;
use crate::controllers::agent::inputs::Inputs;
use crate::controllers::callers;
use crate::controllers::destination::Parts;
use crate::controllers::mcp_server::validate::{self as mcp_server, Target};
use crate::controllers::subject::Subject;
use crate::install::Install;
use crate::problem::{Problem, Reason, joined};

/// One entry of `spec.mcpServers`, for conditions and for reports about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredServer {
    /// The name in the catalogue and in reports.
    pub name: String,
    /// Whether the first Ready of a generation waits for it.
    pub required: bool,
    /// The McpServer it refers to, if any.
    pub mcp_server: Option<String>,
    /// Why it is not in the document, for people; absent when it is.
    pub left_out: Option<String>,
}

/// The servers of a spec.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// Those that work, for the document.
    pub(super) entries: Vec<McpServer>,
    /// All, for conditions.
    pub(super) declared: Vec<DeclaredServer>,
    /// Names of the McpServers among them that the operator runs.
    pub(super) operator_run: BTreeSet<String>,
}

pub(super) fn resolve(inputs: &Inputs, subject: &Subject, install: &Install, work: &mut Work) -> Servers {
    let mut servers = Servers::default();
    for used in &inputs.agent.spec.mcp_servers {
        let entry = match &used.reference {
            None => Ok(inline(used, work)),
            Some(reference) => match inputs.mcp_servers.get(&reference.name).and_then(Option::as_ref) {
                Some(server) if callers::admits(server, &inputs.agent) => {
                    referenced(used, server, install, work, &mut servers)
                }
                Some(_) => {
                    let message = format!(
                        "McpServer {} does not allow this Agent (spec.mcpServers[{}]); add it to its allowedAgents",
                        reference.name, used.name
                    );
                    work.unresolved
                        .push(Problem::new(Reason::RefNotPermitted, message.clone()));
                    Err(message)
                }
                None => {
                    let message = format!(
                        "McpServer {} does not exist (spec.mcpServers[{}]); create it or remove the entry",
                        reference.name, used.name
                    );
                    // Another namespace is refused by name elsewhere.
                    if reference
                        .namespace
                        .as_ref()
                        .is_none_or(|namespace| *namespace == subject.namespace)
                    {
                        work.unresolved
                            .push(Problem::new(Reason::RefNotFound, message.clone()));
                    }
                    Err(message)
                }
            },
        };
        servers.declared.push(DeclaredServer {
            name: used.name.clone(),
            required: used.required != Some(false),
            mcp_server: used.reference.as_ref().map(|reference| reference.name.clone()),
            left_out: entry.as_ref().err().cloned(),
        });
        servers.entries.extend(entry.ok());
    }
    servers
}

fn inline(used: &McpServerUse, work: &mut Work) -> McpServer {
    let path = format!("mcpServers[{}].", used.name);
    let connection = work.findings.connection(&path, Parts::from(&used.destination));
    let call_timeout = work
        .findings
        .duration(&format!("{path}callTimeout"), used.call_timeout.as_ref());
    filtered(
        used,
        McpServer {
            endpoint: used.url.clone().unwrap_or_default(),
            ns: used.namespace_prefix.clone(),
            call_timeout,
            connection,
            ..McpServer::default()
        },
    )
}

fn referenced(
    used: &McpServerUse,
    server: &agentd_crds::McpServer,
    install: &Install,
    work: &mut Work,
    servers: &mut Servers,
) -> Result<McpServer, String> {
    let name = server.name_any();
    match mcp_server::target(server, install) {
        Ok(Target {
            entry,
            mounts,
            operator_run,
        }) => {
            work.findings.mounts.add(mounts);
            if operator_run {
                servers.operator_run.insert(name);
            }
            Ok(filtered(used, *entry))
        }
        Err(problems) => Err(format!(
            "McpServer {name} is not accepted (spec.mcpServers[{}]): {}",
            used.name,
            joined(&problems)
        )),
    }
}

/// The entry under the Agent's name for it, with the Agent's choice of tools.
fn filtered(used: &McpServerUse, entry: McpServer) -> McpServer {
    let tools = used.tools.clone().unwrap_or_default();
    McpServer {
        name: used.name.clone(),
        allow: tools.allow,
        exclude: tools.deny,
        ..entry
    }
}
