//! What every reconcile gets. Nothing else is global.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use agentd_base::class::Class;
use agentd_base::clock::SharedClock;
use kube::Client;
use tokio::sync::watch;

use crate::events::Events;
use crate::install::Install;
use crate::metrics::Metrics;
use crate::world::{Requests, World};

/// The context of both controllers and of the report endpoint.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What holds for the whole install.
    pub install: Arc<Install>,
    /// What is known of the cluster.
    pub world: Arc<World>,
    /// Kubernetes Events.
    pub events: Events,
    /// Counters.
    pub metrics: Metrics,
    /// The wall clock.
    pub clock: SharedClock,
    /// The trust bundle, PEM.
    pub bundle: watch::Receiver<Arc<str>>,
    /// Which documents were made of which servers.
    pub rendered: Rendered,
    /// Asks for reconciles.
    pub requests: Requests,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("install", &self.install)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// The trust bundle, PEM.
    pub fn bundle_pem(&self) -> Arc<str> {
        self.bundle.borrow().clone()
    }
}

/// Of which generations of its servers an Agent's current document was made. An Agent's report about a server proves
/// the server's current spec only if the document that the pod runs was made of it. Lost with the process: what was
/// proved before then stands until the Agent was looked at again.
#[derive(Debug, Clone, Default)]
pub struct Rendered(Arc<Mutex<HashMap<String, Document>>>);

/// A document that an Agent's pod should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its digest.
    pub digest: String,
    /// The generations of the McpServers in it, by the McpServer's UID.
    pub servers: BTreeMap<String, i64>,
}

impl Rendered {
    /// Notes the document of the Agent with this UID. True when it is another one than before.
    pub fn note(&self, agent_uid: &str, document: Document) -> bool {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = documents.get(agent_uid) == Some(&document);
        documents.insert(agent_uid.to_owned(), document);
        !same
    }

    /// The document of the Agent with this UID, if this process made it.
    pub fn get(&self, agent_uid: &str) -> Option<Document> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(agent_uid)
            .cloned()
    }

    /// Forgets all Agents but these.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|uid, _| is_there(uid));
    }
}

/// Sorts an error of the client by who must act.
pub fn class_of(error: &kube::Error) -> Class {
    match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => Class::Denied,
            409 => Class::Conflict,
            400 | 422 => Class::Invalid,
            _ => Class::Unavailable,
        },
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => Class::Internal,
        _ => Class::Unavailable,
    }
}
