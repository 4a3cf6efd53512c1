//! What turns requests into reconciles: concurrency, debounce, retries by the class of an error, metrics, and the reads
//! that both kinds share.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_base::class::{Class, Classified};
use agentd_identity::IdError;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource};
use kube_runtime::controller::{Action, Config, Error as ControllerError, applier};
use kube_runtime::reflector::{ObjectRef, Store};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::verdicts::Issuer;
use crate::context::{Context, class_of};
use crate::owned::OwnedError;
use crate::rollout::{Rollout, is_controlled_by};

/// Reconciles of one kind at a time: enough to hide the API server's latency, few enough to leave it room.
const CONCURRENCY: u16 = 8;
/// Changes that come together are one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// One reconcile: it reads and writes a dozen objects, each in milliseconds. A connection that went dead must not hold
/// its place for ever.
const DEADLINE: Duration = Duration::from_secs(60);
/// After two writers met.
const CONFLICT_RETRY: Duration = Duration::from_millis(500);
/// After something was away.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(5);
/// After a permission of the operator's own was missing: somebody has to grant it.
const DENIED_RETRY: Duration = Duration::from_secs(30);

/// Why a reconcile has to be repeated. What the user has to change is in the status and no error.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// An object could not be brought to what it should be.
    #[error(transparent)]
    Owned(#[from] OwnedError),
    /// The API server did not answer, or not as it should.
    #[error(transparent)]
    Api(#[from] Box<kube::Error>),
    /// A name that cannot be in a SPIFFE ID.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The desired objects cannot be rendered.
    #[error("rendering: {0}")]
    Render(String),
    /// The API server took too long.
    #[error("not done within {} s", DEADLINE.as_secs())]
    Deadline,
}

impl From<kube::Error> for ReconcileError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl Classified for ReconcileError {
    fn class(&self) -> Class {
        match self {
            Self::Owned(error) => error.class(),
            Self::Api(error) => class_of(error),
            Self::Id(_) | Self::Render(_) => Class::Internal,
            Self::Deadline => Class::Unavailable,
        }
    }
}

/// Runs one controller until its queue ends; what is in flight then is finished.
pub(super) async fn run<K, F>(
    name: &'static str,
    context: Context,
    store: Store<K>,
    queue: impl Stream<Item = ObjectRef<K>>,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> F,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    ObjectRef<K>: Hash + Eq,
    F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    let metrics = context.metrics.clone();
    let reconcile = move |object: Arc<K>, context: Arc<Context>| {
        let metrics = metrics.clone();
        let span = tracing::info_span!(
            "reconcile",
            controller = name,
            object.namespace = object.meta().namespace.as_deref().unwrap_or_default(),
            object.name = object.meta().name.as_deref().unwrap_or_default(),
        );
        let work = reconcile(object, context);
        Box::pin(
            async move {
                let begun = Instant::now();
                let result = timeout(DEADLINE, work)
                    .await
                    .unwrap_or(Err(ReconcileError::Deadline));
                metrics.reconciled(
                    name,
                    begun.elapsed(),
                    result.as_ref().map(|_| ()).map_err(Classified::class),
                );
                result
            }
            .instrument(span),
        )
    };
    let retry = |_: Arc<K>, error: &ReconcileError, _: Arc<Context>| {
        Action::requeue(match error.class() {
            Class::Conflict => CONFLICT_RETRY,
            Class::Invalid | Class::Unavailable | Class::Internal => UNAVAILABLE_RETRY,
            Class::Denied => DENIED_RETRY,
        })
    };
    let config = Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE);
    let queue = queue.map(Ok::<_, Infallible>);
    applier(reconcile, retry, Arc::new(context), store, queue, config)
        .for_each(|result| async move {
            match result {
                // Deleted meanwhile: the garbage collector does the rest.
                Ok(_) | Err(ControllerError::ObjectNotFound(_)) => {}
                Err(ControllerError::ReconcilerFailed(error, object)) => match error.class() {
                    Class::Conflict => {
                        tracing::debug!(event = "reconcile.conflict", object = %object, error = %error);
                    }
                    class => tracing::warn!(
                        event = "reconcile.fail", controller = name, object = %object, error = %error,
                        error.class = class.label()
                    ),
                },
                Err(error) => tracing::error!(event = "controller.fail", controller = name, error = %error),
            }
        })
        .await;
}

/// ConfigMaps of a namespace with their data; `None` where there is none.
pub(super) async fn fetch_config_maps(
    context: &Context,
    namespace: &str,
    names: BTreeSet<String>,
) -> Result<BTreeMap<String, Option<BTreeMap<String, String>>>, ReconcileError> {
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let mut found = BTreeMap::new();
    for name in names {
        let map = api.get_opt(&name).await?;
        let map = map.filter(|map| map.metadata.deletion_timestamp.is_none());
        found.insert(name, map.map(|map| map.data.unwrap_or_default()));
    }
    Ok(found)
}

/// The workload of an object, if it is there and its own.
pub(super) async fn fetch_workload(
    context: &Context,
    namespace: &str,
    name: &str,
    owner: &ObjectMeta,
) -> Result<Option<Deployment>, ReconcileError> {
    let api: Api<Deployment> = Api::namespaced(context.client.clone(), namespace);
    let deployment = api.get_opt(name).await?;
    Ok(deployment.filter(|deployment| is_controlled_by(&deployment.metadata, owner)))
}

/// Whether new identities can be had; not asked when a pod has one.
pub(super) async fn issuer(context: &Context, rollout: Option<&Rollout>) -> Result<Issuer, ReconcileError> {
    if rollout.is_some_and(|rollout| rollout.serving().is_some()) {
        return Ok(Issuer::Available);
    }
    let (namespace, name) = &context.world.issuer;
    let api: Api<Deployment> = Api::namespaced(context.client.clone(), namespace);
    let available = api.get_opt(name).await?.map(|deployment| {
        deployment
            .status
            .and_then(|status| status.available_replicas)
            .unwrap_or_default()
    });
    Ok(match available {
        None => Issuer::Missing,
        Some(0) => Issuer::Unavailable,
        Some(_) => Issuer::Available,
    })
}

/// What a person has to see in the status; everything else is tried again.
pub(super) fn for_people(error: OwnedError) -> Result<OwnedError, ReconcileError> {
    match error {
        OwnedError::Foreign { .. }
        | OwnedError::Leftover { .. }
        | OwnedError::Going { .. }
        | OwnedError::Refused { .. } => Ok(error),
        OwnedError::Conflict { .. } | OwnedError::Api { .. } | OwnedError::Json(_) => Err(error.into()),
    }
}

/// Looks again at the earliest of these times, or when something changes.
pub(super) fn requeue(times: [Option<Timestamp>; 2], now: Timestamp) -> Action {
    times
        .into_iter()
        .flatten()
        .min()
        .map_or_else(Action::await_change, |until| {
            Action::requeue(Duration::try_from(until.duration_since(now)).unwrap_or_default())
        })
}
