//! What must not work on a real node, each with its reason: past the bridge, for agents that a server does not allow,
//! for accounts that get no identity.

use std::time::Duration;

use agentd_tests::caller::{curl, fetch_identity};
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
    let server = sample(namespace.name(), "mcpserver-everything.yaml")
        .replace("spec:\n", "spec:\n  allowedAgents: {agents: [{name: other}]}\n");
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
        "spec:\n  allowedAgents: {agents: [{name: other}, {name: demo}]}\n",
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
}
