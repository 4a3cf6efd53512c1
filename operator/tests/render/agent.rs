//! Agents.

use agentd_operator::controllers::agent::inputs::NamedClaim;
use agentd_operator::controllers::agent::{build, validate};
use serde_json::{Value, json};

use crate::world::{World, fixture, install, messages, patch, render_agent};

/// The minimal Agent with a change of its spec; the other documents of `full.yaml` are the world.
pub(crate) fn agent(change: Value) -> World {
    let mut documents = vec![serde_saphyr::from_str::<Value>(&fixture("agent/minimal.yaml")).unwrap()];
    patch(&mut documents[0], &json!({ "spec": change }));
    let rest = fixture("agent/full.yaml");
    documents.extend(
        rest.split("\n---\n")
            .skip(1)
            .map(|document| serde_saphyr::from_str::<Value>(document).unwrap()),
    );
    World::of(documents)
}

fn rendered(change: Value) -> Value {
    render_agent(&agent(change), &install()).unwrap_or_else(|rejected| panic!("{rejected:#?}"))
}

#[test]
fn goldens() {
    for name in ["minimal", "full"] {
        let world = World::parse(&fixture(&format!("agent/{name}.yaml")));
        let objects =
            render_agent(&world, &install()).unwrap_or_else(|rejected| panic!("{name}: {rejected:#?}"));
        insta::assert_yaml_snapshot!(format!("agent-{name}"), objects);
    }
}

#[test]
fn r03_a_thousand_renders_are_the_same_bytes() {
    let world = World::parse(&fixture("agent/full.yaml"));
    let first = render_agent(&world, &install()).unwrap().to_string();
    for _ in 0..1000 {
        assert_eq!(render_agent(&world, &install()).unwrap().to_string(), first);
    }
}

/// There is no second function that would compare what is built: the objects themselves hold everything, through the
/// API types and back, and what follows from the same spec is the same whatever was built before.
#[test]
fn r04_what_is_built_holds_every_env_var_and_reads_back_whole() {
    let world = World::parse(&fixture("agent/full.yaml"));
    let validated = validate::validate(&world.agent_inputs(&install()), &install()).unwrap();
    let objects = build::build(&validated, &install()).unwrap();
    let text = serde_json::to_string(&objects.deployment).unwrap();
    let back: k8s_openapi::api::apps::v1::Deployment = serde_json::from_str(&text).unwrap();
    assert_eq!(back, objects.deployment);
    let container = &back.spec.unwrap().template.spec.unwrap().containers[0];
    let env: Vec<&str> = container
        .env
        .iter()
        .flatten()
        .map(|variable| variable.name.as_str())
        .collect();
    assert_eq!(
        env,
        [
            "AGENTD_POD_NAME",
            "AGENTD_POD_NAMESPACE",
            "AGENTD_POD_UID",
            "AGENTD_POD_IP"
        ]
    );
}

#[test]
fn r12_replicas_that_are_not_set_are_not_written() {
    let replicas = |change: Value| rendered(change)["deployment"]["spec"].get("replicas").cloned();
    assert_eq!(replicas(json!({})), None);
    assert_eq!(replicas(json!({ "replicas": 0 })), Some(json!(0)));
    assert_eq!(replicas(json!({ "replicas": 1 })), Some(json!(1)));
    assert_eq!(
        replicas(json!({ "replicas": 1, "suspend": true })),
        Some(json!(0))
    );
    assert_eq!(replicas(json!({ "suspend": true })), Some(json!(0)));
}

