//! How a destination proves who it is, and how we do: web roots that are ours (bundled and from files, never the
//! platform's), or a SPIFFE ID. Files are read again when they changed, at the next request; a file that became
//! unusable leaves what was read before in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use agentd_identity::{IdentitySource, SpiffeId, from_pem};
use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::error::NetError;

/// A certificate file: the largest public bundle is a quarter of this.
const FILE_BYTES: u64 = 1024 * 1024;

/// How a destination is trusted.
#[derive(Clone)]
pub enum TlsMode {
    /// The bundled web roots and the given ones; the certificate must name the host.
    WebRoots(WebRoots),
    /// Mutual TLS inside the trust domain: the server is exactly `expected`, we show our SVID.
    Spiffe {
        /// Ours.
        source: IdentitySource,
        /// The server's.
        expected: SpiffeId,
    },
    /// The server is exactly `expected`; we show no certificate.
    SpiffeServerOnly {
        /// Has the bundle.
        source: IdentitySource,
        /// The server's.
        expected: SpiffeId,
    },
}

/// Trust and identity from files.
#[derive(Debug, Clone, Default)]
pub struct WebRoots {
    /// PEM files with roots, added to the bundled ones.
    pub ca_files: Vec<PathBuf>,
    /// Client certificate chain and key, PEM.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// The name in SNI and in the certificate when it is not the host; a DNS name.
    pub server_name: Option<String>,
}

impl Default for TlsMode {
    fn default() -> Self {
        Self::WebRoots(WebRoots::default())
    }
}

impl TlsMode {
    /// The name that the connection asks for in place of the host.
    pub(crate) fn server_name(&self) -> Option<&str> {
        match self {
            Self::WebRoots(roots) => roots.server_name.as_deref(),
            Self::Spiffe { .. } | Self::SpiffeServerOnly { .. } => None,
        }
    }
}

/// A rustls config and what is behind it.
pub(crate) struct Tls {
    pub(crate) config: ClientConfig,
    material: Material,
}

/// What must be there before a connection is tried.
enum Material {
    Files(Arc<Files>),
    Svid(IdentitySource),
    Bundle(IdentitySource),
}

impl Tls {
    /// Builds the config; reads no file yet.
    pub(crate) fn new(mode: &TlsMode) -> Result<Self, NetError> {
        match mode {
            TlsMode::Spiffe { source, expected } => Ok(Self {
                config: agentd_identity::tls::client_config(source, expected.clone()),
                material: Material::Svid(source.clone()),
            }),
            TlsMode::SpiffeServerOnly { source, expected } => Ok(Self {
                config: agentd_identity::tls::client_config_without_svid(source, expected.clone()),
                material: Material::Bundle(source.clone()),
            }),
            TlsMode::WebRoots(roots) => Self::web(roots.clone()),
        }
    }

    /// Reads files that changed; says what is missing before a peer would say it less clearly.
    pub(crate) fn ready(&self) -> Result<(), NetError> {
        let missing = |what: &str| Err(NetError::Credential(format!("this process has no {what} yet")));
        match &self.material {
            Material::Files(files) => files.refresh(),
            Material::Svid(source) if source.current().svid.is_none() => missing("SVID"),
            Material::Svid(source) | Material::Bundle(source) if source.current().bundle.is_none() => {
                missing("trust bundle")
            }
            Material::Svid(_) | Material::Bundle(_) => Ok(()),
        }
    }

    fn web(roots: WebRoots) -> Result<Self, NetError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let files = Arc::new(Files::new(roots, provider.clone())?);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| NetError::Invalid(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(files.clone())
            .with_client_cert_resolver(files.clone());
        // A resumed session is not verified again, so roots that were taken away would live on.
        config.resumption = Resumption::disabled();
        Ok(Self {
            config,
            material: Material::Files(files),
        })
    }
}

/// What tells one state of a file from another without reading it.
type Stamp = Vec<Option<(SystemTime, u64, u64)>>;

