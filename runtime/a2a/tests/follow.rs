//! Our client follows a task at a peer whose streams break: nothing is lost, nothing is told twice. And what it does with
//! the peer's card.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use agentd_a2a::client::{Client, ClientError};
use agentd_a2a::wire::{Part, StreamResponse};
use agentd_net::{Declared, Destination, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the peer answers to the next call of a method.
enum Reply {
    /// These events, and then the stream is cut off.
    Cut(Vec<Value>),
    /// These, and its end.
    Whole(Vec<Value>),
    /// One result.
    Result(Value),
    /// An error with this code.
    Error(i32),
    /// A status of HTTP.
    Status(u16),
}

/// A peer that does what is written for it, and notes what it was asked.
struct Peer {
    client: Client,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Peer {
    async fn start(streaming: bool, cache: &'static str, replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let card = json!({
            "name": "peer", "version": "1", "capabilities": { "streaming": streaming },
            "supportedInterfaces": [{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        });
        let asked: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let (noted, replies) = (asked.clone(), Arc::new(Mutex::new(VecDeque::from(replies))));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (head, body, stream) = request(stream).await;
                let is_card = head.starts_with("GET");
                noted.lock().unwrap().push((head.clone(), body.clone()));
                if is_card {
                    let known = head.contains("if-none-match: \"v1\"");
                    respond_card(stream, known, cache, &card).await;
                } else {
                    let reply = replies.lock().unwrap().pop_front().unwrap();
                    let id = serde_json::from_str::<Value>(&body).unwrap()["id"].clone();
                    respond(stream, reply, &id).await;
                }
            }
        });
        let base = Destination::declared(&url, Declared::Mcp).unwrap();
        Self {
            client: Client::new(base, Options::default(), agentd_base::id::uuids()),
            asked,
        }
    }

    /// The methods that it was called with.
    fn methods(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let bodies = asked
            .iter()
            .map(|(head, body)| match serde_json::from_str::<Value>(body) {
                Ok(call) => call["method"].as_str().unwrap().to_owned(),
                Err(_) => head
                    .split_once("if-none-match")
                    .map_or("card", |_| "card again")
                    .to_owned(),
            });
        bodies.collect()
    }

    /// What is told of the task, in short.
    async fn told(&self) -> (Vec<String>, Option<ClientError>) {
        let mut follow = self.client.follow("t");
        let mut told = Vec::new();
        while let Some(event) = follow.next().await {
            match event {
                Ok(event) => told.push(short(&event)),
                Err(error) => return (told, Some(error)),
            }
        }
        (told, None)
    }
}

async fn request(stream: TcpStream) -> (String, String, TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line.replacen("get", "GET", usize::from(head.is_empty())));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap(), reader.into_inner())
}

