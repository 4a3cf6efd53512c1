//! What an Agent asks for, decided. Pure: inputs in, a validated Agent or every reason why not out. Past this step
//! nobody reads the spec.
//!
//! Guarantees: the document is checked by the very code that the pod runs, and its texts are shown as they are; a field
//! that is not built is refused by name; the lists of callers are made even when the rest is refused, so that an ID
//! that left a spec leaves what runs.

mod card;
mod models;
mod names;
mod plans;
mod principals;
mod servers;
mod store;

use std::collections::BTreeMap;

use agentd_base::limit::DOCUMENT_BYTES;
use agentd_config::document::{Document, Principal, Security, SubagentLimits};
use agentd_config::endpoint::Place;
use agentd_config::{secret, trifecta};
use agentd_crds::agent;
use agentd_identity::SpiffeId;
use agentd_identity::id::IdError;
use k8s_openapi::api::core::v1::ResourceRequirements;

use super::build::document::{self, Parts};
use super::inputs::{FILE, Inputs, NamedClaim};
use crate::controllers::destination::Findings;
use crate::controllers::mounts::{Mounts, template};
use crate::controllers::pair::{self, Halves};
use crate::controllers::subject::Subject;
use crate::controllers::workload::{self, SERVE_PORT};
use crate::controllers::{platform, quantities, unsupported};
use crate::install::Install;
use crate::names::service_host;
use crate::problem::{Problem, Reason};

pub use plans::{NetworkPlan, StorePlan};
pub use servers::{DeclaredServer, MadeOf};

/// An Agent that is acted on.
#[derive(Debug, Clone)]
pub struct Validated {
    /// Whose objects.
    pub subject: Subject,
    /// Its ID.
    pub spiffe_id: SpiffeId,
    /// Where callers in the cluster reach it.
    pub url: String,
    /// The document.
    pub halves: Halves,
    /// Files of a person's Secrets and ConfigMaps.
    pub mounts: Mounts,
    /// Where state lives.
    pub store: StorePlan,
    /// Absent: not written.
    pub replicas: Option<i32>,
    /// The image.
    pub image: String,
    /// Pull secrets; empty: the install's.
    pub pull_secrets: Vec<String>,
    /// Of the container.
    pub resources: ResourceRequirements,
    /// Of the ServiceAccount.
    pub annotations: BTreeMap<String, String>,
    /// Of the ServiceAccount.
    pub labels: BTreeMap<String, String>,
    /// None: no policy.
    pub network: Option<NetworkPlan>,
    /// The digest that a pod did not take up in time.
    pub rolled_digest: Option<String>,
    /// Every server of the spec, in its order.
    pub servers: Vec<DeclaredServer>,
    /// References that lead nowhere; what they name is left out.
    pub unresolved: Vec<Problem>,
    /// What a person should know, though nothing is refused.
    pub notes: Vec<Problem>,
}

/// An Agent that is not acted on.
#[derive(Debug, Clone, Default)]
pub struct Rejected {
    /// What is wrong with the spec; empty where only a reference is missing.
    pub problems: Vec<Problem>,
    /// References that lead nowhere.
    pub unresolved: Vec<Problem>,
    /// Who may call, as far as the spec says it well: what runs must not let in anybody else.
    pub principals: Vec<Principal>,
}