/// What was read, and from which state of the files.
struct Files {
    roots: WebRoots,
    provider: Arc<CryptoProvider>,
    stamp: ArcSwapOption<Stamp>,
    verifier: ArcSwap<WebPkiServerVerifier>,
    own: ArcSwapOption<CertifiedKey>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("roots", &self.roots)
            .finish_non_exhaustive()
    }
}

impl Files {
    fn new(roots: WebRoots, provider: Arc<CryptoProvider>) -> Result<Self, NetError> {
        let verifier = verifier(bundled(), &provider)?;
        Ok(Self {
            roots,
            provider,
            stamp: ArcSwapOption::empty(),
            verifier: ArcSwap::new(verifier),
            own: ArcSwapOption::empty(),
        })
    }

    fn refresh(&self) -> Result<(), NetError> {
        let stamp = self.stamp();
        let before = self.stamp.load_full();
        if before.as_deref() == Some(&stamp) {
            return Ok(());
        }
        match self.read() {
            Ok((verifier, own)) => {
                self.verifier.store(verifier);
                self.own.store(own);
                self.stamp.store(Some(Arc::new(stamp)));
                Ok(())
            }
            Err(error) if before.is_some() => {
                tracing::warn!(event = "net.tls.files.rejected", err = %error, "keeping what was read before");
                self.stamp.store(Some(Arc::new(stamp)));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn stamp(&self) -> Stamp {
        use std::os::unix::fs::MetadataExt as _;
        let own = self
            .roots
            .client_certificate
            .iter()
            .flat_map(|(chain, key)| [chain, key]);
        self.roots
            .ca_files
            .iter()
            .chain(own)
            .map(|path| std::fs::metadata(path).ok())
            .map(|meta| meta.and_then(|meta| Some((meta.modified().ok()?, meta.len(), meta.ino()))))
            .collect()
    }

    fn read(&self) -> Result<(Arc<WebPkiServerVerifier>, Option<Arc<CertifiedKey>>), NetError> {
        let mut store = bundled();
        for path in &self.roots.ca_files {
            let certificates = certificates(path)?;
            for certificate in certificates {
                store
                    .add(certificate)
                    .map_err(|error| unusable(path, &error.to_string()))?;
            }
        }
        let own = match &self.roots.client_certificate {
            None => None,
            Some((chain, key)) => Some(Arc::new(self.certified(chain, key)?)),
        };
        Ok((verifier(store, &self.provider)?, own))
    }

    fn certified(&self, chain: &Path, key: &Path) -> Result<CertifiedKey, NetError> {
        let certificates = certificates(chain)?;
        let key_der =
            from_pem::private_key(&read_bounded(key)?).map_err(|error| unusable(key, &error.to_string()))?;
        CertifiedKey::from_der(certificates, key_der, &self.provider)
            .map_err(|error| unusable(key, &format!("does not fit {}: {error}", chain.display())))
    }
}

fn bundled() -> RootCertStore {
    RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    }
}

fn verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, NetError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| NetError::Invalid(error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let bytes = read_bounded(path)?;
    let list = from_pem::certificates(&bytes).map_err(|error| unusable(path, &error.to_string()))?;
    if list.is_empty() {
        return Err(unusable(path, "holds no PEM certificate"));
    }
    Ok(list)
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, NetError> {
    use std::io::Read as _;
    let file = open(path).map_err(|error| unusable(path, &error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unusable(path, &error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(unusable(path, "is longer than 1 MiB"));
    }
    Ok(bytes)
}

/// A regular file: a FIFO would keep a connection waiting for ever, a device has no end.
pub(crate) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    if std::fs::metadata(path)?.is_file() {
        std::fs::File::open(path)
    } else {
        Err(std::io::Error::other("is not a regular file"))
    }
}

fn unusable(path: &Path, why: &str) -> NetError {
    NetError::Credential(format!("certificate file {}: {why}", path.display()))
}

impl ServerCertVerifier for Files {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verifier
            .load()
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.load().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.load().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.load().supported_verify_schemes()
    }
}

impl ResolvesClientCert for Files {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.own.load_full()
    }

    fn has_certs(&self) -> bool {
        self.roots.client_certificate.is_some()
    }
}
