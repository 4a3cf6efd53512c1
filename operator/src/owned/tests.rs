//! The decision about one object.

use serde_json::json;

use super::*;

fn judge(live: Option<&Value>, wanted: &Value) -> Decision {
    decide(live, wanted, by_controller)
}

fn object(owner: Option<(&str, &str)>, hash: &str, port: i32) -> Value {
    let references =
        owner.map(|(name, uid)| json!([{"kind": "Agent", "name": name, "uid": uid, "controller": true}]));
    json!({
        "metadata": {"name": "a-agent", "uid": "live", "ownerReferences": references, "annotations": {APPLIED: hash}},
        "spec": {"port": port},
    })
}

#[test]
fn r20_an_object_that_is_not_ours_is_never_written() {
    let wanted = object(Some(("a", "1")), "h", 1);
    assert_eq!(judge(None, &wanted), Decision::Create);
    assert_eq!(judge(Some(&object(None, "h", 1)), &wanted), Decision::Foreign);
    assert_eq!(
        judge(Some(&object(Some(("b", "2")), "h", 1)), &wanted),
        Decision::Foreign
    );
    assert_eq!(
        judge(Some(&object(Some(("a", "0")), "h", 1)), &wanted),
        Decision::Leftover
    );
}

#[test]
fn r01_only_a_difference_is_written() {
    let wanted = object(Some(("a", "1")), "h", 1);
    assert_eq!(judge(Some(&wanted), &wanted), Decision::Keep);
    let change = Decision::Change {
        uid: "live".to_owned(),
    };
    assert_eq!(
        judge(Some(&object(Some(("a", "1")), "h", 2)), &wanted),
        change,
        "edited by somebody"
    );
    assert_eq!(
        judge(Some(&object(Some(("a", "1")), "old", 1)), &wanted),
        change,
        "we want less than before"
    );
}

#[test]
fn the_stamp_depends_on_all_of_the_object_and_on_nothing_else() {
    let map = |value: &str| -> k8s_openapi::api::core::v1::ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"k": value}})).unwrap()
    };
    let (one, again, other) = (
        stamped(&map("1")).unwrap(),
        stamped(&map("1")).unwrap(),
        stamped(&map("2")).unwrap(),
    );
    assert_eq!(one, again);
    assert_ne!(annotation(&one), annotation(&other));
}

#[test]
fn a_claim_that_outlives_its_agent_belongs_to_it_by_label() {
    let claim = |controller: Option<&str>, label: Option<&str>| {
        let references =
            controller.map(|uid| json!([{"kind": "Agent", "name": "a", "uid": uid, "controller": true}]));
        json!({"kind": "PersistentVolumeClaim",
            "metadata": {"ownerReferences": references, "labels": {AGENT_UID: label}}})
    };
    let kept = claim(None, Some("1"));
    assert_eq!(by_controller(&kept, &kept), Standing::Ours);
    assert_eq!(
        by_controller(&claim(Some("1"), None), &kept),
        Standing::Ours,
        "it was deleted with the Agent before"
    );
    assert_eq!(
        by_controller(&kept, &claim(Some("1"), None)),
        Standing::Ours,
        "and the other way round"
    );
    assert_eq!(by_controller(&claim(None, Some("0")), &kept), Standing::Foreign);
    assert_eq!(by_controller(&claim(None, None), &kept), Standing::Foreign);
    let mut service = kept.clone();
    service["kind"] = json!("Service");
    assert_eq!(
        by_controller(&service, &service),
        Standing::Foreign,
        "only claims are kept so"
    );
}
