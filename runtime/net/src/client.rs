//! The HTTP client of one destination: pooled HTTP/1.1 and HTTP/2, guarded, with separate clocks. No proxy, no cookie,
//! no redirect but 307 and 308 on the same origin, no retry but of a request that may safely be sent twice.

mod dial;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_base::clock::{Clock as _, SystemClock};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use http::header::{ACCEPT_ENCODING, LOCATION, RANGE};
use http::{HeaderMap, StatusCode, request};
use tokio::time::Instant;
use url::Url;

use self::dial::Pinned;
use crate::again::{self, Outcome};
use crate::body::{Body, Deadline};
use crate::decode::{self, Coding};
use crate::destination::Destination;
use crate::error::NetError;
use crate::fault::{self, Trust};
use crate::options::{Options, Redirects, Replay, Timeouts};
use crate::pace::jittered;
use crate::redact::Redactor;
use crate::resolve::{SharedLookup, SystemLookup, resolve};
use crate::sign::{Refusal, header_value};
use crate::tls::{Tls, TlsMode};

/// Redirects in a row; a canonical path is one, a moved one two.
const REDIRECTS: usize = 3;
/// How often a refused request may be signed again, whatever its signer says: a token, then one with more rights.
const SIGNED_AGAIN: u32 = 4;
/// Idle connections kept for a destination, and for how long. A connection that the server closes is dropped at once.
const IDLE_CONNECTIONS: usize = 8;
const IDLE_TIME: Duration = Duration::from_secs(90);
/// A peer that vanished without a word (node lost) is noticed within a minute.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(60);
/// Header lines of a response.
const HEADERS: usize = 200;

/// A response whose body is still to be read.
pub struct Response {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Body,
}

/// A client of one destination. Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>);

struct Inner {
    destination: Destination,
    lookup: SharedLookup,
    options: Options,
    tls: Tls,
    http: reqwest::Client,
    /// What was asked for last and the URL of it: nearly all requests of a client are to one.
    last: Mutex<Option<(http::Uri, Url)>>,
}

/// A body that is sent as it comes.
pub type StreamedBody = BoxStream<'static, io::Result<Bytes>>;

impl HttpClient {
    /// Builds the client; dials nothing and reads no file.
    ///
    /// # Errors
    /// When `server_name` is no DNS name.
    pub fn new(destination: Destination, options: Options) -> Result<Self, NetError> {
        Self::with_lookup(destination, options, Arc::new(SystemLookup))
    }

