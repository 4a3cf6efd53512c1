//! A server that the operator runs: what its pods are and say.

use super::*;

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
