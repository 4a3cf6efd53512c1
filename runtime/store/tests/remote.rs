//! What the adapters to MCP and HTTP send and make of the answers.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_base::clock::FixedClock;
use agentd_config::document::{HttpOp, HttpStore, McpOp, McpStore};
use agentd_mcp::Outbound;
use agentd_state::{Store as _, StoreError, Task, TaskState, Write};
use agentd_store::kv::KvError;
use agentd_store::remote::{HttpKv, McpKv};
use agentd_store::{Kv, KvStore, Owner};
use axum::http::StatusCode;
use serde_json::{Value, json};
use support::kv::Held;
use support::server::Server;
use support::{ALL, task};

async fn open(kv: impl Kv) -> Result<KvStore, StoreError> {
    let owner = Owner {
        prefix: "agentd".into(),
        instance: "test".into(),
    };
    KvStore::open(
        kv,
        &owner,
        ALL,
        Arc::new(FixedClock::new(jiff::Timestamp::UNIX_EPOCH)),
    )
    .await
}

fn write(id: &str) -> Vec<Write> {
    vec![Write::Task(task(id, TaskState::Submitted, 1))]
}

/// The tools of a server that knows nothing of us.
fn foreign() -> McpStore {
    let op = |tool: &str, args: Value| {
        Some(McpOp {
            tool: tool.into(),
            args: Some(args),
            ..McpOp::default()
        })
    };
    McpStore {
        put: op(
            "kv_set",
            json!({ "name": "{{key}}", "data": { "envelope": "{{value}}" } }),
        ),
        get: Some(McpOp {
            value: Some("/data/envelope".into()),
            ..op("kv_read", json!({ "name": "{{key}}" })).unwrap()
        }),
        list: Some(McpOp {
            keys: Some("".into()),
            ..op("kv_keys", json!({})).unwrap()
        }),
        ..McpStore::default()
    }
}

#[tokio::test]
async fn a_write_bears_its_idempotency_key_and_the_agents_name() {
    let server = Server::start(&Held::default()).await;
    let store = open(server.mcp(McpStore::default()).await.unwrap())
        .await
        .unwrap();
    store.write(write("t")).await.unwrap();
    store.probe(0).await.unwrap();
    let seen = server.seen.lock().unwrap().clone();
    let puts: Vec<(&Value, &Value)> = seen
        .iter()
        .filter(|call| call["name"] == "state.put")
        .map(|call| {
            (
                &call["_meta"]["agent/idempotency_key"],
                &call["_meta"]["agent/instance"],
            )
        })
        .collect();
    let intent = |seq| json!(format!("agentd/test/manifest/intent#{seq}"));
    let expected = [intent(1), intent(2), json!("agentd/test/task/t#1"), intent(3)];
    let test = json!("test");
    assert_eq!(puts, expected.iter().map(|key| (key, &test)).collect::<Vec<_>>());
    for call in &seen {
        assert!(call["_meta"]["agent/run_id"].is_string(), "{call}");
    }
}

#[tokio::test]
async fn the_same_over_http() {
    let server = Server::start(&Held::default()).await;
    let store = open(server.http(HttpStore::default())).await.unwrap();
    store.write(write("t")).await.unwrap();
    store.probe(0).await.unwrap();
    let seen = server.seen.lock().unwrap().clone();
    let puts: Vec<&Value> = seen.iter().filter(|request| request["method"] == "PUT").collect();
    assert_eq!(
        puts[2],
        &json!({ "method": "PUT", "key": "agentd/test/task/t", "seq": "1", "idempotency": "agentd/test/task/t#1" })
    );
    assert_eq!(puts.len(), 4);
}

