//! From a change to the objects it concerns. Pure: reads the stores, sends nothing.

use std::sync::Arc;

use agentd_crds::{Agent, McpServer};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, ServiceAccount};
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt as _};

use super::change::Change;
use super::{GuardedAgent, GuardedServer, World, is_run_here};
use crate::authority_store::BUNDLE_CONFIG_MAP;
use crate::controllers::agent::inputs::References;
use crate::controllers::callers;
use crate::controllers::mcp_server::inputs::config_maps;
use crate::labels::{AGENT, CALLER, MCP_SERVER};
use crate::names;
use crate::rollout::controller;

/// What has to be reconciled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// An Agent.
    Agent {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// An McpServer.
    McpServer {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The published bundles.
    Bundles,
}

impl Target {
    fn agent<K: Resource>(agent: &K) -> Self {
        Self::Agent {
            namespace: agent.namespace().unwrap_or_default(),
            name: agent.name_any(),
        }
    }

    fn server<K: Resource>(server: &K) -> Self {
        Self::McpServer {
            namespace: server.namespace().unwrap_or_default(),
            name: server.name_any(),
        }
    }
}

/// What makes an object another one to those who read its spec.
fn spec_state<K: Resource>(object: &K) -> (Option<i64>, Option<String>, bool) {
    (
        object.meta().generation,
        object.uid(),
        object.meta().deletion_timestamp.is_some(),
    )
}

/// Itself when its spec or what its pod reported changed; the servers it uses, which let it in and learn from what it
/// reported; the Agents that it may call, when it came, went, stopped or started; those that list its ServiceAccount as a
/// caller, when it came or went.
pub(super) fn of_agent(world: &World, change: &Change<GuardedAgent>) -> Vec<Target> {
    let mut targets = Vec::new();
    let spec_changed = change.differs(spec_state);
    let facts_changed = change.differs(|guarded| {
        let status = guarded.0.as_ref().ok().and_then(|agent| agent.status.as_ref());
        status.map(|status| (status.reported.as_ref(), status.running_digest.as_ref()))
    });
    if spec_changed || facts_changed {
        targets.extend(change.after.as_deref().map(Target::agent));
    }
    if change.initial {
        return targets;
    }
    let states = [&change.before, &change.after];
    let states: Vec<&Agent> = states
        .into_iter()
        .flatten()
        .filter_map(|guarded| guarded.0.as_ref().ok())
        .collect();
    if spec_changed || facts_changed {
        for agent in &states {
            let namespace = agent.namespace().unwrap_or_default();
            let used = References::of(&agent.spec).mcp_servers;
            targets.extend(used.into_iter().map(|name| Target::McpServer {
                namespace: namespace.clone(),
                name,
            }));
        }
    }
    let listed_changed = change.differs(|guarded| {
        let agent = guarded.0.as_ref().ok();
        agent.map(|agent| {
            (
                agent.spec.suspend,
                agent.metadata.deletion_timestamp.is_some(),
                agent.uid(),
            )
        })
    });
    if listed_changed && let Some(agent) = states.first() {
        let (namespace, name) = (agent.namespace().unwrap_or_default(), agent.name_any());
        targets.extend(agents_that(world, |callee, refs| {
            let own = callee.namespace().unwrap_or_default();
            refs.agents_of.contains(&namespace)
                || refs
                    .agents
                    .iter()
                    .any(|(of, caller)| *caller == name && *of.as_ref().unwrap_or(&own) == namespace)
        }));
    }
    if (change.before.is_some() != change.after.is_some())
        && let Some(agent) = change.latest()
    {
        let account = names::agent(&agent.name_any());
        targets.extend(that_list(world, agent.meta().namespace.as_ref(), &account));
    }
    targets.sort();
    targets.dedup();
    targets
}

/// Itself when its spec or what its bridge reported changed; the Agents that reference it when what they read of it
/// changed; those that list its ServiceAccount as a caller, when it began or ceased to use it.
pub(super) fn of_server(world: &World, change: &Change<GuardedServer>) -> Vec<Target> {
    let mut targets = Vec::new();
    let spec_changed = change.differs(spec_state);
    let facts_changed = change.differs(|guarded| {
        let status = guarded.0.as_ref().ok().and_then(|server| server.status.as_ref());
        status.and_then(|status| status.reported.as_ref())
    });
    if spec_changed || facts_changed {
        targets.extend(change.after.as_deref().map(Target::server));
    }
    let seen_changed = change.differs(|guarded| {
        let status = guarded.0.as_ref().ok().and_then(|server| server.status.as_ref());
        status.map(|status| {
            let conditions: Vec<_> = status
                .conditions
                .iter()
                .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str()))
                .collect();
            (conditions, status.address.as_ref())
        })
    });
    if !change.initial
        && (spec_changed || seen_changed)
        && let Some(server) = change.latest()
    {
        let (namespace, name) = (server.namespace(), server.name_any());
        targets.extend(agents_that(world, |agent, refs| {
            agent.namespace() == namespace && refs.mcp_servers.contains(&name)
        }));
    }
    let runs = |state: &Option<Arc<GuardedServer>>| state.as_deref().is_some_and(is_run_here);
    if !change.initial
        && runs(&change.before) != runs(&change.after)
        && let Some(server) = change.latest()
    {
        let account = names::mcp(&server.name_any());
        targets.extend(that_list(world, server.meta().namespace.as_ref(), &account));
    }
    targets.sort();
    targets.dedup();
    targets
}

