//! The agent card: the public one, built once from what this instance really serves, with its validator for conditional
//! requests, and the extended one, which tells a caller what is there for it. It promises nothing that the listener does
//! not do.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use a2a::{
    MutualTlsSecurityScheme, SecurityScheme, TRANSPORT_PROTOCOL_HTTP_JSON, TRANSPORT_PROTOCOL_JSONRPC,
};
use agentd_config::document::{Extension, Skill};
use agentd_identity::{IdentitySource, Svid};
use bytes::Bytes;
use http::{HeaderMap, Uri};
use serde_json::Value;
use url::Url;

use crate::audience::{Audience, audience};
use crate::caller::Caller;
use crate::extension::{Extensions, is_for};
use crate::signature::signed;
use crate::v03;
use crate::version::Version;
use crate::wire::{AgentCapabilities, AgentCard, AgentInterface, AgentSkill};

/// The path of the card, below the agent's URL.
pub const WELL_KNOWN: &str = "/.well-known/agent-card.json";
/// A card changes with a restart only; a minute is short enough for a client that keeps it.
pub(crate) const CACHE_CONTROL: &str = "public, max-age=60";
/// What a card depends on that has two addresses.
pub(crate) const VARY: &str = "host, forwarded, x-forwarded-host, x-forwarded-for";
/// The name of the security scheme in the card.
const SCHEME: &str = "spiffe";
/// What the card says of it.
const SCHEME_DESCRIPTION: &str = "A client certificate with a SPIFFE ID that this agent lists as a principal";
/// The media types that a message may hold: text, and data, which reaches the model as JSON.
const INPUT_MODES: [&str; 2] = ["text/plain", "application/json"];
/// The media types of artifacts.
const OUTPUT_MODES: [&str; 1] = ["text/plain"];

/// What the card says.
#[derive(Debug, Clone, PartialEq)]
pub struct CardConfig {
    /// The agent's name.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// The version of the program.
    pub version: String,
    /// Where callers reach it; never a wildcard address.
    pub url: Url,
    /// Where callers from outside reach it, if that is another way.
    pub external: Option<Url>,
    /// What it can do; none: it takes messages.
    pub skills: Vec<Skill>,
    /// Extensions that it declares.
    pub extensions: Vec<Extension>,
    /// Whether callers may be told of their tasks at a URL of theirs.
    pub push_notifications: bool,
    /// Whether callers need a client certificate (false in development mode).
    pub mutual_tls: bool,
}

/// The card of one agent, as each reader is shown it.
#[derive(Debug)]
pub struct Card {
    config: CardConfig,
    extensions: Extensions,
    signer: Option<IdentitySource>,
    public: Mutex<Public>,
    base_paths: Vec<String>,
}

/// The public cards of one moment.
#[derive(Debug)]
struct Public {
    /// What they are signed with.
    signed_by: Option<Arc<Svid>>,
    inside: Written,
    /// None where both audiences are shown the same.
    outside: Option<Written>,
}

/// A public card ready to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    body: Bytes,
    etag: String,
}

impl Card {
    /// Builds the card.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn new(config: CardConfig) -> Result<Self, serde_json::Error> {
        let extensions = Extensions::new(&config.extensions);
        // The longest first, so that none hides another.
        let mut base_paths: Vec<String> = [Some(&config.url), config.external.as_ref()]
            .into_iter()
            .flatten()
            .map(|url| url.path().trim_end_matches('/').to_owned())
            .collect();
        base_paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
        base_paths.dedup();
        let public = Public::new(&config, &extensions, None)?;
        Ok(Self {
            config,
            extensions,
            signer: None,
            public: Mutex::new(public),
            base_paths,
        })
    }

    /// The same, signed with the key of the moment.
    pub fn signed_by(self, source: IdentitySource) -> Self {
        Self {
            signer: Some(source),
            ..self
        }
    }

    /// The public card, as the sender of a request is shown it.
    pub(crate) fn public(&self, headers: &HeaderMap, uri: &Uri) -> Written {
        let mut public = self.public.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(svid) = self
            .signer
            .as_ref()
            .and_then(|source| source.current().svid.clone())
            && !public.signed_by.as_ref().is_some_and(|by| Arc::ptr_eq(by, &svid))
        {
            match Public::new(&self.config, &self.extensions, Some(svid)) {
                Ok(signed) => *public = signed,
                Err(error) => tracing::error!(event = "a2a.task.encode.fail", err = %error),
            }
        }
        match (&public.outside, audience(headers, uri, &self.config.url)) {
            (Some(outside), Audience::Outside) => outside.clone(),
            (Some(_), Audience::Inside) | (None, _) => public.inside.clone(),
        }
    }

    /// Whether it depends on the name by which it is asked for.
    pub(crate) fn varies(&self) -> bool {
        self.config.external.is_some()
    }

    /// The card with all that this caller may use.
    pub(crate) fn extended(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        uri: &Uri,
        version: Version,
    ) -> serde_json::Result<Value> {
        let audience = audience(headers, uri, &self.config.url);
        let card = build_card(&self.config, &self.extensions, audience, Some(caller));
        let card = match self
            .signer
            .as_ref()
            .and_then(|source| source.current().svid.clone())
        {
            Some(svid) => with_signature(card, &svid),
            None => card,
        };
        match version {
            Version::One => serde_json::to_value(card),
            Version::ZeroThree => with_members_before(&self.config, audience, &card),
        }
    }

    /// What a call may name, and must.
    pub(crate) fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The paths of the promised URLs without a slash at their end: requests arrive below them unless a proxy strips them.
    pub(crate) fn base_paths(&self) -> &[String] {
        &self.base_paths
    }
}

