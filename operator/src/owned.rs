//! One owned object at a time: read it, decide, apply it. The decision is pure and stands apart from the calls.
//!
//! Guarantees:
//! - An object that exists and whose controller is not ours, by UID, is never written. The write that makes an object
//!   carries a resourceVersion that no object has, and the write that changes one carries its UID, so that an object
//!   that appears in between is refused by the API server and not adopted.
//! - When nothing differs nothing is written. What differs is written by server-side apply with one field manager, so
//!   foreign labels, annotations and fields survive.

use std::fmt::Debug;

use agentd_base::class::{Class, Classified};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DeleteParams, PatchParams, Preconditions};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::labels::{AGENT_UID, APPLIED, FIELD_MANAGER};
use crate::metrics::Metrics;

mod body;
mod contains;
mod folder;

pub use folder::apply as apply_folder;

/// Words of an API server that cannot read what it was given as the kind that it is: it says 500, as if another try
/// could help.
const UNREADABLE: [&str; 3] = [
    "failed to convert new object",
    "unable to convert unstructured object",
    "failed to create typed patch object",
];

/// What can be owned.
pub trait Owned:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug
{
}

impl<K> Owned for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug
{
}

/// Why an object could not be brought to what it should be.
#[derive(Debug, thiserror::Error)]
pub enum OwnedError {
    /// The name is taken by an object that is not ours.
    #[error("{kind} `{name}` exists and does not belong to this object; rename one of the two or delete it")]
    Foreign {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The name is taken by an object of a deleted owner of the same name, which the garbage collector will take.
    #[error("{kind} `{name}` still belongs to a deleted object of this name; it is replaced once it is gone")]
    Leftover {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The namespace is going, and the object with it.
    #[error("{kind} `{name}` is not made: the namespace is being deleted")]
    Going {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The API server does not accept the object.
    #[error("the API server refuses {kind} `{name}`: {message}")]
    Refused {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What the API server says.
        message: String,
        /// A ResourceQuota refuses it.
        quota: bool,
    },
    /// Somebody wrote at the same time.
    #[error("{kind} `{name}` changed while it was written")]
    Conflict {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The API server did not answer, or not as it should.
    #[error("{kind} `{name}`: {source}")]
    Api {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The client's error.
        source: Box<kube::Error>,
    },
    /// The object cannot be written as JSON.
    #[error("an object cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Classified for OwnedError {
    fn class(&self) -> Class {
        match self {
            Self::Foreign { .. } | Self::Refused { .. } => Class::Invalid,
            Self::Leftover { .. } | Self::Going { .. } => Class::Unavailable,
            Self::Conflict { .. } => Class::Conflict,
            Self::Api { source, .. } => crate::context::class_of(source),
            Self::Json(_) => Class::Internal,
        }
    }
}

/// What to do about one object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    /// It is what it should be.
    Keep,
    /// It is not there.
    Create,
    /// It is ours and differs.
    Change { uid: String },
    /// It is somebody else's.
    Foreign,
    /// It is an earlier owner's.
    Leftover,
}

/// To whom an object belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// To whoever wants it now.
    Ours,
    /// To somebody else, or to nobody.
    Foreign,
    /// To a deleted owner of the same name.
    Leftover,
}

/// Decides about `live` from what is wanted. `wanted` carries the annotation of its own hash.
fn decide(live: Option<&Value>, wanted: &Value, standing: impl Fn(&Value, &Value) -> Standing) -> Decision {
    let Some(live) = live else { return Decision::Create };
    match standing(live, wanted) {
        Standing::Foreign => return Decision::Foreign,
        Standing::Leftover => return Decision::Leftover,
        Standing::Ours => {}
    }
    if annotation(live) == annotation(wanted) && contains::contains(live, wanted) {
        return Decision::Keep;
    }
    match live.pointer("/metadata/uid").and_then(Value::as_str) {
        Some(uid) => Decision::Change { uid: uid.to_owned() },
        None => Decision::Foreign,
    }
}

/// An object belongs to its controller, by UID. A claim that outlives its Agent has none, and belongs to the Agent
/// whose UID it carries as a label.
fn by_controller(live: &Value, wanted: &Value) -> Standing {
    let uid = |owner: &Value| owner.get("uid").and_then(Value::as_str).map(str::to_owned);
    let (theirs, ours) = (controller(live), controller(wanted));
    let wanted_by = ours.and_then(uid).or_else(|| agent_uid(wanted));
    if wanted_by.is_none() {
        return Standing::Foreign;
    }
    let Some(theirs) = theirs else {
        return if agent_uid(live) == wanted_by {
            Standing::Ours
        } else {
            Standing::Foreign
        };
    };
    if uid(theirs) == wanted_by {
        return Standing::Ours;
    }
    let named = |owner: &Value| (owner.get("kind").cloned(), owner.get("name").cloned());
    if ours.is_some_and(|ours| named(theirs) == named(ours)) {
        Standing::Leftover
    } else {
        Standing::Foreign
    }
}

fn controller(object: &Value) -> Option<&Value> {
    let references = object.pointer("/metadata/ownerReferences")?.as_array()?;
    references
        .iter()
        .find(|reference| reference.get("controller") == Some(&Value::Bool(true)))
}

fn agent_uid(object: &Value) -> Option<String> {
    if object.get("kind")?.as_str()? != "PersistentVolumeClaim" {
        return None;
    }
    object
        .pointer("/metadata/labels")?
        .get(AGENT_UID)?
        .as_str()
        .map(str::to_owned)
}

fn annotation(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(APPLIED)?.as_str()
}

/// The object as JSON, with the hash of it as an annotation: what we no longer want is seen by it, what others changed
/// is seen by comparing.
fn stamped<K: Owned>(wanted: &K) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(wanted)?;
    let hash = agentd_base::digest::of(&serde_json::to_vec(&value)?);
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(APPLIED.to_owned(), Value::String(hash));
        }
    }
    Ok(value)
}

