//! What the tests of both statuses share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::conditions::{find, is_true, kind};
use crate::rollout::{CurrentPod, Rollout, Trouble};

/// `Type=Status Reason` of each. Checks what holds for every list of ours.
#[track_caller]
pub(super) fn conditions(conditions: &[Condition]) -> Vec<String> {
    for condition in conditions {
        assert!(!condition.reason.is_empty(), "{condition:?}");
        let says = condition.status == "True"
            && ![kind::STALLED, kind::RECONCILING].contains(&condition.type_.as_str());
        assert!(says || !condition.message.is_empty(), "{condition:?}");
    }
    conditions
        .iter()
        .map(|c| format!("{}={} {}", c.type_, c.status, c.reason))
        .collect()
}

/// What kstatus reads from conditions of the current generation.
#[track_caller]
pub(super) fn kstatus(conditions: &[Condition]) -> &'static str {
    let ready = find(conditions, kind::READY).expect("every status has Ready");
    let (reconciling, stalled) = (
        is_true(conditions, kind::RECONCILING),
        is_true(conditions, kind::STALLED),
    );
    assert!(!(reconciling && stalled), "one of the two");
    assert_eq!(
        ready.status != "True",
        reconciling || stalled,
        "what is not Ready is on the way or waits"
    );
    match (reconciling, stalled) {
        (true, _) => "InProgress",
        (_, true) => "Failed",
        _ => "Current",
    }
}

/// A workload that was acted on and has no pod yet.
pub(super) fn rollout() -> Rollout {
    Rollout {
        observed: true,
        wanted: 1,
        ..Rollout::default()
    }
}

/// One with this pod, which is ready.
pub(super) fn serving(uid: &str) -> Rollout {
    with_pod(uid, true)
}

/// One with this pod, which is not.
pub(super) fn starting(uid: &str) -> Rollout {
    with_pod(uid, false)
}

fn with_pod(uid: &str, ready: bool) -> Rollout {
    let pod = CurrentPod {
        name: uid.to_owned(),
        uid: uid.to_owned(),
        ready,
    };
    Rollout {
        total: 1,
        current: vec![pod],
        ..rollout()
    }
}

/// One whose pod does not come up.
pub(super) fn troubled(reason: &'static str) -> Rollout {
    let message = "why".to_owned();
    Rollout {
        trouble: Some(Trouble { reason, message }),
        ..rollout()
    }
}
