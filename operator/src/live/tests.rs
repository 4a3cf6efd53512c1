//! Lists in folders, and pods that take them up or do not.

use serde_json::json;

use super::*;

fn folder(document: Value, bundle: &str) -> Data {
    Data::from([
        ("agentd.json".to_owned(), document.to_string()),
        (BUNDLE.to_owned(), bundle.to_owned()),
    ])
}

fn caller(id: &str, role: &str) -> Value {
    json!({"name": id, "spiffe_id": id, "role": role})
}

#[test]
fn an_earlier_revision_gets_bundle_and_callers_and_keeps_the_rest() {
    let old = folder(
        json!({"agent": {"instruction": "old"}, "a2a": {"principals": [caller("a", "user")]}}),
        "1",
    );
    let fresh = folder(
        json!({"agent": {"instruction": "new"}, "a2a": {"principals": [caller("b", "user")]}}),
        "2",
    );
    let new = AGENT.refreshed(&old, &fresh).unwrap();
    assert_eq!(
        new,
        folder(
            json!({"agent": {"instruction": "old"}, "a2a": {"principals": [caller("b", "user")]}}),
            "2"
        )
    );
    assert_eq!(AGENT.refreshed(&new, &fresh), None, "nothing more to do");
    let mut added = new.clone();
    added.insert("extra".to_owned(), "x".to_owned());
    assert_eq!(
        AGENT.refreshed(&added, &fresh),
        Some(new.clone()),
        "a file of somebody else goes"
    );
    let nobody = folder(json!({"agent": {"instruction": "new"}}), "2");
    let emptied = AGENT.refreshed(&new, &nobody).unwrap();
    assert_eq!(
        emptied["agentd.json"],
        json!({"agent": {"instruction": "old"}, "a2a": {"principals": []}}).to_string()
    );
}

#[test]
fn where_the_spec_is_wrong_callers_only_leave() {
    let old = folder(
        json!({"a2a": {"principals": [caller("a", "operator"), caller("b", "user")]}}),
        "1",
    );
    let valid = [caller("a", "user"), caller("b", "user"), caller("c", "user")];
    let new = AGENT.narrowed(&old, &valid, "1").unwrap();
    assert_eq!(
        new,
        folder(json!({"a2a": {"principals": [caller("b", "user")]}}), "1")
    );
    assert_eq!(AGENT.narrowed(&new, &valid, "1"), None);
}

#[test]
fn a_bridges_list_is_its_own_and_nonsense_is_left_alone() {
    let old = Data::from([
        ("bridge.json".to_owned(), r#"{"allowed":["a","b"]}"#.to_owned()),
        (BUNDLE.to_owned(), "1".to_owned()),
    ]);
    let new = BRIDGE.narrowed(&old, &[json!("b")], "1").unwrap();
    assert_eq!(new["bridge.json"], r#"{"allowed":["b"]}"#);
    let nonsense = Data::from([
        ("bridge.json".to_owned(), "{".to_owned()),
        (BUNDLE.to_owned(), "1".to_owned()),
    ]);
    assert_eq!(BRIDGE.narrowed(&nonsense, &[], "1"), None);
}

fn pod(uid: &str, requested: Option<&str>) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": uid, "uid": uid, "annotations": requested.map(|value| json!({REQUESTED: value}))},
        "spec": {"containers": [], "volumes": [{"name": "live", "configMap": {"name": "m"}}]},
    }))
    .unwrap()
}

fn said(running: &str) -> Said {
    Said {
        pod_uid: "p".to_owned(),
        running: Some(running.to_owned()),
        rejected: None,
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_pod_is_hurried_once_then_waited_for_then_given_up() {
    let now = at("2026-12-01T10:00:00Z");
    let look = |pod: &Pod, said: Option<&Said>, written, now| uptake([pod], "m", "new", said, written, now);
    let fresh = pod("p", None);
    assert_eq!(look(&fresh, Some(&said("new")), false, now), Uptake::default());
    assert_eq!(
        look(&fresh, None, false, now),
        Uptake::default(),
        "a new pod mounts what stands"
    );
    let hurried = look(&fresh, None, true, now);
    assert_eq!(
        (hurried.hurry, hurried.until),
        (vec!["p".to_owned()], Some(at("2026-12-01T10:02:00Z")))
    );
    assert_eq!(
        look(&fresh, Some(&said("old")), false, now).hurry,
        ["p"],
        "also after a restart of ours"
    );

    let asked = pod("p", Some(&request("new", now)));
    let waiting = look(&asked, Some(&said("old")), false, at("2026-12-01T10:01:00Z"));
    assert_eq!(
        waiting,
        Uptake {
            hurry: vec![],
            until: Some(at("2026-12-01T10:02:00Z")),
            overdue: false
        }
    );
    let late = at("2026-12-01T10:02:00Z");
    assert!(look(&asked, Some(&said("old")), false, late).overdue);
    assert!(
        !look(&asked, None, false, late).overdue,
        "no report is no failure"
    );
    let refused = Said {
        rejected: Some("new".to_owned()),
        ..said("old")
    };
    assert_eq!(
        look(&asked, Some(&refused), false, late),
        Uptake::default(),
        "a new pod would refuse it too"
    );
    assert_eq!(
        look(&pod("p", Some("other x")), Some(&said("old")), false, now).hurry,
        ["p"]
    );
    assert_eq!(
        uptake([&fresh], "another", "new", Some(&said("old")), true, now),
        Uptake::default()
    );
}
