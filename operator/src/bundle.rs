//! The published trust bundles: ConfigMap `agentd-bundle` in the install namespace and in each namespace that has a
//! labelled ServiceAccount, for whoever calls an agent without being one. They are owned by the install's ClusterRole,
//! so that they go with the release, and removed where the last labelled ServiceAccount went.
//!
//! A ConfigMap of that name that is not this install's is left alone, with a Warning Event on it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_base::class::Classified as _;
use futures::StreamExt as _;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ObjectMeta, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;

use crate::authority_store::{BUNDLE_CONFIG_MAP, TRUST_DOMAIN};
use crate::context::Context;
use crate::install::Install;
use crate::labels::{CALLER, MANAGED_BY, MANAGED_BY_VALUE};
use crate::live::BUNDLE;
use crate::owned::{self, OwnedError, Standing};

/// Key of the audience that a caller's token needs; says too whose ConfigMap it is.
pub const AUDIENCE: &str = "audience";
/// How long to wait after the API server did not take a bundle.
const RETRY: Duration = Duration::from_secs(5);

/// Publishes bundles until the queue ends.
pub async fn publish(context: Context, owner: Option<OwnerReference>, mut queue: mpsc::Receiver<()>) {
    let mut bundle = context.bundle.clone();
    loop {
        let ok = sync(&context, owner.as_ref()).await;
        let retry = async {
            if ok {
                futures::future::pending().await
            } else {
                tokio::time::sleep(RETRY).await;
            }
        };
        tokio::select! {
            asked = queue.next() => if asked.is_none() { return },
            changed = bundle.changed() => if changed.is_err() { return },
            () = retry => {}
        }
    }
}

/// Brings all of them to what they should be. False when one could not be.
async fn sync(context: &Context, owner: Option<&OwnerReference>) -> bool {
    let accounts = context.world.accounts.state();
    let wanted = namespaces(&context.install.namespace, accounts.iter().map(AsRef::as_ref));
    let mut ok = true;
    for namespace in &wanted {
        let map = match build(&context.install, &context.bundle_pem(), namespace, owner) {
            Ok(map) => map,
            Err(error) => {
                tracing::error!(event = "bundle.build.fail", error = %error);
                return false;
            }
        };
        match owned::apply_as(&context.client, &context.metrics, &map, standing).await {
            Ok(_) | Err(OwnedError::Going { .. }) => {}
            Err(OwnedError::Foreign { .. }) => {
                let note = format!(
                    "ConfigMap `{BUNDLE_CONFIG_MAP}` is not this install's, so callers here get no trust bundle; \
                     rename it"
                );
                context
                    .events
                    .warning(&map, "BundleNameTaken", "Publish", &note)
                    .await;
            }
            Err(error) => {
                tracing::warn!(event = "bundle.publish.fail", object.namespace = %namespace, error = %error, error.class = error.class().label());
                ok = false;
            }
        }
    }
    for map in context.world.config_maps.state() {
        let namespace = map.namespace().unwrap_or_default();
        let candidate = map.metadata.name.as_deref() == Some(BUNDLE_CONFIG_MAP)
            && map
                .labels()
                .get(MANAGED_BY)
                .is_some_and(|value| value == MANAGED_BY_VALUE);
        if candidate
            && !wanted.contains(&namespace)
            && let Err(error) = retire(context, &namespace).await
        {
            tracing::warn!(event = "bundle.retire.fail", object.namespace = %namespace, error = %error);
            ok = false;
        }
    }
    ok
}

/// Where a bundle is needed.
fn namespaces<'a>(
    install: &str,
    accounts: impl IntoIterator<Item = &'a PartialObjectMeta<ServiceAccount>>,
) -> BTreeSet<String> {
    let callers = accounts.into_iter().filter(|account| {
        account.metadata.deletion_timestamp.is_none()
            && account.labels().get(CALLER).is_some_and(|value| value == "true")
    });
    let mut namespaces: BTreeSet<String> = callers.filter_map(|account| account.namespace()).collect();
    namespaces.insert(install.to_owned());
    namespaces
}

fn build(
    install: &Install,
    bundle_pem: &str,
    namespace: &str,
    owner: Option<&OwnerReference>,
) -> Result<ConfigMap, agentd_identity::IdError> {
    let data = [
        (BUNDLE, bundle_pem.to_owned()),
        (TRUST_DOMAIN, install.trust_domain.to_string()),
        ("issuer-url", install.issuer_url()),
        ("issuer-id", install.issuer_id()?.to_string()),
        (AUDIENCE, install.audience()),
    ];
    Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(BUNDLE_CONFIG_MAP.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(
                MANAGED_BY.to_owned(),
                MANAGED_BY_VALUE.to_owned(),
            )])),
            owner_references: owner.map(|owner| vec![owner.clone()]),
            ..ObjectMeta::default()
        },
        data: Some(
            data.into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        ),
        ..ConfigMap::default()
    })
}

/// This install's are those with its audience: nothing else says so once the release was installed anew.
fn standing(live: &Value, wanted: &Value) -> Standing {
    let audience = |map: &Value| {
        map.pointer("/data/audience")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let label = |map: &Value| {
        map.pointer("/metadata/labels")
            .and_then(|labels| labels.get(MANAGED_BY))
            .cloned()
    };
    let same = audience(live).is_some() && audience(live) == audience(wanted) && label(live) == label(wanted);
    if same { Standing::Ours } else { Standing::Foreign }
}

async fn retire(context: &Context, namespace: &str) -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let Some(map) = maps.get_opt(BUNDLE_CONFIG_MAP).await? else {
        return Ok(());
    };
    let audience = map.data.as_ref().and_then(|data| data.get(AUDIENCE));
    if audience != Some(&context.install.audience()) {
        return Ok(());
    }
    let preconditions = Preconditions {
        uid: map.meta().uid.clone(),
        resource_version: None,
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    match maps.delete(BUNDLE_CONFIG_MAP, &params).await {
        Ok(_) => {
            context.metrics.wrote("ConfigMap");
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bundles_follow_the_callers() {
        let account = |namespace: &str, label: Value| -> PartialObjectMeta<ServiceAccount> {
            serde_json::from_value(
                json!({"metadata": {"name": "x", "namespace": namespace, "labels": {CALLER: label}}}),
            )
            .unwrap()
        };
        let accounts = [
            account("a", json!("true")),
            account("b", json!("false")),
            account("c", json!("true")),
        ];
        assert_eq!(
            namespaces("install", &accounts),
            BTreeSet::from(["a", "c", "install"].map(str::to_owned))
        );
    }

    #[test]
    fn another_installs_or_a_persons_map_is_not_ours() {
        let map = |audience: &str, label: &str| json!({"metadata": {"labels": {MANAGED_BY: label}}, "data": {"audience": audience}});
        let ours = map("agentd:n/r", MANAGED_BY_VALUE);
        assert_eq!(standing(&ours, &ours), Standing::Ours);
        assert_eq!(
            standing(&map("agentd:n/other", MANAGED_BY_VALUE), &ours),
            Standing::Foreign
        );
        assert_eq!(standing(&map("agentd:n/r", "Helm"), &ours), Standing::Foreign);
        assert_eq!(standing(&json!({"metadata": {}}), &ours), Standing::Foreign);
    }
}
