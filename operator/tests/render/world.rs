//! A world made of YAML documents, and what the controllers would fetch from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use agentd_crds::agent::NamespaceKind;
use agentd_crds::{Agent, McpServer};
use agentd_identity::SpiffeId;
use agentd_operator::controllers::agent::inputs::{Inputs as AgentInputs, NamedClaim, References, Standing};
use agentd_operator::controllers::mcp_server::inputs::{self as server_inputs, Inputs as ServerInputs};
use agentd_operator::controllers::{agent, callers, mcp_server};
use agentd_operator::install::Install;
use agentd_operator::labels::CALLER;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::ResourceExt as _;
use serde_json::{Value, json};

pub(crate) const BUNDLE: &str = "-----BEGIN CERTIFICATE-----\nbundle\n-----END CERTIFICATE-----\n";

/// An install like any other.
pub(crate) fn install() -> Install {
    Install {
        release: "agentd".to_owned(),
        namespace: "agentd-system".to_owned(),
        trust_domain: "td.example".parse().unwrap(),
        cluster_domain: "cluster.local".to_owned(),
        agent_image: "registry.example/agentd:1".to_owned(),
        image_pull_policy: None,
        image_pull_secrets: Vec::new(),
        fs_group: true,
    }
}

/// The text of a fixture.
pub(crate) fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Everything that exists.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) agents: Vec<Arc<Agent>>,
    pub(crate) servers: Vec<Arc<McpServer>>,
    pub(crate) config_maps: Vec<ConfigMap>,
    pub(crate) accounts: Vec<ServiceAccount>,
    pub(crate) claim: NamedClaim,
    /// McpServers that cannot be read, by name.
    pub(crate) unreadable: BTreeMap<String, String>,
    /// What was applied before.
    pub(crate) standing: BTreeMap<String, Standing>,
}

impl World {
    /// From YAML documents.
    pub(crate) fn parse(text: &str) -> Self {
        let documents = text
            .split("\n---\n")
            .map(|document| serde_saphyr::from_str(document).unwrap());
        Self::of(documents)
    }

    /// From objects.
    pub(crate) fn of(documents: impl IntoIterator<Item = Value>) -> Self {
        let mut world = Self::default();
        for document in documents {
            match document["kind"].as_str().unwrap() {
                "Agent" => world
                    .agents
                    .push(Arc::new(serde_json::from_value(document).unwrap())),
                "McpServer" => world
                    .servers
                    .push(Arc::new(serde_json::from_value(document).unwrap())),
                "ConfigMap" => world.config_maps.push(serde_json::from_value(document).unwrap()),
                "ServiceAccount" => world.accounts.push(serde_json::from_value(document).unwrap()),
                kind => panic!("a fixture has a {kind}"),
            }
        }
        world
    }

    fn agent(&self, namespace: &str, name: &str) -> Option<&Agent> {
        let found = self
            .agents
            .iter()
            .find(|agent| agent.namespace().as_deref() == Some(namespace) && agent.name_any() == name);
        found.map(AsRef::as_ref)
    }

