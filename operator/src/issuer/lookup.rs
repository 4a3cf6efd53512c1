//! Reads what a decision rests on, live from the API server: no cache, no informer, so that what was deleted a moment
//! ago is gone here too. Collects, decides nothing.

use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1 as core;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::facts::{
    Account, CALLER_LABEL, Facts, Found, Kind, Link, Pod, Reference, Service, Token, User, account_of,
    made_name, next_reference,
};

/// Agents or McpServers read in one page.
const PAGE: u32 = 200;
/// The longest chain: Pod, ReplicaSet or Job, Deployment or CronJob, and the end.
const MAX_LINKS: usize = 3;

/// Collects the facts about a verified token.
pub trait Lookup: Send + Sync {
    /// The facts, or what the API server said.
    fn facts(&self, token: Token) -> BoxFuture<'_, Result<Facts, kube::Error>>;
}

/// From the API server.
pub struct LiveLookup(Client);

impl LiveLookup {
    /// With the issuer's own rights.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    async fn collect(&self, token: Token) -> Result<Facts, kube::Error> {
        let (account, pod) = futures::try_join!(self.account(&token), self.pod(&token))?;
        let chain = match &pod {
            Some(pod) => self.chain(&token.namespace, &pod.found).await?,
            None => Vec::new(),
        };
        let (owner_account, service) = match chain.last() {
            Some(Link {
                reference,
                found: Some(_),
            }) => self.end(&token.namespace, reference).await?,
            _ => (None, None),
        };
        let mut facts = Facts {
            token,
            account,
            pod,
            chain,
            owner_account,
            service,
            users: Vec::new(),
        };
        if facts.owner_account.as_deref() != Some(&facts.token.service_account) {
            facts.users = self.users(&facts.token).await?;
        }
        Ok(facts)
    }

    async fn account(&self, token: &Token) -> Result<Option<Account>, kube::Error> {
        let found = self
            .metadata::<core::ServiceAccount>(&token.namespace, &token.service_account)
            .await?;
        Ok(found.map(|meta| {
            let (key, value) = CALLER_LABEL;
            let labelled = meta
                .labels
                .as_ref()
                .and_then(|labels| labels.get(key))
                .is_some_and(|found| found == value);
            Account {
                uid: meta.uid.unwrap_or_default(),
                labelled,
            }
        }))
    }

    async fn pod(&self, token: &Token) -> Result<Option<Pod>, kube::Error> {
        let Some(claim) = &token.pod else { return Ok(None) };
        let api: Api<core::Pod> = Api::namespaced(self.0.clone(), &token.namespace);
        Ok(api.get_opt(&claim.name).await?.map(|pod| {
            let mut found = found(&pod.metadata);
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            found.terminating |= matches!(phase, Some("Succeeded" | "Failed"));
            Pod {
                found,
                service_account: pod
                    .spec
                    .and_then(|spec| spec.service_account_name)
                    .unwrap_or_default(),
            }
        }))
    }

    async fn chain(&self, namespace: &str, pod: &Found) -> Result<Vec<Link>, kube::Error> {
        let mut chain = Vec::new();
        let mut next = next_reference(Kind::Pod, pod);
        while let Some(reference) = next.take().filter(|_| chain.len() < MAX_LINKS) {
            let found = self.link(namespace, &reference).await?.as_ref().map(found);
            next = found
                .as_ref()
                .and_then(|found| next_reference(reference.kind, found));
            chain.push(Link { reference, found });
        }
        Ok(chain)
    }

    async fn link(&self, namespace: &str, reference: &Reference) -> Result<Option<ObjectMeta>, kube::Error> {
        let name = &reference.name;
        match reference.kind {
            Kind::Pod => self.metadata::<core::Pod>(namespace, name).await,
            Kind::ReplicaSet => self.metadata::<ReplicaSet>(namespace, name).await,
            Kind::Deployment => self.metadata::<Deployment>(namespace, name).await,
            Kind::Job => self.metadata::<Job>(namespace, name).await,
            Kind::CronJob => self.metadata::<CronJob>(namespace, name).await,
            Kind::Agent => self.metadata::<agentd_crds::Agent>(namespace, name).await,
            Kind::McpServer => self.metadata::<agentd_crds::McpServer>(namespace, name).await,
        }
    }

    /// The ServiceAccount that the object at a chain's end uses, and the Service named after it. The object is read
    /// once more with its content; it counts only while its UID is the chain's.
    async fn end(
        &self,
        namespace: &str,
        reference: &Reference,
    ) -> Result<(Option<String>, Option<Service>), kube::Error> {
        let (Some(resource), Some(service)) = (
            resource_of(reference.kind),
            made_name(reference.kind, &reference.name),
        ) else {
            return Ok((None, None));
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.0.clone(), namespace, &resource);
        let object = api.get_opt(&reference.name);
        let (object, service_meta) =
            futures::try_join!(object, self.metadata::<core::Service>(namespace, &service))?;
        let object = object.filter(|object| object.metadata.uid.as_ref() == Some(&reference.uid));
        let account = object.and_then(|object| account_of(reference.kind, &object));
        let service = service_meta.map(|meta| Service {
            name: service,
            controller: found(&meta).controller.map(|owner| owner.uid),
        });
        Ok((account, service))
    }

    /// Every Agent and McpServer of the namespace that uses the token's ServiceAccount.
    async fn users(&self, token: &Token) -> Result<Vec<User>, kube::Error> {
        let mut users = Vec::new();
        for kind in [Kind::Agent, Kind::McpServer] {
            let Some(resource) = resource_of(kind) else {
                continue;
            };
            let api: Api<DynamicObject> = Api::namespaced_with(self.0.clone(), &token.namespace, &resource);
            let mut page = ListParams::default().limit(PAGE);
            loop {
                let list = api.list(&page).await?;
                let using = list
                    .items
                    .iter()
                    .filter(|object| account_of(kind, object).as_deref() == Some(&token.service_account));
                users.extend(using.map(|object| User {
                    kind,
                    name: object.metadata.name.clone().unwrap_or_default(),
                }));
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(users)
    }

    async fn metadata<K>(&self, namespace: &str, name: &str) -> Result<Option<ObjectMeta>, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.0.clone(), namespace);
        Ok(api.get_metadata_opt(name).await?.map(|object| object.metadata))
    }
}

impl Lookup for LiveLookup {
    fn facts(&self, token: Token) -> BoxFuture<'_, Result<Facts, kube::Error>> {
        Box::pin(self.collect(token))
    }
}

fn resource_of(kind: Kind) -> Option<ApiResource> {
    match kind {
        Kind::Agent => Some(ApiResource::erase::<agentd_crds::Agent>(&())),
        Kind::McpServer => Some(ApiResource::erase::<agentd_crds::McpServer>(&())),
        Kind::Pod | Kind::ReplicaSet | Kind::Deployment | Kind::Job | Kind::CronJob => None,
    }
}

fn found(meta: &ObjectMeta) -> Found {
    let owners = meta.owner_references.iter().flatten();
    Found {
        uid: meta.uid.clone().unwrap_or_default(),
        terminating: meta.deletion_timestamp.is_some(),
        controller: owners
            .into_iter()
            .find(|owner| owner.controller == Some(true))
            .cloned(),
    }
}
