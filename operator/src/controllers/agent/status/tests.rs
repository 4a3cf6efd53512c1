//! Views and what is made of them: the whole list of conditions for each, and what kstatus reads from it.

mod pods;
mod servers;

use agentd_crds::shared::{Rejected as Refusal, ReportedServer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::*;
use crate::controllers::testing::{conditions as spelled, kstatus, rollout, serving, starting, troubled};
use crate::owned::OwnedError;
use crate::problem::{Problem, Reason};

const GENERATION: i64 = 2;
const DIGEST: &str = "sha256:current";
const POD: &str = "pod";

/// Everything that a status depends on.
struct Case {
    spec: Value,
    outcome: Outcome,
    rollout: Option<Rollout>,
    issuer: Issuer,
    servers: Vec<Server>,
    reported: Option<Reported>,
    running: Option<&'static str>,
    before: Vec<Condition>,
}

impl Case {
    /// An Agent whose pod serves what it should, with one required server that answers.
    fn healthy() -> Self {
        Self {
            spec: json!({}),
            outcome: Outcome::Applied {
                unresolved: Vec::new(),
                notes: Vec::new(),
            },
            rollout: Some(serving(POD)),
            issuer: Issuer::Available,
            servers: vec![server(Some(Ok(())))],
            reported: Some(reported(ReportedState::Connected)),
            running: Some(DIGEST),
            before: Vec::new(),
        }
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut case = Self::healthy();
        change(&mut case);
        case
    }

    /// The same once this generation has been Ready.
    fn later(mut self) -> Self {
        let before = Self::healthy().status();
        self.before = before.conditions;
        self
    }

    fn status(&self) -> AgentStatus {
        let mut agent: Agent = serde_json::from_value(json!({
            "apiVersion": "agentd.io/v1alpha1", "kind": "Agent",
            "metadata": {"name": "triage", "namespace": "support", "generation": GENERATION},
            "spec": {"instruction": "x", "intelligence": {"endpoints": [], "model": "m"}},
        }))
        .unwrap();
        let mut spec = serde_json::to_value(&agent.spec).unwrap();
        agentd_config::reload::merge_patch(&mut spec, &self.spec);
        agent.spec = serde_json::from_value(spec).unwrap();
        agent.status = Some(AgentStatus {
            conditions: self.before.clone(),
            reported: self.reported.clone(),
            running_digest: self.running.map(str::to_owned),
            ..AgentStatus::default()
        });
        let view = View {
            outcome: &self.outcome,
            rollout: self.rollout.as_ref(),
            config_digest: Some(DIGEST.to_owned()),
            issuer: self.issuer,
            servers: self.servers.clone(),
            spiffe_id: "spiffe://td.example/ns/support/sa/triage-agent".to_owned(),
        };
        compute(&agent, &view, Timestamp::UNIX_EPOCH)
    }

    #[track_caller]
    fn gives(&self, conditions: &[&str], kstatus_says: &str) -> Vec<Condition> {
        let status = self.status();
        assert_eq!(status.observed_generation, Some(GENERATION));
        assert_eq!(spelled(&status.conditions), conditions);
        assert_eq!(kstatus(&status.conditions), kstatus_says);
        status.conditions
    }
}

fn server(verified: Option<Result<(), (String, String)>>) -> Server {
    Server {
        name: "fs".to_owned(),
        required: true,
        left_out: None,
        verified,
    }
}

fn not_verified(reason: &str) -> Option<Result<(), (String, String)>> {
    Some(Err((reason.to_owned(), "why".to_owned())))
}

fn reported(state: ReportedState) -> Reported {
    Reported {
        pod_uid: Some(POD.to_owned()),
        servers: vec![ReportedServer {
            name: "fs".to_owned(),
            state,
            reason: None,
        }],
        ..Reported::default()
    }
}

fn rejected(reason: Reason) -> Outcome {
    Outcome::Rejected {
        problems: vec![Problem::new(reason, "spec.x is wrong; mend it")],
        unresolved: Vec::new(),
    }
}

fn unresolved(reason: Reason) -> Outcome {
    Outcome::Applied {
        unresolved: vec![Problem::new(reason, "McpServer fs is not there; create it")],
        notes: Vec::new(),
    }
}

fn refused(quota: bool) -> OwnedError {
    OwnedError::Refused {
        kind: "Deployment".to_owned(),
        name: "triage-agent".to_owned(),
        message: "no".to_owned(),
        quota,
    }
}

fn blocked(by: OwnedError) -> Outcome {
    Outcome::Blocked {
        by,
        unresolved: Vec::new(),
    }
}

const ACCEPTED: &str = "Accepted=True Accepted";
const RESOLVED: &str = "ResolvedRefs=True Resolved";
const IDENTITY: &str = "IdentityReady=True SvidIssued";
const TOOLS: &str = "ToolsReady=True ServersReady";
const SERVING: &str = "Ready=True Serving";

#[test]
fn an_agent_that_serves_is_ready_and_nothing_else() {
    let first = Case::healthy().gives(&[ACCEPTED, RESOLVED, IDENTITY, TOOLS, SERVING], "Current");
    let again = Case::healthy().later().status();
    assert_eq!(
        again.conditions, first,
        "the second computation writes nothing new"
    );
}

#[test]
fn a_spec_that_is_not_acted_on_is_stalled_with_its_reason() {
    for (reason, text) in [
        (Reason::InvalidSpec, "InvalidSpec"),
        (Reason::NotSupportedYet, "NotSupportedYet"),
        (Reason::ConfigTooLarge, "ConfigTooLarge"),
    ] {
        let expected = [
            format!("Accepted=False {text}"),
            format!("Ready=False {text}"),
            format!("Stalled=True {text}"),
        ];
        let [accepted, ready, stalled] = expected.each_ref().map(String::as_str);
        let list = [accepted, RESOLVED, IDENTITY, TOOLS, ready, stalled];
        // What runs keeps running; that it serves does not make the spec good, before or after the first Ready.
        Case::with(|case| case.outcome = rejected(reason)).gives(&list, "Failed");
        Case::with(|case| case.outcome = rejected(reason))
            .later()
            .gives(&list, "Failed");
    }
    let refused = Case::with(|case| case.outcome = blocked(refused(false)));
    refused.gives(
        &[
            "Accepted=False InvalidSpec",
            RESOLVED,
            IDENTITY,
            TOOLS,
            "Ready=False InvalidSpec",
            "Stalled=True InvalidSpec",
        ],
        "Failed",
    );
}

#[test]
fn what_stands_in_the_way_has_its_reason() {
    let (kind, name) = ("Service".to_owned(), "triage-agent".to_owned());
    let foreign = OwnedError::Foreign {
        kind: kind.clone(),
        name: name.clone(),
    };
    Case::with(|case| case.outcome = blocked(foreign)).gives(
        &[
            ACCEPTED,
            RESOLVED,
            IDENTITY,
            TOOLS,
            "Ready=False OwnershipConflict",
            "Stalled=True OwnershipConflict",
        ],
        "Failed",
    );
    let leftover = OwnedError::Leftover { kind, name };
    Case::with(|case| case.outcome = blocked(leftover)).gives(
        &[
            ACCEPTED,
            RESOLVED,
            IDENTITY,
            TOOLS,
            "Ready=False Progressing",
            "Reconciling=True Progressing",
        ],
        "InProgress",
    );
    Case::with(|case| case.outcome = blocked(refused(true))).gives(
        &[
            ACCEPTED,
            RESOLVED,
            IDENTITY,
            TOOLS,
            "Ready=False QuotaExceeded",
            "Reconciling=True Progressing",
        ],
        "InProgress",
    );
}

#[test]
fn references_that_lead_nowhere_take_ready_away_until_they_lead_somewhere() {
    for (reason, text) in [
        (Reason::RefNotFound, "RefNotFound"),
        (Reason::RefNotPermitted, "RefNotPermitted"),
    ] {
        let (resolved, ready) = (
            format!("ResolvedRefs=False {text}"),
            format!("Ready=False {text}"),
        );
        let list = [
            ACCEPTED,
            &resolved,
            IDENTITY,
            TOOLS,
            &ready,
            "Reconciling=True Progressing",
        ];
        Case::with(|case| case.outcome = unresolved(reason)).gives(&list, "InProgress");
    }
    // A ConfigMap without which nothing new is applied is no fault of the spec.
    let missing = Outcome::Rejected {
        problems: Vec::new(),
        unresolved: vec![Problem::new(
            Reason::RefNotFound,
            "ConfigMap prompts does not exist; create it",
        )],
    };
    Case::with(|case| case.outcome = missing).gives(
        &[
            ACCEPTED,
            "ResolvedRefs=False RefNotFound",
            IDENTITY,
            TOOLS,
            "Ready=False RefNotFound",
            "Reconciling=True Progressing",
        ],
        "InProgress",
    );
    let secret = Case::with(|case| {
        case.reported.as_mut().unwrap().missing_secrets = vec!["keys/token".to_owned()];
    });
    let list = secret.later().gives(
        &[
            ACCEPTED,
            "ResolvedRefs=False RefNotFound",
            IDENTITY,
            TOOLS,
            "Ready=False RefNotFound",
            "Reconciling=True Recovering",
        ],
        "InProgress",
    );
    assert!(
        list[1].message.contains("Secret `keys` with key `token`"),
        "{}",
        list[1].message
    );
}

#[test]
fn a_note_is_no_refusal() {
    let notes = vec![Problem::new(Reason::PlaintextModel, "plain http")];
    let case = Case::with(|case| {
        case.outcome = Outcome::Applied {
            unresolved: Vec::new(),
            notes,
        };
    });
    case.gives(
        &["Accepted=True PlaintextModel", RESOLVED, IDENTITY, TOOLS, SERVING],
        "Current",
    );
}
