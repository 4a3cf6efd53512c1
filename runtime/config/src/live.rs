//! The live folder: a ConfigMap as the kubelet mounts it, or any folder. It is read whole or not at all: the kubelet
//! swaps the link `..data` in one step and removes the old content afterwards, so what was read is whole when the link
//! still points to the same place at the end.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use agentd_base::class::{Class, Classified};

/// The content of a ConfigMap is at most 1 MiB.
const FOLDER_BYTES: u64 = 1024 * 1024;
/// The operator writes three files; people may add some.
const FOLDER_FILES: usize = 64;
/// A kubelet swaps once a minute at most; more swaps than this during one read are a fault.
const ATTEMPTS: usize = 5;

/// The content of a live folder at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Where it was read.
    pub folder: PathBuf,
    /// Its files by name; hidden ones left out.
    pub files: BTreeMap<String, Vec<u8>>,
    /// [`agentd_base::digest::of_files`] of them.
    pub digest: String,
}

/// Why a folder was not read.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The folder or a file in it cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// More than the bounds.
    #[error("{} holds more than {FOLDER_FILES} files or {FOLDER_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// It changed during every attempt.
    #[error("{} changed while it was read, {ATTEMPTS} times", .0.display())]
    Restless(PathBuf),
}

impl Classified for LiveError {
    fn class(&self) -> Class {
        match self {
            Self::Unreadable { .. } | Self::Restless(_) => Class::Unavailable,
            Self::TooLarge(_) => Class::Invalid,
        }
    }
}

/// Reads a folder, whole or not at all.
pub fn read(folder: &Path) -> Result<Live, LiveError> {
    let mut last = LiveError::Restless(folder.to_owned());
    for _ in 0..ATTEMPTS {
        let before = generation(folder);
        match read_once(&before, folder) {
            Ok(files) if generation(folder) == before => {
                let digest = agentd_base::digest::of_files(&files);
                return Ok(Live {
                    folder: folder.to_owned(),
                    files,
                    digest,
                });
            }
            Err(error @ LiveError::TooLarge(_)) => return Err(error),
            Err(error) if generation(folder) == before => return Err(error),
            Ok(_) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Where the content is: the target of `..data` where there is one, else the folder itself with the time of its last
/// change.
#[derive(PartialEq, Eq)]
enum Generation {
    Link(PathBuf),
    Plain(Option<std::time::SystemTime>),
}

fn generation(folder: &Path) -> Generation {
    match std::fs::read_link(folder.join("..data")) {
        Ok(target) => Generation::Link(folder.join(target)),
        Err(_) => Generation::Plain(std::fs::metadata(folder).and_then(|data| data.modified()).ok()),
    }
}

fn read_once(generation: &Generation, folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, LiveError> {
    let place = match generation {
        Generation::Link(target) => target.as_path(),
        Generation::Plain(_) => folder,
    };
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| LiveError::Unreadable { path, source }
    };
    let mut files = BTreeMap::new();
    let mut left = FOLDER_BYTES;
    for entry in std::fs::read_dir(place).map_err(unreadable(place))? {
        let path = entry.map_err(unreadable(place))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if name.starts_with('.') || !path.is_file() {
            continue;
        }
        let mut content = Vec::new();
        let file = std::fs::File::open(&path).map_err(unreadable(&path))?;
        file.take(left + 1)
            .read_to_end(&mut content)
            .map_err(unreadable(&path))?;
        left = u64::try_from(content.len())
            .ok()
            .and_then(|length| left.checked_sub(length))
            .filter(|_| files.len() < FOLDER_FILES)
            .ok_or_else(|| LiveError::TooLarge(folder.to_owned()))?;
        files.insert(name.to_owned(), content);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder as the kubelet makes it: a dated folder, `..data` to it, and a link for each file through `..data`.
    fn mount(folder: &Path, dated: &str, files: &[(&str, &str)]) {
        std::fs::create_dir(folder.join(dated)).unwrap();
        for (name, content) in files {
            std::fs::write(folder.join(dated).join(name), content).unwrap();
            let _ = symlink(Path::new("..data").join(name), folder.join(name));
        }
        symlink(dated, folder.join("..data_tmp")).unwrap();
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    }

    #[test]
    fn a_mounted_config_map_has_the_digest_of_its_data() {
        let folder = tempfile::tempdir().unwrap();
        mount(
            folder.path(),
            "..2026_01",
            &[("agentd.json", "{}"), ("bundle.pem", "PEM")],
        );
        let live = read(folder.path()).unwrap();
        let data = BTreeMap::from([("agentd.json", "{}"), ("bundle.pem", "PEM")]);
        assert_eq!(live.digest, agentd_base::digest::of_files(&data));
        assert_eq!(
            live.files.keys().collect::<Vec<_>>(),
            ["agentd.json", "bundle.pem"]
        );

        mount(
            folder.path(),
            "..2026_02",
            &[("agentd.json", "{\"a\":1}"), ("bundle.pem", "NEW")],
        );
        std::fs::remove_dir_all(folder.path().join("..2026_01")).unwrap();
        let next = read(folder.path()).unwrap();
        assert_eq!(next.files["bundle.pem"], b"NEW");
        assert_ne!(next.digest, live.digest);
    }

    #[test]
    fn a_swap_in_the_middle_is_never_seen_as_half() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        mount(&path, "..0", &[("a", "0"), ("b", "0"), ("c", "0")]);
        let writer = std::thread::spawn(move || {
            for round in 1..200 {
                let text = round.to_string();
                mount(
                    &path,
                    &format!("..{round}"),
                    &[("a", &text), ("b", &text), ("c", &text)],
                );
                std::fs::remove_dir_all(path.join(format!("..{}", round - 1))).unwrap();
            }
        });
        let mut reads = 0;
        while !writer.is_finished() || reads == 0 {
            // Restless is an honest answer under this load; a mixed or partial folder is not.
            if let Ok(live) = read(folder.path()) {
                assert_eq!(live.files.len(), 3);
                assert!(live.files["a"] == live.files["b"] && live.files["b"] == live.files["c"]);
                reads += 1;
            }
        }
        writer.join().unwrap();
    }

    #[test]
    fn a_plain_folder_its_bounds_and_its_absence() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("agentd.yaml"), "agent: {}").unwrap();
        std::fs::write(folder.path().join(".hidden"), "x").unwrap();
        assert_eq!(read(folder.path()).unwrap().files.len(), 1);
        std::fs::write(folder.path().join("large"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
        assert!(matches!(read(folder.path()), Err(LiveError::TooLarge(_))));
        assert!(matches!(
            read(&folder.path().join("none")),
            Err(LiveError::Unreadable { .. })
        ));
    }
}
