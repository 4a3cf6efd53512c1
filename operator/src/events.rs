//! Kubernetes Events, through one recorder for the whole process, so that repeats become a series.
//!
//! An Event that cannot be written is logged and forgotten: it never fails what it is about.

use agentd_base::text::clip;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use kube_runtime::events::{Event, EventType, Recorder, Reporter};

/// The name under which Events appear.
const CONTROLLER: &str = "agentd-operator";
/// A note may have 1 kB.
const NOTE_CHARS: usize = 250;

/// Publishes Events.
#[derive(Clone)]
pub struct Events(Recorder);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// One per process. `instance` is the pod's name.
    pub fn new(client: Client, instance: Option<String>) -> Self {
        Self(Recorder::new(
            client,
            Reporter {
                controller: CONTROLLER.to_owned(),
                instance,
            },
        ))
    }

    /// Something happened as it should.
    pub async fn normal<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.publish(EventType::Normal, object.object_ref(&()), reason, action, note)
            .await;
    }

    /// Something that a person should look at.
    pub async fn warning<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.publish(EventType::Warning, object.object_ref(&()), reason, action, note)
            .await;
    }

    async fn publish(
        &self,
        type_: EventType,
        regarding: ObjectReference,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(clip(note, NOTE_CHARS)),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.0.publish(&event, &regarding).await {
            tracing::warn!(event = "event.publish.fail", reason, error = %error);
        }
    }
}
