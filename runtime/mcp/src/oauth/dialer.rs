//! The one way out for everything OAuth: each URL that a server or its metadata names passes the guard of the declared
//! endpoint that led to it, is asked within a clock, and answers within a bound. The endpoint's own origin is reached as
//! the endpoint itself is; every other host gets no header and no certificate of ours.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use agentd_net::{
    Declared, Destination, DestinationError, HttpClient, NetError, Options, Redirects, Replay, TlsMode,
};
use bytes::Bytes;
use http::{Request, Response};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthHttpClient, OAuthHttpClientFuture,
    OAuthHttpRedirectPolicy, OAuthHttpRequest,
};

use super::token::mended;
use super::veil::{Veiled, lifted, veiled_challenge};
use super::{denied, unavailable};

/// One request to an authorization server.
const EXCHANGE: Duration = Duration::from_secs(10);
/// Metadata and tokens are a few KiB.
const BODY: usize = 1024 * 1024;
/// Requests of one search for a token: every place where metadata may be, of the server and of a few authorization servers
/// that it names. A server that names thousands makes us ask no more than that.
const REQUESTS: u32 = 32;
/// Origins of one server's OAuth: itself, its authorization server, and those that moved.
const ORIGINS: usize = 8;

/// See the module.
pub(crate) struct Dialer {
    endpoint: Destination,
    declared: Option<Destination>,
    own: Options,
    others: TlsMode,
    clients: Mutex<Vec<HttpClient>>,
    /// What is left of [`REQUESTS`].
    left: AtomicU32,
}

/// The authorization server of an MCP server.
pub(crate) struct Discovered {
    pub(crate) manager: AuthorizationManager,
    pub(crate) metadata: AuthorizationMetadata,
    /// What is asked for where nobody says anything else.
    pub(crate) scopes: Vec<String>,
}

impl Dialer {
    /// `declared` is a token endpoint from the document; `own` is how the endpoint is reached, `others` whom else to
    /// trust.
    pub(crate) fn new(
        endpoint: Destination,
        declared: Option<Destination>,
        own: Options,
        others: TlsMode,
    ) -> Self {
        let clock = |mut options: Options| {
            options.timeouts.response = Some(EXCHANGE);
            options.timeouts.total = Some(EXCHANGE);
            options.limits.body_bytes = BODY;
            options
        };
        Self {
            endpoint,
            declared,
            own: clock(own),
            others,
            clients: Mutex::default(),
            left: AtomicU32::new(REQUESTS),
        }
    }

    /// A new search for a token begins.
    pub(super) fn begin(&self) {
        self.left.store(REQUESTS, Ordering::Relaxed);
    }

    pub(crate) fn endpoint(&self) -> &Destination {
        &self.endpoint
    }

    /// What the challenge leads to, in a manager of its own. `unnamed` says what is wrong with a server that names nobody.
    pub(crate) async fn discover(
        self: &Arc<Self>,
        challenge: Option<&str>,
        unnamed: &str,
    ) -> Result<Discovered, NetError> {
        search(self.clone(), &self.endpoint, challenge, unnamed).await
    }

    /// Sends a request to an absolute URL. Everything that is asked for may be asked for twice.
    pub(crate) async fn send(
        &self,
        request: Request<Vec<u8>>,
        redirects: Option<Redirects>,
    ) -> Result<Response<Vec<u8>>, NetError> {
        let one_less = |left: u32| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_err()
        {
            return Err(denied(format!(
                "{} led to more than {REQUESTS} requests for one token",
                self.endpoint.authority()
            )));
        }
        let client = self.client(&request.uri().to_string())?;
        let mut request = request.map(Bytes::from);
        request.extensions_mut().insert(Replay::Safe);
        if let Some(redirects) = redirects {
            request.extensions_mut().insert(redirects);
        }
        let answer = client.send(request).await?;
        let mut response = Response::new(Vec::new());
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        let body = answer.body.bytes().await?;
        *response.body_mut() = mended(&body).unwrap_or_else(|| body.to_vec());
        Ok(response)
    }

    fn client(&self, url: &str) -> Result<HttpClient, NetError> {
        let refused = |fault: DestinationError| {
            NetError::Refused(format!(
                "{} is not asked for a token: it {fault}",
                clip(url, FOREIGN_CHARS)
            ))
        };
        // Parsed by the widest rule there is, for its origin alone.
        let asked = Destination::declared(url, Declared::Mcp).map_err(refused)?;
        let same = |other: &Destination| asked.url().origin() == other.url().origin();
        let mut options = Options {
            tls: self.others.clone(),
            timeouts: self.own.timeouts,
            limits: self.own.limits,
            ..Options::default()
        };
        let destination = if same(&self.endpoint) {
            options = self.own.clone();
            self.endpoint.clone()
        } else if let Some(declared) = self.declared.as_ref().filter(|declared| same(declared)) {
            declared.clone()
        } else {
            self.endpoint.discovered(url).map_err(refused)?
        };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = destination.url().origin();
        if let Some(client) = clients
            .iter()
            .find(|client| client.destination().url().origin() == origin)
        {
            return Ok(client.clone());
        }
        let client = HttpClient::new(destination, options)?;
        if clients.len() >= ORIGINS {
            clients.remove(0);
        }
        clients.push(client.clone());
        Ok(client)
    }
}

