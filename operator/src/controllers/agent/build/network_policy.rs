//! The NetworkPolicy of an Agent's pod. Pure.

use k8s_openapi::api::networking::v1::NetworkPolicy;

use crate::controllers::agent::validate::Validated;
use crate::controllers::network;
use crate::install::Install;

pub(super) fn network_policy(validated: &Validated, install: &Install) -> Option<NetworkPolicy> {
    let plan = validated.network.as_ref()?;
    let callers = if plan.callers_anywhere {
        Some(network::ingress_from_anywhere())
    } else {
        network::ingress_from(&plan.caller_namespaces)
    };
    let mut ingress: Vec<_> = callers.into_iter().collect();
    ingress.push(network::ingress_to_metrics());
    ingress.extend(plan.extra_ingress.iter().cloned());
    let mut egress = network::egress_of_every_pod(install);
    egress.extend(network::egress_to_servers(&plan.servers));
    egress.extend(network::egress_to_ways(&plan.ways));
    egress.extend(plan.extra_egress.iter().cloned());
    Some(network::policy(&validated.subject, ingress, egress))
}
