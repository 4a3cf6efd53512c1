//! What the authority signs, judged by OpenSSL, and what it refuses to sign.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::process::Command;
use std::time::Duration;

use agentd_identity::authority::{AuthorityError, Signed, draw_trust_domain};
use agentd_identity::request::new_key_and_csr;
use agentd_identity::verify::peer_svid;
use agentd_identity::{Authority, Snapshot, Svid};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, KeyUsagePurpose, PKCS_ED25519, SanType};
use support::*;

const TTL: Duration = Duration::from_secs(8 * 3600);

fn openssl(args: &[&str], folder: &std::path::Path) -> (bool, String) {
    let run = Command::new("openssl")
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = [run.stdout, run.stderr].concat();
    (run.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn authority() -> Authority {
    Authority::generate(&td(TD), now()).unwrap()
}

#[test]
fn openssl_accepts_what_was_signed_under_its_strictest_rules() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority();
    let (_, csr) = new_key_and_csr().unwrap();
    let names = [
        "triage-agent.support.svc".to_owned(),
        "triage-agent.support.svc.cluster.local".to_owned(),
    ];
    let signed = authority.sign_svid(&csr, &id(ALICE), &names, TTL, now()).unwrap();
    std::fs::write(folder.path().join("ca.pem"), authority.bundle().to_pem()).unwrap();
    std::fs::write(folder.path().join("leaf.pem"), &signed.chain_pem).unwrap();
    for purpose in ["sslserver", "sslclient"] {
        let args = [
            "verify",
            "-x509_strict",
            "-purpose",
            purpose,
            "-CAfile",
            "ca.pem",
            "leaf.pem",
        ];
        let (accepted, text) = openssl(&args, folder.path());
        assert!(accepted, "{text}");
    }
    let (_, text) = openssl(&["x509", "-in", "leaf.pem", "-noout", "-text"], folder.path());
    for wanted in [
        "X509v3 Key Usage: critical\n                Digital Signature\n",
        "CA:FALSE",
        "TLS Web Server Authentication, TLS Web Client Authentication",
        "X509v3 Authority Key Identifier",
        "X509v3 Subject Key Identifier",
        "URI:spiffe://example.org/ns/a/sa/alice, DNS:triage-agent.support.svc, DNS:triage-agent.support.svc.cluster.local",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    let (_, root) = openssl(&["x509", "-in", "ca.pem", "-noout", "-text"], folder.path());
    for wanted in [
        "X509v3 Key Usage: critical\n                Certificate Sign, CRL Sign\n",
        "CA:TRUE, pathlen:0",
        "URI:spiffe://example.org\n",
    ] {
        assert!(root.contains(wanted), "{wanted} is not in\n{root}");
    }
}

#[test]
fn requests_that_openssl_makes_are_signed() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority();
    for algorithm in [
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"][..],
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
        &["-newkey", "rsa:2048"],
    ] {
        let mut args = vec![
            "req", "-new", "-nodes", "-subj", "/CN=x", "-keyout", "key.pem", "-out", "csr.pem",
        ];
        args.extend_from_slice(algorithm);
        let (made, text) = openssl(&args, folder.path());
        assert!(made, "{text}");
        let csr = std::fs::read_to_string(folder.path().join("csr.pem")).unwrap();
        let key = std::fs::read(folder.path().join("key.pem")).unwrap();
        let signed = authority.sign_svid(&csr, &id(ALICE), &[], TTL, now()).unwrap();
        let svid = Svid::from_pem(signed.chain_pem.as_bytes(), &key, authority.bundle(), now()).unwrap();
        assert_eq!(svid.id(), &id(ALICE));
    }
    for (weak, why) in [
        (&["-newkey", "rsa:1024"][..], "2048"),
        (&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp256k1"], ""),
        (&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521"], ""),
        (&["-newkey", "ed25519"], ""),
    ] {
        let mut args = vec![
            "req", "-new", "-nodes", "-subj", "/CN=x", "-keyout", "key.pem", "-out", "csr.pem",
        ];
        args.extend_from_slice(weak);
        let (made, text) = openssl(&args, folder.path());
        assert!(made, "{text}");
        let csr = std::fs::read_to_string(folder.path().join("csr.pem")).unwrap();
        let refused = authority
            .sign_svid(&csr, &id(ALICE), &[], TTL, now())
            .unwrap_err();
        assert!(
            matches!(refused, AuthorityError::Csr(_)) && refused.to_string().contains(why),
            "{refused}"
        );
    }
}

#[test]
fn nothing_but_the_key_is_taken_from_a_request() {
    let authority = authority();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![uri_san(BOB), SanType::DnsName("evil.example".try_into().unwrap())];
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "evil.example");
    let csr = params.serialize_request(&key).unwrap().pem().unwrap();
    let signed = authority.sign_svid(&csr, &id(ALICE), &[], TTL, now()).unwrap();
    let svid = Svid::from_pem(
        signed.chain_pem.as_bytes(),
        key.serialize_pem().as_bytes(),
        authority.bundle(),
        now(),
    )
    .unwrap();
    assert_eq!(svid.id(), &id(ALICE));
    let der = String::from_utf8_lossy(svid.chain()[0].as_ref()).into_owned();
    assert!(!der.contains("evil"));
}

#[test]
fn a_request_that_its_key_did_not_sign_is_refused() {
    let authority = authority();
    let (_, csr) = new_key_and_csr().unwrap();
    let block = pem::parse(&csr).unwrap();
    let sign = |der: Vec<u8>| {
        let csr = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der));
        authority.sign_svid(&csr, &id(ALICE), &[], TTL, now())
    };
    let key_in = |signed: Signed| {
        let leaf = pem::parse(&signed.chain_pem).unwrap();
        let (_, leaf) = x509_parser::parse_x509_certificate(leaf.contents()).unwrap();
        leaf.public_key().subject_public_key.data.to_vec()
    };
    let proved = key_in(sign(block.contents().to_vec()).unwrap());
    let mut refused = 0;
    for at in 0..block.contents().len() {
        let mut changed = block.contents().to_vec();
        changed[at] ^= 0x20;
        // A few bytes around the request proper are not signed; what they say is not read either.
        match sign(changed) {
            Ok(signed) => assert_eq!(key_in(signed), proved, "byte {at}"),
            Err(error) => {
                assert!(matches!(error, AuthorityError::Csr(_)), "{error}");
                refused += 1;
            }
        }
    }
    assert!(
        refused + 4 > block.contents().len(),
        "only {refused} of {} bytes count",
        block.contents().len()
    );
    let mut longer = block.contents().to_vec();
    longer.push(0);
    assert!(sign(longer).is_err());
    for text in ["", "no pem", &"A".repeat(9000)] {
        assert!(matches!(
            authority.sign_svid(text, &id(ALICE), &[], TTL, now()),
            Err(AuthorityError::Csr(_))
        ));
    }
    let ed = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let csr = CertificateParams::default()
        .serialize_request(&ed)
        .unwrap()
        .pem()
        .unwrap();
    assert!(matches!(
        authority.sign_svid(&csr, &id(ALICE), &[], TTL, now()),
        Err(AuthorityError::Csr(_))
    ));
}

