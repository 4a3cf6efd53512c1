//! What a pod says about itself: `POST /v1/report` over mTLS to the operator's report port. Every report is full, so
//! the last one that arrived is the truth; a pod sends one when it connects and one whenever the content changes.
//! Strings that come from MCP servers are cut and cleaned by the sender and once more by the receiver.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::limit::{FOREIGN_CHARS, MESSAGE_CHARS, REPORT_BYTES, REPORTED_TOOLS, SERVERS};
use crate::text::clip;

/// The path of the request.
pub const PATH: &str = "/v1/report";
/// The port of the report Service and of the operator's container.
pub const PORT: u16 = 8444;

/// Missing secrets and versions; a status names no more of them.
const NAMES: usize = 256;
/// `secret/key`: a name of at most 253 characters and a key of as many.
const SECRET_CHARS: usize = 507;
/// The protocol knows about ten.
const CAPABILITIES: usize = 16;

/// A report as it is sent: always within [`REPORT_BYTES`], since one that the operator refuses for its length says
/// nothing at all. What is too long is cut; a tool list loses its end first, the counts stay.
///
/// # Errors
/// Never with these types.
pub fn body(report: &Report) -> Result<Vec<u8>, serde_json::Error> {
    let mut report = bounded(report);
    let mut tools = REPORTED_TOOLS;
    loop {
        let body = serde_json::to_vec(&report)?;
        if body.len() <= REPORT_BYTES || tools == 0 {
            return Ok(body);
        }
        tools /= 2;
        for server in &mut report.servers {
            server.tools.truncate(tools);
        }
    }
}

/// The report with every string and list within its own bound: without tools it then fits in any case.
fn bounded(report: &Report) -> Report {
    let text = |text: &String| clip(text, FOREIGN_CHARS);
    let optional = |given: &Option<String>| given.as_ref().map(text);
    let names = |names: &[String]| names.iter().take(NAMES).map(text).collect();
    let server = |server: &Server| Server {
        name: text(&server.name),
        state: server.state,
        message: server
            .message
            .as_ref()
            .map(|message| clip(message, MESSAGE_CHARS)),
        info: server.info.as_ref().map(|info| ServerInfo {
            name: text(&info.name),
            version: text(&info.version),
            protocol_version: text(&info.protocol_version),
            capabilities: info.capabilities.iter().take(CAPABILITIES).map(text).collect(),
        }),
        tools: server
            .tools
            .iter()
            .take(REPORTED_TOOLS)
            .map(|tool| Tool {
                name: text(&tool.name),
                digest: text(&tool.digest),
            })
            .collect(),
        tool_count: server.tool_count,
        resource_count: server.resource_count,
    };
    Report {
        pod_name: clip(&report.pod_name, MESSAGE_CHARS),
        pod_uid: text(&report.pod_uid),
        running_digest: optional(&report.running_digest),
        rejected: report.rejected.as_ref().map(|rejected| Rejected {
            digest: text(&rejected.digest),
            message: clip(&rejected.message, MESSAGE_CHARS),
        }),
        missing_secrets: report
            .missing_secrets
            .iter()
            .take(NAMES)
            .map(|name| clip(name, SECRET_CHARS))
            .collect(),
        servers: report.servers.iter().take(SERVERS).map(server).collect(),
        a2a_versions: names(&report.a2a_versions),
        tool_count: report.tool_count,
        tool_digest: optional(&report.tool_digest),
        listens_on_all_addresses: report.listens_on_all_addresses,
        last_run: report.last_run.as_ref().map(|run| LastRun {
            id: text(&run.id),
            trigger: text(&run.trigger),
            outcome: text(&run.outcome),
            reason: optional(&run.reason),
            ..*run
        }),
    }
}

