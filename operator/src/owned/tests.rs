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

mod flows {
    //! What is asked of the API server, and what its answers mean.

    use agentd_base::class::{Class, Classified as _};
    use k8s_openapi::api::core::v1::Service;
    use prometheus::Registry;

    use super::*;
    use crate::scripted::{Seen, api_server};

    const PATH: &str = "/api/v1/namespaces/n/services/a-agent";

    fn wanted() -> Service {
        let owner = json!([{"apiVersion": "agentd.io/v1alpha1", "kind": "Agent", "name": "a", "uid": "1", "controller": true}]);
        let metadata = json!({"name": "a-agent", "namespace": "n", "ownerReferences": owner});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"ports": [{"port": 8443}]}})).unwrap()
    }

    /// As the API server gives back what was applied: with a UID and defaults.
    fn stored(applied: &Value) -> Value {
        let mut live = applied.clone();
        live["metadata"]["uid"] = json!("live");
        live["metadata"]["resourceVersion"] = json!("7");
        live["spec"]["ports"][0]["protocol"] = json!("TCP");
        live
    }

    fn metrics() -> Metrics {
        Metrics::new(&Registry::new()).unwrap()
    }

    async fn first(status: u16, live: Option<Value>) -> (Result<Applied<Service>, OwnedError>, Vec<Seen>) {
        let (client, mut server) = api_server();
        let (metrics, wanted) = (metrics(), wanted());
        let apply = async {
            let result = apply(&client, &metrics, &wanted).await;
            drop(client);
            result
        };
        let script = async {
            let mut seen = Vec::new();
            match live {
                Some(live) => seen.push(server.answer(200, live).await),
                None => seen.push(
                    server
                        .refuse(404, "NotFound", "services \"a-agent\" not found")
                        .await,
                ),
            }
            if status == 200 {
                seen.push(server.answer(200, stored(&stamped(&wanted).unwrap())).await);
            } else if status > 0 {
                seen.push(server.refuse(status, "Conflict", "Precondition failed").await);
            }
            server.nothing_more().await;
            seen
        };
        tokio::join!(apply, script)
    }

    #[tokio::test]
    async fn what_is_not_there_is_made_only_where_nothing_is() {
        let (applied, seen) = first(200, None).await;
        assert!(applied.unwrap().written);
        assert_eq!(seen[0].line, format!("GET {PATH}"));
        assert_eq!(seen[1].line, format!("PATCH {PATH}"));
        assert!(
            seen[1].query.contains("fieldManager=agentd") && !seen[1].query.contains("force=true"),
            "{}",
            seen[1].query
        );
        assert_eq!(seen[1].body["metadata"]["resourceVersion"], json!("1"));

        // It appeared in between.
        let (applied, _) = first(409, None).await;
        assert_eq!(applied.unwrap_err().class(), Class::Conflict);
    }

    #[tokio::test]
    async fn what_is_as_it_should_be_is_only_read() {
        let (applied, seen) = first(0, Some(stored(&stamped(&wanted()).unwrap()))).await;
        assert!(!applied.unwrap().written);
        assert_eq!(seen.len(), 1);
    }

    #[tokio::test]
    async fn what_differs_is_applied_by_force_to_that_very_object() {
        let mut edited = stored(&stamped(&wanted()).unwrap());
        edited["spec"]["ports"][0]["port"] = json!(1);
        let (applied, seen) = first(200, Some(edited)).await;
        assert!(applied.unwrap().written);
        assert!(seen[1].query.contains("force=true"));
        assert_eq!(seen[1].body["metadata"]["uid"], json!("live"));
        assert_eq!(seen[1].body["metadata"].get("resourceVersion"), None);
    }

    #[tokio::test]
    async fn what_is_not_ours_is_only_read() {
        let mut foreign = stored(&stamped(&wanted()).unwrap());
        foreign["metadata"]["ownerReferences"] = json!([]);
        let (applied, seen) = first(0, Some(foreign)).await;
        let error = applied.unwrap_err();
        assert_eq!(error.class(), Class::Invalid);
        assert!(
            error
                .to_string()
                .contains("Service `a-agent` exists and does not belong"),
            "{error}"
        );
        assert_eq!(seen.len(), 1);
    }

    #[test]
    fn refusals_are_sorted_by_who_must_act() {
        let sorted = |code: u16, message: &str| {
            let status = kube::core::Status {
                code,
                message: message.to_owned(),
                ..kube::core::Status::default()
            };
            of_kube::<Service>("s", kube::Error::Api(Box::new(status))).class()
        };
        assert_eq!(sorted(409, "the object has been modified"), Class::Conflict);
        assert_eq!(
            sorted(422, "metadata.uid: Invalid value: field is immutable"),
            Class::Conflict
        );
        assert_eq!(sorted(422, "spec.ports: Required value"), Class::Invalid);
        assert_eq!(
            sorted(403, "services \"s\" is forbidden: exceeded quota: q"),
            Class::Invalid
        );
        assert_eq!(
            sorted(403, "admission webhook \"w\" denied the request: we cannot"),
            Class::Invalid
        );
        assert_eq!(
            sorted(
                403,
                "services \"s\" is forbidden: User \"u\" cannot patch resource"
            ),
            Class::Denied
        );
        assert_eq!(
            sorted(
                403,
                "unable to create new content in namespace n because it is being terminated"
            ),
            Class::Unavailable
        );
        assert_eq!(sorted(500, "etcd"), Class::Unavailable);
        // No other try gets any of these further.
        assert_eq!(sorted(413, "Request entity too large"), Class::Invalid);
        let unreadable = "failed to convert new object (n/a; apps/v1, Kind=Deployment) to proper version (apps/v1): \
                          unable to convert unstructured object to apps/v1, Kind=Deployment: quantities must match";
        assert_eq!(sorted(500, unreadable), Class::Invalid);
    }
}
