//! Applies the objects of an Agent: the ServiceAccount first, the workload last, since its mounts must exist.

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
        claim,
        network_policy,
        deployment,
        config_digest: _,
        revision_hash: _,
    } = objects;
    owned::apply(client, metrics, service_account).await?;
    owned::apply(client, metrics, config).await?;
    let live = owned::apply_folder(client, metrics, live).await?;
    if let Some(claim) = claim {
        owned::apply(client, metrics, claim).await?;
    }
    owned::apply(client, metrics, service).await?;
    apply::network_policy(context, network_policy.as_ref(), deployment).await?;
    Ok(live.written)
}
