//! A server that the operator runs: what its pods are made of. Pure.

use agentd_base::limit::DOCUMENT_BYTES;
use agentd_config::BridgeDocument;
use agentd_crds::mcp_server::{DEFAULT_PATH, DEFAULT_PORT, EnvVar, ServerDeployment};
use agentd_crds::shared::{KeyReference, NetworkPolicyMode};
use agentd_identity::SpiffeId;
use agentd_identity::id::IdError;
use k8s_openapi::api::core::v1::{
    self, ConfigMapKeySelector, EnvVarSource, ResourceRequirements, SecretKeySelector,
};
use k8s_openapi::api::networking::v1::{NetworkPolicyEgressRule, NetworkPolicyIngressRule};

use crate::controllers::mcp_server::build::document;
use crate::controllers::mcp_server::inputs::Inputs;
use crate::controllers::pair::Halves;
use crate::controllers::subject::Subject;
use crate::controllers::{platform, quantities, workload};
use crate::install::Install;
use crate::problem::{Problem, Reason};

/// The pods of a server that the operator runs.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// The pods' ID.
    pub spiffe_id: SpiffeId,
    /// The bridge's document.
    pub halves: Halves,
    /// The server's image.
    pub image: String,
    /// Instead of its entrypoint; empty: its own.
    pub command: Vec<String>,
    /// Instead of its arguments; empty: its own.
    pub args: Vec<String>,
    /// Its environment.
    pub env: Vec<v1::EnvVar>,
    /// Its resources, if the spec has any.
    pub resources: Option<ResourceRequirements>,
    /// Its user, where its image's is no number.
    pub run_as_user: Option<i64>,
    /// Absent: not written.
    pub replicas: Option<i32>,
    /// A person's own rules; none: no policy.
    pub network: Option<(Vec<NetworkPolicyIngressRule>, Vec<NetworkPolicyEgressRule>)>,
    /// The digest that a pod did not take up in time.
    pub rolled_digest: Option<String>,
}

pub(super) fn plan(
    deployment: &ServerDeployment,
    inputs: &Inputs,
    subject: &Subject,
    install: &Install,
    allowed: &[String],
    problems: &mut Vec<Problem>,
) -> Option<RunPlan> {
    problems.extend(quantities::check(
        "deployment.resources",
        deployment.resources.as_ref(),
    ));
    let spec = &inputs.server.spec;
    let document = match bridge(deployment, inputs, subject, install, allowed) {
        Ok(document) => document,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let faults = agentd_config::validate::validate_bridge(&document.1);
    problems.extend(
        faults
            .iter()
            .map(|fault| Problem::invalid(format!("spec.deployment: {fault}"))),
    );
    let halves = document::halves(&document.1, &inputs.bundle_pem)
        .map_err(|error| {
            problems.push(Problem::invalid(format!(
                "the document cannot be written: {error}"
            )))
        })
        .ok()?;
    problems.extend(halves.reread(&document.1).err());
    if halves.reloadable.len() > DOCUMENT_BYTES {
        let message = format!(
            "{} callers are too many for one list; narrow allowedAgents",
            allowed.len()
        );
        problems.push(Problem::new(Reason::ConfigTooLarge, message));
    }
    let policy = &spec.network_policy;
    let ServerDeployment {
        image,
        command,
        args,
        // Another transport and a pod template are refused by name.
        transport: _,
        pod_template: _,
        // In the document.
        port: _,
        path: _,
        env,
        resources,
        replicas,
        run_as_user,
    } = deployment;
    Some(RunPlan {
        spiffe_id: document.0,
        halves,
        image: image.clone(),
        command: command.clone(),
        args: args.clone(),
        env: env.iter().map(variable).collect(),
        resources: resources.as_ref().map(workload::resources_of),
        run_as_user: *run_as_user,
        replicas: *replicas,
        network: (policy.mode == NetworkPolicyMode::Managed)
            .then(|| (policy.extra_ingress.clone(), policy.extra_egress.clone())),
        rolled_digest: inputs.rolled_digest.clone(),
    })
}

fn bridge(
    deployment: &ServerDeployment,
    inputs: &Inputs,
    subject: &Subject,
    install: &Install,
    allowed: &[String],
) -> Result<(SpiffeId, BridgeDocument), Problem> {
    let known = |error: IdError| Problem::invalid(error.to_string());
    let id = install
        .id_of_mcp_server(&subject.namespace, &subject.name)
        .map_err(known)?;
    let port = deployment.port.unwrap_or(DEFAULT_PORT);
    let timeout = inputs.server.spec.timeout.0.parse();
    let document = document::document(document::Parts {
        name: subject.name.clone(),
        port: u16::try_from(port)
            .map_err(|_| Problem::invalid("spec.deployment.port: is not a port; write 1 to 65535"))?,
        path: deployment.path.clone().unwrap_or_else(|| DEFAULT_PATH.to_owned()),
        timeout: timeout.map_err(|error| Problem::invalid(format!("spec.timeout: {error}")))?,
        allowed: allowed.to_vec(),
        identity: platform::identity(install, &id).map_err(known)?,
        report: platform::report(install).map_err(known)?,
    });
    Ok((id, document))
}

/// The kubelet gives the values to the container; neither we nor the bridge see them.
fn variable(variable: &EnvVar) -> v1::EnvVar {
    let EnvVar {
        name,
        value,
        value_from,
    } = variable;
    let source = value_from.as_ref().map(|source| EnvVarSource {
        secret_key_ref: source
            .secret_key_ref
            .as_ref()
            .map(|KeyReference { name, key }| SecretKeySelector {
                name: name.clone(),
                key: key.clone(),
                optional: None,
            }),
        config_map_key_ref: source
            .config_map_key_ref
            .as_ref()
            .map(|KeyReference { name, key }| ConfigMapKeySelector {
                name: name.clone(),
                key: key.clone(),
                optional: None,
            }),
        ..EnvVarSource::default()
    });
    v1::EnvVar {
        name: name.clone(),
        value: value.clone(),
        value_from: source,
    }
}
