//! Whole handshakes in memory: who gets in, who does not, and that a rotation is seen by the next handshake of the
//! very same configs.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use agentd_identity::tls::{ClientAuth, client_config, client_config_without_svid, peer_id, server_config};
use agentd_identity::verify::explain;
use agentd_identity::{IdentitySource, SpiffeId};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use support::*;

/// Runs a handshake and one byte in each direction. Ok: whom each side sees. Err: what the side that failed first says.
fn meet(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
) -> Result<(Option<SpiffeId>, Option<SpiffeId>), String> {
    let mut client =
        ClientConnection::new(client, "any.name".try_into().unwrap()).map_err(|e| e.to_string())?;
    let mut server = ServerConnection::new(server).map_err(|e| e.to_string())?;
    client.writer().write_all(b"c").unwrap();
    server.writer().write_all(b"s").unwrap();
    for _ in 0..8 {
        pass(&mut client, &mut server).map_err(|e| format!("server: {}", explain(&e)))?;
        pass(&mut server, &mut client).map_err(|e| format!("client: {}", explain(&e)))?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    let mut byte = [0];
    server.reader().read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"c");
    client.reader().read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"s");
    Ok((peer_id(&client), peer_id(&server)))
}

/// Moves everything from one side to the other; the error is the receiver's.
fn pass<A, B, S, T>(from: &mut A, to: &mut B) -> Result<(), rustls::Error>
where
    A: std::ops::DerefMut<Target = rustls::ConnectionCommon<S>>,
    B: std::ops::DerefMut<Target = rustls::ConnectionCommon<T>>,
    S: rustls::SideData,
    T: rustls::SideData,
{
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).unwrap();
    }
    let mut wire = wire.as_slice();
    while !wire.is_empty() {
        to.read_tls(&mut wire).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}

fn client(source: &IdentitySource, expected: &str) -> Arc<ClientConfig> {
    Arc::new(client_config(source, id(expected)))
}

fn server(source: &IdentitySource, auth: ClientAuth) -> Arc<ServerConfig> {
    Arc::new(server_config(source, auth))
}

#[test]
fn both_sides_learn_who_the_other_is() {
    let ca = Ca::new("ca");
    let (alice, bob) = (source(&ca, ALICE), source(&ca, BOB));
    for auth in [ClientAuth::Requested, ClientAuth::Required] {
        let met = meet(client(&alice, BOB), server(&bob, auth)).unwrap();
        assert_eq!(met, (Some(id(BOB)), Some(id(ALICE))));
    }
}

#[test]
fn a_server_that_is_somebody_else_is_refused() {
    let ca = Ca::new("ca");
    let (alice, bob) = (source(&ca, ALICE), source(&ca, BOB));
    let error = meet(client(&alice, ALICE), server(&bob, ClientAuth::Requested)).unwrap_err();
    assert!(error.contains("expected") && error.contains(BOB), "{error}");
    let other = Ca::new("other");
    let error = meet(
        client(&alice, BOB),
        server(&source(&other, BOB), ClientAuth::Requested),
    )
    .unwrap_err();
    assert!(error.starts_with("client:"), "{error}");
}

#[test]
fn requested_lets_a_client_without_certificate_in_and_required_does_not() {
    let ca = Ca::new("ca");
    let (alice, bob) = (source(&ca, ALICE), source(&ca, BOB));
    let anonymous = Arc::new(client_config_without_svid(&alice, id(BOB)));
    assert_eq!(
        meet(anonymous.clone(), server(&bob, ClientAuth::Requested)).unwrap(),
        (Some(id(BOB)), None)
    );
    let error = meet(anonymous, server(&bob, ClientAuth::Required)).unwrap_err();
    assert!(error.starts_with("server:"), "{error}");
    // A source that has no SVID yet is such a client too.
    let early = IdentitySource::new(td(TD));
    early.set_bundle(ca.bundle(TD)).unwrap();
    assert_eq!(
        meet(client(&early, BOB), server(&bob, ClientAuth::Requested)).unwrap(),
        (Some(id(BOB)), None)
    );
    // A server that does not ask sees none either.
    assert_eq!(
        meet(client(&alice, BOB), server(&bob, ClientAuth::NotRequested)).unwrap(),
        (Some(id(BOB)), None)
    );
}

