//! What was applied stays, and nothing else is written.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{for_condition, resources};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::json;

use crate::harness::{LIMIT, Operator, until};
use crate::objects::{agent, operated, remote, server};

/// The version of every object of a namespace that is ours to write.
fn versions(team: &Namespace) -> BTreeMap<String, String> {
    let kinds = "agents.agentd.io,mcpservers.agentd.io,deployments,replicasets,pods,services,serviceaccounts,configmaps,\
                 persistentvolumeclaims,networkpolicies";
    let template =
        "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
    let text = team.kubectl(&["get", kinds, "--output", template]).ok();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

async fn writes(operator: &Operator) -> f64 {
    operator.counter("agentd_operator_object_writes_total", "").await
        + operator.counter("agentd_operator_status_writes_total", "").await
}

/// Waits until the controllers have looked at as many objects.
async fn looked(operator: &Operator, count: f64) {
    let looked = async {
        while operator.counter("agentd_operator_reconciles_total", "").await < count {
            tokio::task::yield_now().await;
        }
    };
    // A lease that could not be given back over a connection that was cut has to end first.
    tokio::time::timeout(2 * LIMIT, looked)
        .await
        .expect("the controllers look at everything");
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_r04_no_writes_in_steady_state_also_after_a_restart() {
    let mut operator = Operator::start().await;
    let team = Namespace::new("r01");
    team.apply(&operated("fs"));
    team.apply(&remote("search", "https://search.example/mcp"));
    let spec = "  mcpServers: [{name: fs, ref: {name: fs}}, {name: web, ref: {name: search}}]\n  \
                resources: {requests: {cpu: '0.5', memory: 1024Mi}, limits: {memory: 2Gi}}\n  \
                serviceAccount: {annotations: {a: b}}\n  networkPolicy: {mode: Managed}";
    team.apply(&agent("triage", spec));
    operator.bring_up_server(team.name(), "fs").await;
    let connected = ["fs", "web"]
        .map(|name| server(name, ServerState::Connected))
        .to_vec();
    operator.bring_up(team.name(), "triage", connected).await;
    let servers = resources(&operator.client, team.name(), "McpServer");
    for_condition(&servers, "search", "Ready", "True", "", LIMIT).await;

    operator.halt().await;
    let before = versions(&team);
    assert!(before.len() > 15, "{before:?}");
    // Each start lists everything and looks at every object.
    for _ in 0..3 {
        operator.resume().await;
        operator.authority().await;
        looked(&operator, 3.0).await;
        for _ in 0..3 {
            // The watches begin again, and so do the requests that were on the way.
            operator.relay.cut();
            operator.authority().await;
        }
        if agentd_tests::cluster::is_soak() {
            tokio::time::sleep(Duration::from_secs(200)).await;
        }
        assert_eq!(versions(&team), before);
        assert_eq!(
            writes(&operator).await,
            0.0,
            "{}",
            operator.page("/metrics").await.1
        );
        operator.halt().await;
    }
    // And what changes while all this happens is still seen.
    operator.resume().await;
    operator.authority().await;
    looked(&operator, 3.0).await;
    operator.relay.cut();
    team.apply(&agent("later", ""));
    operator.bring_up(team.name(), "later", vec![]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_what_is_deleted_or_edited_is_restored() {
    let operator = Operator::start().await;
    let team = Namespace::new("r07");
    team.apply(&agent("triage", "  mcpServers: [{name: fs, ref: {name: fs}}]"));
    team.apply(&operated("fs"));
    operator.bring_up_server(team.name(), "fs").await;
    operator
        .bring_up(team.name(), "triage", vec![server("fs", ServerState::Connected)])
        .await;
    for made in ["triage-agent", "fs-mcp"] {
        restored::<Service>(
            &operator,
            &team,
            made,
            json!({"spec": {"ports": [{"port": 8443, "targetPort": 1}]}}),
            "/spec/ports",
        )
        .await;
        restored::<Deployment>(
            &operator,
            &team,
            made,
            json!({"spec": {"template": {"spec": {"serviceAccountName": "default"}}}}),
            "/spec/template/spec/serviceAccountName",
        )
        .await;
        restored::<ServiceAccount>(
            &operator,
            &team,
            made,
            json!({"automountServiceAccountToken": true}),
            "/automountServiceAccountToken",
        )
        .await;
        restored::<k8s_openapi::api::networking::v1::NetworkPolicy>(
            &operator,
            &team,
            made,
            json!({"spec": {"policyTypes": ["Ingress"]}}),
            "/spec/policyTypes",
        )
        .await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(operator.client.clone(), team.name());
    for map in maps
        .list(&kube::api::ListParams::default().labels("agentd.io/revision"))
        .await
        .unwrap()
    {
        let edit = if map.immutable == Some(true) {
            json!({})
        } else {
            json!({"data": {"bundle.pem": "mine"}})
        };
        restored::<ConfigMap>(&operator, &team, &map.name_any(), edit, "/data").await;
    }
}

/// Edits an object, then deletes it: both times it comes back as it was.
async fn restored<K>(operator: &Operator, team: &Namespace, name: &str, edit: serde_json::Value, path: &str)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + serde::Serialize
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(operator.client.clone(), team.name());
    let value = |object: &K| serde_json::to_value(object).unwrap().pointer(path).cloned();
    let (wanted, limit) = (value(&api.get(name).await.unwrap()), Duration::from_secs(30));
    let back = |uid: Option<String>| {
        let wanted = wanted.clone();
        move |objects: &BTreeMap<String, K>| {
            let object = objects.get(name)?;
            (object.meta().uid != uid && value(object) == wanted).then_some(())
        }
    };
    if edit != json!({}) {
        let edited = api
            .patch(name, &PatchParams::default(), &Patch::Merge(&edit))
            .await
            .unwrap();
        assert_ne!(value(&edited), wanted, "the edit does something");
        until(api.clone(), "", "restored after an edit", limit, back(None)).await;
    }
    let uid = api.get(name).await.unwrap().meta().uid.clone();
    api.delete(name, &DeleteParams::background()).await.unwrap();
    until(api.clone(), "", "restored after a deletion", limit, back(uid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_labels_and_annotations_of_others_survive() {
    let operator = Operator::start().await;
    let team = Namespace::new("r10");
    team.apply(&agent("triage", ""));
    let up = operator.bring_up(team.name(), "triage", vec![]).await;
    for kind in ["service", "deployment", "serviceaccount", "networkpolicy"] {
        team.kubectl(&["annotate", kind, "triage-agent", "mesh.example/inject=true"])
            .ok();
        team.kubectl(&["label", kind, "triage-agent", "team.example/owner=blue"])
            .ok();
    }
    team.apply(&agent(
        "triage",
        "  image: registry.test/agentd:2\n  serviceAccount: {annotations: {a: b}}",
    ));
    operator.digest(team.name(), "triage", "").await;
    crate::harness::pod_of(
        &operator.client,
        team.name(),
        "agentd.io/agent=triage",
        up.pod.uid().as_deref(),
    )
    .await;
    for kind in ["service", "deployment", "serviceaccount", "networkpolicy"] {
        let seen = team.kubectl(&["get", kind, "triage-agent", "--output", "jsonpath={.metadata.annotations.mesh\\.example/inject} {.metadata.labels.team\\.example/owner}"]).ok();
        assert_eq!(seen, "true blue", "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r12_replicas_that_are_not_ours_stay_what_an_autoscaler_made_them() {
    let operator = Operator::start().await;
    let team = Namespace::new("r12");
    team.apply(&agent("triage", ""));
    operator.bring_up(team.name(), "triage", vec![]).await;
    team.kubectl(&["scale", "deployment", "triage-agent", "--replicas=0"])
        .ok();
    let agents = resources(&operator.client, team.name(), "Agent");
    for_condition(&agents, "triage", "Ready", "True", "ScaledToZero", LIMIT).await;
    for steps in 1..=20 {
        team.apply(&agent("triage", &format!("  limits: {{steps: {steps}}}")));
        for_condition(&agents, "triage", "Ready", "True", "ScaledToZero", LIMIT).await;
    }
    let deployments: Api<Deployment> = Api::namespaced(operator.client.clone(), team.name());
    assert_eq!(
        deployments
            .get("triage-agent")
            .await
            .unwrap()
            .spec
            .unwrap()
            .replicas,
        Some(0)
    );

    team.apply(&agent("triage", "  replicas: 1\n  suspend: true"));
    for_condition(&agents, "triage", "Ready", "True", "Suspended", LIMIT).await;
    team.apply(&agent("triage", "  replicas: 1"));
    operator.bring_up(team.name(), "triage", vec![]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_r20_an_object_that_is_not_ours_is_never_adopted() {
    let operator = Operator::start().await;
    let team = Namespace::new("r20");
    team.apply("apiVersion: v1\nkind: Service\nmetadata: {name: triage-agent, namespace: NAMESPACE}\nspec: {selector: {app: mine}, ports: [{port: 1}]}\n");
    let services: Api<Service> = Api::namespaced(operator.client.clone(), team.name());
    let before = services.get("triage-agent").await.unwrap();
    team.apply(&agent("triage", ""));
    let agents = resources(&operator.client, team.name(), "Agent");
    let message = for_condition(&agents, "triage", "Stalled", "True", "OwnershipConflict", LIMIT).await;
    assert!(message.contains("Service `triage-agent`"), "{message}");
    for_condition(&agents, "triage", "Ready", "False", "OwnershipConflict", LIMIT).await;
    assert_eq!(
        services.get("triage-agent").await.unwrap().resource_version(),
        before.resource_version()
    );
    // It waits for the other object, and for nothing else.
    services
        .delete("triage-agent", &DeleteParams::default())
        .await
        .unwrap();
    operator.bring_up(team.name(), "triage", vec![]).await;
    let service = services.get("triage-agent").await.unwrap();
    assert_eq!(service.owner_references()[0].name, "triage");
}

#[tokio::test(flavor = "multi_thread")]
async fn r20_an_object_that_appears_between_look_and_write_is_not_adopted_either() {
    let operator = Operator::start().await;
    let team = Namespace::new("r20");
    team.apply(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: NAMESPACE}\ndata: {a: b}\n",
    );
    let maps: Api<ConfigMap> = Api::namespaced(operator.client.clone(), team.name());
    let before = maps.get("mine").await.unwrap();
    let apply = async |mut metadata: serde_json::Value, force: bool| {
        metadata["name"] = json!("mine");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "c"}});
        let params = PatchParams {
            force,
            ..PatchParams::apply("agentd")
        };
        let error = maps
            .patch("mine", &params, &Patch::Apply(&map))
            .await
            .unwrap_err();
        agentd_operator::owned::of_kube::<ConfigMap>("mine", error)
    };
    // The two writes that `owned` makes: of what it saw to be absent, and of what it saw to be ours.
    for (precondition, force) in [
        (json!({"resourceVersion": "1"}), false),
        (json!({"uid": "another"}), true),
    ] {
        let error = apply(precondition, force).await;
        assert!(
            matches!(error, agentd_operator::owned::OwnedError::Conflict { .. }),
            "{error:?}"
        );
    }
    assert_eq!(
        maps.get("mine").await.unwrap().resource_version(),
        before.resource_version()
    );
}

/// What is left in a namespace of an object's kind of things.
fn left(team: &Namespace, label: &str) -> Vec<String> {
    let kinds = "deployments,replicasets,pods,services,serviceaccounts,configmaps,persistentvolumeclaims,networkpolicies";
    let text = team
        .kubectl(&["get", kinds, "--selector", label, "--output", "name"])
        .ok();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r27_r30_deletion_leaves_what_retain_says_and_the_name_is_free_again() {
    let mut operator = Operator::start().await;
    let team = Namespace::new("r30");
    team.apply(&(agent("keeps", "  store: {file: {retain: Retain}}") + &agent("goes", "")));
    operator.bring_up(team.name(), "keeps", vec![]).await;
    operator.bring_up(team.name(), "goes", vec![]).await;
    // Deletion needs no operator.
    operator.halt().await;
    team.kubectl(&["delete", "agent.agentd.io", "keeps", "goes"]).ok();
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(operator.client.clone(), team.name());
    until(
        pods,
        "app.kubernetes.io/managed-by=agentd",
        "gone",
        LIMIT,
        |pods| pods.is_empty().then_some(()),
    )
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(operator.client.clone(), team.name());
    until(
        maps,
        "app.kubernetes.io/managed-by=agentd",
        "gone",
        LIMIT,
        |maps| maps.is_empty().then_some(()),
    )
    .await;
    let services: Api<Service> = Api::namespaced(operator.client.clone(), team.name());
    until(services, "", "gone", LIMIT, |services| {
        services.is_empty().then_some(())
    })
    .await;
    operator.resume().await;
    team.apply(&agent("goes", ""));
    operator.bring_up(team.name(), "goes", vec![]).await;
    assert_eq!(
        left(&team, "agentd.io/agent=keeps"),
        ["persistentvolumeclaim/keeps-agent"]
    );

    // Another Agent of that name does not get what was kept for the first.
    team.apply(&agent("keeps", "  store: {file: {retain: Retain}}"));
    let agents = resources(&operator.client, team.name(), "Agent");
    let message = for_condition(&agents, "keeps", "Stalled", "True", "OwnershipConflict", LIMIT).await;
    assert!(
        message.contains("PersistentVolumeClaim `keeps-agent`"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_moves_elsewhere_loses_its_pods() {
    let operator = Operator::start().await;
    let team = Namespace::new("moves");
    team.apply(&operated("fs"));
    operator.bring_up_server(team.name(), "fs").await;
    assert!(left(&team, "agentd.io/mcp-server=fs").len() > 5);
    let elsewhere = json!({"spec": {"deployment": null, "endpoint": "https://fs.example/mcp"}});
    team.kubectl(&[
        "patch",
        "mcpserver.agentd.io",
        "fs",
        "--type=merge",
        "--patch",
        &elsewhere.to_string(),
    ])
    .ok();
    let servers = resources(&operator.client, team.name(), "McpServer");
    for_condition(&servers, "fs", "Ready", "False", "NotYetUsed", LIMIT).await;
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(operator.client.clone(), team.name());
    until(pods, "agentd.io/mcp-server=fs", "gone", LIMIT, |pods| {
        pods.is_empty().then_some(())
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(operator.client.clone(), team.name());
    until(maps, "agentd.io/mcp-server=fs", "gone", LIMIT, |maps| {
        maps.is_empty().then_some(())
    })
    .await;
}
