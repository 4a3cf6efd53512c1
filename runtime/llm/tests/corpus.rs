//! Conversations with providers, as bytes: `tests/corpus/<dialect>/<case>` has what was asked (`.ask.json`), the request
//! that must go out (`.request`: its first line and its body), the body that comes back (`.response`), and what is read
//! from it (`.reply.json`). A case is its four files: one that lacks a file fails. `BLESS=1` writes the two that are
//! expected anew, for a person to read.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_llm::{
    CallContext, Dialect, Endpoint as _, Message, ModelClient, ModelReply, ModelRequest, OutputSchema, Setup,
    Sink, Stop, StructuredOutput, ToolSpec,
};
use agentd_net::{Declared, Destination, HttpClient, Options};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// Bytes of the response in one chunk: fewer than any event has.
const CHUNK: usize = 11;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    about: String,
    model: String,
    structured_output: String,
    stream: bool,
    status: u16,
    content_type: String,
    request: Request,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    system: String,
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<ToolSpec>,
    #[serde(default)]
    output_schema: Option<Shape>,
    #[serde(default)]
    max_output_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Shape {
    name: String,
    schema: Map<String, Value>,
}

/// What the server answers, and what it was asked.
struct Peer {
    status: u16,
    content_type: String,
    body: Bytes,
    seen: Mutex<Vec<(String, HeaderMap, Bytes)>>,
}

async fn answer(
    State(peer): State<Arc<Peer>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    peer.seen
        .lock()
        .unwrap()
        .push((format!("{method} {uri}"), headers, body));
    let chunks: Vec<_> = peer.body.chunks(CHUNK).map(Bytes::copy_from_slice).collect();
    let body = Body::from_stream(futures::stream::iter(chunks).map(Ok::<_, std::io::Error>));
    let status = StatusCode::from_u16(peer.status).unwrap();
    (status, [("content-type", peer.content_type.clone())], body).into_response()
}

/// What was told in the end, and how often it began again.
#[derive(Default)]
struct Ear(Mutex<(String, usize)>);

impl Sink for Ear {
    fn text(&self, delta: &str) {
        self.0.lock().unwrap().0.push_str(delta);
    }

    fn restart(&self) {
        let mut heard = self.0.lock().unwrap();
        heard.0.clear();
        heard.1 += 1;
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The cases: their files by extension.
fn cases() -> BTreeMap<(String, String), Vec<String>> {
    let mut cases: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for dialect in std::fs::read_dir(folder()).unwrap() {
        let dialect = dialect.unwrap();
        for file in std::fs::read_dir(dialect.path()).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let (case, kind) = name.split_once('.').unwrap();
            let key = (dialect.file_name().into_string().unwrap(), case.to_owned());
            cases.entry(key).or_default().push(kind.to_owned());
        }
    }
    cases
}

fn reply(outcome: Result<ModelReply, agentd_llm::ModelError>, ear: Option<&Ear>) -> Value {
    let mut value = match outcome {
        Ok(reply) => {
            let stop = match reply.stop {
                Stop::End => "end",
                Stop::Length => "length",
                Stop::Refused => "refused",
                Stop::Other => "other",
            };
            if let Some(ear) = ear {
                assert_eq!(
                    ear.0.lock().unwrap().0,
                    reply.text(),
                    "the sink was told the reply"
                );
            }
            json!({"blocks": reply.blocks, "stop": stop, "usage": reply.usage})
        }
        Err(error) => {
            let debug = format!("{error:?}");
            let kind = debug.split([' ', '{']).next().unwrap();
            json!({"error": error.to_string().replace(&format!("model endpoint {} ", "corpus"), ""), "kind": kind})
        }
    };
    if let Some(ear) = ear {
        let heard = ear.0.lock().unwrap();
        value["told"] = json!({"text": heard.0, "restarts": heard.1});
    }
    value
}

/// The file as expected, or (`BLESS`) as it is now.
fn same(path: &Path, actual: &[u8]) -> Result<(), String> {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, actual).unwrap();
        return Ok(());
    }
    let expected = std::fs::read(path).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if expected == actual {
        Ok(())
    } else {
        Err(format!(
            "{}\n  expected {}\n  got      {}",
            path.display(),
            text(&expected),
            text(actual)
        ))
    }
}