impl Public {
    fn new(
        config: &CardConfig,
        extensions: &Extensions,
        signed_by: Option<Arc<Svid>>,
    ) -> serde_json::Result<Self> {
        let written = |audience| {
            let mut card = build_card(config, extensions, audience, None);
            if let Some(svid) = &signed_by {
                card = with_signature(card, svid);
            }
            Written::new(&with_members_before(config, audience, &card)?)
        };
        let inside = written(Audience::Inside)?;
        let outside = match &config.external {
            Some(_) => Some(written(Audience::Outside)?),
            None => None,
        };
        Ok(Self {
            signed_by,
            inside,
            outside,
        })
    }
}

/// The card as it is when it cannot be signed, which the log says.
fn with_signature(card: AgentCard, svid: &Svid) -> AgentCard {
    signed(card.clone(), svid).unwrap_or_else(|error| {
        tracing::error!(event = "a2a.card.sign.fail", err = %error);
        card
    })
}

impl Written {
    fn new(card: &Value) -> serde_json::Result<Self> {
        let body = Bytes::from(serde_json::to_vec(card)?);
        let etag = format!("\"{}\"", agentd_base::digest::hex(&body));
        Ok(Self { body, etag })
    }

    /// The JSON.
    pub(crate) fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// The strong validator, in quotes.
    pub(crate) fn etag(&self) -> &str {
        &self.etag
    }

    /// Whether an `If-None-Match` value names this card.
    pub(crate) fn matches(&self, if_none_match: &str) -> bool {
        if_none_match.split(',').map(str::trim).any(|candidate| {
            candidate == "*" || candidate.strip_prefix("W/").unwrap_or(candidate) == self.etag
        })
    }
}

/// The addresses, that of the audience first.
fn urls(config: &CardConfig, audience: Audience) -> Vec<&Url> {
    let inside = Some(&config.url);
    let both = match audience {
        Audience::Inside => [inside, config.external.as_ref()],
        Audience::Outside => [config.external.as_ref(), inside],
    };
    both.into_iter().flatten().collect()
}

/// A card of 1.0 that a reader of 0.3 can read too.
fn with_members_before(
    config: &CardConfig,
    audience: Audience,
    card: &AgentCard,
) -> serde_json::Result<Value> {
    let mut card = serde_json::to_value(card)?;
    if let Value::Object(card) = &mut card {
        let urls = urls(config, audience);
        let urls: Vec<&str> = urls.into_iter().map(Url::as_str).collect();
        let scheme = config.mutual_tls.then_some((SCHEME, SCHEME_DESCRIPTION));
        v03::card::add(card, &urls, scheme);
    }
    Ok(card)
}

/// The URL of a listener for which none is configured: a wildcard address becomes the loopback of its family.
pub fn url_of(scheme: &str, bound: SocketAddr) -> Result<Url, url::ParseError> {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    Url::parse(&format!("{scheme}://{}/", SocketAddr::new(ip, bound.port())))
}

fn build_card(
    config: &CardConfig,
    extensions: &Extensions,
    audience: Audience,
    caller: Option<&Caller>,
) -> AgentCard {
    let scheme = SecurityScheme::MutualTls(MutualTlsSecurityScheme {
        description: Some(SCHEME_DESCRIPTION.into()),
    });
    AgentCard {
        name: config.name.clone(),
        description: config.description.clone(),
        version: config.version.clone(),
        supported_interfaces: interfaces(&urls(config, audience)),
        capabilities: AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(config.push_notifications),
            extensions: extensions.shown(caller),
            extended_agent_card: Some(true),
        },
        default_input_modes: INPUT_MODES.map(str::to_owned).to_vec(),
        default_output_modes: OUTPUT_MODES.map(str::to_owned).to_vec(),
        skills: skills(config, caller),
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: config
            .mutual_tls
            .then(|| HashMap::from([(SCHEME.into(), scheme)])),
        security_requirements: config
            .mutual_tls
            .then(|| vec![HashMap::from([(SCHEME.into(), Vec::new())])]),
        signatures: None,
    }
}

