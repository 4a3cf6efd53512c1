//! Writing the controllers' part of a status: only when it says something new, by server-side apply, with Events for
//! transitions.
//!
//! Guarantee: what is compared is the status as the API server has it, so that a store that lags costs a read and never
//! a write or a moved transition time.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::engine::ReconcileError;
use super::verdicts;
use crate::conditions::{self, find, kind};
use crate::context::Context;
use crate::labels::FIELD_MANAGER;

/// A status that says something new.
#[derive(Debug)]
pub(super) struct New<S> {
    /// The conditions as they are.
    pub(super) before: Vec<Condition>,
    /// The conditions in `status`.
    pub(super) conditions: Vec<Condition>,
    /// What to apply: the controllers' fields only.
    pub(super) status: S,
}

/// Applies what `compute` makes of the object, if it is something new.
pub(super) async fn write<K, S>(
    context: &Context,
    object: &K,
    compute: impl Fn(&K) -> Option<New<S>>,
) -> Result<(), ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    S: Serialize,
{
    if compute(object).is_none() {
        return Ok(());
    }
    let api: Api<K> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    let Some(live) = api.get_opt(&object.name_any()).await? else {
        return Ok(());
    };
    if live.uid() != object.uid() {
        return Ok(());
    }
    // The spec that was looked at is not the one that stands: its reconcile is on the way.
    if live.meta().generation != object.meta().generation {
        return Ok(());
    }
    let Some(New {
        before,
        conditions,
        status,
    }) = compute(&live)
    else {
        return Ok(());
    };
    let patch = patch::<K>(
        live.meta(),
        serde_json::to_value(&status).map_err(kube::Error::SerdeError)?,
    );
    api.patch_status(
        &live.name_any(),
        &PatchParams::apply(FIELD_MANAGER).force(),
        &Patch::Apply(&patch),
    )
    .await?;
    context.metrics.wrote_status(&K::kind(&()), FIELD_MANAGER);
    for note in news(&before, &conditions) {
        if note.warning {
            context
                .events
                .warning(&live, &note.reason, "Reconcile", &note.text)
                .await;
        } else {
            context
                .events
                .normal(&live, &note.reason, "Reconcile", &note.text)
                .await;
        }
    }
    Ok(())
}

/// The status of an object that this version's types cannot read.
pub(super) async fn write_unreadable<K>(
    context: &Context,
    metadata: &ObjectMeta,
    error: &str,
) -> Result<(), ReconcileError>
where
    K: Resource<DynamicType = ()>,
{
    let (name, namespace) = (
        metadata.name.as_deref().unwrap_or_default(),
        metadata.namespace.as_deref(),
    );
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), namespace.unwrap_or_default(), &resource);
    let Some(live) = api.get_opt(name).await? else {
        return Ok(());
    };
    let before = live
        .data
        .pointer("/status/conditions")
        .cloned()
        .unwrap_or_default();
    let before: Vec<Condition> = serde_json::from_value(before).unwrap_or_default();
    let generation = live.metadata.generation.unwrap_or_default();
    let conditions = conditions::list(
        verdicts::unreadable(error),
        &before,
        generation,
        context.clock.now(),
    );
    if before == conditions {
        return Ok(());
    }
    let mut status = owned(&live);
    status.insert("observedGeneration".to_owned(), json!(generation));
    let conditions = serde_json::to_value(&conditions).map_err(kube::Error::SerdeError)?;
    status.insert("conditions".to_owned(), conditions);
    let patch = patch::<K>(&live.metadata, Value::Object(status));
    api.patch_status(
        name,
        &PatchParams::apply(FIELD_MANAGER).force(),
        &Patch::Apply(&patch),
    )
    .await?;
    context.metrics.wrote_status(&K::kind(&()), FIELD_MANAGER);
    Ok(())
}

/// The fields of a status that the controllers own. A field that an apply leaves out is taken away: who says something of
/// an object that he cannot read says all the rest again, as it is.
fn owned(live: &DynamicObject) -> Map<String, Value> {
    let ours = live
        .metadata
        .managed_fields
        .iter()
        .flatten()
        .filter(|entry| {
            entry.manager.as_deref() == Some(FIELD_MANAGER)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref() == Some("status")
        })
        .filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:status")?.as_object());
    let status = live.data.get("status");
    ours.flat_map(Map::keys)
        .filter_map(|field| {
            let name = field.strip_prefix("f:")?;
            Some((name.to_owned(), status?.get(name)?.clone()))
        })
        .collect()
}

