//! The client credentials grant (RFC 6749 section 4.4): what `auth.oauth2` of a server says. The secret is read at each
//! use, so that a rotated one is taken up, and goes to the declared token endpoint, or to the one authorization server
//! that the server named first; another one later is refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use agentd_base::class::{Class, Classified as _};
use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use agentd_net::{NetError, Redactor, SecretValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use oauth2::basic::{BasicClient, BasicErrorResponse, BasicErrorResponseType};
use oauth2::{
    AsyncHttpClient, AuthType, ClientId, ClientSecret, HttpRequest, HttpResponse, RequestTokenError, Scope,
    TokenResponse as _, TokenUrl,
};
use rmcp::transport::auth::AuthorizationMetadata;
use secrecy::{ExposeSecret as _, SecretString};
use url::form_urlencoded;

use super::assertion::{self, Key};
use super::dialer::Dialer;
use super::search::Discovered;
use super::token::{Granted, bearer_only};
use super::{Grant, Want, denied, unavailable};

/// Asked for by people's clients, for a refresh token; there is none in this grant.
const OFFLINE: &str = "offline_access";

/// RFC 7523 section 2.2.
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const PRIVATE_KEY_JWT: &str = "private_key_jwt";

/// `auth.oauth2`, with its secret behind a reference.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) client_id: SecretValue,
    pub(crate) secret: Option<SecretValue>,
    /// PEM; in place of the secret.
    pub(crate) key: Option<SecretValue>,
    pub(crate) scopes: Vec<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) issuer: Option<String>,
    /// Absent: the server's endpoint.
    pub(crate) resource: Option<String>,
}

/// See the module.
pub(crate) struct ClientCredentials {
    dialer: Arc<Dialer>,
    settings: Settings,
    source: Option<Tokens>,
    /// Scopes that the server asked for later.
    more: BTreeSet<String>,
}

/// Where tokens come from, declared or discovered.
#[derive(Debug, Clone, PartialEq)]
struct Tokens {
    endpoint: String,
    issuer: Option<String>,
    methods: Option<Vec<String>>,
    scopes: Vec<String>,
}

impl ClientCredentials {
    pub(crate) fn new(dialer: Arc<Dialer>, settings: Settings) -> Self {
        let source = settings.token_endpoint.clone().map(|endpoint| Tokens {
            endpoint,
            issuer: None,
            methods: None,
            scopes: Vec::new(),
        });
        Self {
            dialer,
            settings,
            source,
            more: BTreeSet::new(),
        }
    }

    /// Where tokens come from, by the challenge and what it leads to.
    async fn discover(&self, challenge: Option<&str>) -> Result<Tokens, NetError> {
        let unnamed = "wants a token and names no authorization server; set auth.oauth2.token_endpoint";
        let Discovered {
            metadata, mut scopes, ..
        } = self.dialer.discover(challenge, unnamed).await?;
        let endpoint = self.dialer.endpoint();
        scopes.retain(|scope| scope != OFFLINE);
        let found = tokens(metadata, scopes);
        let before = self.source.as_ref().and_then(|source| source.issuer.as_ref());
        match self.settings.issuer.as_ref().or(before) {
            Some(expected) if Some(expected) != found.issuer.as_ref() => Err(denied(format!(
                "{} names the authorization server {}, not {}; our credential is not sent there",
                endpoint.authority(),
                clip(found.issuer.as_deref().unwrap_or("without a name"), FOREIGN_CHARS),
                clip(expected, FOREIGN_CHARS)
            ))),
            _ => Ok(found),
        }
    }

