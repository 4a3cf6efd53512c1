//! Calling an agent from outside of it: with the official Python client and with our own, and getting an identity first.
//!
//! A pod is Ready a moment before every node has learnt that its Service has an endpoint, and until then the node refuses
//! connections. So what calls here waits for the node first, and then calls once: every other fault is seen.

use std::path::Path;

use http::Uri;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{cluster, repository};
use crate::command::{Finished, run};
use crate::install;
use crate::namespace::Namespace;

/// An agent where its status says that it is.
#[derive(Debug)]
pub struct Agent {
    url: String,
    id: String,
}

impl Agent {
    /// The agent of that name, once node 1 connects to it.
    ///
    /// # Panics
    /// When its status has no address, or node 1 does not connect.
    #[must_use]
    pub fn of(namespace: &Namespace, name: &str) -> Self {
        let agent = format!("agents.agentd.io/{name}");
        let agent: Value =
            serde_json::from_str(&namespace.kubectl(&["get", &agent, "-o", "json"]).ok()).expect("JSON");
        let text = |key: &str| match &agent["status"][key] {
            Value::String(text) => text.clone(),
            _ => panic!("no {key} in the status: {agent:#}"),
        };
        let (url, id) = (text("url"), text("spiffeID"));
        connected(&url);
        Self { url, id }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its SPIFFE ID.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// Waits until node 1 connects to the Service of a URL.
fn connected(url: &str) {
    let uri: Uri = url.parse().expect("a URL");
    let port = uri.port_u16().unwrap_or(443).to_string();
    let each = "until timeout 2 bash -c 'exec 3<>\"/dev/tcp/$0/$1\"' \"$0\" \"$1\"; do sleep 0.1; done";
    run(cluster()
        .on_node(1, "timeout")
        .args(["30", "bash", "-c", each, uri.host().expect("a host"), &port]))
    .ok();
}

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
    connected(&Issuer::told(namespace).said("issuer-url"));
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
    let issuer = Issuer::told(namespace);
    let url = issuer.said("issuer-url");
    connected(&url);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let finished = run(cluster()
        .on_node(1, install::agentd())
        .args(["identity", "fetch", "--issuer-url", &url])
        .args(["--issuer-id", &issuer.said("issuer-id"), "--bundle"])
        .arg(file("roots.pem", &issuer.said("bundle.pem")))
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

/// What a namespace is told of the issuer.
struct Issuer(Value);

impl Issuer {
    fn told(namespace: &str) -> Self {
        let bundle = [
            "--namespace",
            namespace,
            "get",
            "configmap",
            "agentd-bundle",
            "-o",
            "json",
        ];
        Self(serde_json::from_str(&cluster().kubectl(bundle).ok()).expect("JSON"))
    }

    fn said(&self, key: &str) -> String {
        self.0["data"][key]
            .as_str()
            .expect("a key of agentd-bundle")
            .to_owned()
    }
}

/// Sends `text` with the official Python client.
pub fn ask_with_sdk(agent: &Agent, text: &str, identity: &Identity) -> Finished {
    let file = |name: &str| identity.folder().join(name);
    run(cluster()
        .on_node(1, install::python())
        .arg(repository().join("tests/demo/message.py"))
        .args([agent.url(), text])
        .arg("--ca")
        .arg(file("bundle.pem"))
        .arg("--cert")
        .arg(file("svid.pem"))
        .arg("--key")
        .arg(file("key.pem")))
}

/// Sends `text` with `agentd a2a send`.
pub fn ask(agent: &Agent, text: &str, identity: &Identity) -> Finished {
    run(cluster()
        .on_node(1, install::agentd())
        .args(["a2a", "send", agent.url(), text])
        .args(["--server-id", agent.id(), "--identity"])
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

/// The result of a call of A2A, by JSON-RPC.
///
/// # Panics
/// When there is none.
pub fn call(agent: &Agent, identity: &Identity, method: &str, params: &Value) -> Value {
    let path = |name: &str| identity.folder().join(name).to_str().expect("UTF-8").to_owned();
    let (ca, cert, key) = (path("bundle.pem"), path("svid.pem"), path("key.pem"));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let tls = ["--cacert", &ca, "--cert", &cert, "--key", &key];
    let headers = [
        "--header",
        "content-type: application/json",
        "--header",
        "a2a-version: 1.0",
    ];
    let answer = curl(agent.url(), &[&tls[..], &headers, &["--data", &body]].concat()).ok();
    let (body, _) = answer.rsplit_once('\n').expect("a status");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert!(body["result"].is_object(), "{body:#}");
    body["result"].clone()
}
