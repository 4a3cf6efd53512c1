//! Objects that this version's types cannot read, as another version of the CRDs would let them in.

use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{for_condition, resources};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{LIMIT, Operator};
use crate::objects::agent;
use crate::status::{get, well_formed};

/// Lets everything in, until it is dropped.
struct Loose;

impl Loose {
    fn new() -> Self {
        let loose = "[{\"op\": \"replace\", \"path\": \"/spec/versions/0/schema/openAPIV3Schema/properties/spec\", \
                      \"value\": {\"type\": \"object\", \"x-kubernetes-preserve-unknown-fields\": true}}]";
        let patch = [
            "patch",
            "crd",
            "agents.agentd.io",
            "--type=json",
            "--patch",
            loose,
        ];
        agentd_tests::cluster::cluster().kubectl(patch).ok();
        Self
    }
}

impl Drop for Loose {
    fn drop(&mut self) {
        let crds = agentd_tests::cluster::repository()
            .join("crds/generated")
            .into_os_string();
        let apply = ["apply", "--server-side", "--force-conflicts", "-f"].map(std::ffi::OsString::from);
        agentd_tests::cluster::cluster()
            .kubectl(apply.into_iter().chain([crds]))
            .ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_cannot_be_read_is_told_so_and_stops_nobody() {
    let operator = Operator::start().await;
    let team = Namespace::new("guard");
    let _loose = Loose::new();
    team.apply(&agent("odd", "  suspend: maybe"));
    team.apply(&agent(
        "plain",
        "  run: {mode: Service}\n  limits: {steps: 1, tokens: 1, deadline: 1m}",
    ));
    let agents = resources(&operator.client, team.name(), "Agent");
    let message = for_condition(&agents, "odd", "Accepted", "False", "InvalidSpec", LIMIT).await;
    assert!(message.contains("cannot read the object"), "{message}");
    for_condition(&agents, "odd", "Stalled", "True", "InvalidSpec", LIMIT).await;
    well_formed(&get(&agents, "odd").await);
    operator.bring_up(team.name(), "plain", vec![]).await;
    team.kubectl(&["delete", "agent.agentd.io", "odd"]).ok();
}

/// What runs goes on, and so do its address, its ID, and the selector by which an autoscaler counts its pods.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_can_no_longer_be_read_keeps_what_its_status_said() {
    let operator = Operator::start().await;
    let team = Namespace::new("kept");
    // A scale needs a number in the spec.
    team.apply(&agent("triage", "  replicas: 1"));
    operator.bring_up(team.name(), "triage", vec![]).await;
    let agents = resources(&operator.client, team.name(), "Agent");
    for_condition(&agents, "triage", "Ready", "True", "Serving", LIMIT).await;
    let said = async |agents: &Api<DynamicObject>| {
        let mut status = get(agents, "triage").await.data["status"].clone();
        let fields = status.as_object_mut().unwrap();
        for about_the_generation in ["conditions", "observedGeneration"] {
            fields.remove(about_the_generation);
        }
        status
    };
    let before = said(&agents).await;
    for field in ["url", "spiffeID", "configDigest", "replicas", "selector"] {
        assert_ne!(before[field], Value::Null, "{field}: {before}");
    }
    let _loose = Loose::new();
    let patch = json!({"spec": {"suspend": "maybe"}});
    agents
        .patch("triage", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    for_condition(&agents, "triage", "Accepted", "False", "InvalidSpec", LIMIT).await;
    assert_eq!(said(&agents).await, before);
    let scale = agents.get_scale("triage").await.unwrap().status.unwrap();
    assert_eq!(scale.selector.as_deref(), before["selector"].as_str());
    team.kubectl(&["delete", "agent.agentd.io", "triage"]).ok();
}
