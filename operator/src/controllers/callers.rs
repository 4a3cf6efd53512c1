//! Whose ID may stand in a list of callers. Pure.
//!
//! Guarantee: an Agent that is suspended or being deleted is in no list.

use agentd_crds::{Agent, McpServer};
use agentd_identity::SpiffeId;
use agentd_identity::id::IdError;
use kube::ResourceExt as _;

use crate::install::Install;

/// The ID of an Agent, unless it is suspended or being deleted.
///
/// # Errors
/// As [`Install::id_of_account`].
pub fn agent(install: &Install, agent: &Agent) -> Result<Option<SpiffeId>, IdError> {
    if agent.spec.suspend || agent.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    install
        .id_of_agent(&agent.namespace().unwrap_or_default(), &agent.name_any())
        .map(Some)
}

/// The IDs of those Agents that may be in a list, sorted, each once.
///
/// # Errors
/// As [`Install::id_of_account`].
pub fn agents<'a>(
    install: &Install,
    agents: impl IntoIterator<Item = &'a Agent>,
) -> Result<Vec<SpiffeId>, IdError> {
    let mut ids = Vec::new();
    for one in agents {
        ids.extend(agent(install, one)?);
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// Whether the server lets this Agent in: both are in one namespace, and `allowedAgents` names it or names none.
pub fn admits(server: &McpServer, agent: &Agent) -> bool {
    if server.namespace() != agent.namespace() {
        return false;
    }
    let listed = server
        .spec
        .allowed_agents
        .as_ref()
        .and_then(|allowed| allowed.agents.as_ref());
    listed.is_none_or(|listed| {
        listed.iter().any(|one| {
            Some(&one.namespace) == agent.metadata.namespace.as_ref() && one.name == agent.name_any()
        })
    })
}

/// Whether the Agent references this server.
pub fn references(agent: &Agent, server: &McpServer) -> bool {
    agent.namespace() == server.namespace()
        && agent
            .spec
            .mcp_servers
            .iter()
            .filter_map(|used| used.reference.as_ref())
            .any(|reference| {
                reference.name == server.name_any()
                    && reference
                        .namespace
                        .as_ref()
                        .is_none_or(|namespace| Some(namespace) == server.metadata.namespace.as_ref())
            })
}
