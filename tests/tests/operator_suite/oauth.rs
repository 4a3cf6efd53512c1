//! What an McpServer and an inline server say of themselves beside their address: credentials by OAuth 2.0, clocks, tags.

use agentd_base::report::{Server, ServerState, Tool};
use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{self, condition, for_condition, resources};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::harness::{LIMIT, Operator, pod_of};
use crate::objects::{agent, report, server};
use crate::references::document;

/// The keys of a destination and of an MCP server, with these credentials, indented by two.
fn settings(oauth2: &str) -> String {
    format!(
        "  auth: {{oauth2: {{clientID: me, clientSecret: {{valueFrom: {{secretKeyRef: {{name: mail-client, key: secret}}}}}}{oauth2}}}}}\n  \
         timeout: 20s\n  connectTimeout: 5s\n  callTimeout: 30s\n  namespacePrefix: mail\n  tags: [untrusted_input]\n  \
         toolTags: [{{name: 'send_*', tags: [sensitive, egress]}}]\n"
    )
}

/// An McpServer with these settings.
fn mail(oauth2: &str) -> String {
    format!(
        "---\napiVersion: agentd.io/v1alpha1\nkind: McpServer\nmetadata: {{name: mail, namespace: NAMESPACE}}\nspec:\n  \
         endpoint: https://mail.example/mcp\n{}",
        settings(oauth2)
    )
}

/// An Agent that uses it, and inline a server with the same settings. Their tags give all three legs.
fn user() -> String {
    let inline: String = settings("")
        .lines()
        .map(|line| format!("      {}\n", line.trim_start()))
        .collect();
    agent(
        "triage",
        &format!(
            "  security: {{allowTrifecta: true}}\n  mcpServers:\n    - name: post\n      ref: {{name: mail}}\n    - name: own\n      url: https://own.example/mcp\n{inline}"
        ),
    )
}

