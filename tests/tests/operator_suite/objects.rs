//! Manifests, and what a pod reports.

use agentd_base::report::{Report, Server, ServerInfo, ServerState, Tool};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// An Agent with more of a spec, indented by two.
pub(crate) fn agent(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: agentd.io/v1alpha1\nkind: Agent\nmetadata: {{name: {name}, namespace: NAMESPACE}}\nspec:\n  \
         instruction: Help.\n  intelligence:\n    endpoints: [{{name: m, url: 'https://model.example/v1'}}]\n    model: m\n\
         {spec}\n"
    )
}

/// An McpServer that runs elsewhere.
pub(crate) fn remote(name: &str, url: &str) -> String {
    format!(
        "---\napiVersion: agentd.io/v1alpha1\nkind: McpServer\nmetadata: {{name: {name}, namespace: NAMESPACE}}\nspec:\n  \
         endpoint: {url}\n"
    )
}

/// An McpServer that the operator runs.
pub(crate) fn operated(name: &str) -> String {
    format!(
        "---\napiVersion: agentd.io/v1alpha1\nkind: McpServer\nmetadata: {{name: {name}, namespace: NAMESPACE}}\nspec:\n  \
         deployment: {{image: 'registry.test/fs:1', transport: http, port: 3000}}\n"
    )
}

/// A report of `pod` that runs the folder with this digest.
pub(crate) fn report(pod: &Pod, digest: &str, servers: Vec<Server>) -> Report {
    Report {
        pod_name: pod.name_any(),
        pod_uid: pod.uid().unwrap(),
        running_digest: Some(digest.to_owned()),
        a2a_versions: vec!["1.0".to_owned()],
        tool_count: servers.iter().map(|server| server.tool_count).sum(),
        servers,
        ..Report::default()
    }
}

/// A server as its client sees it.
pub(crate) fn server(name: &str, state: ServerState) -> Server {
    let connected = state == ServerState::Connected;
    Server {
        name: name.to_owned(),
        state,
        message: (!connected).then(|| "connection refused".to_owned()),
        info: connected.then(|| ServerInfo {
            name: "everything".to_owned(),
            version: "1".to_owned(),
            protocol_version: "2025-11-25".to_owned(),
            capabilities: vec!["tools".to_owned()],
        }),
        tools: if connected {
            vec![Tool {
                name: "echo".to_owned(),
                digest: agentd_base::digest::of(b"echo"),
            }]
        } else {
            Vec::new()
        },
        tool_count: u32::from(connected),
        resource_count: 0,
    }
}
