//! The authorization code grant with PKCE, for a person at a browser: the SDK's state machine over our dialer. A daemon
//! never waits for a human, so it has no [`Login`]; a tool that somebody runs may. Client and tokens belong to one
//! authorization server: when the MCP server names another one, everything begins anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentd_net::NetError;
use oauth2::TokenResponse as _;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationRequest, AuthorizationSession,
};
use secrecy::{ExposeSecret as _, SecretString};

use super::dialer::Dialer;
use super::search::{Discovered, fault};
use super::token::{Granted, bearer_only};
use super::{Grant, Want, denied};

/// How somebody logs in.
#[derive(Clone)]
pub struct Login {
    /// Where the authorization server sends the browser back to.
    pub redirect: String,
    /// For a server where clients register themselves (RFC 7591).
    pub client_name: String,
    /// The document that describes this client, for servers that take its URL as the client's id.
    pub client_metadata: Option<String>,
    /// A client that was registered by hand; it wins.
    pub client: Option<Registered>,
    /// The browser.
    pub opener: Arc<dyn Opener>,
}

/// A client that an authorization server knows already.
#[derive(Debug, Clone)]
pub struct Registered {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: Option<SecretString>,
}

/// Shows a page to a person and waits until the browser comes back.
#[async_trait::async_trait]
pub trait Opener: Send + Sync {
    /// Opens the authorization server's page; the URL that the browser was sent back to.
    ///
    /// # Errors
    /// When nobody logged in; one line that says why.
    async fn open(&self, url: &str) -> Result<String, String>;
}

/// See the module.
pub(crate) struct Code {
    dialer: Arc<Dialer>,
    login: Login,
    session: Option<Session>,
}

/// What belongs to one authorization server.
struct Session {
    issuer: Option<String>,
    manager: AuthorizationManager,
}

impl Code {
    pub(crate) fn new(dialer: Arc<Dialer>, login: Login) -> Self {
        Self {
            dialer,
            login,
            session: None,
        }
    }

    /// Begins anew, or goes on where the authorization server is the same.
    async fn challenged(
        &mut self,
        challenge: Option<&str>,
        more: &BTreeSet<String>,
    ) -> Result<Granted, NetError> {
        let unnamed = "wants a login and names no authorization server";
        let Discovered {
            manager,
            metadata,
            mut scopes,
        } = self.dialer.discover(challenge, unnamed).await?;
        let issuer = metadata.issuer;
        scopes.extend(more.iter().cloned());
        match self.session.take() {
            Some(session) if session.issuer == issuer => {
                self.session = Some(session);
                self.again(scopes).await
            }
            Some(_) if self.login.client.is_some() => Err(denied(format!(
                "{} now names another authorization server, which does not know our client",
                self.dialer.endpoint().authority()
            ))),
            _ => self.begin(manager, issuer, scopes).await,
        }
    }

    async fn begin(
        &mut self,
        manager: AuthorizationManager,
        issuer: Option<String>,
        scopes: Vec<String>,
    ) -> Result<Granted, NetError> {
        let mut request = AuthorizationRequest::new(&self.login.redirect)
            .with_client_name(&self.login.client_name)
            .with_scopes(scopes.clone())
            .with_initial_scope_selection();
        if let Some(url) = &self.login.client_metadata {
            request = request.with_client_metadata_url(url);
        }
        if let Some(client) = &self.login.client {
            request = request.with_preregistered_client(&client.id);
            if let Some(secret) = &client.secret {
                request = request.with_client_secret(secret.expose_secret());
            }
        }
        let session = AuthorizationSession::new(manager, request)
            .await
            .map_err(|(_, error)| fault(error))?;
        let (manager, url) = (session.auth_manager, session.auth_url);
        let granted = self.finish(&manager, &url, scopes).await;
        self.session = Some(Session { issuer, manager });
        granted
    }

    /// Another token from the same authorization server: by a refresh token, else by the person.
    async fn again(&self, scopes: Vec<String>) -> Result<Granted, NetError> {
        let manager = self.manager()?;
        match manager.refresh_token().await {
            Ok(_) => return granted(manager, BTreeSet::new()).await,
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => {}
            Err(error) => return Err(fault(error)),
        }
        let mut all = manager.get_current_scopes().await;
        all.extend(scopes);
        let wanted: BTreeSet<_> = all.iter().map(String::as_str).collect();
        let wanted: Vec<_> = wanted.into_iter().collect();
        let url = manager.get_authorization_url(&wanted).await.map_err(fault)?;
        self.finish(manager, &url, all.clone()).await
    }

    async fn step_up(&self, missing: &BTreeSet<String>) -> Result<Granted, NetError> {
        let manager = self.manager()?;
        let required: Vec<_> = missing.iter().map(String::as_str).collect();
        let url = manager
            .request_scope_upgrade(&required.join(" "))
            .await
            .map_err(fault)?;
        self.finish(manager, &url, missing.iter().cloned()).await
    }

    fn manager(&self) -> Result<&AuthorizationManager, NetError> {
        let session = self.session.as_ref();
        let nobody = || denied("nobody is logged in".to_owned());
        session.map(|session| &session.manager).ok_or_else(nobody)
    }

    /// Lets the person log in, and takes the token.
    async fn finish(
        &self,
        manager: &AuthorizationManager,
        url: &str,
        asked: impl IntoIterator<Item = String>,
    ) -> Result<Granted, NetError> {
        let back = self.login.opener.open(url).await.map_err(denied)?;
        let callback = AuthorizationCallback::from_redirect_url(&back).map_err(fault)?;
        manager
            .exchange_code_for_token_with_issuer(
                &callback.code,
                &callback.csrf_token,
                callback.issuer.as_deref(),
            )
            .await
            .map_err(fault)?;
        granted(manager, asked.into_iter().collect()).await
    }
}

async fn granted(manager: &AuthorizationManager, asked: BTreeSet<String>) -> Result<Granted, NetError> {
    let (_, token) = manager.get_credentials().await.map_err(fault)?;
    let token = token.ok_or_else(|| denied("the authorization server gave no token".to_owned()))?;
    bearer_only(token.token_type())
        .map_err(|kind| denied(format!("the authorization server gave {kind}")))?;
    let mut scopes = asked;
    scopes.extend(manager.get_current_scopes().await);
    Ok(Granted {
        token: SecretString::from(token.access_token().secret().as_str()),
        lives: token.expires_in(),
        scopes,
    })
}

#[async_trait::async_trait]
impl Grant for Code {
    fn is_ready(&self) -> bool {
        false
    }

    async fn token(&mut self, want: &Want) -> Result<Granted, NetError> {
        match want {
            Want::Scopes(missing, _) if self.session.is_some() => self.step_up(missing).await,
            Want::Scopes(missing, challenge) => self.challenged(challenge.as_deref(), missing).await,
            Want::Challenged(challenge) => self.challenged(challenge.as_deref(), &BTreeSet::new()).await,
            Want::First | Want::Renewed => self.again(Vec::new()).await,
        }
    }
}