    async fn ask(&self, tokens: &Tokens) -> Result<Granted, NetError> {
        let endpoint = clip(&tokens.endpoint, FOREIGN_CHARS);
        let client_id = (self.settings.client_id)().map_err(NetError::Credential)?;
        let client_id = client_id.expose_secret();
        // What goes out of our credential: the secret itself, or what the key signed.
        let (proof, method) = match (&self.settings.secret, &self.settings.key) {
            (_, Some(key)) => {
                if let Err(offered) = takes_assertions(tokens.methods.as_deref()) {
                    return Err(denied(format!("{endpoint} takes no client key, but {offered}")));
                }
                (
                    Some(self.assertion(client_id, key, tokens)?),
                    AuthType::RequestBody,
                )
            }
            (secret, None) => {
                let secret = secret.as_ref().map(|secret| secret()).transpose();
                let secret = secret.map_err(NetError::Credential)?;
                let method = method(tokens.methods.as_deref(), secret.is_some());
                let refused = |offered| denied(format!("{endpoint} takes no client secret, but {offered}"));
                (secret, method.map_err(refused)?)
            }
        };
        let scopes = scopes(&self.settings.scopes, &tokens.scopes, &self.more);
        let url = TokenUrl::new(tokens.endpoint.clone())
            .map_err(|error| denied(format!("the token endpoint is not a URL: {error}")))?;
        let mut client = BasicClient::new(ClientId::new(client_id.to_owned()))
            .set_auth_type(method)
            .set_token_uri(url);
        if let Some(secret) = proof.as_ref().filter(|_| self.settings.key.is_none()) {
            client = client.set_client_secret(ClientSecret::new(secret.expose_secret().to_owned()));
        }
        let resource = self.settings.resource.clone();
        let resource = resource.unwrap_or_else(|| self.dialer.endpoint().url().to_string());
        let http = TokenClient(self.dialer.clone());
        let mut request = client
            .exchange_client_credentials()
            .add_scopes(scopes.iter().cloned().map(Scope::new))
            .add_extra_param("resource", resource);
        if let Some(assertion) = proof.as_ref().filter(|_| self.settings.key.is_some()) {
            request = request
                .add_extra_param("client_assertion_type", ASSERTION_TYPE)
                .add_extra_param("client_assertion", assertion.expose_secret().to_owned());
        }
        let answer = request.request_async(&http).await.map_err(|error| {
            let sent = proof.as_ref().map(|proof| sent(client_id, proof));
            refused(
                &error,
                client_id,
                &tokens.endpoint,
                &Redactor::new(sent.into_iter().flatten()),
            )
        })?;
        bearer_only(answer.token_type()).map_err(|kind| denied(format!("{endpoint} gave {kind}")))?;
        let granted = answer
            .scopes()
            .into_iter()
            .flatten()
            .map(|scope| scope.to_string());
        Ok(Granted {
            token: SecretString::from(answer.access_token().secret().as_str()),
            lives: answer.expires_in(),
            scopes: scopes.into_iter().chain(granted).collect(),
        })
    }

    /// Who we are, signed, for this authorization server alone.
    fn assertion(
        &self,
        client_id: &str,
        key: &SecretValue,
        tokens: &Tokens,
    ) -> Result<SecretString, NetError> {
        let broken = |error| NetError::Credential(format!("auth.oauth2.client_key {error}"));
        let key = Key::from_pem(&key().map_err(NetError::Credential)?).map_err(broken)?;
        let issuer = tokens.issuer.as_ref().or(self.settings.issuer.as_ref());
        let audience = issuer.unwrap_or(&tokens.endpoint);
        let claims = assertion::claims(client_id, audience, SystemTime::now());
        key.sign(&claims).map_err(broken)
    }
}

/// Why there is no token: which URL, and what it said, without our secret in it.
fn refused(
    error: &RequestTokenError<NetError, BasicErrorResponse>,
    client_id: &str,
    url: &str,
    confidential: &Redactor,
) -> NetError {
    let url = clip(url, FOREIGN_CHARS);
    let (class, what) = match error {
        RequestTokenError::Request(error) => (error.class(), format!("no token from {url}: {error}")),
        RequestTokenError::ServerResponse(answer) => {
            let class = match answer.error() {
                BasicErrorResponseType::Extension(code)
                    if matches!(code.as_str(), "server_error" | "temporarily_unavailable") =>
                {
                    Class::Unavailable
                }
                _ => Class::Denied,
            };
            let said = match answer.error_description() {
                None => answer.error().to_string(),
                Some(description) => format!("{}: {description}", answer.error()),
            };
            let said = confidential.text(&said).unwrap_or(said);
            let client = clip(client_id, FOREIGN_CHARS);
            (
                class,
                format!(
                    "{url} refuses the client {client}: {}",
                    clip(&said, FOREIGN_CHARS)
                ),
            )
        }
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) => (
            Class::Unavailable,
            format!("{url} answered with something that is neither a token nor a refusal"),
        ),
    };
    NetError::Authorization { message: what, class }
}

#[async_trait::async_trait]
impl Grant for ClientCredentials {
    fn is_ready(&self) -> bool {
        self.source.is_some()
    }

    async fn token(&mut self, want: &Want) -> Result<Granted, NetError> {
        let declared = self.settings.token_endpoint.is_some();
        match want {
            Want::Challenged(challenge) if !declared => {
                self.source = Some(self.discover(challenge.as_deref()).await?);
            }
            Want::Scopes(missing, challenge) => {
                self.more.extend(missing.iter().cloned());
                if self.source.is_none() {
                    self.source = Some(self.discover(challenge.as_deref()).await?);
                }
            }
            Want::First | Want::Renewed | Want::Challenged(_) => {}
        }
        match &self.source {
            Some(tokens) => self.ask(tokens).await,
            None => Err(denied("nobody said where tokens come from".to_owned())),
        }
    }
}

/// Sends token requests. Whether the server is busy is seen by its status, whatever its body is.
struct TokenClient(Arc<Dialer>);

