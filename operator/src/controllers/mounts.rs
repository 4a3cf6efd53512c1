//! Secrets and ConfigMaps of a person, mounted as files: which keys, where, and the volumes. Pure.
//!
//! Guarantees: only the keys that are used are mounted; a Secret or ConfigMap that is not there keeps no pod from
//! starting; a reference cannot leave its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agentd_config::secret;
use agentd_crds::shared::{KeyReference, TextSource};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, KeyToPath, SecretVolumeSource, Volume, VolumeMount};

use crate::names;
use crate::problem::Problem;

/// Where ConfigMaps with roots are mounted: `<this>/<ConfigMap>/<key>`.
pub const ROOTS_FOLDER: &str = "/etc/agentd/ca";

/// Keys of Secrets and ConfigMaps that a pod mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    secrets: BTreeMap<String, BTreeSet<String>>,
    config_maps: BTreeMap<String, BTreeSet<String>>,
}

impl Mounts {
    /// Mounts a key of a Secret; the file's path.
    ///
    /// # Errors
    /// A problem that names `path` when name or key is not plain.
    pub fn secret(&mut self, path: &str, reference: &KeyReference) -> Result<PathBuf, Problem> {
        plain(path, reference)?;
        self.secrets
            .entry(reference.name.clone())
            .or_default()
            .insert(reference.key.clone());
        Ok(PathBuf::from(secret::POD_FOLDER)
            .join(&reference.name)
            .join(&reference.key))
    }

    /// Mounts a key of a ConfigMap; the file's path.
    ///
    /// # Errors
    /// As [`Self::secret`].
    pub fn config_map(&mut self, path: &str, reference: &KeyReference) -> Result<PathBuf, Problem> {
        plain(path, reference)?;
        self.config_maps
            .entry(reference.name.clone())
            .or_default()
            .insert(reference.key.clone());
        Ok(PathBuf::from(ROOTS_FOLDER)
            .join(&reference.name)
            .join(&reference.key))
    }

    /// Mounts what a source names; none when it names nothing.
    ///
    /// # Errors
    /// As [`Self::secret`].
    pub fn source(&mut self, path: &str, source: &TextSource) -> Result<Option<PathBuf>, Problem> {
        match source {
            TextSource {
                secret_key_ref: Some(reference),
                ..
            } => self.secret(path, reference).map(Some),
            TextSource {
                config_map_key_ref: Some(reference),
                ..
            } => self.config_map(path, reference).map(Some),
            TextSource {
                secret_key_ref: None,
                config_map_key_ref: None,
            } => Ok(None),
        }
    }

    /// Mounts the file that a document of ours names. One that is no key of a Secret or ConfigMap needs no mount.
    pub fn file(&mut self, file: &Path) {
        for (folder, kind) in [
            (secret::POD_FOLDER, &mut self.secrets),
            (ROOTS_FOLDER, &mut self.config_maps),
        ] {
            let inside = file.strip_prefix(folder).ok().and_then(Path::to_str);
            let Some((name, key)) = inside.and_then(|inside| inside.split_once('/')) else {
                continue;
            };
            let reference = KeyReference {
                name: name.to_owned(),
                key: key.to_owned(),
            };
            if plain("", &reference).is_ok() {
                kind.entry(reference.name).or_default().insert(reference.key);
            }
        }
    }

    /// Mounts what another needs, too.
    pub fn add(&mut self, other: Self) {
        let Self { secrets, config_maps } = other;
        for (name, keys) in secrets {
            self.secrets.entry(name).or_default().extend(keys);
        }
        for (name, keys) in config_maps {
            self.config_maps.entry(name).or_default().extend(keys);
        }
    }

