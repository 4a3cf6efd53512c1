//! The status of an McpServer: computed from what was applied, what its pods are, and what its bridge or the Agents
//! that use it reported. Computing is pure.

use agentd_crds::Agent;
use agentd_crds::mcp_server::{Address, McpServer, McpServerStatus};
use agentd_crds::shared::{Reported, ReportedServer, ReportedState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use crate::conditions::{self, Truth, Verdict, find, kind, reason};
use crate::context::{Context, Document};
use crate::controllers::callers;
use crate::controllers::engine::ReconcileError;
use crate::controllers::statuses::{self, New};
use crate::controllers::verdicts::{self, Issuer, Outcome};
use crate::rollout::Rollout;

/// What a status is computed from.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// How far the reconcile came.
    pub(super) outcome: &'a Outcome,
    /// The pods, where the operator runs the server and there is a workload.
    pub(super) rollout: Option<&'a Rollout>,
    /// The digest of the live folder that the bridge should have.
    pub(super) config_digest: Option<String>,
    /// Whether new identities can be had.
    pub(super) issuer: Issuer,
    /// The Agents that use it.
    pub(super) users: Vec<User>,
    /// Where agents reach it.
    pub(super) url: String,
}

/// An Agent that uses the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    /// Its name.
    pub(super) agent: String,
    /// What it reported about the server.
    pub(super) seen: Option<ReportedServer>,
    /// Whether its pod runs a document that was made of the server's current spec; `None` when that is not known: this
    /// process has not looked at the Agent yet, or the pod has not taken its newest document up.
    pub(super) current: Option<bool>,
}

/// Computes the controllers' part of the status: no fact of a report is in it.
pub(super) fn compute(server: &McpServer, view: &View<'_>, now: Timestamp) -> McpServerStatus {
    let generation = server.metadata.generation.unwrap_or_default();
    let empty = McpServerStatus::default();
    let before = server.status.as_ref().unwrap_or(&empty);
    let verdicts = match &server.spec.deployment {
        Some(_) => operated(view, before, generation),
        None => remote(view, before, generation),
    };
    let verified = verdicts
        .iter()
        .any(|verdict| verdict.kind == kind::VERIFIED && verdict.truth == Truth::True);
    McpServerStatus {
        observed_generation: Some(generation),
        conditions: conditions::list(verdicts, &before.conditions, generation, now),
        address: verified.then(|| Address {
            url: view.url.clone(),
        }),
        ..McpServerStatus::default()
    }
}

/// A server that runs elsewhere.
fn remote(view: &View<'_>, before: &McpServerStatus, generation: i64) -> Vec<Verdict> {
    let accepted = verdicts::accepted(view.outcome);
    let resolved = verdicts::resolved(view.outcome, &[]);
    let verified = verified_by_users(&view.users, standing(&before.conditions, generation));
    let ready =
        verdicts::not_ready(view.outcome, &accepted, &resolved).unwrap_or_else(|| ready_as(&verified));
    let stalled = verdicts::stalled(view.outcome, &accepted);
    let mut list = vec![accepted, resolved, verified];
    list.extend(verdicts::settle(ready, stalled, false));
    list
}

