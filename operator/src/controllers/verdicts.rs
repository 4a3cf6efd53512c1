//! The conditions that both kinds have. Pure.

use std::time::Duration;

use agentd_base::limit::MESSAGE_CHARS;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::conditions::{Truth, Verdict, find, kind, reason};
use crate::owned::OwnedError;
use crate::problem::{Problem, Reason, joined};
use crate::rollout::Rollout;

/// After the API server refused an object for its content or for a quota.
const REFUSED_RETRY: Duration = Duration::from_secs(60);

/// How far a reconcile came.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Nothing new was applied: the spec is wrong (`problems`), or a ConfigMap it needs is missing.
    Rejected {
        problems: Vec<Problem>,
        unresolved: Vec<Problem>,
    },
    /// Everything was applied; what is missing was left out.
    Applied {
        unresolved: Vec<Problem>,
        notes: Vec<Problem>,
    },
    /// An object stands in the way, or the API server does not take one.
    Blocked {
        by: OwnedError,
        unresolved: Vec<Problem>,
    },
}

/// Whether new identities can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issuer {
    Available,
    Unavailable,
    Missing,
}

impl Outcome {
    /// When to try again what the API server refused: no watch tells that a quota was raised or a policy changed.
    pub(super) fn again(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Blocked {
                by: OwnedError::Refused { .. },
                ..
            } => now.checked_add(REFUSED_RETRY).ok(),
            Self::Rejected { .. } | Self::Applied { .. } | Self::Blocked { .. } => None,
        }
    }

    fn unresolved(&self) -> &[Problem] {
        match self {
            Self::Rejected { unresolved, .. }
            | Self::Applied { unresolved, .. }
            | Self::Blocked { unresolved, .. } => unresolved,
        }
    }
}

/// Accepted.
pub(super) fn accepted(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Rejected { problems, .. } => match problems.first() {
            Some(first) => Verdict::fails(kind::ACCEPTED, first.reason.as_str(), summary(problems)),
            None => Verdict::holds(kind::ACCEPTED, reason::ACCEPTED, ""),
        },
        Outcome::Applied { notes, .. } => {
            let reason = notes
                .first()
                .map_or(reason::ACCEPTED, |note| note.reason.as_str());
            Verdict::holds(kind::ACCEPTED, reason, summary(notes))
        }
        Outcome::Blocked {
            by: by @ OwnedError::Refused { quota: false, .. },
            ..
        } => Verdict::fails(kind::ACCEPTED, reason::INVALID_SPEC, by.to_string()),
        Outcome::Blocked { .. } => Verdict::holds(kind::ACCEPTED, reason::ACCEPTED, ""),
    }
}

/// ResolvedRefs. `missing_secrets` as `secret/key`.
pub(super) fn resolved(outcome: &Outcome, missing_secrets: &[String]) -> Verdict {
    let mut problems = outcome.unresolved().to_vec();
    problems.extend(missing_secrets.iter().map(|missing| {
        let (secret, key) = missing.split_once('/').unwrap_or((missing, ""));
        Problem::new(
            Reason::RefNotFound,
            format!(
                "Secret `{secret}` with key `{key}` is missing; create it, and the pod takes it up by itself"
            ),
        )
    }));
    match problems.first() {
        Some(first) => Verdict::fails(kind::RESOLVED_REFS, first.reason.as_str(), summary(&problems)),
        None => Verdict::holds(kind::RESOLVED_REFS, reason::RESOLVED, ""),
    }
}

/// All messages; where they do not fit, as many as do and how many there are.
fn summary(problems: &[Problem]) -> String {
    let all = joined(problems);
    if all.chars().count() <= MESSAGE_CHARS || problems.len() < 2 {
        return all;
    }
    let count = format!("{} problems: ", problems.len());
    format!("{count}{all}")
}

/// IdentityReady. A pod that serves has an unexpired SVID; what one that does not serve reported before proves none.
pub(super) fn identity(rollout: Option<&Rollout>, issuer: Issuer) -> Verdict {
    if rollout.is_some_and(|rollout| rollout.serving().is_some()) {
        return Verdict::holds(kind::IDENTITY_READY, reason::SVID_ISSUED, "");
    }
    match issuer {
        Issuer::Available => Verdict::holds(kind::IDENTITY_READY, reason::ISSUER_AVAILABLE, ""),
        Issuer::Unavailable => Verdict::fails(
            kind::IDENTITY_READY,
            reason::ISSUER_UNAVAILABLE,
            "no replica of the issuer is ready; see its Deployment in the namespace of the operator",
        ),
        Issuer::Missing => Verdict::fails(
            kind::IDENTITY_READY,
            reason::PROVIDER_MISSING,
            "the issuer's Deployment is not there; install the operator's chart completely",
        ),
    }
}

