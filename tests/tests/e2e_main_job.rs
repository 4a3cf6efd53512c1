//! The main job on a real node: the samples become Ready in any order, and an agent answers an A2A message by calling a
//! tool. Every hop is a real one.

use std::time::Duration;

use agentd_base::clock::{Clock as _, SystemClock};
use agentd_identity::authority::Authority;
use agentd_identity::{SpiffeId, TrustDomain};
use agentd_tests::caller::{Agent, ask, ask_with_sdk, curl, fetch_identity};
use agentd_tests::cluster::cluster;
use agentd_tests::namespace::Namespace;
use agentd_tests::samples::{await_samples, reach_outside, ready_namespace, samples};
use agentd_tests::{command, install, wait};
use serde_json::Value;

/// `status.<key>` of the sample agent.
fn agent_status(namespace: &Namespace, key: &str) -> String {
    namespace
        .kubectl(&[
            "get",
            "agents.agentd.io",
            "demo",
            "-o",
            &format!("jsonpath={{.status.{key}}}"),
        ])
        .ok()
}

#[tokio::test]
async fn an_agent_answers_a_message_with_what_a_tool_said() {
    let (namespace, _client) = ready_namespace("main").await;
    let caller =
        fetch_identity(namespace.name(), "caller").expect("a labelled ServiceAccount gets an identity");
    let agent = Agent::of(&namespace, "demo");

    // A client that we did not write, which checks our certificate by host name.
    let answer = ask_with_sdk(&agent, "What is 2 plus 40?", &caller).ok();
    assert_eq!(answer.trim(), "The tool says: The sum of 2 and 40 is 42.");
    // Ours, which checks it by SPIFFE ID; and the second server, whose tools have a prefix.
    let answer = ask(&agent, "Let remote echo this", &caller).ok();
    assert_eq!(answer.trim(), "The tool says: Echo: Let remote echo this");

    // Both calls are in the agent's log, and no log line is anything but JSON.
    let log = namespace.kubectl(&["logs", "deployment/demo-agent"]).ok();
    let events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let calls = events
        .iter()
        .filter(|line| line.get("event").is_some_and(|event| event == "tool.call"))
        .count();
    assert_eq!(calls, 2, "{log}");

    // How the last turn ended is in the status.
    let wait = "--for=jsonpath={.status.lastRun.outcome}=completed";
    namespace
        .kubectl(&["wait", wait, "agents.agentd.io/demo", "--timeout=60s"])
        .ok();
    let run: Value = serde_json::from_str(&agent_status(&namespace, "lastRun")).expect("JSON");
    // Two calls of the model, and one of a tool.
    assert_eq!(
        (&run["trigger"], &run["steps"]),
        (&"message".into(), &3.into()),
        "{run}"
    );
    // What was said is not in it.
    assert!(
        run["tokens"].as_i64() > Some(0) && !run.to_string().contains("cho this"),
        "{run}"
    );
}

#[tokio::test]
async fn the_samples_become_ready_in_other_orders_too() {
    // The usual order has the agent first; here it is last, and between the servers.
    let orders = [[3, 2, 1, 0], [2, 0, 1, 3]];
    let namespaces = orders.map(|order| {
        let namespace = Namespace::new("order");
        let samples = samples(namespace.name());
        assert_eq!(samples.len(), order.len(), "a place for each sample");
        for place in order {
            let _ = cluster().apply(&samples[place].1).ok();
        }
        namespace
    });
    let client = cluster().client().await;
    for namespace in &namespaces {
        // Secrets and the CA come last of all: what is missing holds nothing back for good.
        reach_outside(namespace.name());
    }
    for namespace in &namespaces {
        await_samples(&client, namespace.name()).await;
        every_condition_is_current_and_explained(namespace);
    }
}

fn every_condition_is_current_and_explained(namespace: &Namespace) {
    let status = namespace
        .kubectl(&["get", "agents.agentd.io,mcpservers.agentd.io", "-o", "json"])
        .ok();
    let list: Value = serde_json::from_str(&status).expect("JSON");
    for item in list["items"].as_array().expect("items") {
        assert_eq!(
            item["status"]["observedGeneration"], item["metadata"]["generation"],
            "{item}"
        );
        for condition in item["status"]["conditions"].as_array().expect("conditions") {
            assert_eq!(
                condition["observedGeneration"], item["metadata"]["generation"],
                "{condition}"
            );
            if condition["status"] != "True" {
                let (reason, message) = (condition["reason"].as_str(), condition["message"].as_str());
                assert!(reason.is_some_and(|text| !text.is_empty()), "S10: {condition}");
                assert!(message.is_some_and(|text| !text.is_empty()), "S10: {condition}");
            }
        }
    }
}

