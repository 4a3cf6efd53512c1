//! One exchange on the wire: the last look of the guard, the URL as reqwest sees it, and the clock until the answer begins.

use http::header::HOST;
use http::{HeaderValue, request};
use tokio::time::Instant;
use url::Url;

use super::{HttpClient, Inner};
use crate::destination::Destination;
use crate::error::{NetError, Phase};
use crate::resolve::{SharedLookup, resolve};

impl HttpClient {
    pub(super) async fn dispatch(
        &self,
        url: &Url,
        parts: request::Parts,
        body: reqwest::Body,
        started: Instant,
    ) -> Result<reqwest::Response, NetError> {
        let Inner {
            options, tls, http, ..
        } = &*self.0;
        tls.ready()?;
        self.vet_address().await?;
        let dialled = self.dial_url(url)?;
        let mut request = reqwest::Request::new(parts.method, dialled);
        *request.headers_mut() = parts.headers;
        if options.tls.server_name().is_some() {
            let host = HeaderValue::from_str(url.authority())
                .map_err(|_| NetError::Invalid("the host cannot be sent".into()))?;
            request.headers_mut().insert(HOST, host);
        }
        *request.body_mut() = Some(body);
        let answer = http.execute(request);
        let (limit, phase) = match (options.timeouts.response, options.timeouts.total) {
            (Some(response), Some(total)) if total < response => (Some(total), Phase::Total),
            (Some(response), _) => (Some(response), Phase::Response),
            (None, total) => (total, Phase::Total),
        };
        let answer = match limit {
            None => answer.await,
            Some(limit) => tokio::time::timeout_at(started + limit, answer)
                .await
                .map_err(|_| NetError::Timeout {
                    host: self.authority(),
                    phase,
                    limit,
                })?,
        };
        answer.map_err(|error| self.fault(&error))
    }

    /// The URL as reqwest sees it: with the name that TLS asks for. Our resolver knows where it really is.
    pub(super) fn dial_url(&self, url: &Url) -> Result<Url, NetError> {
        let mut url = url.clone();
        if let Some(name) = self.0.options.tls.server_name() {
            let wrong = || NetError::Invalid(format!("tls.server_name {name} is not a DNS name"));
            url.set_host(Some(name)).map_err(|_| wrong())?;
            if !matches!(url.host(), Some(url::Host::Domain(_))) {
                return Err(wrong());
            }
        }
        Ok(url)
    }

    /// An address that a server named is never asked for by name, so it is vetted here, by where that server is.
    async fn vet_address(&self) -> Result<(), NetError> {
        let Inner {
            destination,
            lookup,
            options,
            ..
        } = &*self.0;
        if destination.literal().is_none() || destination.leader().is_none() {
            return Ok(());
        }
        let limit = options.timeouts.connect;
        let late = |_| NetError::Timeout {
            host: self.authority(),
            phase: Phase::Connect,
            limit,
        };
        let vetted = tokio::time::timeout(limit, resolve(destination, lookup.as_ref()));
        vetted.await.map_err(late)?.map(drop)
    }
}

/// reqwest's resolver: whatever name it asks for, the vetted addresses of the one destination.
pub(super) struct Pinned {
    pub(super) destination: Destination,
    pub(super) lookup: SharedLookup,
}

impl reqwest::dns::Resolve for Pinned {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let (destination, lookup) = (self.destination.clone(), self.lookup.clone());
        Box::pin(async move {
            let addresses = resolve(&destination, lookup.as_ref()).await?;
            Ok(Box::new(addresses.into_iter()) as reqwest::dns::Addrs)
        })
    }
}
