//! The manifests of `manifests/samples`, in a namespace of a test's own, and the world outside that they reach.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::cluster::{cluster, repository};
use crate::command::run;
use crate::namespace::Namespace;
use crate::wait;

/// The samples that have a namespace, by file name, moved to `namespace`.
///
/// # Panics
/// When the folder can't be read.
#[must_use]
pub fn samples(namespace: &str) -> Vec<(String, String)> {
    let folder = repository().join("manifests/samples");
    let mut all: Vec<(String, String)> = fs::read_dir(&folder)
        .expect("manifests/samples")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name != "namespace.yaml"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a sample");
            let moved = text.replace("namespace: agentd-demo\n", &format!("namespace: {namespace}\n"));
            assert_ne!(text, moved, "{} names no namespace", path.display());
            (
                path.file_name().expect("a file").to_string_lossy().into_owned(),
                moved,
            )
        })
        .collect();
    all.sort();
    all
}

/// One of [`samples`].
///
/// # Panics
/// When there is none of that name.
#[must_use]
pub fn sample(namespace: &str, file: &str) -> String {
    samples(namespace)
        .into_iter()
        .find(|(name, _)| name == file)
        .unwrap_or_else(|| panic!("no sample {file}"))
        .1
}

/// Starts the world outside, if it does not run yet, and gives `namespace` what it needs to reach it: tokens and CA.
///
/// # Panics
/// When that fails.
pub fn reach_outside(namespace: &str) {
    let tools = std::env::var("PATH").unwrap_or_default();
    let finished = run(Command::new(repository().join("tests/demo/outside.sh"))
        .arg(namespace)
        .env("PATH", format!("{}:{tools}", cluster().tools().display()))
        .env("KUBECONFIG", cluster().kubeconfig()));
    finished.ok();
}

/// A namespace with all samples applied and Ready.
///
/// # Panics
/// When they do not get Ready.
pub async fn ready_namespace(prefix: &str) -> (Namespace, kube::Client) {
    let namespace = Namespace::new(prefix);
    reach_outside(namespace.name());
    for (_, yaml) in samples(namespace.name()) {
        let _ = cluster().apply(&yaml).ok();
    }
    let client = cluster().client().await;
    await_samples(&client, namespace.name()).await;
    (namespace, client)
}

/// Waits until all samples are Ready.
///
/// # Panics
/// When they do not get Ready.
pub async fn await_samples(client: &kube::Client, namespace: &str) {
    for (kind, name) in [
        ("McpServer", "everything"),
        ("Agent", "demo"),
        ("McpServer", "remote"),
    ] {
        let api = wait::resources(client, namespace, kind);
        wait::for_condition(&api, name, "Ready", "True", "", Duration::from_secs(120)).await;
    }
}
