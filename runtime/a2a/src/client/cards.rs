//! The card of one agent and the way to it that the card promises. A card is kept for as long as the agent says, within
//! bounds, and asked for by its ETag after that: one that did not change is not sent again. Of many callers at once, one
//! asks.

use std::sync::Arc;
use std::time::Duration;

use a2a::TRANSPORT_PROTOCOL_JSONRPC;
use agentd_base::text::clip;
use agentd_net::{Destination, HttpClient, Options, Timeouts};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

use super::{ClientError, PROMPTLY, accepted, parse, request};
use crate::card::WELL_KNOWN;
use crate::version::Version;
use crate::wire::{AgentCard, AgentInterface};

/// A card without `max-age` is taken as it is for so long.
const FRESH: Duration = Duration::from_secs(300);
/// No card is taken as it is for longer, whatever the agent says: it moves when it must.
const FRESH_AT_MOST: Duration = Duration::from_secs(3600);
/// A card: some skills with their examples, and signatures.
const CARD_BYTES: usize = 256 * 1024;
/// Interfaces of a card that lists none of ours, so many are named.
const NAMED: usize = 8;

/// See the module.
pub(super) struct Cards {
    base: Destination,
    options: Options,
    /// The card's host is not reached from here: calls go where the card came from.
    forwarded: bool,
    known: Mutex<Option<Known>>,
}

struct Known {
    card: Arc<AgentCard>,
    etag: Option<HeaderValue>,
    fresh_until: Instant,
    /// Not there when the card lists nothing that is spoken here.
    line: Option<Arc<Line>>,
}

/// The way to the interface of an agent.
pub(super) struct Line {
    pub(super) url: Url,
    pub(super) tenant: Option<String>,
    /// Whether tasks can be followed by a stream.
    pub(super) streams: bool,
    /// With the clocks that the client was given.
    pub(super) working: HttpClient,
    /// For what is answered at once.
    pub(super) promptly: HttpClient,
    /// For what begins at once and then goes on.
    pub(super) promptly_begun: HttpClient,
}

impl Cards {
    pub(super) fn new(base: Destination, options: Options, forwarded: bool) -> Self {
        Self {
            base,
            options,
            forwarded,
            known: Mutex::default(),
        }
    }

    /// The card.
    pub(super) async fn card(&self) -> Result<Arc<AgentCard>, ClientError> {
        let mut known = self.known.lock().await;
        Ok(self.current(&mut known).await?.card.clone())
    }

    /// The way that the card promises.
    pub(super) async fn line(&self) -> Result<Arc<Line>, ClientError> {
        let mut known = self.known.lock().await;
        let current = self.current(&mut known).await?;
        if let Some(line) = &current.line {
            return Ok(line.clone());
        }
        let line = Arc::new(self.line_of(&current.card)?);
        current.line = Some(line.clone());
        Ok(line)
    }

    /// It led to nothing: the next call asks for it anew.
    pub(super) async fn forget(&self) {
        *self.known.lock().await = None;
    }

    async fn current<'a>(&self, known: &'a mut Option<Known>) -> Result<&'a mut Known, ClientError> {
        let is_fresh = known
            .as_ref()
            .is_some_and(|known| Instant::now() < known.fresh_until);
        let now = match known.take() {
            Some(fresh) if is_fresh => fresh,
            old => self.fetched(old).await?,
        };
        Ok(known.insert(now))
    }

    async fn fetched(&self, old: Option<Known>) -> Result<Known, ClientError> {
        let path = format!("{}{WELL_KNOWN}", self.base.url().path().trim_end_matches('/'));
        let http = HttpClient::new(self.base.clone(), self.clocked(Some(PROMPTLY)))?;
        let mut request = request(Method::GET, &path, Bytes::new(), "application/json")?;
        if let Some(etag) = old.as_ref().and_then(|old| old.etag.clone()) {
            request.headers_mut().insert(header::IF_NONE_MATCH, etag);
        }
        let response = http.send(request).await?;
        let fresh_until = Instant::now() + fresh(&response.headers);
        if response.status == StatusCode::NOT_MODIFIED
            && let Some(old) = old
        {
            return Ok(Known { fresh_until, ..old });
        }
        let etag = response.headers.get(header::ETAG).cloned();
        let card = card(&accepted(response).await?)?;
        Ok(Known {
            card: Arc::new(card),
            etag,
            fresh_until,
            line: None,
        })
    }

    fn line_of(&self, card: &AgentCard) -> Result<Line, ClientError> {
        let interface = interface(card)?;
        let target = if self.forwarded {
            self.base.discovered(&behind(self.base.url(), &interface.url)?)?
        } else {
            self.base.discovered(&interface.url)?
        };
        Ok(Line {
            url: target.url().clone(),
            tenant: interface.tenant.clone(),
            streams: card.capabilities.streaming == Some(true),
            working: HttpClient::new(target.clone(), self.options.clone())?,
            promptly: HttpClient::new(target.clone(), self.clocked(Some(PROMPTLY)))?,
            promptly_begun: HttpClient::new(target, self.clocked(None))?,
        })
    }

    /// Our options with the clocks of what is answered, or begun, at once.
    fn clocked(&self, total: Option<Duration>) -> Options {
        let mut options = self.options.clone();
        options.timeouts = Timeouts {
            response: Some(PROMPTLY),
            total,
            ..options.timeouts
        };
        options
    }
}