/// Why nobody but a person gets it further, if that is so.
pub(super) fn stalled(outcome: &Outcome, accepted: &Verdict) -> Option<Verdict> {
    match outcome {
        Outcome::Blocked {
            by: by @ OwnedError::Foreign { .. },
            ..
        } => Some(Verdict::holds(
            kind::STALLED,
            reason::OWNERSHIP_CONFLICT,
            by.to_string(),
        )),
        _ if accepted.truth == Truth::False => Some(Verdict::holds(
            kind::STALLED,
            accepted.reason.clone(),
            accepted.message.clone(),
        )),
        _ => None,
    }
}

/// Why the object is not Ready whatever its pods do, if that is so.
pub(super) fn not_ready(outcome: &Outcome, accepted: &Verdict, resolved: &Verdict) -> Option<Verdict> {
    let fails = |reason: &str, message: &str| Some(Verdict::fails(kind::READY, reason, message));
    if accepted.truth == Truth::False {
        return fails(&accepted.reason, &accepted.message);
    }
    match outcome {
        Outcome::Blocked {
            by: by @ OwnedError::Foreign { .. },
            ..
        } => {
            return fails(reason::OWNERSHIP_CONFLICT, &by.to_string());
        }
        Outcome::Blocked {
            by: by @ OwnedError::Refused { quota: true, .. },
            ..
        } => {
            return fails(
                reason::QUOTA_EXCEEDED,
                &format!("{by}; raise the ResourceQuota or free some of it"),
            );
        }
        Outcome::Blocked { by, .. } => return fails(reason::PROGRESSING, &by.to_string()),
        Outcome::Rejected { .. } | Outcome::Applied { .. } => {}
    }
    (resolved.truth == Truth::False).then(|| Verdict::fails(kind::READY, &resolved.reason, &resolved.message))
}

/// What the pods of the workload say about Ready, and whether the answer is that they serve.
pub(super) fn pods(rollout: &Rollout, was_ready: bool) -> Option<Verdict> {
    let fails = |reason: &str, message: String| Some(Verdict::fails(kind::READY, reason, message));
    if rollout.serving().is_some() {
        return None;
    }
    if let Some(trouble) = &rollout.trouble {
        return fails(trouble.reason, trouble.message.clone());
    }
    match rollout.current.first() {
        None if !rollout.observed => fails(
            reason::PROGRESSING,
            "the Deployment has not been acted on yet".to_owned(),
        ),
        None => fails(
            reason::PROGRESSING,
            "the pod of this revision has not been created yet".to_owned(),
        ),
        Some(pod) if was_ready => fails(
            reason::NOT_SERVING,
            format!(
                "pod {} is not ready; its /readyz on port 9090 names the cause",
                pod.name
            ),
        ),
        Some(pod) => fails(reason::PROGRESSING, format!("pod {} is starting", pod.name)),
    }
}

/// The workload is asked to have no pods.
pub(super) fn scaled_to_zero(rollout: &Rollout, suspended: bool) -> Option<Verdict> {
    if rollout.wanted != 0 || !rollout.observed {
        return None;
    }
    if rollout.total > 0 || rollout.stopping {
        return Some(Verdict::fails(
            kind::READY,
            reason::PROGRESSING,
            "the pod is being stopped",
        ));
    }
    Some(if suspended {
        Verdict::holds(
            kind::READY,
            reason::SUSPENDED,
            "suspended: no pod runs, and the identity is in no list",
        )
    } else {
        Verdict::holds(kind::READY, reason::SCALED_TO_ZERO, "no replica is wanted")
    })
}

/// What an object that this version's types cannot read gets.
pub(super) fn unreadable(error: &str) -> Vec<Verdict> {
    let message = format!("this version cannot read the object: {error}");
    vec![
        Verdict::fails(kind::ACCEPTED, reason::INVALID_SPEC, message.clone()),
        Verdict::fails(kind::READY, reason::INVALID_SPEC, message.clone()),
        Verdict::holds(kind::STALLED, reason::INVALID_SPEC, message),
    ]
}

/// The reason of Reconciling that remembers that this generation has been Ready before.
const RECOVERING: &str = "Recovering";

/// Whether this generation has been Ready before, by what the status says.
pub(super) fn was_ready(before: &[Condition], generation: i64) -> bool {
    let of_generation = |condition: &&Condition| condition.observed_generation == Some(generation);
    let serves = |ready: &Condition| ready.status == "True" && ready.reason == reason::SERVING;
    find(before, kind::READY)
        .filter(of_generation)
        .is_some_and(serves)
        || find(before, kind::RECONCILING)
            .filter(of_generation)
            .is_some_and(|c| c.reason == RECOVERING)
}

/// Ready, and Reconciling or Stalled beside it.
pub(super) fn settle(ready: Verdict, stalled: Option<Verdict>, was_ready: bool) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if let Some(stalled) = stalled {
        verdicts.push(stalled);
    } else if ready.truth != Truth::True {
        let reason = match ready.reason.as_str() {
            reason::NOT_YET_USED => reason::NOT_YET_USED,
            _ if was_ready => RECOVERING,
            _ => reason::PROGRESSING,
        };
        verdicts.push(Verdict::holds(kind::RECONCILING, reason, ready.message.clone()));
    }
    verdicts.push(ready);
    verdicts
}
