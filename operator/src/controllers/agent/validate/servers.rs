//! The MCP servers of an Agent: inline, or by reference to an McpServer that may be missing, closed or not accepted.
//! Pure. A reference that leads nowhere leaves its server out; an McpServer that is not acted on stays as it was applied
//! last; the rest is applied.

use std::collections::BTreeSet;

use agentd_config::document::{Document, Mcp, McpServer};
use agentd_config::secret;
use agentd_crds::agent::McpServerUse;
use kube::ResourceExt as _;

use super::Work;
use crate::controllers::agent::inputs::Inputs;
use crate::controllers::callers;
use crate::controllers::destination::{self, Parts};
use crate::controllers::mcp_server::validate::{self as mcp_server, Rejected, Target};
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
    /// What its entry in the document was made of; absent for an inline server and for one that is left out.
    pub made_of: Option<MadeOf>,
    /// Why it is not in the document, for people; absent when it is.
    pub left_out: Option<String>,
}

/// The McpServer that an entry of the document was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeOf {
    /// Its UID.
    pub uid: String,
    /// Its generation, when that is the current one.
    pub generation: Option<i64>,
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
            None => Ok((inline(used, work), None)),
            Some(reference) => {
                let found = referenced(inputs, used, &reference.name, install, work);
                found.map(|(entry, made_of)| {
                    if is_operator_run(&entry) {
                        servers.operator_run.insert(reference.name.clone());
                    }
                    (filtered(used, entry), Some(made_of))
                })
            }
        };
        let (entry, made_of, left_out) = match entry {
            Ok((entry, made_of)) => (Some(entry), made_of, None),
            Err(LeftOut { why, problem }) => {
                // Another namespace is refused by name elsewhere.
                let here = used
                    .reference
                    .as_ref()
                    .and_then(|reference| reference.namespace.as_ref());
                if here.is_none_or(|namespace| *namespace == subject.namespace) {
                    work.unresolved
                        .extend(problem.map(|reason| Problem::new(reason, why.clone())));
                }
                (None, None, Some(why))
            }
        };
        servers.declared.push(DeclaredServer {
            name: used.name.clone(),
            required: used.required != Some(false),
            mcp_server: used.reference.as_ref().map(|reference| reference.name.clone()),
            made_of,
            left_out,
        });
        servers.entries.extend(entry);
    }
    servers
}

/// Why a server is not in the document.
struct LeftOut {
    why: String,
    /// The reference leads nowhere.
    problem: Option<Reason>,
}

/// What the document says of an McpServer, and of what that was made. One that is not acted on stays as it was.
fn referenced(
    inputs: &Inputs,
    used: &McpServerUse,
    name: &str,
    install: &Install,
    work: &mut Work,
) -> Result<(McpServer, MadeOf), LeftOut> {
    let place = format!("spec.mcpServers[{}]", used.name);
    let nowhere = |reason, why| LeftOut {
        why,
        problem: Some(reason),
    };
    let (uid, why) = match inputs.mcp_servers.get(name).and_then(Option::as_ref) {
        None => match inputs.unreadable.get(name) {
            Some(uid) => (
                uid.clone(),
                format!("McpServer {name} cannot be read by this version ({place})"),
            ),
            None => {
                let why = format!("McpServer {name} does not exist ({place}); create it or remove the entry");
                return Err(nowhere(Reason::RefNotFound, why));
            }
        },
        Some(server) if !callers::admits(server, &inputs.agent) => {
            let why =
                format!("McpServer {name} does not allow this Agent ({place}); add it to its allowedAgents");
            return Err(nowhere(Reason::RefNotPermitted, why));
        }
        Some(server) => {
            let uid = server.uid().unwrap_or_default();
            let current = |target: Target, work: &mut Work| {
                work.findings.mounts.add(target.mounts);
                let generation = server.metadata.generation;
                (
                    *target.entry,
                    MadeOf {
                        uid: uid.clone(),
                        generation,
                    },
                )
            };
            let Rejected {
                problems, unresolved, ..
            } = match mcp_server::acted_on(server, &inputs.config_maps, install) {
                Ok(target) => return Ok(current(target, work)),
                Err(rejected) => rejected,
            };
            // A ConfigMap that is missing may come: without a server that runs there is nothing to keep.
            if problems.is_empty()
                && stands(inputs, used, &uid).is_none()
                && let Ok(target) = mcp_server::target(server, install)
            {
                return Ok(current(target, work));
            }
            let all = joined(&[problems, unresolved].concat());
            (uid, format!("McpServer {name} is not accepted ({place}): {all}"))
        }
    };
    let Some(entry) = stands(inputs, used, &uid) else {
        work.notes
            .push(Problem::new(Reason::ServerNotAccepted, why.clone()));
        return Err(LeftOut { why, problem: None });
    };
    let document = Document {
        mcp: Mcp {
            servers: vec![entry.clone()],
            ..Mcp::default()
        },
        ..Document::default()
    };
    for file in secret::secret_files(&document) {
        work.findings.mounts.file(&file);
    }
    let note = format!("the server `{}` is used as it was before: {why}", used.name);
    work.notes.push(Problem::new(Reason::ServerNotAccepted, note));
    Ok((
        entry,
        MadeOf {
            uid,
            generation: None,
        },
    ))
}

/// What the document that was applied last says of this server, if it was made of the same McpServer.
fn stands(inputs: &Inputs, used: &McpServerUse, uid: &str) -> Option<McpServer> {
    let standing = inputs.standing.get(&used.name)?;
    (standing.mcp_server == uid).then(|| standing.entry.clone())
}

/// A bridge of ours is met by its ID, every other server by its name.
pub(super) fn is_operator_run(entry: &McpServer) -> bool {
    entry
        .connection
        .tls
        .as_ref()
        .is_some_and(|tls| tls.spiffe_id.is_some())
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
            tags: destination::tags(&used.tags, &used.tool_tags),
            call_timeout,
            connection,
            ..McpServer::default()
        },
    )
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
