//! The two ConfigMaps of a revision. Pure.
//!
//! Guarantees: the first is immutable and named by what needs a new pod, so that no pod reads a document made for
//! another revision; the second is written in place, and its digest is what the pod reports.

use std::collections::BTreeMap;

use agentd_base::digest;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec};
use serde::Serialize;

use super::subject::Subject;
use super::workload::{BUNDLE_FILE, Pair};
use crate::{labels, names};

/// A document in its two halves, as the pod's files hold them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halves {
    /// `agentd.json` or `bridge.json`, the same in both folders.
    pub file: &'static str,
    /// What needs a new process.
    pub restart_only: String,
    /// What a running process takes up.
    pub reloadable: String,
    /// The trust bundle, PEM.
    pub bundle_pem: String,
}

/// What is made of the halves and a pod template.
#[derive(Debug, Clone)]
pub struct Revision {
    /// Over the restart-only half and the rest of the pod template.
    pub hash: String,
    /// The immutable ConfigMap.
    pub config: ConfigMap,
    /// The live one.
    pub live: ConfigMap,
    /// The digest of the live one.
    pub config_digest: String,
    /// The template, which mounts the two.
    pub template: PodTemplateSpec,
}

/// Makes a revision. `template` is asked twice: for the hash with names that say nothing, then with the names of the
/// pair.
///
/// # Errors
/// When the template cannot be written as JSON.
pub fn revision(
    subject: &Subject,
    halves: &Halves,
    template: impl Fn(Pair<'_>) -> PodTemplateSpec,
) -> Result<Revision, serde_json::Error> {
    #[derive(Serialize)]
    struct Hashed<'a> {
        restart_only: &'a str,
        template: PodTemplateSpec,
    }
    let hashed = Hashed {
        restart_only: &halves.restart_only,
        template: template(Pair { config: "", live: "" }),
    };
    let hash = names::short_hash(&serde_json::to_vec(&hashed)?);
    let (config, live) = (
        names::config(&subject.made, &hash),
        names::live(&subject.made, &hash),
    );
    let template = template(Pair {
        config: &config,
        live: &live,
    });
    let files = BTreeMap::from([
        (halves.file.to_owned(), halves.reloadable.clone()),
        (BUNDLE_FILE.to_owned(), halves.bundle_pem.clone()),
    ]);
    let config_digest = digest::of_files(&files);
    let map = |name: &str, data, immutable| {
        let mut metadata = subject.metadata(name);
        metadata
            .labels
            .get_or_insert_default()
            .insert(labels::REVISION.to_owned(), hash.clone());
        ConfigMap {
            metadata,
            data: Some(data),
            immutable,
            binary_data: None,
        }
    };
    Ok(Revision {
        config: map(
            &config,
            BTreeMap::from([(halves.file.to_owned(), halves.restart_only.clone())]),
            Some(true),
        ),
        live: map(&live, files, None),
        hash,
        config_digest,
        template,
    })
}