async fn run(dialect: &str, case: &str) -> Result<(), String> {
    let file = |kind: &str| folder().join(dialect).join(format!("{case}.{kind}"));
    let ask: Ask = serde_json::from_slice(&std::fs::read(file("ask.json")).unwrap())
        .map_err(|error| format!("{case}: {error}"))?;
    assert!(!ask.about.is_empty(), "{case} does not say what it is about");
    let peer = Arc::new(Peer {
        status: ask.status,
        content_type: ask.content_type,
        body: std::fs::read(file("response")).unwrap().into(),
        seen: Mutex::default(),
    });
    let router = axum::Router::new().fallback(answer).with_state(peer.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let declared = Declared::Model {
        allow_plaintext: false,
    };
    let client = HttpClient::new(Destination::declared(&url, declared).unwrap(), Options::default()).unwrap();
    let setup = Setup {
        name: "corpus".into(),
        model: ask.model,
        dialect: serde_json::from_value::<Dialect>(dialect.into()).unwrap(),
        structured_output: match ask.structured_output.as_str() {
            "auto" => StructuredOutput::Auto,
            "json_schema" => StructuredOutput::JsonSchema,
            "tool" => StructuredOutput::Tool,
            "prompt" => StructuredOutput::Prompt,
            other => panic!("{other}"),
        },
        silence: None,
        declares_version: false,
    };
    let request = ModelRequest {
        system: ask.request.system,
        messages: ask.request.messages.into(),
        tools: ask.request.tools.into(),
        output_schema: ask
            .request
            .output_schema
            .map(|Shape { name, schema }| OutputSchema { name, schema }),
        max_output_tokens: ask.request.max_output_tokens,
        model: None,
    };
    let ear = ask.stream.then(|| Arc::new(Ear::default()));
    let context = CallContext {
        run_id: "r".into(),
        traceparent: None,
        deadline: Instant::now() + Duration::from_secs(60),
        sink: ear.clone().map(|ear| ear as Arc<dyn Sink>),
    };
    let outcome = ModelClient::new(setup, client).attempt(&request, &context).await;
    server.abort();
    let seen = peer.seen.lock().unwrap();
    let [(line, headers, body)] = seen.as_slice() else {
        return Err(format!("{case}: {} requests", seen.len()));
    };
    let version = headers
        .get("anthropic-version")
        .map(|value| value.to_str().unwrap());
    assert_eq!(
        version,
        (dialect == "anthropic").then_some("2023-06-01"),
        "{case}"
    );
    assert_eq!(headers["content-type"], "application/json", "{case}");
    let wire = [format!("{line}\n\n").as_bytes(), body, b"\n"].concat();
    same(&file("request"), &wire)?;
    let reply = serde_json::to_string_pretty(&reply(outcome, ear.as_deref())).unwrap();
    same(&file("reply.json"), format!("{reply}\n").as_bytes())
}

#[tokio::test]
async fn field_l03_l06_every_conversation_of_the_corpus() {
    let mut faults = Vec::new();
    let cases = cases();
    for ((dialect, case), mut kinds) in cases.clone() {
        kinds.sort();
        let complete = ["ask.json", "reply.json", "request", "response"];
        if kinds != complete && std::env::var_os("BLESS").is_none() {
            faults.push(format!("{dialect}/{case} has {kinds:?}, and needs {complete:?}"));
            continue;
        }
        if let Err(fault) = run(&dialect, &case).await {
            faults.push(fault);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    for dialect in ["openai", "openai-responses", "anthropic", "bedrock"] {
        let count = cases.keys().filter(|(known, _)| known == dialect).count();
        assert!(count > 10, "{dialect} has {count} cases");
    }
}
