//! What an McpServer asks for, decided. Pure: inputs in, a validated McpServer or every reason why not out. Past this
//! step nobody reads the spec.
//!
//! Guarantees: documents are checked by the very code that the pods run, and its texts are shown as they are; a field
//! that is not built is refused by name; the list of callers is made even when the rest is refused, so that an ID that
//! left it leaves what runs.

mod deployment;

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_config::document::{ClientTls, Connection, Document, Identity, Mcp};
use agentd_config::endpoint::Place;
use agentd_crds::mcp_server::DEFAULT_PATH;
use agentd_crds::{McpServer, McpServerSpec};
use agentd_identity::SpiffeId;
use kube::ResourceExt as _;

pub use deployment::RunPlan;

use super::inputs::Inputs;
use crate::controllers::agent::inputs::FILE;
use crate::controllers::destination::{self, Findings, Parts};
use crate::controllers::mounts::Mounts;
use crate::controllers::subject::Subject;
use crate::controllers::workload::SERVE_PORT;
use crate::controllers::{callers, pair, platform, unsupported};
use crate::install::Install;
use crate::names::{self, service_host};
use crate::problem::{Problem, Reason};

/// An McpServer that is acted on.
#[derive(Debug, Clone)]
pub struct Validated {
    /// Whose objects.
    pub subject: Subject,
    /// Where agents reach it.
    pub url: String,
    /// The pods to run; absent for a server that runs elsewhere.
    pub run: Option<RunPlan>,
    /// References that lead nowhere.
    pub unresolved: Vec<Problem>,
    /// What a person should know, though nothing is refused.
    pub notes: Vec<Problem>,
}

/// An McpServer that is not acted on.
#[derive(Debug, Clone, Default)]
pub struct Rejected {
    /// What is wrong with the spec; empty where only a reference is missing.
    pub problems: Vec<Problem>,
    /// References that lead nowhere.
    pub unresolved: Vec<Problem>,
    /// Who may call the bridge: what runs must not let in anybody else.
    pub allowed: Vec<String>,
}

/// How an agent of the namespace reaches a server.
#[derive(Debug, Clone)]
pub struct Target {
    /// The entry of the agent's document, without name and choice of tools.
    pub entry: Box<agentd_config::document::McpServer>,
    /// Files that it refers to.
    pub mounts: Mounts,
    /// Whether the operator runs it.
    pub operator_run: bool,
}

/// Decides.
///
/// # Errors
/// [`Rejected`] when nothing new may be applied.
pub fn validate(inputs: &Inputs, install: &Install) -> Result<Validated, Rejected> {
    let allowed = allowed(inputs, install);
    let (target, run, problems) = decide(inputs, &allowed, install);
    let unresolved = missing_config_maps(&inputs.server.spec, &inputs.config_maps);
    match target {
        Some(target) if problems.is_empty() && unresolved.is_empty() => Ok(Validated {
            subject: Subject::mcp_server(&inputs.server),
            url: target.entry.endpoint,
            run,
            unresolved,
            notes: Vec::new(),
        }),
        _ => Err(Rejected {
            problems,
            unresolved,
            allowed,
        }),
    }
}

/// How an agent of the namespace reaches `server`, when its whole spec is acted on.
///
/// # Errors
/// [`Rejected`] when nothing new of it is applied; who may call is not said here.
pub fn acted_on(
    server: &Arc<McpServer>,
    config_maps: &BTreeMap<String, Option<BTreeMap<String, String>>>,
    install: &Install,
) -> Result<Target, Rejected> {
    let inputs = Inputs {
        server: Arc::clone(server),
        config_maps: BTreeMap::new(),
        agents: Vec::new(),
        bundle_pem: String::new(),
        rolled_digest: None,
    };
    let (target, _, problems) = decide(&inputs, &[], install);
    let unresolved = missing_config_maps(&server.spec, config_maps);
    match target {
        Some(target) if problems.is_empty() && unresolved.is_empty() => Ok(target),
        _ => Err(Rejected {
            problems,
            unresolved,
            allowed: Vec::new(),
        }),
    }
}

fn decide(
    inputs: &Inputs,
    allowed: &[String],
    install: &Install,
) -> (Option<Target>, Option<RunPlan>, Vec<Problem>) {
    let server = &inputs.server;
    let subject = Subject::mcp_server(server);
    let mut problems = Vec::new();
    let target = target(server, install)
        .map_err(|found| problems.extend(found))
        .ok();
    let run = server.spec.deployment.as_ref().and_then(|deployment| {
        deployment::plan(deployment, inputs, &subject, install, allowed, &mut problems)
    });
    (target, run, problems)
}

/// How an agent of the namespace reaches `server`, from its spec alone.
///
/// # Errors
/// What is wrong with the spec.
pub fn target(server: &McpServer, install: &Install) -> Result<Target, Vec<Problem>> {
    let spec = &server.spec;
    let mut findings = Findings::default();
    let fields = serde_json::to_value(spec).unwrap_or_default();
    findings
        .problems
        .extend(unsupported::find(&fields, unsupported::MCP_SERVER));
    check_allowed(server, &mut findings.problems);
    let parts = Parts {
        headers: &spec.headers,
        auth: spec.auth.as_ref(),
        tls: spec.tls.as_ref(),
        timeout: Some(&spec.timeout),
        connect_timeout: Some(&spec.connect_timeout),
    };
    let mut connection = findings.connection("", parts);
    let id = bridge_id(server, install, &mut findings);
    let endpoint = match &spec.deployment {
        None => spec.endpoint.clone().unwrap_or_default(),
        Some(deployment) => {
            let spiffe_id = id.map(|id| id.to_string());
            connection = Connection {
                tls: Some(ClientTls {
                    spiffe_id,
                    ..ClientTls::default()
                }),
                ..connection
            };
            let host = service_host(
                &names::mcp(&server.name_any()),
                &server.namespace().unwrap_or_default(),
            );
            format!(
                "https://{host}:{SERVE_PORT}{}",
                deployment.path.as_deref().unwrap_or(DEFAULT_PATH)
            )
        }
    };
    let entry = agentd_config::document::McpServer {
        name: server.name_any(),
        endpoint,
        ns: spec.namespace_prefix.clone(),
        tags: destination::tags(&spec.tags, &spec.tool_tags),
        call_timeout: findings.duration("callTimeout", Some(&spec.call_timeout)),
        connection,
        ..agentd_config::document::McpServer::default()
    };
    check_entry(&entry, server, install, &mut findings);
    let Findings { mounts, problems } = findings;
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Target {
        entry: Box::new(entry),
        mounts,
        operator_run: spec.deployment.is_some(),
    })
}

