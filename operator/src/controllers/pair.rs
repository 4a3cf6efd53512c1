//! The two ConfigMaps of a revision. Pure.
//!
//! Guarantees: the first is immutable and named by what needs a new pod, so that no pod reads a document made for
//! another revision; the second is written in place, and its digest is what the pod reports. What is rendered was read
//! again by the pod's own types.

use std::collections::BTreeMap;

use agentd_base::digest;
use agentd_config::document::Document;
use agentd_config::reload;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::subject::Subject;
use super::workload::{BUNDLE_FILE, Pair};
use crate::problem::Problem;
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

impl Halves {
    /// Reads the two texts as the pod will. What its own types would refuse, or read as something else than was meant, is
    /// a problem of the spec and not of the pod.
    ///
    /// # Errors
    /// [`Problem`] with the runtime's own words.
    pub fn reread<T: DeserializeOwned + PartialEq>(&self, meant: &T) -> Result<(), Problem> {
        let read = || -> Result<T, serde_json::Error> {
            let mut whole: Value = serde_json::from_str(&self.restart_only)?;
            reload::merge_patch(&mut whole, &serde_json::from_str(&self.reloadable)?);
            serde_json::from_value(whole)
        };
        match read() {
            Ok(read) if read == *meant => Ok(()),
            Ok(_) => Err(Problem::invalid(
                "the rendered document would be read as another one; write the spec's values in a plainer form",
            )),
            Err(error) => Err(Problem::invalid(format!(
                "the rendered document would be refused: {error}"
            ))),
        }
    }
}

/// The halves of an Agent's document.
///
/// # Errors
/// [`Problem`] when it cannot be written, or not be read again.
pub fn halves(file: &'static str, document: &Document, bundle_pem: &str) -> Result<Halves, Problem> {
    let halves = reload::split(document).and_then(|halves| {
        Ok(Halves {
            file,
            restart_only: serde_json::to_string(&halves.restart_only)?,
            reloadable: serde_json::to_string(&halves.reloadable)?,
            bundle_pem: bundle_pem.to_owned(),
        })
    });
    let halves =
        halves.map_err(|error| Problem::invalid(format!("the document cannot be written: {error}")))?;
    halves.reread(document)?;
    Ok(halves)
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

#[cfg(test)]
mod tests {
    use agentd_base::duration::Duration;
    use agentd_config::document::RunLimits;

    use super::*;

    fn document(deadline: &str) -> Document {
        let mut document = Document::default();
        document.limits.run = RunLimits {
            deadline: Some(deadline.parse().unwrap()),
            ..RunLimits::default()
        };
        document
    }

    /// Every duration that the schema lets in is written so that a pod reads it again.
    #[test]
    fn the_longest_durations_survive_being_written() {
        for text in [
            "999999999ms",
            "999999999s",
            "999999999m",
            "999999999h",
            "999999999d",
            "41666667d",
        ] {
            let document = document(text);
            let halves = halves("agentd.json", &document, "").unwrap();
            assert_eq!(halves.reread(&document), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_the_pod_would_refuse_or_read_differently_is_told_before_it_is_applied() {
        let meant = document("1h");
        let rendered = |deadline: &str| Halves {
            file: "agentd.json",
            restart_only: "{}".to_owned(),
            reloadable: format!(r#"{{"limits": {{"run": {{"deadline": {deadline}}}}}}}"#),
            bundle_pem: String::new(),
        };
        assert_eq!(rendered(r#""60m""#).reread(&meant), Ok(()));
        let refused = rendered(r#""1000000008h""#).reread(&meant).unwrap_err();
        assert!(
            refused
                .message
                .contains("would be refused: `1000000008h` is not a duration"),
            "{}",
            refused.message
        );
        let lost = rendered("null").reread(&meant).unwrap_err();
        assert!(lost.message.contains("read as another one"), "{}", lost.message);
        assert_eq!(meant.limits.run.deadline, Some(Duration::secs(3600)));
    }
}
