//! What the card of an Agent promises: skills, and the address that callers outside the cluster use. Pure.

use agentd_config::document::{External, Role, ServerTls, Skill};
use agentd_crds::agent as crd;
use agentd_crds::shared::KeyReference;

use super::Work;

/// As the spec says them.
pub(super) fn skills(spec: &crd::AgentSpec) -> Vec<Skill> {
    let skills = spec.a2a.iter().flat_map(|a2a| &a2a.skills);
    skills
        .map(|skill| Skill {
            id: skill.id.clone(),
            name: skill.name.clone(),
            description: skill.description.clone(),
            tags: skill.tags.clone(),
            examples: skill.examples.clone(),
            role: skill.role.map(role),
        })
        .collect()
}

/// The external address, with the files of its certificate, which the pod mounts.
pub(super) fn external(spec: &crd::AgentSpec, work: &mut Work) -> Option<External> {
    let external = spec.a2a.as_ref()?.external.as_ref()?;
    let tls = external.tls.as_ref().and_then(|tls| {
        let mut file = |key: &str| {
            let reference = KeyReference {
                name: tls.secret_name.clone(),
                key: key.to_owned(),
            };
            let file = work.findings.mounts.secret("a2a.external.tls", &reference);
            work.findings.take(file)
        };
        // The keys of a Secret of type kubernetes.io/tls.
        Some(ServerTls {
            cert: file("tls.crt")?,
            key: file("tls.key")?,
        })
    });
    Some(External {
        url: external.url.clone(),
        tls,
    })
}

/// A role of the spec in the document.
pub(super) const fn role(role: crd::Role) -> Role {
    match role {
        crd::Role::Operator => Role::Operator,
        crd::Role::User => Role::User,
        crd::Role::Agent => Role::Agent,
    }
}