/// Decides.
///
/// # Errors
/// [`Rejected`] when nothing new may be applied.
pub fn validate(inputs: &Inputs, install: &Install) -> Result<Validated, Rejected> {
    let spec = &inputs.agent.spec;
    let subject = Subject::agent(&inputs.agent);
    let mut work = Work {
        findings: Findings::default(),
        unresolved: Vec::new(),
        notes: Vec::new(),
        blocked: false,
    };
    let fields = serde_json::to_value(spec).unwrap_or_default();
    work.findings
        .problems
        .extend(unsupported::find(&fields, unsupported::AGENT));
    names::check(spec, &subject, &mut work.findings.problems);
    work.findings
        .problems
        .extend(quantities::check("resources", spec.resources.as_ref()));

    let principals = principals::resolve(inputs, &mut work);
    let external = card::external(spec, &mut work);
    let servers = servers::resolve(inputs, &subject, install, &mut work);
    let intelligence = work.intelligence(&spec.intelligence);
    let store = work.store(spec.store.as_ref(), &servers, &subject);
    let instruction = work.instruction(inputs);
    work.config_maps(inputs);
    work.claim(inputs);
    let own = own_id(&subject, install, &mut work);
    let url = format!(
        "https://{}:{SERVE_PORT}",
        service_host(&subject.made, &subject.namespace)
    );
    let limits = &spec.limits;
    let deadline = work.findings.duration("limits.deadline", Some(&limits.deadline));
    let subagents = limits.subagents.as_ref().map(|asked| work.subagents(asked));
    let subagents = subagents.unwrap_or_default();

    let rendered = own.and_then(|(spiffe_id, identity, report)| {
        let document = document::document(Parts {
            name: subject.name.clone(),
            instruction,
            intelligence,
            servers: servers.entries,
            url: url.clone(),
            external,
            skills: card::skills(spec),
            principals: principals.clone(),
            store,
            steps: u32::try_from(limits.steps).unwrap_or_default(),
            tokens: u64::try_from(limits.tokens).unwrap_or_default(),
            deadline,
            subagents,
            security: Security {
                allow_trifecta: spec
                    .security
                    .as_ref()
                    .and_then(|security| security.allow_trifecta)
                    == Some(true),
                ..Security::default()
            },
            identity,
            report,
        });
        let halves = work.render(&document, inputs)?;
        let network = plans::network(spec, &subject, install, &document, servers.operator_run);
        Some((spiffe_id, halves, network))
    });

    let Work {
        findings: Findings { mounts, problems },
        unresolved,
        notes,
        blocked,
    } = work;
    let Some((spiffe_id, halves, network)) = rendered.filter(|_| problems.is_empty() && !blocked) else {
        return Err(Rejected {
            problems,
            unresolved,
            principals,
        });
    };
    let account = spec.service_account.clone().unwrap_or_default();
    Ok(Validated {
        subject,
        spiffe_id,
        url,
        halves,
        mounts,
        store: plans::store(spec.store.as_ref()),
        replicas: if spec.suspend { Some(0) } else { spec.replicas },
        image: spec.image.clone().unwrap_or_else(|| install.agent_image.clone()),
        pull_secrets: spec
            .image_pull_secrets
            .iter()
            .map(|secret| secret.name.clone())
            .collect(),
        resources: spec.resources.as_ref().map_or_else(
            || workload::resources("50m", "64Mi", "512Mi"),
            workload::resources_of,
        ),
        annotations: account.annotations,
        labels: account.labels,
        network,
        rolled_digest: inputs.rolled_digest.clone(),
        servers: servers.declared,
        unresolved,
        notes,
    })
}

/// What validation gathers on its way.
struct Work {
    findings: Findings,
    unresolved: Vec<Problem>,
    notes: Vec<Problem>,
    /// Something is missing without which nothing new is applied.
    blocked: bool,
}

impl Work {
    fn invalid(&mut self, message: impl Into<String>) {
        self.findings.problems.push(Problem::invalid(message));
    }

    /// A reference that leads nowhere and without which nothing is applied.
    fn block(&mut self, message: String) {
        self.unresolved.push(Problem::new(Reason::RefNotFound, message));
        self.blocked = true;
    }

    fn subagents(&mut self, asked: &agent::SubagentLimits) -> SubagentLimits {
        let agent::SubagentLimits {
            depth,
            breadth,
            total,
            rate,
        } = asked;
        // The schema lets no negative one in.
        let count = |number: &Option<i32>| number.and_then(|number| u32::try_from(number).ok());
        let rate = rate.as_ref().and_then(|rate| {
            let parsed = rate.parse();
            let fault = |error| Problem::invalid(format!("spec.limits.subagents.rate: {error}"));
            self.findings.take(parsed.map_err(fault))
        });
        SubagentLimits {
            depth: count(depth),
            breadth: count(breadth),
            total: count(total),
            rate,
        }
    }

