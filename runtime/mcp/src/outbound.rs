//! From the document to a client: trust, secrets, clocks of a declared destination. The binary uses it for model
//! endpoints too, so that every destination of the document is dialled by the same rules.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_config::document::{Connection, McpServer};
use agentd_identity::IdentitySource;
use agentd_net::{Destination, HttpClient, NetError, Options};

/// What holds for every destination of a process.
#[derive(Clone, Default)]
pub struct Outbound {
    /// The pod's identity; needed where a destination names a `spiffe_id`.
    pub identity: Option<IdentitySource>,
    /// `security.tls_ca`.
    pub tls_ca: Option<PathBuf>,
    /// Where `{{secret:NAME}}` and `{{secret-file:PATH}}` are read.
    pub secrets: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

impl Outbound {
    /// Trust, headers, signer and connect clock of `connection`; other clocks and limits are the caller's.
    pub fn options(&self, connection: &Connection) -> Result<Options, NetError> {
        let _ = connection;
        todo!()
    }

    /// A client for an MCP server.
    pub fn mcp_client(&self, server: &McpServer) -> Result<HttpClient, NetError> {
        let _ = server;
        todo!()
    }

    /// A client for anything else: `total` bounds one whole request.
    pub fn client(
        &self,
        destination: Destination,
        connection: &Connection,
        total: std::time::Duration,
    ) -> Result<HttpClient, NetError> {
        let _ = (destination, connection, total);
        todo!()
    }
}
