//! The controllers process: ports, leadership, and what the leader runs. Startable from a test on port 0.
//!
//! Guarantees: only the leader writes; a process that may not lead any more ends; the lease is released after the last
//! reconcile; reports are taken only once every store is filled.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::clock::SharedClock;
use agentd_base::drain::Watch;
use agentd_base::readiness::Readiness;
use agentd_identity::authority::AuthorityError;
use agentd_identity::source::SourceError;
use agentd_identity::{Authority, IdError, IdentitySource, TrustDomain};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ObjectMeta;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, Client, CustomResourceExt as _};
use prometheus::Registry;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::authority_store::{self, StoreError, secret_name};
use crate::context::{Context, Rendered};
use crate::controllers::{agent, mcp_server};
use crate::events::Events;
use crate::install::Install;
use crate::leadership::{self, Candidate, Election, LeadershipError};
use crate::metrics::Metrics;
use crate::reports::desk::Desk;
use crate::reports::listener::{Listener, Service};
use crate::server::Admin;
use crate::world::{Requests, World};
use crate::{bundle, names};

/// The name under which readiness waits for the CRDs.
const CRDS: &str = "crds";
/// How long the CRDs may be missing before it is said.
const CRD_PATIENCE: Duration = Duration::from_secs(3);
/// After the API server did not answer at the start.
const RETRY: Duration = Duration::from_secs(3);

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
        let (leader, is_leader) = watch::channel(None);
        let admin = admin.serve(drain.clone());
        let reports = reports.serve(is_leader, drain.clone());
        let work = work(args, readiness, metrics, leader, drain);
        tokio::select! {
            result = work => result,
            result = async { futures::join!(admin, reports).0 } => {
                // Both end with the drain, as the work does; it is only slower.
                result?;
                Ok(())
            }
        }
    }
}

/// Waits for the CRDs and for the lease, leads, and gives the lease back.
async fn work(
    args: ControllersArgs,
    readiness: Readiness,
    metrics: Metrics,
    leader: watch::Sender<Option<Service>>,
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
        led = lead(args, candidate, metrics.clone(), leader.clone(), drain) => led,
        error = election.lost() => Err(error.into()),
    };
    metrics.set_leader(false);
    leader.send_replace(None);
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

/// What the leader does, until the drain begins.
async fn lead(
    args: ControllersArgs,
    candidate: Candidate,
    metrics: Metrics,
    leader: watch::Sender<Option<Service>>,
    mut drain: Watch,
) -> Result<(), AppError> {
    let events = Events::new(args.client.clone(), args.pod_name.clone());
    let authority = tokio::select! {
        authority = authority(&args, &events) => authority?,
        () = drain.signaled() => return Ok(()),
    };
    let install = Arc::new(install(&args, authority.trust_domain().clone()));
    let identity = IdentitySource::new(authority.trust_domain().clone());
    identity.set_bundle(authority.bundle().clone())?;
    sign_own(&authority, &identity, &install, &args)?;

    // The sender lives as long as the leader: rotation of the CA will publish through it.
    let (_bundle, bundle_pem) = watch::channel(Arc::from(authority.bundle().to_pem()));
    let (requests, queues) = Requests::new();
    let issuer = (install.namespace.clone(), install.issuer());
    let (world, mut watches) = World::watch(&args.client, issuer, &requests);
    let context = Context {
        client: args.client.clone(),
        install: install.clone(),
        world: world.clone(),
        events,
        metrics,
        clock: args.clock.clone(),
        bundle: bundle_pem,
        rendered: Rendered::default(),
        requests,
    };
    tokio::select! {
        filled = world.ready() => if !filled { return Err(AppError::Ended("a watch")) },
        () = drain.signaled() => return Ok(()),
    }
    tracing::info!(
        event = "stores.filled",
        agents = world.agents.len(),
        mcp_servers = world.servers.len()
    );
    leader.send_replace(Some(Service {
        desk: Arc::new(Desk::new(context.clone())),
        identity: identity.clone(),
    }));

    let until = |mut drain: Watch| async move { drain.signaled().await };
    let agents = agent::run(
        context.clone(),
        queues.agents.take_until(Box::pin(until(drain.clone()))),
    );
    let servers = mcp_server::run(
        context.clone(),
        queues.servers.take_until(Box::pin(until(drain.clone()))),
    );
    let beside = async {
        tokio::select! {
            () = bundle::publish(context.clone(), candidate.owner, queues.bundles) => AppError::Ended("the bundles"),
            () = label(&args) => AppError::Ended("the leader label"),
            () = watches.ended() => AppError::Ended("a watch"),
            error = renew_own(&authority, &identity, &install, &args) => error,
        }
    };
    // The controllers end when the drain has begun and the last reconcile is done.
    tokio::select! {
        _ = async { futures::join!(agents, servers) } => {
            if drain.is_draining() { Ok(()) } else { Err(AppError::Ended("a controller")) }
        }
        error = beside => Err(error),
    }
}