/// The runtime's own checks of the entry, in a document that holds nothing else of interest.
fn check_entry(
    entry: &agentd_config::document::McpServer,
    server: &McpServer,
    install: &Install,
    findings: &mut Findings,
) {
    let document = Document {
        mcp: Mcp {
            servers: vec![entry.clone()],
            ..Mcp::default()
        },
        identity: identity(server, install, findings),
        ..Document::default()
    };
    let faults = agentd_config::validate::validate(&document, Place::Pod);
    let own = faults.into_iter().filter(|fault| fault.key.starts_with("mcp."));
    findings
        .problems
        .extend(own.map(|fault| Problem::invalid(fault.to_string())));
    findings.take(pair::halves(FILE, &document, ""));
}

fn identity(server: &McpServer, install: &Install, findings: &mut Findings) -> Option<Identity> {
    let id = bridge_id(server, install, findings)?;
    let identity = platform::identity(install, &id).map_err(|error| Problem::invalid(error.to_string()));
    findings.take(identity)
}

fn bridge_id(server: &McpServer, install: &Install, findings: &mut Findings) -> Option<SpiffeId> {
    let id = install.id_of_mcp_server(&server.namespace().unwrap_or_default(), &server.name_any());
    findings.take(id.map_err(|error| Problem::invalid(error.to_string())))
}

/// `allowedAgents` and what else makes sense only for a server that runs here.
fn check_allowed(server: &McpServer, problems: &mut Vec<Problem>) {
    let spec = &server.spec;
    for agent in spec
        .allowed_agents
        .iter()
        .flat_map(|allowed| allowed.agents.iter().flatten())
    {
        if Some(&agent.namespace) != server.metadata.namespace.as_ref() {
            problems.push(Problem::unsupported(format!(
                "allowedAgents.agents[{}/{}] in another namespace",
                agent.namespace, agent.name
            )));
        }
    }
    if spec.deployment.is_some() {
        return;
    }
    let ids = spec
        .allowed_agents
        .as_ref()
        .and_then(|allowed| allowed.spiffe_ids.as_ref());
    let policy = &spec.network_policy;
    for (given, path) in [
        (ids.is_some_and(|ids| !ids.is_empty()), "allowedAgents.spiffeIDs"),
        (!policy.extra_ingress.is_empty(), "networkPolicy.extraIngress"),
        (!policy.extra_egress.is_empty(), "networkPolicy.extraEgress"),
    ] {
        if given {
            problems.push(Problem::invalid(format!(
                "spec.{path}: has no effect on a server that runs elsewhere; remove it"
            )));
        }
    }
}

/// Who may call the bridge: the Agents that reference it and are let in, and the IDs that the spec adds.
fn allowed(inputs: &Inputs, install: &Install) -> Vec<String> {
    let server = &inputs.server;
    let agents = inputs.agents.iter().map(AsRef::as_ref);
    let agents = agents.filter(|agent| callers::references(agent, server) && callers::admits(server, agent));
    let ids = callers::agents(install, agents).unwrap_or_default();
    let added = server
        .spec
        .allowed_agents
        .iter()
        .flat_map(|allowed| allowed.spiffe_ids.iter().flatten().cloned());
    let mut all: Vec<String> = ids.iter().map(ToString::to_string).chain(added).collect();
    all.sort();
    all.dedup();
    all
}

fn missing_config_maps(
    spec: &McpServerSpec,
    config_maps: &BTreeMap<String, Option<BTreeMap<String, String>>>,
) -> Vec<Problem> {
    let roots = spec
        .tls
        .iter()
        .filter_map(|tls| tls.ca_bundle.as_ref())
        .map(|source| ("tls.caBundle".to_owned(), source));
    let env = spec
        .deployment
        .iter()
        .flat_map(|deployment| &deployment.env)
        .filter_map(|variable| {
            variable
                .value_from
                .as_ref()
                .map(|source| (format!("deployment.env[{}]", variable.name), source))
        });
    let keys = roots
        .chain(env)
        .filter_map(|(path, source)| source.config_map_key_ref.as_ref().map(|key| (path, key)));
    let missing = keys.filter_map(|(path, key)| {
        let data = config_maps.get(&key.name).and_then(Option::as_ref);
        match data.map(|data| data.contains_key(&key.key)) {
            Some(true) => None,
            Some(false) => Some(format!(
                "ConfigMap {} has no key {} (spec.{path}); add it",
                key.name, key.key
            )),
            None => Some(format!(
                "ConfigMap {} does not exist (spec.{path}); create it",
                key.name
            )),
        }
    });
    missing
        .map(|message| Problem::new(Reason::RefNotFound, message))
        .collect()
}