#[test]
fn a_client_certificate_that_does_not_verify_ends_the_handshake() {
    let ca = Ca::new("ca");
    let bob = source(&ca, BOB);
    let other = Ca::new("other");
    // What the client holds is right in its own eyes: its bundle has both roots.
    let stranger = source(&ca, ALICE);
    let both = agentd_identity::Bundle::new(td(TD), vec![ca.root.clone(), other.root.clone()]).unwrap();
    stranger.set_svid(other.leaf(ALICE, |_| {}).svid(&both)).unwrap();
    let foreign = IdentitySource::new(td("other.org"));
    foreign.set_bundle(other.bundle("other.org")).unwrap();
    foreign
        .set_svid(
            other
                .leaf("spiffe://other.org/a", |_| {})
                .svid(&other.bundle("other.org")),
        )
        .unwrap();
    let mut foreign = client_config(&foreign, id(BOB));
    // It would not trust us either: let it, so that the server's judgement shows.
    foreign
        .dangerous()
        .set_certificate_verifier(Arc::new(TrustsAnyone));
    for auth in [ClientAuth::Requested, ClientAuth::Required] {
        let error = meet(client(&stranger, BOB), server(&bob, auth)).unwrap_err();
        assert!(error.starts_with("server:"), "{error}");
        let error = meet(Arc::new(foreign.clone()), server(&bob, auth)).unwrap_err();
        assert!(
            error.starts_with("server:") && error.contains("trust domain"),
            "{error}"
        );
    }
}

#[test]
fn rotation_is_seen_by_the_next_handshake_without_rebuilding_configs() {
    let ca = Ca::new("ca");
    let (alice, bob) = (source(&ca, ALICE), source(&ca, BOB));
    let (as_client, as_server) = (client(&alice, BOB), server(&bob, ClientAuth::Required));
    assert!(meet(as_client.clone(), as_server.clone()).is_ok());

    // New SVIDs.
    alice
        .set_svid(ca.leaf(ALICE, |_| {}).svid(&ca.bundle(TD)))
        .unwrap();
    bob.set_svid(ca.leaf(BOB, |_| {}).svid(&ca.bundle(TD))).unwrap();
    assert!(meet(as_client.clone(), as_server.clone()).is_ok());

    // A new root: first in the bundles, then in the SVIDs, then alone.
    let next = Ca::new("next");
    let both = agentd_identity::Bundle::new(td(TD), vec![ca.root.clone(), next.root.clone()]).unwrap();
    bob.set_bundle(both.clone()).unwrap();
    alice.set_svid(next.leaf(ALICE, |_| {}).svid(&both)).unwrap();
    assert!(meet(as_client.clone(), as_server.clone()).is_ok());
    bob.set_bundle(ca.bundle(TD)).unwrap();
    assert!(
        meet(as_client.clone(), as_server.clone()).is_err(),
        "the new root left the bundle again"
    );
    bob.set_bundle(next.bundle(TD)).unwrap();
    alice.set_bundle(both).unwrap();
    assert!(meet(as_client, as_server).is_ok());
}

#[test]
fn a_client_of_tls_1_2_is_judged_by_the_same_rules() {
    let ca = Ca::new("ca");
    let bob = source(&ca, BOB);
    let old = |shown: Option<&Ca>| {
        let config = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS12])
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustsAnyone));
        Arc::new(match shown {
            Some(ca) => {
                let svid = ca.leaf(ALICE, |_| {}).svid(&ca.bundle(TD));
                config
                    .with_client_auth_cert(svid.chain().to_vec(), svid.key().clone_key())
                    .unwrap()
            }
            None => config.with_no_client_auth(),
        })
    };
    let other = Ca::new("other");
    for auth in [ClientAuth::Requested, ClientAuth::Required] {
        let server = server(&bob, auth);
        let met = meet(old(Some(&ca)), server.clone()).unwrap();
        assert_eq!(met, (Some(id(BOB)), Some(id(ALICE))));
        let error = meet(old(Some(&other)), server.clone()).unwrap_err();
        assert!(error.starts_with("server:"), "{error}");
        let nobody = meet(old(None), server).map(|(_, seen)| seen);
        match auth {
            ClientAuth::Required => assert!(nobody.is_err(), "{nobody:?}"),
            _ => assert_eq!(nobody, Ok(None)),
        }
    }
}

#[test]
fn a_server_without_svid_answers_nobody() {
    let ca = Ca::new("ca");
    let empty = IdentitySource::new(td(TD));
    empty.set_bundle(ca.bundle(TD)).unwrap();
    assert!(
        meet(
            client(&source(&ca, ALICE), BOB),
            server(&empty, ClientAuth::Requested)
        )
        .is_err()
    );
}

#[derive(Debug)]
struct TrustsAnyone;

impl rustls::client::danger::ServerCertVerifier for TrustsAnyone {
    fn verify_server_cert(
        &self,
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &[rustls_pki_types::CertificateDer<'_>],
        _: &rustls_pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls_pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        vec![
            rustls::SignatureScheme::ECDSA_NISTP256_SHA256,
            rustls::SignatureScheme::RSA_PSS_SHA256,
        ]
    }
}
