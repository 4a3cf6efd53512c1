//! The status on a real node tells the truth about faults and about their repair, and no secret is said anywhere.

use std::time::Duration;

use agentd_tests::caller::{Agent, ask, fetch_identity};
use agentd_tests::cluster::cluster;
use agentd_tests::command::run;
use agentd_tests::namespace::Namespace;
use agentd_tests::samples::{await_samples, reach_outside, ready_namespace, sample, samples};
use agentd_tests::{install, wait};
use kube::api::DynamicObject;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

fn read(namespace: &Namespace, object: &str) -> Value {
    serde_json::from_str(&namespace.kubectl(&["get", object, "-o", "json"]).ok()).expect("JSON")
}

#[tokio::test]
async fn a_missing_secret_is_named_and_used_as_soon_as_it_is_mounted() {
    let namespace = Namespace::new("secret");
    reach_outside(namespace.name());
    let token = read(&namespace, "secret/model-token");
    namespace.kubectl(&["delete", "secret", "model-token"]).ok();
    for (_, yaml) in samples(namespace.name()) {
        let _ = cluster().apply(&yaml).ok();
    }
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    // Before the servers are seen they are missing too.
    let named = |agent: Option<&DynamicObject>| {
        agent
            .and_then(|agent| wait::condition(agent, "ResolvedRefs"))
            .is_some_and(|(status, reason, message)| {
                status == "False" && reason == "RefNotFound" && message.contains("model-token")
            })
    };
    wait::until(
        &agents,
        "demo",
        "ResolvedRefs=False for model-token",
        MINUTE,
        named,
    )
    .await;
    wait::for_condition(&agents, "demo", "Ready", "False", "", MINUTE).await;
    // The pod runs all the while.
    namespace
        .kubectl(&[
            "wait",
            "--for=jsonpath={.status.phase}=Running",
            "pod",
            "-l",
            "agentd.io/agent=demo",
            "--timeout=60s",
        ])
        .ok();
    let data = token["data"]["token"].as_str().expect("a token");
    namespace.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: model-token, namespace: NAMESPACE}}\ndata: {{token: {data}}}\n"
    ));
    wait::for_condition(&agents, "demo", "Ready", "True", "", MINUTE).await;
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let agent = Agent::of(&namespace, "demo");
    assert!(ask(&agent, "What is 1 plus 1?", &caller).ok().contains("is 2"));
}

#[tokio::test]
async fn a_mistake_is_named_what_runs_goes_on_and_the_fix_rolls_out_by_itself() {
    let (namespace, client) = ready_namespace("mistake").await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    let wrong =
        r#"[{"op":"replace","path":"/spec/intelligence/endpoints/0/url","value":"http://model.example/v1"}]"#;
    namespace
        .kubectl(&["patch", "agents.agentd.io", "demo", "--type=json", "-p", wrong])
        .ok();
    let message = wait::for_condition(&agents, "demo", "Accepted", "False", "InvalidSpec", MINUTE).await;
    wait::for_condition(&agents, "demo", "Stalled", "True", "", MINUTE).await;
    // The runtime says the same of the same fault, and ends with 2 before it has done anything.
    let folder = tempfile::tempdir().expect("a folder");
    let document = folder.path().join("agentd.json");
    let endpoint =
        json!({"name": "gateway", "url": "http://model.example/v1", "tls": {"ca_file": "/ca.crt"}});
    let text =
        json!({"agent": {"instruction": "x"}, "intelligence": {"model": "m", "endpoints": [endpoint]}});
    std::fs::write(&document, text.to_string()).expect("written");
    let said = run(install::agentd_command()
        .current_dir(folder.path())
        .args(["--prompt", "x", "--config"])
        .arg(&document));
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{said}");
    let mut faults = said.stderr.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("a JSON line");
        let (key, problem) = line["message"]
            .as_str()
            .and_then(|text| text.split_once(": "))
            .expect("a key and what is wrong");
        assert!(key.starts_with("intelligence.endpoints[gateway]."), "{key}");
        problem.to_owned()
    });
    let first = faults.next().expect("a fault");
    assert!(first.contains("; use https"), "a remedy: {first}");
    assert!(
        message.contains(&first),
        "in the cluster: {message}\non the machine: {said}"
    );
    // What runs goes on.
    namespace
        .kubectl(&["rollout", "status", "deployment/demo-agent", "--timeout=5s"])
        .ok();
    let right = r#"[{"op":"replace","path":"/spec/intelligence/endpoints/0/url","value":"https://model.agentd-demo-outside.svc:8443/v1"}]"#;
    namespace
        .kubectl(&["patch", "agents.agentd.io", "demo", "--type=json", "-p", right])
        .ok();
    wait::for_condition(&agents, "demo", "Ready", "True", "", MINUTE).await;
}

