//! Tokens, and the objects that the issuer looks at.

use futures::StreamExt as _;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{DynamicObject, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};

use crate::install::LIMIT;

/// A token of a ServiceAccount; for the API server itself when no audience is given.
pub(crate) async fn token(
    client: &Client,
    namespace: &str,
    account: &str,
    audience: Option<&str>,
    pod: Option<&Pod>,
) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: audience.map(str::to_owned).into_iter().collect(),
            expiration_seconds: Some(3600),
            bound_object_ref: pod.map(|pod| BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .unwrap();
    answer.status.unwrap().token
}

/// The first pod with a label; controllers make it when they get to it.
pub(crate) async fn pod_of(client: &Client, namespace: &str, app: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut seen =
        Box::pin(watcher(pods, watcher::Config::default().labels(&format!("app={app}"))).applied_objects());
    let pod = tokio::time::timeout(LIMIT, seen.next())
        .await
        .expect("a pod appears");
    pod.unwrap().unwrap()
}

pub(crate) const POD_SPEC: &str = r"
    serviceAccountName: ACCOUNT
    securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
    containers:
      - name: main
        image: registry.local/nothing:1
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

pub(crate) fn pod_spec(account: &str, indent: usize) -> String {
    let spec = POD_SPEC.replace("ACCOUNT", account);
    spec.lines()
        .map(|line| format!("{}{line}\n", " ".repeat(indent)))
        .collect()
}

pub(crate) fn account(name: &str, label: Option<&str>) -> String {
    let labels = label
        .map(|label| format!("  labels: {{{label}}}\n"))
        .unwrap_or_default();
    format!(
        "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n  namespace: NAMESPACE\n{labels}"
    )
}

pub(crate) fn agent(name: &str, account: Option<&str>) -> String {
    let account = account
        .map(|name| format!("  serviceAccount: {{name: {name}}}\n"))
        .unwrap_or_default();
    format!(
        "---\napiVersion: agentd.io/v1alpha1\nkind: Agent\nmetadata: {{name: {name}, namespace: NAMESPACE}}\nspec:\n  \
         instruction: Help.\n  intelligence:\n    endpoints: [{{name: m, url: 'https://model.example/v1'}}]\n    model: m\n  \
         run: {{mode: Service}}\n{account}"
    )
}

pub(crate) fn server(name: &str) -> String {
    format!(
        "---\napiVersion: agentd.io/v1alpha1\nkind: McpServer\nmetadata: {{name: {name}, namespace: NAMESPACE}}\nspec:\n  \
         deployment: {{image: 'registry.local/nothing:1', transport: http, port: 8080}}\n"
    )
}

/// What the operator makes for an Agent or McpServer, as far as the issuer looks at it.
pub(crate) fn made(kind: &str, object: &DynamicObject, name: &str, account: &str) -> String {
    let owner = format!(
        "ownerReferences: [{{apiVersion: agentd.io/v1alpha1, kind: {kind}, name: {}, uid: {}, controller: true}}]",
        object.name_any(),
        object.uid().unwrap()
    );
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: NAMESPACE\n  {owner}\nspec:\n  \
         selector: {{app: {name}}}\n  ports: [{{port: 8443}}]\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  \
         name: {name}\n  namespace: NAMESPACE\n  {owner}\nspec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
         template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:{}",
        pod_spec(account, 2)
    )
}

pub(crate) fn bare_pod(name: &str, account: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: NAMESPACE, labels: {{app: {name}}}}}\n\
         spec:{}",
        pod_spec(account, 0)
    )
}

pub(crate) async fn object(client: &Client, namespace: &str, kind: &str, name: &str) -> DynamicObject {
    agentd_tests::wait::resources(client, namespace, kind)
        .get(name)
        .await
        .unwrap()
}
