//! What the issuer's decision rests on: the verified token, and the objects that live reads found. Plain data, and the
//! rules for following it: which owner may stand above which object, and which ServiceAccount an object uses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DynamicObject;

use crate::{labels, names};

/// The label that makes a ServiceAccount a caller.
pub const CALLER_LABEL: (&str, &str) = (labels::CALLER, "true");

/// What a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its ServiceAccount's namespace.
    pub namespace: String,
    /// Its ServiceAccount.
    pub service_account: String,
    /// The UID of that ServiceAccount when the token was made.
    pub service_account_uid: String,
    /// The pod it is bound to.
    pub pod: Option<PodClaim>,
}

/// The pod that a token is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodClaim {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The kinds that a chain may go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The beginning of every chain.
    Pod,
    /// Between Deployment and Pod.
    ReplicaSet,
    /// Of an Agent or McpServer.
    Deployment,
    /// Of an Agent or a CronJob.
    Job,
    /// Of an Agent.
    CronJob,
    /// The end of a chain.
    Agent,
    /// The end of a chain.
    McpServer,
}

impl Kind {
    /// As an owner reference names it; `None` for any other kind.
    fn named_by(reference: &OwnerReference) -> Option<Self> {
        let (group, _version) = reference.api_version.split_once('/')?;
        match (group, reference.kind.as_str()) {
            ("apps", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps", "Deployment") => Some(Self::Deployment),
            ("batch", "Job") => Some(Self::Job),
            ("batch", "CronJob") => Some(Self::CronJob),
            (agentd_crds::GROUP, "Agent") => Some(Self::Agent),
            (agentd_crds::GROUP, "McpServer") => Some(Self::McpServer),
            _ => None,
        }
    }

    /// Whether an object of this kind may stand above one of `child` in a chain.
    fn may_control(self, child: Self) -> bool {
        match self {
            Self::Pod => false,
            Self::ReplicaSet => child == Self::Pod,
            Self::Deployment => child == Self::ReplicaSet,
            Self::Job => child == Self::Pod,
            Self::CronJob => child == Self::Job,
            Self::Agent => matches!(child, Self::Deployment | Self::Job | Self::CronJob),
            Self::McpServer => child == Self::Deployment,
        }
    }

    /// As people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::ReplicaSet => "ReplicaSet",
            Self::Deployment => "Deployment",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
            Self::Agent => "Agent",
            Self::McpServer => "McpServer",
        }
    }
}

/// What a live GET found of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its UID.
    pub uid: String,
    /// Being deleted, or (a pod) finished.
    pub terminating: bool,
    /// Its controlling owner.
    pub controller: Option<OwnerReference>,
}

/// Where a chain goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The kind.
    pub kind: Kind,
    /// The name, in the namespace of the token.
    pub name: String,
    /// The UID that the object must have.
    pub uid: String,
}

/// The owner to look up next, `None` where the chain ends or leaves what is allowed.
pub fn next_reference(child: Kind, found: &Found) -> Option<Reference> {
    let owner = found.controller.as_ref()?;
    let kind = Kind::named_by(owner).filter(|kind| kind.may_control(child))?;
    Some(Reference {
        kind,
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    })
}

/// One step of a chain: what was named, and what a live GET found under that name.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// What the child names.
    pub reference: Reference,
    /// What is there.
    pub found: Option<Found>,
}

/// The token's pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Its metadata.
    pub found: Found,
    /// The ServiceAccount it runs under.
    pub service_account: String,
}

/// The token's ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its UID now.
    pub uid: String,
    /// Whether it is labelled as a caller.
    pub labelled: bool,
}

/// A Service and who controls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// UID of its controlling owner.
    pub controller: Option<String>,
}

/// An Agent or McpServer that uses a ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Which of the two.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// Everything that a decision rests on. All of it was read live, after the token was verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The verified token.
    pub token: Token,
    /// The token's ServiceAccount, if it is still there.
    pub account: Option<Account>,
    /// The object under the name of the token's pod.
    pub pod: Option<Pod>,
    /// From the pod upwards.
    pub chain: Vec<Link>,
    /// The ServiceAccount that the object at the chain's end uses.
    pub owner_account: Option<String>,
    /// The Service named after the object at the chain's end.
    pub service: Option<Service>,
    /// The Agents and McpServers of the namespace that use the token's ServiceAccount.
    pub users: Vec<User>,
}

/// The name of what is made for an Agent or McpServer: ServiceAccount and Service.
pub fn made_name(kind: Kind, name: &str) -> Option<String> {
    match kind {
        Kind::Agent => Some(names::agent(name)),
        Kind::McpServer => Some(names::mcp(name)),
        _ => None,
    }
}

/// The ServiceAccount that an Agent or McpServer uses: the one made for it; a remote McpServer uses none. A name that an
/// Agent gives in its spec is not honoured yet, so it takes nothing from that account's own holder. Read from the untyped
/// object, so that one malformed object hides no other.
pub fn account_of(kind: Kind, object: &DynamicObject) -> Option<String> {
    let made = || made_name(kind, object.metadata.name.as_deref()?);
    match kind {
        Kind::Agent => made(),
        Kind::McpServer => object.data.pointer("/spec/deployment").and_then(|_| made()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn which_account_an_object_uses() {
        let object = |spec: serde_json::Value| {
            serde_json::from_value::<DynamicObject>(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap()
        };
        let agent = |spec| account_of(Kind::Agent, &object(spec));
        assert_eq!(agent(json!({})).as_deref(), Some("x-agent"));
        assert_eq!(
            agent(json!({"serviceAccount": {"annotations": {}}})).as_deref(),
            Some("x-agent")
        );
        assert_eq!(
            agent(json!({"serviceAccount": {"name": "own"}})).as_deref(),
            Some("x-agent")
        );
        assert_eq!(
            agent(json!({"serviceAccount": "malformed"})).as_deref(),
            Some("x-agent")
        );
        let server = |spec| account_of(Kind::McpServer, &object(spec));
        assert_eq!(
            server(json!({"deployment": {"image": "i"}})).as_deref(),
            Some("x-mcp")
        );
        assert_eq!(server(json!({"endpoint": "https://x"})), None);
        assert_eq!(account_of(Kind::Job, &object(json!({}))), None);
    }
}
