//! Whose objects are built: name, namespace and the owner reference that makes them ours. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt as _};

use crate::{labels, names};

/// The Agent or McpServer that is reconciled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// The name of what is made for it: `<name>-agent`, `<name>-mcp`.
    pub made: String,
    /// The label that its objects and pods carry, with its name as the value.
    label: &'static str,
    kind: String,
    api_version: String,
}

impl Subject {
    /// An Agent.
    pub fn agent(agent: &agentd_crds::Agent) -> Self {
        Self::new(agent, names::agent(&agent.name_any()), labels::AGENT)
    }

    /// An McpServer.
    pub fn mcp_server(server: &agentd_crds::McpServer) -> Self {
        Self::new(server, names::mcp(&server.name_any()), labels::MCP_SERVER)
    }

    fn new<K: Resource<DynamicType = ()>>(object: &K, made: String, label: &'static str) -> Self {
        Self {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            uid: object.uid().unwrap_or_default(),
            made,
            label,
            kind: K::kind(&()).into_owned(),
            api_version: K::api_version(&()).into_owned(),
        }
    }

    /// The reference that makes an object ours and takes it away with the subject.
    pub fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// What selects the pods: never changes.
    pub fn selector(&self) -> LabelSelector {
        LabelSelector {
            match_labels: Some(BTreeMap::from([(self.label.to_owned(), self.name.clone())])),
            match_expressions: None,
        }
    }

    /// Labels of objects and pods.
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (self.label.to_owned(), self.name.clone()),
            (labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned()),
        ])
    }

    /// Metadata of an owned object named `name`.
    pub fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels()),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        }
    }
}
