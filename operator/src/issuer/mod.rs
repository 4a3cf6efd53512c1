//! The built-in SPIFFE issuer, a process of its own: reads the CA Secret, follows it, and signs SVIDs for pods of
//! Agents and McpServers and for labelled ServiceAccounts. Stateless; every replica signs; there is no leader.

pub mod facts;
pub mod lookup;
pub mod metrics;
pub mod pace;
pub mod policy;
pub mod server;
pub mod sign;
pub mod token;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::clock::SharedClock;
use agentd_base::drain::Watch;
use agentd_base::readiness::Readiness;
use agentd_identity::Authority;
use futures::{Stream, StreamExt as _};
use kube::Client;
use tokio::time::Instant;

use crate::authority_store::{self, StoreError};
use crate::events::Events;
use crate::server::Admin;
use crate::tls_listener::Listener;

/// The name under which readiness waits for the CA Secret.
const AUTHORITY: &str = "authority";

/// How an issuer runs.
#[derive(Clone)]
pub struct IssuerArgs {
    /// With the issuer's own ServiceAccount.
    pub client: Client,
    /// The Helm release: the CA Secret is `<release>-ca`, the issuer itself `<release>-issuer`.
    pub release: String,
    /// The install's namespace.
    pub namespace: String,
    /// The cluster's DNS domain, for DNS names in SVIDs.
    pub cluster_domain: String,
    /// Life of an SVID, from one hour to 24.
    pub svid_ttl: Duration,
    /// Where SVIDs are issued.
    pub listen: SocketAddr,
    /// The plain admin port.
    pub admin: SocketAddr,
    /// The name of this pod, for Events.
    pub pod_name: Option<String>,
    /// Dates of certificates.
    pub clock: SharedClock,
}

/// Why an issuer ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// A port cannot be bound.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// The own certificate cannot be signed.
    #[error(transparent)]
    Sign(#[from] sign::SignError),
    /// A metric's name is taken.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
}

impl Classified for IssuerError {
    fn class(&self) -> Class {
        match self {
            Self::Listen(_) => Class::Unavailable,
            Self::Sign(error) => error.class(),
            Self::Metrics(_) => Class::Internal,
        }
    }
}

/// An issuer with its ports bound.
pub struct Issuer {
    args: IssuerArgs,
    listener: Listener,
    admin: Admin,
    readiness: Readiness,
    metrics: metrics::Metrics,
}

impl Issuer {
    /// Binds both ports. Not ready before [`Issuer::serve`] has read the CA Secret.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub async fn bind(args: IssuerArgs) -> Result<Self, IssuerError> {
        let readiness = Readiness::new();
        let name = authority_store::secret_name(&args.release);
        readiness.block(
            AUTHORITY,
            format!("Secret {}/{name} has not been read yet", args.namespace),
        );
        let registry = prometheus::Registry::new();
        let metrics = metrics::Metrics::new(&registry)?;
        let listener = Listener::bind(args.listen).await?;
        let admin = Admin::bind(args.admin, readiness.clone(), registry).await?;
        Ok(Self {
            args,
            listener,
            admin,
            readiness,
            metrics,
        })
    }

    /// Where SVIDs are issued.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where the admin port is.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn admin_addr(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Waits for the CA Secret, then issues until the drain begins.
    ///
    /// # Errors
    /// When the own certificate cannot be signed, or the Secret names another trust domain than at the start: the
    /// process must start again.
    pub async fn serve(self, drain: Watch) -> Result<(), IssuerError> {
        let Self {
            args,
            listener,
            admin,
            readiness,
            metrics,
        } = self;
        let admin = admin.serve(drain.clone());
        let issuing = issue(args, listener, readiness, metrics, drain);
        futures::join!(admin, issuing).1
    }
}

/// Binds and serves.
///
/// # Errors
/// As [`Issuer::bind`] and [`Issuer::serve`].
pub async fn run(args: IssuerArgs, drain: Watch) -> Result<(), IssuerError> {
    Issuer::bind(args).await?.serve(drain).await
}

async fn issue(
    args: IssuerArgs,
    listener: Listener,
    readiness: Readiness,
    metrics: metrics::Metrics,
    mut drain: Watch,
) -> Result<(), IssuerError> {
    let IssuerArgs {
        client,
        release,
        namespace,
        cluster_domain,
        svid_ttl,
        pod_name,
        clock,
        ..
    } = args;
    tracing::info!(
        event = "issuer.wait",
        secret = authority_store::secret_name(&release)
    );
    let mut authorities = Box::pin(authority_store::follow(client.clone(), &namespace, &release));
    let first = tokio::select! {
        first = next_usable(&mut authorities, &readiness) => first,
        () = drain.signaled() => return Ok(()),
    };
    metrics.root(&first);
    let service = format!("{release}-issuer");
    let signer = Arc::new(sign::Signer::new(
        first,
        (&namespace, &service, &cluster_domain),
        svid_ttl,
        clock.clone(),
    )?);
    let app = server::App::new(
        Box::new(token::ReviewVerifier::new(
            client.clone(),
            format!("agentd:{namespace}/{release}"),
            clock.clone(),
        )),
        Box::new(lookup::LiveLookup::new(client.clone())),
        signer.clone(),
        cluster_domain,
        Events::new(client, pod_name),
        metrics.clone(),
    );
    readiness.release(AUTHORITY);
    tracing::info!(event = "issuer.ready", trust_domain = %signer.trust_domain());
    tokio::select! {
        () = server::serve(listener, Arc::new(app), drain) => Ok(()),
        error = keep(&signer, &mut authorities, &readiness, &metrics) => Err(error.into()),
    }
}

/// Takes up a changed Secret and renews the own certificate, until the trust domain changes.
async fn keep(
    signer: &sign::Signer,
    authorities: &mut (impl Stream<Item = Result<Option<Authority>, StoreError>> + Unpin),
    readiness: &Readiness,
    metrics: &metrics::Metrics,
) -> sign::SignError {
    let mut due = Instant::now() + signer.renew_own_after();
    loop {
        let renewed = tokio::select! {
            () = tokio::time::sleep_until(due) => signer.renew_own(),
            read = next_usable(authorities, readiness) => {
                // A watch that begins again shows what is known already.
                if read.bundle() == signer.authority().bundle() {
                    continue;
                }
                metrics.root(&read);
                tracing::info!(event = "issuer.authority.changed");
                signer.replace(read)
            }
        };
        due = Instant::now() + signer.renew_own_after();
        match renewed {
            Err(error @ sign::SignError::TrustDomain(_)) => return error,
            // What is there goes on; the next change or third of its life tries again.
            Err(error) => {
                tracing::error!(event = "issuer.own.fail", error = %error, error.class = error.class().label())
            }
            Ok(()) => {}
        }
    }
}

/// The next authority that can be read. What cannot be read is logged and, before the first, told by `/readyz`.
async fn next_usable(
    authorities: &mut (impl Stream<Item = Result<Option<Authority>, StoreError>> + Unpin),
    readiness: &Readiness,
) -> Authority {
    loop {
        match authorities.next().await {
            Some(Ok(Some(authority))) => return authority,
            Some(Ok(None)) => tracing::warn!(event = "issuer.authority.gone"),
            Some(Err(error)) => {
                tracing::warn!(event = "issuer.authority.fail", error = %error, error.class = error.class().label());
                if !readiness.blockers().is_empty() {
                    readiness.block(AUTHORITY, error.to_string());
                }
            }
            // A watch never ends.
            None => return futures::future::pending().await,
        }
    }
}
