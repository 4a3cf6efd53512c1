//! Applies the objects of an Agent: the ServiceAccount first, the workload last, since its mounts must exist.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use kube_runtime::reflector::ObjectRef;

use super::build::Objects;
use crate::context::Context;
use crate::owned::{self, OwnedError};

/// What the pod mounts and is reached by. True when the live ConfigMap was written.
///
/// # Errors
/// As [`owned::apply`].
pub(super) async fn surroundings(context: &Context, objects: &Objects) -> Result<bool, OwnedError> {
    let Context { client, metrics, .. } = context;
    let Objects {
        service_account,
        service,
        config,
        live,
        claim,
        network_policy,
        deployment,
        config_digest: _,
        revision_hash: _,
    } = objects;
    owned::apply(client, metrics, service_account).await?;
    owned::apply(client, metrics, config).await?;
    let live = owned::apply(client, metrics, live).await?;
    if let Some(claim) = claim {
        owned::apply(client, metrics, claim).await?;
    }
    owned::apply(client, metrics, service).await?;
    match network_policy {
        Some(policy) => {
            owned::apply(client, metrics, policy).await?;
        }
        None => no_policy(context, deployment).await?,
    }
    Ok(live.written)
}

/// The workload, as it then stands.
///
/// # Errors
/// As [`owned::apply`].
pub(super) async fn workload(context: &Context, deployment: &Deployment) -> Result<Deployment, OwnedError> {
    Ok(owned::apply(&context.client, &context.metrics, deployment)
        .await?
        .live)
}

/// Takes the policy away that a workload had; it is named as the workload is.
pub(in crate::controllers) async fn no_policy(
    context: &Context,
    deployment: &Deployment,
) -> Result<(), OwnedError> {
    let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
    let Some(owner) = crate::rollout::controller(&deployment.metadata) else {
        return Ok(());
    };
    if context
        .world
        .policies
        .get(&ObjectRef::new(&name).within(&namespace))
        .is_none()
    {
        return Ok(());
    }
    owned::remove::<NetworkPolicy>(&context.client, &context.metrics, &namespace, &name, &owner.uid).await
}