/// A server that the operator runs.
fn operated(view: &View<'_>, before: &McpServerStatus, generation: i64) -> Vec<Verdict> {
    let was_ready = verdicts::was_ready(&before.conditions, generation);
    let reported = before.reported.as_ref().filter(|reported| {
        let current = |uid: &String| view.rollout.is_some_and(|rollout| rollout.is_current(uid));
        reported.pod_uid.as_ref().is_some_and(current)
    });
    let accepted = verdicts::accepted(view.outcome);
    let resolved = verdicts::resolved(
        view.outcome,
        reported.map(|r| r.missing_secrets.as_slice()).unwrap_or_default(),
    );
    let identity = verdicts::identity(view.rollout, view.issuer);
    let serving = view.rollout.map(|rollout| verdicts::pods(rollout, was_ready));
    let stopped = view
        .rollout
        .and_then(|rollout| verdicts::scaled_to_zero(rollout, false));
    let available = match (&stopped, &serving) {
        (Some(stopped), _) => {
            Verdict::fails(kind::AVAILABLE, stopped.reason.clone(), stopped.message.clone())
        }
        (None, Some(None)) => Verdict::holds(kind::AVAILABLE, reason::SERVING, ""),
        (None, Some(Some(not))) => Verdict::fails(kind::AVAILABLE, not.reason.clone(), not.message.clone()),
        (None, None) => Verdict::fails(
            kind::AVAILABLE,
            reason::PROGRESSING,
            "the Deployment has not been created yet",
        ),
    };
    let verified = verified_by_bridge(reported, standing(&before.conditions, generation));
    let isolated = isolated(reported);
    let rejected = reported.and_then(|reported| reported.rejected.as_ref());
    let rejected = rejected.filter(|rejected| Some(&rejected.digest) == view.config_digest.as_ref());

    let ready = verdicts::not_ready(view.outcome, &accepted, &resolved)
        .or(stopped)
        .unwrap_or_else(|| {
            let fails = |reason: &str, message: &str| Verdict::fails(kind::READY, reason, message);
            if available.truth != Truth::True {
                return fails(&available.reason, &available.message);
            }
            if was_ready || verified.truth != Truth::True {
                return ready_as(&verified);
            }
            // Only the first Ready of a generation needs the bridge's word for all of it.
            let running = reported.and_then(|reported| reported.running_digest.as_ref());
            match running {
                _ if rejected.is_some() => fails(
                    reason::NOT_SERVING,
                    "the bridge serves the configuration before the current one; see Degraded",
                ),
                Some(_) if running == view.config_digest.as_ref() => ready_as(&verified),
                _ => fails(
                    reason::PROGRESSING,
                    "the bridge has not taken up the current configuration yet",
                ),
            }
        });
    let rejection = rejected.map(|rejected| {
        format!(
            "the bridge refused the new configuration and runs the one before: {}",
            rejected.message
        )
    });
    let holds = |kind, text: String| Verdict::holds(kind, reason::REVISION_REJECTED, text);
    let stalled = verdicts::stalled(view.outcome, &accepted).or_else(|| {
        rejection
            .clone()
            .filter(|_| !was_ready)
            .map(|text| holds(kind::STALLED, text))
    });
    let degraded = rejection.map(|text| holds(kind::DEGRADED, text));
    let mut list = vec![accepted, resolved, identity, available, verified, isolated];
    list.extend(verdicts::settle(ready, stalled, was_ready));
    list.extend(degraded);
    list
}

/// Whether this generation was proved before, by what the status says.
fn standing(before: &[Condition], generation: i64) -> bool {
    find(before, kind::VERIFIED)
        .is_some_and(|verified| verified.status == "True" && verified.observed_generation == Some(generation))
}

fn ready_as(verified: &Verdict) -> Verdict {
    match verified.truth {
        Truth::True => Verdict::holds(kind::READY, reason::SERVING, ""),
        Truth::False | Truth::Unknown => {
            Verdict::fails(kind::READY, verified.reason.clone(), verified.message.clone())
        }
    }
}

/// One success proves the server. `stood`: it was proved before, which an Agent that has not been looked at yet does
/// not take away.
fn verified_by_users(users: &[User], stood: bool) -> Verdict {
    let fails = |reason: &str, message: String| Verdict::fails(kind::VERIFIED, reason, message);
    if users.is_empty() {
        let message =
            "no Agent uses this server yet, so nobody has proved it; reference it in an Agent's mcpServers";
        return fails(reason::NOT_YET_USED, message.to_owned());
    }
    let counted: Vec<(&str, &ReportedServer)> = users
        .iter()
        .filter(|user| user.current.unwrap_or(stood))
        .filter_map(|user| Some((user.agent.as_str(), user.seen.as_ref()?)))
        .collect();
    let first = |state: ReportedState| counted.iter().find(|(_, seen)| seen.state == state);
    if first(ReportedState::Connected).is_some() {
        return Verdict::holds(kind::VERIFIED, reason::EXCHANGED, "");
    }
    let detail = |seen: &ReportedServer| {
        seen.reason
            .as_deref()
            .map(|text| format!(": {text}"))
            .unwrap_or_default()
    };
    if let Some((agent, seen)) = first(ReportedState::Unauthorized) {
        let text = format!(
            "Agent `{agent}` is answered with 401 or 403; check auth and headers{}",
            detail(seen)
        );
        return fails(reason::SERVER_UNAUTHORIZED, text);
    }
    if let Some((agent, seen)) = first(ReportedState::Failed) {
        return fails(
            reason::SERVER_NOT_READY,
            format!("Agent `{agent}` gets no MCP answer{}", detail(seen)),
        );
    }
    fails(
        reason::PROGRESSING,
        "no Agent that uses this server has reported about its current spec yet".to_owned(),
    )
}