fn patch<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta, status: Value) -> Value {
    json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        // The UID keeps the status off an object that took the place of the one that was looked at.
        "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
        "status": status,
    })
}

/// One Event.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    warning: bool,
    reason: String,
    text: String,
}

/// The transitions that people want to hear of. A changed message alone is none.
fn news(before: &[Condition], after: &[Condition]) -> Vec<Note> {
    let mut notes = Vec::new();
    for condition in after {
        let same = find(before, &condition.type_)
            .is_some_and(|old| old.status == condition.status && old.reason == condition.reason);
        if same {
            continue;
        }
        let warning = match (condition.type_.as_str(), condition.status.as_str()) {
            (kind::READY, "True") => false,
            // What is accepted with a remark.
            (kind::ACCEPTED, "True") if !condition.message.is_empty() => true,
            (kind::ACCEPTED | kind::RESOLVED_REFS | kind::IDENTITY_READY, "False") => true,
            (kind::DEGRADED, "True") => true,
            // A refused spec has told its reason under Accepted.
            (kind::STALLED, "True") if !conditions::is_true(after, kind::ACCEPTED) => continue,
            (kind::STALLED, "True") => true,
            (kind::READY, "False")
                if matches!(
                    condition.reason.as_str(),
                    "PodFailed" | "QuotaExceeded" | "NotServing"
                ) =>
            {
                true
            }
            _ => continue,
        };
        notes.push(Note {
            warning,
            reason: condition.reason.clone(),
            text: condition.message.clone(),
        });
    }
    notes
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::conditions::{Verdict, list};

    fn told(before: Vec<Verdict>, after: Vec<Verdict>) -> Vec<(bool, String)> {
        let list = |verdicts| list(verdicts, &[], 1, Timestamp::UNIX_EPOCH);
        news(&list(before), &list(after))
            .into_iter()
            .map(|note| (note.warning, note.reason))
            .collect()
    }

    #[test]
    fn transitions_are_told_once() {
        let ready = || Verdict::holds(kind::READY, "Serving", "");
        let failed = |message: &str| Verdict::fails(kind::READY, "PodFailed", message);
        let progressing = || Verdict::fails(kind::READY, "Progressing", "x");
        assert_eq!(told(vec![], vec![progressing()]), []);
        assert_eq!(
            told(vec![progressing()], vec![failed("a")]),
            [(true, "PodFailed".to_owned())]
        );
        assert_eq!(told(vec![failed("a")], vec![failed("b")]), []);
        assert_eq!(
            told(vec![failed("a")], vec![ready()]),
            [(false, "Serving".to_owned())]
        );
    }

    #[test]
    fn what_an_unreadable_object_keeps_is_what_the_controllers_own() {
        let entry = |manager: &str, subresource: &str, fields: Value| {
            json!({"manager": manager, "operation": "Apply", "apiVersion": "agentd.io/v1alpha1", "fieldsType": "FieldsV1",
                   "subresource": subresource, "fieldsV1": fields})
        };
        let live: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "x", "managedFields": [
                entry(FIELD_MANAGER, "status", json!({"f:status": {"f:url": {}, "f:selector": {}, "f:replicas": {}, "f:conditions": {"k:{}": {}}}})),
                entry("agentd-report", "status", json!({"f:status": {"f:tools": {}}})),
                entry(FIELD_MANAGER, "", json!({"f:spec": {"f:x": {}}})),
            ]},
            "status": {"url": "u", "selector": "s", "replicas": 1, "conditions": [1], "tools": {"count": 2}, "lastRun": {}},
        }))
        .unwrap();
        assert_eq!(
            Value::Object(owned(&live)),
            json!({"url": "u", "selector": "s", "replicas": 1, "conditions": [1]})
        );
    }

    #[test]
    fn a_refused_spec_is_told_once() {
        let refused = verdicts::unreadable("x");
        assert_eq!(told(vec![], refused), [(true, "InvalidSpec".to_owned())]);
    }
}
