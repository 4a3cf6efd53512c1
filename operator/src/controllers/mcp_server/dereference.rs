//! Fetches what an McpServer's spec names and who uses it, as plain data. No policy.

use std::sync::Arc;

use agentd_crds::McpServer;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;

use super::inputs::{Inputs, config_maps};
use crate::context::Context;
use crate::controllers::agent::dereference::rolled_digest;
use crate::controllers::callers;
use crate::controllers::engine::{ReconcileError, fetch_config_maps};

/// Fetches it all. `deployment` is the server's workload as it stands, if the operator runs it.
///
/// # Errors
/// When the API server does not answer.
pub async fn dereference(
    context: &Context,
    server: Arc<McpServer>,
    deployment: Option<&Deployment>,
) -> Result<Inputs, ReconcileError> {
    let namespace = server.namespace().unwrap_or_default();
    let config_maps = fetch_config_maps(context, &namespace, config_maps(&server.spec)).await?;
    Ok(Inputs {
        config_maps,
        agents: context
            .world
            .agents_that(&namespace, |agent| callers::references(agent, &server)),
        bundle_pem: context.bundle_pem().to_string(),
        rolled_digest: deployment.and_then(rolled_digest),
        server,
    })
}
