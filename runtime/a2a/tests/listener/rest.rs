//! The HTTP+JSON binding: the same methods with the same results, and errors as HTTP has them.

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::support::*;

const NOTHING: Value = Value::Null;

#[tokio::test]
async fn s14_every_method_is_there_and_gives_what_json_rpc_gives() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let sent = alice.rest("POST", "/message:send", message("echo hi")).await;
    assert_eq!(
        (
            sent.status,
            sent.header("content-type"),
            sent.header("cache-control")
        ),
        (200, "application/a2a+json", "no-store")
    );
    let task = sent.json()["task"].clone();
    assert_eq!(task["artifacts"][0]["parts"], json!([{ "text": "hi" }]));
    let rpc = alice.call("GetTask", json!({ "id": "task-0" })).await.json()["result"].clone();
    assert_eq!(rpc, task);
    // Behind a proxy that strips the path of the URL, and one that does not.
    for path in ["/tasks/task-0", "/agents/helper/tasks/task-0"] {
        assert_eq!(alice.rest("GET", path, NOTHING).await.json(), task);
    }
    let short = alice.rest("GET", "/tasks/task-0?historyLength=1", NOTHING).await;
    assert_eq!(short.json()["history"].as_array().unwrap().len(), 1);
    let list = alice
        .rest("GET", "/tasks?pageSize=1&includeArtifacts=true", NOTHING)
        .await;
    assert_eq!(
        list.json(),
        json!({ "tasks": [task], "nextPageToken": "", "pageSize": 1, "totalSize": 1 })
    );
    let proto = "/tasks?page_size=1&include_artifacts=true";
    assert_eq!(alice.rest("GET", proto, NOTHING).await.json(), list.json());
    let mut waiting = message("hold");
    waiting["configuration"] = json!({ "returnImmediately": true });
    alice.rest("POST", "/message:send", waiting).await;
    let canceled = alice.rest("POST", "/tasks/task-1:cancel", NOTHING).await;
    assert_eq!(canceled.json()["status"]["state"], json!("TASK_STATE_CANCELED"));
}

#[tokio::test]
async fn s14_an_error_has_the_status_the_reason_and_the_fields() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    alice.rest("POST", "/message:send", message("echo hi")).await;
    let config = "/tasks/task-0/pushNotificationConfigs";
    for (verb, path, body, status, name, reason) in [
        ("GET", "/tasks/x", NOTHING, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
        (
            "POST",
            "/tasks/task-0:cancel",
            json!({}),
            400,
            "FAILED_PRECONDITION",
            "TASK_NOT_CANCELABLE",
        ),
        (
            "GET",
            "/tasks/task-0:subscribe",
            NOTHING,
            400,
            "FAILED_PRECONDITION",
            "UNSUPPORTED_OPERATION",
        ),
        (
            "POST",
            "/tasks/x:subscribe",
            NOTHING,
            404,
            "NOT_FOUND",
            "TASK_NOT_FOUND",
        ),
        (
            "POST",
            config,
            json!({}),
            400,
            "FAILED_PRECONDITION",
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
        (
            "GET",
            config,
            NOTHING,
            400,
            "FAILED_PRECONDITION",
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
        (
            "DELETE",
            "/tasks/x/pushNotificationConfigs/p",
            NOTHING,
            400,
            "FAILED_PRECONDITION",
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
        (
            "GET",
            "/tasks?pageSize=many",
            NOTHING,
            400,
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
        ),
        (
            "POST",
            "/message:send",
            json!({}),
            400,
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
        ),
        (
            "POST",
            "/message:send",
            json!([]),
            400,
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
        ),
        (
            "POST",
            "/message:send",
            message("away"),
            503,
            "UNAVAILABLE",
            "STORE_UNAVAILABLE",
        ),
        (
            "GET",
            "/tasks/task-0/more",
            NOTHING,
            404,
            "NOT_FOUND",
            "NOT_FOUND",
        ),
        (
            "GET",
            "/message:send",
            NOTHING,
            405,
            "INVALID_ARGUMENT",
            "METHOD_NOT_ALLOWED",
        ),
    ] {
        let answer = alice.rest(verb, path, body).await;
        let error = answer.json()["error"].clone();
        let details = error["details"].as_array().unwrap();
        assert_eq!(
            (
                answer.status,
                &error["code"],
                &error["status"],
                &details.last().unwrap()["reason"]
            ),
            (status, &json!(status), &json!(name), &json!(reason)),
            "{verb} {path}: {error}"
        );
    }
    let fields = alice
        .rest("GET", "/tasks?pageSize=many&status=busy", NOTHING)
        .await
        .json();
    assert_eq!(
        fields["error"]["details"][0],
        json!({ "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [
            { "field": "status", "description": "must be a state such as TASK_STATE_WORKING" },
            { "field": "pageSize", "description": "must be a whole number from 1 to 100" },
        ] })
    );
}

#[tokio::test]
async fn versions_and_types_are_judged_as_in_json_rpc() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let with = |version: Option<&str>, media_type: &str, body: &'static str| {
        let mut request = Request::post("/message:send").header("host", "localhost");
        if let Some(version) = version {
            request = request.header("a2a-version", version);
        }
        let request = request.header("content-type", media_type);
        request.body(Full::from(body)).unwrap()
    };
    let json = "application/json";
    for (request, status, reason) in [
        (with(None, json, "{}"), 400, "VERSION_NOT_SUPPORTED"),
        (with(Some("0.3"), json, "{}"), 400, "VERSION_NOT_SUPPORTED"),
        (with(Some("9.9"), json, "{}"), 400, "VERSION_NOT_SUPPORTED"),
        (with(Some("1.0.7"), json, "{"), 400, "PARSE_ERROR"),
        (
            with(Some("1.0"), "text/plain", "{}"),
            400,
            "CONTENT_TYPE_NOT_SUPPORTED",
        ),
        (with(Some("1.0"), json, ""), 400, "INVALID_PARAMS"),
    ] {
        let answer = alice.send(request).await.unwrap();
        let error = answer.json()["error"].clone();
        let details = error["details"].as_array().unwrap();
        assert_eq!(
            (answer.status, &details.last().unwrap()["reason"]),
            (status, &json!(reason)),
            "{error}"
        );
    }
}
