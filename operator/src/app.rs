//! The controllers process: ports and leadership. Startable from a test on port 0.
//!
//! Guarantees: only the leader writes; a process that may not lead any more ends; the lease is released after the last
//! reconcile; reports are taken only once every store is filled.

use std::net::SocketAddr;
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::clock::SharedClock;
use agentd_base::drain::Watch;
use agentd_base::readiness::Readiness;
use agentd_identity::authority::AuthorityError;
use agentd_identity::source::SourceError;
use agentd_identity::{IdError, TrustDomain};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, Client, CustomResourceExt as _};
use prometheus::Registry;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::authority_store::StoreError;
use crate::leader;
use crate::leadership::{self, Candidate, Election, LeadershipError};
use crate::metrics::Metrics;
use crate::reports::listener::{self, Service};
use crate::server::Admin;
use crate::tls_listener::Listener;

/// The name under which readiness waits for the CRDs.
const CRDS: &str = "crds";
/// How long the CRDs may be missing before it is said.
const CRD_PATIENCE: Duration = Duration::from_secs(3);
/// After the API server did not answer at the start.
pub(crate) const RETRY: Duration = Duration::from_secs(3);

/// How the controllers run.
#[derive(Clone)]
pub struct ControllersArgs {
    /// With the controllers' own ServiceAccount.
    pub client: Client,
    /// The Helm release.
    pub release: String,
    /// The install's namespace.
    pub namespace: String,
    /// The user's trust domain, if any.
    pub trust_domain: Option<TrustDomain>,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// The image of agent pods and bridges.
    pub agent_image: String,
    /// `Always`, `IfNotPresent`, `Never`; absent: Kubernetes decides.
    pub image_pull_policy: Option<String>,
    /// Secrets that pull images, where a spec names none.
    pub image_pull_secrets: Vec<String>,
    /// Whether pods with a claim say `fsGroup`.
    pub fs_group: bool,
    /// Life of the process's own SVID.
    pub svid_ttl: Duration,
    /// The report port.
    pub reports: SocketAddr,
    /// The plain admin port.
    pub admin: SocketAddr,
    /// The name of this pod; absent outside a cluster.
    pub pod_name: Option<String>,
    /// The wall clock.
    pub clock: SharedClock,
}