#[tokio::test]
async fn p01_pods_keep_to_the_restricted_standard_and_hold_no_kubernetes_token() {
    // The namespace enforces it, so pods that run are the proof; here is what the standard does not ask for.
    let (namespace, _client) = ready_namespace("pods").await;
    let pods = namespace.kubectl(&["get", "pods", "-o", "json"]).ok();
    let pods: Value = serde_json::from_str(&pods).expect("JSON");
    let pods = pods["items"].as_array().expect("items");
    assert_eq!(pods.len(), 2, "one of the agent, one of the server");
    for pod in pods {
        let spec = &pod["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false, "{spec}");
        for volume in spec["volumes"].as_array().expect("volumes") {
            for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
                let audience = source["serviceAccountToken"]["audience"].as_str();
                assert_eq!(
                    audience,
                    Some(format!("agentd:{}/{}", install::namespace(), install::release()).as_str())
                );
            }
        }
        for container in spec["containers"].as_array().expect("containers") {
            let ours = container["image"]
                .as_str()
                .is_some_and(|image| image.contains("/agentd/agentd:"));
            if ours {
                assert_eq!(
                    container["securityContext"]["readOnlyRootFilesystem"], true,
                    "{container}"
                );
                assert!(
                    container["resources"]["requests"]["cpu"].is_string(),
                    "{container}"
                );
                assert!(
                    container["resources"]["limits"]["memory"].is_string(),
                    "{container}"
                );
            }
        }
    }
    namespace
        .kubectl(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=10s"])
        .ok();
}

#[tokio::test]
async fn callers_are_refused_without_a_certificate_with_a_foreign_one_and_without_a_principal() {
    let (namespace, _client) = ready_namespace("refuse").await;
    namespace.apply(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: stranger\n  namespace: NAMESPACE\n  labels: {agentd.io/caller: \"true\"}\n",
    );
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let stranger = fetch_identity(namespace.name(), "stranger").expect("an identity, but no principal's");
    let agent = Agent::of(&namespace, "demo");
    let url = agent.url();
    let path = |identity: &agentd_tests::caller::Identity, name: &str| {
        identity.folder().join(name).to_str().expect("UTF-8").to_owned()
    };
    let ca = path(&caller, "bundle.pem");
    let post = [
        "--request",
        "POST",
        "--header",
        "content-type: application/json",
        "--header",
        "a2a-version: 1.0",
    ];
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"none"}}"#;

    // The card is public.
    let card = curl(&format!("{url}/.well-known/agent-card.json"), &["--cacert", &ca]).ok();
    assert!(card.ends_with("\n200"), "{card}");
    // Without a certificate.
    let none = curl(url, &[&post[..], &["--data", body, "--cacert", &ca]].concat()).ok();
    assert!(none.ends_with("\n401"), "{none}");
    // With one that no principal matches.
    let (cert, key) = (path(&stranger, "svid.pem"), path(&stranger, "key.pem"));
    let unknown = curl(
        url,
        &[
            &post[..],
            &["--data", body, "--cacert", &ca, "--cert", &cert, "--key", &key],
        ]
        .concat(),
    )
    .ok();
    assert!(unknown.ends_with("\n403"), "{unknown}");
    let said = ask(&agent, "What is 2 plus 40?", &stranger).failed();
    assert!(
        said.contains("403") || said.to_lowercase().contains("principal"),
        "{said}"
    );
    // With one of another trust domain: the handshake ends.
    let foreign = foreign_identity();
    let (cert, key) = (foreign.path().join("svid.pem"), foreign.path().join("key.pem"));
    let refused = curl(
        url,
        &[
            &post[..],
            &["--data", body, "--cacert", &ca, "--cert"],
            &[cert.to_str().expect("UTF-8"), "--key"],
            &[key.to_str().expect("UTF-8")],
        ]
        .concat(),
    )
    .failed();
    // The alert comes after the client has finished its half (TLS 1.3): some clients read it, others see the connection
    // end while they write. No answer is what both see.
    assert!(refused.trim_end().ends_with("\n000"), "{refused}");
    // The one that is meant gets through, with the same request.
    let (cert, key) = (path(&caller, "svid.pem"), path(&caller, "key.pem"));
    let allowed = curl(
        url,
        &[
            &post[..],
            &["--data", body, "--cacert", &ca, "--cert", &cert, "--key", &key],
        ]
        .concat(),
    )
    .ok();
    assert!(
        allowed.contains("-32001") && allowed.ends_with("\n200"),
        "{allowed}"
    );
}

/// An SVID as good as ours, but of a trust domain of its own.
fn foreign_identity() -> tempfile::TempDir {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let now = SystemClock.now();
    let domain: TrustDomain = "elsewhere.example".parse().expect("a trust domain");
    let id: SpiffeId = "spiffe://elsewhere.example/ns/a/sa/b".parse().expect("an ID");
    let authority = Authority::generate(&domain, now).expect("an authority");
    let svid = authority
        .own_svid(&id, &[], Duration::from_secs(3600), now)
        .expect("an SVID");
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("svid.pem"), svid.chain_pem()).expect("written");
    std::fs::write(folder.path().join("key.pem"), svid.key_pem().as_bytes()).expect("written");
    folder
}

