//! Certificates, keys, requests and IDs from files and from peers, whatever they hold: taken as they are, or refused in a
//! few words that show nothing of a key.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::sync::LazyLock;
use std::time::Duration;

use agentd_identity::request::new_key_and_csr;
use agentd_identity::{Authority, Bundle, SpiffeId, Svid, TrustDomain};
use agentd_noise::{Edits, changed_text, words};
use pem::Pem;
use proptest::prelude::*;

use support::{ALICE, Ca, TD, now, td};

/// Everything that is right, made once.
struct Right {
    bundle: Bundle,
    chain: Vec<u8>,
    key: Vec<u8>,
    authority: Authority,
    csr: Vec<u8>,
}

static RIGHT: LazyLock<Right> = LazyLock::new(|| {
    let ca = Ca::new("root");
    let leaf = ca.leaf(ALICE, |_| {});
    let written = |tag: &str, der: &[u8]| pem::encode(&Pem::new(tag, der)).into_bytes();
    Right {
        bundle: ca.bundle(TD),
        chain: written("CERTIFICATE", &leaf.certificate),
        key: leaf.key.serialize_pem().into_bytes(),
        authority: Authority::generate(&td(TD), now()).unwrap(),
        csr: new_key_and_csr().unwrap().1.into_bytes(),
    }
});

/// Bytes in PEM that were changed as they are, or in what they stand for.
fn spoiled(right: fn() -> Vec<u8>) -> BoxedStrategy<Vec<u8>> {
    (Edits::any(0..4), Edits::any(0..4))
        .prop_map(move |(inner, outer)| {
            let mut text = right();
            if let (false, Ok(block)) = (inner.is_empty(), pem::parse(&text)) {
                let mut der = block.contents().to_vec();
                inner.apply(&mut der);
                text = pem::encode(&Pem::new(block.tag(), der)).into_bytes();
            }
            outer.apply(&mut text);
            text
        })
        .boxed()
}

/// Nothing of a key is told: no run of characters that is long enough to mean something.
fn tells_no_key(said: &str, key: &[u8]) {
    words(said);
    let key = String::from_utf8_lossy(key);
    for line in key
        .lines()
        .filter(|line| line.len() >= 16 && !line.starts_with("-----"))
    {
        assert!(!said.contains(line.get(..16).unwrap_or(line)), "{said}");
    }
}

proptest! {
    #![proptest_config(agentd_noise::cases(128))]

    #[test]
    fn bundles(bytes in spoiled(|| RIGHT.bundle.to_pem().into_bytes())) {
        match Bundle::from_pem(td(TD), &bytes) {
            Ok(bundle) => {
                let again = Bundle::from_pem(td(TD), bundle.to_pem().as_bytes()).unwrap();
                prop_assert_eq!(again.roots(), bundle.roots());
            }
            Err(error) => words(&error.to_string()),
        }
    }

    /// An SVID that was read is one that its trust domain signed, and is the one that was written.
    #[test]
    fn svids(chain in spoiled(|| RIGHT.chain.clone()), key in spoiled(|| RIGHT.key.clone()), swap in any::<bool>()) {
        let key = if swap { RIGHT.key.clone() } else { key };
        match Svid::from_pem(&chain, &key, &RIGHT.bundle, now()) {
            Ok(svid) => {
                prop_assert_eq!(svid.id().to_string(), ALICE);
                prop_assert_eq!(svid.chain_pem().as_bytes().to_vec(), pem_of(&svid));
            }
            Err(error) => tells_no_key(&error.to_string(), &key),
        }
    }

    #[test]
    fn authorities(bytes in spoiled(|| RIGHT.authority.to_pem().0.into_bytes()), key in spoiled(|| RIGHT.authority.to_pem().1.as_bytes().to_vec())) {
        let (certificate, key_text) = (String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&key));
        match Authority::from_pem(td(TD), &certificate, &key_text) {
            Ok(read) => prop_assert_eq!(read.bundle().roots(), RIGHT.authority.bundle().roots()),
            Err(error) => tells_no_key(&error.to_string(), &key),
        }
    }

    /// Whatever asks, what is signed is the ID that was decided, and nothing that the request names.
    #[test]
    fn requests(bytes in spoiled(|| RIGHT.csr.clone())) {
        let id: SpiffeId = ALICE.parse().unwrap();
        let csr = String::from_utf8_lossy(&bytes);
        match RIGHT.authority.sign_svid(&csr, &id, &[], Duration::from_secs(3600), now()) {
            Ok(signed) => prop_assert!(signed.chain_pem.len() < 8 * 1024),
            Err(error) => words(&error.to_string()),
        }
    }

    #[test]
    fn ids_and_trust_domains(text in changed_text(&[ALICE, "spiffe://td/a.b-c_d/E", "example.org"])) {
        match text.parse::<SpiffeId>() {
            Ok(id) => {
                prop_assert!(text.len() <= 2048 && text.is_ascii());
                prop_assert_eq!(id.to_string(), text.clone());
            }
            Err(error) => words(&error.to_string()),
        }
        match text.parse::<TrustDomain>() {
            Ok(domain) => prop_assert_eq!(domain.as_str(), text),
            Err(error) => words(&error.to_string()),
        }
    }
}

fn pem_of(svid: &Svid) -> Vec<u8> {
    let blocks = svid
        .chain()
        .iter()
        .map(|der| pem::encode(&Pem::new("CERTIFICATE", der.to_vec())));
    blocks.collect::<String>().replace("\r\n", "\n").into_bytes()
}