/// What came of an apply.
#[derive(Debug, Clone)]
pub struct Applied<K> {
    /// The object as it stands.
    pub live: K,
    /// Whether something was written.
    pub written: bool,
}

/// Brings one object to what is wanted. It carries our owner reference.
///
/// # Errors
/// [`OwnedError::Foreign`] and [`OwnedError::Leftover`] when the name is taken, otherwise what the API server said.
pub async fn apply<K: Owned>(
    client: &Client,
    metrics: &Metrics,
    wanted: &K,
) -> Result<Applied<K>, OwnedError> {
    apply_as(client, metrics, wanted, by_controller).await
}

/// The same with another rule for what is ours, over the object as it is and as it is wanted.
///
/// # Errors
/// As [`apply`].
pub async fn apply_as<K: Owned>(
    client: &Client,
    metrics: &Metrics,
    wanted: &K,
    standing: impl Fn(&Value, &Value) -> Standing,
) -> Result<Applied<K>, OwnedError> {
    let name = wanted.name_any();
    let api = api::<K>(client, wanted.namespace().as_deref().unwrap_or_default());
    let error = |source| of_kube::<K>(&name, source);
    let live = api.get_opt(&name).await.map_err(error)?;
    let mut value = stamped(wanted)?;
    let live_value = live.as_ref().map(serde_json::to_value).transpose()?;
    let (precondition, held, force) = match (decide(live_value.as_ref(), &value, standing), live) {
        (Decision::Keep, Some(live)) => return Ok(Applied { live, written: false }),
        // No object has this version, so an object that appears meanwhile is a conflict and not adopted.
        (Decision::Create, _) => ("resourceVersion", "1".to_owned(), false),
        (Decision::Change { uid }, _) => ("uid", uid, true),
        (Decision::Leftover, _) => {
            return Err(OwnedError::Leftover {
                kind: kind::<K>(),
                name,
            });
        }
        (Decision::Foreign | Decision::Keep, _) => {
            return Err(OwnedError::Foreign {
                kind: kind::<K>(),
                name,
            });
        }
    };
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert(precondition.to_owned(), Value::String(held));
    }
    let mut params = PatchParams::apply(FIELD_MANAGER);
    params.force = force;
    let live = body::send(client, &api, &name, &params, &value)
        .await
        .map_err(error)?;
    metrics.wrote(&kind::<K>());
    tracing::info!(event = "object.applied", object.kind = %kind::<K>(), object.name = %name, created = !force);
    Ok(Applied { live, written: true })
}

/// Deletes an object if it is there and its controller is `owner_uid`.
///
/// # Errors
/// What the API server said.
pub async fn remove<K: Owned>(
    client: &Client,
    metrics: &Metrics,
    namespace: &str,
    name: &str,
    owner_uid: &str,
) -> Result<(), OwnedError> {
    let api = api::<K>(client, namespace);
    let error = |source| of_kube::<K>(name, source);
    let Some(live) = api.get_metadata_opt(name).await.map_err(error)? else {
        return Ok(());
    };
    let ours = crate::rollout::controller(&live.metadata).is_some_and(|owner| owner.uid == owner_uid);
    if !ours || live.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let preconditions = Preconditions {
        uid: live.metadata.uid,
        resource_version: None,
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Ok(_) => {
            metrics.wrote(&kind::<K>());
            tracing::info!(event = "object.deleted", object.kind = %kind::<K>(), object.name = %name);
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(error(source)),
    }
}

/// A typed API in one namespace.
pub fn api<K: Owned>(client: &Client, namespace: &str) -> Api<K> {
    Api::namespaced(client.clone(), namespace)
}

fn kind<K: Owned>() -> String {
    K::kind(&()).into_owned()
}

/// Sorts an error of the client by who must act.
pub fn of_kube<K: Owned>(name: &str, source: kube::Error) -> OwnedError {
    let (kind, name) = (kind::<K>(), name.to_owned());
    let kube::Error::Api(status) = &source else {
        return OwnedError::Api {
            kind,
            name,
            source: Box::new(source),
        };
    };
    let message = agentd_base::text::clip(&status.message, agentd_base::limit::MESSAGE_CHARS);
    match status.code {
        409 => OwnedError::Conflict { kind, name },
        // A write with the UID of an object that was replaced.
        422 if status.message.contains("metadata.uid") => OwnedError::Conflict { kind, name },
        400 | 413 | 422 => OwnedError::Refused {
            kind,
            name,
            message,
            quota: false,
        },
        500 if UNREADABLE.iter().any(|words| status.message.contains(words)) => OwnedError::Refused {
            kind,
            name,
            message,
            quota: false,
        },
        403 if status.message.contains("is being terminated") => OwnedError::Going { kind, name },
        403 if status.message.contains("exceeded quota") => OwnedError::Refused {
            kind,
            name,
            message,
            quota: true,
        },
        // Admission refuses with 403 too; where a permission of ours is missing the user is named.
        403 if !status.message.contains("forbidden: User ") => OwnedError::Refused {
            kind,
            name,
            message,
            quota: false,
        },
        _ => OwnedError::Api {
            kind,
            name,
            source: Box::new(source),
        },
    }
}

#[cfg(test)]
mod tests;