/// The authority, made if it is not there; asked for until the API server answers.
async fn authority(args: &ControllersArgs, events: &Events) -> Result<Authority, AppError> {
    let ControllersArgs {
        client,
        namespace,
        release,
        trust_domain,
        clock,
        ..
    } = args;
    loop {
        match authority_store::ensure(client, namespace, release, trust_domain.as_ref(), clock.now()).await {
            Ok(ensured) => {
                if ensured.lost {
                    let note = "the CA Secret was gone, and a new authority took its place: identities of before are \
                                not trusted by what starts now";
                    let metadata = ObjectMeta {
                        name: Some(secret_name(release)),
                        namespace: Some(namespace.clone()),
                        ..ObjectMeta::default()
                    };
                    let secret = Secret {
                        metadata,
                        ..Secret::default()
                    };
                    tracing::error!(event = "authority.lost", message = note);
                    events.warning(&secret, "AuthorityLost", "Ensure", note).await;
                }
                tracing::info!(
                    event = "authority.ready", made = ensured.made, trust_domain = %ensured.authority.trust_domain()
                );
                return Ok(ensured.authority);
            }
            Err(error) if matches!(error.class(), Class::Invalid | Class::Internal) => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::warn!(event = "authority.fail", error = %error, error.class = error.class().label())
            }
        }
        sleep(RETRY).await;
    }
}

fn install(args: &ControllersArgs, trust_domain: TrustDomain) -> Install {
    Install {
        release: args.release.clone(),
        namespace: args.namespace.clone(),
        trust_domain,
        cluster_domain: args.cluster_domain.clone(),
        agent_image: args.agent_image.clone(),
        image_pull_policy: args.image_pull_policy.clone(),
        image_pull_secrets: args.image_pull_secrets.clone(),
        fs_group: args.fs_group,
    }
}

fn sign_own(
    authority: &Authority,
    identity: &IdentitySource,
    install: &Install,
    args: &ControllersArgs,
) -> Result<(), AppError> {
    let names = [names::service_host(&install.reports(), &install.namespace)];
    let svid = authority.own_svid(&install.report_id()?, &names, args.svid_ttl, args.clock.now())?;
    identity.set_svid(svid)?;
    Ok(())
}

/// Renews the own SVID at a third of its life; resolves when that is not possible any more.
async fn renew_own(
    authority: &Authority,
    identity: &IdentitySource,
    install: &Install,
    args: &ControllersArgs,
) -> AppError {
    loop {
        sleep(args.svid_ttl / 3).await;
        if let Err(error) = sign_own(authority, identity, install, args) {
            return error;
        }
    }
}

/// Keeps the label by which the report Service finds this pod; nothing to do outside a cluster.
async fn label(args: &ControllersArgs) {
    let Some(pod) = args.pod_name.clone() else {
        return futures::future::pending().await;
    };
    let selector = format!(
        "app.kubernetes.io/instance={},app.kubernetes.io/component=controllers",
        args.release
    );
    leadership::label_own_pod(args.client.clone(), args.namespace.clone(), pod, selector).await;
}
