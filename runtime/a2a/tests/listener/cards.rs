//! The card: true for whoever reads it, from inside and from outside, and with all that is there for a known caller.

use agentd_a2a::{CardConfig, Role};
use agentd_config::document::Skill;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::support::*;

const CARD: &str = "/.well-known/agent-card.json";

fn asking(path: &str, host: &str, etag: &str) -> Request<Full<bytes::Bytes>> {
    let request = Request::get(path).header("host", host);
    request
        .header("if-none-match", etag)
        .body(Full::default())
        .unwrap()
}

#[tokio::test]
async fn s1_every_interface_of_the_card_is_reachable_from_where_it_is_promised() {
    let world = World::promising(|config| CardConfig {
        external: Some("https://agents.example/team/helper".parse().unwrap()),
        ..config
    })
    .await;
    let mut nobody = world.as_nobody().await;
    let mut alice = world.as_caller(ALICE).await;
    let mut seen = Vec::new();
    // Behind a proxy that strips the prefix, and one that does not.
    for (host, path) in [
        ("localhost", CARD.to_owned()),
        ("localhost", format!("/agents/helper{CARD}")),
        ("agents.example", CARD.to_owned()),
        ("agents.example", format!("/team/helper{CARD}")),
    ] {
        let answer = nobody.send(asking(&path, host, "")).await.unwrap();
        assert_eq!(answer.status, 200, "{host}{path}");
        assert!(answer.header("vary").contains("host"));
        let known = asking(&path, host, answer.header("etag"));
        assert_eq!(nobody.send(known).await.unwrap().status, 304);
        let card = answer.json();
        assert_eq!(
            card["url"].as_str().unwrap().contains("agents.example"),
            host == "agents.example"
        );
        for interface in card["supportedInterfaces"].as_array().unwrap() {
            let url: url::Url = interface["url"].as_str().unwrap().parse().unwrap();
            let path = url.path().trim_end_matches('/').to_owned();
            let mut request = match (
                interface["protocolBinding"].as_str().unwrap(),
                interface["protocolVersion"].as_str().unwrap(),
            ) {
                ("JSONRPC", "1.0") => rpc(&path, "GetTask", json!({ "id": "x" })),
                ("JSONRPC", "0.3") => {
                    let mut request = rpc(&path, "tasks/get", json!({ "id": "x" }));
                    request.headers_mut().remove("a2a-version");
                    request
                }
                ("HTTP+JSON", "1.0") => rest("GET", &format!("{path}/tasks/x"), Value::Null),
                other => panic!("{other:?}"),
            };
            request
                .headers_mut()
                .insert("host", url.host_str().unwrap().parse().unwrap());
            let answer = alice.send(request).await.unwrap();
            let told = answer.json()["error"].to_string();
            assert!(told.contains("TASK_NOT_FOUND"), "{interface}: {told}");
            seen.push(path);
        }
    }
    assert!(seen.contains(&"/team/helper".to_owned()) && seen.contains(&"/agents/helper".to_owned()));
}

#[tokio::test]
async fn the_extended_card_is_for_known_callers_and_says_what_each_may_use() {
    let skill = |id: &str, role| Skill {
        id: id.into(),
        name: id.into(),
        description: "Does it.".into(),
        role,
        ..Skill::default()
    };
    let world = World::promising(|config| CardConfig {
        skills: vec![skill("all", None), skill("ops", Some(Role::Operator))],
        ..config
    })
    .await;
    let ids = |card: &Value| -> Vec<String> {
        let skills = card["skills"].as_array().unwrap();
        skills
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut nobody = world.as_nobody().await;
    let public = nobody.get(CARD).await.json();
    assert_eq!(ids(&public), ["all"]);
    assert_eq!(public["capabilities"]["extendedAgentCard"], true);
    assert_eq!(public["supportsAuthenticatedExtendedCard"], true);
    assert_eq!(
        nobody.rest("GET", "/extendedAgentCard", Value::Null).await.status,
        401
    );
    let mut mallory = world.as_caller(MALLORY).await;
    assert_eq!(
        mallory
            .rest("GET", "/extendedAgentCard", Value::Null)
            .await
            .status,
        403
    );
    for (own, expected) in [(BOB, ["all"].as_slice()), (ADMIN, &["all", "ops"])] {
        let mut caller = world.as_caller(own).await;
        let by_call = caller.call("GetExtendedAgentCard", json!({})).await.json();
        let by_path = caller.rest("GET", "/extendedAgentCard", Value::Null).await;
        assert_eq!(
            (ids(&by_call["result"]), by_path.status),
            (expected.iter().map(|id| (*id).to_owned()).collect(), 200)
        );
        assert_eq!(by_path.json(), by_call["result"]);
        assert_eq!(by_path.header("cache-control"), "no-store");
        let mut before = rpc("/", "agent/getAuthenticatedExtendedCard", Value::Null);
        before.headers_mut().remove("a2a-version");
        let before = caller.send(before).await.unwrap().json();
        assert_eq!(ids(&before["result"]), ids(&by_call["result"]));
        assert_eq!(before["result"]["preferredTransport"], "JSONRPC");
    }
}

#[tokio::test]
async fn a_signed_card_is_signed_anew_with_each_svid() {
    let world = World::signing(|config| config).await;
    let mut nobody = world.as_nobody().await;
    let first = nobody.get(CARD).await;
    let again = nobody.get(CARD).await;
    assert_eq!(
        (again.header("etag"), &again.body),
        (first.header("etag"), &first.body)
    );
    let signature = first.json()["signatures"][0].clone();
    assert_eq!(signature.as_object().unwrap().len(), 2, "{signature}");
    world
        .source
        .set_svid(svid(&world.authority, SERVER, &["localhost"]))
        .unwrap();
    let second = nobody.get(CARD).await;
    assert_ne!(second.header("etag"), first.header("etag"));
    assert_ne!(
        second.json()["signatures"][0]["protected"],
        signature["protected"]
    );
    let mut alice = world.as_caller(ALICE).await;
    let extended = alice.call("GetExtendedAgentCard", json!({})).await.json();
    let protected = &extended["result"]["signatures"][0]["protected"];
    assert_eq!(protected, &second.json()["signatures"][0]["protected"]);
}
