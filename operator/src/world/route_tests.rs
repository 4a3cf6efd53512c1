//! Who is woken by what.

use kube::core::DeserializeGuard;
use serde_json::{Value, json};

use super::super::Trackers;
use super::*;

/// A world with the Agents `lists` (every caller of its namespace), `names` (ServiceAccount `fs-mcp`) and `other`.
fn world() -> World {
    let mut trackers = Trackers::default();
    let lists = json!([{"name": "p", "namespace": {"name": "n", "kind": "Callers"}, "role": "user"}]);
    let names = json!([
        {"name": "p", "serviceAccountRef": {"name": "fs-mcp"}, "role": "user"},
        {"name": "q", "serviceAccountRef": {"name": "late-agent"}, "role": "user"},
    ]);
    let agents = [("lists", lists), ("names", names), ("other", json!([]))];
    for (name, principals) in agents {
        let event = kube::runtime::watcher::Event::Apply(agent(name, principals));
        trackers.agents.take(&event);
    }
    trackers.world(("system".to_owned(), "issuer".to_owned()))
}

fn object<K: serde::de::DeserializeOwned>(kind: &str, name: &str, generation: i64, spec: Value) -> K {
    let metadata = json!({"namespace": "n", "name": name, "uid": name, "generation": generation});
    let object =
        json!({"apiVersion": "agentd.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
    serde_json::from_value(object).unwrap()
}

fn agent(name: &str, principals: Value) -> GuardedAgent {
    let intelligence = json!({"endpoints": [], "model": "m"});
    let spec = json!({"intelligence": intelligence, "a2a": {"principals": principals}});
    DeserializeGuard(Ok(object("Agent", name, 1, spec)))
}

fn server(generation: i64, spec: Value) -> Arc<GuardedServer> {
    Arc::new(DeserializeGuard(Ok(object("McpServer", "fs", generation, spec))))
}

fn woken(targets: &[Target]) -> Vec<&str> {
    let mut names: Vec<&str> = targets
        .iter()
        .map(|target| match target {
            Target::Agent { name, .. } | Target::McpServer { name, .. } => name.as_str(),
            Target::Bundles => "bundles",
        })
        .collect();
    names.sort_unstable();
    names
}

/// `<x>-mcp` is a caller unless an McpServer runs under it.
#[test]
fn a_server_that_takes_or_gives_back_its_account_wakes_those_that_list_it() {
    let world = world();
    let woken_by = |before: Option<Value>, after: Option<Value>| {
        let change = Change {
            before: before.map(|spec| server(1, spec)),
            after: after.map(|spec| server(2, spec)),
            initial: false,
        };
        woken(&of_server(&world, &change)).join(" ")
    };
    let run = || Some(json!({"deployment": {"image": "i"}}));
    let remote = || Some(json!({"endpoint": "https://x"}));
    assert_eq!(woken_by(None, run()), "fs lists names");
    assert_eq!(woken_by(run(), None), "lists names");
    assert_eq!(woken_by(run(), remote()), "fs lists names");
    assert_eq!(woken_by(remote(), run()), "fs lists names");
    assert_eq!(woken_by(run(), run()), "fs");
    assert_eq!(woken_by(None, remote()), "fs");
    assert_eq!(woken_by(remote(), None), "");
}

/// The same of an Agent's account.
#[test]
fn an_agent_that_comes_or_goes_wakes_those_that_list_its_account() {
    let world = world();
    let late = || Some(Arc::new(agent("late", json!([]))));
    let woken_by = |before, after| {
        let change = Change {
            before,
            after,
            initial: false,
        };
        woken(&of_agent(&world, &change)).join(" ")
    };
    assert_eq!(woken_by(None, late()), "late lists names");
    assert_eq!(woken_by(late(), None), "lists names");
    assert_eq!(woken_by(late(), late()), "");
}
