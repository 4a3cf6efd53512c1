//! What must not work on a real node, each with its reason: past the bridge, for agents that a server does not allow,
//! for accounts that get no identity.

use std::time::Duration;

use agentd_tests::caller::{curl, fetch_identity, fetch_with_token};
use agentd_tests::cluster::cluster;
use agentd_tests::namespace::Namespace;
use agentd_tests::samples::{ready_namespace, sample};
use agentd_tests::{install, wait};

const MINUTE: Duration = Duration::from_secs(60);

/// A pod that runs this JavaScript once. Restricted, as the namespace demands.
fn javascript_pod(name: &str, program: &str) -> String {
    let program = serde_json::to_string(program).expect("a string");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: NAMESPACE}}\nspec:\n  restartPolicy: Never\n  \
         automountServiceAccountToken: false\n  securityContext: {{runAsNonRoot: true, seccompProfile: {{type: RuntimeDefault}}}}\n  \
         containers:\n  - name: main\n    image: registry.local/agentd-demo/stand-in:1.43.0\n    args: [--eval, {program}]\n    \
         securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}\n"
    )
}

/// Runs JavaScript in a pod and gives what it printed.
fn in_a_pod(namespace: &Namespace, name: &str, program: &str) -> String {
    namespace.apply(&javascript_pod(name, program));
    let pod = format!("pod/{name}");
    namespace
        .kubectl(&[
            "wait",
            "--for=jsonpath={.status.phase}=Succeeded",
            &pod,
            "--timeout=60s",
        ])
        .ok();
    namespace.kubectl(&["logs", name]).ok()
}

#[tokio::test]
async fn nobody_passes_by_the_bridge_and_a_server_that_listens_everywhere_is_named() {
    let (namespace, client) = ready_namespace("bypass").await;
    let servers = wait::resources(&client, namespace.name(), "McpServer");
    // The sample binds 127.0.0.1.
    wait::for_condition(&servers, "everything", "Isolated", "True", "", MINUTE).await;
    // This one binds every address, as the reference server does when left alone.
    let open = sample(namespace.name(), "mcpserver-everything.yaml")
        .replace("name: everything\n", "name: open\n")
        .replace(
            "    path: /mcp\n",
            "    path: /mcp\n    env: [{name: LISTEN_HOST, value: 0.0.0.0}]\n",
        );
    namespace.apply(&open);
    let message = wait::for_condition(
        &servers,
        "open",
        "Isolated",
        "False",
        "ListensOnAllAddresses",
        MINUTE,
    )
    .await;
    assert!(message.contains("127.0.0.1"), "{message}");
    // It only informs.
    wait::for_condition(&servers, "open", "Ready", "True", "", MINUTE).await;

    let address = namespace
        .kubectl(&[
            "get",
            "pods",
            "-l",
            "agentd.io/mcp-server=open",
            "-o",
            "jsonpath={.items[0].status.podIP}",
        ])
        .ok();
    let dial = |port: u16| {
        format!(
            "require('net').connect({{host: '{address}', port: {port}, timeout: 5000}}).on('connect', () => {{ console.log('CONNECTED'); process.exit() }})\
             .on('timeout', () => {{ console.log('TIMEOUT'); process.exit() }}).on('error', (e) => console.log(e.code))"
        )
    };
    let past = in_a_pod(&namespace, "past-the-bridge", &dial(3001));
    assert!(
        !past.contains("CONNECTED"),
        "the server's own port was reached: {past}"
    );
    // The door itself is open, so it is the policy that refused.
    assert_eq!(
        in_a_pod(&namespace, "to-the-bridge", &dial(8443)).trim(),
        "CONNECTED"
    );
}

