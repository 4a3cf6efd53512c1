//! From the document to a client: trust, secrets and clocks of a declared destination. The binary uses it for model
//! endpoints too, so that every destination of the document is dialled by the same rules.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_config::document::{Auth, Connection, McpServer, OAuth2Auth};
use agentd_config::secret::{SecretSource, SystemSecrets, Template};
use agentd_identity::{IdentitySource, SpiffeId};
use agentd_net::tls::WebRoots;
use agentd_net::{
    Declared, Destination, HttpClient, Limits, NetError, Options, RequestSigner, SecretValue, StaticSigner,
    Timeouts, TlsMode,
};
use http::HeaderName;

use crate::oauth::{ClientCredentials, Code, Dialer, Login, OAuth, Search, Settings};
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
    /// Who may be asked to log in to an MCP server that wants it and has no `auth`. A daemon has nobody.
    pub login: Option<Login>,
}

impl Default for Outbound {
    fn default() -> Self {
        Self {
            identity: None,
            tls_ca: None,
            secrets: Arc::new(SystemSecrets),
            login: None,
        }
    }
}

impl Outbound {
    /// A client for an MCP server, and who gets its tokens. Its requests have no clock but that of connecting; the callers' clocks bound them.
    ///
    /// # Errors
    /// When the endpoint, its TLS or a secret reference is unusable as written.
    pub(crate) fn mcp_client(
        &self,
        server: &McpServer,
        verbatim: bool,
    ) -> Result<(HttpClient, Option<OAuth>), NetError> {
        let destination = Destination::declared(&server.endpoint, Declared::Mcp)
            .map_err(|error| NetError::Invalid(format!("the endpoint {error}")))?;
        let mut options = self.options(&server.connection)?;
        let oauth = self.oauth(&destination, &server.connection, &options)?;
        if let Some(oauth) = &oauth {
            options.confidential.push(oauth.confidential());
            options.signer = Some(Arc::new(oauth.clone()));
        }
        options.verbatim = verbatim;
        options.limits = Limits {
            body_bytes: MESSAGE_BYTES,
            ..Limits::default()
        };
        Ok((HttpClient::new(destination, options)?, oauth))
    }

    /// The signer of an MCP server that is reached with OAuth. `own` is how the server itself is reached.
    fn oauth(
        &self,
        endpoint: &Destination,
        connection: &Connection,
        own: &Options,
    ) -> Result<Option<OAuth>, NetError> {
        let dialer = |declared: Option<Destination>| -> Arc<Dialer> {
            let given = connection.tls.as_ref().and_then(|tls| tls.ca_file.clone());
            // What is trusted for the server is trusted for its authorization server; our certificate is not shown there.
            let others = TlsMode::WebRoots(WebRoots {
                ca_files: self.tls_ca.iter().cloned().chain(given).collect(),
                ..WebRoots::default()
            });
            Arc::new(Dialer::new(endpoint.clone(), declared, own.clone(), others))
        };
        Ok(match (&connection.auth, &self.login) {
            (Some(Auth::OAuth2(auth)), _) => {
                let declared = auth.token_endpoint.as_deref();
                let declared = declared
                    .map(|url| Destination::declared(url, Declared::Mcp))
                    .transpose();
                let declared = declared
                    .map_err(|error| NetError::Invalid(format!("auth.oauth2.token_endpoint {error}")))?;
                let (dialer, settings) = (dialer(declared), self.settings(auth)?);
                let grant = ClientCredentials::new(dialer.clone(), settings);
                Some(OAuth::new(Search::new(dialer, grant)))
            }
            (None, Some(login)) => {
                let dialer = dialer(None);
                let grant = Code::new(dialer.clone(), login.clone());
                Some(OAuth::new(Search::new(dialer, grant)))
            }
            (Some(Auth::Static(_)), _) | (None, None) => None,
        })
    }

    fn settings(&self, auth: &OAuth2Auth) -> Result<Settings, NetError> {
        let secret = auth.client_secret.as_deref().map(template).transpose()?;
        let key = auth.client_key.as_deref().map(template).transpose()?;
        Ok(Settings {
            client_id: self.secret(&template(&auth.client_id)?),
            secret: secret.map(|secret| self.secret(&secret)),
            key: key.map(|key| self.text(key)),
            scopes: auth.scopes.clone(),
            token_endpoint: auth.token_endpoint.clone(),
            issuer: auth.issuer.clone(),
            resource: auth.resource.clone(),
        })
    }

    /// A client for another declared destination. `total` bounds one whole request.
    ///
    /// # Errors
    /// As [`Outbound::mcp_client`].
    pub fn client(
        &self,
        destination: Destination,
        connection: &Connection,
        total: Duration,
    ) -> Result<HttpClient, NetError> {
        self.clocked(destination, connection, Some(total), false)
    }

    /// As [`Outbound::client`], for a store: what it gives back is what it was given.
    ///
    /// # Errors
    /// As [`Outbound::mcp_client`].
    pub fn store_client(
        &self,
        destination: Destination,
        connection: &Connection,
        total: Duration,
    ) -> Result<HttpClient, NetError> {
        self.clocked(destination, connection, Some(total), true)
    }

    /// As [`Outbound::client`], without a clock but that of connecting: for whoever has clocks of its own, as the client of
    /// a model has.
    ///
    /// # Errors
    /// As [`Outbound::mcp_client`].
    pub fn patient_client(
        &self,
        destination: Destination,
        connection: &Connection,
    ) -> Result<HttpClient, NetError> {
        self.clocked(destination, connection, None, false)
    }

    fn clocked(
        &self,
        destination: Destination,
        connection: &Connection,
        total: Option<Duration>,
        verbatim: bool,
    ) -> Result<HttpClient, NetError> {
        if matches!(connection.auth, Some(Auth::OAuth2(_))) {
            return Err(NetError::Invalid(
                "auth.oauth2 cannot be used here; use auth.static".into(),
            ));
        }
        let mut options = self.options(connection)?;
        options.timeouts.response = total;
        options.timeouts.total = total;
        options.verbatim = verbatim;
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
            None | Some(Auth::OAuth2(_)) => None,
            Some(Auth::Static(fixed)) => {
                let bearer = self.secret(&template(&fixed.bearer)?);
                confidential.push(bearer.clone());
                Some(Arc::new(StaticSigner::bearer(bearer)))
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

    /// As [`Self::secret`], of several lines and for no header.
    fn text(&self, template: Template) -> SecretValue {
        let secrets = self.secrets.clone();
        Arc::new(move || {
            template
                .resolve(secrets.as_ref())
                .map_err(|error| error.to_string())
        })
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
