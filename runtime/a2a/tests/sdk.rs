//! The listener judged by a client that we did not write: the official Python SDK (PyPI `a2a-sdk`), over TLS with a
//! client certificate. `TEST_PYTHON` names a Python that has it; else it is installed once per machine.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

// Shared with other crates, one of which is a library.
#[allow(unreachable_pub)]
#[path = "../../../tests/src/probes.rs"]
mod probes;
mod support;

use std::path::Path;
use std::process::Stdio;

use support::*;
use tokio::process::Command;

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");

async fn python() -> String {
    if let Ok(python) = std::env::var("TEST_PYTHON") {
        return python;
    }
    let install = Command::new(format!("{PEERS}/scripts/peers.sh"))
        .arg("python")
        .stderr(Stdio::inherit())
        .output();
    let installed = install.await.unwrap();
    assert!(
        installed.status.success(),
        "the Python peers could not be installed"
    );
    format!(
        "{}/bin/python",
        String::from_utf8(installed.stdout).unwrap().trim()
    )
}

/// Runs the probe as this caller; its exit code tells whether every check passed.
async fn probe(world: &World, own: Option<&str>, transport: &str, checks: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let url = format!("https://localhost:{}/agents/helper", world.address.port());
    let mut probe = Command::new(python().await);
    probe.arg(Path::new(PEERS).join("peers/python/a2a_sdk_probe.py"));
    probe.args([
        &url,
        "--transport",
        transport,
        "--text",
        "watched hi",
        "--slow-text",
        "hold",
        "--checks",
        checks,
        "--ca",
        &file("ca.pem", &world.authority.bundle().to_pem()),
    ]);
    if let Some(own) = own {
        let svid = svid(&world.authority, own, &[]);
        probe.args([
            "--cert",
            &file("svid.pem", &svid.chain_pem()),
            "--key",
            &file("svid.key", &svid.key_pem()),
        ]);
    }
    let run = probe.kill_on_drop(true).output().await.unwrap();
    (
        run.status.success(),
        String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned(),
    )
}

#[tokio::test]
async fn the_official_python_client_gets_its_answers() {
    let checks = [&probes::CHECKS[..], &["version"]].concat();
    for transport in ["JSONRPC", "HTTP+JSON"] {
        let world = World::start().await;
        let (passed, said) = probe(&world, Some(ALICE), transport, &checks.join(",")).await;
        assert!(passed, "{transport}: {said}");
        for check in &checks {
            // It looks at versions where it knows the URL.
            let asked = *check != "version" || transport == "JSONRPC";
            assert_eq!(probes::passed(&said, check), asked, "{transport} {check}: {said}");
        }
    }
}

#[tokio::test]
async fn the_official_python_client_is_refused_without_a_listed_certificate() {
    let world = World::start().await;
    let (passed, said) = probe(&world, None, "JSONRPC", "card,send").await;
    assert!(
        !passed && said.contains("401") && said.contains("ok card"),
        "{said}"
    );
    let (passed, said) = probe(&world, Some(MALLORY), "JSONRPC", "send").await;
    assert!(!passed && said.contains("403"), "{said}");
    assert!(world.agent.tasks.lock().unwrap().is_empty());
}
