//! What a server may say to us unasked. Everything that is not here was dropped by the transport.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ProtocolVersion, ResourceUpdatedNotificationParam, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::json;

use crate::connection::Kind;
use crate::gate::Gate;
use crate::notices::Notices;

/// The revision offered by `initialize`. The stateless one has no handshake and is probed for.
pub(crate) const OFFERED: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The SDK's callbacks for one connection.
pub(crate) struct Handler {
    config: ClientConfig,
    notices: Arc<Notices>,
    gate: Arc<Gate>,
}

impl Handler {
    pub(crate) fn new(kind: &Kind, urls: bool, notices: Arc<Notices>, gate: Arc<Gate>) -> Self {
        let mut capabilities = ClientCapabilities::default();
        let mut client = Implementation::new("agentd", env!("CARGO_PKG_VERSION"));
        match kind {
            Kind::Boot { instance } | Kind::Store { instance } => {
                client = client.with_title(instance.clone())
            }
            Kind::Worker { .. } => {
                let both = ElicitationCapability::new()
                    .with_form(FormElicitationCapability::default())
                    .with_url(UrlElicitationCapability::default());
                let elicitation = if urls { both } else { ElicitationCapability::new() };
                capabilities.elicitation = Some(elicitation);
            }
        }
        let config = ClientConfig::new(capabilities, client).with_protocol_version(OFFERED);
        Self {
            config,
            notices,
            gate,
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tokio::select! {
            answer = self.gate.answer(asked) => Ok(answer),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    /// Only an elicitation passes the screen that is not one of the SDK's requests: one whose form is not one.
    async fn on_custom_request(
        &self,
        _: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        self.gate.refuse("a server asked for something that is no form");
        Ok(CustomResult::new(json!({"action": "cancel"})))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notices.tools_changed();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notices.resources_changed();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notices.resources_changed();
    }

    async fn on_resource_updated(
        &self,
        changed: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.notices.updated(&changed.uri);
    }
}
