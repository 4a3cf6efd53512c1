//! What a spec says of its store and of the network, as plans. Pure.

use std::collections::BTreeSet;

use agentd_config::document::{Auth, Document, McpServer};
use agentd_crds::agent::{AgentSpec, DEFAULT_STORE_SIZE, FileStore, Retain, Store};
use agentd_crds::shared::NetworkPolicyMode;
use agentd_identity::SpiffeId;
use k8s_openapi::api::networking::v1::{NetworkPolicyEgressRule, NetworkPolicyIngressRule};
use url::Url;

use super::servers::is_operator_run;
use crate::controllers::network::{Way, ways};
use crate::controllers::subject::Subject;
use crate::install::Install;

/// Where state lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlan {
    /// On a claim that we make.
    Claim {
        /// Its size, a quantity.
        size: String,
        /// Absent: the cluster's default.
        class: Option<String>,
        /// It outlives the Agent.
        retain: bool,
    },
    /// On a claim that is there.
    Existing {
        /// Its name.
        claim_name: String,
    },
    /// In a file that goes with the pod.
    Ephemeral,
    /// In memory.
    Memory,
    /// At a server.
    Outside,
}

impl StorePlan {
    /// Whether the pod mounts a claim.
    pub fn has_claim(&self) -> bool {
        matches!(self, Self::Claim { .. } | Self::Existing { .. })
    }
}

/// What the pod's policy lets through.
#[derive(Debug, Clone, Default)]
pub struct NetworkPlan {
    /// Whether a principal may be anywhere: one that shows a token.
    pub callers_anywhere: bool,
    /// Namespaces of principals.
    pub caller_namespaces: BTreeSet<String>,
    /// McpServers of this namespace that the operator runs.
    pub servers: BTreeSet<String>,
    /// Ways to models and other servers.
    pub ways: BTreeSet<Way>,
    /// A person's own rules.
    pub extra_ingress: Vec<NetworkPolicyIngressRule>,
    /// A person's own rules.
    pub extra_egress: Vec<NetworkPolicyEgressRule>,
}

pub(super) fn store(store: Option<&Store>) -> StorePlan {
    let plan = |file: Option<&FileStore>| {
        let file = file.cloned().unwrap_or_default();
        if file.is_ephemeral() {
            return StorePlan::Ephemeral;
        }
        let FileStore {
            size,
            storage_class_name,
            retain,
            claim_name,
            ephemeral: _,
        } = file;
        match claim_name {
            Some(claim_name) => StorePlan::Existing { claim_name },
            None => StorePlan::Claim {
                size: size.map_or_else(|| DEFAULT_STORE_SIZE.to_owned(), |size| size.0),
                class: storage_class_name,
                retain: retain == Some(Retain::Retain),
            },
        }
    };
    match store {
        Some(Store { memory: Some(_), .. }) => StorePlan::Memory,
        Some(Store { mcp: Some(_), .. } | Store { http: Some(_), .. }) => StorePlan::Outside,
        Some(Store { file, .. }) => plan(file.as_ref()),
        None => plan(None),
    }
}

/// The ways to who issues a server's tokens. One that is only discovered is on some host that nobody has named, over
/// https: its port is opened, as for any other destination.
fn token_ways(server: &McpServer, ways_to: impl Fn(&String) -> Vec<Way>) -> Vec<Way> {
    let Some(Auth::OAuth2(client)) = &server.connection.auth else {
        return Vec::new();
    };
    match (&client.token_endpoint, &client.issuer) {
        (None, None) => vec![Way::Port(443)],
        (tokens, issuer) => tokens.iter().chain(issuer).flat_map(ways_to).collect(),
    }
}

pub(super) fn network(
    spec: &AgentSpec,
    subject: &Subject,
    install: &Install,
    document: &Document,
    operator_run: BTreeSet<String>,
) -> Option<NetworkPlan> {
    let policy = &spec.network_policy;
    if policy.mode == NetworkPolicyMode::None {
        return None;
    }
    let models = document
        .intelligence
        .endpoints
        .iter()
        .map(|endpoint| &endpoint.url);
    // The servers that the operator runs have a rule of their own.
    let remote = document
        .mcp
        .servers
        .iter()
        .filter(|server| !is_operator_run(server));
    let ways_to = |url: &String| match Url::parse(url) {
        Ok(url) => ways(&url, &subject.namespace, &install.cluster_domain),
        // Refused where the document is checked.
        Err(_) => Vec::new(),
    };
    let mut open: BTreeSet<Way> = models.flat_map(ways_to).collect();
    for server in remote {
        open.extend(ways_to(&server.endpoint));
        open.extend(token_ways(server, ways_to));
    }
    open.extend(
        document
            .store
            .http
            .iter()
            .flat_map(|http| ways_to(&http.base_url)),
    );
    let ids = document
        .a2a
        .principals
        .iter()
        .filter_map(|principal| principal.spiffe_id.as_ref()?.parse::<SpiffeId>().ok());
    Some(NetworkPlan {
        callers_anywhere: document.a2a.principals.iter().any(|one| one.bearer.is_some()),
        caller_namespaces: ids
            .filter_map(|id| id.service_account().map(|(namespace, _)| namespace.to_owned()))
            .collect(),
        servers: operator_run,
        ways: open,
        extra_ingress: policy.extra_ingress.clone(),
        extra_egress: policy.extra_egress.clone(),
    })
}
