//! Calling an agent from outside of it: with the official Python client and with our own, and getting an identity first.

use std::path::Path;

use tempfile::TempDir;

use crate::cluster::{cluster, repository};
use crate::command::{Finished, run};
use crate::install;

/// The identity of a caller: a folder with `key.pem`, `svid.pem` and `bundle.pem`.
#[derive(Debug)]
pub struct Identity(TempDir);

impl Identity {
    /// Where the three files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}

/// Asks the issuer for an identity with the token of a ServiceAccount.
///
/// # Errors
/// What `agentd` said when it got none.
pub fn fetch_identity(namespace: &str, service_account: &str) -> Result<Identity, String> {
    let folder = TempDir::new().expect("a folder");
    let finished = run(cluster()
        .on_node(1, install::agentd())
        .args([
            "identity",
            "fetch",
            "--namespace",
            namespace,
            "--service-account",
            service_account,
        ])
        .args(["--install-namespace", &install::namespace(), "--out"])
        .arg(folder.path()));
    if finished.code == 0 {
        Ok(Identity(folder))
    } else {
        Err(finished.failed())
    }
}

/// Asks the issuer for an identity with this token, in place of one that `kubectl` makes.
///
/// # Errors
/// What `agentd` said when it got none.
pub fn fetch_with_token(namespace: &str, token: &str) -> Result<Identity, String> {
    let folder = TempDir::new().expect("a folder");
    let bundle = cluster()
        .kubectl([
            "--namespace",
            namespace,
            "get",
            "configmap",
            "agentd-bundle",
            "-o",
            "json",
        ])
        .ok();
    let bundle: serde_json::Value = serde_json::from_str(&bundle).expect("JSON");
    let said = |key: &str| {
        bundle["data"][key]
            .as_str()
            .expect("a key of agentd-bundle")
            .to_owned()
    };
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let finished = run(cluster()
        .on_node(1, install::agentd())
        .args(["identity", "fetch", "--issuer-url", &said("issuer-url")])
        .args(["--issuer-id", &said("issuer-id"), "--bundle"])
        .arg(file("roots.pem", &said("bundle.pem")))
        .arg("--token-file")
        .arg(file("token", token))
        .arg("--out")
        .arg(folder.path()));
    if finished.code == 0 {
        Ok(Identity(folder))
    } else {
        Err(finished.failed())
    }
}

/// Sends `text` with the official Python client.
pub fn ask_with_sdk(url: &str, text: &str, identity: &Identity) -> Finished {
    let file = |name: &str| identity.folder().join(name);
    run(cluster()
        .on_node(1, install::python())
        .arg(repository().join("tests/demo/message.py"))
        .args([url, text])
        .arg("--ca")
        .arg(file("bundle.pem"))
        .arg("--cert")
        .arg(file("svid.pem"))
        .arg("--key")
        .arg(file("key.pem")))
}

/// Sends `text` with `agentd a2a send`.
pub fn ask(url: &str, server_id: &str, text: &str, identity: &Identity) -> Finished {
    run(cluster()
        .on_node(1, install::agentd())
        .args(["a2a", "send", url, text, "--server-id", server_id, "--identity"])
        .arg(identity.folder()))
}

/// An HTTP request by curl, from node 1, with these extra arguments. `stdout` ends with the status code.
///
/// A connection that is refused is tried again for a while: a pod is Ready a moment before every node has learnt that its
/// Service has an endpoint.
pub fn curl(url: &str, arguments: &[&str]) -> Finished {
    run(cluster()
        .on_node(1, "curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "10",
            "--retry",
            "10",
            "--retry-connrefused",
            "--retry-max-time",
            "30",
            "--write-out",
            "\n%{http_code}",
        ])
        .args(arguments)
        .arg(url))
}
