//! The one way out for everything OAuth: each URL that a server or its metadata names passes the guard of the declared
//! endpoint that led to it, is asked within a clock, and answers within a bound. The endpoint's own origin is reached as
//! the endpoint itself is; every other host gets no header and no certificate of ours.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use agentd_net::{
    Declared, Destination, DestinationError, HttpClient, NetError, Options, Redirects, Replay, TlsMode,
};
use bytes::Bytes;
use http::{Request, Response};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};

use super::denied;
use super::search::{Discovered, search};
use super::token::mended;

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

    pub(super) fn client(&self, url: &str) -> Result<HttpClient, NetError> {
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
pub(super) fn completed(body: &[u8]) -> Option<Vec<u8>> {
    let mut metadata: serde_json::Map<_, _> = serde_json::from_slice(body).ok()?;
    let missing = metadata.contains_key("token_endpoint") && !metadata.contains_key("authorization_endpoint");
    if !missing {
        return None;
    }
    metadata.insert("authorization_endpoint".to_owned(), "".into());
    serde_json::to_vec(&metadata).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::oauth) fn dialer(endpoint: &str, declared: Option<&str>) -> Dialer {
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
