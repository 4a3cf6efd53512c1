//! What an absent key means, in one place. The document keeps "absent" apart from a value, so that the operator writes
//! only what a person asked for.

mod turns;

use std::path::PathBuf;
use std::time::Duration;

use crate::document::{
    Connection, Document, Lifecycle, LogLevel, Mcp, McpServer, Observability, RunLimits, StoreKind,
};

pub use self::turns::*;

/// `timeout`: handshake, list page, silence of a model.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// `connect_timeout`: TCP and TLS.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// `call_timeout`: one `tools/call`.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// `lifecycle.drain_timeout`.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);
/// `limits.run.steps`.
pub const STEPS: u32 = 500;
/// `limits.run.tokens`.
pub const TOKENS: u64 = 2_000_000;
/// `limits.run.deadline`.
pub const DEADLINE: Duration = Duration::from_secs(3600);
/// `agent.name` where neither the pod nor the host has one.
pub const AGENT_NAME: &str = "agentd";

impl Document {
    /// The durable name: `agent.name`, else the pod's, else the host's, else `agentd`. `variable` reads the
    /// environment.
    pub fn instance(&self, variable: impl Fn(&str) -> Option<String>) -> String {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        self.agent
            .name
            .clone()
            .or_else(|| given("AGENTD_POD_NAME"))
            .or_else(|| given("HOSTNAME"))
            .unwrap_or_else(|| AGENT_NAME.to_owned())
    }

    /// Whether it answers others; else it does one task and ends.
    pub fn is_service(&self) -> bool {
        self.a2a.listen.is_some()
    }

    /// The storage engine: `store.kind`, else `file` for a service and `memory` for one task.
    pub fn store_kind(&self) -> StoreKind {
        self.store.kind.unwrap_or(if self.is_service() {
            StoreKind::File
        } else {
            StoreKind::Memory
        })
    }

    /// The folder of the `file` store: `store.path`, else `$AGENTD_STATE_DIR`, else `$XDG_STATE_HOME/agentd`, else
    /// `$HOME/.local/state/agentd`; none when nothing of these is set.
    pub fn store_path(&self, variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let folder = |name: &str| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        self.store
            .path
            .clone()
            .or_else(|| folder("AGENTD_STATE_DIR"))
            .or_else(|| folder("XDG_STATE_HOME").map(|base| base.join("agentd")))
            .or_else(|| folder("HOME").map(|home| home.join(".local/state/agentd")))
    }
}

impl Connection {
    /// TCP and TLS.
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout.map_or(CONNECT_TIMEOUT, |given| given.0)
    }

    /// How long a model may say nothing; of an MCP server see [`McpServer::timeout`].
    pub fn timeout(&self) -> Duration {
        self.timeout.map_or(TIMEOUT, |given| given.0)
    }
}

impl McpServer {
    /// Handshake and each list page: the server's `timeout`, else `mcp.default_timeout`, else 60 s.
    pub fn timeout(&self, mcp: &Mcp) -> Duration {
        self.connection
            .timeout
            .or(mcp.default_timeout)
            .map_or(TIMEOUT, |given| given.0)
    }

    /// One `tools/call`.
    pub fn call_timeout(&self) -> Duration {
        self.call_timeout.map_or(CALL_TIMEOUT, |given| given.0)
    }
}

impl RunLimits {
    /// Model calls and tool calls.
    pub fn steps(&self) -> u32 {
        self.steps.unwrap_or(STEPS)
    }

    /// Tokens, both ways.
    pub fn tokens(&self) -> u64 {
        self.tokens.unwrap_or(TOKENS)
    }

    /// Wall clock.
    pub fn deadline(&self) -> Duration {
        self.deadline.map_or(DEADLINE, |given| given.0)
    }
}

impl Lifecycle {
    /// From SIGTERM to the end.
    pub fn drain_timeout(&self) -> Duration {
        self.drain_timeout.map_or(DRAIN_TIMEOUT, |given| given.0)
    }
}

