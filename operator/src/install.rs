//! What holds for the whole install: names, addresses and IDs of issuer and controllers, defaults of pods. Plain data,
//! made once at start.

use agentd_base::{issuance, report};
use agentd_identity::id::IdError;
use agentd_identity::{SpiffeId, TrustDomain};

use crate::names;

/// The install.
#[derive(Debug, Clone)]
pub struct Install {
    /// The Helm release.
    pub release: String,
    /// Its namespace.
    pub namespace: String,
    /// The one trust domain.
    pub trust_domain: TrustDomain,
    /// The cluster's DNS domain, such as `cluster.local`.
    pub cluster_domain: String,
    /// The image of agent pods and bridges, where a spec names none.
    pub agent_image: String,
    /// `Always`, `IfNotPresent`, `Never`; absent: Kubernetes decides by the tag.
    pub image_pull_policy: Option<String>,
    /// Secrets that pull images, where a spec names none.
    pub image_pull_secrets: Vec<String>,
    /// Whether pods with a claim say `fsGroup`; not where the platform assigns it (SCCs).
    pub fs_group: bool,
}

impl Install {
    /// ServiceAccount, Deployment and Service of the controllers.
    pub fn controllers(&self) -> String {
        format!("{}-controllers", self.release)
    }

    /// ServiceAccount, Deployment and Service of the issuer.
    pub fn issuer(&self) -> String {
        format!("{}-issuer", self.release)
    }

    /// The Service of the report port: it selects the leader.
    pub fn reports(&self) -> String {
        format!("{}-reports", self.release)
    }

    /// The issuer's address.
    pub fn issuer_url(&self) -> String {
        format!(
            "https://{}:{}",
            names::service_host(&self.issuer(), &self.namespace),
            issuance::PORT
        )
    }

    /// The address for reports.
    pub fn report_url(&self) -> String {
        format!(
            "https://{}:{}",
            names::service_host(&self.reports(), &self.namespace),
            report::PORT
        )
    }

    /// The issuer's ID.
    ///
    /// # Errors
    /// When the install's own names could not be in an ID.
    pub fn issuer_id(&self) -> Result<SpiffeId, IdError> {
        self.id_of_account(&self.namespace, &self.issuer())
    }

    /// The ID of the controllers, which take the reports.
    ///
    /// # Errors
    /// As [`Self::issuer_id`].
    pub fn report_id(&self) -> Result<SpiffeId, IdError> {
        self.id_of_account(&self.namespace, &self.controllers())
    }

    /// The audience of tokens for the issuer.
    pub fn audience(&self) -> String {
        format!("agentd:{}/{}", self.namespace, self.release)
    }

    /// The ID of whatever runs under a ServiceAccount.
    ///
    /// # Errors
    /// When a name could not be one path segment; a name that Kubernetes accepted always can.
    pub fn id_of_account(&self, namespace: &str, account: &str) -> Result<SpiffeId, IdError> {
        SpiffeId::of_service_account(&self.trust_domain, namespace, account)
    }

    /// The ID of an Agent.
    ///
    /// # Errors
    /// As [`Self::id_of_account`].
    pub fn id_of_agent(&self, namespace: &str, name: &str) -> Result<SpiffeId, IdError> {
        self.id_of_account(namespace, &names::agent(name))
    }

    /// The ID of an McpServer that the operator runs.
    ///
    /// # Errors
    /// As [`Self::id_of_account`].
    pub fn id_of_mcp_server(&self, namespace: &str, name: &str) -> Result<SpiffeId, IdError> {
        self.id_of_account(namespace, &names::mcp(name))
    }
}
