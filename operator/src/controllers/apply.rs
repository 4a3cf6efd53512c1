//! What both kinds apply in the same way: the NetworkPolicy or its absence, and the workload.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use kube_runtime::reflector::ObjectRef;

use crate::context::Context;
use crate::owned::{self, OwnedError};

/// The policy of a workload; without one, the policy that it had is taken away.
///
/// # Errors
/// As [`owned::apply`].
pub(super) async fn network_policy(
    context: &Context,
    policy: Option<&NetworkPolicy>,
    deployment: &Deployment,
) -> Result<(), OwnedError> {
    match policy {
        Some(policy) => {
            owned::apply(&context.client, &context.metrics, policy).await?;
            Ok(())
        }
        None => no_policy(context, deployment).await,
    }
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
async fn no_policy(context: &Context, deployment: &Deployment) -> Result<(), OwnedError> {
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