#[tokio::test]
async fn a_server_refuses_an_agent_that_it_does_not_allow() {
    let namespace = Namespace::new("allowed");
    agentd_tests::samples::reach_outside(namespace.name());
    let server = sample(namespace.name(), "mcpserver-everything.yaml").replace(
        "spec:\n",
        "spec:\n  allowedAgents: {agents: [{namespace: NAMESPACE, name: other}]}\n",
    );
    namespace.apply(&server);
    for file in ["agent.yaml", "caller.yaml", "mcpserver-remote.yaml"] {
        namespace.apply(&sample(namespace.name(), file));
    }
    let client = cluster().client().await;
    let agents = wait::resources(&client, namespace.name(), "Agent");
    let message = wait::for_condition(
        &agents,
        "demo",
        "ResolvedRefs",
        "False",
        "RefNotPermitted",
        MINUTE,
    )
    .await;
    assert!(message.contains("everything"), "S10: {message}");
    // And at the bridge, to whoever holds an identity: here a caller's.
    let servers = wait::resources(&client, namespace.name(), "McpServer");
    wait::for_condition(&servers, "everything", "Ready", "True", "", MINUTE).await;
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let file = |name: &str| caller.folder().join(name).to_str().expect("UTF-8").to_owned();
    let url = format!("https://everything-mcp.{}.svc:8443/mcp", namespace.name());
    let answer = curl(
        &url,
        &[
            "--cacert",
            &file("bundle.pem"),
            "--cert",
            &file("svid.pem"),
            "--key",
            &file("key.pem"),
            "--data",
            "{}",
        ],
    )
    .ok();
    assert!(answer.ends_with("\n403"), "{answer}");
    let nobody = curl(&url, &["--cacert", &file("bundle.pem"), "--data", "{}"]).ok();
    assert!(nobody.ends_with("\n401"), "{nobody}");
    // The server lets it in: the reference resolves by itself.
    namespace.apply(&sample(namespace.name(), "mcpserver-everything.yaml").replace(
        "spec:\n",
        "spec:\n  allowedAgents: {agents: [{namespace: NAMESPACE, name: other}, {namespace: NAMESPACE, name: demo}]}\n",
    ));
    wait::for_condition(&agents, "demo", "Ready", "True", "", MINUTE).await;
}

#[tokio::test]
async fn the_issuer_refuses_accounts_that_are_not_for_calling() {
    let (namespace, client) = ready_namespace("issuer").await;
    namespace.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: plain, namespace: NAMESPACE}\n");
    let refused = fetch_identity(namespace.name(), "plain").expect_err("an unlabelled account");
    assert!(
        refused.contains("agentd.io/caller"),
        "it names the label: {refused}"
    );
    // The agent's own account, without a pod that shows it: with the label on it, and without.
    let refused = fetch_identity(namespace.name(), "demo-agent").expect_err("an account that an Agent uses");
    assert!(refused.contains("demo-agent"), "{refused}");
    namespace
        .kubectl(&[
            "label",
            "serviceaccount",
            "demo-agent",
            "agentd.io/caller=true",
            "--overwrite",
        ])
        .ok();
    let refused =
        fetch_identity(namespace.name(), "demo-agent").expect_err("a labelled account that an Agent uses");
    assert!(refused.contains("demo-agent"), "{refused}");
    // The agent is none the worse.
    let agents = wait::resources(&client, namespace.name(), "Agent");
    wait::for_condition(&agents, "demo", "Ready", "True", "", MINUTE).await;
}

/// A token of the agent's ServiceAccount that names a pod, with the issuer's audience or another.
fn token_of(namespace: &Namespace, account: &str, pod: Option<(&str, &str)>, audience: &str) -> String {
    let mut line = vec!["create", "token", account, "--audience", audience];
    if let Some((name, uid)) = pod {
        line.extend([
            "--bound-object-kind=Pod",
            "--bound-object-name",
            name,
            "--bound-object-uid",
            uid,
        ]);
    }
    namespace.kubectl(&line).ok().trim().to_owned()
}

