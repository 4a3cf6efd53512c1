//! The decision about one object.

use serde_json::json;

use super::*;

fn object(owner: Option<(&str, &str)>, hash: &str, port: i32) -> Value {
    let references = owner.map(|(name, uid)| json!([{"kind": "Agent", "name": name, "uid": uid, "controller": true}]));
    json!({
        "metadata": {"name": "a-agent", "uid": "live", "ownerReferences": references, "annotations": {APPLIED: hash}},
        "spec": {"port": port},
    })
}

#[test]
fn r20_an_object_that_is_not_ours_is_never_written() {
    let wanted = object(Some(("a", "1")), "h", 1);
    assert_eq!(decide(None, &wanted), Decision::Create);
    assert_eq!(decide(Some(&object(None, "h", 1)), &wanted), Decision::Foreign);
    assert_eq!(decide(Some(&object(Some(("b", "2")), "h", 1)), &wanted), Decision::Foreign);
    assert_eq!(decide(Some(&object(Some(("a", "0")), "h", 1)), &wanted), Decision::Leftover);
}

#[test]
fn r01_only_a_difference_is_written() {
    let wanted = object(Some(("a", "1")), "h", 1);
    assert_eq!(decide(Some(&wanted), &wanted), Decision::Keep);
    let change = Decision::Change { uid: "live".to_owned() };
    assert_eq!(decide(Some(&object(Some(("a", "1")), "h", 2)), &wanted), change, "edited by somebody");
    assert_eq!(decide(Some(&object(Some(("a", "1")), "old", 1)), &wanted), change, "we want less than before");
}

#[test]
fn the_stamp_depends_on_all_of_the_object_and_on_nothing_else() {
    let map = |value: &str| -> k8s_openapi::api::core::v1::ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"k": value}})).unwrap()
    };
    let (one, again, other) = (stamped(&map("1")).unwrap(), stamped(&map("1")).unwrap(), stamped(&map("2")).unwrap());
    assert_eq!(one, again);
    assert_ne!(annotation(&one), annotation(&other));
}
