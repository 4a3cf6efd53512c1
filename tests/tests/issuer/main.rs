//! The issuer against a real API server: real tokens, real owner chains made by the real controllers, with the rights
//! that the chart gives it. No node is needed: a pod has its identity claims before it runs.
#![allow(clippy::disallowed_methods)] // The issuer under test is on loopback.

mod install;
mod judges;
mod objects;
mod refusals;

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_base::clock::{Clock as _, SystemClock};
use agentd_base::drain::Drain;
use agentd_base::issuance::reason;
use agentd_identity::tls::client_config_without_svid;
use agentd_identity::{Authority, IdentitySource, SpiffeId};
use agentd_operator::authority_store::{self, StoreError};
use agentd_tests::cluster::cluster;
use agentd_tests::namespace::Namespace;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use install::{Install, LIMIT, RELEASE, Running};
use judges::{judged_by_openssl, parsed_by_py_spiffe};
use objects::{account, agent, bare_pod, made, object, pod_of, server, token};

#[tokio::test(flavor = "multi_thread")]
async fn the_ca_is_made_once_and_the_issuer_waits_for_it() {
    let install = Install::new().await;
    let issuer = install.bind().await;
    let (admin, drain) = (issuer.admin_addr().unwrap(), Drain::new());
    let address = issuer.local_addr().unwrap();
    let serving = tokio::spawn(issuer.serve(drain.watch()));
    // Until there is an authority the ID of the issuer is not known either: any will do here.
    let unknown = Authority::generate(&"unknown".parse().unwrap(), SystemClock.now()).unwrap();
    let mut running = Running {
        address,
        admin,
        id: "spiffe://unknown/x".parse().unwrap(),
        bundle: unknown.bundle().clone(),
        drain,
        serving,
    };
    let (status, cause) = running.admin("/readyz").await;
    assert_eq!(status, 503);
    assert!(
        cause.contains(&format!("Secret {}/{RELEASE}-ca", install.name())),
        "{cause}"
    );
    assert_eq!(running.admin("/healthz").await.0, 200);

    let first = install.ensure().await;
    assert!(first.made && !first.lost);
    assert!(
        first
            .authority
            .trust_domain()
            .as_str()
            .ends_with(".agentd.internal")
    );
    running.ready().await;
    running.id =
        SpiffeId::of_service_account(first.authority.trust_domain(), install.name(), "plum-issuer").unwrap();
    running.bundle = first.authority.bundle().clone();

    let again = install.ensure().await;
    assert!(!again.made);
    assert_eq!(again.authority.bundle(), first.authority.bundle());
    let other = "other.example".parse().unwrap();
    let admin_client = install.client.clone();
    let refused = authority_store::ensure(
        &admin_client,
        install.name(),
        RELEASE,
        Some(&other),
        SystemClock.now(),
    )
    .await;
    assert!(matches!(refused, Err(StoreError::TrustDomainChanged { .. })));

    // Lost: the trust domain is taken from what is published, and the running issuer takes up the new root.
    let published = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: agentd-bundle, namespace: NAMESPACE}}\ndata: {{trust-domain: {}}}\n",
        first.authority.trust_domain()
    );
    install.namespace.apply(&published);
    let secrets: Api<Secret> = Api::namespaced(install.client.clone(), install.name());
    secrets.delete("plum-ca", &DeleteParams::default()).await.unwrap();
    let next = install.ensure().await;
    assert!(next.made && next.lost);
    assert_eq!(next.authority.trust_domain(), first.authority.trust_domain());
    assert_ne!(next.authority.bundle(), first.authority.bundle());
    let source = IdentitySource::new(next.authority.trust_domain().clone());
    source.set_bundle(next.authority.bundle().clone()).unwrap();
    let connector = TlsConnector::from(Arc::new(client_config_without_svid(&source, running.id.clone())));
    let takes_up = async {
        loop {
            let stream = TcpStream::connect(running.address).await.unwrap();
            if connector
                .connect("issuer".try_into().unwrap(), stream)
                .await
                .is_ok()
            {
                break;
            }
        }
    };
    tokio::time::timeout(LIMIT, takes_up)
        .await
        .expect("the new root is taken up");
    let (_, metrics) = running.admin("/metrics").await;
    let expiry = format!(
        "agentd_issuer_root_expiry_timestamp_seconds {}",
        next.authority.not_after().as_second()
    );
    assert!(metrics.contains(&expiry), "{metrics}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_agents_and_servers_get_their_identity_and_names() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("workload"));
    space.apply(
        &[
            agent("triage", None),
            server("fs"),
            account("triage-agent", None),
            account("fs-mcp", None),
        ]
        .concat(),
    );
    for (kind, name, account) in [("Agent", "triage", "triage-agent"), ("McpServer", "fs", "fs-mcp")] {
        let object = object(client, space.name(), kind, name).await;
        space.apply(&made(kind, &object, account, account));
        let pod = pod_of(client, space.name(), account).await;
        let token = token(
            client,
            space.name(),
            account,
            Some(&install.audience()),
            Some(&pod),
        )
        .await;
        let (answer, svid) = running.ask(&token).await.unwrap();
        let td = running.bundle.trust_domain();
        assert_eq!(
            answer.spiffe_id,
            format!("spiffe://{td}/ns/{}/sa/{account}", space.name())
        );
        assert_eq!(svid.id().to_string(), answer.spiffe_id);
        let names = judged_by_openssl(&answer);
        let host = format!("{account}.{}.svc", space.name());
        let expected = format!("URI:{}, DNS:{host}, DNS:{host}.cluster.local\n", answer.spiffe_id);
        assert!(names.ends_with(&expected), "{names}");
        // Renewal is the same request once more.
        assert!(running.ask(&token).await.is_ok());
    }
    let (_, metrics) = running.admin("/metrics").await;
    assert!(
        metrics.contains("agentd_issuer_requests_total{outcome=\"workload\"} 4"),
        "{metrics}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_labelled_account_gets_an_identity_that_third_parties_read() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("caller"));
    space.apply(&(account("alice", Some("agentd.io/caller: 'true'")) + &bare_pod("script", "alice")));
    let pod = pod_of(client, space.name(), "script").await;
    for pod in [None, Some(&pod)] {
        let token = token(client, space.name(), "alice", Some(&install.audience()), pod).await;
        let (answer, svid) = running.ask(&token).await.unwrap();
        let id = format!(
            "spiffe://{}/ns/{}/sa/alice",
            running.bundle.trust_domain(),
            space.name()
        );
        assert_eq!(answer.spiffe_id, id);
        assert!(judged_by_openssl(&answer).ends_with(&format!("URI:{id}\n")));
        parsed_by_py_spiffe(&answer, &svid, &id);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_goes_takes_its_identity_along() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("gone"));
    space.apply(&(agent("triage", None) + &account("triage-agent", None)));
    let found = object(client, space.name(), "Agent", "triage").await;
    space.apply(&made("Agent", &found, "triage-agent", "triage-agent"));
    let pod = pod_of(client, space.name(), "triage-agent").await;
    let token = token(
        client,
        space.name(),
        "triage-agent",
        Some(&install.audience()),
        Some(&pod),
    )
    .await;
    assert!(running.ask(&token).await.is_ok());

    // A Service of that name that somebody else made gives no DNS name.
    let _ = space.kubectl(&["delete", "service", "triage-agent"]).ok();
    space.apply("apiVersion: v1\nkind: Service\nmetadata: {name: triage-agent, namespace: NAMESPACE}\nspec: {ports: [{port: 1}]}\n");
    let (answer, _) = running.ask(&token).await.unwrap();
    assert!(!judged_by_openssl(&answer).contains("DNS"));

    // The Agent itself goes, its pod is still there: a new Agent of the same name is another object.
    let _ = space
        .kubectl(&["delete", "agent", "triage", "--cascade=orphan"])
        .ok();
    space.apply(&agent("triage", None));
    let (status, reason, message) = Running::refused(running.ask(&token).await);
    assert_eq!((status, reason.as_str()), (403, reason::FOREIGN_POD), "{message}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_issuer_may_do_no_more_than_it_needs() {
    let install = Install::new().await;
    let account = format!("system:serviceaccount:{}:{RELEASE}-issuer", install.name());
    let may = |verb: &str, resource: &str, namespace: &str| {
        let asked = cluster().kubectl([
            "auth",
            "can-i",
            verb,
            resource,
            "--namespace",
            namespace,
            "--as",
            &account,
        ]);
        asked.stdout.trim() == "yes"
    };
    let own = install.name();
    let rights: BTreeMap<_, _> = [
        ("its CA", may("get", "secrets/plum-ca", own)),
        ("other Secrets", may("get", "secrets/other", own)),
        ("all Secrets", may("list", "secrets", own)),
        ("the same elsewhere", may("get", "secrets/plum-ca", "default")),
        ("writing its CA", may("update", "secrets/plum-ca", own)),
        ("making pods", may("create", "pods", own)),
        ("making tokens", may("create", "serviceaccounts/token", own)),
    ]
    .into();
    let expected: BTreeMap<_, _> = [
        ("its CA", true),
        ("other Secrets", false),
        ("all Secrets", false),
        ("the same elsewhere", false),
        ("writing its CA", false),
        ("making pods", false),
        ("making tokens", false),
    ]
    .into();
    assert_eq!(rights, expected);
}
