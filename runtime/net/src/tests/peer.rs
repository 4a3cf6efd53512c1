//! A scripted peer: an axum router on a loopback port, plain or TLS, that counts its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_identity::from_pem;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A running peer; dropping it closes the port and every connection.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peer {
    pub(super) async fn start(router: Router, tls: Option<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, router, tls)
    }

    pub(super) fn on(listener: TcpListener, router: Router, tls: Option<ServerConfig>) -> Self {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        let acceptor = tls.map(|mut config| {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            TlsAcceptor::from(Arc::new(config))
        });
        let task = tokio::spawn(async move {
            let mut serving = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let (acceptor, router) = (acceptor.clone(), router.clone());
                serving.spawn(async move {
                    let service = TowerToHyperService::new(router);
                    let builder = Builder::new(TokioExecutor::new());
                    match acceptor {
                        None => drop(builder.serve_connection(TokioIo::new(stream), service).await),
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else {
                                return;
                            };
                            drop(builder.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                });
            }
        });
        Self {
            address,
            connections,
            task,
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://{}{path}", self.address)
    }

    /// With a name instead of the address.
    pub(super) fn named(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.address.port())
    }
}

/// A web CA.
pub(super) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl Ca {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Chain and key, PEM.
    pub(super) fn sign(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server with a certificate for `names`, which demands client certificates of `clients`.
    pub(super) fn server(&self, names: &[&str], clients: Option<&Self>) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let (chain, key) = self.sign(names);
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = rustls::RootCertStore::empty();
                roots
                    .add(from_pem::certificates(ca.pem.as_bytes()).unwrap().remove(0))
                    .unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = from_pem::certificates(chain.as_bytes()).unwrap();
        builder
            .with_single_cert(chain, from_pem::private_key(key.as_bytes()).unwrap())
            .unwrap()
    }
}

/// Identity's configs use the process-wide provider, as `main` installs it.
pub(super) fn install_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