/// The state of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The pod's own name.
    pub pod_name: String,
    /// The pod's own UID: only the pod of the current revision counts.
    pub pod_uid: String,
    /// Digest of the live folder that the pod runs with ([`crate::digest::of_files`]); absent before the first load.
    pub running_digest: Option<String>,
    /// A live folder that was refused, and why: the pod keeps the one before.
    pub rejected: Option<Rejected>,
    /// Secret files that the document refers to and that are not there, as `secret/key`, sorted.
    pub missing_secrets: Vec<String>,
    /// The MCP servers: an agent's catalogue, or the one server of a bridge; sorted by name.
    pub servers: Vec<Server>,
    /// A2A versions the listener speaks (agents only).
    pub a2a_versions: Vec<String>,
    /// Tools in the agent's catalogue, after allow and deny.
    pub tool_count: u32,
    /// Digest over that catalogue; absent when it is empty.
    pub tool_digest: Option<String>,
    /// Of a bridge: whether its server answers on the pod's own address too, so that it can be reached past the bridge.
    /// Absent until somebody looked while the server's port was open, and for agents.
    pub listens_on_all_addresses: Option<bool>,
    /// The turn that ended last (agents only); none since the pod began.
    pub last_run: Option<LastRun>,
}

/// How a turn ended. It holds nothing that a caller, a model or a server said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// The task's.
    pub id: String,
    /// What began it: `message` of an A2A caller, `conversation` for one of this agent's own.
    pub trigger: String,
    /// Its terminal status, such as `completed`, `exhausted_tokens`, `crashed`.
    pub outcome: String,
    /// Which limit or fault ended it, in our own words.
    pub reason: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Model and tool calls.
    pub steps: u64,
    /// Tokens, both ways.
    pub tokens: u64,
}

/// A refused live folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its digest.
    pub digest: String,
    /// Names the key and the remedy.
    pub message: String,
}

/// One MCP server as its client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The name in the document.
    pub name: String,
    /// What the last exchange showed.
    pub state: ServerState,
    /// One line for people when not connected.
    pub message: Option<String>,
    /// From the last handshake that succeeded. Absent: nothing is known of the server yet, and the fields below say
    /// nothing. Present with a state other than connected: the server is away, and this is what it was.
    pub info: Option<ServerInfo>,
    /// At most [`crate::limit::REPORTED_TOOLS`], sorted by name.
    pub tools: Vec<Tool>,
    /// All tools of the server.
    pub tool_count: u32,
    /// All resources of the server.
    pub resource_count: u32,
}

/// What the last exchange with a server showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// No exchange has ended yet.
    Connecting,
    /// Handshake and `tools/list` succeeded.
    Connected,
    /// It answered 401 or 403: reachable, not verified.
    Unauthorized,
    /// It did not answer, or not with MCP.
    Failed,
}

/// What a server said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// `serverInfo.name`.
    pub name: String,
    /// `serverInfo.version`.
    pub version: String,
    /// The negotiated revision.
    pub protocol_version: String,
    /// Names of the capabilities, such as `tools`, `resources.subscribe`; sorted.
    pub capabilities: Vec<String>,
}

