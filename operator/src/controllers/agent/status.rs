//! The status of an Agent: computed from what was applied, what its pods are and what they reported, and written only
//! when it says something else than before. Computing is pure.

use agentd_crds::agent::{Agent, AgentSpec, AgentStatus};
use agentd_crds::shared::{Reported, ReportedState};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::validate::DeclaredServer;
use crate::conditions::{self, Truth, Verdict, kind, reason};
use crate::context::Context;
use crate::controllers::engine::ReconcileError;
use crate::controllers::statuses::{self, New};
use crate::controllers::verdicts::{self, Issuer, Outcome};
use crate::controllers::workload::SERVE_PORT;
use crate::labels::AGENT;
use crate::names;
use crate::rollout::Rollout;

/// What a status is computed from.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// How far the reconcile came.
    pub(super) outcome: &'a Outcome,
    /// The pods, where there is a workload.
    pub(super) rollout: Option<&'a Rollout>,
    /// The digest of the live folder that the pod should have; none before the first one was applied.
    pub(super) config_digest: Option<String>,
    /// Whether new identities can be had.
    pub(super) issuer: Issuer,
    /// What is known of each server from its own status, by the name in the Agent.
    pub(super) servers: Vec<Server>,
    /// The Agent's ID.
    pub(super) spiffe_id: String,
}

/// A server that the Agent uses, as long as no pod reported about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// The name in the Agent.
    pub(super) name: String,
    /// The first Ready of a generation waits for it.
    pub(super) required: bool,
    /// Why it is not in the document, if it is not.
    pub(super) left_out: Option<String>,
    /// Whether its McpServer says that it was proved, and if not why. Inline servers have none.
    pub(super) verified: Option<Result<(), (String, String)>>,
}

/// Computes the controllers' part of the status: no fact of a report is in it.
pub(super) fn compute(agent: &Agent, view: &View<'_>, now: Timestamp) -> AgentStatus {
    let generation = agent.metadata.generation.unwrap_or_default();
    let empty = AgentStatus::default();
    let before = agent.status.as_ref().unwrap_or(&empty);
    let facts = Facts::of(before, view.rollout);
    let was_ready = verdicts::was_ready(&before.conditions, generation);

    let accepted = verdicts::accepted(view.outcome);
    let resolved = verdicts::resolved(view.outcome, facts.missing_secrets());
    let identity = verdicts::identity(view.rollout, view.issuer);
    let tools = tools_ready(view, &facts);
    let ready = ready(agent, view, &facts, [&accepted, &resolved, &tools], was_ready);
    let mut stalled = verdicts::stalled(view.outcome, &accepted);
    let mut degraded = None;
    if let Some(message) = facts.rejection(view.config_digest.as_deref()) {
        let text = format!("the pod refused the new configuration and runs the one before: {message}");
        degraded = Some(Verdict::holds(
            kind::DEGRADED,
            reason::REVISION_REJECTED,
            text.clone(),
        ));
        if !was_ready {
            stalled =
                stalled.or_else(|| Some(Verdict::holds(kind::STALLED, reason::REVISION_REJECTED, text)));
        }
    } else if ready.truth == Truth::True && ready.reason == reason::SERVING && tools.truth != Truth::True {
        degraded = Some(Verdict::holds(
            kind::DEGRADED,
            reason::TOOLS_NOT_READY,
            tools.message.clone(),
        ));
    }
    let mut list = vec![accepted, resolved, identity, tools];
    list.extend(verdicts::settle(ready, stalled, was_ready));
    list.extend(degraded);

    let exists = view.rollout.is_some();
    let namespace = agent.namespace().unwrap_or_default();
    let service = names::agent(&agent.name_any());
    AgentStatus {
        observed_generation: Some(generation),
        conditions: conditions::list(list, &before.conditions, generation, now),
        url: exists.then(|| {
            format!(
                "https://{}:{}",
                names::service_host(&service, &namespace),
                SERVE_PORT
            )
        }),
        spiffe_id: exists.then(|| view.spiffe_id.clone()),
        config_digest: view.config_digest.clone(),
        replicas: Some(view.rollout.map_or(0, |rollout| rollout.total)),
        ready_replicas: Some(view.rollout.map_or(0, |rollout| {
            i32::try_from(rollout.current.iter().filter(|pod| pod.ready).count()).unwrap_or(i32::MAX)
        })),
        selector: Some(format!("{AGENT}={}", agent.name_any())),
        ..AgentStatus::default()
    }
}

/// The part of a status that the controllers own.
fn owned(status: &AgentStatus) -> AgentStatus {
    let AgentStatus {
        observed_generation,
        conditions,
        url,
        spiffe_id,
        config_digest,
        replicas,
        ready_replicas,
        selector,
        running_digest: _,
        reported: _,
        protocol_versions: _,
        tools: _,
        last_run: _,
    } = status.clone();
    AgentStatus {
        observed_generation,
        conditions,
        url,
        spiffe_id,
        config_digest,
        replicas,
        ready_replicas,
        selector,
        ..AgentStatus::default()
    }
}

/// What pods reported, as far as it counts: only the pod of the current revision does.
struct Facts<'a> {
    reported: Option<&'a Reported>,
    running: Option<&'a str>,
}

impl<'a> Facts<'a> {
    fn of(status: &'a AgentStatus, rollout: Option<&Rollout>) -> Self {
        let reported = status.reported.as_ref().filter(|reported| {
            let current = |uid: &String| rollout.is_some_and(|rollout| rollout.is_current(uid));
            reported.pod_uid.as_ref().is_some_and(current)
        });
        Self {
            reported,
            running: reported.and(status.running_digest.as_deref()),
        }
    }

