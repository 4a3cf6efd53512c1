//! The built-in authority of one trust domain: a root key that signs X.509-SVIDs. From a request it takes the public
//! key alone; every name and every extension is the caller's decision or fixed here. Who may have which ID is not
//! decided here.

use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::limit::CSR_BYTES;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SanType, SerialNumber,
    SubjectPublicKeyInfo,
};
use rustls_pki_types::{CertificateDer, DnsName};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use x509_parser::public_key::PublicKey;
use zeroize::Zeroizing;

use crate::bundle::{Bundle, BundleError};
use crate::from_pem;
use crate::id::{SpiffeId, TrustDomain};
use crate::request::{RequestError, new_key_and_csr, random};
use crate::svid::{Svid, SvidError, certificates_to_pem};

/// How long a root lives. Rotation is a decision, not a deadline that passes in the night: ten years.
const ROOT_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
/// How far back a certificate begins, for peers whose clock is behind.
const BACKDATE: Duration = Duration::from_secs(60);
/// The longest life of an SVID: the upper bound.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 3600);
/// DNS names in one SVID: a Service has two, and bridges a few more at most.
const MAX_DNS_NAMES: usize = 16;
/// RSA keys outside this range are weak, or make every handshake slow.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;
/// 65537, the only exponent in use.
const RSA_EXPONENT: [u8; 3] = [1, 0, 1];
const KEY_KINDS: &str = "its key is none of EC P-256, EC P-384 and RSA";
const ORGANIZATION: &str = "agentd";

/// Why something was not signed, or why some bytes are no authority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The request is unusable: its sender must change it.
    #[error("the certificate request is unusable: {0}")]
    Csr(&'static str),
    /// Not of this trust domain.
    #[error("`{id}` is not of trust domain `{ours}`")]
    TrustDomain {
        /// What was asked for.
        id: SpiffeId,
        /// Ours.
        ours: TrustDomain,
    },
    /// A name that cannot stand in a certificate.
    #[error("`{0}` cannot be a DNS name in a certificate")]
    DnsName(String),
    /// The root has ended.
    #[error("the root certificate of this authority has expired")]
    RootExpired,
    /// The certificate or key of the authority is unusable.
    #[error("the authority's certificate or key is unusable: {0}")]
    Root(String),
    /// Signing failed.
    #[error("signing failed: {0}")]
    Signing(String),
}

impl Classified for AuthorityError {
    fn class(&self) -> Class {
        match self {
            Self::Csr(_) => Class::Invalid,
            Self::Root(_) | Self::RootExpired => Class::Unavailable,
            Self::TrustDomain { .. } | Self::DnsName(_) | Self::Signing(_) => Class::Internal,
        }
    }
}

impl From<RequestError> for AuthorityError {
    fn from(error: RequestError) -> Self {
        Self::Signing(error.to_string())
    }
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Signing(error.to_string())
    }
}

impl From<BundleError> for AuthorityError {
    fn from(error: BundleError) -> Self {
        Self::Root(error.to_string())
    }
}

impl From<SvidError> for AuthorityError {
    fn from(error: SvidError) -> Self {
        Self::Signing(error.to_string())
    }
}

/// A signed SVID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Leaf first, PEM, without the root.
    pub chain_pem: String,
    /// `notAfter` of the leaf.
    pub expires_at: Timestamp,
}

