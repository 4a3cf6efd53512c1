//! The public agent card: built once from what this instance really serves, with its validator for conditional
//! requests. It promises nothing that the listener does not do.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use a2a::{
    MutualTlsSecurityScheme, SecurityScheme, TRANSPORT_PROTOCOL_HTTP_JSON, TRANSPORT_PROTOCOL_JSONRPC,
};
use bytes::Bytes;
use serde_json::Value;
use url::Url;

use crate::v03;
use crate::version::Version;
use crate::wire::{AgentCapabilities, AgentCard, AgentInterface, AgentSkill};

/// The path of the card, below the agent's URL.
pub const WELL_KNOWN: &str = "/.well-known/agent-card.json";
/// A card changes with a restart only; a minute is short enough for a client that keeps it.
pub(crate) const CACHE_CONTROL: &str = "public, max-age=60";
/// The name of the security scheme in the card.
const SCHEME: &str = "spiffe";
/// What the card says of it.
const SCHEME_DESCRIPTION: &str = "A client certificate with a SPIFFE ID that this agent lists as a principal";
/// The media types that a message may hold: text, and data, which reaches the model as JSON.
const INPUT_MODES: [&str; 2] = ["text/plain", "application/json"];
/// The media types of artifacts.
const OUTPUT_MODES: [&str; 1] = ["text/plain"];

/// What the card says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardConfig {
    /// The agent's name.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// The version of the program.
    pub version: String,
    /// Where callers reach it; never a wildcard address.
    pub url: Url,
    /// Whether callers need a client certificate (false in development mode).
    pub mutual_tls: bool,
}

/// A card ready to serve.
#[derive(Debug, Clone)]
pub struct Card {
    body: Bytes,
    etag: String,
    base_path: String,
}

impl Card {
    /// Builds the card.
    pub fn new(config: &CardConfig) -> Result<Self, serde_json::Error> {
        let mut card = serde_json::to_value(build_card(config))?;
        if let Value::Object(card) = &mut card {
            let scheme = config.mutual_tls.then_some((SCHEME, SCHEME_DESCRIPTION));
            v03::card::add(card, config.url.as_str(), scheme);
        }
        let body = Bytes::from(serde_json::to_vec(&card)?);
        let etag = format!("\"{}\"", agentd_base::digest::hex(&body));
        let base_path = config.url.path().trim_end_matches('/').to_owned();
        Ok(Self {
            body,
            etag,
            base_path,
        })
    }

    /// The JSON.
    pub fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// The strong validator, in quotes.
    pub fn etag(&self) -> &str {
        &self.etag
    }

    /// The path of the promised URL without a slash at its end: requests arrive below it unless a proxy strips it.
    pub(crate) fn base_path(&self) -> &str {
        &self.base_path
    }

    /// Whether an `If-None-Match` value names this card.
    pub(crate) fn matches(&self, if_none_match: &str) -> bool {
        if_none_match.split(',').map(str::trim).any(|candidate| {
            candidate == "*" || candidate.strip_prefix("W/").unwrap_or(candidate) == self.etag
        })
    }
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

fn build_card(config: &CardConfig) -> AgentCard {
    let scheme = SecurityScheme::MutualTls(MutualTlsSecurityScheme {
        description: Some(SCHEME_DESCRIPTION.into()),
    });
    AgentCard {
        name: config.name.clone(),
        description: config.description.clone(),
        version: config.version.clone(),
        supported_interfaces: vec![
            AgentInterface::new(config.url.as_str(), TRANSPORT_PROTOCOL_JSONRPC),
            // Callers append paths that begin with a slash.
            AgentInterface::new(
                config.url.as_str().trim_end_matches('/'),
                TRANSPORT_PROTOCOL_HTTP_JSON,
            ),
            // Last, so that whoever speaks both takes the newer.
            AgentInterface {
                protocol_version: Version::ZeroThree.name().into(),
                ..AgentInterface::new(config.url.as_str(), TRANSPORT_PROTOCOL_JSONRPC)
            },
        ],
        capabilities: AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(false),
            extensions: None,
            extended_agent_card: Some(false),
        },
        default_input_modes: INPUT_MODES.map(str::to_owned).to_vec(),
        default_output_modes: OUTPUT_MODES.map(str::to_owned).to_vec(),
        skills: vec![AgentSkill {
            id: "message".into(),
            name: config.name.clone(),
            description: config.description.clone(),
            tags: vec!["agent".into()],
            examples: None,
            input_modes: None,
            output_modes: None,
            security_requirements: None,
        }],
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

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> CardConfig {
        CardConfig {
            name: "helper".into(),
            description: "Helps.".into(),
            version: "0.1.0".into(),
            url: Url::parse("https://helper-agent.team.svc:8443/").unwrap(),
            mutual_tls: true,
        }
    }

    #[test]
    fn promises_what_is_there_and_nothing_else() {
        let card = Card::new(&config()).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&card.body()).unwrap();
        assert_eq!(
            value,
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
                "supportsAuthenticatedExtendedCard": false,
                "capabilities": { "streaming": true, "pushNotifications": false, "extendedAgentCard": false },
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
        let card = Card::new(&config()).unwrap();
        let etag = card.etag().to_owned();
        assert!(card.matches(&etag));
        assert!(card.matches(&format!("W/{etag}")));
        assert!(card.matches(&format!("\"x\", {etag}")));
        assert!(card.matches("*"));
        assert!(!card.matches("\"x\""));
        assert!(!card.matches(""));
        let other = Card::new(&CardConfig {
            name: "other".into(),
            ..config()
        })
        .unwrap();
        assert_ne!(other.etag(), etag);
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