/// The SDK's search for an authorization server. Which addresses may be asked is for the client to say.
async fn search<C: OAuthHttpClient + 'static>(
    client: Arc<C>,
    endpoint: &Destination,
    challenge: Option<&str>,
    unnamed: &str,
) -> Result<Discovered, NetError> {
    let url = endpoint.url().to_string();
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url, Arc::new(Veiled(client)))
        .await
        .map_err(fault)?;
    let challenge = challenge.map(veiled_challenge);
    let found = manager
        .resolve_metadata_from_challenge(challenge.as_deref())
        .await
        .map_err(fault)?;
    if !found.source.is_discovered() {
        return Err(denied(format!("{} {unnamed}", endpoint.authority())));
    }
    let mut metadata = found.metadata;
    metadata.issuer = metadata.issuer.map(|issuer| lifted(&issuer).into_owned());
    manager.set_metadata(metadata.clone());
    let scopes = manager.select_initial_scopes(&[]).await;
    Ok(Discovered {
        manager,
        metadata,
        scopes,
    })
}

impl OAuthHttpClient for Dialer {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let redirects = match request.redirect_policy {
                OAuthHttpRedirectPolicy::Stop => Some(Redirects::Returned),
                _ => None,
            };
            let path = request.request.uri().path().to_owned();
            let mut response = self.send(request.request, redirects).await?;
            if path.contains("/.well-known/")
                && let Some(completed) = completed(response.body())
            {
                *response.body_mut() = completed;
            }
            Ok(response)
        })
    }
}

/// Metadata of an authorization server where nobody can log in: RFC 8414 lets it leave `authorization_endpoint` out, and
/// the SDK does not. An empty one is refused by whoever would use it.
fn completed(body: &[u8]) -> Option<Vec<u8>> {
    let mut metadata: serde_json::Map<_, _> = serde_json::from_slice(body).ok()?;
    let missing = metadata.contains_key("token_endpoint") && !metadata.contains_key("authorization_endpoint");
    if !missing {
        return None;
    }
    metadata.insert("authorization_endpoint".to_owned(), "".into());
    serde_json::to_vec(&metadata).ok()
}

