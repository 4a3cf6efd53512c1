//! The claim of a file store. Pure.
//!
//! Guarantee: a claim that is retained has no owner and carries the Agent's UID; no later Agent of that name takes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::controllers::agent::validate::{StorePlan, Validated};
use crate::labels;

pub(super) fn claim(validated: &Validated) -> Option<PersistentVolumeClaim> {
    let StorePlan::Claim { size, class, retain } = &validated.store else {
        return None;
    };
    let subject = &validated.subject;
    let mut metadata = subject.metadata(&subject.made);
    metadata
        .labels
        .get_or_insert_default()
        .insert(labels::AGENT_UID.to_owned(), subject.uid.clone());
    if *retain {
        metadata.owner_references = None;
    }
    Some(PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), Quantity(size.clone()))])),
                limits: None,
            }),
            storage_class_name: class.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    })
}
