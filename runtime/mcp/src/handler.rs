//! What a server may say to us unasked. Everything that is not here was dropped by the transport.

use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, Implementation, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

use crate::connection::Kind;

/// The revision offered by `initialize`. The stateless one has no handshake and is probed for.
pub(crate) const OFFERED: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The SDK's callbacks for one connection.
#[derive(Debug)]
pub(crate) struct Handler {
    server: String,
    config: ClientConfig,
    /// What it says over and over is logged once a connection.
    told: [AtomicBool; 2],
}

impl Handler {
    pub(crate) fn new(server: &str, kind: &Kind) -> Self {
        let mut capabilities = ClientCapabilities::default();
        let mut client = Implementation::new("agentd", env!("CARGO_PKG_VERSION"));
        match kind {
            Kind::Boot { instance } => client = client.with_title(instance.clone()),
            Kind::Worker { .. } => capabilities.elicitation = Some(ElicitationCapability::new()),
        }
        let config = ClientConfig::new(capabilities, client).with_protocol_version(OFFERED);
        Self {
            server: server.to_owned(),
            config,
            told: Default::default(),
        }
    }

    /// True the first time.
    fn is_news(told: &AtomicBool) -> bool {
        !told.swap(true, Ordering::Relaxed)
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    /// Nobody is here who could be asked.
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let [asked, _] = &self.told;
        if Self::is_news(asked) {
            tracing::info!(event = "human.ask.failed", mcp.server = %self.server, "a server asked; nobody can be asked");
        }
        Ok(ElicitResult::new(ElicitationAction::Cancel))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let [_, changed] = &self.told;
        if Self::is_news(changed) {
            tracing::info!(event = "mcp.tools_changed", mcp.server = %self.server, "taken up at the next reload");
        }
    }
}
