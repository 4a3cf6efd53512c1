//! Takes reports and writes them down: one write at a time for each object, and only the newest state. Whoever waits
//! for a write that a later one included is answered by that one.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use agentd_base::class::{Class, Classified};
use agentd_base::report::Report;
use agentd_crds::agent::AgentStatus;
use agentd_crds::mcp_server::McpServerStatus;
use agentd_crds::{Agent, McpServer};
use agentd_identity::SpiffeId;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::Mutex as AsyncMutex;

use super::facts;
use super::subject::{Age, NotTaken, Subject};
use crate::context::{Context, class_of};
use crate::labels::REPORT_MANAGER;

/// Writes of one report that may meet another writer before the pod has to send it again.
const TRIES: usize = 4;
/// Pods of one object whose last report is kept: the current one and some that are going.
const PODS: usize = 16;

/// Why a report was not written down.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// It is not the peer's to make.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// The API server did not take it.
    #[error("the status cannot be written now: {0}")]
    Api(#[from] Box<kube::Error>),
}

impl Classified for DeskError {
    fn class(&self) -> Class {
        match self {
            Self::NotTaken(NotTaken::UnknownPod(_)) => Class::Unavailable,
            Self::NotTaken(NotTaken::NobodysId(_) | NotTaken::ForeignPod(_)) => Class::Denied,
            Self::Api(error) => class_of(error),
        }
    }
}

/// Where reports arrive.
#[derive(Debug)]
pub struct Desk {
    context: Context,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
}

/// The reports of one object.
#[derive(Debug, Default)]
struct Slot {
    reports: Mutex<Reports>,
    /// The version that was written last. Held while writing.
    written: AsyncMutex<u64>,
}

#[derive(Debug, Clone, Default)]
struct Reports {
    version: u64,
    by_pod: BTreeMap<String, Filed>,
}

#[derive(Debug, Clone)]
struct Filed {
    age: Age,
    version: u64,
    report: Report,
}

impl Filed {
    fn rank(&self) -> (Age, u64) {
        (self.age, self.version)
    }
}

impl Reports {
    /// Takes a report in and gives its version.
    fn take(&mut self, age: Age, report: Report) -> u64 {
        self.version += 1;
        self.by_pod.insert(
            report.pod_uid.clone(),
            Filed {
                age,
                version: self.version,
                report,
            },
        );
        while self.by_pod.len() > PODS {
            let oldest = self
                .by_pod
                .iter()
                .min_by_key(|(_, filed)| filed.rank())
                .map(|(uid, _)| uid.clone());
            oldest.map(|uid| self.by_pod.remove(&uid));
        }
        self.version
    }

    /// The report of the newest pod: once it has spoken, what an older one says is history.
    fn newest(&self) -> Option<&Report> {
        self.by_pod
            .values()
            .max_by_key(|filed| filed.rank())
            .map(|filed| &filed.report)
    }
}

impl Desk {
    /// An empty one.
    pub fn new(context: Context) -> Self {
        Self {
            context,
            slots: Mutex::default(),
        }
    }

    /// The counters.
    pub fn metrics(&self) -> &crate::metrics::Metrics {
        &self.context.metrics
    }

    /// Takes a report of `peer`. When it returns the status holds it, or a newer one.
    ///
    /// # Errors
    /// When the report is not the peer's to make, or the API server does not take it.
    pub async fn take(&self, peer: &SpiffeId, report: Report) -> Result<(), DeskError> {
        let subject = Subject::of(&self.context.world, &self.context.install, peer)?;
        let age = subject.pod(&self.context.world, &report.pod_name, &report.pod_uid)?;
        let uid = subject.metadata().uid.clone().unwrap_or_default();
        let slot = self.slot(&uid);
        let version = slot
            .reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(age, report);

        let mut written = slot.written.lock().await;
        if *written >= version {
            return Ok(());
        }
        let reports = slot
            .reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(report) = reports.newest() {
            self.write(&subject, report).await.map_err(Box::new)?;
        }
        *written = reports.version;
        Ok(())
    }

    fn slot(&self, uid: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(uid) {
            return slot.clone();
        }
        // A new object is the time to forget those that went.
        let world = &self.context.world;
        let is_there = |uid: &str| {
            world
                .agents
                .find(|agent| agent.meta().uid.as_deref() == Some(uid))
                .is_some()
                || world
                    .servers
                    .find(|server| server.meta().uid.as_deref() == Some(uid))
                    .is_some()
        };
        slots.retain(|uid, _| is_there(uid));
        self.context.rendered.retain(is_there);
        slots.entry(uid.to_owned()).or_default().clone()
    }

