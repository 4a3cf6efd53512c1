//! A ConfigMap that a pod mounts as a folder: each key is a file, so it has to hold our keys and no other. Server-side
//! apply leaves keys of others alone; here they are taken away.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::{Applied, OwnedError, api, of_kube};
use crate::labels::FIELD_MANAGER;
use crate::metrics::Metrics;

/// Brings a ConfigMap to what is wanted, with no file but the wanted ones.
///
/// # Errors
/// As [`super::apply`].
pub async fn apply(
    client: &Client,
    metrics: &Metrics,
    wanted: &ConfigMap,
) -> Result<Applied<ConfigMap>, OwnedError> {
    let applied = super::apply(client, metrics, wanted).await?;
    let Some(removal) = removal(&applied.live, wanted) else {
        return Ok(applied);
    };
    let name = wanted.name_any();
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let live = api::<ConfigMap>(client, wanted.namespace().as_deref().unwrap_or_default())
        .patch(&name, &params, &Patch::Merge(&removal))
        .await
        .map_err(|source| of_kube::<ConfigMap>(&name, source))?;
    metrics.wrote("ConfigMap");
    tracing::info!(event = "folder.cleaned", object.name = %name);
    Ok(Applied { live, written: true })
}

/// The patch that takes files away that are not wanted, of that very version; `None` when there is none, or when the
/// ConfigMap cannot be changed any more.
fn removal(live: &ConfigMap, wanted: &ConfigMap) -> Option<Value> {
    if live.immutable == Some(true) {
        return None;
    }
    let ours = wanted.data.as_ref();
    let foreign = |key: &&String| ours.is_none_or(|ours| !ours.contains_key(*key));
    let gone = |key: &String| (key.clone(), Value::Null);
    let data: Map<String, Value> = live
        .data
        .iter()
        .flat_map(|data| data.keys())
        .filter(foreign)
        .map(gone)
        .collect();
    let binary: Map<String, Value> = live
        .binary_data
        .iter()
        .flat_map(|data| data.keys())
        .map(gone)
        .collect();
    if data.is_empty() && binary.is_empty() {
        return None;
    }
    let mut patch = json!({"metadata": {"resourceVersion": live.metadata.resource_version}});
    for (field, keys) in [("data", data), ("binaryData", binary)] {
        if let Some(patch) = patch.as_object_mut().filter(|_| !keys.is_empty()) {
            patch.insert(field.to_owned(), Value::Object(keys));
        }
    }
    Some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data: Value) -> ConfigMap {
        let mut map = json!({"metadata": {"name": "a-live", "namespace": "n", "resourceVersion": "7"}});
        map.as_object_mut()
            .unwrap()
            .extend(data.as_object().unwrap().clone());
        serde_json::from_value(map).unwrap()
    }

    #[test]
    fn files_of_others_go_and_ours_are_not_touched() {
        let wanted = map(json!({"data": {"agentd.json": "{}", "bundle.pem": "b"}}));
        let live = map(
            json!({"data": {"agentd.json": "{}", "bundle.pem": "b", "extra": "x"}, "binaryData": {"more": "eA=="}}),
        );
        assert_eq!(
            removal(&live, &wanted),
            Some(json!({
                "metadata": {"resourceVersion": "7"}, "data": {"extra": null}, "binaryData": {"more": null}
            }))
        );
        assert_eq!(removal(&wanted, &wanted), None);
        let fixed = map(json!({"data": {"extra": "x"}, "immutable": true}));
        assert_eq!(removal(&fixed, &wanted), None);
    }
}