/// Root certificate and key of a trust domain.
pub struct Authority {
    bundle: Bundle,
    not_after: Timestamp,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new root: EC P-256, path length 0 (it signs leaves only), named by its trust domain.
    ///
    /// # Errors
    /// When the cryptography library fails.
    pub fn generate(trust_domain: &TrustDomain, now: Timestamp) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = base_params(now, now.checked_add(ROOT_LIFETIME).unwrap_or(Timestamp::MAX))?;
        params.distinguished_name.push(
            DnType::CommonName,
            trust_domain.as_str().chars().take(64).collect::<String>(),
        );
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.subject_alt_names = vec![SanType::URI(format!("spiffe://{trust_domain}").try_into()?)];
        let certificate = params.self_signed(&key)?;
        Self::of(trust_domain.clone(), certificate.der().clone(), key)
    }

    /// Reads what [`Authority::to_pem`] wrote, or a root of the user's own. One root; further certificates in the
    /// text are refused.
    ///
    /// # Errors
    /// When the certificate is not a CA's, is another trust domain's, or the key does not belong to it.
    pub fn from_pem(trust_domain: TrustDomain, certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let certificates = from_pem::certificates(certificate.as_bytes()).unwrap_or_default();
        let Ok([certificate]) = <[CertificateDer<'static>; 1]>::try_from(certificates) else {
            return Err(AuthorityError::Root(
                "tls.crt does not hold exactly one certificate".to_owned(),
            ));
        };
        // The library's text may show parts of what it read: never with a key.
        let key = KeyPair::from_pem(key)
            .map_err(|_| AuthorityError::Root("tls.key does not hold a usable private key".to_owned()))?;
        Self::of(trust_domain, certificate, key)
    }

    fn of(
        trust_domain: TrustDomain,
        root: CertificateDer<'static>,
        key: KeyPair,
    ) -> Result<Self, AuthorityError> {
        let error = |problem: &str| AuthorityError::Root(problem.to_owned());
        let (_, parsed) = X509Certificate::from_der(&root).map_err(|_| error("not DER of X.509"))?;
        let names = parsed
            .subject_alternative_name()
            .map_err(|_| error("malformed subjectAltName"))?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            if let GeneralName::URI(uri) = name
                && *uri != format!("spiffe://{trust_domain}")
            {
                return Err(error("its URI SAN names another trust domain"));
            }
        }
        let usage = parsed.key_usage().map_err(|_| error("malformed keyUsage"))?;
        if !parsed.is_ca() || usage.is_some_and(|usage| !usage.value.key_cert_sign()) {
            return Err(error("the certificate may not sign others"));
        }
        if parsed.public_key().subject_public_key.data.as_ref() != key.der_bytes() {
            return Err(error("the private key does not belong to the certificate"));
        }
        let not_after = Timestamp::from_second(parsed.validity().not_after.timestamp())
            .map_err(|_| error("malformed notAfter"))?;
        let bundle = Bundle::new(trust_domain, vec![root.clone()])?;
        let issuer = Issuer::from_ca_cert_der(&root, key).map_err(|e| AuthorityError::Root(e.to_string()))?;
        Ok(Self {
            bundle,
            not_after,
            issuer,
        })
    }

    /// Certificate and key (PKCS#8) in PEM: for the Secret that keeps them.
    pub fn to_pem(&self) -> (String, Zeroizing<String>) {
        (
            self.bundle.to_pem(),
            Zeroizing::new(self.issuer.key().serialize_pem()),
        )
    }

    /// Whose SVIDs this signs.
    pub fn trust_domain(&self) -> &TrustDomain {
        self.bundle.trust_domain()
    }

    /// This root as a bundle.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// When the root ends.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Signs an SVID for the key of `csr_pem`, from a minute before `now` to `ttl` after it, but never longer than
    /// the root. `id` and `dns_names` are what the caller decided; the request's own names are not read.
    ///
    /// # Errors
    /// [`AuthorityError::Csr`] when the request is not signed by its own key or the key is of a kind we refuse.
    pub fn sign_svid(
        &self,
        csr_pem: &str,
        id: &SpiffeId,
        dns_names: &[String],
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Signed, AuthorityError> {
        if id.trust_domain() != self.trust_domain() {
            return Err(AuthorityError::TrustDomain {
                id: id.clone(),
                ours: self.trust_domain().clone(),
            });
        }
        if now >= self.not_after {
            return Err(AuthorityError::RootExpired);
        }
        let public_key = requested_key(csr_pem)?;
        let end = now
            .checked_add(ttl.min(MAX_TTL))
            .unwrap_or(self.not_after)
            .min(self.not_after);

        let mut params = base_params(now, end)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names = vec![SanType::URI(id.to_string().try_into()?)];
        if dns_names.len() > MAX_DNS_NAMES {
            return Err(AuthorityError::Signing(format!(
                "more than {MAX_DNS_NAMES} DNS names"
            )));
        }
        for name in dns_names {
            let error =
                || AuthorityError::DnsName(agentd_base::text::clip(name, agentd_base::limit::FOREIGN_CHARS));
            DnsName::try_from(name.as_str()).map_err(|_| error())?;
            params
                .subject_alt_names
                .push(SanType::DnsName(name.clone().try_into().map_err(|_| error())?));
        }
        let certificate = params.signed_by(&public_key, &self.issuer)?;
        let expires_at = Timestamp::from_second(end.as_second()).unwrap_or(end);
        Ok(Signed {
            chain_pem: certificates_to_pem(&[certificate.der().clone()]),
            expires_at,
        })
    }

    /// An SVID for the process that holds this authority: issuer and controllers sign their own.
    ///
    /// # Errors
    /// As [`Authority::sign_svid`].
    pub fn own_svid(
        &self,
        id: &SpiffeId,
        dns_names: &[String],
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Svid, AuthorityError> {
        let (key, csr) = new_key_and_csr()?;
        let signed = self.sign_svid(&csr, id, dns_names, ttl, now)?;
        Ok(Svid::from_pem(
            signed.chain_pem.as_bytes(),
            key.as_bytes(),
            &self.bundle,
            now,
        )?)
    }
}

/// A trust domain that no other install has: 16 random characters (82 bits) under `agentd.internal`.
///
/// # Errors
/// When there are no random bytes.
pub fn draw_trust_domain() -> Result<TrustDomain, AuthorityError> {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    // Bytes from 252 on are dropped: with them the first four characters would come more often.
    let fair = |byte: &u8| usize::from(*byte) / ALPHABET.len() < 7;
    let mut name = String::new();
    while name.len() < 16 {
        let byte = random::<1>()?;
        let drawn = byte
            .iter()
            .filter(|byte| fair(byte))
            .filter_map(|byte| ALPHABET.get(usize::from(*byte) % 36));
        name.extend(drawn.map(|letter| char::from(*letter)));
    }
    format!("{name}.agentd.internal")
        .parse()
        .map_err(|e: crate::id::IdError| AuthorityError::Signing(e.to_string()))
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("bundle", &self.bundle)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// What root and leaf share: dates, a random serial, the organisation.
fn base_params(now: Timestamp, end: Timestamp) -> Result<CertificateParams, AuthorityError> {
    let time = |at: Timestamp| {
        time::OffsetDateTime::from_unix_timestamp(at.as_second())
            .map_err(|_| AuthorityError::Signing("a date out of range".to_owned()))
    };
    let mut params = CertificateParams::default();
    params.not_before = time(now.checked_sub(BACKDATE).unwrap_or(now))?;
    params.not_after = time(end)?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, ORGANIZATION);
    // 126 random bits; never negative, never zero, always 16 bytes.
    let mut serial = random::<16>()?;
    if let Some(first) = serial.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

/// The public key of a request, once the request proved that its sender holds the private one.
fn requested_key(csr_pem: &str) -> Result<SubjectPublicKeyInfo, AuthorityError> {
    if csr_pem.len() > CSR_BYTES {
        return Err(AuthorityError::Csr("it is too large"));
    }
    let block = pem::parse(csr_pem).map_err(|_| AuthorityError::Csr("it is not PEM"))?;
    if !matches!(block.tag(), "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST") {
        return Err(AuthorityError::Csr("it is not a PKCS#10 request"));
    }
    let (rest, csr) = X509CertificationRequest::from_der(block.contents())
        .map_err(|_| AuthorityError::Csr("it is not a PKCS#10 request"))?;
    if !rest.is_empty() {
        return Err(AuthorityError::Csr("bytes after the request"));
    }
    let key = &csr.certification_request_info.subject_pki;
    match key
        .parsed()
        .map_err(|_| AuthorityError::Csr("its key cannot be read"))?
    {
        PublicKey::EC(ec) if matches!(ec.key_size(), 256 | 384) => {}
        PublicKey::RSA(rsa) if RSA_BITS.contains(&rsa.key_size()) && rsa.exponent == RSA_EXPONENT => {}
        PublicKey::RSA(_) => {
            return Err(AuthorityError::Csr(
                "an RSA key has 2048 to 4096 bits and exponent 65537",
            ));
        }
        _ => return Err(AuthorityError::Csr(KEY_KINDS)),
    }
    let public_key = SubjectPublicKeyInfo::from_der(key.raw).map_err(|_| AuthorityError::Csr(KEY_KINDS))?;
    csr.verify_signature()
        .map_err(|_| AuthorityError::Csr("it is not signed by its own key"))?;
    Ok(public_key)
}