fn interfaces(urls: &[&Url]) -> Vec<AgentInterface> {
    let of_one = urls.iter().flat_map(|url| {
        [
            AgentInterface::new(url.as_str(), TRANSPORT_PROTOCOL_JSONRPC),
            // Callers append paths that begin with a slash.
            AgentInterface::new(url.as_str().trim_end_matches('/'), TRANSPORT_PROTOCOL_HTTP_JSON),
        ]
    });
    // Last, so that whoever speaks both takes the newer.
    let before = urls.iter().map(|url| AgentInterface {
        protocol_version: Version::ZeroThree.name().into(),
        ..AgentInterface::new(url.as_str(), TRANSPORT_PROTOCOL_JSONRPC)
    });
    of_one.chain(before).collect()
}

/// Those that a reader is told of.
fn skills(config: &CardConfig, caller: Option<&Caller>) -> Vec<AgentSkill> {
    let skill = |id: &str, name: &str, description: &str| AgentSkill {
        id: id.to_owned(),
        name: name.to_owned(),
        description: description.to_owned(),
        tags: Vec::new(),
        examples: None,
        input_modes: None,
        output_modes: None,
        security_requirements: None,
    };
    if config.skills.is_empty() {
        return vec![AgentSkill {
            tags: vec!["agent".into()],
            ..skill("message", &config.name, &config.description)
        }];
    }
    let shown = config.skills.iter().filter(|one| is_for(one.role, caller));
    shown
        .map(|one| AgentSkill {
            tags: one.tags.clone(),
            examples: (!one.examples.is_empty()).then(|| one.examples.clone()),
            ..skill(&one.id, &one.name, &one.description)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use agentd_config::document::{Principal, Role};

    use super::*;
    use crate::caller::Principals;

    fn config() -> CardConfig {
        CardConfig {
            name: "helper".into(),
            description: "Helps.".into(),
            version: "0.1.0".into(),
            url: Url::parse("https://helper-agent.team.svc:8443/").unwrap(),
            external: None,
            skills: Vec::new(),
            extensions: Vec::new(),
            push_notifications: false,
            mutual_tls: true,
        }
    }

    fn shown(card: &Card, host: &str) -> Value {
        let uri: Uri = format!("https://{host}/").parse().unwrap();
        serde_json::from_slice(&card.public(&HeaderMap::new(), &uri).body()).unwrap()
    }

    fn caller(role: Role) -> Caller {
        let spiffe_id = "spiffe://td/ns/a/sa/alice";
        let principals = Principals::new(&[Principal::with_spiffe_id("alice", spiffe_id, role)]);
        principals.caller(&spiffe_id.parse().unwrap()).unwrap().clone()
    }

    #[test]
    fn promises_what_is_there_and_nothing_else() {
        let card = Card::new(config()).unwrap();
        assert!(!card.varies());
        assert_eq!(
            shown(&card, "helper-agent.team.svc:8443"),
            serde_json::json!({
                "name": "helper",
                "description": "Helps.",
                "version": "0.1.0",
                "supportedInterfaces": [{
                    "url": "https://helper-agent.team.svc:8443/",
                    "protocolBinding": "JSONRPC",
                    "protocolVersion": "1.0",
                }, {
                    "url": "https://helper-agent.team.svc:8443",
                    "protocolBinding": "HTTP+JSON",
                    "protocolVersion": "1.0",
                }, {
                    "url": "https://helper-agent.team.svc:8443/",
                    "protocolBinding": "JSONRPC",
                    "protocolVersion": "0.3",
                }],
                "protocolVersion": "0.3.0",
                "url": "https://helper-agent.team.svc:8443/",
                "preferredTransport": "JSONRPC",
                "additionalInterfaces": [{ "url": "https://helper-agent.team.svc:8443/", "transport": "JSONRPC" }],
                "supportsAuthenticatedExtendedCard": true,
                "capabilities": { "streaming": true, "pushNotifications": false, "extendedAgentCard": true },
                "defaultInputModes": ["text/plain", "application/json"],
                "defaultOutputModes": ["text/plain"],
                "skills": [{ "id": "message", "name": "helper", "description": "Helps.", "tags": ["agent"] }],
                "securitySchemes": { "spiffe": {
                    "mtlsSecurityScheme": { "description": SCHEME_DESCRIPTION },
                    "type": "mutualTLS",
                    "description": SCHEME_DESCRIPTION,
                } },
                "security": [{ "spiffe": [] }],
                "securityRequirements": [{ "schemes": { "spiffe": { "list": [] } } }],
            })
        );
    }

    #[test]
    fn validators() {
        let written = |config| {
            let public = Card::new(config).unwrap().public;
            public.into_inner().unwrap().inside
        };
        let card = written(config());
        let etag = card.etag().to_owned();
        assert!(card.matches(&etag));
        assert!(card.matches(&format!("W/{etag}")));
        assert!(card.matches(&format!("\"x\", {etag}")));
        assert!(card.matches("*"));
        assert!(!card.matches("\"x\""));
        assert!(!card.matches(""));
        let other = written(CardConfig {
            name: "other".into(),
            ..config()
        });
        assert_ne!(other.etag(), etag);
    }

    #[test]
    fn field_a05_each_audience_finds_the_address_that_is_true_for_it_first() {
        let card = Card::new(CardConfig {
            external: Some(Url::parse("https://agents.example/helper").unwrap()),
            ..config()
        })
        .unwrap();
        assert!(card.varies());
        assert_eq!(card.base_paths(), ["/helper", ""]);
        let (inside, outside) = (
            "https://helper-agent.team.svc:8443/",
            "https://agents.example/helper",
        );
        for (host, first, second) in [
            ("helper-agent.team.svc:8443", inside, outside),
            ("agents.example", outside, inside),
        ] {
            let shown = shown(&card, host);
            let interfaces = shown["supportedInterfaces"].as_array().unwrap();
            let urls: Vec<_> = interfaces
                .iter()
                .map(|one| {
                    (
                        one["url"].as_str().unwrap(),
                        one["protocolVersion"].as_str().unwrap(),
                    )
                })
                .collect();
            let bare = |url: &'static str| url.trim_end_matches('/');
            assert_eq!(
                urls,
                [
                    (first, "1.0"),
                    (bare(first), "1.0"),
                    (second, "1.0"),
                    (bare(second), "1.0"),
                    (first, "0.3"),
                    (second, "0.3"),
                ]
            );
            assert_eq!(shown["url"], first);
            assert_eq!(shown["additionalInterfaces"][0]["url"], first);
            assert_eq!(shown["additionalInterfaces"][1]["url"], second);
        }
    }

    #[test]
    fn the_extended_card_tells_each_caller_what_is_there_for_it() {
        let skill = |id: &str, role| Skill {
            id: id.into(),
            name: id.into(),
            description: "Does it.".into(),
            tags: vec!["t".into()],
            examples: vec!["do".into()],
            role,
        };
        let extension = |uri: &str, role| Extension {
            uri: uri.into(),
            role,
            ..Extension::default()
        };
        let card = Card::new(CardConfig {
            skills: vec![skill("all", None), skill("ops", Some(Role::Operator))],
            extensions: vec![
                extension("urn:all", None),
                extension("urn:ops", Some(Role::Operator)),
            ],
            ..config()
        })
        .unwrap();
        let ids = |card: &Value| -> Vec<String> {
            let of = |list: &Value, member: &str| -> Vec<String> {
                let all = list.as_array().into_iter().flatten();
                all.map(|one| one[member].as_str().unwrap().to_owned()).collect()
            };
            [
                of(&card["skills"], "id"),
                of(&card["capabilities"]["extensions"], "uri"),
            ]
            .concat()
        };
        let extended = |role, version| {
            let uri = Uri::from_static("/");
            card.extended(&caller(role), &HeaderMap::new(), &uri, version)
                .unwrap()
        };
        assert_eq!(ids(&shown(&card, "x")), ["all", "urn:all"]);
        let own = crate::command::URI;
        assert_eq!(ids(&extended(Role::User, Version::One)), ["all", "urn:all", own]);
        let whole = extended(Role::Operator, Version::One);
        assert_eq!(ids(&whole), ["all", "ops", "urn:all", "urn:ops", own]);
        // Readers of 1.0 know no member of 0.3, and those of 0.3 need theirs.
        assert_eq!(whole.get("preferredTransport"), None);
        let before = extended(Role::Operator, Version::ZeroThree);
        assert_eq!(before["preferredTransport"], "JSONRPC");
        assert_eq!(ids(&before), ids(&whole));
    }

    #[test]
    fn no_card_promises_a_wildcard_address() {
        assert_eq!(
            url_of("https", "0.0.0.0:8443".parse().unwrap()).unwrap().as_str(),
            "https://127.0.0.1:8443/"
        );
        assert_eq!(
            url_of("https", "[::]:8443".parse().unwrap()).unwrap().as_str(),
            "https://[::1]:8443/"
        );
        assert_eq!(
            url_of("http", "127.0.0.1:80".parse().unwrap()).unwrap().as_str(),
            "http://127.0.0.1/"
        );
    }
}
