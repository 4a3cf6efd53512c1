//! Everything that decides what an McpServer becomes, fetched. Plain data: dereference fills it, validation reads
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentd_crds::{Agent, McpServer, McpServerSpec};

/// The inputs of one McpServer.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The McpServer.
    pub server: Arc<McpServer>,
    /// The ConfigMaps of [`config_maps`], by name; none where there is none.
    pub config_maps: BTreeMap<String, Option<BTreeMap<String, String>>>,
    /// The Agents of its namespace, all or those that reference it.
    pub agents: Vec<Arc<Agent>>,
    /// The trust bundle, PEM.
    pub bundle_pem: String,
    /// The digest that a pod did not take up in time: it rolls the pod. Not part of the revision.
    pub rolled_digest: Option<String>,
}

/// The ConfigMaps that a spec names.
pub fn config_maps(spec: &McpServerSpec) -> BTreeSet<String> {
    let roots = spec.tls.iter().filter_map(|tls| tls.ca_bundle.as_ref());
    let env = spec
        .deployment
        .iter()
        .flat_map(|deployment| &deployment.env)
        .filter_map(|env| env.value_from.as_ref());
    roots
        .chain(env)
        .filter_map(|source| source.config_map_key_ref.as_ref())
        .map(|key| key.name.clone())
        .collect()
}