    /// The volumes, in the order of names.
    pub fn volumes(&self) -> Vec<Volume> {
        let secrets = self.secrets.iter().map(|(name, keys)| Volume {
            name: volume_name("secret", name),
            secret: Some(SecretVolumeSource {
                secret_name: Some(name.clone()),
                items: Some(items(keys)),
                optional: Some(true),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
        let config_maps = self.config_maps.iter().map(|(name, keys)| Volume {
            name: volume_name("ca", name),
            config_map: Some(ConfigMapVolumeSource {
                name: name.clone(),
                items: Some(items(keys)),
                optional: Some(true),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        });
        secrets.chain(config_maps).collect()
    }

    /// Their mounts, in the same order.
    pub fn volume_mounts(&self) -> Vec<VolumeMount> {
        let mount = |kind: &str, folder: &str, name: &String| VolumeMount {
            name: volume_name(kind, name),
            mount_path: format!("{folder}/{name}"),
            read_only: Some(true),
            ..VolumeMount::default()
        };
        let secrets = self
            .secrets
            .keys()
            .map(|name| mount("secret", secret::POD_FOLDER, name));
        secrets
            .chain(
                self.config_maps
                    .keys()
                    .map(|name| mount("ca", ROOTS_FOLDER, name)),
            )
            .collect()
    }
}

/// The reference of a file, as the document writes it.
pub fn template(file: &Path) -> String {
    format!("{{{{secret-file:{}}}}}", file.display())
}

fn items(keys: &BTreeSet<String>) -> Vec<KeyToPath> {
    keys.iter()
        .map(|key| KeyToPath {
            key: key.clone(),
            path: key.clone(),
            mode: None,
        })
        .collect()
}

/// A Secret's name may be longer than a volume's.
fn volume_name(kind: &str, name: &str) -> String {
    format!("{kind}-{}", names::short_hash(name.as_bytes()))
}

/// The API server's schema says so too; nothing else keeps a key such as `../..` in its folder.
fn plain(path: &str, reference: &KeyReference) -> Result<(), Problem> {
    let plain = |text: &str| {
        !text.starts_with('.')
            && !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    if plain(&reference.name) && plain(&reference.key) {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "spec.{path}: name and key of a Secret or ConfigMap are letters, digits, -, _ and . ; write such a name"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, key: &str) -> KeyReference {
        KeyReference {
            name: name.into(),
            key: key.into(),
        }
    }

    #[test]
    fn one_volume_for_each_secret_with_the_keys_that_are_used() {
        let mut mounts = Mounts::default();
        assert_eq!(
            mounts.secret("p", &key("s", "b")).unwrap(),
            PathBuf::from("/etc/agentd/secrets/s/b")
        );
        mounts.secret("p", &key("s", "a")).unwrap();
        mounts.config_map("p", &key("s", "ca.crt")).unwrap();
        let volumes = mounts.volumes();
        assert_eq!(volumes.len(), 2);
        let keys: Vec<String> = volumes[0]
            .secret
            .iter()
            .flat_map(|s| s.items.iter().flatten())
            .map(|item| item.key.clone())
            .collect();
        assert_eq!(keys, ["a", "b"]);
        assert!(volumes.iter().all(|volume| volume.name.len() <= 63));
        assert_eq!(volumes.len(), mounts.volume_mounts().len());
        let mut again = Mounts::default();
        for file in [
            "/etc/agentd/secrets/s/a",
            "/etc/agentd/secrets/s/b",
            "/etc/agentd/ca/s/ca.crt",
            "/elsewhere/s/a",
        ] {
            again.file(Path::new(file));
        }
        assert_eq!(again, mounts);
    }

    #[test]
    fn a_key_cannot_leave_its_folder() {
        let mut mounts = Mounts::default();
        for bad in ["..", "../../var/run/agentd/token/token", "a/b", ".x", ""] {
            assert!(mounts.secret("p", &key("s", bad)).is_err(), "{bad}");
            assert!(mounts.secret("p", &key(bad, "k")).is_err(), "{bad}");
            mounts.file(&PathBuf::from(format!("/etc/agentd/secrets/s/{bad}")));
        }
        assert_eq!(mounts, Mounts::default());
    }
}