#[test]
fn what_is_reloadable_makes_no_new_revision() {
    let revision = |change: Value| rendered(change)["told"]["revision"].as_str().unwrap().to_owned();
    let digest = |change: Value| {
        rendered(change)["told"]["configDigest"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (base, digested) = (revision(json!({})), digest(json!({})));
    for live in [
        json!({ "instruction": "Do it better." }),
        json!({ "intelligence": { "model": "other" } }),
        json!({ "limits": { "steps": 7 } }),
        json!({ "mcpServers": [{ "name": "files", "ref": { "name": "fs" } }] }),
        json!({ "a2a": { "principals": [{ "name": "boss", "agentRef": { "name": "boss" }, "role": "agent" }] } }),
    ] {
        assert_eq!(revision(live.clone()), base, "{live}");
        assert_ne!(digest(live.clone()), digested, "{live}");
    }
    for restart in [
        json!({ "image": "registry.example/agentd:2" }),
        json!({ "store": { "memory": {} } }),
        json!({ "resources": { "limits": { "memory": "1Gi" } } }),
        // A new Secret is a new mount.
        json!({ "mcpServers": [{ "name": "tickets", "ref": { "name": "remote" } }] }),
    ] {
        assert_ne!(revision(restart.clone()), base, "{restart}");
    }
    for neither in [
        json!({ "replicas": 1 }),
        json!({ "networkPolicy": { "mode": "None" } }),
    ] {
        assert_eq!(revision(neither.clone()), base, "{neither}");
        assert_eq!(digest(neither.clone()), digested, "{neither}");
    }
}

#[test]
fn a_digest_that_rolls_is_an_annotation_of_the_pod_and_no_revision() {
    let mut inputs = agent(json!({})).agent_inputs(&install());
    let built =
        |inputs: &_| build::build(&validate::validate(inputs, &install()).unwrap(), &install()).unwrap();
    let before = built(&inputs);
    inputs.rolled_digest = Some("sha256:x".into());
    let after = built(&inputs);
    assert_eq!(before.revision_hash, after.revision_hash);
    let template = after.deployment.spec.unwrap().template.metadata.unwrap();
    assert_eq!(template.annotations.unwrap()["agentd.io/live-digest"], "sha256:x");
}

#[test]
fn stores() {
    let state = |objects: &Value| {
        let volumes = objects["deployment"]["spec"]["template"]["spec"]["volumes"]
            .as_array()
            .unwrap()
            .clone();
        volumes
            .into_iter()
            .find(|volume| volume["name"] == "state")
            .unwrap_or_default()
    };
    let strategy = |objects: &Value| objects["deployment"]["spec"]["strategy"]["type"].clone();
    let kept = rendered(json!({ "store": { "file": { "retain": "Retain" } } }));
    assert_eq!(kept["claim"]["metadata"].get("ownerReferences"), None);
    assert_eq!(
        kept["claim"]["metadata"]["labels"]["agentd.io/agent-uid"],
        "11111111-1111-1111-1111-111111111111"
    );
    assert_eq!(strategy(&kept), "Recreate");

    let mut world = agent(json!({ "store": { "file": { "claimName": "old" } } }));
    let inputs = world.agent_inputs(&install());
    let missing = validate::validate(&inputs, &install()).unwrap_err();
    assert!(missing.problems.is_empty());
    assert_eq!(
        messages(&missing.unresolved),
        ["RefNotFound: PersistentVolumeClaim old does not exist (spec.store.file.claimName); create it"]
    );
    world.claim = NamedClaim::Controlled("Agent other".into());
    let taken = validate::validate(&world.agent_inputs(&install()), &install()).unwrap_err();
    assert!(messages(&taken.unresolved)[0].starts_with("RefNotPermitted: PersistentVolumeClaim old"));
    world.claim = NamedClaim::Free;
    let objects = render_agent(&world, &install()).unwrap();
    assert_eq!(objects["claim"], Value::Null);
    assert_eq!(state(&objects)["persistentVolumeClaim"]["claimName"], "old");
    assert_eq!(strategy(&objects), "Recreate");

    let ephemeral = rendered(json!({ "store": { "file": { "ephemeral": true } } }));
    assert_eq!(ephemeral["claim"], Value::Null);
    assert_eq!(state(&ephemeral)["emptyDir"], json!({}));
    assert_eq!(
        ephemeral["config"]["data"]["agentd.json"]["store"],
        json!({ "kind": "file", "path": "/var/lib/agentd" })
    );
    assert_eq!(strategy(&ephemeral), "RollingUpdate");

    let memory = rendered(json!({ "store": { "memory": {} } }));
    assert_eq!(memory["claim"], Value::Null);
    assert_eq!(state(&memory), Value::Null);
    assert_eq!(
        memory["config"]["data"]["agentd.json"]["store"],
        json!({ "kind": "memory" })
    );
}

#[test]
fn an_install_may_leave_fs_group_out_and_brings_defaults() {
    let mut install = install();
    let security = |install: &_| {
        render_agent(&agent(json!({})), install).unwrap()["deployment"]["spec"]["template"]["spec"]["securityContext"].clone()
    };
    assert_eq!(security(&install)["fsGroup"], 65532);
    assert_eq!(security(&install)["fsGroupChangePolicy"], "OnRootMismatch");
    install.fs_group = false;
    assert_eq!(security(&install).get("fsGroup"), None);
    install.image_pull_secrets = vec!["mirror".into()];
    install.image_pull_policy = Some("Always".into());
    let spec =
        render_agent(&agent(json!({})), &install).unwrap()["deployment"]["spec"]["template"]["spec"].clone();
    assert_eq!(spec["imagePullSecrets"], json!([{ "name": "mirror" }]));
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    let own = agent(json!({ "imagePullSecrets": [{ "name": "mine" }] }));
    let spec = render_agent(&own, &install).unwrap()["deployment"]["spec"]["template"]["spec"].clone();
    assert_eq!(spec["imagePullSecrets"], json!([{ "name": "mine" }]));
}

#[test]
fn a_secret_instruction_is_a_mounted_file() {
    let objects = rendered(
        json!({ "instruction": null, "instructionFrom": { "secretKeyRef": { "name": "who", "key": "text" } } }),
    );
    assert_eq!(
        objects["live"]["data"]["agentd.json"]["agent"]["instruction"],
        "{{secret-file:/etc/agentd/secrets/who/text}}"
    );
    let volumes = objects["deployment"]["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .unwrap();
    let secret = volumes
        .iter()
        .find(|volume| volume["secret"]["secretName"] == "who")
        .unwrap();
    assert_eq!(secret["secret"]["optional"], true);
    assert_eq!(
        secret["secret"]["items"],
        json!([{ "key": "text", "path": "text" }])
    );
}

#[test]
fn a_server_that_does_not_work_is_left_out_and_the_rest_applied() {
    let change = json!({ "mcpServers": [
        { "name": "gone", "ref": { "name": "nowhere" } },
        { "name": "files", "ref": { "name": "fs" } },
        { "name": "broken", "ref": { "name": "bad" } },
        { "name": "closed", "ref": { "name": "closed" } },
    ] });
    let mut world = agent(change);
    let server = |name: &str, spec: Value| json!({ "apiVersion": "agentd.io/v1alpha1", "kind": "McpServer", "metadata": { "name": name, "namespace": "support" }, "spec": spec });
    let more = World::of([
        server("bad", json!({ "endpoint": "http://mcp.example" })),
        server(
            "closed",
            json!({ "endpoint": "https://x.example", "allowedAgents": { "agents": [{ "namespace": "support", "name": "boss" }] } }),
        ),
    ]);
    world.servers.extend(more.servers);
    let validated = validate::validate(&world.agent_inputs(&install()), &install()).unwrap();
    assert_eq!(
        messages(&validated.unresolved),
        [
            "RefNotFound: McpServer nowhere does not exist (spec.mcpServers[gone]); create it or remove the entry",
            "RefNotPermitted: McpServer closed does not allow this Agent (spec.mcpServers[closed]); add it to its allowedAgents",
        ]
    );
    let left: Vec<_> = validated
        .servers
        .iter()
        .map(|server| (server.name.as_str(), server.left_out.is_some()))
        .collect();
    assert_eq!(
        left,
        [
            ("gone", true),
            ("files", false),
            ("broken", true),
            ("closed", true)
        ]
    );
    assert_eq!(
        validated.servers[2].left_out.as_deref().unwrap(),
        "McpServer bad is not accepted (spec.mcpServers[broken]): mcp.servers[bad].endpoint: is plain http to another host; use https; http is for loopback only"
    );
    let objects = render_agent(&world, &install()).unwrap();
    let entries = objects["live"]["data"]["agentd.json"]["mcp"]["servers"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["name"], "files");
}

#[test]
fn a_token_of_a_principal_is_mounted_from_its_secret_and_may_come_from_anywhere() {
    let objects = rendered(json!({ "a2a": { "principals": [
        { "name": "desk", "role": "user",
          "bearer": { "valueFrom": { "secretKeyRef": { "name": "desk-token", "key": "token" } } } },
    ] } }));
    assert_eq!(
        objects["live"]["data"]["agentd.json"]["a2a"]["principals"],
        json!([{ "name": "desk", "bearer": "{{secret-file:/etc/agentd/secrets/desk-token/token}}", "role": "user" }])
    );
    let rule = &objects["networkPolicy"]["spec"]["ingress"][0];
    assert_eq!(rule["ports"][0]["port"], json!(8443));
    assert_eq!(rule.get("from"), None);
    let pod = &objects["deployment"]["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let mounted: Vec<_> = volumes
        .iter()
        .filter(|one| one["secret"]["secretName"] == "desk-token")
        .collect();
    assert_eq!(mounted.len(), 1, "{volumes:?}");
    assert_eq!(
        mounted[0]["secret"]["items"],
        json!([{ "key": "token", "path": "token" }])
    );
}

#[test]
fn a_principal_that_is_not_there_is_left_out_with_a_note() {
    let change = json!({ "a2a": { "principals": [
        { "name": "gone", "agentRef": { "name": "nobody" }, "role": "agent" },
        { "name": "asleep", "agentRef": { "name": "asleep", "namespace": "team" }, "role": "agent" },
        { "name": "boss", "agentRef": { "name": "boss" }, "role": "agent" },
        { "name": "unlabelled", "serviceAccountRef": { "name": "nobody" }, "role": "user" },
    ] } });
    let objects = rendered(change);
    assert_eq!(
        objects["live"]["data"]["agentd.json"]["a2a"]["principals"],
        json!([{ "name": "boss", "spiffe_id": "spiffe://td.example/ns/support/sa/boss-agent", "role": "agent" }])
    );
    assert_eq!(objects["told"]["unresolved"], json!([]));
    let notes = objects["told"]["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 2);
    assert_eq!(
        notes[0],
        "PrincipalNotFound: Agent nobody does not exist (spec.a2a.principals[gone]): it may not call until it is there"
    );
}
