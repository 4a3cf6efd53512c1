//! What its pods are and say.

use super::*;

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
