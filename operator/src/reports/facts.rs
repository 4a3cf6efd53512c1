//! From a report to the facts of a status. Pure. Everything a pod said is cut, cleaned, deduplicated and bounded here,
//! whatever the pod did: what comes out fits the schema.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::limit::{FOREIGN_CHARS, MESSAGE_CHARS, REPORTED_TOOLS, SERVERS};
use agentd_base::report::{self, Report, ServerState};
use agentd_base::text::clip;
use agentd_crds::agent::{AgentStatus, LastRun, ProtocolVersions, ToolsSummary};
use agentd_crds::mcp_server::{McpServerStatus, ServerInfo, ToolDigest};
use agentd_crds::shared::{Rejected, Reported, ReportedServer, ReportedState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::seconds;

/// Secret keys that a status names.
const MISSING_SECRETS: usize = 256;
/// Protocol versions that a status names.
const VERSIONS: usize = 8;
/// Capabilities that a status names.
const CAPABILITIES: usize = 64;
/// The longest name of a server in a document.
const NAME_CHARS: usize = 63;

/// The facts of an Agent. The last run stands until a pod has had another one: a new pod has had none.
pub fn of_agent(report: &Report, before: &AgentStatus) -> AgentStatus {
    let versions = report.servers.iter().filter_map(|server| {
        let info = server.info.as_ref()?;
        Some((
            clip(&server.name, NAME_CHARS),
            clip(&info.protocol_version, NAME_CHARS),
        ))
    });
    AgentStatus {
        running_digest: digest(report.running_digest.as_deref()),
        reported: Some(reported(report, None)),
        protocol_versions: Some(ProtocolVersions {
            a2a: texts(&report.a2a_versions, VERSIONS),
            mcp: versions.take(SERVERS).collect::<BTreeMap<_, _>>(),
        }),
        tools: Some(ToolsSummary {
            count: Some(number(report.tool_count)),
            digest: digest(report.tool_digest.as_deref()),
        }),
        last_run: report
            .last_run
            .as_ref()
            .map(last_run)
            .or_else(|| before.last_run.clone()),
        ..AgentStatus::default()
    }
}

fn last_run(run: &report::LastRun) -> LastRun {
    LastRun {
        id: text(&run.id),
        trigger: text(&run.trigger),
        outcome: text(&run.outcome),
        reason: run.reason.as_deref().and_then(text),
        start_time: Some(Time(seconds(run.started_at))),
        completion_time: Some(Time(seconds(run.ended_at))),
        steps: Some(count(run.steps)),
        tokens: Some(count(run.tokens)),
        ..LastRun::default()
    }
}

/// The facts of an McpServer that the operator runs, from its bridge. `name` is the McpServer's. What the server said
/// of itself stands while the bridge knows nothing of it, and so does whether it is isolated.
pub fn of_bridge(report: &Report, name: &str, before: &McpServerStatus) -> McpServerStatus {
    let known = report.servers.first().and_then(of_server);
    let stood = before
        .reported
        .as_ref()
        .and_then(|reported| reported.listens_on_all_addresses);
    McpServerStatus {
        reported: Some(Reported {
            running_digest: digest(report.running_digest.as_deref()),
            listens_on_all_addresses: report.listens_on_all_addresses.or(stood),
            ..reported(report, Some(name))
        }),
        ..known.unwrap_or_else(|| McpServerStatus {
            server_info: before.server_info.clone(),
            tools: before.tools.clone(),
            tool_count: before.tool_count,
            resource_count: before.resource_count,
            ..McpServerStatus::default()
        })
    }
}

/// What a server said of itself in an exchange; nothing before the first one succeeded.
pub fn of_server(server: &report::Server) -> Option<McpServerStatus> {
    let info = server.info.as_ref()?;
    let mut names = BTreeSet::new();
    let tools = server
        .tools
        .iter()
        .filter_map(|tool| {
            Some(ToolDigest {
                name: clip(&tool.name, FOREIGN_CHARS),
                digest: digest(Some(tool.digest.as_str()))?,
            })
        })
        // Two long names may be one when they are cut, and a status with a name twice is refused as a whole.
        .filter(|tool| names.insert(tool.name.clone()))
        .take(REPORTED_TOOLS);
    Some(McpServerStatus {
        server_info: Some(ServerInfo {
            name: text(&info.name),
            version: text(&info.version),
            protocol_version: text(&info.protocol_version),
            capabilities: texts(&info.capabilities, CAPABILITIES),
        }),
        tools: tools.collect(),
        tool_count: Some(number(server.tool_count)),
        resource_count: Some(number(server.resource_count)),
        ..McpServerStatus::default()
    })
}

/// What an Agent's exchange showed of a server that runs elsewhere; only a success speaks, so that an Agent which lost
/// it does not write over what another one sees.
pub fn of_remote(server: &report::Server) -> Option<McpServerStatus> {
    (server.state == ServerState::Connected)
        .then(|| of_server(server))
        .flatten()
}

/// What both kinds report. `name`: the one server has this name, whatever the pod calls it.
fn reported(report: &Report, name: Option<&str>) -> Reported {
    let mut names = BTreeSet::new();
    let servers = report
        .servers
        .iter()
        .take(if name.is_some() { 1 } else { SERVERS })
        .map(|server| ReportedServer {
            name: name.map_or_else(|| clip(&server.name, NAME_CHARS), str::to_owned),
            state: match server.state {
                ServerState::Connecting => ReportedState::Connecting,
                ServerState::Connected => ReportedState::Connected,
                ServerState::Unauthorized => ReportedState::Unauthorized,
                ServerState::Failed => ReportedState::Failed,
            },
            reason: server
                .message
                .as_deref()
                .filter(|_| server.state != ServerState::Connected)
                .and_then(text),
        });
    Reported {
        pod_uid: text(&report.pod_uid),
        servers: servers
            .filter(|server| names.insert(server.name.clone()))
            .collect(),
        missing_secrets: texts(&report.missing_secrets, MISSING_SECRETS),
        rejected: report.rejected.as_ref().and_then(|rejected| {
            Some(Rejected {
                digest: digest(Some(rejected.digest.as_str()))?,
                message: clip(&rejected.message, MESSAGE_CHARS),
            })
        }),
        ..Reported::default()
    }
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| clip(value, FOREIGN_CHARS))
}

