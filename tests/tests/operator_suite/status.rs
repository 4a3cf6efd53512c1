//! What a status says and when.

use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{condition, for_condition, resources};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::harness::{LIMIT, Operator, pod_of, serve, set_status, until};
use crate::objects::{agent, operated, remote, report, server};

/// Every condition that is not True says why, in words; all are about the generation that the status names.
pub(crate) fn well_formed(object: &DynamicObject) {
    let status = object.data.get("status").expect("a status");
    let generation = status.get("observedGeneration").and_then(Value::as_i64);
    for condition in status["conditions"].as_array().expect("conditions") {
        let text = |key: &str| condition[key].as_str().unwrap_or_default();
        assert!(
            text("reason").starts_with(|c: char| c.is_ascii_uppercase())
                && text("reason").chars().all(|c| c.is_ascii_alphanumeric()),
            "{condition}"
        );
        let silent = text("message").is_empty();
        let abnormal = matches!(text("type"), "Reconciling" | "Stalled" | "Degraded");
        assert!(!silent || (text("status") == "True" && !abnormal), "{condition}");
        assert!(text("message").chars().count() <= 256, "{condition}");
        assert_eq!(
            condition["observedGeneration"].as_i64(),
            generation,
            "{condition}"
        );
    }
}

pub(crate) async fn get(api: &Api<DynamicObject>, name: &str) -> DynamicObject {
    let object = api.get(name).await.unwrap();
    well_formed(&object);
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_ready_is_about_the_current_generation() {
    let operator = Operator::start().await;
    let team = Namespace::new("s01");
    // Without a claim old and new pods live side by side.
    let with = |more: &str| agent("triage", &format!("  store: {{memory: {{}}}}\n{more}"));
    team.apply(&with(""));
    let agents = resources(&operator.client, team.name(), "Agent");
    for_condition(&agents, "triage", "Ready", "False", "Progressing", LIMIT).await;
    let first = get(&agents, "triage").await;
    assert_eq!(condition(&first, "IdentityReady").unwrap().1, "ProviderMissing");
    assert_eq!(condition(&first, "Reconciling").unwrap().0, "True");
    assert_eq!(condition(&first, "Stalled"), None);

    let pod = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    serve(&operator.client, &pod).await;
    for_condition(&agents, "triage", "IdentityReady", "True", "SvidIssued", LIMIT).await;
    let (_, _, message) = condition(&get(&agents, "triage").await, "Ready").unwrap();
    assert_eq!(message, "the pod has not reported yet");
    let up = operator.bring_up(team.name(), "triage", vec![]).await;
    let ready = get(&agents, "triage").await;
    assert_eq!(condition(&ready, "Reconciling"), None);
    let status = &ready.data["status"];
    assert_eq!(
        status["url"],
        json!(format!("https://triage-agent.{}.svc:8443", team.name()))
    );
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(status["selector"], json!("agentd.io/agent=triage"));
    assert!(
        status["spiffeID"]
            .as_str()
            .unwrap()
            .ends_with(&format!("/ns/{}/sa/triage-agent", team.name()))
    );

    // What a running pod takes up: the same pod, and Ready only when it says so.
    team.apply(&with("  limits: {steps: 7}"));
    for_condition(&agents, "triage", "Ready", "False", "Progressing", LIMIT).await;
    let digest = operator.digest(team.name(), "triage", &up.digest).await;
    let pods: Api<Pod> = Api::namespaced(operator.client.clone(), team.name());
    until(pods, "agentd.io/agent=triage", "hurried", LIMIT, |pods| {
        let asked = pods
            .get(&up.pod.name_any())?
            .annotations()
            .get("agentd.io/live-requested")?
            .clone();
        asked.starts_with(&digest).then_some(())
    })
    .await;
    operator
        .say(team.name(), "triage-agent", &report(&up.pod, &digest, vec![]))
        .await;
    for_condition(&agents, "triage", "Ready", "True", "Serving", LIMIT).await;

    // What needs a new pod: the old one serves and reports, and does not count.
    team.apply(&with("  limits: {steps: 7}\n  image: registry.test/agentd:2"));
    for_condition(&agents, "triage", "Ready", "False", "Progressing", LIMIT).await;
    operator
        .say(team.name(), "triage-agent", &report(&up.pod, &digest, vec![]))
        .await;
    let next = pod_of(
        &operator.client,
        team.name(),
        "agentd.io/agent=triage",
        up.pod.uid().as_deref(),
    )
    .await;
    assert_eq!(
        condition(&get(&agents, "triage").await, "Ready").unwrap().0,
        "False"
    );
    assert_ne!(next.uid(), up.pod.uid());
    operator.bring_up(team.name(), "triage", vec![]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s02_a_quota_that_refuses_the_pod_is_told() {
    let operator = Operator::start().await;
    let team = Namespace::new("s02");
    team.apply("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none, namespace: NAMESPACE}\nspec: {hard: {pods: '0'}}\n");
    let quotas: Api<k8s_openapi::api::core::v1::ResourceQuota> =
        Api::namespaced(operator.client.clone(), team.name());
    let counted = |quotas: &std::collections::BTreeMap<String, k8s_openapi::api::core::v1::ResourceQuota>| {
        quotas.get("none")?.status.as_ref()?.hard.as_ref().map(|_| ())
    };
    until(quotas, "", "counted", LIMIT, counted).await;
    team.apply(&agent("triage", "  store: {memory: {}}"));
    let agents = resources(&operator.client, team.name(), "Agent");
    let message = for_condition(&agents, "triage", "Ready", "False", "QuotaExceeded", LIMIT).await;
    assert!(message.contains("exceeded quota: none"), "{message}");
    well_formed(&get(&agents, "triage").await);
    team.kubectl(&["delete", "resourcequota", "none"]).ok();
    operator.bring_up(team.name(), "triage", vec![]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s06_a_server_is_ready_only_after_a_real_exchange() {
    let operator = Operator::start().await;
    let team = Namespace::new("s06");
    team.apply(&operated("fs"));
    let servers = resources(&operator.client, team.name(), "McpServer");
    let pod = pod_of(&operator.client, team.name(), "agentd.io/mcp-server=fs", None).await;
    serve(&operator.client, &pod).await;
    for_condition(&servers, "fs", "Available", "True", "", LIMIT).await;
    for_condition(&servers, "fs", "Ready", "False", "NotReported", LIMIT).await;
    let digest = crate::harness::live_digest(&operator.client, team.name(), &pod).await;
    let say = |state| report(&pod, &digest, vec![server("fs", state)]);
    operator
        .say(team.name(), "fs-mcp", &say(ServerState::Failed))
        .await;
    let message = for_condition(&servers, "fs", "Verified", "False", "ServerNotReady", LIMIT).await;
    assert!(message.contains("connection refused"), "{message}");
    assert_eq!(get(&servers, "fs").await.data["status"].get("address"), None);
    operator
        .say(team.name(), "fs-mcp", &say(ServerState::Unauthorized))
        .await;
    for_condition(&servers, "fs", "Ready", "False", "ServerUnauthorized", LIMIT).await;
    operator
        .say(team.name(), "fs-mcp", &say(ServerState::Connected))
        .await;
    for_condition(&servers, "fs", "Ready", "True", "Serving", LIMIT).await;
    let status = get(&servers, "fs").await.data["status"].clone();
    assert_eq!(
        status["address"]["url"],
        json!(format!("https://fs-mcp.{}.svc:8443/mcp", team.name()))
    );
    assert_eq!(status["serverInfo"]["name"], json!("everything"));
    assert_eq!(
        (&status["toolCount"], &status["tools"][0]["name"]),
        (&json!(1), &json!("echo"))
    );
    for (answers, status, reason) in [
        (false, "True", "LoopbackOnly"),
        (true, "False", "ListensOnAllAddresses"),
    ] {
        let mut found = say(ServerState::Connected);
        found.listens_on_all_addresses = Some(answers);
        operator.say(team.name(), "fs-mcp", &found).await;
        for_condition(&servers, "fs", "Isolated", status, reason, LIMIT).await;
        for_condition(&servers, "fs", "Ready", "True", "", LIMIT).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_server_is_proved_by_the_agents_that_use_it() {
    let operator = Operator::start().await;
    let team = Namespace::new("remote");
    team.apply(&remote("search", "https://search.example/mcp"));
    let servers = resources(&operator.client, team.name(), "McpServer");
    for_condition(&servers, "search", "Ready", "False", "NotYetUsed", LIMIT).await;
    for_condition(&servers, "search", "Reconciling", "True", "NotYetUsed", LIMIT).await;

    team.apply(&agent(
        "triage",
        "  mcpServers: [{name: web, ref: {name: search}}]",
    ));
    for_condition(&servers, "search", "Ready", "False", "Progressing", LIMIT).await;
    let digest = operator.digest(team.name(), "triage", "").await;
    let pod = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    serve(&operator.client, &pod).await;
    let failed = report(&pod, &digest, vec![server("web", ServerState::Failed)]);
    operator.say(team.name(), "triage-agent", &failed).await;
    for_condition(&servers, "search", "Verified", "False", "ServerNotReady", LIMIT).await;
    let agents = resources(&operator.client, team.name(), "Agent");
    for_condition(&agents, "triage", "ToolsReady", "False", "ServerNotReady", LIMIT).await;
    for_condition(&agents, "triage", "Ready", "False", "Progressing", LIMIT).await;

    let up = operator
        .bring_up(team.name(), "triage", vec![server("web", ServerState::Connected)])
        .await;
    for_condition(&servers, "search", "Ready", "True", "Serving", LIMIT).await;
    assert_eq!(
        get(&servers, "search").await.data["status"]["serverInfo"]["name"],
        json!("everything")
    );

    // A required server that is lost later is told, and takes nobody's Ready away but its own.
    let lost = report(&up.pod, &up.digest, vec![server("web", ServerState::Failed)]);
    operator.say(team.name(), "triage-agent", &lost).await;
    for_condition(&agents, "triage", "Degraded", "True", "ToolsNotReady", LIMIT).await;
    assert_eq!(
        condition(&get(&agents, "triage").await, "Ready").unwrap().0,
        "True"
    );
    for_condition(&servers, "search", "Ready", "False", "ServerNotReady", LIMIT).await;
    let status = get(&servers, "search").await.data["status"].clone();
    assert_eq!(status["serverInfo"]["name"], json!("everything"), "facts stand");
    operator
        .say(
            team.name(),
            "triage-agent",
            &report(&up.pod, &up.digest, vec![server("web", ServerState::Connected)]),
        )
        .await;
    for_condition(&servers, "search", "Ready", "True", "Serving", LIMIT).await;

    // Another endpoint: what was proved before proves nothing.
    team.apply(&remote("search", "https://elsewhere.example/mcp"));
    for_condition(&servers, "search", "Ready", "False", "Progressing", LIMIT).await;
    let digest = operator.digest(team.name(), "triage", &up.digest).await;
    operator
        .say(
            team.name(),
            "triage-agent",
            &report(&up.pod, &digest, vec![server("web", ServerState::Connected)]),
        )
        .await;
    for_condition(&servers, "search", "Ready", "True", "Serving", LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_what_is_wrong_with_a_spec_names_field_and_remedy_and_mends_itself() {
    let operator = Operator::start().await;
    let team = Namespace::new("s10");
    let agents = resources(&operator.client, team.name(), "Agent");
    let bad = agent("triage", "").replace("https://model.example", "http://model.example");
    team.apply(&bad);
    let message = for_condition(&agents, "triage", "Accepted", "False", "InvalidSpec", LIMIT).await;
    assert!(
        message.contains("intelligence.endpoints") && message.contains("allow"),
        "{message}"
    );
    for_condition(&agents, "triage", "Stalled", "True", "InvalidSpec", LIMIT).await;
    well_formed(&get(&agents, "triage").await);

    team.apply(&agent("triage", "  podTemplate: {spec: {nodeName: x}}"));
    let message = for_condition(&agents, "triage", "Accepted", "False", "NotSupportedYet", LIMIT).await;
    assert_eq!(message, "spec.podTemplate is not supported yet; remove it");

    // The API server takes it here and cannot read it in the Deployment.
    team.apply(&agent("triage", "  resources: {limits: {memory: lots}}"));
    let message = for_condition(&agents, "triage", "Accepted", "False", "InvalidSpec", LIMIT).await;
    assert!(
        message.contains("spec.resources.limits[memory]: `lots`"),
        "{message}"
    );
    well_formed(&get(&agents, "triage").await);

    // What its servers are declared to do, one of them in an object of its own.
    let tagged = format!(
        "{}  tags: [sensitive, egress]\n",
        remote("crm", "https://crm.example/mcp")
    );
    team.apply(&tagged);
    let servers =
        "  mcpServers: [{name: crm, ref: {name: crm}}, {name: web, url: 'https://web.example/mcp'}]";
    team.apply(&agent("triage", servers));
    let message = for_condition(&agents, "triage", "Accepted", "False", "LethalTrifecta", LIMIT).await;
    assert_eq!(
        message,
        "untrusted_input by web, sensitive by crm and egress by crm meet in one agent; keep one out by tools.deny, or set spec.security.allowTrifecta"
    );
    for_condition(&agents, "triage", "Stalled", "True", "LethalTrifecta", LIMIT).await;
    well_formed(&get(&agents, "triage").await);
    team.apply(&agent(
        "triage",
        &format!("  security: {{allowTrifecta: true}}\n{servers}"),
    ));
    for_condition(&agents, "triage", "Accepted", "True", "Accepted", LIMIT).await;

    let spec = "  mcpServers: [{name: fs, ref: {name: nowhere}}]\n  a2a:\n    principals:\n      \
                - {name: boss, agentRef: {name: nobody}, role: agent}";
    team.apply(&agent("triage", spec));
    let message = for_condition(&agents, "triage", "ResolvedRefs", "False", "RefNotFound", LIMIT).await;
    assert!(message.contains("nowhere"), "{message}");
    let message = for_condition(&agents, "triage", "Accepted", "True", "PrincipalNotFound", LIMIT).await;
    assert!(message.contains("nobody"), "{message}");
    for_condition(&agents, "triage", "Reconciling", "True", "", LIMIT).await;
    well_formed(&get(&agents, "triage").await);

    team.apply(&agent("triage", ""));
    operator.bring_up(team.name(), "triage", vec![]).await;
    well_formed(&get(&agents, "triage").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_the_first_failing_containers_cause_is_told_within_ten_seconds_and_does_not_churn() {
    let operator = Operator::start().await;
    let team = Namespace::new("s11");
    team.apply(&agent("triage", ""));
    let agents = resources(&operator.client, team.name(), "Agent");
    let pod = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    let status = |state: Value, last: Value, restarts: i32| {
        json!({"phase": "Pending", "containerStatuses": [{"name": "agentd", "image": "registry.test/agentd:1", "imageID": "",
            "ready": false, "restartCount": restarts, "state": state, "lastState": last}]})
    };
    set_status(
        &operator.client,
        &pod,
        status(
            json!({"waiting": {"reason": "ErrImagePull", "message": "x"}}),
            json!({}),
            0,
        ),
    )
    .await;
    let ten = Duration::from_secs(10);
    let message = for_condition(&agents, "triage", "Ready", "False", "PodFailed", ten).await;
    assert!(
        message.contains("registry.test/agentd:1") && message.contains("cannot be pulled"),
        "{message}"
    );

    let end = json!({"terminated": {"exitCode": 2, "reason": "Error", "message": "agent.instruction: too long", "finishedAt": null, "startedAt": null}});
    set_status(
        &operator.client,
        &pod,
        status(json!({"running": {}}), end.clone(), 1),
    )
    .await;
    let ended = |object: Option<&DynamicObject>| {
        object
            .and_then(|object| condition(object, "Ready"))
            .is_some_and(|(_, _, m)| m.contains("exit code 2"))
    };
    agentd_tests::wait::until(&agents, "triage", "told", ten, ended).await;
    let before = get(&agents, "triage").await.resource_version();
    for restarts in 2..6 {
        let waiting =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": format!("back-off {restarts}0s")}});
        set_status(&operator.client, &pod, status(waiting, end.clone(), restarts)).await;
        set_status(
            &operator.client,
            &pod,
            status(json!({"running": {}}), end.clone(), restarts),
        )
        .await;
    }
    // Something that is seen after all of these.
    serve(&operator.client, &pod).await;
    for_condition(&agents, "triage", "IdentityReady", "True", "SvidIssued", LIMIT).await;
    let written = operator
        .counter("agentd_operator_status_writes_total", "Agent")
        .await;
    assert!(
        before.is_some() && written <= 5.0,
        "a crash loop is one status write: {written}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn transitions_are_events() {
    let operator = Operator::start().await;
    let team = Namespace::new("events");
    team.apply(&agent("triage", "  podTemplate: {spec: {nodeName: x}}"));
    let agents = resources(&operator.client, team.name(), "Agent");
    for_condition(&agents, "triage", "Accepted", "False", "NotSupportedYet", LIMIT).await;
    team.apply(&agent("triage", ""));
    operator.bring_up(team.name(), "triage", vec![]).await;
    let events: Api<k8s_openapi::api::events::v1::Event> =
        Api::namespaced(operator.client.clone(), team.name());
    for (kind, reason) in [("Warning", "NotSupportedYet"), ("Normal", "Serving")] {
        until(events.clone(), "", reason, LIMIT, |events| {
            let mut ours = events.values().filter(|event| {
                event
                    .regarding
                    .as_ref()
                    .is_some_and(|object| object.name.as_deref() == Some("triage"))
            });
            ours.any(|event| event.type_.as_deref() == Some(kind) && event.reason.as_deref() == Some(reason))
                .then_some(())
        })
        .await;
    }
}
