//! The folders that pods mount hold what was written and nothing else.

use std::collections::BTreeMap;

use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{for_condition, resources};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::harness::{LIMIT, Operator, until};
use crate::objects::{agent, operated};
use crate::references::document;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_somebody_adds_to_a_live_folder_is_taken_away() {
    let operator = Operator::start().await;
    let team = Namespace::new("folders");
    team.apply(&agent("triage", ""));
    team.apply(&operated("fs"));
    operator.bring_up(team.name(), "triage", vec![]).await;
    operator.bring_up_server(team.name(), "fs").await;
    let maps: Api<ConfigMap> = Api::namespaced(operator.client.clone(), team.name());
    let all = maps
        .list(&ListParams::default().labels("agentd.io/revision"))
        .await
        .unwrap();
    let live: Vec<ConfigMap> = all
        .into_iter()
        .filter(|map| map.immutable != Some(true))
        .collect();
    assert_eq!(live.len(), 2, "of the Agent and of the bridge");
    for map in live {
        let name = map.name_any();
        // By another field manager, so that no apply of ours takes it away.
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        let edit = json!({"data": {"extra": "x"}, "binaryData": {"more": "eA=="}});
        maps.patch(&name, &params, &Patch::Merge(&edit)).await.unwrap();
        let gone = |objects: &BTreeMap<String, ConfigMap>| {
            let seen = objects.get(&name)?;
            let binary = seen.binary_data.clone().unwrap_or_default();
            (seen.data == map.data && binary.is_empty()).then_some(())
        };
        until(maps.clone(), "", "as it was written", LIMIT, gone).await;
    }
}

/// The API server reads what is applied as YAML, which has fewer characters than the JSON of a spec.
#[tokio::test(flavor = "multi_thread")]
async fn every_text_that_a_spec_can_hold_arrives_as_it_was_written() {
    let operator = Operator::start().await;
    let team = Namespace::new("texts");
    team.apply(&agent("triage", ""));
    let up = operator.bring_up(team.name(), "triage", vec![]).await;
    let agents = resources(&operator.client, team.name(), "Agent");
    let odd = "Be kind.\u{7f}\u{80}\u{85}\u{9f}\u{2028}\u{feff}\u{fffe}\u{ffff}\u{10ffff}\r\n\t\u{1b}End.";
    let patch = json!({"spec": {"instruction": odd}});
    agents
        .patch("triage", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    document(&operator, &team, &up.pod, "agentd.json", |document| {
        document["agent"]["instruction"] == json!(odd)
    })
    .await;
    for_condition(&agents, "triage", "Accepted", "True", "Accepted", LIMIT).await;
}