/// No numbers, no cursor, a value of its own shape, an error where there is none, nothing to delete with.
#[tokio::test]
async fn a_server_that_knows_nothing_of_us_is_mapped() {
    let held = Held::default();
    let server = Server::start(&held).await;
    // The document's way of saying it.
    let mapped: McpStore = serde_json::from_value(serde_json::to_value(foreign()).unwrap()).unwrap();
    let store = open(server.mcp(mapped).await.unwrap()).await.unwrap();
    store.write(write("t")).await.unwrap();
    store.write(write("u")).await.unwrap();
    store.probe(0).await.unwrap();
    drop(store);
    let store = open(server.mcp(foreign()).await.unwrap()).await.unwrap();
    assert_eq!(support::open(&store).await, ["t", "u"]);
    assert_eq!(
        store.task("t").await.unwrap(),
        Some(task("t", TaskState::Submitted, 1))
    );
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_named_with_the_remedy() {
    let server = Server::start(&Held::default()).await;
    let op = |tool: &str| {
        Some(McpOp {
            tool: tool.into(),
            ..McpOp::default()
        })
    };
    for (store, part) in [
        (
            McpStore {
                put: op("save"),
                ..foreign()
            },
            "it has no tool `save`; name the one that it has for this in store.mcp.put",
        ),
        (
            McpStore {
                delete: op("rm"),
                ..foreign()
            },
            "it has no tool `rm` (store.mcp.delete)",
        ),
    ] {
        let error = server.mcp(store).await.err().unwrap();
        assert_eq!(error.class(), Class::Unavailable);
        let text = error.to_string();
        assert!(
            text.contains("MCP server `state` (store.mcp.server)") && text.contains(part),
            "{text}"
        );
    }
    // A mapping that finds nothing in the answers is found out before anything is lost.
    let lists_wrongly = McpStore {
        list: Some(McpOp {
            keys: Some("/names".into()),
            ..foreign().list.unwrap()
        }),
        ..foreign()
    };
    let error = open(server.mcp(lists_wrongly).await.unwrap())
        .await
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("say where it is in store.mcp.list.keys"),
        "{error}"
    );
    let reads_wrongly = McpStore {
        get: Some(McpOp {
            value: Some("/x".into()),
            ..foreign().get.unwrap()
        }),
        ..foreign()
    };
    let error = open(server.mcp(reads_wrongly).await.unwrap())
        .await
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("does the mapping of get say where the value is"),
        "{error}"
    );
}

#[tokio::test]
async fn a_status_says_what_became_of_a_write() {
    let server = Server::start(&Held::default()).await;
    let kv = server.http(HttpStore::default());
    let put = async |status: u16| {
        server
            .answers
            .lock()
            .unwrap()
            .push(StatusCode::from_u16(status).unwrap());
        kv.put("a/b%20c", 1, "{}").await.unwrap_err()
    };
    for status in [409, 412] {
        assert!(matches!(put(status).await, KvError::Conflict(_)), "{status}");
    }
    for status in [400, 401, 404, 422] {
        assert!(matches!(put(status).await, KvError::Refused(_)), "{status}");
    }
    for status in [413, 507] {
        assert!(matches!(put(status).await, KvError::TooLarge(_)), "{status}");
    }
    for status in [408, 500, 502, 504] {
        assert!(matches!(put(status).await, KvError::Unknown(_)), "{status}");
    }
    assert_eq!(put(507).await.to_string(), "HTTP 507: as the test says");
    assert_eq!(kv.get("a/b%20c").await.unwrap(), None);
    kv.put("a/b%20c", 1, "{}").await.unwrap();
    assert_eq!(kv.get("a/b%20c").await.unwrap().as_deref(), Some("{}"));
    assert_eq!(kv.get("a/b c").await.unwrap(), None, "a key is sent as it is");
    let own = HttpStore {
        put: Some(HttpOp {
            conflict_status: Some(vec![418]),
            ..HttpOp::default()
        }),
        ..HttpStore::default()
    };
    let kv = server.http(own);
    for (status, conflict) in [(418, true), (409, false)] {
        server
            .answers
            .lock()
            .unwrap()
            .push(StatusCode::from_u16(status).unwrap());
        let error = kv.put("a", 1, "{}").await.unwrap_err();
        assert_eq!(matches!(error, KvError::Conflict(_)), conflict, "{error}");
    }
}