    async fn write(&self, subject: &Subject, report: &Report) -> Result<(), kube::Error> {
        match subject {
            Subject::Agent(agent) => {
                self.apply(agent.as_ref(), |agent: &Agent| {
                    let before = facts_of_agent(agent.status.as_ref());
                    let facts = facts::of_agent(report, &before);
                    (facts != before).then_some(facts)
                })
                .await?;
                for (name, server) in subject.remote_servers(&self.context.world) {
                    let seen = report.servers.iter().find(|seen| seen.name == name);
                    let Some(facts) = seen.and_then(facts::of_remote) else {
                        continue;
                    };
                    self.apply(server.as_ref(), |server: &McpServer| {
                        (facts != facts_of_server(server.status.as_ref())).then(|| facts.clone())
                    })
                    .await?;
                }
                Ok(())
            }
            Subject::McpServer(server) => {
                self.apply(server.as_ref(), |server: &McpServer| {
                    let before = facts_of_server(server.status.as_ref());
                    let facts = facts::of_bridge(report, &server.name_any(), &before);
                    (facts != before).then_some(facts)
                })
                .await
            }
        }
    }

    /// Applies the facts that `make` gives for the object as the API server has it; none, when it has them.
    async fn apply<K, S>(&self, object: &K, make: impl Fn(&K) -> Option<S>) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        S: Serialize,
    {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(live) = api.get_opt(&name).await? else {
                return Ok(());
            };
            let Some(facts) = make(&live).filter(|_| live.uid() == object.uid()) else {
                return Ok(());
            };
            let patch = json!({
                "apiVersion": K::api_version(&()),
                "kind": K::kind(&()),
                "metadata": {"name": name, "namespace": namespace, "uid": object.uid()},
                "status": facts,
            });
            match api
                .patch_status(
                    &name,
                    &PatchParams::apply(REPORT_MANAGER).force(),
                    &Patch::Apply(&patch),
                )
                .await
            {
                Ok(_) => {
                    self.context.metrics.wrote_status(&K::kind(&()), REPORT_MANAGER);
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.code == 409 && tries < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The part of a status that reports own.
fn facts_of_agent(status: Option<&AgentStatus>) -> AgentStatus {
    let Some(status) = status.cloned() else {
        return AgentStatus::default();
    };
    let AgentStatus {
        running_digest,
        reported,
        protocol_versions,
        tools,
        last_run,
        ..
    } = status;
    AgentStatus {
        running_digest,
        reported,
        protocol_versions,
        tools,
        last_run,
        ..AgentStatus::default()
    }
}

/// The part of a status that reports own.
fn facts_of_server(status: Option<&McpServerStatus>) -> McpServerStatus {
    let Some(status) = status.cloned() else {
        return McpServerStatus::default();
    };
    let McpServerStatus {
        server_info,
        tools,
        tool_count,
        resource_count,
        reported,
        ..
    } = status;
    McpServerStatus {
        server_info,
        tools,
        tool_count,
        resource_count,
        reported,
        ..McpServerStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(uid: &str) -> Report {
        Report {
            pod_uid: uid.to_owned(),
            ..Report::default()
        }
    }

    #[test]
    fn an_older_pod_does_not_overwrite_what_the_newer_one_said() {
        let mut reports = Reports::default();
        let (old, new) = (Age::new(1, 1, 5), Age::new(1, 2, 5));
        for (uid, age) in [("old", old), ("new", new), ("old", old)] {
            reports.take(age, report(uid));
        }
        assert_eq!(reports.newest().unwrap().pod_uid, "new");
        assert_eq!(reports.version, 3);
    }

    #[test]
    fn a_deployment_that_was_made_again_counts_its_revisions_anew() {
        let mut reports = Reports::default();
        reports.take(Age::new(1, 7, 5), report("before"));
        reports.take(Age::new(2, 1, 9), report("after"));
        assert_eq!(reports.newest().unwrap().pod_uid, "after");
    }

    #[test]
    fn reports_of_pods_that_went_are_bounded() {
        let mut reports = Reports::default();
        for second in 0..100 {
            reports.take(Age::new(1, 1, second), report(&format!("p{second}")));
        }
        assert_eq!(reports.by_pod.len(), PODS);
        assert_eq!(reports.newest().unwrap().pod_uid, "p99");
    }
}