#[tokio::test]
async fn s11_s02_the_cause_of_a_pod_that_does_not_come_up_is_in_the_message() {
    let namespace = Namespace::new("cause");
    reach_outside(namespace.name());
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    for file in [
        "mcpserver-everything.yaml",
        "mcpserver-remote.yaml",
        "caller.yaml",
    ] {
        namespace.apply(&sample(namespace.name(), file));
    }
    // An image that is nowhere.
    let agent = sample(namespace.name(), "agent.yaml");
    namespace.apply(&agent.replace("spec:\n", "spec:\n  image: registry.local/nowhere/agentd:1\n"));
    let message = wait::for_condition(&agents, "demo", "Ready", "False", "PodFailed", MINUTE).await;
    assert!(message.contains("registry.local/nowhere/agentd:1"), "{message}");
    // The fix rolls out by itself, but for a quota that lets no pod in. It is in force once it has a status.
    namespace.apply(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none, namespace: NAMESPACE}\nspec: {hard: {pods: \"0\"}}\n",
    );
    namespace
        .kubectl(&[
            "wait",
            "--for=jsonpath={.status.hard.pods}=0",
            "resourcequota/none",
            "--timeout=30s",
        ])
        .ok();
    let patch = r#"[{"op":"remove","path":"/spec/image"}]"#;
    namespace
        .kubectl(&["patch", "agents.agentd.io", "demo", "--type=json", "-p", patch])
        .ok();
    let message = wait::for_condition(&agents, "demo", "Ready", "False", "QuotaExceeded", MINUTE).await;
    assert!(message.contains("none"), "it names the quota: {message}");
    namespace.kubectl(&["delete", "resourcequota", "none"]).ok();
    await_samples(&client, namespace.name()).await;
}

#[tokio::test]
async fn a_volume_that_nobody_provides_is_named_as_the_cause() {
    let namespace = Namespace::new("volume");
    // The scheduler waits for such a class in silence.
    let class = format!("{}-nobody", namespace.name());
    namespace.apply(&format!(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: {class}}}\nprovisioner: example.com/nobody\nvolumeBindingMode: WaitForFirstConsumer\n"
    ));
    namespace.apply(&format!(
        "apiVersion: agentd.io/v1alpha1\nkind: Agent\nmetadata: {{name: demo, namespace: NAMESPACE}}\nspec:\n  instruction: Help.\n  \
         intelligence: {{model: m, endpoints: [{{name: m, url: 'https://model.example/v1'}}]}}\n  store: {{file: {{storageClassName: {class}}}}}\n"
    ));
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    let named = |agent: Option<&DynamicObject>| {
        agent
            .and_then(|agent| wait::condition(agent, "Ready"))
            .is_some_and(|(status, reason, message)| {
                status == "False"
                    && reason == "Progressing"
                    && message.contains("PersistentVolumeClaim demo-agent is Pending")
            })
    };
    wait::until(&agents, "demo", "the claim is named", MINUTE, named).await;
    cluster().kubectl(["delete", "storageclass", &class]).ok();
}

