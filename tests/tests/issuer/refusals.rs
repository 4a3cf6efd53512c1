//! What the issuer refuses, and whom a refused Agent takes nothing from.

use agentd_base::issuance::reason;
use agentd_tests::namespace::Namespace;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::DeleteParams;
use kube::runtime::{WatchStreamExt as _, watcher};

use crate::install::{Install, LIMIT, Running};
use crate::objects::{account, agent, bare_pod, pod_of, pod_spec, token};

#[tokio::test(flavor = "multi_thread")]
async fn what_the_issuer_refuses() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("refused"));
    let ours = install.audience();
    let audience = Some(ours.as_str());
    space.apply(
        &[
            agent("triage", None),
            agent("borrower", Some("lent")),
            account("triage-agent", Some("agentd.io/caller: 'true'")),
            account("lent", Some("agentd.io/caller: 'true'")),
            account("plain", None),
            account("alice", Some("agentd.io/caller: 'true'")),
        ]
        .concat(),
    );
    let name = space.name();
    let ask = async |token: String| Running::refused(running.ask(&token).await);

    // A wrong audience: another install's, and the API server's own.
    for wrong in [Some("agentd:elsewhere/plum"), None] {
        let (status, reason, message) = ask(token(client, name, "alice", wrong, None).await).await;
        assert_eq!(
            (status, reason.as_str()),
            (401, reason::TOKEN_INVALID),
            "{message}"
        );
        assert!(message.contains(&ours), "{message}");
    }
    // No token, and one that nobody signed.
    for text in ["x", "e30.e30.e30"] {
        assert_eq!(ask(text.to_owned()).await.1, reason::TOKEN_INVALID);
    }
    // An unlabelled ServiceAccount.
    let (status, reason, message) = ask(token(client, name, "plain", audience, None).await).await;
    assert_eq!((status, reason.as_str()), (403, reason::CALLER_NOT_LABELLED));
    assert!(
        message.contains(&format!("kubectl label serviceaccount plain -n {name}")),
        "{message}"
    );
    // A token with no pod claims for an Agent's ServiceAccount.
    let (status, reason, message) = ask(token(client, name, "triage-agent", audience, None).await).await;
    assert_eq!((status, reason.as_str()), (403, reason::POD_CLAIMS_MISSING));
    assert!(message.contains("Agent triage"), "{message}");
    // It is labelled, too: that is ignored, and an Event says so.
    let events: Api<Event> = Api::namespaced(client.clone(), name);
    let mut events = Box::pin(watcher(events, watcher::Config::default()).applied_objects());
    let event = async {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if event.reason.as_deref() == Some("CallerLabelIgnored") {
                return event;
            }
        }
    };
    let event = tokio::time::timeout(LIMIT, event).await.expect("an Event");
    assert_eq!(event.regarding.unwrap().name.as_deref(), Some("triage-agent"));
    // An Agent whose spec names an account, which is not honoured yet, takes nothing from that account.
    assert!(
        running
            .ask(&token(client, name, "lent", audience, None).await)
            .await
            .is_ok()
    );

    // A foreign Pod that names an Agent's ServiceAccount: bare, and one of a foreign Deployment.
    space.apply(&bare_pod("foreign", "triage-agent"));
    let foreign = pod_of(client, name, "foreign").await;
    let foreign_token = token(client, name, "triage-agent", audience, Some(&foreign)).await;
    let (status, reason, message) = ask(foreign_token.clone()).await;
    assert_eq!((status, reason.as_str()), (403, reason::FOREIGN_POD));
    assert!(
        message.contains("Pod foreign is controlled by no Agent or McpServer"),
        "{message}"
    );
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: triage-agent, namespace: NAMESPACE}}\nspec:\n  selector: \
         {{matchLabels: {{app: mine}}}}\n  template:\n    metadata: {{labels: {{app: mine}}}}\n    spec:{}",
        pod_spec("triage-agent", 2)
    );
    space.apply(&deployment);
    let foreign = pod_of(client, name, "mine").await;
    let (_, reason, message) = ask(token(client, name, "triage-agent", audience, Some(&foreign)).await).await;
    assert_eq!(reason, reason::FOREIGN_POD);
    assert!(
        message.contains("Deployment triage-agent is controlled by no Agent or McpServer"),
        "{message}"
    );

    // A token of a deleted pod, though the API server may still call it good.
    space.apply(&bare_pod("shortlived", "alice"));
    let pod = pod_of(client, name, "shortlived").await;
    let of_pod = token(client, name, "alice", audience, Some(&pod)).await;
    assert!(running.ask(&of_pod).await.is_ok());
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    pods.delete("shortlived", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    let (status, reason, message) = ask(of_pod).await;
    assert!(
        (status, reason.as_str()) == (403, reason::POD_GONE)
            || (status, reason.as_str()) == (401, reason::TOKEN_INVALID),
        "{status} {reason} {message}"
    );

    // A token of a deleted ServiceAccount, also when its name is taken again.
    let old = token(client, name, "alice", audience, None).await;
    assert!(running.ask(&old).await.is_ok());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    accounts.delete("alice", &DeleteParams::default()).await.unwrap();
    space.apply(&account("alice", Some("agentd.io/caller: 'true'")));
    let (status, reason, message) = ask(old).await;
    assert!(
        (status, reason.as_str()) == (403, reason::SERVICE_ACCOUNT_GONE)
            || (status, reason.as_str()) == (401, reason::TOKEN_INVALID),
        "{status} {reason} {message}"
    );
    assert!(
        running
            .ask(&token(client, name, "alice", audience, None).await)
            .await
            .is_ok()
    );

    let (_, metrics) = running.admin("/metrics").await;
    let count = |outcome: &str| {
        let line = format!("agentd_issuer_requests_total{{outcome=\"{outcome}\"}} ");
        metrics
            .lines()
            .find_map(|each| each.strip_prefix(&line)?.parse::<u64>().ok())
            .unwrap_or_default()
    };
    assert_eq!(
        (count("caller"), count(reason::FOREIGN_POD), count("workload")),
        (4, 2, 0),
        "{metrics}"
    );
    running.stop().await;
}

/// Tokens that nobody signed, as many as a pod can send: those who mean it are answered all the while.
#[tokio::test(flavor = "multi_thread")]
async fn garbage_keeps_nobody_from_the_issuer() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("garbage"));
    space.apply(&account("alice", Some("agentd.io/caller: 'true'")));
    let good = token(client, space.name(), "alice", Some(&install.audience()), None).await;
    let garbage = "e30.e30.e30";
    let flood = async {
        for _ in 0..20 {
            let asked = futures::future::join_all((0..20).map(|_| running.ask(garbage))).await;
            for answer in asked {
                assert_eq!(Running::refused(answer).1, reason::TOKEN_INVALID);
            }
        }
    };
    let meant = async {
        for _ in 0..10 {
            assert!(running.ask(&good).await.is_ok());
        }
    };
    futures::join!(flood, meant);
    running.stop().await;
}
