//! `resource.read`: when it is there, what it reads from whom, and what a model is told.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod desk;

use agentd_agent::{Observation, ToolRunner as _};
use serde_json::json;

use desk::{Desk, call, reader, server};

#[tokio::test]
async fn m4_it_is_there_exactly_when_something_is_readable() {
    for (servers, expected) in [
        (vec![], &[][..]),
        (vec![server("wx", None, &["text"])], &["text"]),
        (
            vec![server("wx", None, &["text"]), reader("fs", &["file:///a"], &[])],
            &["resource_read", "text"],
        ),
        (vec![reader("fs", &[], &["file:///{path}"])], &["resource_read"]),
    ] {
        assert_eq!(Desk::new(servers).names().await, expected);
    }
}

#[tokio::test]
async fn m4_its_name_is_never_a_servers() {
    let desk = Desk::new(vec![server(
        "resource",
        None,
        &["read", "resource_read", "resource.read"],
    )]);
    let names = desk.names().await;
    assert!(!names.iter().any(|name| name == "resource_read"), "{names:?}");
    assert_eq!(names.len(), 3);
    let desk = Desk::new(vec![
        server("x", None, &["resource_read"]),
        reader("fs", &["file:///text"], &[]),
    ]);
    assert_eq!(
        desk.names()
            .await
            .iter()
            .filter(|name| *name == "resource_read")
            .count(),
        1
    );
    desk.call("resource_read", json!({"uri": "file:///text"})).await;
    assert_eq!(desk.servers.seen().0, "fs");
}

#[tokio::test]
async fn m4_its_schema_holds() {
    let desk = Desk::new(vec![reader("fs", &["file:///text"], &[])]);
    let view = desk.router.view().await;
    let spec = view
        .tools
        .iter()
        .find(|spec| spec.name == "resource_read")
        .unwrap();
    assert_eq!(spec.input_schema["required"], json!(["uri"]));
    for arguments in [
        json!({}),
        json!({"uri": 1}),
        json!({"uri": ""}),
        json!({"uri": "file:///text", "x": 1}),
    ] {
        let seen = desk.call("resource_read", arguments.clone()).await;
        assert!(
            seen.text
                .starts_with("ERROR: the arguments of resource_read do not fit: "),
            "{arguments} {seen:?}"
        );
    }
    assert!(desk.servers.is_untouched());
    // With the dot, as people write it.
    assert!(
        !desk
            .call("resource.read", json!({"uri": "file:///text"}))
            .await
            .is_error
    );
}

