//! A tap on the wire: HTTP/1.1 on loopback that writes down each request and then does with it what a rule says: hand it
//! on to a real server, answer it, or misbehave byte by byte. No HTTP library on this side: it could not be made to send
//! what it holds for wrong.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub use super::relay::by_hand;
use super::relay::{pass, read};
use super::soon;

/// One request as it came.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The number of its connection, from 1.
    pub connection: usize,
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null when there is none.
    pub body: Value,
    pub(crate) text: Vec<u8>,
}

impl Asked {
    /// The JSON-RPC method, `answer` for an answer of ours, else the HTTP method.
    #[must_use]
    pub fn what(&self) -> String {
        match &self.body["method"] {
            Value::String(method) => method.clone(),
            _ if self.body.is_object() => "answer".into(),
            _ => self.method.clone(),
        }
    }

    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// A JSON-RPC result for it.
    #[must_use]
    pub fn result(&self, result: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result })
    }
}

/// What is done with a request.
pub enum Act {
    /// The real server answers; so does its way of closing.
    Pass,
    /// A whole answer; the connection stays.
    Answer {
        /// HTTP status.
        status: u16,
        /// Beside the length.
        headers: Vec<(&'static str, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// These bytes, from the status line on; then the connection is closed.
    Bytes(BoxStream<'static, Vec<u8>>),
}

impl Act {
    /// 200 with a JSON body.
    #[must_use]
    pub fn json(body: &Value) -> Self {
        Self::text(200, "application/json", body.to_string())
    }

    /// A body of any kind.
    #[must_use]
    pub fn text(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Answer {
            status,
            headers: vec![("content-type", kind.into())],
            body: body.into(),
        }
    }

    /// Without a body.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self::Answer {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name, value.into()));
        }
        self
    }

    /// Reads and says nothing, for ever.
    #[must_use]
    pub fn hole() -> Self {
        Self::Bytes(stream::pending().boxed())
    }

    /// Closed without a word.
    #[must_use]
    pub fn cut() -> Self {
        Self::Bytes(stream::empty().boxed())
    }

    /// An event stream of these events, which ends.
    #[must_use]
    pub fn events(events: &[String]) -> Self {
        let events: Vec<_> = events.iter().map(|event| event.clone().into_bytes()).collect();
        Self::Bytes(stream::iter(std::iter::once(event_head("")).chain(events)).boxed())
    }

    /// An event stream of these events, then held open.
    #[must_use]
    pub fn held(events: &[String]) -> Self {
        let Self::Bytes(events) = Self::events(events) else {
            unreachable!("an event stream is bytes")
        };
        Self::Bytes(events.chain(stream::pending()).boxed())
    }

    /// `head` and then `chunk` again and again, at most `times`; `None`: without end.
    #[must_use]
    pub fn repeated(head: Vec<u8>, chunk: Vec<u8>, times: Option<usize>) -> Self {
        let chunks = stream::repeat(chunk).take(times.unwrap_or(usize::MAX));
        Self::Bytes(stream::iter([head]).chain(chunks).boxed())
    }

    /// One byte after the other, each after `pause`.
    #[must_use]
    pub fn dripped(bytes: Vec<u8>, pause: std::time::Duration) -> Self {
        let drops = stream::iter(bytes).then(move |byte| async move {
            tokio::time::sleep(pause).await;
            vec![byte]
        });
        Self::Bytes(drops.boxed())
    }
}

/// The head of an event stream; `more` are further header lines, each with its end.
#[must_use]
pub fn event_head(more: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n{more}\r\n")
        .into_bytes()
}

/// One event.
#[must_use]
pub fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

type Rule = Arc<dyn Fn(&Asked) -> Act + Send + Sync>;

struct Shared {
    rule: Mutex<Rule>,
    upstream: AtomicU16,
    log: watch::Sender<Vec<Asked>>,
    open: watch::Sender<usize>,
    connections: AtomicUsize,
    cut: watch::Sender<()>,
}

/// A running tap; it ends with the test's runtime.
pub struct Tap {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Tap {
    /// A server of its own, by this rule.
    pub async fn server(rule: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Self {
        Self::start(0, Arc::new(rule)).await
    }

    /// In front of a real server on 127.0.0.1.
    pub async fn in_front_of(port: u16) -> Self {
        Self::start(port, Arc::new(|_| Act::Pass)).await
    }

    async fn start(upstream: u16, rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            rule: Mutex::new(rule),
            upstream: AtomicU16::new(upstream),
            log: watch::Sender::default(),
            open: watch::Sender::default(),
            connections: AtomicUsize::default(),
            cut: watch::Sender::default(),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let shared = serving.clone();
                let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let mut cut = shared.cut.subscribe();
                shared.open.send_modify(|open| *open += 1);
                tokio::spawn(async move {
                    // How a connection ends is the test's matter.
                    let _ = tokio::select! {
                        ended = serve(&shared, number, socket) => ended,
                        _ = cut.changed() => Ok(()),
                    };
                    shared.open.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { address, shared }
    }

    /// From now on this rule holds.
    pub fn rule(&self, rule: impl Fn(&Asked) -> Act + Send + Sync + 'static) {
        *self.shared.rule.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rule);
    }

    /// From now on requests go to this real server.
    pub fn forward_to(&self, port: u16) {
        self.shared.upstream.store(port, Ordering::SeqCst);
    }

    /// Ends all connections that are open now.
    pub fn cut(&self) {
        self.shared.cut.send_replace(());
    }

    /// All requests.
    #[must_use]
    pub fn log(&self) -> Vec<Asked> {
        self.shared.log.borrow().clone()
    }

    /// How many requests were `what`.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.shared
            .log
            .borrow()
            .iter()
            .filter(|asked| asked.what() == what)
            .count()
    }

    /// The `times`th request that is `what`, as soon as it is there.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn seen(&self, what: &str, times: usize) -> Asked {
        let mut log = self.shared.log.subscribe();
        let enough = |log: &Vec<Asked>| log.iter().filter(|asked| asked.what() == what).count() >= times;
        let waited = soon(&format!("{times} x {what}"), log.wait_for(enough)).await;
        let log = waited.expect("the tap lives");
        let mut matching = log.iter().filter(|asked| asked.what() == what);
        matching.nth(times - 1).expect("waited for").clone()
    }

