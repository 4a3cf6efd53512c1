//! The wire between a holder of a ServiceAccount token and the issuer: `POST /v1/svid`, JSON, the token in
//! `Authorization: Bearer`. The caller knows the server by its SPIFFE ID, never by a DNS name.

use serde::{Deserialize, Serialize};

/// The path of the request.
pub const PATH: &str = "/v1/svid";
/// The port of the issuer's Service and container.
pub const PORT: u16 = 8443;

/// Asks for an X.509-SVID. Which ID and which names it gets is the issuer's decision; the CSR carries only the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SvidRequest {
    /// A PKCS#10 request, PEM, at most [`crate::limit::CSR_BYTES`].
    pub csr: String,
}

/// What was issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SvidResponse {
    /// The ID in the certificate.
    pub spiffe_id: String,
    /// Leaf first, PEM; without the root.
    pub certificates: String,
    /// The trust domain's bundle, PEM.
    pub bundle: String,
    /// When the leaf ends, RFC 3339.
    pub expires_at: jiff::Timestamp,
}

/// Why not. `reason` is one of the constants below, `message` a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// CamelCase.
    pub reason: String,
    /// Names the object and the remedy.
    pub message: String,
}