#[tokio::test(start_paused = true)]
async fn m26_contents_and_faults_as_words() {
    let root = "file:///";
    let names = [
        "text", "folder", "empty", "picture", "words", "latin", "broken", "crash", "gone", "missing",
    ];
    let uris: Vec<String> = names.iter().map(|name| format!("{root}{name}")).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let desk = Desk::new(vec![reader("fs", &uris, &[])]);
    for (name, text) in [
        ("text", "- ship it\n"),
        (
            "folder",
            "[resource file:///folder]\ntwo files\n[resource file:///folder/b]\nof b",
        ),
        ("empty", "[the resource is empty]"),
        (
            "picture",
            "[resource file:///picture: image/png, 4 bytes, not shown]",
        ),
        ("words", "a,b"),
        (
            "latin",
            "[resource file:///latin: text/plain, 1 bytes, not shown]",
        ),
        ("broken", "[resource file:///broken: what came is not base64]"),
        (
            "crash",
            "ERROR: file:///crash could not be read: its server failed (error -32603)",
        ),
        ("gone", "ERROR: server fs is not connected now; try later"),
        ("missing", "ERROR: server fs has no resource file:///missing"),
        (
            "other",
            "ERROR: no server offers file:///other; read a URI that is listed, or one of a template that is",
        ),
    ] {
        let seen = desk
            .call("resource_read", json!({"uri": format!("{root}{name}")}))
            .await;
        assert_eq!(
            (seen.text.as_str(), seen.is_error),
            (text, text.starts_with("ERROR")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn m20_a_read_carries_its_meta() {
    let desk = Desk::new(vec![reader("fs", &["file:///text"], &[])]);
    desk.call("resource_read", json!({"uri": "file:///text"})).await;
    let (server, what, uri, meta) = desk.servers.seen();
    assert_eq!(
        (server.as_str(), what.as_str(), uri),
        ("fs", "read", json!("file:///text"))
    );
    assert_eq!(
        (meta.run_id.as_str(), meta.instance.as_str()),
        ("run-1", "triage")
    );
    assert_eq!(meta.idempotency_key.len(), 64);
}

#[tokio::test]
async fn m27_a_template_of_a_server_can_be_read_by_a_uri() {
    let desk = Desk::new(vec![
        reader("fs", &["file:///a"], &[]),
        reader("db", &[], &["db://{table}/{row}"]),
    ]);
    desk.call("resource_read", json!({"uri": "db://t/text"})).await;
    assert_eq!(desk.servers.seen().0, "db");
}

#[tokio::test]
async fn m4_a_result_that_was_cut_is_a_resource_of_ours() {
    let desk = Desk::new(vec![server("wx", None, &["long"])]);
    assert_eq!(desk.names().await, ["long"]);
    let seen = desk.router.call(&call("long", json!({})), 7).await;
    let uri = "agentd://results/run-1/7?from=100000";
    let notice = format!(
        "ä\n[cut here: the result has 100001 characters; read on with resource_read and the URI {uri}]"
    );
    assert!(seen.text.ends_with(&notice));
    assert_eq!(seen.text.chars().filter(|c| *c == 'ä').count(), 100_000);
    assert_eq!(desk.names().await, ["resource_read", "long"]);
    assert_eq!(
        desk.call("resource_read", json!({"uri": uri})).await,
        Observation::result("ä")
    );
    let gone = desk
        .call("resource_read", json!({"uri": "agentd://results/run-0/1"}))
        .await;
    assert!(
        gone.is_error && gone.text.contains("make the call again"),
        "{gone:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn m21_a_read_that_its_server_failed_is_made_again_with_the_same_key() {
    let desk = Desk::new(vec![
        reader("fs", &["file:///crash"], &[]),
        server("wx", None, &["crash"]),
    ]);
    assert!(
        desk.call("resource_read", json!({"uri": "file:///crash"}))
            .await
            .is_error
    );
    let keys = [(); 3].map(|()| desk.servers.seen().3.idempotency_key);
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert!(desk.servers.is_untouched());
    // A tool is not: nobody knows whether it may be carried out twice.
    assert!(desk.call("crash", json!({})).await.is_error);
    desk.servers.seen();
    assert!(desk.servers.is_untouched());
}

#[tokio::test]
async fn m26_a_resource_that_a_result_points_to_is_read_from_its_server() {
    let desk = Desk::new(vec![server("wx", None, &["links"]), server("fs", None, &[])]);
    assert_eq!(desk.names().await, ["links"]);
    let wish = json!({"uri": "memo:/text"});
    desk.call("links", json!({})).await;
    assert_eq!(desk.names().await, ["resource_read", "links"]);
    assert_eq!(
        desk.call("resource_read", wish).await,
        Observation::result("- ship it\n")
    );
    assert_eq!(desk.servers.seen().0, "wx");
    // What another server lists is that server's, whoever points to it.
    desk.servers.change(vec![
        server("wx", None, &["links"]),
        reader("fs", &["file:///text"], &[]),
    ]);
    desk.call("resource_read", json!({"uri": "file:///text"})).await;
    assert_eq!(desk.servers.seen().0, "fs");
    for foreign in ["agentd://results/run-1/0", "a b"] {
        assert!(desk.call("resource_read", json!({"uri": foreign})).await.is_error);
    }
}
