//! What is added to a request at the last moment: headers and signatures, resolved for each request so that a rotated
//! secret is taken up without a restart. Signers see the final parts and the final body.

use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request};
use secrecy::{ExposeSecret as _, SecretString};

use crate::error::NetError;

/// Resolves a value each time it is used. The error is a sentence that names the secret, never its content.
pub type SecretValue = Arc<dyn Fn() -> Result<SecretString, String> + Send + Sync>;

/// Authenticates a request. Called last, once for each time the request goes out.
#[async_trait::async_trait]
pub trait RequestSigner: Send + Sync {
    /// Adds what the server wants to see.
    async fn sign(&self, parts: &mut request::Parts, body: &Bytes) -> Result<(), NetError>;

    /// The server refused what was signed: a 401 or 403. True where [`RequestSigner::sign`] would sign it better now,
    /// and the request goes out again: it was refused, so not even an unsafe one was carried out.
    ///
    /// # Errors
    /// When what it takes to sign better cannot be had; the caller gets this in place of the refusal.
    async fn refused(&self, _: &Refusal<'_>) -> Result<bool, NetError> {
        Ok(false)
    }
}

/// A request that the server refused.
#[derive(Debug)]
pub struct Refusal<'a> {
    /// Headers of the request as it was signed.
    pub sent: &'a HeaderMap,
    /// 401 or 403.
    pub status: StatusCode,
    /// Headers of the answer; `WWW-Authenticate` says what is missing.
    pub headers: &'a HeaderMap,
    /// How often this request was signed again already.
    pub round: u32,
}

/// `Authorization: Bearer …` with a fixed credential.
pub struct StaticSigner {
    bearer: SecretValue,
}

impl StaticSigner {
    /// A signer whose token is resolved at each request.
    pub fn bearer(token: SecretValue) -> Self {
        Self { bearer: token }
    }
}

#[async_trait::async_trait]
impl RequestSigner for StaticSigner {
    async fn sign(&self, parts: &mut request::Parts, _: &Bytes) -> Result<(), NetError> {
        let token = (self.bearer)().map_err(NetError::Credential)?;
        let value = SecretString::from(format!("Bearer {}", token.expose_secret()));
        parts
            .headers
            .insert(AUTHORIZATION, header_value(&AUTHORIZATION, &value)?);
        Ok(())
    }
}

/// A header value that logs do not show. Line breaks and other control characters are refused.
pub(crate) fn header_value(name: &HeaderName, value: &SecretString) -> Result<HeaderValue, NetError> {
    let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| {
        NetError::Credential(format!(
            "the value of header {name} has a line break or another control character"
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}
