//! The servers it uses.

use super::*;

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
