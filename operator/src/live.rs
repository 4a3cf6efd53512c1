//! The live ConfigMaps: which lists of callers stand in them, how those of earlier revisions are kept current, and
//! whether a pod took one up. Pure.
//!
//! Guarantees: a document of an earlier revision keeps everything but the trust bundle and the lists of callers, and
//! its folder has no other file; where the spec cannot be acted on, callers leave a list and none comes in.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Map, Value};

use crate::rollout::mounted_config_maps;

/// Annotation of a pod: the digest that its live folder should have, and since when. Writing it makes the kubelet
/// refresh the pod's volumes at once.
pub const REQUESTED: &str = "agentd.io/live-requested";
/// How long a pod may take to report the digest: the kubelet's own period is about a minute.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The trust bundle in a live folder.
pub const BUNDLE: &str = "bundle.pem";

/// The files of a live folder, by name.
pub type Data = BTreeMap<String, String>;

/// Where a kind of pod keeps its list of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lists {
    /// The document's file.
    pub file: &'static str,
    /// The keys that lead to the list.
    path: &'static [&'static str],
}

/// An agent's.
pub const AGENT: Lists = Lists {
    file: "agentd.json",
    path: &["a2a", "principals"],
};
/// A bridge's.
pub const BRIDGE: Lists = Lists {
    file: "bridge.json",
    path: &["allowed"],
};

impl Lists {
    /// The folder of an earlier revision with bundle and callers of `fresh`; `None` when it has them already.
    pub fn refreshed(self, old: &Data, fresh: &Data) -> Option<Data> {
        let list = self.list(fresh.get(self.file)?)?;
        self.with(old, list, fresh.get(BUNDLE)?)
    }

    /// The folder with the current bundle and with those callers only that are in `valid`; `None` when nothing
    /// changes.
    pub fn narrowed(self, old: &Data, valid: &[Value], bundle: &str) -> Option<Data> {
        let kept = self
            .list(old.get(self.file)?)?
            .into_iter()
            .filter(|entry| valid.contains(entry))
            .collect();
        self.with(old, kept, bundle)
    }

    fn with(self, old: &Data, list: Vec<Value>, bundle: &str) -> Option<Data> {
        let mut new = old.clone();
        // A file that somebody else added would make the folder another one than was written.
        new.retain(|name, _| name == self.file || name == BUNDLE);
        let text = old.get(self.file)?;
        if self.list(text)? != list {
            let mut document: Value = serde_json::from_str(text).ok()?;
            let mut place = &mut document;
            for key in self.path {
                place = place
                    .as_object_mut()?
                    .entry(*key)
                    .or_insert_with(|| Value::Object(Map::new()));
            }
            *place = Value::Array(list);
            new.insert(self.file.to_owned(), document.to_string());
        }
        if old.get(BUNDLE).map(String::as_str) != Some(bundle) {
            new.insert(BUNDLE.to_owned(), bundle.to_owned());
        }
        (new != *old).then_some(new)
    }

    /// The list; empty where the document has none. `None` when the text is no document.
    fn list(self, text: &str) -> Option<Vec<Value>> {
        let document: Value = serde_json::from_str(text).ok()?;
        let list = self.path.iter().try_fold(&document, |place, key| place.get(*key));
        Some(list.and_then(Value::as_array).cloned().unwrap_or_default())
    }
}

/// What a pod said about its live folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// The pod that said it.
    pub pod_uid: String,
    /// The digest it runs with.
    pub running: Option<String>,
    /// The digest it refused.
    pub rejected: Option<String>,
}

/// What is to be done so that pods take up a live ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uptake {
    /// Pods whose annotation has to be written.
    pub hurry: Vec<String>,
    /// When to look again.
    pub until: Option<Timestamp>,
    /// A pod did not take it up in time: only a new pod will.
    pub overdue: bool,
}

/// Looks at the pods that mount the ConfigMap `name`, whose content has this digest. `written`: just now, by us.
pub fn uptake<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    name: &str,
    digest: &str,
    said: Option<&Said>,
    written: bool,
    now: Timestamp,
) -> Uptake {
    let mut uptake = Uptake::default();
    for pod in pods {
        if pod.metadata.deletion_timestamp.is_some()
            || !mounted_config_maps(pod.spec.as_ref()).contains(&name)
        {
            continue;
        }
        let said = said.filter(|said| pod.uid().as_ref() == Some(&said.pod_uid));
        let is = |digest_said: &Option<String>| digest_said.as_deref() == Some(digest);
        if said.is_some_and(|said| is(&said.running) || is(&said.rejected)) {
            continue;
        }
        let requested = pod
            .annotations()
            .get(REQUESTED)
            .and_then(|text| text.split_once(' '));
        let since = requested
            .filter(|(asked, _)| *asked == digest)
            .and_then(|(_, since)| since.parse().ok());
        match since {
            // A pod that says nothing may well run it.
            Some(_) if said.is_none() => {}
            // A time that is not yet was written by somebody else.
            Some(since) => {
                let since = Timestamp::min(since, now);
                let deadline = since.checked_add(PATIENCE).unwrap_or(now);
                if now >= deadline {
                    uptake.overdue = true;
                } else {
                    uptake.until = Some(uptake.until.map_or(deadline, |until| until.min(deadline)));
                }
            }
            None if written || said.is_some() => {
                uptake.hurry.push(pod.name_any());
                let deadline = now.checked_add(PATIENCE).unwrap_or(now);
                uptake.until = Some(uptake.until.map_or(deadline, |until| until.min(deadline)));
            }
            None => {}
        }
    }
    uptake
}

/// The value of the annotation [`REQUESTED`].
pub fn request(digest: &str, now: Timestamp) -> String {
    format!(
        "{digest} {}",
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    )
}

#[cfg(test)]
mod tests;