impl<'c> AsyncHttpClient<'c> for TokenClient {
    type Error = NetError;
    type Future = BoxFuture<'c, Result<HttpResponse, NetError>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        async move {
            let response = self.0.send(request, None).await?;
            match response.status() {
                status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                    Err(unavailable(format!("HTTP {}", status.as_u16())))
                }
                _ => Ok(response),
            }
        }
        .boxed()
    }
}

/// A credential in every form in which it goes out, any of which the answer may repeat: as it is, as a form writes it,
/// and as the user and password of a header (RFC 6749 section 2.3.1).
fn sent(client_id: &str, proof: &SecretString) -> [SecretString; 3] {
    let form = |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let encoded = form(proof.expose_secret());
    let pair = STANDARD.encode(format!("{}:{encoded}", form(client_id)));
    [proof.clone(), encoded.into(), pair.into()]
}

fn tokens(metadata: AuthorizationMetadata, scopes: Vec<String>) -> Tokens {
    let methods = metadata
        .additional_fields
        .get("token_endpoint_auth_methods_supported")
        .and_then(|methods| methods.as_array())
        .map(|methods| {
            methods
                .iter()
                .filter_map(|name| name.as_str())
                .map(str::to_owned)
                .collect()
        });
    Tokens {
        endpoint: metadata.token_endpoint,
        issuer: metadata.issuer,
        methods,
        scopes,
    }
}

/// How the client shows who it is: as the metadata says, and by `client_secret_basic` where it says nothing (RFC 8414
/// section 2). The error is what is offered in place.
fn method(offered: Option<&[String]>, has_secret: bool) -> Result<AuthType, String> {
    let Some(offered) = offered.filter(|_| has_secret) else {
        return Ok(AuthType::BasicAuth);
    };
    let offers = |name: &str| offered.iter().any(|method| method == name);
    if offers("client_secret_basic") {
        Ok(AuthType::BasicAuth)
    } else if offers("client_secret_post") {
        Ok(AuthType::RequestBody)
    } else {
        Err(clip(&offered.join(", "), FOREIGN_CHARS))
    }
}

/// Whether a signed assertion is taken. The error is what is offered in place.
fn takes_assertions(offered: Option<&[String]>) -> Result<(), String> {
    match offered {
        Some(offered) if !offered.iter().any(|method| method == PRIVATE_KEY_JWT) => {
            Err(clip(&offered.join(", "), FOREIGN_CHARS))
        }
        _ => Ok(()),
    }
}

/// What is asked for: what the document says, else what the server says; and what the server missed later.
fn scopes(declared: &[String], found: &[String], more: &BTreeSet<String>) -> BTreeSet<String> {
    let base = if declared.is_empty() { found } else { declared };
    base.iter().chain(more).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_client_shows_itself_as_the_metadata_says() {
        let method = |offered: Option<&[&str]>, secret| {
            let offered = offered.map(names);
            method(offered.as_deref(), secret).map(|method| matches!(method, AuthType::BasicAuth))
        };
        assert_eq!(method(None, true), Ok(true));
        assert_eq!(
            method(Some(&["client_secret_post", "client_secret_basic"]), true),
            Ok(true)
        );
        assert_eq!(method(Some(&["client_secret_post"]), true), Ok(false));
        assert_eq!(
            method(Some(&["private_key_jwt"]), true),
            Err("private_key_jwt".into())
        );
        assert_eq!(method(Some(&["none"]), false), Ok(true));
        let assertions = |offered: Option<&[&str]>| takes_assertions(offered.map(names).as_deref());
        assert_eq!(assertions(None), Ok(()));
        assert_eq!(assertions(Some(&["none", "private_key_jwt"])), Ok(()));
        assert_eq!(
            assertions(Some(&["client_secret_basic", "none"])),
            Err("client_secret_basic, none".into())
        );
    }

    #[test]
    fn a_credential_is_known_in_every_form_that_goes_out() {
        let sent = sent("c d", &"s3cret/with+signs".into());
        let redactor = Redactor::new(sent);
        let said = "bad Basic YytkOnMzY3JldCUyRndpdGglMkJzaWducw==, secret s3cret%2Fwith%2Bsigns or s3cret/with+signs";
        assert_eq!(
            redactor.text(said).as_deref(),
            Some("bad Basic [redacted], secret [redacted] or [redacted]")
        );
    }

    #[test]
    fn scopes_are_the_documents_else_the_servers_and_what_was_missed() {
        let more = BTreeSet::from(["z".to_owned()]);
        let all = |declared: &[&str], found: &[&str], more| -> Vec<String> {
            scopes(&names(declared), &names(found), more)
                .into_iter()
                .collect()
        };
        assert_eq!(all(&["a"], &["b"], &more), names(&["a", "z"]));
        assert_eq!(all(&[], &["b", "c"], &more), names(&["b", "c", "z"]));
        assert_eq!(all(&[], &[], &BTreeSet::new()), names(&[]));
    }
}