/// A tool and the digest of its definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// The name at the server.
    pub name: String,
    /// `sha256:…` over the definition.
    pub digest: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any text, also one that JSON makes six times as long.
    fn wild() -> impl Strategy<Value = String> {
        (
            prop::sample::select(vec!["a", "\"", "\u{1}", "\u{7f}", "\u{1F600}", "\\", "ä"]),
            0..160_usize,
        )
            .prop_map(|(text, times)| text.repeat(times))
    }

    fn servers() -> impl Strategy<Value = Vec<Server>> {
        let server = (
            wild(),
            wild(),
            wild(),
            wild(),
            0..400_usize,
            0..40_usize,
            any::<u32>(),
        );
        prop::collection::vec(server, 0..80).prop_map(|servers| {
            let server = |(name, message, info, tool, tools, capabilities, count)| {
                let info: String = info;
                let tool: String = tool;
                Server {
                    name,
                    state: ServerState::Failed,
                    message: Some(message),
                    info: Some(ServerInfo {
                        name: info.clone(),
                        version: info.clone(),
                        protocol_version: info.clone(),
                        capabilities: vec![info; capabilities],
                    }),
                    tools: vec![
                        Tool {
                            name: tool.clone(),
                            digest: tool
                        };
                        tools
                    ],
                    tool_count: count,
                    resource_count: count,
                }
            };
            servers.into_iter().map(server).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn a_report_always_fits(servers in servers(), text in wild(), names in 0..600_usize) {
            let report = Report {
                pod_name: text.clone(),
                rejected: Some(Rejected { digest: text.clone(), message: text.clone() }),
                missing_secrets: vec![text.clone(); names],
                a2a_versions: vec![text; names],
                servers,
                ..Report::default()
            };
            let body = body(&report).unwrap();
            prop_assert!(body.len() <= REPORT_BYTES, "{} bytes", body.len());
            let sent: Report = serde_json::from_slice(&body).unwrap();
            prop_assert_eq!(sent.servers.len(), report.servers.len().min(SERVERS));
            for (sent, server) in sent.servers.iter().zip(&report.servers) {
                prop_assert_eq!(sent.tool_count, server.tool_count);
                prop_assert_eq!(sent.resource_count, server.resource_count);
            }
        }
    }

    fn full(name: usize) -> Report {
        let tool = |i: usize| Tool {
            name: format!("{i:0>name$}"),
            digest: crate::digest::of(b"x"),
        };
        let server = |i: usize| Server {
            name: format!("s{i}"),
            state: ServerState::Connected,
            message: None,
            info: Some(ServerInfo::default()),
            tools: (0..REPORTED_TOOLS).map(tool).collect(),
            tool_count: 256,
            resource_count: 0,
        };
        Report {
            servers: (0..SERVERS).map(server).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn what_fits_is_sent_as_it_is_and_what_does_not_loses_tools() {
        let short = full(3);
        let sent: Report = serde_json::from_slice(&body(&short).unwrap()).unwrap();
        assert_eq!(sent, short);
        let long = full(FOREIGN_CHARS);
        assert!(serde_json::to_vec(&long).unwrap().len() > REPORT_BYTES);
        let sent: Report = serde_json::from_slice(&body(&long).unwrap()).unwrap();
        assert!(
            sent.servers
                .iter()
                .all(|server| server.tools.len() == 128 && server.tool_count == 256)
        );
    }

    /// The longest there can be when no tool is left.
    #[test]
    fn without_tools_it_fits_in_any_case() {
        let widest = |chars: usize| "\u{1F600}".repeat(chars);
        let text = widest(10_000);
        let server = Server {
            name: text.clone(),
            state: ServerState::Unauthorized,
            message: Some(text.clone()),
            info: Some(ServerInfo {
                name: text.clone(),
                version: text.clone(),
                protocol_version: text.clone(),
                capabilities: vec![text.clone(); 100],
            }),
            tools: Vec::new(),
            tool_count: u32::MAX,
            resource_count: u32::MAX,
        };
        let report = Report {
            pod_name: text.clone(),
            pod_uid: text.clone(),
            running_digest: Some(text.clone()),
            rejected: Some(Rejected {
                digest: text.clone(),
                message: text.clone(),
            }),
            missing_secrets: vec![text.clone(); 1000],
            servers: vec![server; 100],
            a2a_versions: vec![text.clone(); 1000],
            tool_count: u32::MAX,
            tool_digest: Some(text),
            listens_on_all_addresses: Some(false),
            last_run: Some(LastRun {
                id: widest(10_000),
                trigger: widest(10_000),
                outcome: widest(10_000),
                reason: Some(widest(10_000)),
                started_at: Timestamp::MIN,
                ended_at: Timestamp::MAX,
                steps: u64::MAX,
                tokens: u64::MAX,
            }),
        };
        let length = body(&report).unwrap().len();
        assert!(length <= REPORT_BYTES, "{length}");
    }
}