#[tokio::test]
async fn s06_m05_a_server_that_does_not_speak_mcp_is_not_ready_and_its_tools_come_when_it_does() {
    let namespace = Namespace::new("server");
    reach_outside(namespace.name());
    let server = sample(namespace.name(), "mcpserver-everything.yaml");
    // The right port, another path: something listens, but it is not MCP.
    namespace.apply(&server.replace("path: /mcp\n", "path: /elsewhere\n"));
    for file in ["agent.yaml", "mcpserver-remote.yaml", "caller.yaml"] {
        namespace.apply(&sample(namespace.name(), file));
    }
    let client = cluster().client().await;
    let servers = wait::resources(&client, namespace.name(), "McpServer");
    wait::for_condition(&servers, "everything", "Available", "True", "", MINUTE).await;
    let message = wait::for_condition(&servers, "everything", "Verified", "False", "", MINUTE).await;
    assert!(!message.is_empty(), "S10");
    wait::for_condition(&servers, "everything", "Ready", "False", "", MINUTE).await;
    // The agent is up without it and says so.
    let agents = wait::resources(&client, namespace.name(), "Agent");
    let message = wait::for_condition(&agents, "demo", "ToolsReady", "False", "ServerNotReady", MINUTE).await;
    assert!(message.contains("everything"), "{message}");
    // The server comes back; nobody touches the agent.
    namespace.apply(&server);
    wait::for_condition(&agents, "demo", "ToolsReady", "True", "", 2 * MINUTE).await;
    wait::for_condition(&agents, "demo", "Ready", "True", "", MINUTE).await;
}

#[tokio::test]
async fn no_secret_and_no_key_is_in_a_configmap_a_log_a_status_or_an_event() {
    let (namespace, _client) = ready_namespace("canary").await;
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let agent = Agent::of(&namespace, "demo");
    ask(&agent, "What is 2 plus 40?", &caller).ok();

    let mut said = namespace
        .kubectl(&[
            "get",
            "configmaps,agents.agentd.io,mcpservers.agentd.io,deployments,pods,events",
            "-o",
            "yaml",
        ])
        .ok();
    for pod in namespace.kubectl(&["get", "pods", "-o", "name"]).ok().lines() {
        said += &namespace.kubectl(&["logs", pod, "--all-containers"]).ok();
    }
    let install = install::namespace();
    said += &cluster()
        .kubectl([
            "--namespace",
            &install,
            "get",
            "configmaps,leases,events,deployments,pods",
            "-o",
            "yaml",
        ])
        .ok();
    for pod in cluster()
        .kubectl(["--namespace", &install, "get", "pods", "-o", "name"])
        .ok()
        .lines()
    {
        said += &cluster().kubectl(["--namespace", &install, "logs", pod]).ok();
    }
    assert!(said.contains("demo-agent"), "something was read");
    // Canaries: the tokens, and the body of every key there is, as it stands and in base64.
    let secrets = [("model-token", "token"), ("remote-token", "token")];
    let mut canaries: Vec<String> = Vec::new();
    for (name, key) in secrets {
        canaries.push(
            read(&namespace, &format!("secret/{name}"))["data"][key]
                .as_str()
                .expect("a value")
                .to_owned(),
        );
    }
    let authority = format!("secret/{}-ca", install::release());
    let authority = cluster()
        .kubectl([
            "--namespace",
            &install,
            "get",
            &authority,
            "-o",
            "jsonpath={.data.tls\\.key}",
        ])
        .ok();
    canaries.push(authority);
    let mut plain: Vec<String> = Vec::new();
    for canary in &canaries {
        let decoded =
            run(std::process::Command::new("sh").args(["-c", "printf %s \"$1\" | base64 -d", "sh", canary]))
                .ok();
        plain.extend(
            decoded
                .lines()
                .filter(|line| line.len() > 16 && !line.contains("-----"))
                .map(str::to_owned),
        );
    }
    let key = std::fs::read_to_string(caller.folder().join("key.pem")).expect("a key");
    plain.extend(
        key.lines()
            .filter(|line| line.len() > 16 && !line.contains("-----"))
            .map(str::to_owned),
    );
    assert!(plain.len() >= 5, "two tokens and the bodies of two keys");
    for canary in canaries.iter().chain(&plain) {
        assert!(
            !said.contains(canary.as_str()),
            "a secret is where it must not be"
        );
    }
    assert!(!said.contains("PRIVATE KEY"), "a key is where it must not be");
}
