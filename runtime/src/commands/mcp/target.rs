//! Which server is meant, and how it is reached: by its name in the layers that `agentd run` reads, or by a URL, with
//! what the layers say of trust. Checked by the rules of the document before anything is dialled.

use std::time::Duration;

use agentd_base::clock;
use agentd_base::text::clip;
use agentd_config::document::{Document, McpServer};
use agentd_config::endpoint::Place;
use agentd_config::load::merged;
use agentd_config::{ConfigErrors, Fault, validate::validate};
use agentd_mcp::Outbound;

use super::McpError;
use crate::cli::{Invocation, Mcp};
use crate::identity::PodIdentity;

/// A pod's SVID comes within seconds, or its issuer is away.
const IDENTITY: Duration = Duration::from_secs(30);
/// The name of a server that is given by its URL.
const GIVEN: &str = "server";

/// A server and the way to it.
pub(super) struct Target {
    server: McpServer,
    default_timeout: Option<Duration>,
    outbound: Outbound,
    /// Renews while we talk.
    _identity: Option<PodIdentity>,
}

impl Target {
    pub(super) async fn of(
        arguments: &Mcp,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, McpError> {
        let layers = Invocation::layers(
            arguments.files.clone(),
            Vec::new(),
            arguments.servers.clone(),
            environment,
        );
        let document = meant(merged(&layers)?, &arguments.target, &arguments.headers)?;
        let identity = identity(&document).await?;
        let outbound = Outbound {
            identity: identity.as_ref().map(|identity| identity.source.clone()),
            tls_ca: document.security.tls_ca.clone(),
            ..Outbound::default()
        };
        let default_timeout = document.mcp.default_timeout.map(|timeout| timeout.0);
        let missing = || McpError::Usage("no server is named".into());
        Ok(Self {
            server: document.mcp.servers.into_iter().next().ok_or_else(missing)?,
            default_timeout,
            outbound,
            _identity: identity,
        })
    }

    pub(super) const fn server(&self) -> &McpServer {
        &self.server
    }

    pub(super) const fn default_timeout(&self) -> Option<Duration> {
        self.default_timeout
    }

    pub(super) const fn outbound(&self) -> &Outbound {
        &self.outbound
    }
}

/// The document with this one server, checked. Pure.
fn meant(mut document: Document, target: &str, headers: &[String]) -> Result<Document, McpError> {
    let named = document.mcp.servers.iter().find(|server| server.name == target);
    let mut server = match named {
        Some(server) => server.clone(),
        None if target.contains("://") => McpServer {
            name: GIVEN.into(),
            endpoint: target.into(),
            ..McpServer::default()
        },
        None => return Err(unknown(target, &document)),
    };
    for header in headers {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| McpError::Usage("--header is written `Name: value`".into()))?;
        let name = name.trim();
        server
            .connection
            .headers
            .retain(|known, _| !known.eq_ignore_ascii_case(name));
        server.connection.headers.insert(name.into(), value.trim().into());
    }
    document.mcp.servers = vec![server];
    let mut faults = validate(&document, Place::Machine);
    // What else an agent needs is not needed here.
    faults.retain(|fault| {
        ["mcp", "security", "identity"]
            .iter()
            .any(|part| fault.key.starts_with(part))
    });
    if faults.is_empty() {
        Ok(document)
    } else {
        Err(ConfigErrors(faults).into())
    }
}

fn unknown(target: &str, document: &Document) -> McpError {
    let names: Vec<&str> = document
        .mcp
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    let known = if names.is_empty() {
        "the configuration names none (-c, AGENTD_CONFIG, AGENTD_MCP_SERVERS, --mcp)".to_owned()
    } else {
        format!("the configuration names {}", names.join(", "))
    };
    let remedy = format!("{known}; or give a URL");
    ConfigErrors(vec![Fault::new(
        "mcp.servers",
        format!("has no server {}", clip(target, 128)),
        remedy,
    )])
    .into()
}

/// In a pod the server may ask for the pod's identity.
async fn identity(document: &Document) -> Result<Option<PodIdentity>, McpError> {
    let wanted = document.mcp.servers.iter().any(|server| {
        let tls = server.connection.tls.as_ref();
        tls.is_some_and(|tls| tls.spiffe_id.is_some())
    });
    let (Some(identity), true) = (&document.identity, wanted) else {
        return Ok(None);
    };
    let started = PodIdentity::start(identity, None, clock::system())?;
    let mut snapshots = started.source.subscribe();
    let arrived = snapshots.wait_for(|snapshot| snapshot.svid.is_some());
    // Without one the handshake says what is missing.
    let _ = tokio::time::timeout(IDENTITY, arrived).await;
    Ok(Some(started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Document {
        let servers = json!([
            { "name": "fs", "endpoint": "https://fs.example/mcp", "headers": { "X-A": "1" } },
            { "name": "web", "endpoint": "https://web.example/mcp" },
        ]);
        serde_json::from_value(json!({ "mcp": { "servers": servers, "default_timeout": "5s" } })).unwrap()
    }

    fn server(target: &str, headers: &[&str]) -> Result<McpServer, String> {
        let headers: Vec<String> = headers.iter().map(ToString::to_string).collect();
        meant(document(), target, &headers)
            .map(|document| document.mcp.servers[0].clone())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_looked_up_and_a_url_is_taken_as_it_is() {
        assert_eq!(server("web", &[]).unwrap().endpoint, "https://web.example/mcp");
        for url in [
            "https://other.example/mcp",
            "http://127.0.0.1:3001/mcp",
            "http://localhost:1/",
        ] {
            assert_eq!(server(url, &[]).unwrap().endpoint, url);
        }
        for (target, part) in [
            ("docs", "fs, web"),
            ("http://other.example/mcp", "https"),
            ("https://169.254.169.254/", "link-local"),
            ("ftp://a/", "https"),
        ] {
            let refused = server(target, &[]).unwrap_err();
            assert!(refused.contains(part), "{target}: {refused}");
        }
        let none = meant(Document::default(), "fs", &[]).err().unwrap().to_string();
        assert!(none.contains("names none"), "{none}");
    }

    #[test]
    fn a_header_adds_or_replaces_and_a_literal_credential_is_refused() {
        let headers = server("fs", &["x-a: 2", "X-B:{{secret:TOKEN}}"])
            .unwrap()
            .connection
            .headers;
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(headers, [("X-B", "{{secret:TOKEN}}"), ("x-a", "2")]);
        assert!(server("fs", &["no colon"]).is_err());
        let refused = server("fs", &["Authorization: Bearer abc"]).unwrap_err();
        assert!(
            refused.contains("{{secret") && !refused.contains("abc"),
            "{refused}"
        );
    }
}
