//! What the charts install, under a release and in a namespace that nobody expects.

use agentd_tests::cluster::{cluster, repository};
use agentd_tests::command::run;
use agentd_tests::install;
use serde_json::Value;

/// What the runtime may weigh.
const RUNTIME_BYTES: u64 = 25_000_000;
/// Client-side apply keeps a copy in an annotation, which may have 256 KiB; this leaves room.
const CRD_BYTES: usize = 200_000;

#[test]
fn issuer_and_controllers_run_under_names_of_their_own() {
    let (release, namespace) = (install::release(), install::namespace());
    let deployments = cluster()
        .kubectl(["--namespace", &namespace, "get", "deployments", "-o", "json"])
        .ok();
    let list: Value = serde_json::from_str(&deployments).expect("JSON");
    let found: Vec<(String, Value)> = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|each| {
            (
                each["metadata"]["name"].as_str().expect("a name").to_owned(),
                each["status"]["readyReplicas"].clone(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (format!("{release}-controllers"), 1.into()),
            (format!("{release}-issuer"), 2.into())
        ]
    );
    for kind in ["clusterroles", "clusterrolebindings"] {
        let label = format!("app.kubernetes.io/instance={release}");
        let names = cluster().kubectl(["get", kind, "-l", &label, "-o", "name"]).ok();
        assert_eq!(names.lines().count(), 2, "{names}");
        for name in names.lines() {
            assert!(
                name.contains(&format!("agentd:{namespace}:{release}:")),
                "N02: {name}"
            );
        }
    }
}

#[test]
fn p13_crds_are_small_enough_for_client_side_apply_and_have_nothing_to_warn_of() {
    for name in ["agents.agentd.io", "mcpservers.agentd.io"] {
        let live = cluster()
            .kubectl(["get", "customresourcedefinition", name, "-o", "json"])
            .ok();
        let live: Value = serde_json::from_str(&live).expect("JSON");
        let spec = serde_json::to_vec(&live["spec"]).expect("JSON");
        assert!(spec.len() < CRD_BYTES, "{name} has {} bytes", spec.len());
        for condition in live["status"]["conditions"].as_array().expect("conditions") {
            assert_ne!(condition["type"], "NonStructuralSchema", "{condition}");
        }
        let file = repository().join(format!("crds/generated/{name}.yaml"));
        let path = file.to_str().expect("UTF-8");
        // A copy under another name would clash, so a fresh one is replaced, not created: without a server's warning.
        let replaced = cluster().kubectl(["replace", "--dry-run=server", "-f", path]);
        assert_eq!(replaced.stderr, "", "no warning: {replaced}");
        let applied = cluster().kubectl(["apply", "--dry-run=server", "--validate=strict", "-f", path]);
        assert_eq!(applied.code, 0, "{applied}");
    }
}

#[test]
fn install_yaml_and_its_kustomization_are_whole() {
    let manifests = repository().join("manifests");
    let path = |name: &str| manifests.join(name).to_str().expect("UTF-8").to_owned();
    let built = cluster().kubectl(["kustomize", &path("")]).ok();
    for kind in ["CustomResourceDefinition", "Deployment", "ClusterRole", "Service"] {
        assert!(built.contains(&format!("kind: {kind}\n")), "{kind}");
    }
    // A dry run makes no namespace for what comes after it.
    let _ = cluster().kubectl(["create", "namespace", "agentd-system"]).ok();
    let applied = cluster().kubectl([
        "apply",
        "--server-side",
        "--dry-run=server",
        // The CRDs are Helm's on this cluster.
        "--force-conflicts",
        "--validate=strict",
        "-f",
        &path("install.yaml"),
    ]);
    let _ = cluster()
        .kubectl(["delete", "namespace", "agentd-system", "--wait=false"])
        .ok();
    assert_eq!((applied.code, applied.stderr.as_str()), (0, ""), "{applied}");
}

#[test]
fn the_runtime_is_one_small_static_file() {
    let path = install::agentd();
    let bytes = std::fs::metadata(&path).expect("the binary").len();
    assert!(bytes < RUNTIME_BYTES, "{bytes} bytes");
    let linked = run(std::process::Command::new("ldd").arg(&path));
    let said = linked.stdout.clone() + &linked.stderr;
    assert!(
        said.contains("statically linked") || said.contains("not a dynamic executable"),
        "{said}"
    );
}
