//! The controller of McpServers: `dereference -> validate -> build -> apply -> status`.
//!
//! Nothing here dials a server: it is proved by its own bridge or by the Agents that use it, whose reports are facts of
//! a status.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_crds::McpServer;
use futures::Stream;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube_runtime::controller::Action;
use kube_runtime::reflector::ObjectRef;
use serde_json::Value;

pub mod apply;
pub mod build;
pub mod dereference;
pub mod inputs;
pub mod status;
pub mod validate;

use self::build::Objects;
use self::inputs::Inputs;
use self::validate::{Rejected, Validated};
use super::apply::workload;
use super::engine::{self, ReconcileError, fetch_workload, for_people, issuer, requeue};
use super::statuses;
use super::upkeep::Upkeep;
use super::verdicts::{Issuer, Outcome};
use crate::context::Context;
use crate::labels::MCP_SERVER;
use crate::live::{self, Said, Uptake};
use crate::names;
use crate::owned::OwnedError;
use crate::problem::Problem;
use crate::rollout;
use crate::world::GuardedServer;

/// The name of this controller in metrics and logs.
pub const NAME: &str = "mcp_server";

/// Runs the controller until its queue ends.
pub async fn run(context: Context, queue: impl Stream<Item = ObjectRef<GuardedServer>>) {
    let store = context.world.servers.clone();
    engine::run(NAME, context, store, queue, reconcile).await;
}

async fn reconcile(guarded: Arc<GuardedServer>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let server = match &guarded.0 {
        Ok(server) => Arc::new(server.clone()),
        Err(invalid) => {
            statuses::write_unreadable::<McpServer>(&context, &invalid.metadata, &invalid.error).await?;
            return Ok(Action::await_change());
        }
    };
    if server.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let namespace = server.namespace().unwrap_or_default();
    let (name, uid) = (server.name_any(), server.uid().unwrap_or_default());
    let deployment = fetch_workload(&context, &namespace, &names::mcp(&name), &server.metadata).await?;
    let inputs = dereference::dereference(&context, server.clone(), deployment.as_ref()).await?;
    let upkeep = Upkeep {
        context: &context,
        namespace: &namespace,
        uid: &uid,
        label: (MCP_SERVER, &name),
        lists: live::BRIDGE,
        said: said(&server),
    };
    let Settled {
        outcome,
        deployment,
        config_digest,
        uptake,
        url,
    } = act(&upkeep, inputs, deployment).await?;

    let sets = context.world.replica_sets_of(&namespace, MCP_SERVER, &name);
    let pods = context.world.pods_of(&namespace, MCP_SERVER, &name);
    let (sets, pods) = (sets.iter().map(AsRef::as_ref), pods.iter().map(AsRef::as_ref));
    let rollout = deployment
        .as_ref()
        .map(|deployment| rollout::assess(deployment, sets, pods));
    let view = status::View {
        outcome: &outcome,
        issuer: match server.spec.deployment {
            Some(_) => issuer(&context, rollout.as_ref()).await?,
            // Nobody asks.
            None => Issuer::Available,
        },
        rollout: rollout.as_ref(),
        config_digest,
        users: status::users(&context, &server),
        url,
    };
    status::write(&context, &server, &view).await?;
    let now = context.clock.now();
    Ok(requeue([uptake.until, outcome.again(now)], now))
}

/// What came of the first four steps.
struct Settled {
    outcome: Outcome,
    deployment: Option<Deployment>,
    config_digest: Option<String>,
    uptake: Uptake,
    url: String,
}

async fn act(
    upkeep: &Upkeep<'_>,
    mut inputs: Inputs,
    deployment: Option<Deployment>,
) -> Result<Settled, ReconcileError> {
    let context = upkeep.context;
    let unchanged = |outcome, deployment, url: Option<String>| {
        let status = inputs.server.status.as_ref();
        let address = || {
            status
                .and_then(|status| status.address.as_ref())
                .map(|address| address.url.clone())
        };
        let url = url.or_else(address).unwrap_or_default();
        Settled {
            outcome,
            deployment,
            config_digest: None,
            uptake: Uptake::default(),
            url,
        }
    };
    let Plan {
        objects,
        unresolved,
        notes,
        url,
    } = match plan(context, &inputs)? {
        Ok(plan) => plan,
        Err(Rejected {
            problems,
            unresolved,
            allowed,
        }) => {
            // What runs keeps running; callers that were removed leave its list all the same.
            let valid: Vec<Value> = allowed.into_iter().map(Value::String).collect();
            upkeep.narrow(&valid).await?;
            return Ok(unchanged(
                Outcome::Rejected { problems, unresolved },
                deployment,
                None,
            ));
        }
    };
    let Some(mut objects) = objects else {
        apply::retire(context, upkeep.namespace, &names::mcp(upkeep.label.1), upkeep.uid).await?;
        upkeep.prune(["", ""]).await?;
        return Ok(unchanged(Outcome::Applied { unresolved, notes }, None, Some(url)));
    };
    let blocked = |by: OwnedError, unresolved, deployment| {
        let by = for_people(by)?;
        Ok(unchanged(
            Outcome::Blocked { by, unresolved },
            deployment,
            Some(url.clone()),
        ))
    };
    let written = match apply::surroundings(context, &objects).await {
        Ok(written) => written,
        Err(by) => return blocked(by, unresolved, deployment),
    };
    let current = objects.live.name_any();
    let uptake = upkeep.take_up(&current, &objects.config_digest, written).await?;
    if uptake.overdue && inputs.rolled_digest.as_ref() != Some(&objects.config_digest) {
        tracing::info!(event = "live.overdue", object.name = %current);
        inputs.rolled_digest = Some(objects.config_digest.clone());
        if let Ok(Plan {
            objects: Some(rolling),
            ..
        }) = plan(context, &inputs)?
        {
            objects = rolling;
        }
    }
    let deployment = match workload(context, &objects.deployment).await {
        Ok(deployment) => deployment,
        Err(by) => return blocked(by, unresolved, deployment),
    };
    upkeep
        .refresh(&current, objects.live.data.as_ref().unwrap_or(&BTreeMap::new()))
        .await?;
    upkeep.prune([&objects.config.name_any(), &current]).await?;
    Ok(Settled {
        outcome: Outcome::Applied { unresolved, notes },
        deployment: Some(deployment),
        config_digest: Some(objects.config_digest),
        uptake,
        url,
    })
}

/// What validation and building gave.
struct Plan {
    objects: Option<Objects>,
    unresolved: Vec<Problem>,
    notes: Vec<Problem>,
    url: String,
}

fn plan(context: &Context, inputs: &Inputs) -> Result<Result<Plan, Rejected>, ReconcileError> {
    let validated = match validate::validate(inputs, &context.install) {
        Ok(validated) => validated,
        Err(rejected) => return Ok(Err(rejected)),
    };
    let objects = build::build(&validated, &context.install)
        .map_err(|error| ReconcileError::Render(error.to_string()))?;
    let Validated {
        subject: _,
        url,
        run: _,
        unresolved,
        notes,
    } = validated;
    Ok(Ok(Plan {
        objects,
        unresolved,
        notes,
        url,
    }))
}

fn said(server: &McpServer) -> Option<Said> {
    let reported = server.status.as_ref()?.reported.as_ref()?;
    Some(Said {
        pod_uid: reported.pod_uid.clone()?,
        running: reported.running_digest.clone(),
        rejected: reported.rejected.as_ref().map(|rejected| rejected.digest.clone()),
    })
}