    fn data(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, String>> {
        let named =
            |map: &&ConfigMap| map.name_any() == name && map.namespace().as_deref() == Some(namespace);
        self.config_maps
            .iter()
            .find(named)
            .map(|map| map.data.clone().unwrap_or_default())
    }

    fn callers(&self, install: &Install, namespace: &str) -> Vec<SpiffeId> {
        let labelled = |account: &&ServiceAccount| {
            account.labels().get(CALLER).is_some_and(|value| value == "true")
                && account.namespace().as_deref() == Some(namespace)
        };
        let names = self
            .accounts
            .iter()
            .filter(labelled)
            .map(|account| account.name_any());
        names
            .map(|name| install.id_of_account(namespace, &name).unwrap())
            .collect()
    }

    /// The inputs of the first Agent.
    pub(crate) fn agent_inputs(&self, install: &Install) -> AgentInputs {
        let agent = Arc::clone(&self.agents[0]);
        let namespace = agent.namespace().unwrap();
        let references = References::of(&agent.spec);
        let mut principals = BTreeMap::new();
        for principal in agent.spec.a2a.iter().flat_map(|a2a| &a2a.principals) {
            let ids = if let Some(reference) = &principal.agent_ref {
                let of = reference.namespace.as_deref().unwrap_or(&namespace);
                self.agent(of, &reference.name)
                    .map(|agent| callers::agents(install, [agent]).unwrap())
            } else if let Some(reference) = &principal.service_account_ref {
                let id = install.id_of_account(&namespace, &reference.name).unwrap();
                self.callers(install, &namespace).contains(&id).then(|| vec![id])
            } else if let Some(all) = &principal.namespace {
                let of = |agent: &&Arc<Agent>| agent.namespace().as_ref() == Some(&all.name);
                Some(match all.kind {
                    NamespaceKind::Callers => self.callers(install, &all.name),
                    NamespaceKind::Agents => {
                        callers::agents(install, self.agents.iter().filter(of).map(AsRef::as_ref)).unwrap()
                    }
                })
            } else {
                continue;
            };
            principals.insert(principal.name.clone(), ids);
        }
        let server = |name: &String| {
            self.servers
                .iter()
                .find(|server| server.name_any() == *name && server.namespace().as_ref() == Some(&namespace))
                .cloned()
        };
        let mcp_servers: BTreeMap<_, _> = references
            .mcp_servers
            .iter()
            .map(|name| (name.clone(), server(name)))
            .collect();
        let of_servers = mcp_servers
            .values()
            .flatten()
            .flat_map(|server| server_inputs::config_maps(&server.spec));
        AgentInputs {
            config_maps: references
                .config_maps
                .iter()
                .cloned()
                .chain(of_servers)
                .map(|name| (name.clone(), self.data(&namespace, &name)))
                .collect(),
            mcp_servers,
            unreadable: self.unreadable.clone(),
            standing: self.standing.clone(),
            principals,
            claim: self.claim.clone(),
            bundle_pem: BUNDLE.to_owned(),
            rolled_digest: None,
            agent,
        }
    }

    /// The inputs of the first McpServer.
    pub(crate) fn server_inputs(&self) -> ServerInputs {
        let server = Arc::clone(&self.servers[0]);
        let namespace = server.namespace().unwrap();
        ServerInputs {
            config_maps: server_inputs::config_maps(&server.spec)
                .into_iter()
                .map(|name| (name.clone(), self.data(&namespace, &name)))
                .collect(),
            agents: self.agents.clone(),
            bundle_pem: BUNDLE.to_owned(),
            rolled_digest: None,
            server,
        }
    }
}

/// What the first Agent becomes: every object in the order of applying, and what is told about it.
pub(crate) fn render_agent(world: &World, install: &Install) -> Result<Value, agent::validate::Rejected> {
    let validated = agent::validate::validate(&world.agent_inputs(install), install)?;
    let agent::build::Objects {
        service_account,
        service,
        config,
        live,
        claim,
        network_policy,
        deployment,
        config_digest,
        revision_hash,
    } = agent::build::build(&validated, install).unwrap();
    let told = json!({
        "url": validated.url,
        "spiffeID": validated.spiffe_id,
        "configDigest": config_digest,
        "revision": revision_hash,
        "servers": validated.servers.iter().map(|server| format!("{server:?}")).collect::<Vec<_>>(),
        "unresolved": messages(&validated.unresolved),
        "notes": messages(&validated.notes),
    });
    Ok(json!({
        "told": told, "serviceAccount": service_account, "service": service, "config": opened(&config),
        "live": opened(&live), "claim": claim, "networkPolicy": network_policy, "deployment": deployment,
    }))
}

/// What the first McpServer becomes.
pub(crate) fn render_server(
    world: &World,
    install: &Install,
) -> Result<Value, mcp_server::validate::Rejected> {
    let validated = mcp_server::validate::validate(&world.server_inputs(), install)?;
    let url = validated.url.clone();
    let Some(objects) = mcp_server::build::build(&validated, install).unwrap() else {
        return Ok(json!({ "url": url }));
    };
    let mcp_server::build::Objects {
        service_account,
        service,
        config,
        live,
        network_policy,
        deployment,
        config_digest,
        revision_hash,
    } = objects;
    Ok(json!({
        "url": url, "configDigest": config_digest, "revision": revision_hash,
        "serviceAccount": service_account, "service": service, "config": opened(&config), "live": opened(&live),
        "networkPolicy": network_policy, "deployment": deployment,
    }))
}

/// A ConfigMap with its JSON files opened, for reading.
fn opened(map: &ConfigMap) -> Value {
    let mut value = serde_json::to_value(map).unwrap();
    for text in value["data"].as_object_mut().unwrap().values_mut() {
        if let Ok(json) = serde_json::from_str::<Value>(text.as_str().unwrap()) {
            *text = json;
        }
    }
    value
}

pub(crate) fn messages(problems: &[agentd_operator::problem::Problem]) -> Vec<String> {
    problems
        .iter()
        .map(|problem| format!("{}: {}", problem.reason, problem.message))
        .collect()
}

/// Lays `change` over `target` as a merge patch.
pub(crate) fn patch(target: &mut Value, change: &Value) {
    agentd_config::reload::merge_patch(target, change);
}
