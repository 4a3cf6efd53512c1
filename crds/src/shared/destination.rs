//! What is said wherever something is dialled: url, headers, credentials, TLS, clocks. A credential is always a
//! reference to a Secret, never a string.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Duration, KeyReference, Opaque, TextSource};

/// A destination without its URL, which is called `url` or `endpoint` where it stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// Sent with each request. What carries a credential must use valueFrom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub headers: Vec<Header>,
    /// How requests are authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Roots, client certificate and name for TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// One model request, or an MCP handshake and each list page. Absent: 60s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// TCP and TLS. Absent: 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Duration>,
}

/// One header. Exactly one of value, valueFrom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.value) != has(self.valueFrom)")
    .message("exactly one of value, valueFrom"))]
pub struct Header {
    /// Its name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// A value that is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub value: Option<String>,
    /// A value from a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<SecretSource>,
}

/// Where a credential stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSource {
    /// A key of a Secret of this namespace. It is mounted into the pod and read at use.
    pub secret_key_ref: KeyReference,
}

/// How requests are authenticated. Exactly one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.static), has(self.oauth2), has(self.aws), has(self.aauth), has(self.spiffe)].exists_one(x, x)")
    .message("exactly one of static, oauth2, aws, aauth, spiffe"))]
pub struct Auth {
    /// A fixed credential.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub fixed: Option<StaticAuth>,
    /// OAuth 2.0 client credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<OAuth2Auth>,
    /// AWS request signing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<Opaque>,
    /// AAuth request signing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aauth: Option<Opaque>,
    /// A SPIFFE identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spiffe: Option<Opaque>,
}

/// A fixed credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticAuth {
    /// Sent as `Authorization: Bearer`.
    pub bearer: Bearer,
}

/// A bearer token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bearer {
    /// From a Secret.
    pub value_from: SecretSource,
}

/// A token by OAuth 2.0 client credentials (RFC 6749 section 4.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Auth {
    /// Who the pod is to the authorization server.
    #[serde(rename = "clientID")]
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// The client's secret.
    pub client_secret: ClientSecret,
    /// What is asked for. Absent: what the server's challenge names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub scopes: Vec<String>,
    /// Where tokens come from, over https. Absent: discovered from the server's challenge.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub token_endpoint: Option<String>,
    /// The authorization server that may be discovered, over https; another one is refused. Absent: whichever the server
    /// names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub issuer: Option<String>,
}

/// A client's secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientSecret {
    /// From a Secret.
    pub value_from: SecretSource,
}

/// TLS towards a destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientTls {
    /// PEM roots, added to the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<TextSource>,
    /// The certificate that the pod shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<ClientCertificate>,
    /// The name in the server's certificate, when it is not the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub server_name: Option<String>,
}

/// A client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificate {
    /// A Secret of type kubernetes.io/tls: keys tls.crt and tls.key.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: String,
}