/// Also when they are away from the beginning, and each says which server it is.
#[tokio::test]
async fn a_server_that_is_away_is_named() {
    // Nobody listens there any more.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}");
    let server = serde_json::from_value(json!({ "name": "state", "endpoint": url })).unwrap();
    let timeout = Duration::from_secs(20);
    let error = McpKv::connect(
        &McpStore::default(),
        server,
        "test".into(),
        Outbound::default(),
        timeout,
    )
    .await;
    let error = error.err().unwrap().to_string();
    assert!(error.contains("MCP server `state` (store.mcp.server)"), "{error}");
    let store = HttpStore {
        base_url: url,
        ..HttpStore::default()
    };
    let kv = HttpKv::new(&store, &Outbound::default(), timeout).unwrap();
    assert!(
        matches!(kv.put("k", 1, "{}").await, Err(KvError::Unsent(_))),
        "it was certainly not carried out"
    );
    let error = open(kv).await.err().unwrap().to_string();
    assert!(
        error.contains(&format!("HTTP store at 127.0.0.1:{port} (store.http.base_url)")),
        "{error}"
    );
}

/// A token for tests is a word like others, and what is kept is full of words.
#[tokio::test]
async fn what_is_kept_comes_back_whole_also_where_it_has_a_secret_in_it() {
    let auth = json!({ "static": { "bearer": "changeme1" } });
    let said = Task {
        artifacts: vec![json!("the token is changeme1")],
        ..task("t", TaskState::Completed, 1)
    };
    let held = Held::default();
    let server = Server::start(&held).await;
    let over_http = HttpStore {
        auth: Some(serde_json::from_value(auth.clone()).unwrap()),
        ..HttpStore::default()
    };
    let over_mcp = json!({ "name": "state", "endpoint": server.endpoint(), "auth": auth });
    let profile = McpStore::default();
    for _ in 0..2 {
        let store = open(server.http(over_http.clone())).await.unwrap();
        store.write(vec![Write::Task(said.clone())]).await.unwrap();
        drop(store);
        let store = open(server.http(over_http.clone())).await.unwrap();
        assert_eq!(store.task("t").await.unwrap(), Some(said.clone()));
        drop(store);
        let kv = McpKv::connect(
            &profile,
            serde_json::from_value(over_mcp.clone()).unwrap(),
            "test".into(),
            Outbound::default(),
            Duration::from_secs(20),
        );
        let store = open(kv.await.unwrap()).await.unwrap();
        assert_eq!(store.task("t").await.unwrap(), Some(said.clone()));
    }
    // What it says of a failure is for people.
    server
        .kv
        .answers
        .lock()
        .unwrap()
        .push(KvError::Refused("no changeme1".into()));
    let kv = McpKv::connect(
        &profile,
        serde_json::from_value(over_mcp).unwrap(),
        "test".into(),
        Outbound::default(),
        Duration::from_secs(20),
    );
    let error = kv.await.unwrap().put("k", 1, "{}").await.unwrap_err();
    assert_eq!(error.to_string(), "state.put: no [redacted]");
}

/// The same server, then a connection that it forgot.
#[tokio::test]
async fn a_connection_that_was_lost_is_dialled_again() {
    let held = Held::default();
    let first = Server::start(&held).await;
    let store = open(first.mcp(McpStore::default()).await.unwrap()).await.unwrap();
    store.write(write("t")).await.unwrap();
    first.forget();
    for id in ["u", "v"] {
        // The first may fail: the server did not know the session. It is then not stored.
        let _ = store.write(write(id)).await;
    }
    store.write(write("w")).await.unwrap();
    assert!(store.task("w").await.unwrap().is_some());
}

#[tokio::test]
async fn what_cannot_be_dialled_is_said_at_once() {
    for (base_url, part) in [
        ("http://example.com/", "https"),
        ("no url", "store.http.base_url: the URL"),
    ] {
        let store = HttpStore {
            base_url: base_url.into(),
            ..HttpStore::default()
        };
        let error = HttpKv::new(&store, &Outbound::default(), Duration::from_secs(1))
            .err()
            .unwrap();
        assert!(error.to_string().contains(part), "{error}");
    }
    let store = HttpStore {
        base_url: "https://example.com/".into(),
        put: Some(HttpOp {
            method: Some("P T".into()),
            ..HttpOp::default()
        }),
        ..HttpStore::default()
    };
    let error = HttpKv::new(&store, &Outbound::default(), Duration::from_secs(1))
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "store.http.put: P T is no HTTP method");
}