/// Why the process ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// A port cannot be bound.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// A metric's name is taken.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    /// This process may not work.
    #[error(transparent)]
    Leadership(#[from] LeadershipError),
    /// There is no authority.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The own certificate cannot be signed.
    #[error("the report port's own certificate: {0}")]
    Authority(#[from] AuthorityError),
    /// It does not fit the trust domain.
    #[error("the report port's own certificate: {0}")]
    Source(#[from] SourceError),
    /// The install's own names cannot be in an ID.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Something that never ends ended.
    #[error("{0} ended by itself")]
    Ended(&'static str),
}

impl Classified for AppError {
    fn class(&self) -> Class {
        match self {
            Self::Listen(_) => Class::Unavailable,
            Self::Leadership(error) => error.class(),
            Self::Store(error) => error.class(),
            Self::Authority(error) => error.class(),
            Self::Metrics(_) | Self::Source(_) | Self::Ended(_) => Class::Internal,
            Self::Id(_) => Class::Invalid,
        }
    }
}

/// The controllers with their ports bound.
pub struct Controllers {
    args: ControllersArgs,
    admin: Admin,
    reports: Listener,
    readiness: Readiness,
    metrics: Metrics,
}

/// Binds and serves.
///
/// # Errors
/// As [`Controllers::bind`] and [`Controllers::serve`].
pub async fn run(args: ControllersArgs, drain: Watch) -> Result<(), AppError> {
    Controllers::bind(args).await?.serve(drain).await
}

impl Controllers {
    /// Binds both ports. Not ready before [`Controllers::serve`] has found the CRDs.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub async fn bind(args: ControllersArgs) -> Result<Self, AppError> {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry)?;
        let readiness = Readiness::new();
        readiness.block(CRDS, "not looked for yet");
        let reports = Listener::bind(args.reports).await?;
        let admin = Admin::bind(args.admin, readiness.clone(), registry).await?;
        Ok(Self {
            args,
            admin,
            reports,
            readiness,
            metrics,
        })
    }

    /// Where pods report.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn reports_addr(&self) -> std::io::Result<SocketAddr> {
        self.reports.local_addr()
    }

    /// Where the admin port is.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn admin_addr(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Serves until the drain begins.
    ///
    /// # Errors
    /// When the lease is lost, or something is wrong that only a new start with other values can mend.
    pub async fn serve(self, drain: Watch) -> Result<(), AppError> {
        let Self {
            args,
            admin,
            reports,
            readiness,
            metrics,
        } = self;
        let (is_leader, leads) = watch::channel(None);
        let admin = admin.serve(drain.clone());
        let reports = listener::serve(reports, leads, drain.clone());
        let work = work(args, readiness, metrics, is_leader, drain);
        // The ports end with the drain, and so does the work, which is only slower; or it fails, and takes them along.
        let ports = async {
            futures::join!(admin, reports);
            futures::future::pending::<()>().await
        };
        tokio::select! {
            result = work => result,
            () = ports => Ok(()),
        }
    }
}

/// Waits for the CRDs and for the lease, leads, and gives the lease back.
async fn work(
    args: ControllersArgs,
    readiness: Readiness,
    metrics: Metrics,
    is_leader: watch::Sender<Option<Service>>,
    mut drain: Watch,
) -> Result<(), AppError> {
    tokio::select! {
        () = crds(&args.client, &readiness) => {}
        () = drain.signaled() => return Ok(()),
    }
    readiness.release(CRDS);
    let cluster_role = format!("agentd:{}:{}:controllers", args.namespace, args.release);
    let owner = leadership::cluster_role_owner(&args.client, &cluster_role).await;
    let lease = format!("{}-controllers", args.release);
    let identity = args
        .pod_name
        .clone()
        .unwrap_or_else(|| agentd_base::id::uuids().next());
    let candidate = Candidate {
        namespace: args.namespace.clone(),
        lease,
        identity,
        owner,
    };
    let mut election = tokio::select! {
        election = elect(&args.client, &candidate) => election,
        () = drain.signaled() => return Ok(()),
    };
    tokio::select! {
        won = election.won() => won?,
        () = drain.signaled() => {
            election.release().await;
            return Ok(());
        }
    }
    tracing::info!(event = "leader.won", identity = %candidate.identity);
    metrics.set_leader(true);
    let led = tokio::select! {
        led = leader::lead(args, candidate.owner, metrics.clone(), is_leader.clone(), drain) => led,
        error = election.lost() => Err(error.into()),
    };
    metrics.set_leader(false);
    is_leader.send_replace(None);
    election.release().await;
    led
}

/// Resolves when both CRDs are established, and says meanwhile which one is not.
async fn crds(client: &Client, readiness: &Readiness) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in [agentd_crds::Agent::crd_name(), agentd_crds::McpServer::crd_name()] {
        let missing =
            format!("CustomResourceDefinition {name} is not installed; install the chart agentd-crds");
        loop {
            match timeout(
                CRD_PATIENCE,
                await_condition(api.clone(), name, is_crd_established()),
            )
            .await
            {
                Ok(Ok(_)) => break,
                Ok(Err(error)) => {
                    tracing::warn!(event = "crds.fail", name, error = %error);
                    readiness.block(CRDS, format!("{name}: {error}"));
                    sleep(RETRY).await;
                }
                Err(_) => {
                    tracing::warn!(event = "crds.missing", message = %missing);
                    readiness.block(CRDS, missing.clone());
                }
            }
        }
    }
}

async fn elect(client: &Client, candidate: &Candidate) -> Election {
    loop {
        match Election::start(client.clone(), candidate).await {
            Ok(election) => return election,
            Err(error) => {
                tracing::warn!(event = "lease.fail", error = %error, error.class = error.class().label())
            }
        }
        sleep(RETRY).await;
    }
}
