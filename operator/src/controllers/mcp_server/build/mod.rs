//! From a validated McpServer to its objects. Pure: the same input gives the same bytes.

pub mod document;
pub mod pod;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::validate::{RunPlan, Validated};
use crate::controllers::subject::Subject;
use crate::controllers::{account, network, pair, workload};
use crate::install::Install;

/// Everything that a server which the operator runs becomes. Destructured whole where it is applied, so that a kind
/// that nobody applies does not compile.
#[derive(Debug, Clone)]
pub struct Objects {
    /// The identity.
    pub service_account: ServiceAccount,
    /// Where agents reach the bridge.
    pub service: Service,
    /// The restart-only half, immutable.
    pub config: ConfigMap,
    /// The list of callers and the bundle.
    pub live: ConfigMap,
    /// The second fence; none: there shall be none.
    pub network_policy: Option<NetworkPolicy>,
    /// The pods. Mounts all of the above, so it comes last.
    pub deployment: Deployment,
    /// The digest of `live`, which the bridge reports once it runs it.
    pub config_digest: String,
    /// Names the pair of ConfigMaps.
    pub revision_hash: String,
}

/// Builds the objects; none for a server that runs elsewhere.
///
/// # Errors
/// When one cannot be written as JSON.
pub fn build(validated: &Validated, install: &Install) -> Result<Option<Objects>, serde_json::Error> {
    let Some(run) = &validated.run else {
        return Ok(None);
    };
    let subject = &validated.subject;
    let revision = pair::revision(subject, &run.halves, |pair| {
        pod::template(subject, run, install, pair)
    })?;
    Ok(Some(Objects {
        service_account: account::service_account(subject, &BTreeMap::new(), &BTreeMap::new()),
        // A server may keep sessions in its memory.
        service: account::service(subject, "mcp", true),
        network_policy: network_policy(subject, run, install),
        deployment: workload::deployment(
            subject,
            run.replicas,
            "RollingUpdate",
            run.rolled_digest.as_deref(),
            revision.template,
        ),
        config: revision.config,
        live: revision.live,
        config_digest: revision.config_digest,
        revision_hash: revision.hash,
    }))
}

/// In: the bridge and its metrics, never the server's own port. Out: what every pod needs, and what a person adds.
fn network_policy(subject: &Subject, run: &RunPlan, install: &Install) -> Option<NetworkPolicy> {
    let (extra_ingress, extra_egress) = run.network.as_ref()?;
    let mut ingress = vec![network::ingress_from_anywhere(), network::ingress_to_metrics()];
    ingress.extend(extra_ingress.iter().cloned());
    let mut egress = network::egress_of_every_pod(install);
    egress.extend(extra_egress.iter().cloned());
    Some(network::policy(subject, ingress, egress))
}