    /// Resolves when exactly so many connections are open.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn connections(&self, open: usize) {
        let mut watched = self.shared.open.subscribe();
        let waited = soon("the connections", watched.wait_for(|now| *now == open)).await;
        waited.expect("the tap lives");
    }
}

async fn serve(shared: &Shared, number: usize, mut socket: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(asked) = read(&mut socket, &mut buffer, number).await? {
        let rule = shared.rule.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let act = rule(&asked);
        let text = asked.text.clone();
        shared.log.send_modify(|log| log.push(asked));
        match act {
            Act::Answer {
                status,
                headers,
                body,
            } => {
                let lines: String = headers
                    .iter()
                    .map(|(name, value)| format!("{name}: {value}\r\n"))
                    .collect();
                let head = format!(
                    "HTTP/1.1 {status} Word\r\n{lines}content-length: {}\r\n\r\n",
                    body.len()
                );
                socket.write_all(&[head.into_bytes(), body].concat()).await?;
            }
            Act::Pass => {
                let port = shared.upstream.load(Ordering::SeqCst);
                return pass(port, &text, &mut socket).await;
            }
            Act::Bytes(mut bytes) => {
                let (mut reader, mut writer) = socket.split();
                let written = async {
                    while let Some(bytes) = bytes.next().await {
                        writer.write_all(&bytes).await?;
                    }
                    writer.shutdown().await
                };
                let mut byte = [0; 1];
                return tokio::select! {
                    written = written => written,
                    // The client hung up.
                    _ = reader.read(&mut byte) => Ok(()),
                };
            }
        }
    }
    Ok(())
}