/// Whoever the label names. Whether it really is theirs is seen by UID when they look at it.
pub(super) fn of_labelled<K: Resource>(_: &World, change: &Change<K>) -> Vec<Target> {
    if change.initial {
        return Vec::new();
    }
    let Some(object) = change.latest() else {
        return Vec::new();
    };
    let namespace = object.namespace().unwrap_or_default();
    let target = |label: &str| object.labels().get(label).cloned();
    let agent = target(AGENT).map(|name| Target::Agent {
        namespace: namespace.clone(),
        name,
    });
    let server = target(MCP_SERVER).map(|name| Target::McpServer {
        namespace: namespace.clone(),
        name,
    });
    agent.into_iter().chain(server).collect()
}

/// The owner, or whoever would have made an object of this name.
pub(super) fn of_named<K: Resource>(world: &World, change: &Change<K>) -> Vec<Target> {
    let mut targets = Vec::new();
    if change.initial {
        return targets;
    }
    let Some(object) = change.latest() else {
        return targets;
    };
    let (namespace, object_name) = (object.namespace().unwrap_or_default(), object.name_any());
    if let Some(owner) = controller(object.meta())
        && owner.api_version.starts_with("agentd.io/")
    {
        let (namespace, name) = (namespace.clone(), owner.name.clone());
        match owner.kind.as_str() {
            "Agent" => targets.push(Target::Agent { namespace, name }),
            "McpServer" => targets.push(Target::McpServer { namespace, name }),
            _ => {}
        }
        return targets;
    }
    let own = |taken: String| object_name == taken || object_name.starts_with(&format!("{taken}-"));
    let agents = world.agents.state_filter(|agent| {
        agent.meta().namespace.as_deref() == Some(&namespace) && own(names::agent(&agent.name_any()))
    });
    let servers = world.servers.state_filter(|server| {
        server.meta().namespace.as_deref() == Some(&namespace) && own(names::mcp(&server.name_any()))
    });
    targets.extend(agents.iter().map(|agent| Target::agent(agent.as_ref())));
    targets.extend(servers.iter().map(|server| Target::server(server.as_ref())));
    targets
}

