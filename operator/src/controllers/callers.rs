//! Whose ID may stand in a list of callers. Pure.
//!
//! Guarantee: an Agent that is suspended or being deleted is in no list.

use agentd_crds::{Agent, McpServer};
use agentd_identity::SpiffeId;
use agentd_identity::id::IdError;
use kube::ResourceExt as _;

use crate::install::Install;
use crate::names;

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

/// The ServiceAccount that an Agent's pods run under: the one made for it. The issuer goes by the same rule: a name in
/// the spec is not honoured yet, and an Agent that is refused for it must take no caller's identity away.
pub fn account_of_agent(agent: &Agent) -> String {
    names::agent(&agent.name_any())
}

/// The ServiceAccount that an McpServer's pods run under; one that runs elsewhere has none.
pub fn account_of_server(server: &McpServer) -> Option<String> {
    let run = server.spec.deployment.as_ref();
    run.map(|_| names::mcp(&server.name_any()))
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

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::issuer::facts::{Kind, account_of};

    /// Who is listed as a caller must be able to get an SVID, and the other way round.
    #[test]
    fn the_controllers_and_the_issuer_agree_on_who_uses_an_account() {
        let object = |kind: &str, spec: Value| json!({"apiVersion": "agentd.io/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let intelligence = json!({"endpoints": [], "model": "m"});
        for account in [
            json!(null),
            json!({"name": "own"}),
            json!({"annotations": {"a": "b"}}),
        ] {
            let object = object(
                "Agent",
                json!({"intelligence": intelligence, "serviceAccount": account}),
            );
            let untyped: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            let agent: Agent = serde_json::from_value(object).unwrap();
            assert_eq!(Some(account_of_agent(&agent)), account_of(Kind::Agent, &untyped));
        }
        for spec in [
            json!({"endpoint": "https://x"}),
            json!({"deployment": {"image": "i"}}),
        ] {
            let object = object("McpServer", spec);
            let untyped: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            let server: McpServer = serde_json::from_value(object).unwrap();
            assert_eq!(account_of_server(&server), account_of(Kind::McpServer, &untyped));
        }
    }
}