#[tokio::test]
async fn what_the_issuer_signed_is_good_for_openssl_and_for_the_spiffe_package() {
    let (namespace, _client) = ready_namespace("x509").await;
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let file = |name: &str| caller.folder().join(name);
    // The caller's, and the one that the agent serves.
    let agent = Agent::of(&namespace, "demo");
    let host = agent
        .url()
        .trim_start_matches("https://")
        .split(':')
        .next()
        .expect("a host")
        .to_owned();
    let served = command::run(cluster().on_node(1, "openssl").args([
        "s_client",
        "-showcerts",
        "-connect",
        &format!("{host}:8443"),
    ]));
    let served: String = pem_blocks(&served.stdout).concat();
    std::fs::write(file("served.pem"), served).expect("written");
    for name in ["svid.pem", "served.pem"] {
        let verified = command::run(
            std::process::Command::new("openssl")
                .args(["verify", "-x509_strict", "-purpose", "any", "-CAfile"])
                .arg(file("bundle.pem"))
                .arg("-untrusted")
                .arg(file(name))
                .arg(file(name)),
        );
        assert!(verified.ok().contains("OK"), "{name}");
    }
    let text = command::run(
        std::process::Command::new("openssl")
            .args(["x509", "-noout", "-text", "-in"])
            .arg(file("served.pem")),
    )
    .ok();
    for part in [
        "X509v3 Authority Key Identifier",
        "X509v3 Subject Key Identifier",
        "CA:FALSE",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        text.contains(&format!("DNS:demo-agent.{}.svc", namespace.name())),
        "{text}"
    );

    let parsed = command::run(std::process::Command::new(install::python()).args([
        "-c",
        "import sys; from spiffe import X509Svid, X509Bundle, TrustDomain\n\
         svid = X509Svid.load(sys.argv[1], sys.argv[2], __import__('cryptography').hazmat.primitives.serialization.Encoding.PEM)\n\
         bundle = X509Bundle.load(svid.spiffe_id.trust_domain, sys.argv[3], __import__('cryptography').hazmat.primitives.serialization.Encoding.PEM)\n\
         print(svid.spiffe_id, len(bundle.x509_authorities))",
        file("svid.pem").to_str().expect("UTF-8"),
        file("key.pem").to_str().expect("UTF-8"),
        file("bundle.pem").to_str().expect("UTF-8"),
    ]))
    .ok();
    let (id, roots) = parsed.trim().split_once(' ').expect("two words");
    assert!(
        id.ends_with(&format!("/ns/{}/sa/caller", namespace.name())),
        "{id}"
    );
    assert_eq!(roots, "1");
}

/// The certificates in what `openssl s_client` prints.
fn pem_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN CERTIFICATE-----") {
        let Some((body, left)) = after.split_once("-----END CERTIFICATE-----") else {
            break;
        };
        blocks.push(format!(
            "-----BEGIN CERTIFICATE-----{body}-----END CERTIFICATE-----\n"
        ));
        rest = left;
    }
    blocks
}

#[tokio::test]
async fn deletion_leaves_nothing_but_what_retain_says() {
    let (namespace, client) = ready_namespace("delete").await;
    namespace.apply(
        "apiVersion: agentd.io/v1alpha1\nkind: Agent\nmetadata: {name: keeper, namespace: NAMESPACE}\nspec:\n  \
         instruction: Keep.\n  intelligence:\n    endpoints: [{name: m, url: \"https://model.agentd-demo-outside.svc:8443/v1\"}]\n    \
         model: demo-model\n  store: {file: {size: 1Gi, retain: Retain}}\n",
    );
    let agents = wait::resources(&client, namespace.name(), "Agent");
    wait::for_condition(&agents, "keeper", "Ready", "True", "", Duration::from_secs(60)).await;
    namespace
        .kubectl(&[
            "delete",
            "--cascade=foreground",
            "--timeout=90s",
            "agents.agentd.io,mcpservers.agentd.io",
            "--all",
        ])
        .ok();
    let left = namespace
        .kubectl(&[
            "get",
            "deployments,replicasets,pods,services,serviceaccounts,networkpolicies,configmaps,persistentvolumeclaims",
            "-o",
            "name",
        ])
        .ok();
    let mut left: Vec<&str> = left.lines().collect();
    left.sort_unstable();
    assert_eq!(
        left,
        [
            "configmap/agentd-bundle",
            "configmap/demo-ca",
            "configmap/kube-root-ca.crt",
            "persistentvolumeclaim/keeper-agent",
            "serviceaccount/caller",
            "serviceaccount/default"
        ]
    );
}
