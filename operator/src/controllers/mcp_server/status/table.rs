//! The whole list of conditions for each state of a server, and what kstatus reads from it.

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
fn an_identity_is_ready_by_a_pod_that_serves_or_an_issuer_that_would() {
    for (issuer, text) in [
        (Issuer::Available, ISSUER),
        (Issuer::Unavailable, "IdentityReady=False IssuerUnavailable"),
        (Issuer::Missing, "IdentityReady=False ProviderMissing"),
    ] {
        let list = [
            ACCEPTED,
            RESOLVED,
            text,
            "Available=False Progressing",
            "Verified=False NotReported",
            "Isolated=Unknown NotReported",
            "Ready=False Progressing",
            ON_THE_WAY,
        ];
        let none = Case::operated().with(|case| (case.issuer, case.rollout) = (issuer, None));
        none.gives(&list, "InProgress");
        // It reported once, with an SVID that is gone since.
        let list = [
            ACCEPTED,
            RESOLVED,
            text,
            "Available=False NotServing",
            VERIFIED,
            ISOLATED,
            "Ready=False NotServing",
            "Reconciling=True Recovering",
        ];
        let expired =
            Case::operated().with(|case| (case.issuer, case.rollout) = (issuer, Some(starting(POD))));
        expired.later().gives(&list, "InProgress");
        let list = [
            ACCEPTED, RESOLVED, IDENTITY, AVAILABLE, VERIFIED, ISOLATED, SERVING,
        ];
        Case::operated()
            .with(|case| case.issuer = issuer)
            .gives(&list, "Current");
    }
}

#[test]
fn pods_that_do_not_come_up_say_why() {
    for (rollout, reason) in [
        (rollout(), "Progressing"),
        (starting("another"), "Progressing"),
        (
            Rollout {
                observed: false,
                ..rollout()
            },
            "Progressing",
        ),
        (troubled(reason::POD_FAILED), "PodFailed"),
        (troubled(reason::QUOTA_EXCEEDED), "QuotaExceeded"),
    ] {
        let (available, ready) = (
            format!("Available=False {reason}"),
            format!("Ready=False {reason}"),
        );
        let list = [
            ACCEPTED,
            RESOLVED,
            ISSUER,
            &available,
            "Verified=False NotReported",
            "Isolated=Unknown NotReported",
            &ready,
            ON_THE_WAY,
        ];
        Case::operated()
            .with(|case| case.rollout = Some(rollout))
            .gives(&list, "InProgress");
    }
}

#[test]
fn what_a_bridge_says_of_its_server() {
    for (state, verified) in [
        (ReportedState::Connecting, "Progressing"),
        (ReportedState::Failed, "ServerNotReady"),
        (ReportedState::Unauthorized, "ServerUnauthorized"),
    ] {
        let (not, ready) = (
            format!("Verified=False {verified}"),
            format!("Ready=False {verified}"),
        );
        let list = |beside| {
            [
                ACCEPTED, RESOLVED, IDENTITY, AVAILABLE, &not, ISOLATED, &ready, beside,
            ]
        };
        let case = || Case::operated().with(|case| case.reported = Some(reported(state)));
        let status = case().gives(&list(ON_THE_WAY), "InProgress");
        assert_eq!(status.address, None);
        case()
            .later()
            .gives(&list("Reconciling=True Recovering"), "InProgress");
    }
    // Silence takes nothing away from a generation that was proved, and gives nothing to another one.
    let silent = || Case::operated().with(|case| case.reported = None);
    let isolated = "Isolated=Unknown NotReported";
    let list = [
        ACCEPTED, RESOLVED, IDENTITY, AVAILABLE, VERIFIED, isolated, SERVING,
    ];
    silent().later().gives(&list, "Current");
    let mut next = silent().later();
    for condition in &mut next.before {
        condition.observed_generation = Some(GENERATION - 1);
    }
    let list = [
        ACCEPTED,
        RESOLVED,
        IDENTITY,
        AVAILABLE,
        "Verified=False NotReported",
        isolated,
        "Ready=False NotReported",
        ON_THE_WAY,
    ];
    next.gives(&list, "InProgress");
}

#[test]
fn a_server_that_can_be_reached_past_the_bridge_is_told_of_and_ready() {
    let open =
        Case::operated().with(|case| case.reported.as_mut().unwrap().listens_on_all_addresses = Some(true));
    let list = |isolated| {
        [
            ACCEPTED, RESOLVED, IDENTITY, AVAILABLE, VERIFIED, isolated, SERVING,
        ]
    };
    open.gives(&list("Isolated=False ListensOnAllAddresses"), "Current");
    let unknown =
        Case::operated().with(|case| case.reported.as_mut().unwrap().listens_on_all_addresses = None);
    unknown.gives(&list("Isolated=Unknown NotReported"), "Current");
}

#[test]
fn the_first_ready_of_a_generation_needs_the_bridges_word_for_it() {
    for running in [None, Some("sha256:before".to_owned())] {
        let case = || {
            let running = running.clone();
            Case::operated().with(|case| case.reported.as_mut().unwrap().running_digest = running)
        };
        let list = |ready, beside| {
            [
                ACCEPTED, RESOLVED, IDENTITY, AVAILABLE, VERIFIED, ISOLATED, ready, beside,
            ]
        };
        case().gives(&list("Ready=False Progressing", ON_THE_WAY), "InProgress");
        let list = [
            ACCEPTED, RESOLVED, IDENTITY, AVAILABLE, VERIFIED, ISOLATED, SERVING,
        ];
        case().later().gives(&list, "Current");
    }
}

#[test]
fn a_refused_configuration_waits_for_a_person() {
    let case = || {
        Case::operated().with(|case| {
            let reported = case.reported.as_mut().unwrap();
            reported.running_digest = Some("sha256:before".to_owned());
            reported.rejected = Some(Refusal {
                digest: DIGEST.to_owned(),
                message: "no".to_owned(),
            });
        })
    };
    let list = [
        ACCEPTED,
        RESOLVED,
        IDENTITY,
        AVAILABLE,
        VERIFIED,
        ISOLATED,
        "Ready=False NotServing",
        "Stalled=True RevisionRejected",
        "Degraded=True RevisionRejected",
    ];
    case().gives(&list, "Failed");
    let list = [
        ACCEPTED,
        RESOLVED,
        IDENTITY,
        AVAILABLE,
        VERIFIED,
        ISOLATED,
        SERVING,
        "Degraded=True RevisionRejected",
    ];
    case().later().gives(&list, "Current");
}

#[test]
fn a_server_that_shall_not_run_is_ready_once_nothing_runs() {
    let none = || Rollout {
        wanted: 0,
        ..rollout()
    };
    let case = |rollout| Case::operated().with(|case| case.rollout = Some(rollout));
    let list = |available, ready| {
        vec![
            ACCEPTED,
            RESOLVED,
            ISSUER,
            available,
            "Verified=False NotReported",
            "Isolated=Unknown NotReported",
            ready,
        ]
    };
    case(none()).gives(
        &list("Available=False ScaledToZero", "Ready=True ScaledToZero"),
        "Current",
    );
    let mut stopping = list("Available=False Progressing", "Ready=False Progressing");
    stopping.push(ON_THE_WAY);
    case(Rollout { total: 1, ..none() }).gives(&stopping, "InProgress");
    case(Rollout {
        stopping: true,
        ..none()
    })
    .gives(&stopping, "InProgress");
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