/// For how long a card may be taken as it is.
fn fresh(headers: &HeaderMap) -> Duration {
    let directives = headers
        .get_all(header::CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut fresh = FRESH;
    for directive in directives {
        let directive = directive.trim().to_ascii_lowercase();
        match directive.split_once('=') {
            None if matches!(directive.as_str(), "no-store" | "no-cache") => return Duration::ZERO,
            Some(("max-age", seconds)) => {
                let seconds = seconds.trim_matches('"').parse().unwrap_or_default();
                fresh = Duration::from_secs(seconds).min(FRESH_AT_MOST);
            }
            _ => {}
        }
    }
    fresh
}

/// A card, or that of an older protocol, which has other members, by its versions.
pub(crate) fn card(body: &[u8]) -> Result<AgentCard, ClientError> {
    if body.len() > CARD_BYTES {
        return Err(ClientError::Protocol(format!(
            "its card is longer than {CARD_BYTES} bytes"
        )));
    }
    let value: Value = parse(body)?;
    if value.get("supportedInterfaces").is_none()
        && let Some(version) = value.get("protocolVersion").and_then(Value::as_str)
    {
        return Err(ClientError::NoInterface {
            listed: format!("version {} alone", clip(version, 16)),
        });
    }
    parse(body)
}

/// The first interface, in the card's order, that this client speaks.
pub(crate) fn interface(card: &AgentCard) -> Result<&AgentInterface, ClientError> {
    let interfaces = &card.supported_interfaces;
    let spoken = interfaces.iter().find(|interface| {
        interface
            .protocol_binding
            .eq_ignore_ascii_case(TRANSPORT_PROTOCOL_JSONRPC)
            && Version::of(Some(&interface.protocol_version)) == Some(Version::One)
    });
    spoken.ok_or_else(|| {
        let named = interfaces.iter().take(NAMED).map(|interface| {
            let AgentInterface {
                protocol_binding,
                protocol_version,
                ..
            } = interface;
            format!("{} {}", clip(protocol_binding, 32), clip(protocol_version, 16))
        });
        let listed = named.collect::<Vec<_>>().join(", ");
        ClientError::NoInterface {
            listed: if listed.is_empty() {
                "none".to_owned()
            } else {
                listed
            },
        }
    })
}

/// The path and query of a card's URL at this end of the tunnel.
pub(crate) fn behind(near: &Url, promised: &str) -> Result<String, ClientError> {
    let promised = Url::parse(promised)
        .map_err(|error| ClientError::Protocol(format!("the URL in the card: {error}")))?;
    let mut url = near.clone();
    url.set_path(promised.path());
    url.set_query(promised.query());
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(interfaces: Value) -> AgentCard {
        let card = json!({
            "name": "n", "version": "1", "capabilities": {}, "supportedInterfaces": interfaces, "unknown": 1,
        });
        card_of(&card).unwrap()
    }

    fn card_of(value: &Value) -> Result<AgentCard, ClientError> {
        card(value.to_string().as_bytes())
    }

    #[test]
    fn the_first_interface_that_is_spoken() {
        let one = |binding: &str, version: &str, url: &str| json!({ "url": url, "protocolBinding": binding, "protocolVersion": version });
        let listed = of(json!([
            one("GRPC", "1.0", "https://a"),
            one("JSONRPC", "0.3", "https://b"),
            one("jsonrpc", "1.0", "https://c"),
            one("JSONRPC", "1.0", "https://d"),
        ]));
        assert_eq!(interface(&listed).unwrap().url, "https://c");
        for (listed, said) in [
            (json!([]), "but none;"),
            (
                json!([
                    one("GRPC", "1.0", "https://a"),
                    one("JSONRPC", "0.3", "https://b")
                ]),
                "but GRPC 1.0, JSONRPC 0.3;",
            ),
        ] {
            let refused = interface(&of(listed)).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_card_of_an_older_protocol_is_refused_by_its_version() {
        let old = json!({ "name": "n", "version": "1", "protocolVersion": "0.3.0", "url": "https://a", "skills": [] });
        let refused = card_of(&old).unwrap_err().to_string();
        assert!(
            refused.contains(crate::wire::VERSION) && refused.contains("version 0.3.0 alone"),
            "{refused}"
        );
        let neither = card_of(&json!({ "name": "n" })).unwrap_err();
        assert!(matches!(neither, ClientError::Protocol(_)), "{neither}");
        let long = json!({ "name": "n".repeat(CARD_BYTES) });
        assert!(card_of(&long).unwrap_err().to_string().contains("longer"));
    }

    #[test]
    fn how_long_a_card_is_taken_as_it_is() {
        for (value, seconds) in [
            (None, 300),
            (Some("max-age=60"), 60),
            (Some("public, Max-Age=\"90\""), 90),
            (Some("max-age=60, no-cache"), 0),
            (Some("no-store"), 0),
            (Some("max-age=99999999"), 3600),
            (Some("max-age=-1"), 0),
            (Some("public"), 300),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(value));
            }
            assert_eq!(fresh(&headers).as_secs(), seconds, "{value:?}");
        }
    }
}
