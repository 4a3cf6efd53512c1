//! Certificates of every right and wrong shape, made with rcgen directly and not with the crate under test.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

use agentd_identity::{Bundle, IdentitySource, SpiffeId, Svid, TrustDomain};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub const TD: &str = "example.org";
pub const ALICE: &str = "spiffe://example.org/ns/a/sa/alice";
pub const BOB: &str = "spiffe://example.org/ns/b/sa/bob";

pub fn td(text: &str) -> TrustDomain {
    text.parse().unwrap()
}

pub fn id(text: &str) -> SpiffeId {
    text.parse().unwrap()
}

pub fn now() -> Timestamp {
    Timestamp::now()
}

pub fn hours(count: i64) -> SignedDuration {
    SignedDuration::from_hours(count)
}

fn offset(at: Timestamp) -> time::OffsetDateTime {
    time::OffsetDateTime::from_unix_timestamp(at.as_second()).unwrap()
}

/// A CA outside the crate.
pub struct Ca {
    pub root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = params.self_signed(&key).unwrap().der().clone();
        Self {
            issuer: Issuer::new(params, key),
            root,
        }
    }

    pub fn bundle(&self, trust_domain: &str) -> Bundle {
        Bundle::new(td(trust_domain), vec![self.root.clone()]).unwrap()
    }

    /// Signs a leaf whose parameters the test may spoil.
    pub fn leaf(&self, uri: &str, spoil: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.not_before = offset(now() - hours(1));
        params.not_after = offset(now() + hours(1));
        params.subject_alt_names = vec![uri_san(uri)];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        spoil(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        Leaf { certificate, key }
    }

    /// A CA below this one.
    pub fn intermediate(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        Self {
            issuer: Issuer::new(params, key),
            root,
        }
    }
}

pub struct Leaf {
    pub certificate: CertificateDer<'static>,
    pub key: KeyPair,
}

impl Leaf {
    pub fn private(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.serialize_der().into())
    }

    pub fn svid(&self, bundle: &Bundle) -> Svid {
        Svid::new(vec![self.certificate.clone()], self.private(), bundle, now()).unwrap()
    }
}

pub fn uri_san(uri: &str) -> SanType {
    SanType::URI(uri.to_owned().try_into().unwrap())
}

pub fn dates(from: Timestamp, to: Timestamp) -> impl FnOnce(&mut CertificateParams) {
    move |params| {
        params.not_before = offset(from);
        params.not_after = offset(to);
    }
}

/// A source with this SVID and bundle.
pub fn source(ca: &Ca, uri: &str) -> IdentitySource {
    let source = IdentitySource::new(td(TD));
    source.set_bundle(ca.bundle(TD)).unwrap();
    source
        .set_svid(ca.leaf(uri, |_| {}).svid(&ca.bundle(TD)))
        .unwrap();
    source
}