    fn instruction(&mut self, inputs: &Inputs) -> Option<String> {
        let spec = &inputs.agent.spec;
        let source = spec.instruction_from.clone().unwrap_or_default();
        if let Some(reference) = &source.secret_key_ref {
            let file = self.findings.mounts.secret("instructionFrom", reference);
            return self.findings.take(file).map(|file| template(&file));
        }
        let text = match &source.config_map_key_ref {
            // A missing ConfigMap or key is named where all ConfigMaps are checked.
            Some(reference) => inputs
                .config_maps
                .get(&reference.name)
                .cloned()
                .flatten()
                .and_then(|data| data.get(&reference.key).cloned()),
            None => spec.instruction.clone(),
        }?;
        // Written by a person it could name any file of the pod, its token included.
        if secret::Template::parse(text.trim()).is_ok_and(|template| template.has_reference()) {
            self.invalid("spec.instruction: is a secret reference; use instructionFrom.secretKeyRef");
            return None;
        }
        Some(text)
    }

    /// Every ConfigMap key that the spec itself names must be there.
    fn config_maps(&mut self, inputs: &Inputs) {
        for (path, reference) in names::config_map_keys(&inputs.agent.spec) {
            let data = inputs.config_maps.get(&reference.name).and_then(Option::as_ref);
            match data.map(|data| data.contains_key(&reference.key)) {
                Some(true) => {}
                Some(false) => self.block(format!(
                    "ConfigMap {} has no key {} (spec.{path}); add it",
                    reference.name, reference.key
                )),
                None => self.block(format!(
                    "ConfigMap {} does not exist (spec.{path}); create it",
                    reference.name
                )),
            }
        }
    }

    fn claim(&mut self, inputs: &Inputs) {
        let file = inputs
            .agent
            .spec
            .store
            .as_ref()
            .and_then(|store| store.file.as_ref());
        let Some(name) = file.and_then(|file| file.claim_name.as_ref()) else {
            return;
        };
        match &inputs.claim {
            NamedClaim::Free => {}
            NamedClaim::None | NamedClaim::Missing => self.block(format!(
                "PersistentVolumeClaim {name} does not exist (spec.store.file.claimName); create it"
            )),
            NamedClaim::Controlled(owner) => {
                self.unresolved.push(Problem::new(
                    Reason::RefNotPermitted,
                    format!("PersistentVolumeClaim {name} (spec.store.file.claimName) belongs to {owner}; name a claim that nothing controls"),
                ));
                self.blocked = true;
            }
        }
    }

    /// The halves of the document, if the runtime would take it.
    fn render(&mut self, document: &Document, inputs: &Inputs) -> Option<Halves> {
        let faults = agentd_config::validate::validate(document, Place::Pod);
        for fault in faults {
            let problem = if fault.key == trifecta::KEY {
                let text = format!(
                    "{}; keep one out by tools.deny, or set spec.security.allowTrifecta",
                    fault.problem
                );
                Problem::new(Reason::LethalTrifecta, text)
            } else {
                Problem::invalid(fault.to_string())
            };
            self.findings.problems.push(problem);
        }
        let halves = pair::halves(FILE, document, &inputs.bundle_pem);
        let halves = self.findings.take(halves)?;
        let bytes = halves.restart_only.len() + halves.reloadable.len();
        if bytes > DOCUMENT_BYTES {
            self.findings.problems.push(Problem::new(
                Reason::ConfigTooLarge,
                format!("the rendered document has {bytes} bytes; shorten the instruction or take servers out until it has at most {DOCUMENT_BYTES}"),
            ));
        }
        Some(halves)
    }
}

type Own = (
    SpiffeId,
    agentd_config::document::Identity,
    agentd_config::document::Report,
);

fn own_id(subject: &Subject, install: &Install, work: &mut Work) -> Option<Own> {
    let own = || -> Result<Own, IdError> {
        let id = install.id_of_agent(&subject.namespace, &subject.name)?;
        let identity = platform::identity(install, &id)?;
        Ok((id, identity, platform::report(install)?))
    };
    let own = own().map_err(|error| Problem::invalid(error.to_string()));
    work.findings.take(own)
}
