//! From watch events to changes: what an object was and what it is. Pure.
//!
//! Guarantees: a re-list that brings nothing new is no change; an object that went while the watch was down is one.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use kube::Resource;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;

/// One object, before and after. At most one of the two is `None`.
#[derive(Debug, Clone)]
pub(super) struct Change<K> {
    /// What the store held.
    pub(super) before: Option<Arc<K>>,
    /// What it holds now.
    pub(super) after: Option<Arc<K>>,
    /// The object was there when the watch began: nobody has seen another state of it.
    pub(super) initial: bool,
}

impl<K> Change<K> {
    /// The object as it is, or as it was when it is gone.
    pub(super) fn latest(&self) -> Option<&Arc<K>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Whether `read` gives something else than before. An object that came or went differs always.
    pub(super) fn differs<'a, T: PartialEq>(&'a self, read: impl Fn(&'a K) -> T) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => read(before) != read(after),
            _ => true,
        }
    }
}

/// Applies events to a store and says what changed by them.
pub(super) struct Tracker<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    writer: Writer<K>,
    store: Store<K>,
    listed: HashSet<ObjectRef<K>>,
    pending: Vec<Change<K>>,
    initial: bool,
}

impl<K> Tracker<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
    ObjectRef<K>: Hash + Eq,
{
    /// The store.
    pub(super) fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Takes an event in. The changes are those that the store already shows.
    pub(super) fn take(&mut self, event: &Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listed.clear();
                self.pending.clear();
            }
            Event::InitApply(object) => {
                self.listed.insert(ObjectRef::from_obj(object));
                self.pending.extend(self.applied(object));
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone = self
                    .store
                    .state_filter(|object| !listed.contains(&ObjectRef::from_obj(object)));
                self.writer.apply_watcher_event(event);
                let gone = gone.into_iter().map(|object| Change {
                    before: Some(object),
                    after: None,
                    initial: false,
                });
                let mut changes = std::mem::take(&mut self.pending);
                changes.extend(gone);
                self.initial = false;
                return changes;
            }
            Event::Apply(object) => {
                let change = self.applied(object);
                self.writer.apply_watcher_event(event);
                return change.into_iter().collect();
            }
            Event::Delete(object) => {
                self.writer.apply_watcher_event(event);
                return vec![Change {
                    before: Some(Arc::new(object.clone())),
                    after: None,
                    initial: false,
                }];
            }
        }
        self.writer.apply_watcher_event(event);
        Vec::new()
    }

    fn applied(&self, object: &K) -> Option<Change<K>> {
        let before = self.store.get(&ObjectRef::from_obj(object));
        let version = &object.meta().resource_version;
        let same = before.as_ref().is_some_and(|before| {
            version.is_some()
                && before.meta().resource_version == *version
                && before.meta().uid == object.meta().uid
        });
        (!same).then(|| Change {
            before,
            after: Some(Arc::new(object.clone())),
            initial: self.initial,
        })
    }
}

impl<K> Default for Tracker<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    /// A tracker with its own, empty store.
    fn default() -> Self {
        let writer = Writer::default();
        Self {
            store: writer.as_reader(),
            writer,
            listed: HashSet::new(),
            pending: Vec::new(),
            initial: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;

    fn service(name: &str, version: &str) -> Service {
        serde_json::from_value(
            json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version}}),
        )
        .unwrap()
    }

    fn list(tracker: &mut Tracker<Service>, objects: &[Service]) -> Vec<Change<Service>> {
        let mut changes = tracker.take(&Event::Init);
        for object in objects {
            changes.extend(tracker.take(&Event::InitApply(object.clone())));
        }
        changes.extend(tracker.take(&Event::InitDone));
        changes
    }

    fn told(changes: &[Change<Service>]) -> Vec<(String, bool, bool)> {
        changes
            .iter()
            .map(|c| {
                (
                    c.latest().unwrap().name_any(),
                    c.before.is_some(),
                    c.after.is_some(),
                )
            })
            .collect()
    }

    #[test]
    fn r01_a_relist_without_news_is_no_change() {
        let mut tracker = Tracker::default();
        let first = list(&mut tracker, &[service("a", "1"), service("b", "1")]);
        assert!(first.iter().all(|change| change.initial) && first.len() == 2);
        assert!(list(&mut tracker, &[service("a", "1"), service("b", "1")]).is_empty());
    }

    #[test]
    fn what_happened_while_the_watch_was_down_is_seen() {
        let mut tracker = Tracker::default();
        list(&mut tracker, &[service("a", "1"), service("b", "1")]);
        let changes = list(&mut tracker, &[service("a", "2"), service("c", "1")]);
        assert_eq!(
            told(&changes),
            [
                ("a".into(), true, true),
                ("c".into(), false, true),
                ("b".into(), true, false)
            ]
        );
        assert!(changes.iter().all(|change| !change.initial));
        assert_eq!(tracker.store().len(), 2);
    }

    #[test]
    fn events_carry_both_states() {
        let mut tracker = Tracker::default();
        list(&mut tracker, &[service("a", "1")]);
        assert!(tracker.take(&Event::Apply(service("a", "1"))).is_empty());
        let change = tracker.take(&Event::Apply(service("a", "2"))).remove(0);
        assert!(change.differs(|s| s.resource_version()));
        assert!(!change.differs(|s| s.name_any()));
        assert_eq!(
            told(&tracker.take(&Event::Delete(service("a", "3")))),
            [("a".into(), true, false)]
        );
        assert!(tracker.store().is_empty());
    }
}