/// The SDK's error as ours: which URL, what was seen, who must act.
pub(crate) fn fault(error: AuthError) -> NetError {
    match error {
        AuthError::DiscoveryRequestFailed { url, source } => {
            let class = source
                .downcast_ref::<NetError>()
                .map_or(Class::Unavailable, |error| error.class());
            NetError::Authorization {
                message: format!(
                    "looking for the authorization server at {}: {}",
                    lifted(url.as_str()),
                    clip(&lifted(&source.to_string()), 2 * FOREIGN_CHARS)
                ),
                class,
            }
        }
        AuthError::TokenRefreshFailed(_) | AuthError::AuthorizationServersUnavailable { .. } => {
            unavailable(clip(&lifted(&error.to_string()), 2 * FOREIGN_CHARS))
        }
        other => denied(clip(&lifted(&other.to_string()), 2 * FOREIGN_CHARS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialer(endpoint: &str, declared: Option<&str>) -> Dialer {
        let destination = |url: &str| Destination::declared(url, Declared::Mcp).unwrap();
        Dialer::new(
            destination(endpoint),
            declared.map(destination),
            Options::default(),
            TlsMode::default(),
        )
    }

    #[test]
    fn m36_a_discovered_url_passes_the_guard_of_the_endpoint() {
        let public = dialer("https://mcp.example/mcp", None);
        assert!(public.client("https://mcp.example/.well-known/x").is_ok());
        assert!(public.client("https://as.example/token").is_ok());
        for url in [
            "http://as.example/token",
            "http://127.0.0.1/token",
            "http://mcp.example/token",
            "https://169.254.169.254/token",
            "https://user:secret@as.example/token",
            "file:///etc/passwd",
            "nonsense",
        ] {
            let error = public.client(url).err().unwrap().to_string();
            assert!(error.contains("is not asked for a token"), "{url}: {error}");
        }
        let local = dialer("http://127.0.0.1:1/mcp", None);
        assert!(local.client("http://127.0.0.1:2/token").is_ok());
        assert!(local.client("http://as.example/token").is_err());
        // What is declared may be private, whatever led there.
        let declared = dialer("https://mcp.example/mcp", Some("http://127.0.0.1:9/token"));
        assert!(declared.client("http://127.0.0.1:9/token").is_ok());
        assert!(declared.client("http://127.0.0.1:90/token").is_err());
    }

    /// Answers by URL, once the dialer's guard let the URL pass; what has no answer is dialled.
    struct Scripted(
        Dialer,
        std::collections::BTreeMap<&'static str, serde_json::Value>,
    );

    impl OAuthHttpClient for Scripted {
        fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
            Box::pin(async move {
                let url = request.request.uri().to_string();
                self.0.client(&url)?;
                match self.1.get(url.as_str()) {
                    Some(answer) => Ok(Response::new(answer.to_string().into_bytes())),
                    None => self.0.execute(request).await,
                }
            })
        }
    }

    /// What a server at `endpoint` leads to that names the authorization server `named`.
    async fn led(endpoint: &'static str, named: &'static str, known: bool) -> Result<Discovered, NetError> {
        let metadata = "https://10.9.9.9/metadata";
        let challenge = match endpoint.contains("//10.") {
            true => format!(r#"Bearer resource_metadata="{metadata}""#),
            false => format!(r#"Bearer resource_metadata="{endpoint}/metadata""#),
        };
        let here: &'static str = format!("{endpoint}/metadata").leak();
        let protected = serde_json::json!({"resource": endpoint, "authorization_servers": [named]});
        let mut answers =
            std::collections::BTreeMap::from([(metadata, protected.clone()), (here, protected)]);
        if known {
            let known: &'static str = format!("{named}/.well-known/oauth-authorization-server").leak();
            let says = serde_json::json!({"issuer": named, "token_endpoint": format!("{named}/token"),
                "authorization_endpoint": format!("{named}/login")});
            answers.insert(known, says);
        }
        let scripted = Arc::new(Scripted(dialer(endpoint, None), answers));
        let endpoint = scripted.0.endpoint.clone();
        search(scripted, &endpoint, Some(&challenge), "names nobody").await
    }

    /// The guard judges, not the SDK: what is private may lead to what is private, and to nothing else.
    #[tokio::test]
    async fn m36_a_private_server_has_a_private_authorization_server() {
        for named in ["https://10.0.0.2", "https://[fd00::2]:8443", "https://100.64.0.1"] {
            let found = led("https://10.0.0.1/mcp", named, true).await;
            let metadata = found.map(|found| found.metadata).unwrap();
            assert_eq!(
                (metadata.issuer.as_deref(), metadata.token_endpoint.as_str()),
                (Some(named), format!("{named}/token").as_str())
            );
        }
    }

    #[tokio::test]
    async fn m36_a_public_server_leads_nowhere_private_and_nobody_to_metadata() {
        for (endpoint, named, why) in [
            (
                "https://1.1.1.1/mcp",
                "https://10.0.0.2",
                "more private than the endpoint",
            ),
            (
                "https://1.1.1.1/mcp",
                "https://[fd00::2]",
                "more private than the endpoint",
            ),
            ("https://1.1.1.1/mcp", "https://169.254.169.254", "never dialled"),
            ("https://10.0.0.1/mcp", "https://169.254.169.254", "never dialled"),
            ("https://10.0.0.1/mcp", "https://[fe80::1]", "never dialled"),
            ("https://10.0.0.1/mcp", "https://100.100.100.200", "never dialled"),
        ] {
            let error = led(endpoint, named, false).await.err().unwrap().to_string();
            assert!(
                error.contains(why) && error.contains(named) && !error.contains(".invalid"),
                "{endpoint} -> {named}: {error}"
            );
        }
    }

    #[test]
    fn origins_are_few() {
        let dialer = dialer("https://mcp.example/mcp", None);
        for port in 1..100 {
            dialer
                .client(&format!("https://as.example:{port}/token"))
                .unwrap();
        }
        assert_eq!(dialer.clients.lock().unwrap().len(), ORIGINS);
    }

    #[test]
    fn metadata_without_a_login_page_is_completed() {
        let completed = |text: &str| -> Option<serde_json::Value> {
            completed(text.as_bytes()).map(|body| serde_json::from_slice(&body).unwrap())
        };
        assert_eq!(
            completed(r#"{"token_endpoint":"https://as/token"}"#).unwrap(),
            serde_json::json!({"authorization_endpoint": "", "token_endpoint": "https://as/token"})
        );
        for text in [
            r#"{"token_endpoint":"t","authorization_endpoint":"a"}"#,
            "{}",
            "[]",
            "x",
        ] {
            assert_eq!(completed(text), None, "{text}");
        }
    }
}
