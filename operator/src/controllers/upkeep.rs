//! The pairs of ConfigMaps of one object: those that pods of earlier revisions mount are kept current, those that
//! nothing names are removed, and pods are hurried to take up what was written. What to write is decided in
//! [`crate::live`].

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::engine::ReconcileError;
use crate::context::Context;
use crate::labels::{FIELD_MANAGER, REVISION};
use crate::live::{self, Data, Lists, Said, Uptake};
use crate::owned;
use crate::rollout::{controller, mounted_config_maps};

/// Whose pairs of ConfigMaps.
#[derive(Debug)]
pub(super) struct Upkeep<'a> {
    pub(super) context: &'a Context,
    /// The owner's namespace.
    pub(super) namespace: &'a str,
    /// The owner's UID.
    pub(super) uid: &'a str,
    /// The label that its objects carry.
    pub(super) label: (&'static str, &'a str),
    /// Where its lists of callers stand.
    pub(super) lists: Lists,
    /// What its pod said.
    pub(super) said: Option<Said>,
}

impl Upkeep<'_> {
    /// Brings bundle and callers of `fresh`, which is the ConfigMap `current`, into the pairs of earlier revisions.
    pub(super) async fn refresh(&self, current: &str, fresh: &Data) -> Result<(), ReconcileError> {
        self.rewrite(Some(current), |old| self.lists.refreshed(old, fresh))
            .await
    }

    /// Takes callers that are not in `valid` out of every pair.
    pub(super) async fn narrow(&self, valid: &[Value]) -> Result<(), ReconcileError> {
        let bundle = self.context.bundle_pem();
        self.rewrite(None, |old| self.lists.narrowed(old, valid, &bundle))
            .await
    }

    /// Sees to it that pods take up a live ConfigMap.
    pub(super) async fn take_up(
        &self,
        name: &str,
        digest: &str,
        written: bool,
    ) -> Result<Uptake, ReconcileError> {
        let now = self.context.clock.now();
        let pods = self.pods();
        let uptake = live::uptake(
            pods.iter().map(AsRef::as_ref),
            name,
            digest,
            self.said.as_ref(),
            written,
            now,
        );
        for pod in &uptake.hurry {
            hurry(
                &self.context.client,
                self.namespace,
                pod,
                &live::request(digest, now),
            )
            .await?;
        }
        Ok(uptake)
    }

    /// Removes the ConfigMaps of revisions that no ReplicaSet and no pod names; `current` are those of this one.
    pub(super) async fn prune(&self, current: [&str; 2]) -> Result<(), ReconcileError> {
        let pods = self.pods();
        let sets = self
            .context
            .world
            .replica_sets_of(self.namespace, self.label.0, self.label.1);
        let templates = sets
            .iter()
            .filter_map(|set| set.spec.as_ref()?.template.as_ref()?.spec.as_ref());
        let specs = templates.chain(pods.iter().filter_map(|pod| pod.spec.as_ref()));
        let named: BTreeSet<&str> = specs
            .flat_map(|spec| mounted_config_maps(Some(spec)))
            .chain(current)
            .collect();
        for name in self.owned() {
            if !named.contains(name.as_str()) {
                let Context { client, metrics, .. } = self.context;
                owned::remove::<ConfigMap>(client, metrics, self.namespace, &name, self.uid).await?;
            }
        }
        Ok(())
    }

    async fn rewrite(
        &self,
        except: Option<&str>,
        decide: impl Fn(&Data) -> Option<Data>,
    ) -> Result<(), ReconcileError> {
        let pods = self.pods();
        let mounted: BTreeSet<&str> = pods
            .iter()
            .flat_map(|pod| mounted_config_maps(pod.spec.as_ref()))
            .collect();
        let maps: Api<ConfigMap> = Api::namespaced(self.context.client.clone(), self.namespace);
        for name in self.owned() {
            if except == Some(name.as_str()) || !mounted.contains(name.as_str()) {
                continue;
            }
            let Some(map) = maps.get_opt(&name).await? else {
                continue;
            };
            let ours = controller(&map.metadata).is_some_and(|owner| owner.uid == self.uid);
            let old = map.data.unwrap_or_default();
            if !ours || map.immutable == Some(true) || !old.contains_key(self.lists.file) {
                continue;
            }
            let Some(new) = decide(&old) else { continue };
            let patch = json!({"metadata": {"resourceVersion": map.metadata.resource_version}, "data": difference(&old, &new)});
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            maps.patch(&name, &params, &Patch::Merge(&patch)).await?;
            self.context.metrics.wrote("ConfigMap");
            tracing::info!(event = "live.refreshed", object.name = %name);
            self.take_up(&name, &agentd_base::digest::of_files(&new), true)
                .await?;
        }
        Ok(())
    }

    /// The names of its ConfigMaps.
    fn owned(&self) -> Vec<String> {
        let maps = self.context.world.config_maps.state_filter(|map| {
            map.metadata.namespace.as_deref() == Some(self.namespace)
                && map.labels().contains_key(REVISION)
                && controller(&map.metadata).is_some_and(|owner| owner.uid == self.uid)
        });
        let mut names: Vec<String> = maps.iter().map(|map| map.name_any()).collect();
        names.sort();
        names
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        self.context
            .world
            .pods_of(self.namespace, self.label.0, self.label.1)
    }
}

/// A merge patch of the data: what is not in `new` goes.
fn difference(old: &Data, new: &Data) -> Value {
    let gone = old.keys().map(|name| (name.clone(), Value::Null));
    let kept = new
        .iter()
        .map(|(name, text)| (name.clone(), Value::String(text.clone())));
    gone.chain(kept).collect()
}

/// Writes the annotation that makes the kubelet refresh a pod's volumes. A pod that went meanwhile needs nothing.
async fn hurry(client: &Client, namespace: &str, pod: &str, value: &str) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let patch = json!({"metadata": {"annotations": {live::REQUESTED: value}}});
    match pods
        .patch_metadata(pod, &PatchParams::default(), &Patch::Merge(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}