/// The bridge proves its own server. What it said before stands while its pod has said nothing yet.
fn verified_by_bridge(reported: Option<&Reported>, stood: bool) -> Verdict {
    let fails = |reason: &str, message: String| Verdict::fails(kind::VERIFIED, reason, message);
    let Some(seen) = reported.and_then(|reported| reported.servers.first()) else {
        return if stood {
            Verdict::holds(kind::VERIFIED, reason::EXCHANGED, "")
        } else {
            fails(reason::NOT_REPORTED, "the bridge has not reported yet".to_owned())
        };
    };
    let detail = seen
        .reason
        .as_deref()
        .map(|text| format!(": {text}"))
        .unwrap_or_default();
    match seen.state {
        ReportedState::Connected => Verdict::holds(kind::VERIFIED, reason::EXCHANGED, ""),
        ReportedState::Unauthorized => fails(
            reason::SERVER_UNAUTHORIZED,
            format!("the server answers the bridge with 401 or 403; it must let loopback in{detail}"),
        ),
        ReportedState::Failed => fails(
            reason::SERVER_NOT_READY,
            format!("the server gives no MCP answer on its port and path{detail}"),
        ),
        ReportedState::Connecting => fails(reason::PROGRESSING, "the bridge is trying the server".to_owned()),
    }
}

fn isolated(reported: Option<&Reported>) -> Verdict {
    match reported.and_then(|reported| reported.listens_on_all_addresses) {
        Some(true) => Verdict::fails(
            kind::ISOLATED,
            reason::LISTENS_ON_ALL,
            "the server also answers on the pod's own address, past the bridge; let it bind 127.0.0.1, or rely on a CNI that enforces NetworkPolicy",
        ),
        Some(false) => Verdict::holds(kind::ISOLATED, reason::LOOPBACK_ONLY, ""),
        None => Verdict::unknown(
            kind::ISOLATED,
            reason::NOT_REPORTED,
            "the bridge has not reported yet",
        ),
    }
}

/// The part of a status that the controllers own.
fn owned(status: &McpServerStatus) -> McpServerStatus {
    let McpServerStatus {
        observed_generation,
        conditions,
        address,
        server_info: _,
        tools: _,
        tool_count: _,
        resource_count: _,
        reported: _,
    } = status.clone();
    McpServerStatus {
        observed_generation,
        conditions,
        address,
        ..McpServerStatus::default()
    }
}

/// The Agents that use the server and what they say of it.
pub(super) fn users(context: &Context, server: &McpServer) -> Vec<User> {
    let uses = |agent: &Agent| {
        !agent.spec.suspend
            && agent.metadata.deletion_timestamp.is_none()
            && callers::references(agent, server)
            && callers::admits(server, agent)
    };
    let agents = context
        .world
        .agents_that(&server.namespace().unwrap_or_default(), uses);
    agents
        .iter()
        .map(|agent| {
            user(
                agent,
                server,
                context.rendered.get(&agent.uid().unwrap_or_default()),
            )
        })
        .collect()
}

fn user(agent: &Agent, server: &McpServer, document: Option<Document>) -> User {
    let name = agent.spec.mcp_servers.iter().find_map(|used| {
        let reference = used.reference.as_ref()?;
        (reference.name == server.name_any()).then_some(used.name.as_str())
    });
    let status = agent.status.as_ref();
    let reported = status.and_then(|status| status.reported.as_ref());
    let seen = reported.and_then(|reported| {
        reported
            .servers
            .iter()
            .find(|seen| Some(seen.name.as_str()) == name)
    });
    let current = document.and_then(|document| {
        let made_of = document.servers.get(&server.uid().unwrap_or_default());
        if made_of != server.metadata.generation.as_ref() {
            return Some(false);
        }
        // Until the pod runs a document that changed for another reason, what it said before stands.
        let running = status.and_then(|status| status.running_digest.as_ref());
        (running == Some(&document.digest)).then_some(true)
    });
    User {
        agent: agent.name_any(),
        seen: seen.cloned(),
        current,
    }
}

/// Writes the status when it says something new.
pub(super) async fn write(
    context: &Context,
    server: &McpServer,
    view: &View<'_>,
) -> Result<(), ReconcileError> {
    let now = context.clock.now();
    statuses::write(context, server, |server| {
        let before = server.status.clone().unwrap_or_default();
        let status = compute(server, view, now);
        (owned(&before) != status).then(|| New {
            before: before.conditions,
            conditions: status.conditions.clone(),
            status,
        })
    })
    .await
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
