//! From the document to a client: trust, secrets and clocks of a declared destination. The binary uses it for model
//! endpoints too, so that every destination of the document is dialled by the same rules.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_config::document::{Auth, Connection, McpServer};
use agentd_config::secret::{SecretSource, SystemSecrets, Template};
use agentd_identity::{IdentitySource, SpiffeId};
use agentd_net::tls::WebRoots;
use agentd_net::{
    Declared, Destination, HttpClient, Limits, NetError, Options, RequestSigner, SecretValue, StaticSigner,
    Timeouts, TlsMode,
};
use http::HeaderName;

use crate::transport::MESSAGE_BYTES;

/// What holds for every destination of a process.
#[derive(Clone)]
pub struct Outbound {
    /// The pod's identity; needed where a destination names a `spiffe_id`.
    pub identity: Option<IdentitySource>,
    /// `security.tls_ca`.
    pub tls_ca: Option<PathBuf>,
    /// Where secret references are read.
    pub secrets: Arc<dyn SecretSource>,
}

impl Default for Outbound {
    fn default() -> Self {
        Self {
            identity: None,
            tls_ca: None,
            secrets: Arc::new(SystemSecrets),
        }
    }
}

impl Outbound {
    /// A client for an MCP server. Its requests have no clock but that of connecting; the callers' clocks bound them.
    ///
    /// # Errors
    /// When the endpoint, its TLS or a secret reference is unusable as written.
    pub(crate) fn mcp_client(&self, server: &McpServer) -> Result<HttpClient, NetError> {
        let destination = Destination::declared(&server.endpoint, Declared::Mcp)
            .map_err(|error| NetError::Invalid(format!("the endpoint {error}")))?;
        let mut options = self.options(&server.connection)?;
        options.limits = Limits {
            body_bytes: MESSAGE_BYTES,
            ..Limits::default()
        };
        HttpClient::new(destination, options)
    }

    /// A client for another declared destination, such as a model's. `total` bounds one whole request.
    ///
    /// # Errors
    /// As [`Outbound::mcp_client`].
    pub fn client(
        &self,
        destination: Destination,
        connection: &Connection,
        total: Duration,
    ) -> Result<HttpClient, NetError> {
        let mut options = self.options(connection)?;
        options.timeouts.response = Some(total);
        options.timeouts.total = Some(total);
        HttpClient::new(destination, options)
    }

    /// Trust, headers, signer and connect clock of a connection; no other clock.
    fn options(&self, connection: &Connection) -> Result<Options, NetError> {
        let (mut headers, mut confidential) = (Vec::new(), Vec::new());
        for (name, text) in &connection.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| {
                NetError::Invalid(format!("{} is no header name", agentd_base::text::clip(name, 64)))
            })?;
            let template = template(text)?;
            let value = self.secret(&template);
            if template.has_reference() {
                confidential.push(value.clone());
            }
            headers.push((name, value));
        }
        let signer: Option<Arc<dyn RequestSigner>> = match &connection.auth {
            None => None,
            Some(Auth::Static(fixed)) => {
                let bearer = self.secret(&template(&fixed.bearer)?);
                confidential.push(bearer.clone());
                Some(Arc::new(StaticSigner::bearer(bearer)))
            }
            Some(Auth::OAuth2(_)) => {
                return Err(NetError::Invalid(
                    "auth.oauth2 cannot be used here; use auth.static".into(),
                ));
            }
        };
        let timeouts = Timeouts {
            connect: connection.connect_timeout(),
            response: None,
            total: None,
        };
        Ok(Options {
            tls: self.tls(connection)?,
            timeouts,
            headers,
            confidential,
            signer,
            ..Options::default()
        })
    }

    fn tls(&self, connection: &Connection) -> Result<TlsMode, NetError> {
        let tls = connection.tls.clone().unwrap_or_default();
        if let Some(id) = &tls.spiffe_id {
            let expected: SpiffeId = id
                .parse()
                .map_err(|error| NetError::Invalid(format!("tls.spiffe_id: {error}")))?;
            let source = self.identity.clone();
            let source = source.ok_or_else(|| NetError::Invalid("tls.spiffe_id needs `identity`".into()))?;
            return Ok(TlsMode::Spiffe { source, expected });
        }
        Ok(TlsMode::WebRoots(WebRoots {
            ca_files: self.tls_ca.iter().chain(&tls.ca_file).cloned().collect(),
            client_certificate: tls.client_cert_file.zip(tls.client_key_file),
            server_name: tls.server_name,
        }))
    }

    /// Read at each request, so that a rotated secret is taken up.
    fn secret(&self, template: &Template) -> SecretValue {
        let (template, secrets) = (template.clone(), self.secrets.clone());
        Arc::new(move || {
            template
                .resolve_header(secrets.as_ref())
                .map_err(|error| error.to_string())
        })
    }
}

fn template(text: &str) -> Result<Template, NetError> {
    Template::parse(text).map_err(|error| NetError::Invalid(error.to_string()))
}
