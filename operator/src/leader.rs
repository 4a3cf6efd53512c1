//! What the leader runs: the authority, the stores, both controllers, the bundles, and the report desk.
//!
//! Guarantee: nothing is reconciled and no report is taken before every store is filled.

use std::sync::Arc;

use agentd_base::class::{Class, Classified as _};
use agentd_base::drain::Watch;
use agentd_identity::{Authority, IdentitySource, TrustDomain};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::app::{AppError, ControllersArgs, RETRY};
use crate::authority_store::{self, secret_name};
use crate::context::{Context, Rendered};
use crate::controllers::{agent, mcp_server};
use crate::events::Events;
use crate::install::Install;
use crate::metrics::Metrics;
use crate::reports::desk::Desk;
use crate::reports::listener::Service;
use crate::world::{Requests, World};
use crate::{bundle, leadership, names};

/// Runs until the drain begins. `owner` owns what has no Agent or McpServer to own it; who connects to the report port
/// is served once `is_leader` says with what.
///
/// # Errors
/// When something is wrong that only a new start with other values can mend, or something that never ends ended.
pub(crate) async fn lead(
    args: ControllersArgs,
    owner: Option<OwnerReference>,
    metrics: Metrics,
    is_leader: watch::Sender<Option<Service>>,
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
    is_leader.send_replace(Some(Service {
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
            () = bundle::publish(context.clone(), owner, queues.bundles) => AppError::Ended("the bundles"),
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
