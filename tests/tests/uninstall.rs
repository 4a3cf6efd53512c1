//! The last suite on its cluster: the CA survives an upgrade and an uninstall, and nothing else does; then the other
//! ways to install, as README.md has them.

use std::fs;

use agentd_tests::cluster::{cluster, repository};
use agentd_tests::command::Finished;
use agentd_tests::install;
use serde_json::Value;

/// Names of everything that is left in the install namespace.
fn left() -> Vec<String> {
    let kinds = cluster()
        .kubectl(["api-resources", "--verbs=list", "--namespaced", "-o", "name"])
        .ok();
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let names = install::kubectl(&["get", &kinds.join(","), "-o", "name", "--ignore-not-found"]).ok();
    let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// Waits until the garbage collector and the kubelet are done with what belonged to the release.
fn wait_until_gone(release: &str) {
    let lease = format!("lease/{release}-controllers");
    install::kubectl(&[
        "wait",
        "--for=delete",
        "configmap/agentd-bundle",
        &lease,
        "--timeout=60s",
    ])
    .ok();
    let instance = format!("app.kubernetes.io/instance={release}");
    for kind in ["pods", "replicasets"] {
        install::kubectl(&["wait", "--for=delete", kind, "-l", &instance, "--timeout=60s"]).ok();
    }
    for service in ["issuer", "reports"] {
        let label = format!("kubernetes.io/service-name={release}-{service}");
        install::kubectl(&[
            "wait",
            "--for=delete",
            "endpointslices",
            "-l",
            &label,
            "--timeout=60s",
        ])
        .ok();
    }
}

fn helm_in(namespace: &str, arguments: &[&str]) -> Finished {
    let place = ["--namespace", namespace];
    cluster().helm(arguments.iter().chain(&place))
}

fn nothing_of_ours_in_the_cluster() {
    for kind in ["clusterroles", "clusterrolebindings", "customresourcedefinitions"] {
        let names = cluster().kubectl(["get", kind, "-o", "name"]).ok();
        assert!(!names.contains("agentd"), "{names}");
    }
}

#[test]
fn nothing_is_left_but_the_ca_secret_which_is_never_overwritten_and_the_ways_of_the_readme_work() {
    let (release, namespace) = (install::release(), install::namespace());
    let secret = format!("{release}-ca");
    let ca = || install::kubectl(&["get", "secret", &secret, "-o", "jsonpath={.data}"]).ok();
    let chart = repository().join("charts/agentd");
    let before = ca();
    let upgrade = |values: &[&str]| {
        let chart = chart.to_str().expect("UTF-8");
        let line = [
            "upgrade",
            "--install",
            &release,
            chart,
            "--wait",
            "--timeout",
            "2m",
        ];
        helm_in(&namespace, &[&line[..], values].concat()).ok();
    };
    let uninstall = |name: &str| {
        helm_in(&namespace, &["uninstall", name, "--wait", "--timeout", "2m"]).ok();
    };
    upgrade(&["--reuse-values", "--set", "logLevel=debug"]);
    assert_eq!(before, ca(), "an upgrade leaves the CA");
    let values = helm_in(&namespace, &["get", "values", &release, "-o", "json"]).ok();

    uninstall(&release);
    wait_until_gone(&release);
    // Helm's own notes on the CRDs' release, one for each time that it was installed.
    let notes = format!("secret/sh.helm.release.v1.{release}-crds.");
    let left: Vec<String> = left()
        .into_iter()
        .filter(|name| !name.starts_with(&notes))
        .collect();
    assert_eq!(
        left,
        [
            "configmap/kube-root-ca.crt".to_owned(),
            format!("secret/{secret}"),
            "serviceaccount/default".to_owned()
        ]
    );

    // A release of the same name takes it up again.
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), &values).expect("written");
    upgrade(&["--values", file.path().to_str().expect("UTF-8")]);
    assert_eq!(before, ca(), "a new install leaves the CA");
    uninstall(&release);
    uninstall(&format!("{release}-crds"));
    install::kubectl(&["delete", "secret", &secret]).ok();
    nothing_of_ours_in_the_cluster();

    let values: Value = serde_json::from_str(&values).expect("JSON");
    let tag = values["image"]["agent"]["tag"].as_str().expect("a tag");
    as_the_readme_says_with_helm(tag);
    by_install_yaml(tag);
}

/// The `helm install` lines of README.md, with the registry and the tag of this cluster.
fn as_the_readme_says_with_helm(tag: &str) {
    let readme = fs::read_to_string(repository().join("README.md")).expect("README.md");
    let lines: Vec<&str> = readme
        .lines()
        .filter(|line| line.starts_with("helm install "))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let tags = [
        format!("image.operator.tag={tag}"),
        format!("image.agent.tag={tag}"),
    ];
    for line in lines {
        let line = line
            .replace("registry.example/team", "registry.local")
            .replace("charts/", &format!("{}/charts/", repository().display()));
        let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
        if line.contains("--wait") {
            words.extend(["--set", &tags[0], "--set", &tags[1]]);
        }
        let _ = cluster().helm(words).ok();
    }
    let place = "agentd-system";
    for name in ["agentd", "agentd-crds"] {
        helm_in(place, &["uninstall", name, "--wait", "--timeout", "2m"]).ok();
    }
    let _ = cluster()
        .kubectl(["delete", "namespace", place, "--timeout=60s"])
        .ok();
    nothing_of_ours_in_the_cluster();
}

/// `kubectl apply --server-side -f manifests/install.yaml`, with this cluster's tag, and its removal by the same file.
fn by_install_yaml(tag: &str) {
    let text = fs::read_to_string(repository().join("manifests/install.yaml")).expect("install.yaml");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let version = env!("CARGO_PKG_VERSION");
    let tagged = text.replace(&format!(":{version}"), &format!(":{tag}"));
    assert_ne!(text, tagged, "it names images of version {version}");
    fs::write(file.path(), tagged).expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let applied = cluster().kubectl(["apply", "--server-side", "-f", path]);
    assert_eq!((applied.code, applied.stderr.as_str()), (0, ""), "{applied}");
    for component in ["controllers", "issuer"] {
        let deployment = format!("deployment/agentd-{component}");
        let line = [
            "-n",
            "agentd-system",
            "rollout",
            "status",
            &deployment,
            "--timeout=90s",
        ];
        let _ = cluster().kubectl(line).ok();
    }
    let _ = cluster().kubectl(["delete", "-f", path, "--timeout=90s"]).ok();
    nothing_of_ours_in_the_cluster();
}
