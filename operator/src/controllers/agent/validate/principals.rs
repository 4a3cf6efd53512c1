//! Principals, each as exact IDs or as the token of a Secret. Pure. What does not resolve is left out: nobody is let in by a name that means
//! nothing yet.

use agentd_config::document::Principal;
use agentd_crds::agent as crd;

use super::Work;
use super::card::role;
use crate::controllers::agent::inputs::Inputs;
use crate::controllers::mounts::template;
use crate::problem::{Problem, Reason};

pub(super) fn resolve(inputs: &Inputs, work: &mut Work) -> Vec<Principal> {
    let mut list = Vec::new();
    for principal in inputs.agent.spec.a2a.iter().flat_map(|a2a| &a2a.principals) {
        let role = role(principal.role);
        let name = &principal.name;
        if let Some(id) = &principal.spiffe_id {
            list.push(Principal::with_spiffe_id(name, id, role));
            continue;
        }
        if let Some(token) = &principal.bearer {
            let path = format!("a2a.principals[{name}].bearer");
            let reference = &token.value_from.secret_key_ref;
            match work.findings.mounts.secret(&path, reference) {
                Ok(file) => list.push(Principal::with_bearer(name, template(&file), role)),
                Err(problem) => work.findings.problems.push(problem),
            }
            continue;
        }
        // Kinds that are not built are refused by name elsewhere.
        let Some(what) = described(principal) else {
            continue;
        };
        match inputs.principals.get(name).and_then(Option::as_ref) {
            Some(ids) => {
                let one = ids.len() == 1 && principal.namespace.is_none();
                list.extend(ids.iter().enumerate().map(|(index, id)| {
                    let name = if one {
                        name.clone()
                    } else {
                        format!("{name}.{index}")
                    };
                    Principal::with_spiffe_id(name, id.to_string(), role)
                }));
            }
            None => work.notes.push(Problem::new(
                Reason::PrincipalNotFound,
                format!(
                    "{what} does not exist (spec.a2a.principals[{name}]): it may not call until it is there"
                ),
            )),
        }
    }
    list
}

fn described(principal: &crd::Principal) -> Option<String> {
    let crd::Principal {
        agent_ref,
        service_account_ref,
        namespace,
        ..
    } = principal;
    if let Some(agent) = agent_ref {
        let place = agent
            .namespace
            .as_ref()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default();
        return Some(format!("Agent {place}{}", agent.name));
    }
    if let Some(account) = service_account_ref {
        return Some(format!(
            "ServiceAccount {} with the label agentd.io/caller: \"true\"",
            account.name
        ));
    }
    namespace
        .as_ref()
        .map(|namespace| format!("Namespace {}", namespace.name))
}
