//! What the verifier refuses, each with its own reason, and what a process refuses to take as its own SVID.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use agentd_identity::bundle::BundleError;
use agentd_identity::svid::SvidError;
use agentd_identity::verify::{VerifyError, peer_svid};
use agentd_identity::{Bundle, IdentitySource, Snapshot, SpiffeId, Svid};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType};
use rustls_pki_types::CertificateDer;
use support::*;

fn snapshot(bundle: Bundle) -> Snapshot {
    Snapshot {
        svid: None,
        bundle: Some(Arc::new(bundle)),
    }
}

fn check(ca: &Ca, uri: &str, spoil: impl FnOnce(&mut CertificateParams)) -> Result<SpiffeId, VerifyError> {
    peer_svid(
        &[ca.leaf(uri, spoil).certificate],
        &snapshot(ca.bundle(TD)),
        now(),
    )
}

#[test]
fn a_right_svid_with_dns_names_proves_its_id() {
    let ca = Ca::new("ca");
    let found = check(&ca, ALICE, |p| {
        p.subject_alt_names
            .push(SanType::DnsName("a.b.svc".try_into().unwrap()))
    });
    assert_eq!(found, Ok(id(ALICE)));
    assert_eq!(
        check(&ca, ALICE, |p| p.extended_key_usages.clear()),
        Ok(id(ALICE)),
        "EKU may be absent"
    );
    assert_eq!(
        check(&ca, ALICE, |p| p.is_ca = IsCa::NoCa),
        Ok(id(ALICE)),
        "basicConstraints may be absent"
    );
}

#[test]
fn a_chain_over_an_intermediate_verifies_only_with_it() {
    let ca = Ca::new("ca");
    let below = ca.intermediate("below");
    let leaf = below.leaf(ALICE, |_| {}).certificate;
    let bundle = snapshot(ca.bundle(TD));
    assert_eq!(
        peer_svid(&[leaf.clone(), below.root], &bundle, now()),
        Ok(id(ALICE))
    );
    assert_eq!(
        peer_svid(&[leaf], &bundle, now()),
        Err(VerifyError::UnknownIssuer(id(ALICE)))
    );
}

