//! TLS of the listener: the SVID from `agentd-identity`, or given PEM files that are read again when they change. The
//! client certificate is asked for and never demanded: the card is public. It does not decide who may call.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use agentd_base::class::{Class, Classified};
use agentd_identity::tls::{ClientAuth, server_config};
use agentd_identity::{IdentitySource, from_pem};
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;

/// A chain of a handful of certificates and a key are far below this.
const PEM_BYTES: u64 = 256 * 1024;

/// Why given certificates cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {problem}; check `a2a.tls` and the mount")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// A file does not hold what it should.
    #[error("{path}: {problem}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        problem: String,
    },
}

impl Classified for TlsError {
    fn class(&self) -> Class {
        Class::Invalid
    }
}

/// Serves this process's SVID and asks callers for theirs.
pub fn svid(source: &IdentitySource) -> ServerConfig {
    server_config(source, ClientAuth::Requested)
}

/// Serves given certificates. With a source, callers are asked for an SVID of its trust domain; without one, no caller
/// can be told from another.
///
/// # Errors
/// When the files cannot be served now. Later, files that became unusable leave the ones before in use.
pub fn given(cert: &Path, key: &Path, source: Option<&IdentitySource>) -> Result<ServerConfig, TlsError> {
    let resolver = Arc::new(PemFiles::open(cert, key)?);
    let Some(source) = source else {
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(cert, &error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.send_tls13_tickets = 0;
        return Ok(config);
    };
    let mut config = svid(source);
    config.cert_resolver = resolver;
    Ok(config)
}

/// Serves, to whoever names this host in its handshake, the certificate of these files, and to all others what the config
/// serves already. Files that are not there yet are waited for: until then all are served the same.
pub fn by_name(config: &mut ServerConfig, host: &str, cert: &Path, key: &Path) {
    let named = PemFiles::awaited(cert, key);
    if named.current().is_none() {
        tracing::warn!(
            event = "a2a.tls",
            err = %cert.display(),
            "the certificate for {host} is not there yet"
        );
    }
    config.cert_resolver = Arc::new(ByName {
        host: host.to_owned(),
        named,
        others: config.cert_resolver.clone(),
    });
}

/// See [`by_name`].
#[derive(Debug)]
struct ByName {
    host: String,
    named: PemFiles,
    others: Arc<dyn ResolvesServerCert>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_named = hello
            .server_name()
            .is_some_and(|name| name.eq_ignore_ascii_case(&self.host));
        let named = if is_named { self.named.current() } else { None };
        named.or_else(|| self.others.resolve(hello))
    }
}

/// A chain and its key, from files.
#[derive(Debug)]
struct PemFiles {
    cert: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    stamp: Option<Stamp>,
    pair: Option<Arc<CertifiedKey>>,
}

/// What changes when a file is replaced.
type Stamp = [(SystemTime, u64); 2];

impl PemFiles {
    fn open(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let stamp = stamp(cert, key);
        let pair = load(cert, key)?;
        Ok(Self {
            cert: cert.into(),
            key: key.into(),
            loaded: Mutex::new(Loaded {
                stamp,
                pair: Some(pair),
            }),
        })
    }

    /// Of files that need not be there.
    fn awaited(cert: &Path, key: &Path) -> Self {
        Self {
            cert: cert.into(),
            key: key.into(),
            loaded: Mutex::new(Loaded {
                stamp: None,
                pair: None,
            }),
        }
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.cert, &self.key);
        if now.is_some() && now != loaded.stamp {
            match load(&self.cert, &self.key) {
                Ok(pair) => loaded.pair = Some(pair),
                Err(error) => {
                    tracing::warn!(event = "a2a.tls", err = %error, "kept the certificate before")
                }
            }
            loaded.stamp = now;
        }
        loaded.pair.clone()
    }
}

impl ResolvesServerCert for PemFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

fn stamp(cert: &Path, key: &Path) -> Option<Stamp> {
    let of = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    Some([of(cert)?, of(key)?])
}

fn load(cert: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = from_pem::certificates(&read(cert)?).map_err(|error| invalid(cert, &error.to_string()))?;
    if chain.is_empty() {
        return Err(invalid(cert, "holds no certificate"));
    }
    let private = from_pem::private_key(&read(key)?).map_err(|error| invalid(key, &error.to_string()))?;
    let pair = CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider())
        .map_err(|error| invalid(key, &format!("does not fit the certificate: {error}")))?;
    Ok(Arc::new(pair))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error: std::io::Error| TlsError::Unreadable {
        path: path.into(),
        problem: error.to_string(),
    };
    if std::fs::metadata(path).map_err(unreadable)?.len() > PEM_BYTES {
        return Err(invalid(path, &format!("is larger than {PEM_BYTES} bytes")));
    }
    std::fs::read(path).map_err(unreadable)
}

fn invalid(path: &Path, problem: &str) -> TlsError {
    TlsError::Invalid {
        path: path.into(),
        problem: problem.to_owned(),
    }
}
