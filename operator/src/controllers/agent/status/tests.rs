//! Views and what is made of them: the whole list of conditions for each, and what kstatus reads from it.

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

#[test]
fn an_identity_is_ready_by_a_pod_that_serves_or_an_issuer_that_would() {
    for (issuer, text) in [
        (Issuer::Available, "IdentityReady=True IssuerAvailable"),
        (Issuer::Unavailable, "IdentityReady=False IssuerUnavailable"),
        (Issuer::Missing, "IdentityReady=False ProviderMissing"),
    ] {
        let new = Case::with(|case| (case.issuer, case.rollout, case.reported) = (issuer, None, None));
        let list = [
            ACCEPTED,
            RESOLVED,
            text,
            TOOLS,
            "Ready=False Progressing",
            "Reconciling=True Progressing",
        ];
        new.gives(&list, "InProgress");
        // An SVID that expired while the issuer was away makes the pod unready: what it reported before proves nothing.
        let expired = Case::with(|case| (case.issuer, case.rollout) = (issuer, Some(starting(POD)))).later();
        let list = [
            ACCEPTED,
            RESOLVED,
            text,
            TOOLS,
            "Ready=False NotServing",
            "Reconciling=True Recovering",
        ];
        expired.gives(&list, "InProgress");
        Case::with(|case| case.issuer = issuer)
            .gives(&[ACCEPTED, RESOLVED, IDENTITY, TOOLS, SERVING], "Current");
    }
}

#[test]
fn a_required_server_holds_the_first_ready_back_and_later_degrades() {
    use ReportedState::{Connecting, Failed, Unauthorized};
    for (state, text, says) in [
        (Connecting, "ServerNotReady", "has not answered yet"),
        (Failed, "ServerNotReady", "does not answer"),
        (Unauthorized, "ServerUnauthorized", "401 or 403"),
    ] {
        let tools = format!("ToolsReady=False {text}");
        let case = || Case::with(|case| case.reported = Some(reported(state)));
        let first = [
            ACCEPTED,
            RESOLVED,
            IDENTITY,
            &tools,
            "Ready=False Progressing",
            "Reconciling=True Progressing",
        ];
        let list = case().gives(&first, "InProgress");
        assert!(list[3].message.contains(says), "{}", list[3].message);
        let later = [
            ACCEPTED,
            RESOLVED,
            IDENTITY,
            &tools,
            SERVING,
            "Degraded=True ToolsNotReady",
        ];
        case().later().gives(&later, "Current");
        let optional = Case::with(|case| {
            case.reported = Some(reported(state));
            case.servers[0].required = false;
        });
        optional.gives(&[ACCEPTED, RESOLVED, IDENTITY, TOOLS, SERVING], "Current");
    }
}

#[test]
fn before_a_pod_reports_a_servers_own_status_counts() {
    let tools = |verified| {
        let case = Case::with(|case| (case.reported, case.servers) = (None, vec![server(verified)]));
        let conditions = case.later().status().conditions;
        let tools = conditions::find(&conditions, kind::TOOLS_READY).unwrap();
        (
            spelled(std::slice::from_ref(tools)).remove(0),
            tools.message.clone(),
        )
    };
    assert_eq!(tools(Some(Ok(()))).0, TOOLS);
    assert_eq!(
        tools(not_verified("NotYetUsed")).0,
        "ToolsReady=False ServerNotReady"
    );
    assert_eq!(
        tools(not_verified("ServerUnauthorized")).0,
        "ToolsReady=False ServerUnauthorized"
    );
    assert!(tools(None).1.contains("has not been tried yet"));
}

/// Its McpServer is proved, by its bridge or by another Agent, and the pod says so from before: this document does not
/// hold it.
#[test]
fn a_required_server_that_was_left_out_of_the_document_is_not_ready() {
    let case = || {
        Case::with(|case| {
            case.servers[0].left_out = Some("McpServer fs is not accepted: spec.x is wrong".to_owned());
        })
    };
    let first = [
        ACCEPTED,
        RESOLVED,
        IDENTITY,
        "ToolsReady=False ServerNotReady",
        "Ready=False Progressing",
        "Reconciling=True Progressing",
    ];
    let list = case().gives(&first, "InProgress");
    assert!(
        list[3].message.contains("McpServer fs is not accepted"),
        "{}",
        list[3].message
    );
    let later = [
        ACCEPTED,
        RESOLVED,
        IDENTITY,
        "ToolsReady=False ServerNotReady",
        SERVING,
        "Degraded=True ToolsNotReady",
    ];
    case().later().gives(&later, "Current");
}

#[test]
fn pods_that_do_not_come_up_say_why() {
    let before_first = |rollout: Rollout, ready: &str| {
        Case::with(|case| case.rollout = Some(rollout)).gives(
            &[
                ACCEPTED,
                RESOLVED,
                "IdentityReady=True IssuerAvailable",
                TOOLS,
                ready,
                "Reconciling=True Progressing",
            ],
            "InProgress",
        )
    };
    before_first(starting(POD), "Ready=False Progressing");
    before_first(rollout(), "Ready=False Progressing");
    before_first(
        Rollout {
            observed: false,
            ..rollout()
        },
        "Ready=False Progressing",
    );
    before_first(troubled(reason::POD_FAILED), "Ready=False PodFailed");
    before_first(troubled(reason::QUOTA_EXCEEDED), "Ready=False QuotaExceeded");
    let later = Case::with(|case| case.rollout = Some(starting(POD))).later();
    later.gives(
        &[
            ACCEPTED,
            RESOLVED,
            "IdentityReady=True IssuerAvailable",
            TOOLS,
            "Ready=False NotServing",
            "Reconciling=True Recovering",
        ],
        "InProgress",
    );
}