fn texts(values: &[String], max: usize) -> Vec<String> {
    let mut seen = BTreeSet::new();
    values
        .iter()
        .filter_map(|value| text(value))
        .filter(|value| seen.insert(value.clone()))
        .take(max)
        .collect()
}

/// A digest in the one spelling, or nothing.
fn digest(value: Option<&str>) -> Option<String> {
    let hex = value?.strip_prefix("sha256:")?;
    let well_formed = hex.len() == 64
        && hex
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    well_formed.then(|| format!("sha256:{hex}"))
}

fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, state: ServerState) -> report::Server {
        report::Server {
            name: name.to_owned(),
            state,
            message: Some("down\nand out".to_owned()),
            info: Some(report::ServerInfo {
                name: "n\u{1b}[31m".to_owned(),
                version: String::new(),
                protocol_version: "2025-11-25".to_owned(),
                capabilities: vec!["tools".to_owned(), "tools".to_owned()],
            }),
            tools: (0..300)
                .map(|i| report::Tool {
                    name: format!("t{i}"),
                    digest: agentd_base::digest::of(b"x"),
                })
                .collect(),
            tool_count: 300,
            resource_count: u32::MAX,
        }
    }

    #[test]
    fn whatever_a_pod_says_fits_the_schema() {
        let report = Report {
            pod_uid: "u".repeat(500),
            running_digest: Some("sha256:../../etc".to_owned()),
            missing_secrets: (0..1000).map(|i| format!("s/{i}")).collect(),
            servers: (0..100)
                .map(|i| server(&format!("s{}", i % 80), ServerState::Failed))
                .collect(),
            tool_count: u32::MAX,
            ..Report::default()
        };
        let facts = of_agent(&report, &AgentStatus::default());
        let reported = facts.reported.unwrap();
        assert_eq!(facts.running_digest, None);
        assert_eq!(reported.servers.len(), SERVERS);
        assert_eq!(reported.servers[0].reason.as_deref(), Some("down and out"));
        assert_eq!(reported.missing_secrets.len(), MISSING_SECRETS);
        assert_eq!(reported.pod_uid.unwrap().chars().count(), FOREIGN_CHARS);
        assert_eq!(facts.tools.unwrap().count, Some(i32::MAX));
    }

    #[test]
    fn the_last_run_is_bounded_and_stands_until_there_is_another() {
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        let run = |steps| report::LastRun {
            id: "t1".to_owned(),
            trigger: "message".to_owned(),
            outcome: "exhausted_tokens".to_owned(),
            reason: Some("x".repeat(500)),
            started_at: at("2026-12-01T10:00:00.7Z"),
            ended_at: at("2026-12-01T10:00:09.2Z"),
            steps,
            tokens: u64::MAX,
        };
        let told = |last_run, before: &AgentStatus| {
            let report = Report {
                last_run,
                ..Report::default()
            };
            of_agent(&report, before)
        };
        let first = told(Some(run(7)), &AgentStatus::default());
        assert_eq!(
            first.last_run,
            Some(LastRun {
                id: Some("t1".to_owned()),
                trigger: Some("message".to_owned()),
                outcome: Some("exhausted_tokens".to_owned()),
                reason: Some(clip(&"x".repeat(500), FOREIGN_CHARS)),
                start_time: Some(Time(at("2026-12-01T10:00:00Z"))),
                completion_time: Some(Time(at("2026-12-01T10:00:09Z"))),
                steps: Some(7),
                tokens: Some(i64::MAX),
                ..LastRun::default()
            })
        );
        // A new pod has had none.
        assert_eq!(told(None, &first).last_run, first.last_run);
        assert_eq!(told(Some(run(8)), &first).last_run.unwrap().steps, Some(8));
    }

    #[test]
    fn a_servers_own_words_are_bounded_and_cleaned() {
        let facts = of_server(&server("s", ServerState::Connected)).unwrap();
        let info = facts.server_info.unwrap();
        assert_eq!((info.name.as_deref(), info.version), (Some("n [31m"), None));
        assert_eq!(info.capabilities, ["tools"]);
        assert_eq!(
            (facts.tools.len(), facts.tool_count, facts.resource_count),
            (REPORTED_TOOLS, Some(300), Some(i32::MAX))
        );
    }

    #[test]
    fn a_bridge_speaks_of_its_own_server_only() {
        let report = Report {
            servers: vec![
                server("another", ServerState::Connected),
                server("more", ServerState::Failed),
            ],
            listens_on_all_addresses: Some(true),
            ..Report::default()
        };
        let facts = of_bridge(&report, "fs", &McpServerStatus::default());
        let reported = facts.reported.unwrap();
        assert_eq!(
            reported.servers,
            [ReportedServer {
                name: "fs".to_owned(),
                state: ReportedState::Connected,
                reason: None
            }]
        );
        assert_eq!(reported.listens_on_all_addresses, Some(true));
        assert_eq!(facts.tool_count, Some(300));
    }

    #[test]
    fn what_stands_of_a_server_is_not_erased_by_losing_it() {
        let connected = Report {
            servers: vec![server("fs", ServerState::Connected)],
            listens_on_all_addresses: Some(false),
            ..Report::default()
        };
        let before = of_bridge(&connected, "fs", &McpServerStatus::default());
        let mut lost = server("fs", ServerState::Failed);
        (lost.info, lost.tools, lost.tool_count) = (None, Vec::new(), 0);
        let after = of_bridge(
            &Report {
                servers: vec![lost.clone()],
                ..Report::default()
            },
            "fs",
            &before,
        );
        assert_eq!(
            (&after.server_info, after.tools.len(), after.tool_count),
            (&before.server_info, 256, Some(300))
        );
        let reported = after.reported.unwrap();
        assert_eq!(
            (reported.servers[0].state, reported.listens_on_all_addresses),
            (ReportedState::Failed, Some(false))
        );
        // An Agent that lost a remote server says nothing about it, even if it still knows what it was.
        assert_eq!(of_remote(&server("s", ServerState::Failed)), None);
        assert!(of_remote(&server("s", ServerState::Connected)).is_some());
    }
}
