//! Waiting for what an object says, by a watch: no test sleeps.

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{Condition, await_condition};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Waits until `condition` holds for the object `name`, at most `limit`.
///
/// # Panics
/// When it does not in time, with the object as it is then.
pub async fn until<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    limit: Duration,
    condition: impl Condition<K>,
) -> Option<K>
where
    K: Clone + Debug + Send + Serialize + DeserializeOwned + kube::Resource + 'static,
{
    let waited = tokio::time::timeout(limit, await_condition(api.clone(), name, condition)).await;
    if let Ok(Ok(object)) = waited {
        return object;
    }
    let found = match api.get_opt(name).await {
        Ok(Some(object)) => shown(&object),
        Ok(None) => "not there".to_owned(),
        Err(error) => error.to_string(),
    };
    panic!("{name}: not {what} in {limit:?}; it is {found}");
}

/// An object as a reader wants it: without what nobody reads.
fn shown(object: &impl Serialize) -> String {
    let mut json = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = json.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "generation" | "labels"));
    }
    format!("{json:#}")
}

/// One kind of agentd.io in a namespace, as JSON: the tests read it as a user does.
#[must_use]
pub fn resources(client: &kube::Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("agentd.io", "v1alpha1", kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

/// A condition of an object's status: `status` and `reason`, if it is there and about the current generation.
#[must_use]
pub fn condition(object: &DynamicObject, kind: &str) -> Option<(String, String, String)> {
    let generation = object.metadata.generation;
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    let found = conditions
        .iter()
        .find(|each| each.get("type").and_then(Value::as_str) == Some(kind))?;
    if found.get("observedGeneration").and_then(Value::as_i64) != generation {
        return None;
    }
    let text = |key: &str| {
        found
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Some((text("status"), text("reason"), text("message")))
}

/// Waits for a condition to have a status and, unless empty, a reason, for the current generation. Gives its message.
///
/// # Panics
/// When it does not in time, with the object as it is then.
pub async fn for_condition(
    api: &Api<DynamicObject>,
    name: &str,
    kind: &str,
    status: &str,
    reason: &str,
    limit: Duration,
) -> String {
    let holds = |object: Option<&DynamicObject>| {
        object
            .and_then(|object| condition(object, kind))
            .is_some_and(|(is, why, _)| is == status && (reason.is_empty() || why == reason))
    };
    let what = format!("{kind}={status} {reason}");
    let object = until(api, name, &what, limit, holds)
        .await
        .expect("a condition holds for an object only");
    condition(&object, kind).expect("it was just seen").2
}