/// As a named object, and whoever references it: Agents and McpServers, and Agents by way of an McpServer.
pub(super) fn of_config_map(world: &World, change: &Change<PartialObjectMeta<ConfigMap>>) -> Vec<Target> {
    let mut targets = of_named(world, change);
    let Some(map) = change.latest().filter(|_| !change.initial) else {
        return targets;
    };
    let (namespace, name) = (map.namespace(), map.name_any());
    if name == BUNDLE_CONFIG_MAP {
        targets.push(Target::Bundles);
    }
    let servers = world.servers.state();
    let servers = servers.iter().filter_map(|guarded| guarded.0.as_ref().ok());
    let servers: Vec<&McpServer> = servers
        .filter(|server| server.namespace() == namespace && config_maps(&server.spec).contains(&name))
        .collect();
    targets.extend(servers.iter().copied().map(Target::server));
    targets.extend(agents_that(world, |agent, refs| {
        agent.namespace() == namespace
            && (refs.config_maps.contains(&name)
                || servers.iter().any(|server| callers::references(agent, server)))
    }));
    targets.sort();
    targets.dedup();
    targets
}

/// As a named object, and, when it became or ceased to be a caller, whoever lists it; the bundles, which follow the
/// callers.
pub(super) fn of_account(world: &World, change: &Change<PartialObjectMeta<ServiceAccount>>) -> Vec<Target> {
    let mut targets = of_named(world, change);
    let Some(account) = change.latest().filter(|_| !change.initial) else {
        return targets;
    };
    let is_caller = |account: &PartialObjectMeta<ServiceAccount>| {
        account.metadata.deletion_timestamp.is_none()
            && account.labels().get(CALLER).is_some_and(|value| value == "true")
    };
    if !change.differs(is_caller) {
        return targets;
    }
    targets.push(Target::Bundles);
    let namespace = account.metadata.namespace.as_ref();
    targets.extend(that_list(world, namespace, &account.name_any()));
    targets
}

/// As a named object, and whoever names the claim.
pub(super) fn of_claim(
    world: &World,
    change: &Change<PartialObjectMeta<PersistentVolumeClaim>>,
) -> Vec<Target> {
    let mut targets = of_named(world, change);
    let Some(claim) = change.latest().filter(|_| !change.initial) else {
        return targets;
    };
    let (namespace, name) = (claim.namespace(), claim.name_any());
    targets.extend(agents_that(world, |agent, refs| {
        agent.namespace() == namespace && refs.claim.as_ref() == Some(&name)
    }));
    targets
}

/// As a named object; the issuer's concerns everybody.
pub(super) fn of_deployment(world: &World, change: &Change<PartialObjectMeta<Deployment>>) -> Vec<Target> {
    let targets = of_named(world, change);
    let Some(deployment) = change.latest().filter(|_| !change.initial) else {
        return targets;
    };
    let (namespace, name) = &world.issuer;
    if deployment.metadata.namespace.as_ref() != Some(namespace)
        || deployment.metadata.name.as_ref() != Some(name)
    {
        return targets;
    }
    let agents = world.agents.state();
    let servers = world.servers.state();
    let agents = agents.iter().map(|agent| Target::agent(agent.as_ref()));
    agents
        .chain(servers.iter().map(|server| Target::server(server.as_ref())))
        .collect()
}

/// The Agents with a principal that stands for this ServiceAccount while it is a caller.
fn that_list(world: &World, namespace: Option<&String>, account: &str) -> Vec<Target> {
    agents_that(world, |agent, refs| {
        namespace.is_some_and(|namespace| refs.callers_of.contains(namespace))
            || (agent.metadata.namespace.as_ref() == namespace && refs.service_accounts.contains(account))
    })
}

fn agents_that(world: &World, concerned: impl Fn(&Agent, &References) -> bool) -> Vec<Target> {
    let agents = world.agents.state();
    agents
        .iter()
        .filter_map(|guarded| guarded.0.as_ref().ok())
        .filter(|agent| concerned(agent, &References::of(&agent.spec)))
        .map(Target::agent)
        .collect()
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
