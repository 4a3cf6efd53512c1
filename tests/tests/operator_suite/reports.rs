//! Who may report, what becomes of it, and what pods that do not take a document up get.

use agentd_base::report::{LastRun, ServerState};
use agentd_identity::{Authority, SpiffeId};
use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{condition, for_condition, resources};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::harness::{LIMIT, Operator, live_digest, pod_of, until};
use crate::objects::{agent, operated, remote, report, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_taken_only_about_the_object_of_the_peers_identity() {
    let operator = Operator::start().await;
    let team = Namespace::new("reports");
    team.apply(
        &(agent("one", "")
            + &agent("two", "")
            + &operated("fs")
            + &remote("search", "https://search.example/mcp")),
    );
    let one = operator.bring_up(team.name(), "one", vec![]).await;
    let two = operator.bring_up(team.name(), "two", vec![]).await;
    let fs = operator.bring_up_server(team.name(), "fs").await;
    let say = async |account: &str, pod: &Pod| {
        operator
            .report_as(
                team.name(),
                account,
                &report(pod, &one.digest, vec![server("search", ServerState::Connected)]),
            )
            .await
            .0
    };
    assert_eq!(say("one-agent", &one.pod).await, 200);
    assert_eq!(say("one-agent", &two.pod).await, 403, "another Agent's pod");
    assert_eq!(say("one-agent", &fs).await, 403, "a bridge");
    assert_eq!(say("fs-mcp", &one.pod).await, 403, "an Agent's pod");
    assert_eq!(
        say("search-mcp", &one.pod).await,
        403,
        "a server that runs elsewhere has no pod"
    );
    assert_eq!(say("default", &one.pod).await, 403, "a caller");
    let mut gone = one.pod.clone();
    gone.metadata.uid = Some("another".to_owned());
    assert_eq!(say("one-agent", &gone).await, 503, "a pod that is not known");

    // It connected to a server that it does not reference: nothing of the server is told.
    let servers = resources(&operator.client, team.name(), "McpServer");
    let search = servers.get("search").await.unwrap();
    assert_eq!(condition(&search, "Ready").unwrap().1, "NotYetUsed");
    assert_eq!(search.data["status"].get("serverInfo"), None);

    // Not of our trust domain, or only by name.
    let id = |domain: &str| {
        SpiffeId::of_service_account(&domain.parse().unwrap(), team.name(), "one-agent").unwrap()
    };
    let ours = operator.authority().await.trust_domain().to_string();
    for domain in ["other.test", &ours] {
        let impostor = Authority::generate(&domain.parse().unwrap(), Timestamp::now()).unwrap();
        let said = operator
            .report_with(&impostor, &id(domain), &report(&one.pod, &one.digest, vec![]))
            .await;
        assert!(said.is_err(), "{domain}: {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_outlive_the_operator_and_conditions_are_true_again() {
    let mut operator = Operator::start().await;
    let team = Namespace::new("facts");
    team.apply(&(remote("search", "https://search.example/mcp") + &operated("fs")));
    team.apply(&agent(
        "triage",
        "  mcpServers: [{name: web, ref: {name: search}}, {name: fs, ref: {name: fs}}]",
    ));
    operator.bring_up_server(team.name(), "fs").await;
    let connected = ["web", "fs"]
        .map(|name| server(name, ServerState::Connected))
        .to_vec();
    let up = operator.bring_up(team.name(), "triage", connected.clone()).await;
    let (agents, servers) = (
        resources(&operator.client, team.name(), "Agent"),
        resources(&operator.client, team.name(), "McpServer"),
    );
    for_condition(&servers, "search", "Ready", "True", "", LIMIT).await;
    // A turn has ended; the pod that comes after this one has had none yet.
    let mut told = report(&up.pod, &up.digest, connected);
    told.last_run = Some(LastRun {
        id: "t1".to_owned(),
        trigger: "message".to_owned(),
        outcome: "exhausted_tokens".to_owned(),
        reason: Some("the turn used up its tokens (limits.run.tokens)".to_owned()),
        started_at: Timestamp::from_second(1_700_000_000).unwrap(),
        ended_at: Timestamp::from_second(1_700_000_009).unwrap(),
        steps: 3,
        tokens: 2_000_017,
    });
    operator.say(team.name(), "triage-agent", &told).await;
    let last_run = json!({
        "id": "t1", "trigger": "message", "outcome": "exhausted_tokens", "steps": 3, "tokens": 2_000_017,
        "reason": "the turn used up its tokens (limits.run.tokens)",
        "startTime": "2023-11-14T22:13:20Z", "completionTime": "2023-11-14T22:13:29Z",
    });
    assert_eq!(
        agents.get("triage").await.unwrap().data["status"]["lastRun"],
        last_run
    );
    let before = [
        agents.get("triage").await.unwrap(),
        servers.get("search").await.unwrap(),
        servers.get("fs").await.unwrap(),
    ];
    operator.kill().await;
    operator.resume().await;
    // The lease of a killed leader has to end first; then a report shows that the new one has looked at everything.
    let said = async {
        loop {
            let report = report(
                &up.pod,
                &up.digest,
                vec![
                    server("web", ServerState::Connected),
                    server("fs", ServerState::Failed),
                ],
            );
            let authority = operator.authority().await;
            let id =
                SpiffeId::of_service_account(authority.trust_domain(), team.name(), "triage-agent").unwrap();
            if operator
                .report_with(&authority, &id, &report)
                .await
                .is_ok_and(|(status, _)| status == 200)
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(3 * LIMIT, said)
        .await
        .expect("a new leader takes reports");
    for_condition(&agents, "triage", "Degraded", "True", "ToolsNotReady", LIMIT).await;
    let after = [
        agents.get("triage").await.unwrap(),
        servers.get("search").await.unwrap(),
        servers.get("fs").await.unwrap(),
    ];
    assert_eq!(after[0].data["status"]["lastRun"], last_run);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(condition(after, "Ready").unwrap().0, "True", "{after:#?}");
        for fact in [
            "serverInfo",
            "tools",
            "toolCount",
            "protocolVersions",
            "runningDigest",
            "configDigest",
            "address",
            "url",
        ] {
            let (was, is) = (&before.data["status"][fact], &after.data["status"][fact]);
            assert!(was.is_null() || !is.is_null(), "{fact} is erased: {after:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_take_a_document_up_is_rolled_after_two_minutes() {
    let operator = Operator::start().await;
    let team = Namespace::new("late");
    team.apply(&agent("triage", ""));
    let up = operator.bring_up(team.name(), "triage", vec![]).await;
    team.apply(&agent("triage", "  limits: {steps: 9}"));
    let digest = operator.digest(team.name(), "triage", &up.digest).await;
    let pods: Api<Pod> = Api::namespaced(operator.client.clone(), team.name());
    let hurried = until(pods.clone(), "agentd.io/agent=triage", "hurried", LIMIT, |pods| {
        pods.values()
            .find(|pod| pod.annotations().contains_key("agentd.io/live-requested"))
            .cloned()
    })
    .await;
    assert_eq!(hurried.uid(), up.pod.uid());
    operator.clock.forward(121);
    // Something happens to the pod; without it the operator would look by itself when the time is up.
    let poke = json!({"metadata": {"labels": {"poke": "1"}}});
    pods.patch(&up.pod.name_any(), &PatchParams::default(), &Patch::Merge(&poke))
        .await
        .unwrap();
    let next = pod_of(
        &operator.client,
        team.name(),
        "agentd.io/agent=triage",
        up.pod.uid().as_deref(),
    )
    .await;
    assert_eq!(next.annotations().get("agentd.io/live-digest"), Some(&digest));
    assert_eq!(live_digest(&operator.client, team.name(), &next).await, digest);
    operator.bring_up(team.name(), "triage", vec![]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_deployment_that_was_made_again_is_heard() {
    let operator = Operator::start().await;
    let team = Namespace::new("again");
    team.apply(&agent("triage", ""));
    let first = operator.bring_up(team.name(), "triage", vec![]).await;
    // A second revision, whose number the next Deployment does not reach.
    team.apply(&agent("triage", "  image: registry.local/agentd/agentd:other"));
    let label = "agentd.io/agent=triage";
    pod_of(&operator.client, team.name(), label, first.pod.uid().as_deref()).await;
    operator.bring_up(team.name(), "triage", vec![]).await;
    team.kubectl(&[
        "delete",
        "deployment",
        "triage-agent",
        "--cascade=foreground",
        "--timeout=180s",
    ])
    .ok();
    operator.bring_up(team.name(), "triage", vec![]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pod_lacks_and_refuses_is_told() {
    let operator = Operator::start().await;
    let team = Namespace::new("lacks");
    team.apply(&agent("triage", ""));
    let up = operator.bring_up(team.name(), "triage", vec![]).await;
    let agents = resources(&operator.client, team.name(), "Agent");
    let mut lacking = report(&up.pod, &up.digest, vec![]);
    lacking.missing_secrets = vec!["model-key/token".to_owned()];
    operator.say(team.name(), "triage-agent", &lacking).await;
    let message = for_condition(&agents, "triage", "ResolvedRefs", "False", "RefNotFound", LIMIT).await;
    assert!(
        message.contains("`model-key`") && message.contains("`token`"),
        "{message}"
    );
    for_condition(&agents, "triage", "Ready", "False", "RefNotFound", LIMIT).await;
    operator
        .say(team.name(), "triage-agent", &report(&up.pod, &up.digest, vec![]))
        .await;
    for_condition(&agents, "triage", "Ready", "True", "", LIMIT).await;

    team.apply(&agent("triage", "  limits: {steps: 9}"));
    let digest = operator.digest(team.name(), "triage", &up.digest).await;
    let mut refusing = report(&up.pod, &up.digest, vec![]);
    refusing.rejected = Some(agentd_base::report::Rejected {
        digest,
        message: "limits.run.steps: too odd".to_owned(),
    });
    operator.say(team.name(), "triage-agent", &refusing).await;
    let message = for_condition(&agents, "triage", "Degraded", "True", "RevisionRejected", LIMIT).await;
    assert!(message.contains("too odd"), "{message}");
    for_condition(&agents, "triage", "Ready", "False", "NotServing", LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_says_how_it_is() {
    let mut operator = Operator::start().await;
    operator.authority().await;
    assert_eq!(operator.page("/healthz").await.0, 200);
    assert_eq!(operator.page("/readyz").await.0, 200);
    let leads = async {
        while operator.counter("agentd_operator_leader", "").await < 1.0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, leads).await.expect("it leads");
    // A lease that was given back is taken at once.
    operator.halt().await;
    operator.resume().await;
    let leads = async {
        while operator.counter("agentd_operator_leader", "").await < 1.0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT / 4, leads)
        .await
        .expect("it leads again");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_leads_and_the_report_service_finds_it() {
    let mut operator = Operator::start().await;
    operator.authority().await;
    operator.halt().await;
    // Two pods of the controllers' Deployment, as the chart labels them; what runs in them runs here.
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: NAME\n  namespace: NAMESPACE\n  labels: {app.kubernetes.io/name: agentd, \
               app.kubernetes.io/instance: plum, app.kubernetes.io/component: controllers}\nspec:\n  \
               securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}\n  containers:\n    \
               - {name: main, image: 'registry.test/x:1', securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}\n";
    for name in ["one", "two"] {
        operator
            .namespace
            .apply(&pod.replace("NAME\n", &format!("{name}\n")));
    }
    let leaders = async |wanted: &'static str| {
        let pods: Api<Pod> = Api::namespaced(operator.client.clone(), operator.namespace.name());
        until(
            pods,
            "app.kubernetes.io/component=controllers",
            "led",
            2 * LIMIT,
            |pods| {
                let led = pods
                    .values()
                    .filter(|pod| pod.labels().get("agentd.io/leader").is_some_and(|v| v == "true"));
                (led.map(|pod| pod.name_any()).collect::<Vec<_>>() == [wanted]).then_some(())
            },
        )
        .await;
    };
    let start = async |name: &str| {
        let controllers = operator.controllers(Some(name)).await;
        let (reports, drain) = (
            controllers.reports_addr().unwrap(),
            agentd_base::drain::Drain::new(),
        );
        let task = tokio::spawn(controllers.serve(drain.watch()));
        (reports, drain, task)
    };
    let (one_reports, one_drain, one_task) = start("one").await;
    leaders("one").await;
    let (two_reports, two_drain, two_task) = start("two").await;
    let knock = async |address| {
        let authority = operator.authority().await;
        let id = SpiffeId::of_service_account(authority.trust_domain(), "x", "nobody").unwrap();
        operator
            .report_to(address, &authority, &id, &agentd_base::report::Report::default())
            .await
            .map(|said| said.0)
    };
    assert_eq!(knock(one_reports).await.unwrap(), 403, "the leader answers");
    assert!(
        knock(two_reports).await.is_err(),
        "the other closes what connects"
    );
    assert!(one_drain.run(LIMIT).await);
    one_task.await.unwrap().unwrap();
    leaders("two").await;
    assert_eq!(knock(two_reports).await.unwrap(), 403);
    assert!(two_drain.run(LIMIT).await);
    two_task.await.unwrap().unwrap();
}