#[test]
fn the_first_ready_of_a_generation_needs_the_pods_word_for_it() {
    let list = [
        ACCEPTED,
        RESOLVED,
        IDENTITY,
        TOOLS,
        "Ready=False Progressing",
        "Reconciling=True Progressing",
    ];
    let silent = || Case::with(|case| (case.reported, case.running) = (None, None));
    let behind = || Case::with(|case| case.running = Some("sha256:before"));
    let another = || Case::with(|case| case.reported.as_mut().unwrap().pod_uid = Some("gone".to_owned()));
    for case in [silent, behind, another] {
        case().gives(&list, "InProgress");
        // A missing report is not a failure.
        case()
            .later()
            .gives(&[ACCEPTED, RESOLVED, IDENTITY, TOOLS, SERVING], "Current");
    }
    // Another generation begins anew.
    let mut next = behind().later();
    for condition in &mut next.before {
        condition.observed_generation = Some(GENERATION - 1);
    }
    next.gives(&list, "InProgress");
}

#[test]
fn ready_comes_back_without_the_first_readys_conditions() {
    let mut lost = Case::with(|case| case.rollout = Some(starting(POD))).later();
    lost.before = lost.status().conditions;
    lost.rollout = Some(serving(POD));
    lost.reported = Some(reported(ReportedState::Failed));
    let list = [
        ACCEPTED,
        RESOLVED,
        IDENTITY,
        "ToolsReady=False ServerNotReady",
        SERVING,
        "Degraded=True ToolsNotReady",
    ];
    lost.gives(&list, "Current");
}

#[test]
fn a_refused_configuration_waits_for_a_person() {
    let case = || {
        Case::with(|case| {
            case.running = Some("sha256:before");
            case.reported.as_mut().unwrap().rejected = Some(Refusal {
                digest: DIGEST.to_owned(),
                message: "mcp.servers[fs].ns: is no prefix".to_owned(),
            });
        })
    };
    case().gives(
        &[
            ACCEPTED,
            RESOLVED,
            IDENTITY,
            TOOLS,
            "Ready=False NotServing",
            "Stalled=True RevisionRejected",
            "Degraded=True RevisionRejected",
        ],
        "Failed",
    );
    let later = [
        ACCEPTED,
        RESOLVED,
        IDENTITY,
        TOOLS,
        SERVING,
        "Degraded=True RevisionRejected",
    ];
    case().later().gives(&later, "Current");
    let mut old = case();
    old.running = Some(DIGEST);
    old.reported.as_mut().unwrap().rejected.as_mut().unwrap().digest = "sha256:another".to_owned();
    old.gives(&[ACCEPTED, RESOLVED, IDENTITY, TOOLS, SERVING], "Current");
}

#[test]
fn an_agent_that_shall_not_run_is_ready_once_nothing_runs() {
    let none = || Rollout {
        wanted: 0,
        ..rollout()
    };
    let issuer = "IdentityReady=True IssuerAvailable";
    for (suspend, text) in [(true, "Ready=True Suspended"), (false, "Ready=True ScaledToZero")] {
        let case = |rollout| {
            Case::with(|case| {
                case.spec = json!({ "suspend": suspend });
                case.rollout = Some(rollout);
            })
        };
        case(none()).gives(&[ACCEPTED, RESOLVED, issuer, TOOLS, text], "Current");
        let stopping = [
            ACCEPTED,
            RESOLVED,
            issuer,
            TOOLS,
            "Ready=False Progressing",
            "Reconciling=True Progressing",
        ];
        case(Rollout { total: 1, ..none() }).gives(&stopping, "InProgress");
        case(Rollout {
            stopping: true,
            ..none()
        })
        .gives(&stopping, "InProgress");
        case(Rollout {
            observed: false,
            ..none()
        })
        .gives(&stopping, "InProgress");
    }
    // A typo is not hidden by it, a missing reference is.
    let suspended = |outcome| {
        Case::with(|case| {
            (case.spec, case.rollout, case.outcome) = (json!({ "suspend": true }), Some(none()), outcome);
        })
    };
    let list = [
        "Accepted=False InvalidSpec",
        RESOLVED,
        issuer,
        TOOLS,
        "Ready=False InvalidSpec",
        "Stalled=True InvalidSpec",
    ];
    suspended(rejected(Reason::InvalidSpec)).gives(&list, "Failed");
    let list = [
        ACCEPTED,
        "ResolvedRefs=False RefNotFound",
        issuer,
        TOOLS,
        "Ready=True Suspended",
    ];
    suspended(unresolved(Reason::RefNotFound)).gives(&list, "Current");
}

#[test]
fn where_it_is_and_how_many_there_are() {
    let status = Case::healthy().status();
    assert_eq!(
        status.url.as_deref(),
        Some("https://triage-agent.support.svc:8443")
    );
    assert_eq!(
        status.spiffe_id.as_deref(),
        Some("spiffe://td.example/ns/support/sa/triage-agent")
    );
    assert_eq!((status.replicas, status.ready_replicas), (Some(1), Some(1)));
    assert_eq!(status.selector.as_deref(), Some("agentd.io/agent=triage"));
    assert_eq!(
        (&status.reported, &status.tools, &status.running_digest),
        (&None, &None, &None),
        "facts are not ours"
    );
    let none = Case::with(|case| case.rollout = None).status();
    assert_eq!((none.url, none.spiffe_id, none.replicas), (None, None, Some(0)));
}