#[tokio::test]
async fn the_issuer_refuses_tokens_that_show_no_pod_of_an_agent() {
    let (namespace, _client) = ready_namespace("token").await;
    let audience = install::audience();
    let refused = |token: &str| fetch_with_token(namespace.name(), token).expect_err("no identity");

    let said = refused(&token_of(
        &namespace,
        "caller",
        None,
        "https://kubernetes.default.svc",
    ));
    assert!(
        said.contains(&audience),
        "a wrong audience; it names the right one: {said}"
    );
    let said = refused(&token_of(&namespace, "demo-agent", None, &audience));
    assert!(said.contains("Agent demo"), "no pod claims: {said}");

    // A pod that names the agent's account and is none of its own: from inside, with the token that the kubelet mounts.
    let image = namespace
        .kubectl(&[
            "get",
            "deployment",
            "demo-agent",
            "-o",
            "jsonpath={.spec.template.spec.containers[0].image}",
        ])
        .ok();
    namespace.apply(&foreign_pod(&image, &audience));
    namespace
        .kubectl(&[
            "wait",
            "--for=jsonpath={.status.phase}=Failed",
            "pod/foreign",
            "--timeout=60s",
        ])
        .ok();
    let said = namespace.kubectl(&["logs", "foreign"]).ok();
    assert!(
        said.contains("Pod foreign is controlled by no Agent or McpServer"),
        "{said}"
    );

    // The agent's own pod, which is good until it is gone.
    let pods = namespace
        .kubectl(&[
            "get",
            "pods",
            "-l",
            "agentd.io/agent=demo",
            "-o",
            "jsonpath={.items[0].metadata.name} {.items[0].metadata.uid}",
        ])
        .ok();
    let (pod, uid) = pods.split_once(' ').expect("name and UID");
    let token = token_of(&namespace, "demo-agent", Some((pod, uid)), &audience);
    let _identity = fetch_with_token(namespace.name(), &token).expect("the agent's own identity");
    namespace.kubectl(&["delete", "pod", pod, "--timeout=60s"]).ok();
    let said = refused(&token);
    assert!(
        said.contains(pod) || said.contains("not valid"),
        "a deleted pod: {said}"
    );
}

/// `agentd identity fetch` in a pod of nobody's, under the agent's account.
fn foreign_pod(image: &str, audience: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Pod
metadata: {{name: foreign, namespace: NAMESPACE}}
spec:
  restartPolicy: Never
  serviceAccountName: demo-agent
  automountServiceAccountToken: false
  securityContext: {{runAsNonRoot: true, runAsUser: 65532, seccompProfile: {{type: RuntimeDefault}}}}
  containers:
    - name: main
      image: {image}
      env:
        - {{name: URL, valueFrom: {{configMapKeyRef: {{name: agentd-bundle, key: issuer-url}}}}}}
        - {{name: ID, valueFrom: {{configMapKeyRef: {{name: agentd-bundle, key: issuer-id}}}}}}
      args: [identity, fetch, --issuer-url, $(URL), --issuer-id, $(ID), --bundle, /bundle/bundle.pem,
        --token-file, /token/token, --out, /out]
      securityContext: {{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {{drop: [ALL]}}}}
      volumeMounts:
        - {{name: token, mountPath: /token}}
        - {{name: bundle, mountPath: /bundle}}
        - {{name: out, mountPath: /out}}
  volumes:
    - {{name: token, projected: {{sources: [{{serviceAccountToken: {{path: token, audience: "{audience}"}}}}]}}}}
    - {{name: bundle, configMap: {{name: agentd-bundle}}}}
    - {{name: out, emptyDir: {{}}}}
"#
    )
}

#[tokio::test]
async fn the_operator_may_do_nothing_with_secrets_of_others() {
    for component in ["controllers", "issuer"] {
        let account = format!(
            "system:serviceaccount:{}:{}-{component}",
            install::namespace(),
            install::release()
        );
        for verb in ["get", "list", "watch", "create", "update", "patch", "delete"] {
            let answer = cluster().kubectl([
                "auth", "can-i", verb, "secrets", "-n", "default", "--as", &account,
            ]);
            assert_eq!(answer.stdout.trim(), "no", "{component} {verb}");
        }
        let own = cluster().kubectl([
            "auth",
            "can-i",
            "update",
            "secrets",
            "-n",
            &install::namespace(),
            "--as",
            &account,
        ]);
        assert_eq!(own.stdout.trim(), "no", "the CA is never overwritten");
    }
    // And in the text of what was installed: nothing that the whole cluster grants names Secrets, or all resources.
    let label = format!("app.kubernetes.io/instance={}", install::release());
    let roles = cluster()
        .kubectl(["get", "clusterroles", "-l", &label, "-o", "json"])
        .ok();
    let roles: serde_json::Value = serde_json::from_str(&roles).expect("JSON");
    let rules: Vec<&serde_json::Value> = roles["items"]
        .as_array()
        .expect("items")
        .iter()
        .flat_map(|role| role["rules"].as_array().expect("rules"))
        .collect();
    assert!(rules.len() > 4, "{rules:?}");
    for rule in rules {
        for resource in rule["resources"].as_array().into_iter().flatten() {
            let resource = resource.as_str().expect("a text");
            assert!(
                !resource.starts_with("secrets") && !resource.contains('*'),
                "{rule}"
            );
        }
    }
}
