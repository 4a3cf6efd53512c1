//! Servers of an Agent whose McpServer is not acted on: what was made of it before goes on.

use agentd_operator::controllers::agent::{build, inputs, validate};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::agent::agent;
use crate::world::{World, install, messages, patch, render_agent};

/// Applies the first Agent's document of `world`, and what it says of servers stands from then on.
fn apply(world: &mut World) {
    let validated = validate::validate(&world.agent_inputs(&install()), &install()).unwrap();
    let objects = build::build(&validated, &install()).unwrap();
    world.standing = inputs::standing(&objects.live);
}

/// Gives the McpServer of this name another spec, as `change` says.
fn respecify(world: &mut World, name: &str, change: &Value) {
    let server = world
        .servers
        .iter_mut()
        .find(|server| server.name_any() == name)
        .unwrap();
    let mut value = serde_json::to_value(server.as_ref()).unwrap();
    patch(&mut value["spec"], change);
    value["metadata"]["generation"] = json!(server.metadata.generation.unwrap_or_default() + 1);
    *server = std::sync::Arc::new(serde_json::from_value(value).unwrap());
}

fn entries(world: &World) -> Value {
    render_agent(world, &install()).unwrap()["live"]["data"]["agentd.json"]["mcp"]["servers"].clone()
}

#[test]
fn a_server_that_is_no_longer_accepted_stays_as_it_was() {
    let used = json!({ "mcpServers": [
        { "name": "files", "ref": { "name": "fs" } },
        { "name": "tickets", "ref": { "name": "remote" } },
    ] });
    let volumes = |world: &World| {
        render_agent(world, &install()).unwrap()["deployment"]["spec"]["template"]["spec"]["volumes"].clone()
    };
    let revision = |world: &World| render_agent(world, &install()).unwrap()["told"]["revision"].clone();
    let mut world = agent(used);
    apply(&mut world);
    let (before, mounted, revised) = (entries(&world), volumes(&world), revision(&world));
    assert_eq!(before.as_array().unwrap().len(), 2);

    // A wrong field, a field that is not built, a wrong deployment, a ConfigMap that is not there: beside each of them
    // what is right is not taken up either.
    for (name, change) in [
        ("remote", json!({ "endpoint": "http://elsewhere.example" })),
        ("remote", json!({ "auth": null, "tools": { "pin": true } })),
        (
            "remote",
            json!({ "namespacePrefix": "other", "tls": { "caBundle": { "configMapKeyRef": { "name": "nowhere", "key": "ca.crt" } } } }),
        ),
        (
            "fs",
            json!({ "namespacePrefix": "other", "deployment": { "transport": "stdio" } }),
        ),
        (
            "fs",
            json!({ "deployment": { "path": "/other", "env": [{ "name": "X", "valueFrom": { "configMapKeyRef": { "name": "nowhere", "key": "x" } } }] } }),
        ),
    ] {
        let mut broken = world_like(&world);
        respecify(&mut broken, name, &change);
        let entry = if name == "fs" { "files" } else { "tickets" };
        assert_eq!(entries(&broken), before, "{change}");
        assert_eq!(volumes(&broken), mounted, "{change}");
        assert_eq!(revision(&broken), revised, "{change}");
        let validated = validate::validate(&broken.agent_inputs(&install()), &install()).unwrap();
        let server = validated
            .servers
            .iter()
            .find(|server| server.name == entry)
            .unwrap();
        assert_eq!(server.left_out, None, "{change}");
        assert_eq!(server.made_of.as_ref().unwrap().generation, None, "{change}");
        let notes = messages(&validated.notes);
        let note = format!(
            "ServerNotAccepted: the server `{entry}` is used as it was before: McpServer {name} is not accepted"
        );
        assert!(notes.iter().any(|text| text.starts_with(&note)), "{notes:?}");
        // And so on, for as long as it takes.
        apply(&mut broken);
        assert_eq!(entries(&broken), before, "{change}");
        // The Agent's own choice is the Agent's, and who is let in the server's, whatever else is wrong.
        let own = json!([{ "name": entry, "ref": { "name": name }, "tools": { "allow": ["read_*"] } }]);
        let mut narrowed = world_like(&broken);
        reuse(&mut narrowed, own);
        assert_eq!(entries(&narrowed)[0]["allow"], json!(["read_*"]), "{change}");
        respecify(
            &mut broken,
            name,
            &json!({ "allowedAgents": { "agents": [{ "namespace": "support", "name": "boss" }] } }),
        );
        assert_eq!(entries(&broken).as_array().unwrap().len(), 1, "{change}");
    }

    let mut unreadable = world_like(&world);
    let uid = world
        .servers
        .iter()
        .find(|server| server.name_any() == "fs")
        .unwrap()
        .uid()
        .unwrap();
    unreadable.servers.retain(|server| server.name_any() != "fs");
    let mut deleted = world_like(&unreadable);
    unreadable.unreadable.insert("fs".to_owned(), uid);
    assert_eq!(entries(&unreadable), before);
    assert_eq!(
        entries(&deleted).as_array().unwrap().len(),
        1,
        "a deleted one is left out"
    );

    // Another McpServer under the same name in the document, or of the same name, is another server.
    let mut other = world_like(&world);
    respecify(&mut other, "remote", &json!({ "tools": { "pin": true } }));
    reuse(
        &mut other,
        json!([{ "name": "files", "ref": { "name": "remote" } }]),
    );
    assert_eq!(
        render_agent(&other, &install()).unwrap()["live"]["data"]["agentd.json"].pointer("/mcp/servers"),
        None
    );
    deleted
        .unreadable
        .insert("fs".to_owned(), "another-uid".to_owned());
    assert_eq!(entries(&deleted).as_array().unwrap().len(), 1);
}

fn world_like(world: &World) -> World {
    World {
        agents: world.agents.clone(),
        servers: world.servers.clone(),
        config_maps: world.config_maps.clone(),
        accounts: world.accounts.clone(),
        claim: world.claim.clone(),
        unreadable: world.unreadable.clone(),
        standing: world.standing.clone(),
    }
}

/// Gives the first Agent other servers.
fn reuse(world: &mut World, servers: Value) {
    let mut value = serde_json::to_value(world.agents[0].as_ref()).unwrap();
    value["spec"]["mcpServers"] = servers;
    world.agents[0] = std::sync::Arc::new(serde_json::from_value(value).unwrap());
}