    fn missing_secrets(&self) -> &[String] {
        self.reported
            .map(|reported| reported.missing_secrets.as_slice())
            .unwrap_or_default()
    }

    /// Why the pod refused the folder with this digest, if it did.
    fn rejection(&self, digest: Option<&str>) -> Option<&str> {
        let rejected = self.reported?.rejected.as_ref()?;
        (Some(rejected.digest.as_str()) == digest).then_some(rejected.message.as_str())
    }
}

fn tools_ready(view: &View<'_>, facts: &Facts<'_>) -> Verdict {
    let mut missing = Vec::new();
    let mut unauthorized = false;
    for server in view.servers.iter().filter(|server| server.required) {
        let name = &server.name;
        if let Some(why) = &server.left_out {
            missing.push(format!("server `{name}` is not used: {why}"));
            continue;
        }
        let seen = facts
            .reported
            .and_then(|reported| reported.servers.iter().find(|one| one.name == *name));
        match (seen, &server.verified) {
            (Some(seen), _) if seen.state == ReportedState::Connected => {}
            (None, Some(Ok(()))) => {}
            (Some(seen), _) => {
                unauthorized |= seen.state == ReportedState::Unauthorized;
                let why = match seen.state {
                    ReportedState::Unauthorized => "answers 401 or 403",
                    ReportedState::Connecting => "has not answered yet",
                    ReportedState::Connected | ReportedState::Failed => "does not answer",
                };
                let detail = seen
                    .reason
                    .as_deref()
                    .map(|detail| format!(": {detail}"))
                    .unwrap_or_default();
                missing.push(format!("server `{name}` {why}{detail}"));
            }
            (None, Some(Err((not_ready, message)))) => {
                unauthorized |= not_ready == reason::SERVER_UNAUTHORIZED;
                missing.push(format!("server `{name}` is not ready: {message}"));
            }
            (None, None) => missing.push(format!("server `{name}` has not been tried yet")),
        }
    }
    if missing.is_empty() {
        return Verdict::holds(kind::TOOLS_READY, reason::SERVERS_READY, "");
    }
    let reason = if unauthorized {
        reason::SERVER_UNAUTHORIZED
    } else {
        reason::SERVER_NOT_READY
    };
    Verdict::fails(kind::TOOLS_READY, reason, missing.join("; "))
}

fn ready(
    agent: &Agent,
    view: &View<'_>,
    facts: &Facts<'_>,
    [accepted, resolved, tools]: [&Verdict; 3],
    was_ready: bool,
) -> Verdict {
    let progressing = |message: &str| Verdict::fails(kind::READY, reason::PROGRESSING, message);
    let stopped = view
        .rollout
        .and_then(|rollout| verdicts::scaled_to_zero(rollout, agent.spec.suspend));
    let suspended = accepted.truth == Truth::True
        && agent.spec.suspend
        && matches!(view.outcome, Outcome::Applied { .. });
    if let Some(stopped) = stopped.clone().filter(|_| suspended) {
        return stopped;
    }
    if let Some(not_ready) = verdicts::not_ready(view.outcome, accepted, resolved) {
        return not_ready;
    }
    let Some(rollout) = view.rollout else {
        return progressing("the Deployment has not been created yet");
    };
    if let Some(verdict) = stopped.or_else(|| verdicts::pods(rollout, was_ready)) {
        return verdict;
    }
    // What changes within a generation (a caller, a server, the bundle) does not take its Ready away, and neither does
    // a pod that took the place of another one: only the first Ready needs the pod's word for all of it.
    if !was_ready {
        if facts.rejection(view.config_digest.as_deref()).is_some() {
            let message = "the pod serves the configuration before the current one; see Degraded";
            return Verdict::fails(kind::READY, reason::NOT_SERVING, message);
        }
        match facts.running {
            Some(running) if Some(running) == view.config_digest.as_deref() => {}
            Some(_) => return progressing("the pod has not taken up the current configuration yet"),
            None => return progressing("the pod has not reported yet"),
        }
        if tools.truth != Truth::True {
            return progressing(&format!("waiting for what is required: {}", tools.message));
        }
    }
    Verdict::holds(kind::READY, reason::SERVING, "")
}

/// The servers of a spec, with what their own status says and what became of them in the document.
pub(super) fn servers(
    context: &Context,
    namespace: &str,
    spec: &AgentSpec,
    declared: &[DeclaredServer],
) -> Vec<Server> {
    let left_out = |name: &str| {
        let declared = declared.iter().find(|server| server.name == name)?;
        declared.left_out.clone()
    };
    let verified = |name: &str| {
        let server = context.world.server(namespace, name)?;
        let conditions = server
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let current = conditions::find(conditions, kind::VERIFIED)
            .filter(|verified| verified.observed_generation == server.metadata.generation)?;
        Some(match current.status.as_str() {
            "True" => Ok(()),
            _ => Err((current.reason.clone(), current.message.clone())),
        })
    };
    spec.mcp_servers
        .iter()
        .map(|used| Server {
            name: used.name.clone(),
            required: used.required != Some(false),
            left_out: left_out(&used.name),
            verified: used
                .reference
                .as_ref()
                .and_then(|reference| verified(&reference.name)),
        })
        .collect()
}

/// Writes the status when it says something new.
pub(super) async fn write(context: &Context, agent: &Agent, view: &View<'_>) -> Result<(), ReconcileError> {
    let now = context.clock.now();
    statuses::write(context, agent, |agent| {
        let before = agent.status.clone().unwrap_or_default();
        let status = compute(agent, view, now);
        (owned(&before) != status).then(|| New {
            before: before.conditions,
            conditions: status.conditions.clone(),
            status,
        })
    })
    .await
}

#[cfg(test)]
mod tests;
