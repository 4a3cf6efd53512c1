//! rustls configs over an [`IdentitySource`]. Each handshake reads the source, so a rotated SVID or bundle counts from
//! the next one on. Clients speak TLS 1.3 alone; servers take 1.2 from callers that have no better, if it binds its
//! secrets to the handshake (RFC 7627). No resumption, since a resumed session is not verified again. Names and
//! addresses are not checked: the SPIFFE ID is the identity of the peer.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ResolvesClientCert, Resumption};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoClientAuth, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{CommonState, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::id::SpiffeId;
use crate::leaf::Leaf;
use crate::provider;
use crate::source::IdentitySource;
use crate::verify::{VerifyError, peer_svid};

/// Whether a client must have an SVID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// Not asked for: callers prove themselves in another way, as they do to the issuer.
    NotRequested,
    /// Asked for; a client without one is let in, without an identity. One that does not verify ends the handshake.
    Requested,
    /// A client without one is turned away in the handshake.
    Required,
}

/// A client whose server must be exactly `expected`. It shows its SVID when the source has one and the server asks.
pub fn client_config(source: &IdentitySource, expected: SpiffeId) -> ClientConfig {
    client(source, expected, Arc::new(Own(source.clone())))
}

/// The same without showing an SVID: for the call that asks the issuer for one.
pub fn client_config_without_svid(source: &IdentitySource, expected: SpiffeId) -> ClientConfig {
    client(source, expected, Arc::new(Nothing))
}

/// A server that shows the source's SVID. Before there is one, every handshake fails.
pub fn server_config(source: &IdentitySource, client_auth: ClientAuth) -> ServerConfig {
    let verifier: Arc<dyn ClientCertVerifier> = match client_auth {
        ClientAuth::NotRequested => Arc::new(NoClientAuth),
        ClientAuth::Requested | ClientAuth::Required => Arc::new(ClientVerifier {
            source: source.clone(),
            client_auth,
        }),
    };
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(Own(source.clone())));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.require_ems = true;
    config
}

/// Who the peer of an established connection is; `None` for one without a certificate. Only for connections of the
/// configs above: their handshake has verified what is read here.
pub fn peer_id(connection: &CommonState) -> Option<SpiffeId> {
    let leaf = connection.peer_certificates()?.first()?;
    Leaf::parse(leaf).ok().map(|leaf| leaf.id)
}

fn client(source: &IdentitySource, expected: SpiffeId, own: Arc<dyn ResolvesClientCert>) -> ClientConfig {
    let mut config = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ServerVerifier {
            source: source.clone(),
            expected,
        }))
        .with_client_cert_resolver(own);
    config.resumption = Resumption::disabled();
    config
}

/// Checks that the server is exactly one ID.
#[derive(Debug)]
struct ServerVerifier {
    source: IdentitySource,
    expected: SpiffeId,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = verified(&self.source, end_entity, intermediates, now)?;
        if found != self.expected {
            return Err(VerifyError::Unexpected {
                expected: self.expected.clone(),
                found,
            }
            .into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Checks that a client's certificate, if it sends one, is an SVID of a trust domain whose bundle we hold.
#[derive(Debug)]
struct ClientVerifier {
    source: IdentitySource,
    client_auth: ClientAuth,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.client_auth == ClientAuth::Required
    }

    /// None: a client that chooses its certificate by issuer would else have to follow our rotations.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        verified(&self.source, end_entity, intermediates, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn verified(
    source: &IdentitySource,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<SpiffeId, VerifyError> {
    let mut chain = Vec::with_capacity(intermediates.len() + 1);
    chain.push(end_entity.clone());
    chain.extend_from_slice(intermediates);
    let now = i64::try_from(now.as_secs())
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::MAX);
    peer_svid(&chain, &source.current(), now)
}

/// Shows the source's SVID.
#[derive(Debug)]
struct Own(IdentitySource);

impl Own {
    fn certified(&self) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().svid.as_ref()?.certified().clone())
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.certified()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certified()
    }
}

/// Shows nothing.
#[derive(Debug)]
struct Nothing;

impl ResolvesClientCert for Nothing {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}
