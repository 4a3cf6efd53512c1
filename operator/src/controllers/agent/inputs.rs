//! Everything that decides what an Agent becomes, fetched. Plain data: dereference fills it, validation reads nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentd_crds::agent::{Agent, AgentSpec};
use agentd_crds::shared::{Destination, TextSource};
use agentd_crds::{McpServer, shared::ClientTls};
use agentd_identity::SpiffeId;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::labels::SERVERS;

/// The document's file.
pub const FILE: &str = "agentd.json";

/// The inputs of one Agent.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The Agent.
    pub agent: Arc<Agent>,
    /// The ConfigMaps of [`References::config_maps`], by name; none where there is none.
    pub config_maps: BTreeMap<String, Option<BTreeMap<String, String>>>,
    /// The McpServers of [`References::mcp_servers`], by name; none where there is none, or where it is being deleted.
    pub mcp_servers: BTreeMap<String, Option<Arc<McpServer>>>,
    /// The UIDs of those of them that are there and that this version cannot read, by name.
    pub unreadable: BTreeMap<String, String>,
    /// What the document that was applied last says of servers, by the name in it.
    pub standing: BTreeMap<String, Standing>,
    /// What each principal stands for, by the principal's name: exact IDs (see [`crate::controllers::callers`]); none
    /// where the object it names is not there. `spiffeID` principals need no entry.
    pub principals: BTreeMap<String, Option<Vec<SpiffeId>>>,
    /// The claim of `store.file.claimName`.
    pub claim: NamedClaim,
    /// The trust bundle, PEM.
    pub bundle_pem: String,
    /// The digest that a pod did not take up in time: it rolls the pod. Not part of the revision.
    pub rolled_digest: Option<String>,
}

/// A server in the document that was applied last.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The UID of the McpServer that it was made of.
    pub mcp_server: String,
    /// What the document says.
    pub entry: agentd_config::document::McpServer,
}

/// What a live ConfigMap of ours says of servers; nothing where it cannot be read.
pub fn standing(live: &ConfigMap) -> BTreeMap<String, Standing> {
    let made_of = live.annotations().get(SERVERS);
    let made_of: BTreeMap<String, String> = made_of
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let text = live.data.as_ref().and_then(|data| data.get(FILE));
    let document: Value = text
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let entries = document.pointer("/mcp/servers").and_then(Value::as_array);
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry: agentd_config::document::McpServer = serde_json::from_value(entry.clone()).ok()?;
            let mcp_server = made_of.get(&entry.name)?.clone();
            Some((entry.name.clone(), Standing { mcp_server, entry }))
        })
        .collect()
}

/// The claim that a spec names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NamedClaim {
    /// None is named.
    #[default]
    None,
    /// It is not there.
    Missing,
    /// Nothing controls it.
    Free,
    /// Another object controls it and will delete it, as `Kind name`.
    Controlled(String),
}

/// The objects that an Agent's spec names, for dereference and for watches. All in its own namespace but for `agents`
/// and the namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// ConfigMaps whose content is needed.
    pub config_maps: BTreeSet<String>,
    /// McpServers.
    pub mcp_servers: BTreeSet<String>,
    /// Agents that may call, as (namespace, name); no namespace: the Agent's own.
    pub agents: BTreeSet<(Option<String>, String)>,
    /// ServiceAccounts that may call.
    pub service_accounts: BTreeSet<String>,
    /// Namespaces whose Agents may call.
    pub agents_of: BTreeSet<String>,
    /// Namespaces whose labelled ServiceAccounts may call.
    pub callers_of: BTreeSet<String>,
    /// A claim.
    pub claim: Option<String>,
}

impl References {
    /// What this spec names.
    pub fn of(spec: &AgentSpec) -> Self {
        let mut found = Self::default();
        found.text(spec.instruction_from.as_ref());
        for endpoint in &spec.intelligence.endpoints {
            found.destination(&endpoint.destination);
        }
        if let Some(http) = spec.store.as_ref().and_then(|store| store.http.as_ref()) {
            found.destination(&http.destination);
        }
        for server in &spec.mcp_servers {
            found.destination(&server.destination);
            found
                .mcp_servers
                .extend(server.reference.as_ref().map(|reference| reference.name.clone()));
        }
        for principal in spec.a2a.iter().flat_map(|a2a| &a2a.principals) {
            found.agents.extend(
                principal
                    .agent_ref
                    .as_ref()
                    .map(|agent| (agent.namespace.clone(), agent.name.clone())),
            );
            found.service_accounts.extend(
                principal
                    .service_account_ref
                    .as_ref()
                    .map(|account| account.name.clone()),
            );
            if let Some(namespace) = &principal.namespace {
                match namespace.kind {
                    agentd_crds::agent::NamespaceKind::Agents => {
                        found.agents_of.insert(namespace.name.clone())
                    }
                    agentd_crds::agent::NamespaceKind::Callers => {
                        found.callers_of.insert(namespace.name.clone())
                    }
                };
            }
        }
        let file = spec.store.as_ref().and_then(|store| store.file.as_ref());
        found.claim = file.and_then(|file| file.claim_name.clone());
        found
    }

    fn destination(&mut self, destination: &Destination) {
        let Destination {
            headers: _,
            auth: _,
            tls,
            timeout: _,
            connect_timeout: _,
        } = destination;
        let bundle = tls.as_ref().and_then(
            |ClientTls {
                 ca_bundle,
                 client_certificate: _,
                 server_name: _,
             }| ca_bundle.as_ref(),
        );
        self.text(bundle);
    }

    fn text(&mut self, source: Option<&TextSource>) {
        let reference = source.and_then(|source| source.config_map_key_ref.as_ref());
        self.config_maps
            .extend(reference.map(|reference| reference.name.clone()));
    }
}
