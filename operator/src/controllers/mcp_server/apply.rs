//! Applies the objects of an McpServer that the operator runs: the ServiceAccount first, the workload last, since its
//! mounts must exist.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube_runtime::reflector::ObjectRef;

use super::build::Objects;
use crate::context::Context;
use crate::controllers::apply;
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
        network_policy,
        deployment,
        config_digest: _,
        revision_hash: _,
    } = objects;
    owned::apply(client, metrics, service_account).await?;
    owned::apply(client, metrics, config).await?;
    let live = owned::apply_folder(client, metrics, live).await?;
    owned::apply(client, metrics, service).await?;
    apply::network_policy(context, network_policy.as_ref(), deployment).await?;
    Ok(live.written)
}

/// Takes away what was made for a server that the operator ran and that runs elsewhere now.
///
/// # Errors
/// What the API server said.
pub(super) async fn retire(
    context: &Context,
    namespace: &str,
    name: &str,
    owner_uid: &str,
) -> Result<(), OwnedError> {
    let Context {
        client,
        metrics,
        world,
        ..
    } = context;
    if world
        .deployments
        .get(&ObjectRef::new(name).within(namespace))
        .is_some()
    {
        owned::remove::<Deployment>(client, metrics, namespace, name, owner_uid).await?;
    }
    if world
        .services
        .get(&ObjectRef::new(name).within(namespace))
        .is_some()
    {
        owned::remove::<Service>(client, metrics, namespace, name, owner_uid).await?;
    }
    if world
        .policies
        .get(&ObjectRef::new(name).within(namespace))
        .is_some()
    {
        owned::remove::<NetworkPolicy>(client, metrics, namespace, name, owner_uid).await?;
    }
    if world
        .accounts
        .get(&ObjectRef::new(name).within(namespace))
        .is_some()
    {
        owned::remove::<ServiceAccount>(client, metrics, namespace, name, owner_uid).await?;
    }
    Ok(())
}
