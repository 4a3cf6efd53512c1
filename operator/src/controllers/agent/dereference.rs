//! Fetches what an Agent's spec names, as plain data. No policy: what is not there is said to be not there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentd_crds::Agent;
use agentd_crds::agent::{NamespaceKind, Principal};
use agentd_identity::SpiffeId;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};
use kube_runtime::reflector::ObjectRef;

use super::inputs::{self, Inputs, NamedClaim, References, Standing};
use crate::context::Context;
use crate::controllers::engine::{ReconcileError, fetch_config_maps};
use crate::controllers::{callers, mcp_server};
use crate::labels::{CALLER, LIVE_DIGEST};
use crate::names;
use crate::rollout;
use crate::world::World;

/// Fetches it all. `deployment` is the Agent's workload as it stands.
///
/// # Errors
/// When the API server does not answer.
pub async fn dereference(
    context: &Context,
    agent: Arc<Agent>,
    deployment: Option<&Deployment>,
) -> Result<Inputs, ReconcileError> {
    let namespace = agent.namespace().unwrap_or_default();
    let References {
        config_maps,
        mcp_servers,
        claim,
        ..
    } = References::of(&agent.spec);
    let mcp_servers: BTreeMap<_, _> = mcp_servers
        .into_iter()
        .map(|name| {
            let server = context.world.server(&namespace, &name);
            let server = server.filter(|server| server.metadata.deletion_timestamp.is_none());
            (name, server)
        })
        .collect();
    let unreadable = mcp_servers
        .keys()
        .filter_map(|name| {
            let guarded = context
                .world
                .servers
                .get(&ObjectRef::new(name).within(&namespace))?;
            let invalid = guarded.0.as_ref().err()?;
            let there = invalid.metadata.deletion_timestamp.is_none();
            Some((name.clone(), invalid.metadata.uid.clone().filter(|_| there)?))
        })
        .collect();
    let standing = match deployment.filter(|_| !mcp_servers.is_empty()) {
        Some(deployment) => standing(context, &agent, deployment).await?,
        None => BTreeMap::new(),
    };
    let mut wanted: BTreeSet<String> = config_maps;
    for server in mcp_servers.values().flatten() {
        wanted.extend(mcp_server::inputs::config_maps(&server.spec));
    }
    let config_maps = fetch_config_maps(context, &namespace, wanted).await?;
    let mut principals = BTreeMap::new();
    for principal in agent.spec.a2a.iter().flat_map(|a2a| &a2a.principals) {
        principals.insert(principal.name.clone(), resolve(context, &namespace, principal)?);
    }
    let claim = match claim {
        None => NamedClaim::None,
        Some(name) => match context
            .world
            .claims
            .get(&ObjectRef::new(&name).within(&namespace))
        {
            None => NamedClaim::Missing,
            Some(claim) => rollout::controller(&claim.metadata).map_or(NamedClaim::Free, |owner| {
                NamedClaim::Controlled(format!("{} {}", owner.kind, owner.name))
            }),
        },
    };
    Ok(Inputs {
        agent,
        config_maps,
        mcp_servers,
        unreadable,
        standing,
        principals,
        claim,
        bundle_pem: context.bundle_pem().to_string(),
        rolled_digest: deployment.and_then(rolled_digest),
    })
}

/// What the live folder that the workload mounts says of servers.
async fn standing(
    context: &Context,
    agent: &Agent,
    deployment: &Deployment,
) -> Result<BTreeMap<String, Standing>, ReconcileError> {
    let template = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let (namespace, made) = (
        agent.namespace().unwrap_or_default(),
        names::agent(&agent.name_any()),
    );
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
    for name in rollout::mounted_config_maps(template) {
        if names::is_live(&made, name)
            && let Some(live) = api.get_opt(name).await?
            && rollout::is_controlled_by(&live.metadata, &agent.metadata)
        {
            return Ok(inputs::standing(&live));
        }
    }
    Ok(BTreeMap::new())
}

/// The digest that rolled the pods last.
pub fn rolled_digest(deployment: &Deployment) -> Option<String> {
    let template = &deployment.spec.as_ref()?.template;
    template
        .metadata
        .as_ref()?
        .annotations
        .as_ref()?
        .get(LIVE_DIGEST)
        .cloned()
}

/// Whom a principal stands for; `None` when the object it names is not there.
fn resolve(
    context: &Context,
    own: &str,
    principal: &Principal,
) -> Result<Option<Vec<SpiffeId>>, ReconcileError> {
    let (install, world) = (&context.install, &context.world);
    if let Some(reference) = &principal.agent_ref {
        let agent = world.agent(reference.namespace.as_deref().unwrap_or(own), &reference.name);
        return Ok(agent
            .map(|agent| callers::agent(install, &agent))
            .transpose()?
            .map(|id| id.into_iter().collect()));
    }
    if let Some(reference) = &principal.service_account_ref {
        let account = world.accounts.get(&ObjectRef::new(&reference.name).within(own));
        let account = account.filter(|account| is_caller(world, account));
        return Ok(account
            .map(|_| install.id_of_account(own, &reference.name))
            .transpose()?
            .map(|id| vec![id]));
    }
    if let Some(of) = &principal.namespace {
        return Ok(Some(match of.kind {
            NamespaceKind::Agents => {
                let agents = world.agents.state();
                let readable = agents.iter().filter_map(|guarded| guarded.0.as_ref().ok());
                callers::agents(
                    install,
                    readable.filter(|agent| agent.metadata.namespace.as_ref() == Some(&of.name)),
                )?
            }
            NamespaceKind::Callers => {
                let accounts = world.accounts.state_filter(|account| {
                    account.metadata.namespace.as_ref() == Some(&of.name) && is_caller(world, account)
                });
                let ids = accounts
                    .iter()
                    .map(|account| install.id_of_account(&of.name, &account.name_any()));
                let mut ids = ids.collect::<Result<Vec<_>, _>>()?;
                ids.sort();
                ids
            }
        }));
    }
    Ok(None)
}

/// Whether the account may get an SVID to call with: on one that an Agent or McpServer uses the label is ignored.
fn is_caller(world: &World, account: &PartialObjectMeta<ServiceAccount>) -> bool {
    let (namespace, name) = (account.namespace().unwrap_or_default(), account.name_any());
    account.metadata.deletion_timestamp.is_none()
        && account.labels().get(CALLER).is_some_and(|value| value == "true")
        && !world.uses_account(&namespace, &name)
}
