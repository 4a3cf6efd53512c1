//! The last suite on its cluster: the CA survives an upgrade and an uninstall, and nothing else does.

use agentd_tests::cluster::{cluster, repository};
use agentd_tests::install;

/// Names of everything that is left in the install namespace.
fn left() -> Vec<String> {
    let kinds = cluster()
        .kubectl(["api-resources", "--verbs=list", "--namespaced", "-o", "name"])
        .ok();
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let names = cluster()
        .kubectl([
            "--namespace",
            &install::namespace(),
            "get",
            &kinds.join(","),
            "-o",
            "name",
            "--ignore-not-found",
        ])
        .ok();
    let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

#[test]
fn nothing_is_left_but_the_ca_secret_which_is_never_overwritten() {
    let (release, namespace) = (install::release(), install::namespace());
    let secret = format!("{release}-ca");
    let ca = || {
        cluster()
            .kubectl([
                "--namespace",
                &namespace,
                "get",
                "secret",
                &secret,
                "-o",
                "jsonpath={.data}",
            ])
            .ok()
    };
    let chart = repository().join("charts/agentd");
    let before = ca();
    let upgrade = |values: &[&str]| {
        let chart = chart.to_str().expect("UTF-8");
        let mut line = vec![
            "upgrade",
            "--install",
            &release,
            chart,
            "--namespace",
            &namespace,
            "--wait",
            "--timeout",
            "2m",
        ];
        line.extend(values);
        let _ = cluster().helm(line).ok();
    };
    upgrade(&["--reuse-values", "--set", "logLevel=debug"]);
    assert_eq!(before, ca(), "an upgrade leaves the CA");
    let values = cluster()
        .helm(["get", "values", &release, "--namespace", &namespace, "-o", "yaml"])
        .ok();

    let uninstall = |name: &str| {
        let _ = cluster()
            .helm([
                "uninstall",
                name,
                "--namespace",
                &namespace,
                "--wait",
                "--timeout",
                "2m",
            ])
            .ok();
    };
    uninstall(&release);
    let gone = [
        "wait",
        "--for=delete",
        "configmap/agentd-bundle",
        &format!("lease/{release}-controllers"),
        "--namespace",
        &namespace,
        "--timeout=60s",
    ]
    .map(str::to_owned);
    let _ = cluster().kubectl(gone).ok();
    let crds = format!("sh.helm.release.v1.{release}-crds.v1");
    assert_eq!(
        left(),
        [
            "configmap/kube-root-ca.crt".to_owned(),
            format!("secret/{secret}"),
            format!("secret/{crds}"),
            "serviceaccount/default".to_owned()
        ]
    );

    // A release of the same name takes it up again.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), values).expect("written");
    upgrade(&["--values", file.path().to_str().expect("UTF-8")]);
    assert_eq!(before, ca(), "a new install leaves the CA");
    uninstall(&release);
    uninstall(&format!("{release}-crds"));
    let _ = cluster()
        .kubectl(["--namespace", &namespace, "delete", "secret", &secret])
        .ok();
    for kind in ["clusterroles", "clusterrolebindings", "customresourcedefinitions"] {
        let names = cluster().kubectl(["get", kind, "-o", "name"]).ok();
        assert!(!names.contains("agentd"), "{names}");
    }
}
