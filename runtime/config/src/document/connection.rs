//! What a document says about how something is reached: headers, credentials, TLS, clocks. Types only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentd_base::duration::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What any destination may say about its connection. Inlined where something is dialled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Connection {
    /// Header values may hold `{{secret:NAME}}` and `{{secret-file:PATH}}`. A literal under a credential-shaped name
    /// is refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How requests are authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Roots, client certificate, expected SPIFFE ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// How long a model may say nothing, before its answer and within it; handshake and each list page (MCP). Absent: 60 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// TCP and TLS. Absent: 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Duration>,
}

/// `auth`: exactly one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Auth {
    /// A fixed credential.
    Static(StaticAuth),
    /// A token by OAuth 2.0 client credentials. MCP servers only.
    #[serde(rename = "oauth2")]
    OAuth2(OAuth2Auth),
}

/// `auth.static`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StaticAuth {
    /// Sent as `Authorization: Bearer …`; a secret reference, never a literal.
    pub bearer: String,
}

/// `auth.oauth2`: the grant is `client_credentials` (RFC 6749 section 4.4).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuth2Auth {
    /// Who we are to the authorization server.
    pub client_id: String,
    /// A secret reference, never a literal. Exactly one of this and `client_key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// `private_key_jwt` (RFC 7523): a reference to a PKCS#8 PEM, P-256 (ES256) or RSA (RS256), never a literal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
    /// What is asked for. Empty: what the server's challenge or metadata names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Where tokens come from. Absent: discovered from the server's challenge (RFC 9728, then RFC 8414).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// The authorization server that may issue tokens; another one that is discovered is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What the token is for (RFC 8707). Absent: the server's endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// `tls` of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClientTls {
    /// PEM roots, added to the bundled ones; read again when the file changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Client certificate chain, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert_file: Option<PathBuf>,
    /// Its key, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key_file: Option<PathBuf>,
    /// The name in SNI and in the certificate when it is not the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The server is this SPIFFE ID of our trust domain: mutual TLS with the pod's SVID, no other root. Excludes the
    /// other keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spiffe_id: Option<String>,
}
