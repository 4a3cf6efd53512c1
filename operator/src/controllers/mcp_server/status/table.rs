//! The whole list of conditions for each state of a server, and what kstatus reads from it.

mod pods;

use agentd_crds::shared::Rejected as Refusal;
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
    reported: Option<Reported>,
    users: Vec<User>,
    before: Vec<Condition>,
}

impl Case {
    /// A server that the operator runs, proved by its bridge.
    fn operated() -> Self {
        Self {
            spec: json!({"deployment": {"image": "r/fs:1"}}),
            outcome: Outcome::Applied {
                unresolved: Vec::new(),
                notes: Vec::new(),
            },
            rollout: Some(serving(POD)),
            issuer: Issuer::Available,
            reported: Some(reported(ReportedState::Connected)),
            users: Vec::new(),
            before: Vec::new(),
        }
    }

    /// A server that runs elsewhere, proved by an Agent.
    fn remote() -> Self {
        Self {
            spec: json!({"endpoint": "https://mcp.example"}),
            rollout: None,
            reported: None,
            users: vec![user(ReportedState::Connected, Some(true))],
            ..Self::operated()
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The same once this generation has been Ready.
    fn later(mut self) -> Self {
        let proved = match self.spec.get("deployment") {
            Some(_) => Self::operated(),
            None => Self::remote(),
        };
        self.before = proved.status().conditions;
        self
    }

    fn status(&self) -> McpServerStatus {
        let mut server: McpServer = serde_json::from_value(json!({
            "apiVersion": "agentd.io/v1alpha1", "kind": "McpServer",
            "metadata": {"name": "fs", "namespace": "support", "generation": GENERATION},
            "spec": self.spec,
        }))
        .unwrap();
        server.status = Some(McpServerStatus {
            conditions: self.before.clone(),
            reported: self.reported.clone(),
            ..McpServerStatus::default()
        });
        let view = View {
            outcome: &self.outcome,
            rollout: self.rollout.as_ref(),
            config_digest: Some(DIGEST.to_owned()),
            issuer: self.issuer,
            users: self.users.clone(),
            url: "https://there".to_owned(),
        };
        compute(&server, &view, Timestamp::UNIX_EPOCH)
    }

    #[track_caller]
    fn gives(&self, conditions: &[&str], kstatus_says: &str) -> McpServerStatus {
        let status = self.status();
        assert_eq!(status.observed_generation, Some(GENERATION));
        assert_eq!(spelled(&status.conditions), conditions);
        assert_eq!(kstatus(&status.conditions), kstatus_says);
        status
    }
}

fn seen(state: ReportedState) -> ReportedServer {
    ReportedServer {
        name: "fs".to_owned(),
        state,
        reason: None,
    }
}

fn user(state: ReportedState, current: Option<bool>) -> User {
    User {
        agent: "triage".to_owned(),
        seen: Some(seen(state)),
        current,
    }
}

fn reported(state: ReportedState) -> Reported {
    Reported {
        pod_uid: Some(POD.to_owned()),
        servers: vec![seen(state)],
        running_digest: Some(DIGEST.to_owned()),
        listens_on_all_addresses: Some(false),
        ..Reported::default()
    }
}

fn rejected(reason: Reason) -> Outcome {
    Outcome::Rejected {
        problems: vec![Problem::new(reason, "spec.x is wrong; mend it")],
        unresolved: Vec::new(),
    }
}

fn missing() -> Outcome {
    Outcome::Rejected {
        problems: Vec::new(),
        unresolved: vec![Problem::new(
            Reason::RefNotFound,
            "ConfigMap roots does not exist; create it",
        )],
    }
}

const ACCEPTED: &str = "Accepted=True Accepted";
const RESOLVED: &str = "ResolvedRefs=True Resolved";
const IDENTITY: &str = "IdentityReady=True SvidIssued";
const ISSUER: &str = "IdentityReady=True IssuerAvailable";
const AVAILABLE: &str = "Available=True Serving";
const VERIFIED: &str = "Verified=True Exchanged";
const ISOLATED: &str = "Isolated=True LoopbackOnly";
const SERVING: &str = "Ready=True Serving";
const ON_THE_WAY: &str = "Reconciling=True Progressing";

#[test]
fn a_server_that_serves_is_ready_and_nothing_else() {
    let list = [
        ACCEPTED, RESOLVED, IDENTITY, AVAILABLE, VERIFIED, ISOLATED, SERVING,
    ];
    let status = Case::operated().gives(&list, "Current");
    assert_eq!(
        Case::operated().later().status(),
        status,
        "the second computation writes nothing new"
    );
    assert_eq!(status.address.unwrap().url, "https://there");
    let status = Case::remote().gives(&[ACCEPTED, RESOLVED, VERIFIED, SERVING], "Current");
    assert_eq!(Case::remote().later().status(), status);
    assert_eq!(status.address.unwrap().url, "https://there");
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
        // The pods go on with what was accepted before.
        let list = [
            accepted, RESOLVED, IDENTITY, AVAILABLE, VERIFIED, ISOLATED, ready, stalled,
        ];
        let case = || Case::operated().with(|case| case.outcome = rejected(reason));
        case().gives(&list, "Failed");
        case().later().gives(&list, "Failed");
        // So do the Agents: what they say is not about this spec.
        let case = Case::remote().with(|case| {
            (case.outcome, case.users) = (
                rejected(reason),
                vec![user(ReportedState::Connected, Some(false))],
            );
        });
        case.gives(
            &[accepted, RESOLVED, "Verified=False Progressing", ready, stalled],
            "Failed",
        );
    }
}

#[test]
fn what_stands_in_the_way_has_its_reason() {
    let (kind, name) = ("Service".to_owned(), "fs-mcp".to_owned());
    let refused = |quota| OwnedError::Refused {
        kind: kind.clone(),
        name: name.clone(),
        message: "no".to_owned(),
        quota,
    };
    for (by, accepted, ready, beside, says) in [
        (
            OwnedError::Foreign {
                kind: kind.clone(),
                name: name.clone(),
            },
            ACCEPTED,
            "Ready=False OwnershipConflict",
            "Stalled=True OwnershipConflict",
            "Failed",
        ),
        (
            OwnedError::Leftover {
                kind: kind.clone(),
                name: name.clone(),
            },
            ACCEPTED,
            "Ready=False Progressing",
            ON_THE_WAY,
            "InProgress",
        ),
        (
            refused(true),
            ACCEPTED,
            "Ready=False QuotaExceeded",
            ON_THE_WAY,
            "InProgress",
        ),
        (
            refused(false),
            "Accepted=False InvalidSpec",
            "Ready=False InvalidSpec",
            "Stalled=True InvalidSpec",
            "Failed",
        ),
    ] {
        let outcome = Outcome::Blocked {
            by,
            unresolved: Vec::new(),
        };
        let list = [
            accepted, RESOLVED, IDENTITY, AVAILABLE, VERIFIED, ISOLATED, ready, beside,
        ];
        Case::operated()
            .with(|case| case.outcome = outcome)
            .gives(&list, says);
    }
}

#[test]
fn references_that_lead_nowhere_take_ready_away_until_they_lead_somewhere() {
    let unresolved = "ResolvedRefs=False RefNotFound";
    let list = [
        ACCEPTED,
        unresolved,
        VERIFIED,
        "Ready=False RefNotFound",
        ON_THE_WAY,
    ];
    Case::remote()
        .with(|case| case.outcome = missing())
        .gives(&list, "InProgress");
    let list = [
        ACCEPTED,
        unresolved,
        IDENTITY,
        AVAILABLE,
        VERIFIED,
        ISOLATED,
        "Ready=False RefNotFound",
        ON_THE_WAY,
    ];
    Case::operated()
        .with(|case| case.outcome = missing())
        .gives(&list, "InProgress");
    let secret =
        |case: &mut Case| case.reported.as_mut().unwrap().missing_secrets = vec!["keys/token".to_owned()];
    Case::operated().with(secret).gives(&list, "InProgress");
}

#[test]
fn what_agents_say_of_a_server_that_runs_elsewhere() {
    let case = |users: Vec<User>| Case::remote().with(|case| case.users = users);
    let list = [
        ACCEPTED,
        RESOLVED,
        "Verified=False NotYetUsed",
        "Ready=False NotYetUsed",
        "Reconciling=True NotYetUsed",
    ];
    let status = case(Vec::new()).gives(&list, "InProgress");
    assert_eq!(status.address, None);
    for (state, text) in [
        (ReportedState::Connecting, "Progressing"),
        (ReportedState::Failed, "ServerNotReady"),
        (ReportedState::Unauthorized, "ServerUnauthorized"),
    ] {
        let (verified, ready) = (format!("Verified=False {text}"), format!("Ready=False {text}"));
        let list = [ACCEPTED, RESOLVED, &verified, &ready, ON_THE_WAY];
        case(vec![user(state, Some(true))]).gives(&list, "InProgress");
        // One success proves it.
        let both = vec![
            user(state, Some(true)),
            user(ReportedState::Connected, Some(true)),
        ];
        case(both).gives(&[ACCEPTED, RESOLVED, VERIFIED, SERVING], "Current");
    }
    let list = [
        ACCEPTED,
        RESOLVED,
        "Verified=False Progressing",
        "Ready=False Progressing",
        ON_THE_WAY,
    ];
    case(vec![user(ReportedState::Connected, Some(false))]).gives(&list, "InProgress");
    case(vec![user(ReportedState::Connected, None)]).gives(&list, "InProgress");
    let stands = case(vec![user(ReportedState::Connected, None)]).later();
    stands.gives(&[ACCEPTED, RESOLVED, VERIFIED, SERVING], "Current");
}
