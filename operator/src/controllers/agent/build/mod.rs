//! From a validated Agent to its objects. Pure: the same input gives the same bytes.

mod claim;
pub mod document;
mod network_policy;
pub mod pod;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::validate::Validated;
use crate::controllers::{account, pair, workload};
use crate::install::Install;
use crate::labels;

/// Everything that an Agent becomes. Destructured whole where it is applied, so that a kind that nobody applies does
/// not compile.
#[derive(Debug, Clone)]
pub struct Objects {
    /// The identity.
    pub service_account: ServiceAccount,
    /// Where callers reach it.
    pub service: Service,
    /// The restart-only half, immutable.
    pub config: ConfigMap,
    /// The reloadable half and the bundle.
    pub live: ConfigMap,
    /// The state; without an owner reference where it is retained.
    pub claim: Option<PersistentVolumeClaim>,
    /// The second fence; none: there shall be none.
    pub network_policy: Option<NetworkPolicy>,
    /// The pod. Mounts all of the above, so it comes last.
    pub deployment: Deployment,
    /// The digest of `live`, which the pod reports once it runs it.
    pub config_digest: String,
    /// Names the pair of ConfigMaps.
    pub revision_hash: String,
}

/// Builds the objects.
///
/// # Errors
/// When one cannot be written as JSON.
pub fn build(validated: &Validated, install: &Install) -> Result<Objects, serde_json::Error> {
    let subject = &validated.subject;
    let mut revision = pair::revision(subject, &validated.halves, |pair| {
        pod::template(validated, install, pair)
    })?;
    let made_of: BTreeMap<&str, &str> = validated
        .servers
        .iter()
        .filter_map(|server| Some((server.name.as_str(), server.made_of.as_ref()?.uid.as_str())))
        .collect();
    if !made_of.is_empty() {
        let annotations = revision.live.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::SERVERS.to_owned(), serde_json::to_string(&made_of)?);
    }
    // Two pods cannot share a claim of one node, nor one database.
    let strategy = if validated.store.has_claim() {
        "Recreate"
    } else {
        "RollingUpdate"
    };
    Ok(Objects {
        service_account: account::service_account(subject, &validated.annotations, &validated.labels),
        service: account::service(subject, "a2a", false),
        claim: claim::claim(validated),
        network_policy: network_policy::network_policy(validated, install),
        deployment: workload::deployment(
            subject,
            validated.replicas,
            strategy,
            validated.rolled_digest.as_deref(),
            revision.template,
        ),
        config: revision.config,
        live: revision.live,
        config_digest: revision.config_digest,
        revision_hash: revision.hash,
    })
}