    pub(crate) fn with_lookup(
        destination: Destination,
        options: Options,
        lookup: SharedLookup,
    ) -> Result<Self, NetError> {
        let invalid = |error: reqwest::Error| NetError::Invalid(error.to_string());
        // Plain http has a config too: without one, reqwest asks for the platform's roots.
        let tls = Tls::new(&options.tls)?;
        let mut config = tls.config.clone();
        // Another name in SNI than in `Host` works in HTTP/1.1 alone: HTTP/2 has one name for both.
        let alpn: &[&[u8]] = if options.tls.server_name().is_some() {
            &[b"http/1.1"]
        } else {
            &[b"h2", b"http/1.1"]
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(config)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .dns_resolver(Pinned {
                destination: destination.clone(),
                lookup: lookup.clone(),
            })
            .connect_timeout(options.timeouts.connect)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIME)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEPALIVE)
            .tcp_keepalive_interval(KEEPALIVE)
            .tcp_keepalive_retries(KEEPALIVE_PROBES)
            .tcp_user_timeout(UNACKNOWLEDGED)
            .http1_max_headers(HEADERS)
            .http2_max_header_list_size(u32::try_from(options.limits.header_bytes).unwrap_or(u32::MAX))
            .http2_keep_alive_interval(KEEPALIVE)
            .http2_keep_alive_timeout(KEEPALIVE);
        let http = builder.build().map_err(invalid)?;
        let client = Self(Arc::new(Inner {
            destination,
            lookup,
            options,
            tls,
            http,
            last: Mutex::default(),
        }));
        client.dial_url(client.0.destination.url())?;
        Ok(client)
    }

    /// The destination.
    pub fn destination(&self) -> &Destination {
        &self.0.destination
    }

    /// Looks the destination up and judges where it is now; dials nothing. Each request is judged again.
    ///
    /// # Errors
    /// [`NetError::Refused`] when it may not be dialled, [`NetError::Resolve`] when nobody knows where it is.
    pub async fn vet(&self) -> Result<(), NetError> {
        let Inner {
            destination, lookup, ..
        } = &*self.0;
        resolve(destination, lookup.as_ref()).await.map(drop)
    }

    /// Sends a request. Its URI is a path and query on the destination's origin, or a URL of it.
    ///
    /// # Errors
    /// See [`NetError`]. A response with any status is no error; a redirect that is not followed is.
    pub async fn send(&self, request: http::Request<Bytes>) -> Result<Response, NetError> {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let mut url = self.target(&parts.uri)?;
        for _ in 0..=REDIRECTS {
            let response = self.accepted(&url, &parts, &body, started).await?;
            if Redirects::returned(&parts) {
                return self.take(response, started, decode::take_coding);
            }
            match self.next_hop(&url, &response)? {
                None => return self.take(response, started, decode::take_coding),
                Some(next) => url = next,
            }
        }
        Err(NetError::Refused(format!(
            "{} redirects in a circle",
            self.authority()
        )))
    }

    /// Sends a request whose body is a stream: once, unsigned, without following redirects, and the answer's body is as
    /// it came. For our own upstream.
    ///
    /// # Errors
    /// As [`HttpClient::send`].
    pub async fn send_streamed(&self, request: http::Request<StreamedBody>) -> Result<Response, NetError> {
        let started = Instant::now();
        let (mut parts, body) = request.into_parts();
        let url = self.target(&parts.uri)?;
        self.add_headers(&mut parts.headers)?;
        let response = self
            .dispatch(&url, parts, reqwest::Body::wrap_stream(body), started)
            .await?;
        self.take(response, started, |_| Ok(Coding::Identity))
    }

    /// The URL of a request: on our origin, whatever the caller wrote.
    fn target(&self, uri: &http::Uri) -> Result<Url, NetError> {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, url)) = last.as_ref().filter(|(asked, _)| asked == uri) {
            return Ok(url.clone());
        }
        let url = self.on_our_origin(uri)?;
        *last = Some((uri.clone(), url.clone()));
        Ok(url)
    }

    fn on_our_origin(&self, uri: &http::Uri) -> Result<Url, NetError> {
        let base = self.0.destination.url();
        let url = match uri.path_and_query() {
            Some(path) if uri.authority().is_none() => {
                let mut url = base.clone();
                url.set_path(path.path());
                url.set_query(path.query());
                url
            }
            _ => Url::parse(&uri.to_string()).map_err(|error| NetError::Invalid(error.to_string()))?,
        };
        if !self.0.destination.same_origin(&url) {
            return Err(NetError::Invalid(format!(
                "this client is for {} alone",
                self.authority()
            )));
        }
        Ok(url)
    }

    /// One request, signed again for as long as the server refuses it and its signer knows better.
    async fn accepted(
        &self,
        url: &Url,
        parts: &request::Parts,
        body: &Bytes,
        started: Instant,
    ) -> Result<reqwest::Response, NetError> {
        let mut round = 0;
        loop {
            let (response, sent) = self.exchange(url, parts, body, started).await?;
            let refused = matches!(
                response.status(),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
            );
            let Some(signer) = self
                .0
                .options
                .signer
                .as_ref()
                .filter(|_| refused && round < SIGNED_AGAIN)
            else {
                return Ok(response);
            };
            let refusal = Refusal {
                sent: &sent,
                status: response.status(),
                headers: response.headers(),
                round,
            };
            if !signer.refused(&refusal).await? {
                return Ok(response);
            }
            round += 1;
        }
    }

    /// One request and, where that is safe, another try of it ([`again`]); with the headers that it had in the end, where
    /// somebody signs them.
    async fn exchange(
        &self,
        url: &Url,
        parts: &request::Parts,
        body: &Bytes,
        started: Instant,
    ) -> Result<(reqwest::Response, HeaderMap), NetError> {
        let mut sent = 0;
        loop {
            let outcome = self.once(url, parts, body, started).await;
            sent += 1;
            let seen = match &outcome {
                Ok((response, _)) => Outcome::Answered(response.status(), response.headers()),
                Err(error) => Outcome::Failed(error),
            };
            let pause = again::pause(&seen, sent, self.left(started), SystemClock.now());
            let Some(pause) = pause.filter(|_| Replay::allows(parts)) else {
                return outcome;
            };
            tracing::debug!(
                event = "http.retry",
                host = self.authority(),
                sent,
                pause_ms = pause.as_millis()
            );
            drop(outcome);
            tokio::time::sleep(jittered(again::spread(pause), 0.2)).await;
        }
    }

    /// What the clocks of an exchange leave of it.
    fn left(&self, started: Instant) -> Option<Duration> {
        let Timeouts { response, total, .. } = self.0.options.timeouts;
        let limit = response.into_iter().chain(total).min()?;
        Some(limit.saturating_sub(started.elapsed()))
    }

    async fn once(
        &self,
        url: &Url,
        parts: &request::Parts,
        body: &Bytes,
        started: Instant,
    ) -> Result<(reqwest::Response, HeaderMap), NetError> {
        let mut parts = parts.clone();
        self.add_headers(&mut parts.headers)?;
        if !parts.headers.contains_key(RANGE) {
            parts.headers.entry(ACCEPT_ENCODING).or_insert(decode::ACCEPTED);
        }
        if let Some(signer) = &self.0.options.signer {
            let uri = url.as_str().parse();
            parts.uri = uri.map_err(|_| NetError::Invalid("the URL cannot be sent".into()))?;
            signer.sign(&mut parts, body).await?;
        }
        // Whoever signs is told of them when the request is refused; nobody else asks.
        let sent = match &self.0.options.signer {
            Some(_) => parts.headers.clone(),
            None => HeaderMap::new(),
        };
        let body = reqwest::Body::from(body.clone());
        Ok((self.dispatch(url, parts, body, started).await?, sent))
    }

    fn add_headers(&self, headers: &mut HeaderMap) -> Result<(), NetError> {
        for (name, value) in &self.0.options.headers {
            if !headers.contains_key(name) {
                let value = value().map_err(NetError::Credential)?;
                headers.insert(name, header_value(name, &value)?);
            }
        }
        Ok(())
    }

    /// Where to go next, for a redirect that may be followed.
    fn next_hop(&self, url: &Url, response: &reqwest::Response) -> Result<Option<Url>, NetError> {
        let status = response.status();
        let Some(location) = response
            .headers()
            .get(LOCATION)
            .filter(|_| status.is_redirection())
        else {
            return Ok(None);
        };
        let refused = |to: &str| {
            let host = self.authority();
            NetError::Refused(format!(
                "{host} redirects ({}) to {to}, which is not followed; declare that URL",
                status.as_u16()
            ))
        };
        let next = location
            .to_str()
            .ok()
            .and_then(|location| url.join(location).ok());
        let Some(next) = next else {
            return Err(refused("something that is not a URL"));
        };
        let followed = matches!(
            status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        ) && self.0.destination.same_origin(&next);
        if followed {
            Ok(Some(next))
        } else {
            Err(refused(&next.origin().ascii_serialization()))
        }
    }

    fn take(
        &self,
        mut response: reqwest::Response,
        started: Instant,
        coding: impl FnOnce(&mut HeaderMap) -> Result<Coding, String>,
    ) -> Result<Response, NetError> {
        let Inner { options, .. } = &*self.0;
        let host = self.authority();
        let status = response.status();
        let mut headers = std::mem::take(response.headers_mut());
        let size: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        let limit = options.limits.header_bytes;
        if size > limit {
            return Err(NetError::TooLarge {
                host,
                what: "headers",
                limit,
            });
        }
        let coding = coding(&mut headers).map_err(|coding| NetError::Coding {
            host: host.clone(),
            detail: format!("the content coding is {coding}"),
        })?;
        let deadline = options.timeouts.total.map(|limit| Deadline {
            at: started + limit,
            limit,
        });
        let client = self.clone();
        let chunks = response
            .bytes_stream()
            .map_err(move |error| client.fault(&error))
            .boxed();
        let chunks = decode::decoded(coding, chunks, host.clone());
        let redactor = if options.verbatim && status.is_success() {
            Redactor::default()
        } else {
            self.redactor()
        };
        Ok(Response {
            status,
            headers,
            body: Body::new(chunks, host, options.limits.body_bytes, deadline, redactor),
        })
    }

    /// Cleans what a server said of the client's secrets. A secret that cannot be read was not sent either.
    pub fn redactor(&self) -> Redactor {
        let confidential = &self.0.options.confidential;
        Redactor::new(confidential.iter().filter_map(|value| value().ok()))
    }

    fn fault(&self, error: &reqwest::Error) -> NetError {
        let Inner { options, .. } = &*self.0;
        let trust = match options.tls {
            TlsMode::WebRoots(_) => Trust::Web,
            TlsMode::Spiffe { .. } | TlsMode::SpiffeServerOnly { .. } => Trust::Spiffe,
        };
        fault::of_request(error, &self.authority(), trust, options.timeouts.connect)
    }

    fn authority(&self) -> String {
        self.0.destination.authority()
    }
}
