//! The controller of Agents: `dereference -> validate -> build -> apply -> status`.
//!
//! What a person has to change ends in the status and waits for a change; what may go by itself is an error and is
//! tried again without a word in the status.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_crds::Agent;
use futures::Stream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
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
use self::validate::{DeclaredServer, Rejected};
use super::apply::workload;
use super::engine::{self, ReconcileError, fetch_workload, for_people, issuer, requeue};
use super::statuses;
use super::upkeep::Upkeep;
use super::verdicts::Outcome;
use crate::context::{Context, Document};
use crate::labels::AGENT;
use crate::live::{self, Said, Uptake};
use crate::names;
use crate::owned::{self, OwnedError};
use crate::problem::Problem;
use crate::rollout;
use crate::world::{GuardedAgent, Target};

/// The name of this controller in metrics and logs.
pub const NAME: &str = "agent";

/// Runs the controller until its queue ends.
pub async fn run(context: Context, queue: impl Stream<Item = ObjectRef<GuardedAgent>>) {
    let store = context.world.agents.clone();
    engine::run(NAME, context, store, queue, reconcile).await;
}

async fn reconcile(guarded: Arc<GuardedAgent>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let agent = match &guarded.0 {
        Ok(agent) => Arc::new(agent.clone()),
        Err(invalid) => {
            statuses::write_unreadable::<Agent>(&context, &invalid.metadata, &invalid.error).await?;
            return Ok(Action::await_change());
        }
    };
    if agent.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (namespace, name, uid) = (
        agent.namespace().unwrap_or_default(),
        agent.name_any(),
        agent.uid().unwrap_or_default(),
    );
    let made = names::agent(&name);
    let deployment = fetch_workload(&context, &namespace, &made, &agent.metadata).await?;
    let inputs = dereference::dereference(&context, agent.clone(), deployment.as_ref()).await?;
    let upkeep = Upkeep {
        context: &context,
        namespace: &namespace,
        uid: &uid,
        label: (AGENT, &name),
        lists: live::AGENT,
        said: said(&agent),
    };
    let Settled {
        outcome,
        deployment,
        config_digest,
        uptake,
        servers,
    } = act(&upkeep, inputs, deployment).await?;

    let sets = context.world.replica_sets_of(&namespace, AGENT, &name);
    let pods = context.world.pods_of(&namespace, AGENT, &name);
    let (sets, pods) = (sets.iter().map(AsRef::as_ref), pods.iter().map(AsRef::as_ref));
    let mut rollout = deployment
        .as_ref()
        .map(|deployment| rollout::assess(deployment, sets, pods));
    if let Some(rollout) = &mut rollout {
        ask_claims(&context, &namespace, rollout).await?;
    }
    let view = status::View {
        outcome: &outcome,
        issuer: issuer(&context, rollout.as_ref()).await?,
        rollout: rollout.as_ref(),
        config_digest,
        servers: status::servers(&context, &namespace, &agent.spec, &servers),
        spiffe_id: context.install.id_of_agent(&namespace, &name)?.to_string(),
    };
    status::write(&context, &agent, &view).await?;
    let now = context.clock.now();
    Ok(requeue([uptake.until, outcome.again(now)], now))
}

/// What came of the first four steps.
struct Settled {
    outcome: Outcome,
    deployment: Option<Deployment>,
    config_digest: Option<String>,
    uptake: Uptake,
    /// What became of the servers in the document; empty when none was applied.
    servers: Vec<DeclaredServer>,
}

