//! Checks of what a spec names: keys that are ours, namespaces, ConfigMap keys. Pure.

use agentd_crds::agent::AgentSpec;
use agentd_crds::shared::{Destination, KeyReference, TextSource};

use crate::controllers::subject::Subject;
use crate::labels;
use crate::problem::Problem;

pub(super) fn check(spec: &AgentSpec, subject: &Subject, problems: &mut Vec<Problem>) {
    let account = spec.service_account.as_ref();
    let annotations = account.map(|account| ("annotations", &account.annotations));
    let given = account.map(|account| ("labels", &account.labels));
    for (field, map) in annotations.into_iter().chain(given) {
        for key in map
            .keys()
            .filter(|key| key.starts_with(labels::OURS) || *key == labels::MANAGED_BY)
        {
            problems.push(Problem::invalid(format!(
                "spec.serviceAccount.{field}[{key}]: belongs to the operator; remove it"
            )));
        }
    }
    for server in &spec.mcp_servers {
        let namespace = server
            .reference
            .as_ref()
            .and_then(|reference| reference.namespace.as_ref());
        if namespace.is_some_and(|namespace| *namespace != subject.namespace) {
            problems.push(Problem::unsupported(format!(
                "mcpServers[{}].ref.namespace",
                server.name
            )));
        }
    }
}

/// The ConfigMap keys that a spec itself names, with their paths.
pub(super) fn config_map_keys(spec: &AgentSpec) -> Vec<(String, &KeyReference)> {
    let instruction = spec
        .instruction_from
        .as_ref()
        .map(|source| ("instructionFrom".to_owned(), source));
    let endpoints = spec.intelligence.endpoints.iter().filter_map(|endpoint| {
        roots(&endpoint.destination).map(|source| {
            (
                format!("intelligence.endpoints[{}].tls.caBundle", endpoint.name),
                source,
            )
        })
    });
    let servers = spec.mcp_servers.iter().filter_map(|server| {
        roots(&server.destination).map(|source| (format!("mcpServers[{}].tls.caBundle", server.name), source))
    });
    let store = spec.store.as_ref().and_then(|store| store.http.as_ref());
    let store = store
        .and_then(|http| roots(&http.destination))
        .map(|source| ("store.http.tls.caBundle".to_owned(), source));
    let sources = instruction
        .into_iter()
        .chain(endpoints)
        .chain(servers)
        .chain(store);
    sources
        .filter_map(|(path, source)| {
            source
                .config_map_key_ref
                .as_ref()
                .map(|reference| (path, reference))
        })
        .collect()
}

fn roots(destination: &Destination) -> Option<&TextSource> {
    destination.tls.as_ref()?.ca_bundle.as_ref()
}