#[test]
fn a_foreign_ca_is_refused_even_with_our_cas_name() {
    let (ours, theirs) = (Ca::new("ca"), Ca::new("ca"));
    let leaf = theirs.leaf(ALICE, |_| {}).certificate;
    let refused = peer_svid(std::slice::from_ref(&leaf), &snapshot(ours.bundle(TD)), now()).unwrap_err();
    assert!(
        matches!(refused, VerifyError::UnknownIssuer(_) | VerifyError::Chain { .. }),
        "{refused}"
    );
    // Sending the foreign root along changes nothing.
    assert!(peer_svid(&[leaf, theirs.root], &snapshot(ours.bundle(TD)), now()).is_err());
    let self_signed = {
        let leaf = ours.leaf(ALICE, |_| {});
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![uri_san(ALICE)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.self_signed(&leaf.key).unwrap().der().clone()
    };
    assert!(peer_svid(&[self_signed], &snapshot(ours.bundle(TD)), now()).is_err());
}

#[test]
fn dates_are_checked() {
    let ca = Ca::new("ca");
    let past = check(&ca, ALICE, dates(now() - hours(2), now() - hours(1)));
    assert_eq!(past, Err(VerifyError::Expired(id(ALICE))));
    let future = check(&ca, ALICE, dates(now() + hours(1), now() + hours(2)));
    assert_eq!(future, Err(VerifyError::NotYetValid(id(ALICE))));
}

#[test]
fn exactly_one_uri_that_is_a_workloads_id() {
    let ca = Ca::new("ca");
    assert_eq!(
        check(&ca, ALICE, |p| p.subject_alt_names.push(uri_san(BOB))),
        Err(VerifyError::SeveralUris)
    );
    assert_eq!(
        check(&ca, ALICE, |p| p.subject_alt_names.push(uri_san(ALICE))),
        Err(VerifyError::SeveralUris)
    );
    assert_eq!(
        check(&ca, ALICE, |p| p.subject_alt_names.clear()),
        Err(VerifyError::NoUri)
    );
    let dns_only = check(&ca, ALICE, |p| {
        p.subject_alt_names = vec![SanType::DnsName("spiffe.example.org".try_into().unwrap())];
    });
    assert_eq!(dns_only, Err(VerifyError::NoUri));
    for bad in [
        "https://example.org/ns/a/sa/alice",
        "spiffe://example.org",
        "spiffe://example.org/",
        "spiffe://EXAMPLE.org/a",
    ] {
        assert!(
            matches!(check(&ca, bad, |_| {}), Err(VerifyError::Id(_))),
            "{bad}"
        );
    }
}

#[test]
fn a_signing_certificate_does_not_authenticate() {
    let ca = Ca::new("ca");
    let leaf = |p: &mut CertificateParams| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    assert_eq!(check(&ca, ALICE, leaf), Err(VerifyError::Authority));
    assert!(peer_svid(std::slice::from_ref(&ca.root), &snapshot(ca.bundle(TD)), now()).is_err());
    for extra in [KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign] {
        let refused = check(&ca, ALICE, |p| p.key_usages.push(extra));
        assert!(matches!(refused, Err(VerifyError::KeyUsage(_))), "{refused:?}");
    }
}

#[test]
fn key_usage_is_present_and_for_signatures() {
    let ca = Ca::new("ca");
    let absent = check(&ca, ALICE, |p| p.key_usages.clear());
    assert_eq!(absent, Err(VerifyError::KeyUsage("absent")));
    let other = check(&ca, ALICE, |p| {
        p.key_usages = vec![KeyUsagePurpose::KeyEncipherment]
    });
    assert!(matches!(other, Err(VerifyError::KeyUsage(_))), "{other:?}");
    for only in [
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ] {
        assert_eq!(
            check(&ca, ALICE, |p| p.extended_key_usages = vec![only]),
            Err(VerifyError::ExtendedKeyUsage)
        );
    }
}

#[test]
fn another_trust_domain_is_refused_even_when_our_ca_signed_it() {
    let ca = Ca::new("ca");
    let foreign = "spiffe://other.org/ns/a/sa/alice";
    let refused = check(&ca, foreign, |_| {});
    assert_eq!(
        refused,
        Err(VerifyError::ForeignTrustDomain {
            id: id(foreign),
            ours: td(TD)
        })
    );
}

#[test]
fn nothing_verifies_without_a_bundle_or_a_certificate() {
    let ca = Ca::new("ca");
    let leaf = ca.leaf(ALICE, |_| {}).certificate;
    assert_eq!(
        peer_svid(&[leaf], &Snapshot::default(), now()),
        Err(VerifyError::NoBundle)
    );
    assert_eq!(
        peer_svid(&[], &snapshot(ca.bundle(TD)), now()),
        Err(VerifyError::Absent)
    );
}

#[test]
fn a_bundle_holds_cas_and_only_those() {
    let ca = Ca::new("ca");
    let leaf = ca.leaf(ALICE, |_| {}).certificate;
    assert!(matches!(
        Bundle::new(td(TD), vec![leaf]),
        Err(BundleError::Root { index: 1, .. })
    ));
    assert_eq!(
        Bundle::from_pem(td(TD), b"no pem here").unwrap_err(),
        BundleError::Empty
    );
    let twice = format!("# a comment\n{0}\ntext between\n{0}", ca.bundle(TD).to_pem());
    let read = Bundle::from_pem(td(TD), twice.as_bytes()).unwrap();
    assert_eq!(read, ca.bundle(TD));
    assert!(
        Bundle::from_pem(
            td(TD),
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        )
        .is_err()
    );
}

#[test]
fn ones_own_svid_is_checked_as_a_peer_would_and_its_key_must_fit() {
    let ca = Ca::new("ca");
    let bundle = ca.bundle(TD);
    let good = ca.leaf(ALICE, |_| {});
    let svid = good.svid(&bundle);
    assert_eq!(svid.id(), &id(ALICE));
    let again = Svid::from_pem(
        svid.chain_pem().as_bytes(),
        svid.key_pem().as_bytes(),
        &bundle,
        now(),
    )
    .unwrap();
    assert_eq!((again.id(), again.expires_at()), (svid.id(), svid.expires_at()));

    let of = |leaf: &Leaf, key| Svid::new(vec![leaf.certificate.clone()], key, &bundle, now()).unwrap_err();
    let other = ca.leaf(ALICE, |_| {});
    assert_eq!(of(&good, other.private()), SvidError::KeyMismatch);
    let expired = ca.leaf(ALICE, dates(now() - hours(2), now() - hours(1)));
    assert_eq!(
        of(&expired, expired.private()),
        SvidError::Refused(VerifyError::Expired(id(ALICE)))
    );
    let foreign = Ca::new("other").leaf(ALICE, |_| {});
    assert!(matches!(
        of(&foreign, foreign.private()),
        SvidError::Refused(VerifyError::UnknownIssuer(_))
    ));
    assert!(matches!(
        Svid::from_pem(b"", b"", &bundle, now()),
        Err(SvidError::Key(_) | SvidError::Chain(_))
    ));
}

#[test]
fn a_key_is_never_shown() {
    let ca = Ca::new("ca");
    let source = source(&ca, ALICE);
    let key = source.current().svid.as_ref().unwrap().key_pem();
    let body: String = key.lines().nth(1).unwrap().chars().take(16).collect();
    let shown = format!("{source:?} {:?}", source.current());
    assert!(shown.contains("spiffe") || shown.contains("Svid"));
    assert!(!shown.contains(&body));
    assert!(!shown.contains("Pkcs8"));
}

#[test]
fn a_source_takes_its_own_trust_domain_and_wakes_only_for_changes() {
    let ca = Ca::new("ca");
    let source = IdentitySource::new(td("other.org"));
    assert!(source.set_bundle(ca.bundle(TD)).is_err());
    assert!(
        source
            .set_svid(ca.leaf(ALICE, |_| {}).svid(&ca.bundle(TD)))
            .is_err()
    );

    let source = IdentitySource::new(td(TD));
    let mut changes = source.subscribe();
    source.set_bundle(ca.bundle(TD)).unwrap();
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    source.set_bundle(ca.bundle(TD)).unwrap();
    assert!(!changes.has_changed().unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A peer's bytes are never a panic, and no changed byte keeps a certificate valid under another ID.
    #[test]
    fn a_damaged_certificate_proves_nothing_else(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        thread_local! {
            static FIXTURE: (Vec<u8>, Snapshot) = {
                let ca = Ca::new("ca");
                (ca.leaf(ALICE, |_| {}).certificate.to_vec(), snapshot(ca.bundle(TD)))
            };
        }
        FIXTURE.with(|(good, snapshot)| {
            let mut changed = good.clone();
            *at.get_mut(&mut changed) = byte;
            match peer_svid(&[CertificateDer::from(changed.clone())], snapshot, now()) {
                Ok(found) => {
                    prop_assert_eq!(&changed, good);
                    prop_assert_eq!(found, id(ALICE));
                }
                Err(error) => drop(error.to_string()),
            }
            changed.truncate(cut.index(changed.len()));
            prop_assert!(peer_svid(&[CertificateDer::from(changed)], snapshot, now()).is_err());
            Ok(())
        })?;
    }
}