async fn act(
    upkeep: &Upkeep<'_>,
    mut inputs: Inputs,
    deployment: Option<Deployment>,
) -> Result<Settled, ReconcileError> {
    let context = upkeep.context;
    let agent = inputs.agent.clone();
    let before = || {
        agent
            .status
            .as_ref()
            .and_then(|status| status.config_digest.clone())
    };
    let Plan {
        mut objects,
        servers,
        unresolved,
        notes,
    } = match plan(context, &inputs)? {
        Ok(plan) => plan,
        Err(Rejected {
            problems,
            unresolved,
            principals,
        }) => {
            // What runs keeps running; callers that were removed leave its lists all the same.
            let valid: Vec<Value> = principals
                .iter()
                .filter_map(|one| serde_json::to_value(one).ok())
                .collect();
            upkeep.narrow(&valid).await?;
            let outcome = Outcome::Rejected { problems, unresolved };
            return Ok(Settled {
                outcome,
                deployment,
                config_digest: before(),
                uptake: Uptake::default(),
                servers: Vec::new(),
            });
        }
    };
    let written = match apply::surroundings(context, &objects).await {
        Ok(written) => written,
        Err(by) => return blocked(by, unresolved, deployment, before()),
    };
    let current = objects.live.name_any();
    let uptake = upkeep.take_up(&current, &objects.config_digest, written).await?;
    if uptake.overdue && inputs.rolled_digest.as_ref() != Some(&objects.config_digest) {
        tracing::info!(event = "live.overdue", object.name = %current);
        inputs.rolled_digest = Some(objects.config_digest.clone());
        if let Ok(Plan { objects: rolling, .. }) = plan(context, &inputs)? {
            objects = rolling;
        }
    }
    let deployment = match workload(context, &objects.deployment).await {
        Ok(deployment) => deployment,
        Err(by) => return blocked(by, unresolved, deployment, before()),
    };
    upkeep
        .refresh(&current, objects.live.data.as_ref().unwrap_or(&BTreeMap::new()))
        .await?;
    upkeep.prune([&objects.config.name_any(), &current]).await?;
    note(context, &agent, &servers, &objects.config_digest).await;
    Ok(Settled {
        outcome: Outcome::Applied { unresolved, notes },
        deployment: Some(deployment),
        config_digest: Some(objects.config_digest),
        uptake,
        servers,
    })
}

/// What validation and building gave.
struct Plan {
    objects: Objects,
    servers: Vec<DeclaredServer>,
    unresolved: Vec<Problem>,
    notes: Vec<Problem>,
}

/// Validates and builds.
fn plan(context: &Context, inputs: &Inputs) -> Result<Result<Plan, Rejected>, ReconcileError> {
    let validated = match validate::validate(inputs, &context.install) {
        Ok(validated) => validated,
        Err(rejected) => return Ok(Err(rejected)),
    };
    let objects = build::build(&validated, &context.install)
        .map_err(|error| ReconcileError::Render(error.to_string()))?;
    Ok(Ok(Plan {
        objects,
        servers: validated.servers,
        unresolved: validated.unresolved,
        notes: validated.notes,
    }))
}

/// Asks the claims that the pod waits for, if any; they are not watched, since a pod that is placed is heard of.
async fn ask_claims(
    context: &Context,
    namespace: &str,
    rollout: &mut rollout::Rollout,
) -> Result<(), ReconcileError> {
    for name in std::mem::take(&mut rollout.claims) {
        let claims = owned::api::<PersistentVolumeClaim>(&context.client, namespace);
        if let Some(claim) = claims.get_opt(&name).await? {
            rollout.held_up_by(&claim);
        }
    }
    Ok(())
}

/// Sorts what a person has to change from what is tried again.
fn blocked(
    by: OwnedError,
    unresolved: Vec<Problem>,
    deployment: Option<Deployment>,
    config_digest: Option<String>,
) -> Result<Settled, ReconcileError> {
    let by = for_people(by)?;
    let outcome = Outcome::Blocked { by, unresolved };
    Ok(Settled {
        outcome,
        deployment,
        config_digest,
        uptake: Uptake::default(),
        servers: Vec::new(),
    })
}

/// Notes of which servers the document was made, and wakes those that may be proved by it now.
async fn note(context: &Context, agent: &Agent, servers: &[DeclaredServer], digest: &str) {
    let made_of = servers.iter().filter_map(|server| {
        let made_of = server.made_of.as_ref()?;
        // Of an earlier generation: it proves nothing of this one.
        Some((made_of.uid.clone(), made_of.generation?))
    });
    let document = Document {
        digest: digest.to_owned(),
        servers: made_of.collect(),
    };
    if !context.rendered.note(&agent.uid().unwrap_or_default(), document) {
        return;
    }
    let mut requests = context.requests.clone();
    for name in servers.iter().filter_map(|server| server.mcp_server.clone()) {
        let namespace = agent.namespace().unwrap_or_default();
        requests.send(Target::McpServer { namespace, name }).await;
    }
}

fn said(agent: &Agent) -> Option<Said> {
    let status = agent.status.as_ref()?;
    let reported = status.reported.as_ref()?;
    Some(Said {
        pod_uid: reported.pod_uid.clone()?,
        running: status.running_digest.clone(),
        rejected: reported.rejected.as_ref().map(|rejected| rejected.digest.clone()),
    })
}