/// The Secrets that a pod mounts, as (name, keys, whether they may be missing).
fn secrets(pod: &Pod) -> Vec<(String, Vec<String>, bool)> {
    let volumes = pod.spec.as_ref().unwrap().volumes.as_ref().unwrap();
    let mounted = volumes.iter().filter_map(|volume| {
        let secret = volume.secret.as_ref()?;
        let keys = secret.items.iter().flatten().map(|item| item.key.clone());
        Some((
            secret.secret_name.clone()?,
            keys.collect(),
            secret.optional == Some(true),
        ))
    });
    mounted.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn m36_oauth2_tags_and_clocks_arrive_in_the_document_and_a_missing_client_secret_is_named() {
    let operator = Operator::start().await;
    let team = Namespace::new("oauth");
    team.apply(&(mail(", scopes: [read], issuer: 'https://login.example'") + &user()));
    let pod = pod_of(&operator.client, team.name(), "agentd.io/agent=triage", None).await;
    let entry = |name: &str, endpoint: &str, more: Value| {
        let mut oauth2 = json!({
            "client_id": "me", "client_secret": "{{secret-file:/etc/agentd/secrets/mail-client/secret}}",
        });
        oauth2
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({
            "name": name, "endpoint": endpoint, "ns": "mail", "auth": {"oauth2": oauth2},
            "timeout": "20s", "connect_timeout": "5s", "call_timeout": "30s",
            "tags": {"*": ["untrusted_input"], "send_*": ["sensitive", "egress"]},
        })
    };
    let expected = json!([
        entry(
            "post",
            "https://mail.example/mcp",
            json!({"scopes": ["read"], "issuer": "https://login.example"})
        ),
        entry("own", "https://own.example/mcp", json!({})),
    ]);
    let told = |document: &Value| document["mcp"]["servers"] == expected;
    document(&operator, &team, &pod, "agentd.json", told).await;
    // The pod starts without it, and says what it lacks.
    let mounted = ("mail-client".to_owned(), vec!["secret".to_owned()], true);
    assert!(secrets(&pod).contains(&mounted), "{:?}", secrets(&pod));

    let lost = vec![
        server("post", ServerState::Failed),
        server("own", ServerState::Failed),
    ];
    crate::harness::serve(&operator.client, &pod).await;
    let digest = operator.digest(team.name(), "triage", "").await;
    let mut lacking = report(&pod, &digest, lost);
    lacking.missing_secrets = vec!["mail-client/secret".to_owned()];
    operator.say(team.name(), "triage-agent", &lacking).await;
    let agents = resources(&operator.client, team.name(), "Agent");
    let message = for_condition(&agents, "triage", "ResolvedRefs", "False", "RefNotFound", LIMIT).await;
    assert_eq!(
        message,
        "Secret `mail-client` with key `secret` is missing; create it, and the pod takes it up by itself"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn oauth2_that_the_pod_would_refuse_is_refused_with_the_field() {
    let operator = Operator::start().await;
    let team = Namespace::new("oauth");
    let servers = resources(&operator.client, team.name(), "McpServer");
    for (oauth2, field) in [
        (", tokenEndpoint: 'http://login.example/token'", "token_endpoint"),
        (", issuer: 'http://login.example'", "issuer"),
        (
            ", tokenEndpoint: 'https://169.254.169.254/token'",
            "token_endpoint",
        ),
        (", scopes: ['two words']", "scopes"),
    ] {
        team.apply(&mail(oauth2));
        let about = |object: Option<&DynamicObject>| {
            object
                .and_then(|object| condition(object, "Accepted"))
                .is_some_and(|(status, reason, message)| {
                    status == "False"
                        && reason == "InvalidSpec"
                        && message.contains(&format!("auth.oauth2.{field}"))
                })
        };
        wait::until(&servers, "mail", field, LIMIT, about).await;
    }
    team.apply(&mail(", tokenEndpoint: 'https://login.example/token'"));
    for_condition(&servers, "mail", "Accepted", "True", "Accepted", LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_gone_leaves_the_status_and_a_digest_that_changed_is_told() {
    let operator = Operator::start().await;
    let team = Namespace::new("tools");
    team.apply(&(mail("") + &user()));
    let tools = |all: &[(&str, &str)]| -> Vec<Server> {
        let offer = |name: &str| Server {
            tools: all
                .iter()
                .map(|(tool, text)| Tool {
                    name: (*tool).to_owned(),
                    digest: agentd_base::digest::of(text.as_bytes()),
                })
                .collect(),
            tool_count: u32::try_from(all.len()).unwrap(),
            ..server(name, ServerState::Connected)
        };
        vec![offer("post"), offer("own")]
    };
    let before = tools(&[("read", "1"), ("send", "1")]);
    let up = operator.bring_up(team.name(), "triage", before).await;
    let (agents, servers) = (
        resources(&operator.client, team.name(), "Agent"),
        resources(&operator.client, team.name(), "McpServer"),
    );
    let seen = async |count: i64, expected: Value| {
        let listed = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| {
                let status = &object.data["status"];
                status["tools"] == expected
                    && status["toolCount"] == json!(expected.as_array().unwrap().len())
            })
        };
        wait::until(&servers, "mail", "its tools", LIMIT, listed).await;
        let counted = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| object.data["status"]["tools"]["count"] == json!(count))
        };
        wait::until(&agents, "triage", "its tools", LIMIT, counted).await;
    };
    let digest = |text: &str| agentd_base::digest::of(text.as_bytes());
    seen(
        4,
        json!([{"name": "read", "digest": digest("1")}, {"name": "send", "digest": digest("1")}]),
    )
    .await;
    let say = async |all: &[(&str, &str)]| {
        let report = report(&up.pod, &up.digest, tools(all));
        operator.say(team.name(), "triage-agent", &report).await;
    };
    say(&[("read", "1")]).await;
    seen(2, json!([{"name": "read", "digest": digest("1")}])).await;
    say(&[("read", "2")]).await;
    seen(2, json!([{"name": "read", "digest": digest("2")}])).await;
}