impl Observability {
    /// What is logged.
    pub fn log_level(&self) -> LogLevel {
        self.log_level.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentd_base::duration::Duration as Text;

    fn from<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn the_instance_name_falls_back_in_order() {
        let mut document = Document::default();
        let all = [("AGENTD_POD_NAME", "pod"), ("HOSTNAME", "host")];
        assert_eq!(document.instance(from(&all)), "pod");
        assert_eq!(
            document.instance(from(&[("AGENTD_POD_NAME", ""), ("HOSTNAME", "host")])),
            "host"
        );
        assert_eq!(document.instance(from(&[])), "agentd");
        document.agent.name = Some("triage".into());
        assert_eq!(document.instance(from(&all)), "triage");
    }

    #[test]
    fn the_store_follows_from_what_the_agent_is() {
        let mut document = Document::default();
        assert_eq!(document.store_kind(), StoreKind::Memory);
        document.a2a.listen = Some("https://0.0.0.0:8443".into());
        assert_eq!(document.store_kind(), StoreKind::File);
        document.store.kind = Some(StoreKind::Memory);
        assert_eq!(document.store_kind(), StoreKind::Memory);

        let all = [
            ("AGENTD_STATE_DIR", "/s"),
            ("XDG_STATE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        assert_eq!(document.store_path(from(&all)), Some("/s".into()));
        assert_eq!(document.store_path(from(&all[1..])), Some("/x/agentd".into()));
        assert_eq!(
            document.store_path(from(&all[2..])),
            Some("/h/.local/state/agentd".into())
        );
        assert_eq!(document.store_path(from(&[])), None);
        document.store.path = Some("/p".into());
        assert_eq!(document.store_path(from(&all)), Some("/p".into()));
    }

    #[test]
    fn every_clock_and_limit_is_the_given_one_or_the_default() {
        let given = Some(Text::secs(7));
        let mut mcp = Mcp::default();
        let mut server = McpServer::default();
        assert_eq!(
            (server.timeout(&mcp), server.call_timeout()),
            (TIMEOUT, CALL_TIMEOUT)
        );
        mcp.default_timeout = Some(Text::secs(3));
        assert_eq!(server.timeout(&mcp), Duration::from_secs(3));
        server.connection.timeout = given;
        server.call_timeout = given;
        assert_eq!(server.timeout(&mcp), Duration::from_secs(7));
        assert_eq!(server.call_timeout(), Duration::from_secs(7));

        let mut connection = Connection::default();
        assert_eq!(
            (connection.timeout(), connection.connect_timeout()),
            (TIMEOUT, CONNECT_TIMEOUT)
        );
        connection.timeout = given;
        connection.connect_timeout = given;
        assert_eq!(connection.timeout(), Duration::from_secs(7));
        assert_eq!(connection.connect_timeout(), Duration::from_secs(7));

        let mut limits = RunLimits::default();
        assert_eq!(
            (limits.steps(), limits.tokens(), limits.deadline()),
            (STEPS, TOKENS, DEADLINE)
        );
        limits = RunLimits {
            steps: Some(1),
            tokens: Some(2),
            deadline: given,
        };
        assert_eq!(
            (limits.steps(), limits.tokens(), limits.deadline()),
            (1, 2, Duration::from_secs(7))
        );

        let lifecycle = Lifecycle {
            drain_timeout: given,
            ..Lifecycle::default()
        };
        assert_eq!(lifecycle.drain_timeout(), Duration::from_secs(7));
        assert_eq!(Lifecycle::default().drain_timeout(), DRAIN_TIMEOUT);
        let observability = Observability {
            log_level: Some(LogLevel::Debug),
            ..Observability::default()
        };
        assert_eq!(observability.log_level(), LogLevel::Debug);
        assert_eq!(Observability::default().log_level(), LogLevel::Info);
    }
}