#[test]
fn life_is_bounded_by_the_root_and_by_a_day() {
    let authority = authority();
    let (_, csr) = new_key_and_csr().unwrap();
    let start = now();
    let end = |ttl, at| {
        authority
            .sign_svid(&csr, &id(ALICE), &[], ttl, at)
            .map(|signed| signed.expires_at)
    };
    assert_eq!(end(TTL, start).unwrap().as_second(), start.as_second() + 8 * 3600);
    assert_eq!(
        end(Duration::from_secs(30 * 24 * 3600), start)
            .unwrap()
            .as_second(),
        start.as_second() + 24 * 3600
    );
    let last_hour = authority.not_after() - hours(1);
    assert_eq!(end(TTL, last_hour).unwrap(), authority.not_after());
    assert_eq!(end(TTL, authority.not_after()), Err(AuthorityError::RootExpired));
}

#[test]
fn ids_and_names_are_checked_again_before_signing() {
    let authority = authority();
    let (_, csr) = new_key_and_csr().unwrap();
    let foreign = authority.sign_svid(&csr, &id("spiffe://other.org/a"), &[], TTL, now());
    assert!(matches!(foreign, Err(AuthorityError::TrustDomain { .. })));
    for bad in ["", "a b", "*", "a..b", "ä.svc", "-"] {
        let refused = authority.sign_svid(&csr, &id(ALICE), &[bad.to_owned()], TTL, now());
        assert!(matches!(refused, Err(AuthorityError::DnsName(_))), "{bad}");
    }
}

#[test]
fn two_certificates_never_share_a_serial_number() {
    let authority = authority();
    let (_, csr) = new_key_and_csr().unwrap();
    let serial = |_| {
        let signed = authority.sign_svid(&csr, &id(ALICE), &[], TTL, now()).unwrap();
        let block = pem::parse(&signed.chain_pem).unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(block.contents()).unwrap();
        assert_eq!(parsed.raw_serial().len(), 16);
        parsed.raw_serial().to_vec()
    };
    let serials: std::collections::BTreeSet<_> = (0..32).map(serial).collect();
    assert_eq!(serials.len(), 32);
}

#[test]
fn written_and_read_back_it_signs_the_same_and_wrong_pairs_are_refused() {
    let one = authority();
    let (certificate, key) = one.to_pem();
    let read = Authority::from_pem(td(TD), &certificate, &key).unwrap();
    let svid = read.own_svid(&id(ALICE), &[], TTL, now()).unwrap();
    let old = Snapshot {
        svid: None,
        bundle: Some(std::sync::Arc::new(one.bundle().clone())),
    };
    assert_eq!(peer_svid(svid.chain(), &old, now()), Ok(id(ALICE)));

    let (other_certificate, other_key) = authority().to_pem();
    let both = format!("{certificate}{other_certificate}");
    let (leaf, leaf_key) = (svid.chain_pem(), svid.key_pem());
    let (certificate, key) = (certificate.as_str(), key.as_str());
    for (td_text, certificate, key) in [
        (TD, certificate, other_key.as_str()),
        ("other.org", certificate, key),
        (TD, "", key),
        (TD, certificate, ""),
        (TD, both.as_str(), key),
        (TD, leaf.as_str(), leaf_key.as_str()),
    ] {
        let refused = Authority::from_pem(td(td_text), certificate, key).unwrap_err();
        assert!(matches!(refused, AuthorityError::Root(_)), "{refused}");
        assert!(!refused.to_string().contains("PRIVATE"));
    }
    assert!(!format!("{read:?}").contains("PRIVATE"));
}

#[test]
fn a_drawn_trust_domain_is_new_each_time_and_well_formed() {
    let drawn: std::collections::BTreeSet<_> = (0..64)
        .map(|_| draw_trust_domain().unwrap().to_string())
        .collect();
    assert_eq!(drawn.len(), 64);
    let seen: std::collections::BTreeSet<char> =
        drawn.iter().flat_map(|name| name.chars().take(16)).collect();
    assert_eq!(seen.len(), 36, "{seen:?}");
    for name in drawn {
        let (random, rest) = name.split_at(16);
        assert!(
            random
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()),
            "{name}"
        );
        assert_eq!(rest, ".agentd.internal");
    }
}
