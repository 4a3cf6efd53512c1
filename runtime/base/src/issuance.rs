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

/// Why not. `reason` is one of [`reason`], `message` a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// CamelCase.
    pub reason: String,
    /// Names the object and the remedy.
    pub message: String,
}

/// The reasons of a [`Refusal`], each with the HTTP status it comes with.
pub mod reason {
    /// 400: the body or the CSR is unusable.
    pub const BAD_REQUEST: &str = "BadRequest";
    /// 401: no token, or not a current ServiceAccount token with the issuer's audience.
    pub const TOKEN_INVALID: &str = "TokenInvalid";
    /// 403: the token's ServiceAccount was deleted, or deleted and made again.
    pub const SERVICE_ACCOUNT_GONE: &str = "ServiceAccountGone";
    /// 403: the token's pod was deleted, or another pod has its name now.
    pub const POD_GONE: &str = "PodGone";
    /// 403: the token's pod is being deleted or has finished.
    pub const POD_TERMINATING: &str = "PodTerminating";
    /// 403: the ServiceAccount is an Agent's or McpServer's, and the token names no pod.
    pub const POD_CLAIMS_MISSING: &str = "PodClaimsMissing";
    /// 403: the pod was not made for an Agent or McpServer that uses this ServiceAccount.
    pub const FOREIGN_POD: &str = "ForeignPod";
    /// 403: nothing of ours uses the ServiceAccount, and it is not labelled as a caller.
    pub const CALLER_NOT_LABELLED: &str = "CallerNotLabelled";
    /// 429: this ServiceAccount asked too often; `Retry-After` says when again.
    pub const RATE_LIMITED: &str = "RateLimited";
    /// 503: the issuer or the Kubernetes API cannot answer now.
    pub const UNAVAILABLE: &str = "Unavailable";
}
