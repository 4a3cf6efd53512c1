//! Reading what a person names, within bounds: of size always, and of time where a pipe may keep us waiting. A device
//! has no end and a FIFO without a writer no beginning, so nothing but files is read, and pipes only where they are of
//! use (`-c <(...)`).

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use zeroize::{Zeroize as _, Zeroizing};

/// What a shell runs for `<(...)` may ask a vault first; longer than this nobody waits for a start.
pub const PIPE_WAIT: Duration = Duration::from_secs(30);

/// Why something was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// There is nothing of this name.
    #[error("does not exist")]
    NotFound,
    /// The system says no.
    #[error("cannot be read ({0})")]
    Unreadable(ErrorKind),
    /// A folder, a device, a socket, or a pipe where none is of use.
    #[error("is not a regular file")]
    NotAFile,
    /// It has more bytes than this.
    #[error("is larger than {0} bytes")]
    TooLarge(usize),
    /// Nobody wrote to the pipe, or not to its end.
    #[error("is a pipe that did not end within {} s", PIPE_WAIT.as_secs())]
    Silent,
}

impl Classified for FileError {
    fn class(&self) -> Class {
        match self {
            Self::NotFound | Self::Unreadable(_) | Self::Silent => Class::Unavailable,
            Self::NotAFile | Self::TooLarge(_) => Class::Invalid,
        }
    }
}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::NotFound,
            kind => Self::Unreadable(kind),
        }
    }
}

/// A regular file of at most so many bytes; links are followed. What was read of one that is refused is wiped.
pub fn read(path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, FileError> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(FileError::NotAFile);
    }
    bounded(std::fs::File::open(path)?, limit)
}

/// Whether a pipe has this name.
pub(crate) fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.file_type().is_fifo())
}

/// What a pipe holds, to its end. One that has no end in time is left to a thread that ends with the process.
pub(crate) fn drain(path: &Path, limit: usize, wait: Duration) -> Result<Vec<u8>, FileError> {
    let (tell, told) = mpsc::sync_channel(1);
    let path = path.to_owned();
    let reader = std::thread::Builder::new().spawn(move || {
        let read = std::fs::File::open(path)
            .map_err(FileError::from)
            .and_then(|pipe| bounded(pipe, limit));
        // Nobody waits any more.
        let _ = tell.send(read);
    });
    reader?;
    let mut content = told.recv_timeout(wait).map_err(|_| FileError::Silent)??;
    Ok(std::mem::take(&mut *content))
}

fn bounded(source: std::fs::File, limit: usize) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let mut content = Zeroizing::new(Vec::new());
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    source.take(most).read_to_end(&mut content)?;
    if content.len() > limit {
        content.zeroize();
        return Err(FileError::TooLarge(limit));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifo(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    #[test]
    fn a_file_to_its_bound_and_nothing_but_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        assert_eq!(read(&folder.path().join("link"), 5).unwrap().as_slice(), b"12345");
        assert_eq!(read(&path, 4), Err(FileError::TooLarge(4)));
        assert_eq!(read(Path::new("/dev/zero"), 4), Err(FileError::NotAFile));
        assert_eq!(read(folder.path(), 4), Err(FileError::NotAFile));
        assert_eq!(read(&fifo(folder.path()), 4), Err(FileError::NotAFile));
        assert_eq!(read(&folder.path().join("none"), 4), Err(FileError::NotFound));
    }

    #[test]
    fn a_pipe_to_its_end_its_bound_or_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(folder.path());
        assert!(is_pipe(&path) && !is_pipe(folder.path()));
        for (bound, expected) in [(5, Ok(b"12345".to_vec())), (4, Err(FileError::TooLarge(4)))] {
            let to = path.clone();
            let writer = std::thread::spawn(move || std::fs::write(to, "12345"));
            assert_eq!(drain(&path, bound, PIPE_WAIT), expected);
            writer.join().unwrap().unwrap();
        }
        assert_eq!(drain(&path, 5, Duration::from_millis(1)), Err(FileError::Silent));
    }
}
