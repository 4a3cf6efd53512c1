//! Views and what is made of them.

use serde_json::json;

use super::*;
use crate::rollout::CurrentPod;

fn seen(state: ReportedState) -> ReportedServer {
    ReportedServer {
        name: "fs".into(),
        state,
        reason: Some("refused".into()),
    }
}

fn user(agent: &str, state: Option<ReportedState>, current: Option<bool>) -> User {
    User {
        agent: agent.into(),
        seen: state.map(seen),
        current,
    }
}

fn reason_of(users: &[User], stood: bool) -> String {
    verified_by_users(users, stood).reason
}

#[test]
fn one_success_proves_a_remote_server() {
    use ReportedState::{Connected, Connecting, Failed, Unauthorized};
    assert_eq!(reason_of(&[], false), "NotYetUsed");
    assert_eq!(reason_of(&[user("a", None, Some(true))], false), "Progressing");
    assert_eq!(
        reason_of(&[user("a", Some(Connecting), Some(true))], false),
        "Progressing"
    );
    let failed = user("a", Some(Failed), Some(true));
    assert_eq!(reason_of(std::slice::from_ref(&failed), false), "ServerNotReady");
    let denied = user("b", Some(Unauthorized), Some(true));
    assert_eq!(
        reason_of(&[failed.clone(), denied.clone()], false),
        "ServerUnauthorized"
    );
    assert_eq!(
        reason_of(&[failed, denied, user("c", Some(Connected), Some(true))], false),
        "Exchanged"
    );
}

#[test]
fn a_report_about_an_earlier_spec_proves_nothing_and_a_restart_of_ours_takes_nothing_away() {
    let connected = |current| [user("a", Some(ReportedState::Connected), current)];
    assert_eq!(reason_of(&connected(Some(false)), true), "Progressing");
    assert_eq!(reason_of(&connected(None), true), "Exchanged");
    assert_eq!(reason_of(&connected(None), false), "Progressing");
}

fn server(status: McpServerStatus) -> McpServer {
    let mut server: McpServer = serde_json::from_value(json!({
        "apiVersion": "agentd.io/v1alpha1", "kind": "McpServer",
        "metadata": {"name": "fs", "namespace": "support", "generation": 2},
        "spec": {"deployment": {"image": "r/fs:1"}},
    }))
    .unwrap();
    server.status = Some(status);
    server
}

fn said(server: &McpServer, rollout: Option<&Rollout>) -> (Vec<String>, Option<Address>) {
    let outcome = Outcome::Applied {
        unresolved: vec![],
        notes: vec![],
    };
    let view = View {
        outcome: &outcome,
        rollout,
        config_digest: Some("d".into()),
        issuer: Issuer::Available,
        users: vec![],
        url: "https://fs-mcp.support.svc:8443/mcp".into(),
    };
    let status = compute(server, &view, Timestamp::UNIX_EPOCH);
    let said = status
        .conditions
        .iter()
        .map(|c| format!("{}={} {}", c.type_, c.status, c.reason))
        .collect();
    (said, status.address)
}

fn reported(state: ReportedState, listens: Option<bool>) -> McpServerStatus {
    McpServerStatus {
        reported: Some(Reported {
            pod_uid: Some("pod".into()),
            servers: vec![seen(state)],
            running_digest: Some("d".into()),
            listens_on_all_addresses: listens,
            ..Reported::default()
        }),
        ..McpServerStatus::default()
    }
}

fn rollout(ready: bool) -> Rollout {
    let pod = CurrentPod {
        name: "p".into(),
        uid: "pod".into(),
        ready,
    };
    Rollout {
        observed: true,
        wanted: 1,
        total: 1,
        current: vec![pod],
        ..Rollout::default()
    }
}

#[test]
fn s06_s08_a_server_of_ours_has_an_address_only_while_its_bridge_proves_it() {
    let (serving, starting) = (rollout(true), rollout(false));
    let (all, address) = said(
        &server(reported(ReportedState::Connected, Some(false))),
        Some(&serving),
    );
    assert_eq!(
        all,
        [
            "Accepted=True Accepted",
            "ResolvedRefs=True Resolved",
            "IdentityReady=True SvidIssued",
            "Available=True Serving",
            "Verified=True Exchanged",
            "Isolated=True LoopbackOnly",
            "Ready=True Serving"
        ]
    );
    assert_eq!(address.unwrap().url, "https://fs-mcp.support.svc:8443/mcp");
    let (all, address) = said(
        &server(reported(ReportedState::Failed, Some(true))),
        Some(&serving),
    );
    assert!(
        all.contains(&"Verified=False ServerNotReady".to_owned()),
        "{all:?}"
    );
    assert!(
        all.contains(&"Isolated=False ListensOnAllAddresses".to_owned()),
        "{all:?}"
    );
    assert!(all.contains(&"Ready=False ServerNotReady".to_owned()), "{all:?}");
    assert_eq!(address, None);
    let (all, _) = said(&server(McpServerStatus::default()), Some(&starting));
    assert!(all.contains(&"Available=False Progressing".to_owned()), "{all:?}");
    assert!(
        all.contains(&"Isolated=Unknown NotReported".to_owned()),
        "{all:?}"
    );
    let (all, _) = said(&server(McpServerStatus::default()), None);
    assert!(all.contains(&"Ready=False Progressing".to_owned()), "{all:?}");
}
