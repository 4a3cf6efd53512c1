//! What is done by `kubectl`, with one that is ours.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::install::Install;
use crate::pod::Pod;
use crate::process::PROGRAM;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A `kubectl` that knows what this test's install would say, and forwards to this port.
fn fake_kubectl(folder: &Path, install: &Install, port: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let data = json!({ "data": {
        "bundle.pem": install.bundle(), "trust-domain": install.trust_domain, "audience": "agentd:agentd/r",
        "issuer-url": "https://r-issuer.agentd.svc:8443", "issuer-id": install.issuer_id(),
    } });
    std::fs::write(folder.join("bundle.json"), data.to_string()).unwrap();
    let script = format!(
        r#"#!/bin/sh
echo "$@" >> {folder}/calls
case "$1" in
  get) cat {folder}/bundle.json ;;
  create) echo {token} ;;
  port-forward) echo "Forwarding from 127.0.0.1:{port} -> 8443"; exec sleep 600 ;;
esac
"#,
        folder = folder.display(),
        token = install.id("laptop"),
    );
    let program = folder.join("kubectl");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_by_kubectl_leaves_no_token_and_no_forward_behind() {
    let install = Install::start().await;
    let folder = tempfile::tempdir().unwrap();
    let temp = folder.path().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let port = install.issuer_url().rsplit(':').next().unwrap().to_owned();
    fake_kubectl(folder.path(), &install, &port);
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let out = folder.path().join("out");
    let fetched = Command::new(PROGRAM)
        .args([
            "identity",
            "fetch",
            "--namespace",
            "team",
            "--service-account",
            "laptop",
            "--port-forward",
            "--out",
        ])
        .arg(&out)
        .env_clear()
        .env("PATH", path)
        .env("TMPDIR", &temp)
        .output()
        .await
        .unwrap();
    assert_eq!(fetched.status.code(), Some(0), "{fetched:?}");
    assert_eq!(text(&fetched.stdout).trim(), install.id("laptop").to_string());
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(
        calls,
        [
            "get configmap agentd-bundle --namespace team --output json",
            "create token laptop --namespace team --audience agentd:agentd/r --duration 10m",
            "port-forward --namespace agentd --address 127.0.0.1 service/r-issuer :8443",
        ]
    );
    assert!(
        std::fs::read_dir(&temp).unwrap().next().is_none(),
        "the token is still there"
    );
    for file in ["key.pem", "svid.pem", "bundle.pem"] {
        assert!(out.join(file).is_file(), "{file}");
    }

    // Without kubectl it says what to do.
    let nothing = Command::new(PROGRAM)
        .args([
            "identity",
            "fetch",
            "--namespace",
            "team",
            "--service-account",
            "laptop",
            "--out",
            "o",
        ])
        .env_clear()
        .env("PATH", "/nowhere")
        .current_dir(folder.path())
        .output()
        .await
        .unwrap();
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing.stderr).contains("--issuer-url"), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_a_cluster_is_asked_through_a_forward_although_its_card_names_its_service() {
    let pod = Pod::new().await;
    let key = pod.folder.path().join("key");
    std::fs::write(&key, "key").unwrap();
    pod.mount("..1", &pod.reloadable(&["boss"], &key));
    // The card names what nobody outside of the cluster can resolve.
    let config = pod.configure();
    let far = "https://helper-agent.team.svc:8443/";
    let mut document: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    document["a2a"]["url"] = far.into();
    std::fs::write(&config, document.to_string()).unwrap();
    let (mut agentd, near, _) = pod.start_with(&config).await;
    agentd.event("identity.svid.renewed").await;
    let boss = pod.identity("boss").await;
    let port = near.trim_end_matches('/').rsplit(':').next().unwrap();
    fake_kubectl(pod.folder.path(), &pod.install, port);
    let send = async |url: &str| {
        let server = pod.install.id("helper-agent").to_string();
        let arguments = [
            "a2a",
            "send",
            url,
            "hello",
            "--server-id",
            &server,
            "--identity",
            &boss,
        ];
        Command::new(PROGRAM)
            .args(arguments)
            .arg("--port-forward")
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", pod.folder.path().display()))
            .output()
            .await
            .unwrap()
    };
    let answer = send(far).await;
    assert_eq!(
        (answer.status.code(), text(&answer.stdout).as_str()),
        (Some(0), "you said: hello\n"),
        "{answer:?}"
    );
    assert_eq!(
        std::fs::read_to_string(pod.folder.path().join("calls")).unwrap(),
        "port-forward --namespace team --address 127.0.0.1 service/helper-agent :8443\n"
    );
    let nowhere = send("https://helper.example/").await;
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("names no Service"), "{nowhere:?}");
}