async fn respond_card(mut stream: TcpStream, known: bool, cache: &str, card: &Value) {
    let body = card.to_string();
    let head = format!("ETag: \"v1\"\r\nCache-Control: {cache}\r\nConnection: close\r\n");
    let answer = if known {
        format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n")
    } else {
        format!(
            "HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    stream.write_all(answer.as_bytes()).await.unwrap();
}

async fn respond(mut stream: TcpStream, reply: Reply, id: &Value) {
    let (events, is_cut) = match reply {
        Reply::Cut(events) => (events, true),
        Reply::Whole(events) => (events, false),
        Reply::Result(result) => {
            return plain(
                stream,
                200,
                json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            )
            .await;
        }
        Reply::Error(code) => {
            let error = json!({ "code": code, "message": "no" });
            return plain(stream, 200, json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
        }
        Reply::Status(status) => return plain(stream, status, json!({})).await,
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for event in events {
        let event = format!(
            "data: {}\n\n",
            json!({ "jsonrpc": "2.0", "id": id, "result": event })
        );
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    if !is_cut {
        stream.write_all(b"0\r\n\r\n").await.unwrap();
    }
}

async fn plain(mut stream: TcpStream, status: u16, body: Value) {
    let body = body.to_string();
    let head = "Content-Type: application/json\r\nConnection: close";
    let answer = format!(
        "HTTP/1.1 {status} X\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

fn task(state: &str, answer: Option<&str>) -> Value {
    let artifacts: Vec<Value> = answer
        .map(|text| json!({ "artifactId": "a", "parts": [{ "text": text }] }))
        .into_iter()
        .collect();
    json!({ "id": "t", "contextId": "c", "status": { "state": state }, "artifacts": artifacts })
}

fn snapshot(state: &str, answer: Option<&str>) -> Value {
    json!({ "task": task(state, answer) })
}

fn piece(text: &str, append: bool) -> Value {
    json!({ "artifactUpdate": {
        "taskId": "t", "contextId": "c", "append": append, "artifact": { "artifactId": "a", "parts": [{ "text": text }] },
    } })
}

fn status(state: &str) -> Value {
    json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": state } } })
}

fn short(event: &StreamResponse) -> String {
    let text = |parts: &[Part]| parts.iter().filter_map(Part::as_text).collect::<String>();
    match event {
        StreamResponse::Task(task) => format!("{:?}", task.status.state),
        StreamResponse::Message(message) => text(&message.parts),
        StreamResponse::StatusUpdate(update) => format!("{:?}", update.status.state),
        StreamResponse::ArtifactUpdate(update) => {
            let sign = if update.append == Some(true) { "+" } else { "=" };
            format!("{sign}{}", text(&update.artifact.parts))
        }
    }
}

const WORKING: &str = "TASK_STATE_WORKING";
const COMPLETED: &str = "TASK_STATE_COMPLETED";

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_again_and_nothing_is_lost_or_told_twice() {
    let peer = Peer::start(
        true,
        "max-age=60",
        vec![
            Reply::Cut(vec![
                snapshot(WORKING, None),
                piece("one ", false),
                piece("two ", true),
            ]),
            // The agent is replaced meanwhile.
            Reply::Status(503),
            // What was told, and more that was missed.
            Reply::Cut(vec![
                snapshot(WORKING, Some("one two three ")),
                piece("four ", true),
            ]),
            // An agent that does not show its pieces: what is missing is taken from its end.
            Reply::Whole(vec![snapshot(WORKING, None), status(COMPLETED)]),
            Reply::Result(task(COMPLETED, Some("one two three four five"))),
        ],
    )
    .await;
    let (told, error) = peer.told().await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        told,
        [
            "Working",
            "=one ",
            "+two ",
            "+three ",
            "+four ",
            "+five",
            "Completed"
        ]
    );
    assert_eq!(
        peer.methods(),
        [
            "card",
            "SubscribeToTask",
            "SubscribeToTask",
            "SubscribeToTask",
            "SubscribeToTask",
            "GetTask"
        ]
    );
}

#[tokio::test]
async fn a_task_that_ended_while_nobody_followed_is_told_by_its_state() {
    let peer = Peer::start(
        true,
        "max-age=60",
        vec![
            Reply::Cut(vec![snapshot(WORKING, None), piece("one ", false)]),
            Reply::Error(-32004),
            Reply::Result(task(COMPLETED, Some("one two"))),
        ],
    )
    .await;
    let (told, error) = peer.told().await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(told, ["Working", "=one ", "+two", "Completed"]);
}

#[tokio::test]
async fn without_streams_the_task_is_asked_for() {
    let peer = Peer::start(
        false,
        "no-store",
        vec![
            Reply::Result(task(WORKING, None)),
            Reply::Result(task(WORKING, Some("one "))),
            Reply::Result(task("TASK_STATE_INPUT_REQUIRED", Some("one two"))),
        ],
    )
    .await;
    let (told, error) = peer.told().await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(told, ["Working", "=one ", "+two", "InputRequired"]);
    // A card that is not to be kept is asked for by its ETag.
    assert_eq!(
        peer.methods(),
        [
            "card",
            "card again",
            "GetTask",
            "card again",
            "GetTask",
            "card again",
            "GetTask"
        ]
    );
}

#[tokio::test]
async fn what_is_no_break_ends_it() {
    for (reply, part) in [
        (Reply::Error(-32001), "-32001"),
        (Reply::Status(403), "403"),
        (
            Reply::Whole(vec![
                json!({ "task": { "id": "other", "contextId": "c", "status": { "state": WORKING } } }),
            ]),
            "another task",
        ),
        (Reply::Whole(vec![json!({ "nonsense": 1 })]), "not A2A"),
    ] {
        let peer = Peer::start(true, "max-age=60", vec![reply]).await;
        let (told, error) = peer.told().await;
        let said = error.unwrap().to_string();
        assert!(told.is_empty() && said.contains(part), "{said}");
    }
}

#[tokio::test]
async fn a_call_belongs_to_its_trace_and_a_card_that_led_nowhere_is_asked_for_again() {
    let peer = Peer::start(
        true,
        "max-age=60",
        vec![
            Reply::Result(task(WORKING, None)),
            Reply::Error(-32009),
            Reply::Result(task(WORKING, None)),
        ],
    )
    .await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let within = peer.client.within(Some(parent));
    within.task("t").await.unwrap();
    within.within(Some("no\nheader")).task("t").await.unwrap_err();
    peer.client.task("t").await.unwrap();
    assert_eq!(peer.methods(), ["card", "GetTask", "GetTask", "card", "GetTask"]);
    let asked = peer.asked.lock().unwrap();
    let traced: Vec<bool> = asked.iter().map(|(head, _)| head.contains(parent)).collect();
    assert_eq!(traced, [false, true, false, false, false]);
    assert!(asked.iter().all(|(head, _)| head.contains("a2a-version: 1.0")));
}
