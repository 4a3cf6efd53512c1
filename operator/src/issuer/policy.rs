//! Who may have which identity: the issuer's whole policy, pure. It takes what the token says and what live reads of
//! the API server found, and answers with an identity or a refusal. Two cases only: a *workload* (a live pod that
//! belongs, by UID at each step, to an Agent or McpServer which uses the token's ServiceAccount) and a *caller* (a
//! labelled ServiceAccount that no Agent or McpServer uses). Nothing of a spec becomes a name in a certificate.

use agentd_base::issuance::reason;
use agentd_identity::{SpiffeId, TrustDomain};

use super::facts::{Facts, Kind, Link, Service, Token, User, next_reference};

/// Which of the two cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// A pod of an Agent or McpServer.
    Workload,
    /// A labelled ServiceAccount.
    Caller,
}

/// What may be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The case, for logs and metrics.
    pub case: Case,
    /// The ID.
    pub id: SpiffeId,
    /// DNS names; none for a caller.
    pub dns_names: Vec<String>,
}

/// Why nothing is signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// One of [`agentd_base::issuance::reason`].
    pub reason: &'static str,
    /// For people: names the object and the remedy.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What may be signed, or why nothing is.
    pub outcome: Result<Grant, Refusal>,
    /// The account is labelled as a caller although an Agent or McpServer uses it. The label was ignored: say so.
    pub label_ignored: bool,
}

/// Decides.
pub fn decide(facts: &Facts, trust_domain: &TrustDomain, cluster_domain: &str) -> Decision {
    let workload = workload(facts);
    let used = matches!(workload, Workload::Of { .. }) || !facts.users.is_empty();
    let labelled = facts.account.as_ref().is_some_and(|account| account.labelled);
    let outcome = still_there(facts)
        .and_then(|()| match workload {
            Workload::Of { uid } => Ok((Case::Workload, dns_names(facts, uid, cluster_domain))),
            Workload::Not(why) => caller(facts, labelled, &why).map(|()| (Case::Caller, Vec::new())),
        })
        .and_then(|(case, dns_names)| {
            let Token {
                namespace,
                service_account,
                ..
            } = &facts.token;
            let id = SpiffeId::of_service_account(trust_domain, namespace, service_account)
                .map_err(|error| Refusal::new(reason::UNAVAILABLE, error.to_string()))?;
            Ok(Grant { case, id, dns_names })
        });
    Decision {
        outcome,
        label_ignored: used && labelled,
    }
}

/// Account and pod of the token are the ones it was made for, now. The API server's answer about the token may be
/// cached, so it is not enough.
fn still_there(facts: &Facts) -> Result<(), Refusal> {
    let Token {
        namespace,
        service_account,
        service_account_uid,
        pod,
    } = &facts.token;
    if facts.account.as_ref().map(|account| &account.uid) != Some(service_account_uid) {
        let message = format!(
            "ServiceAccount {namespace}/{service_account} was deleted since this token was made; use a new token"
        );
        return Err(Refusal::new(reason::SERVICE_ACCOUNT_GONE, message));
    }
    let Some(claim) = pod else { return Ok(()) };
    let shown = format!("Pod {namespace}/{}", claim.name);
    let pod = facts.pod.as_ref().filter(|pod| pod.found.uid == claim.uid);
    let pod = pod.ok_or_else(|| {
        Refusal::new(
            reason::POD_GONE,
            format!("{shown} of this token no longer exists"),
        )
    })?;
    if pod.found.terminating {
        return Err(Refusal::new(
            reason::POD_TERMINATING,
            format!("{shown} is ending and gets no new identity"),
        ));
    }
    if pod.service_account != *service_account {
        let message = format!(
            "{shown} runs under `{}`, not under `{service_account}`",
            pod.service_account
        );
        return Err(Refusal::new(reason::FOREIGN_POD, message));
    }
    Ok(())
}

enum Workload<'a> {
    /// Of the object with this UID.
    Of { uid: &'a str },
    /// Of none, for this reason.
    Not(String),
}

/// Whether the pod belongs to an Agent or McpServer that uses the token's ServiceAccount.
fn workload(facts: &Facts) -> Workload<'_> {
    let (Some(claim), Some(pod)) = (&facts.token.pod, &facts.pod) else {
        return Workload::Not("the token names no pod".to_owned());
    };
    let mut child = (Kind::Pod, claim.name.as_str(), &pod.found);
    for Link { reference, found } in &facts.chain {
        // The chain was followed by this very rule; checking it again keeps the rule in one place.
        if next_reference(child.0, child.2).as_ref() != Some(reference) {
            break;
        }
        let shown = format!("{} {}", reference.kind.as_str(), reference.name);
        let Some(found) = found.as_ref().filter(|found| found.uid == reference.uid) else {
            return Workload::Not(format!("its owner {shown} no longer exists"));
        };
        if found.terminating {
            return Workload::Not(format!("its owner {shown} is being deleted"));
        }
        child = (reference.kind, reference.name.as_str(), found);
    }
    let (kind, name, found) = child;
    match (kind, &facts.owner_account) {
        (Kind::Agent | Kind::McpServer, Some(account)) if *account == facts.token.service_account => {
            Workload::Of { uid: &found.uid }
        }
        (Kind::Agent | Kind::McpServer, _) => Workload::Not(format!(
            "its owner {} {name} does not use this ServiceAccount",
            kind.as_str()
        )),
        _ => Workload::Not(format!(
            "{} {name} is controlled by no Agent or McpServer",
            kind.as_str()
        )),
    }
}

fn caller(facts: &Facts, labelled: bool, not_workload: &str) -> Result<(), Refusal> {
    let Token {
        namespace,
        service_account,
        pod,
        ..
    } = &facts.token;
    if let Some(User { kind, name }) = facts.users.first() {
        let kind = kind.as_str();
        return Err(match pod {
            None => Refusal::new(
                reason::POD_CLAIMS_MISSING,
                format!(
                    "ServiceAccount {namespace}/{service_account} is the identity of {kind} {name}: only its own pods \
                     get it, with their projected token; use another ServiceAccount labelled agentd.io/caller=true"
                ),
            ),
            Some(claim) => Refusal::new(
                reason::FOREIGN_POD,
                format!(
                    "Pod {namespace}/{} is not one of {kind} {name}, whose identity ServiceAccount `{service_account}` \
                     is: {not_workload}",
                    claim.name
                ),
            ),
        });
    }
    if labelled {
        return Ok(());
    }
    let message = format!(
        "ServiceAccount {namespace}/{service_account} belongs to no Agent or McpServer and is not a caller; to make it \
         one: kubectl label serviceaccount {service_account} -n {namespace} agentd.io/caller=true"
    );
    Err(Refusal::new(reason::CALLER_NOT_LABELLED, message))
}

/// The names of the Service that the object with `uid` controls.
fn dns_names(facts: &Facts, uid: &str, cluster_domain: &str) -> Vec<String> {
    let namespace = &facts.token.namespace;
    match &facts.service {
        Some(Service {
            name,
            controller: Some(controller),
        }) if controller == uid => {
            vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.{cluster_domain}"),
            ]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
