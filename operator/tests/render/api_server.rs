//! A real API server takes what is made: every object in a strict server-side apply, every pod in a namespace that
//! enforces Pod Security `restricted`.
//!
//! `KUBECONFIG=… PATH=…kubectl… cargo test -p agentd-operator --test render -- --ignored`; an API server without nodes
//! is enough (`tests/cluster/cluster.sh up --nodes 0`).

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{World, fixture, install, render_agent, render_server};

fn kubectl(arguments: &[&str], input: &str) -> (bool, String) {
    let mut child = Command::new("kubectl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl is on the PATH");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    (output.status.success(), text)
}

#[test]
#[ignore = "needs a Kubernetes API server"]
fn p01_a_real_api_server_takes_objects_and_pods() {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "support", "labels": { "pod-security.kubernetes.io/enforce": "restricted" } }
    });
    let (ok, text) = kubectl(&["apply", "-f", "-"], &namespace.to_string());
    assert!(ok, "{text}");
    let mut made = Vec::new();
    for name in ["agent/minimal.yaml", "agent/full.yaml"] {
        made.push(render_agent(&World::parse(&fixture(name)), &install()).unwrap());
    }
    for name in ["mcp_server/run.yaml", "mcp_server/run-full.yaml"] {
        made.push(render_server(&World::parse(&fixture(name)), &install()).unwrap());
    }
    for objects in made {
        for object in objects
            .as_object()
            .unwrap()
            .values()
            .filter(|value| value.get("kind").is_some())
        {
            let mut object = object.clone();
            // Opened for the goldens.
            for text in object
                .get_mut("data")
                .and_then(Value::as_object_mut)
                .into_iter()
                .flat_map(|data| data.values_mut())
            {
                *text = text.to_string().into();
            }
            let apply = [
                "apply",
                "--server-side",
                "--dry-run=server",
                "--validate=strict",
                "--field-manager=agentd",
                "-f",
                "-",
            ];
            let (ok, text) = kubectl(&apply, &object.to_string());
            assert!(ok && !text.contains("Warning"), "{text}\n{object}");
        }
        let template = &objects["deployment"]["spec"]["template"];
        let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"] });
        pod["metadata"]["namespace"] = "support".into();
        pod["metadata"]["generateName"] = "pod-".into();
        // No controller has made the account here.
        pod["spec"]["serviceAccountName"] = "default".into();
        let (ok, text) = kubectl(&["create", "--dry-run=server", "-f", "-"], &pod.to_string());
        assert!(ok && !text.contains("Warning"), "{text}");
    }
}
