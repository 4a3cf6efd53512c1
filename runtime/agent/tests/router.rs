//! From a model's call to a server and back: names, metadata, and every fault as words that the model can use.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_agent::{Observation, Router, RunContext, Servers, ToolRunner as _};
use agentd_config::document::McpServer;
use agentd_llm::{Arguments, ToolCall};
use agentd_mcp::{CallError, CallMeta, Catalogue, Tool, ToolOutcome};
use async_trait::async_trait;
use serde_json::{Map, Value, json};

type Seen = (String, String, Map<String, Value>, CallMeta);

#[derive(Default)]
struct Scripted {
    seen: Mutex<Vec<Seen>>,
}

#[async_trait]
impl Servers for Scripted {
    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<ToolOutcome, CallError>> {
        self.seen
            .lock()
            .unwrap()
            .push((server.into(), tool.into(), arguments, meta.clone()));
        let outcome = |text: &str, is_error, structured| {
            Some(Ok(ToolOutcome {
                text: text.into(),
                is_error,
                structured,
            }))
        };
        match tool {
            "text" => outcome("22 °C", false, None),
            "structured" => outcome("22 °C", false, Some(json!({"temperature": 22}))),
            "failing" => outcome("file not found", true, None),
            "long" => outcome(&"ä".repeat(100_001), false, None),
            "timeout" => Some(Err(CallError::Timeout(Duration::from_secs(60)))),
            "protocol" => Some(Err(CallError::Protocol {
                code: -32602,
                message: "bad params".into(),
            })),
            _ => None,
        }
    }
}

const TOOLS: [&str; 7] = [
    "text",
    "structured",
    "failing",
    "long",
    "timeout",
    "protocol",
    "gone",
];

fn router() -> (Router, Arc<Scripted>) {
    let server = McpServer {
        name: "wx".into(),
        endpoint: "https://wx.example/mcp".into(),
        ns: Some("weather".into()),
        ..McpServer::default()
    };
    let tools: Vec<Tool> = TOOLS
        .map(|name| Tool {
            name: name.into(),
            description: Some(format!("{name}\u{7}\n{}", "x".repeat(2000))),
            input_schema: serde_json::from_value(json!({"type": "object"})).unwrap(),
            ..Tool::default()
        })
        .into();
    let catalogue = Catalogue::build([(&server, tools.as_slice())]);
    let servers = Arc::new(Scripted::default());
    let context = RunContext {
        run_id: "run-1".into(),
        instance: "triage".into(),
        traceparent: Some("00-x".into()),
    };
    (
        Router::new(Arc::new(catalogue), servers.clone(), context),
        servers,
    )
}

fn call(name: &str, arguments: Value) -> ToolCall {
    let arguments = Arguments::Object(serde_json::from_value(arguments).unwrap());
    ToolCall {
        id: "a".into(),
        name: name.into(),
        arguments,
    }
}

async fn observe(name: &str) -> Observation {
    router().0.call(&call(name, json!({})), 0).await
}

#[tokio::test]
async fn a_call_reaches_its_server_with_its_metadata() {
    let (router, servers) = router();
    let observation = router
        .call(&call("weather_text", json!({"city": "NYC"})), 3)
        .await;
    assert_eq!(
        observation,
        Observation {
            text: "22 °C".into(),
            is_error: false
        }
    );
    let (server, tool, arguments, meta) = servers.seen.lock().unwrap().pop().unwrap();
    assert_eq!((server.as_str(), tool.as_str()), ("wx", "text"));
    assert_eq!(Value::Object(arguments), json!({"city": "NYC"}));
    assert_eq!(
        (meta.run_id.as_str(), meta.instance.as_str()),
        ("run-1", "triage")
    );
    assert_eq!(meta.traceparent.as_deref(), Some("00-x"));
}

#[tokio::test]
async fn the_idempotency_key_is_of_the_call_and_not_of_the_attempt() {
    let key = async |arguments: Value, ordinal: u32| {
        let (router, servers) = router();
        router.call(&call("weather_text", arguments), ordinal).await;
        let seen = servers.seen.lock().unwrap().pop().unwrap();
        seen.3.idempotency_key
    };
    let first = key(json!({"a": 1}), 0).await;
    assert_eq!(first, key(json!({"a": 1}), 0).await, "again");
    assert_ne!(
        first,
        key(json!({"a": 1}), 1).await,
        "the same call in another round"
    );
    assert_ne!(first, key(json!({"a": 2}), 0).await, "another call");
}

#[tokio::test]
async fn results_and_faults_are_told() {
    for (name, text) in [
        ("weather_structured", r#"{"temperature":22}"#),
        ("weather_failing", "ERROR: file not found"),
        (
            "weather_timeout",
            "ERROR: weather.timeout gave no result: the call took longer than 60s and was cancelled; it may have been carried out",
        ),
        (
            "weather_protocol",
            "ERROR: weather.protocol was not carried out: the server answered with error -32602: bad params",
        ),
        ("weather_gone", "ERROR: server wx is not connected now; try later"),
        (
            "rm",
            "ERROR: there is no tool rm; use one of those you were given",
        ),
        ("weather.text", "22 °C"),
    ] {
        let observation = observe(name).await;
        assert_eq!(
            (observation.text.as_str(), observation.is_error),
            (text, text.starts_with("ERROR")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_reach_no_server() {
    let (router, servers) = router();
    let arguments = Arguments::Invalid("{\"a\": \u{7}".into());
    let wish = ToolCall {
        id: "a".into(),
        name: "weather_text".into(),
        arguments,
    };
    assert_eq!(
        router.call(&wish, 0).await,
        Observation::error("the arguments are not a JSON object: {\"a\":  ")
    );
    assert!(servers.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_long_result_is_cut_and_says_so() {
    let text = observe("weather_long").await.text;
    assert!(text.ends_with("ä\n[cut here: the result has 100001 characters]"));
    assert_eq!(text.chars().filter(|c| *c == 'ä').count(), 100_000);
}

#[test]
fn tools_are_offered_by_their_provider_names_with_bounded_descriptions() {
    let specs = router().0.specs();
    assert_eq!(specs.len(), TOOLS.len());
    let text = specs.iter().find(|spec| spec.name == "weather_text").unwrap();
    assert!(text.description.starts_with("text\nxxx"));
    assert_eq!(text.description.chars().count(), 1024);
}
