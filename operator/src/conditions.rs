//! Conditions: the words of api.md and the one place where a list of them is made. Pure.
//!
//! Guarantees: every condition has `observedGeneration`; one that is not True has a CamelCase reason and a message; a
//! message is ours, without control characters and at most [`MESSAGE_CHARS`] long; `lastTransitionTime` moves only when
//! the status of that type changes; the order is fixed, so that equal input gives equal bytes.

use agentd_base::limit::MESSAGE_CHARS;
use agentd_base::text::clip;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Condition types, in the order in which a status lists them.
pub mod kind {
    /// The spec is valid and acted on.
    pub const ACCEPTED: &str = "Accepted";
    /// Every ConfigMap, McpServer, peer and Secret exists.
    pub const RESOLVED_REFS: &str = "ResolvedRefs";
    /// The pod has an unexpired SVID, or the issuer can serve it.
    pub const IDENTITY_READY: &str = "IdentityReady";
    /// Every required server answers (Agents).
    pub const TOOLS_READY: &str = "ToolsReady";
    /// The bridge serves (operator-run McpServers).
    pub const AVAILABLE: &str = "Available";
    /// A real MCP exchange succeeded (McpServers).
    pub const VERIFIED: &str = "Verified";
    /// The server's container is reachable through the bridge only (McpServers; informs).
    pub const ISOLATED: &str = "Isolated";
    /// The current generation serves.
    pub const READY: &str = "Ready";
    /// kstatus: on the way, nobody has to act.
    pub const RECONCILING: &str = "Reconciling";
    /// kstatus: waits for a person.
    pub const STALLED: &str = "Stalled";
    /// Serving, but not as asked.
    pub const DEGRADED: &str = "Degraded";

    /// All of them, in order.
    pub(super) const ORDER: [&str; 11] = [
        ACCEPTED,
        RESOLVED_REFS,
        IDENTITY_READY,
        TOOLS_READY,
        AVAILABLE,
        VERIFIED,
        ISOLATED,
        READY,
        RECONCILING,
        STALLED,
        DEGRADED,
    ];
}

/// Reasons that are not a [`crate::problem::Reason`].
pub mod reason {
    /// The condition holds as a matter of course.
    pub const OK: &str = "AsExpected";
    /// Nothing was refused.
    pub const ACCEPTED: &str = "Accepted";
    /// Every reference was found.
    pub const RESOLVED: &str = "Resolved";
    /// The current generation serves.
    pub const SERVING: &str = "Serving";
    /// On the way.
    pub const PROGRESSING: &str = "Progressing";
    /// A container of the pod fails.
    pub const POD_FAILED: &str = "PodFailed";
    /// A ResourceQuota refused the pod.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// The pod runs and does not serve.
    pub const NOT_SERVING: &str = "NotServing";
    /// `suspend: true`.
    pub const SUSPENDED: &str = "Suspended";
    /// No replica is wanted.
    pub const SCALED_TO_ZERO: &str = "ScaledToZero";
    /// An object with our name is not ours.
    pub const OWNERSHIP_CONFLICT: &str = "OwnershipConflict";
    /// The object cannot be read with this version's types.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// No CA, or no issuer.
    pub const PROVIDER_MISSING: &str = "ProviderMissing";
    /// The issuer has no replica that answers.
    pub const ISSUER_UNAVAILABLE: &str = "IssuerUnavailable";
    /// The pod holds an SVID.
    pub const SVID_ISSUED: &str = "SvidIssued";
    /// The issuer serves; no pod has asked yet.
    pub const ISSUER_AVAILABLE: &str = "IssuerAvailable";
    /// A required server does not answer.
    pub const SERVER_NOT_READY: &str = "ServerNotReady";
    /// A required server answers 401 or 403.
    pub const SERVER_UNAUTHORIZED: &str = "ServerUnauthorized";
    /// Every required server answers.
    pub const SERVERS_READY: &str = "ServersReady";
    /// Servers are away from an agent that serves.
    pub const TOOLS_NOT_READY: &str = "ToolsNotReady";
    /// The pod refused the live folder and runs the one before.
    pub const REVISION_REJECTED: &str = "RevisionRejected";
    /// No agent uses the remote server yet, so nobody can prove it.
    pub const NOT_YET_USED: &str = "NotYetUsed";
    /// A real MCP exchange succeeded.
    pub const EXCHANGED: &str = "Exchanged";
    /// The user's container answers on the pod's address.
    pub const LISTENS_ON_ALL: &str = "ListensOnAllAddresses";
    /// The container answers on loopback only.
    pub const LOOPBACK_ONLY: &str = "LoopbackOnly";
    /// No report has arrived yet.
    pub const NOT_REPORTED: &str = "NotReported";
}

/// `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl Truth {
    const fn text(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What one condition says, before it is compared with what the status says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// One of [`kind`].
    pub kind: &'static str,
    /// Whether it holds.
    pub truth: Truth,
    /// CamelCase.
    pub reason: String,
    /// For people: object, key and next step. Empty only when True.
    pub message: String,
}

impl Verdict {
    /// It holds.
    pub fn holds(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            truth: Truth::True,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// It does not hold.
    pub fn fails(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            truth: Truth::False,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Nobody knows yet.
    pub fn unknown(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            truth: Truth::Unknown,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// The list for a status: `verdicts` in the fixed order, each with the transition time that `before` gives it. A type
/// without a verdict is left out.
pub fn list(verdicts: Vec<Verdict>, before: &[Condition], generation: i64, now: Timestamp) -> Vec<Condition> {
    let mut conditions: Vec<Condition> = verdicts
        .into_iter()
        .map(|verdict| {
            let status = verdict.truth.text();
            let kept = find(before, verdict.kind).filter(|old| old.status == status);
            Condition {
                type_: verdict.kind.to_owned(),
                status: status.to_owned(),
                reason: verdict.reason,
                message: clip(&verdict.message, MESSAGE_CHARS),
                observed_generation: Some(generation),
                last_transition_time: kept
                    .map_or_else(|| Time(seconds(now)), |old| old.last_transition_time.clone()),
            }
        })
        .collect();
    conditions.sort_by_key(|condition| kind::ORDER.iter().position(|kind| *kind == condition.type_));
    conditions
}

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of that type is True.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Whole seconds: what `metav1.Time` keeps.
pub fn seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let ready = |truth: Truth, reason: &str| Verdict {
            kind: kind::READY,
            truth,
            reason: reason.to_owned(),
            message: "m".to_owned(),
        };
        let first = list(vec![ready(Truth::False, "A")], &[], 1, at(10));
        let second = list(vec![ready(Truth::False, "B")], &first, 2, at(20));
        assert_eq!(second[0].last_transition_time.0, at(10));
        assert_eq!(second[0].observed_generation, Some(2));
        let third = list(vec![ready(Truth::True, "C")], &second, 2, at(30));
        assert_eq!(third[0].last_transition_time.0, at(30));
    }

    #[test]
    fn order_is_fixed_and_messages_are_bounded_and_clean() {
        let verdicts = vec![
            Verdict::fails(kind::READY, "A", "x\n".repeat(300)),
            Verdict::holds(kind::ACCEPTED, "B", ""),
        ];
        let conditions = list(verdicts, &[], 1, at(1));
        assert_eq!(
            conditions.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(),
            ["Accepted", "Ready"]
        );
        assert_eq!(conditions[1].message.chars().count(), MESSAGE_CHARS);
        assert!(!conditions[1].message.contains('\n'));
    }
}
