//! The Agents of `manifests/examples`: what a person copies is taken by the API server and accepted as it is.

use std::fs;

use agentd_tests::cluster::{cluster, repository};
use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{for_condition, resources};

use crate::harness::{LIMIT, Operator};

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_are_accepted() {
    let operator = Operator::start().await;
    let team = Namespace::new("examples");
    let agents = resources(&operator.client, team.name(), "Agent");
    let files = fs::read_dir(repository().join("manifests/examples")).expect("manifests/examples");
    let mut accepted = Vec::new();
    for file in files {
        let text = fs::read_to_string(file.expect("an entry").path()).expect("an example");
        let moved = text.replace(
            "namespace: agentd-demo\n",
            &format!("namespace: {}\n", team.name()),
        );
        let applied = cluster().apply(&moved).ok();
        let name = applied
            .strip_prefix("agent.agentd.io/")
            .and_then(|said| said.split_whitespace().next())
            .unwrap_or_else(|| panic!("one Agent: {applied}"));
        for_condition(&agents, name, "Accepted", "True", "Accepted", LIMIT).await;
        accepted.push(name.to_owned());
    }
    accepted.sort();
    assert_eq!(
        accepted,
        [
            "clerk",
            "polyglot",
            "remembers-by-http",
            "remembers-by-mcp",
            "thrifty"
        ]
    );
}
