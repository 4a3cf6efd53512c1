//! A listener with a scripted agent behind it, callers with every kind of certificate, and a bare HTTP client.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_a2a::wire::{Artifact, Message, Part, Role as Speaker, Task, TaskState, TaskStatus};
use agentd_a2a::{
    Authentication, Away, Caller, Card, CardConfig, GetTask, Listener, Principals, Role, SendMessage,
    Service, ServiceError, Transport, tls,
};
use agentd_base::drain::Drain;
use agentd_config::document::Principal;
use agentd_identity::{Authority, IdentitySource, SpiffeId, Svid, TrustDomain};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub const TD: &str = "example.internal";
pub const SERVER: &str = "spiffe://example.internal/ns/team/sa/helper-agent";
pub const ALICE: &str = "spiffe://example.internal/ns/team/sa/alice";
pub const BOB: &str = "spiffe://example.internal/ns/team/sa/bob";
pub const ADMIN: &str = "spiffe://example.internal/ns/team/sa/admin";
pub const MALLORY: &str = "spiffe://example.internal/ns/other/sa/mallory";

pub fn id(text: &str) -> SpiffeId {
    text.parse().unwrap()
}

pub fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// An agent that does what the text says: `echo X` answers X, `hold` waits for [`Agent::release`], `break` panics,
/// `away` is unavailable.
#[derive(Clone)]
pub struct Agent {
    pub tasks: Arc<Mutex<HashMap<String, (String, Task)>>>,
    pub gate: Arc<Semaphore>,
    pub arrived: Arc<Semaphore>,
    /// Counts what was written.
    written: watch::Sender<usize>,
}

impl Agent {
    pub fn release(&self) {
        self.gate.add_permits(1);
    }

    pub async fn wait_for_arrival(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    fn store(&self, owner: &str, task: &Task) {
        self.tasks
            .lock()
            .unwrap()
            .insert(task.id.clone(), (owner.to_owned(), task.clone()));
        self.written.send_modify(|count| *count += 1);
    }
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: agentd_a2a::wire::timestamp(now()),
    }
}

#[async_trait]
impl Service for Agent {
    async fn send_message(&self, caller: &Caller, request: SendMessage) -> Result<String, ServiceError> {
        let text = request.text();
        match text.as_str() {
            "break" => panic!("told to"),
            "away" => {
                return Err(ServiceError::Unavailable {
                    away: Away::Store,
                    detail: "/secret/path is full".into(),
                });
            }
            _ => {}
        }
        let number = self.tasks.lock().unwrap().len();
        let context_id = request
            .context_id
            .clone()
            .unwrap_or_else(|| format!("context-{number}"));
        let said = |id: &str, role, parts| Message {
            message_id: id.to_owned(),
            context_id: Some(context_id.clone()),
            ..Message::new(role, parts)
        };
        let mut task = Task {
            id: format!("task-{number}"),
            context_id: context_id.clone(),
            status: status(TaskState::Submitted),
            artifacts: None,
            history: Some(vec![
                said(&request.message_id, Speaker::User, request.parts.clone()),
                said("reply", Speaker::Agent, vec![Part::text("on it")]),
            ]),
            metadata: None,
        };
        let (agent, owner, id) = (self.clone(), caller.key().to_owned(), task.id.clone());
        agent.store(&owner, &task);
        agent.arrived.add_permits(1);
        if request.return_immediately {
            return Ok(id);
        }
        tokio::spawn(async move {
            if text == "hold" {
                agent.gate.acquire().await.unwrap().forget();
            }
            task.status = status(TaskState::Completed);
            task.artifacts = Some(vec![Artifact {
                artifact_id: "answer".into(),
                name: None,
                description: None,
                parts: vec![Part::text(text.strip_prefix("echo ").unwrap_or(&text))],
                metadata: None,
                extensions: None,
            }]);
            agent.store(&owner, &task);
            agent.arrived.add_permits(1);
        });
        Ok(id)
    }

    async fn ended(&self, id: &str) {
        let mut written = self.written.subscribe();
        let ended = |_: &usize| self.tasks.lock().unwrap()[id].1.status.state == TaskState::Completed;
        written.wait_for(ended).await.unwrap();
    }

    async fn get_task(&self, caller: &Caller, request: GetTask) -> Result<Task, ServiceError> {
        let tasks = self.tasks.lock().unwrap();
        match tasks.get(&request.id) {
            Some((owner, task)) if caller.may_see(owner) => Ok(task.clone()),
            _ => Err(ServiceError::TaskNotFound(request.id)),
        }
    }
}

pub fn principal(name: &str, spiffe_id: &str, role: Role) -> Principal {
    Principal {
        name: name.into(),
        spiffe_id: spiffe_id.into(),
        role,
    }
}

pub fn listed() -> Vec<Principal> {
    vec![
        principal("alice", ALICE, Role::User),
        principal("bob", BOB, Role::Agent),
        principal("admin", ADMIN, Role::Operator),
    ]
}

/// A running listener.
pub struct World {
    pub authority: Authority,
    pub source: IdentitySource,
    pub address: SocketAddr,
    pub agent: Arc<Agent>,
    pub principals: watch::Sender<Arc<Principals>>,
    pub drain: Drain,
}

pub fn agent() -> Arc<Agent> {
    Arc::new(Agent {
        tasks: Arc::default(),
        gate: Arc::new(Semaphore::new(0)),
        arrived: Arc::new(Semaphore::new(0)),
        written: watch::Sender::new(0),
    })
}

pub fn card(address: SocketAddr, scheme: &str) -> Arc<Card> {
    let url = format!("{scheme}://localhost:{}/agents/helper", address.port())
        .parse()
        .unwrap();
    Arc::new(
        Card::new(&CardConfig {
            name: "helper".into(),
            description: "Helps.".into(),
            version: "0.1.0".into(),
            url,
            mutual_tls: scheme == "https",
        })
        .unwrap(),
    )
}

pub fn source(authority: &Authority, own: &str, dns: &[&str]) -> IdentitySource {
    let source = IdentitySource::new(TD.parse().unwrap());
    source.set_bundle(authority.bundle().clone()).unwrap();
    source.set_svid(svid(authority, own, dns)).unwrap();
    source
}

pub fn svid(authority: &Authority, own: &str, dns: &[&str]) -> Svid {
    let dns: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
    authority
        .own_svid(&id(own), &dns, Duration::from_secs(3600), now())
        .unwrap()
}

pub fn authority(trust_domain: &str) -> Authority {
    Authority::generate(&trust_domain.parse::<TrustDomain>().unwrap(), now()).unwrap()
}

impl World {
    pub async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let authority = authority(TD);
        let source = source(&authority, SERVER, &["localhost"]);
        let principals = watch::Sender::new(Arc::new(Principals::new(&listed())));
        let listener = Listener::bind(
            "127.0.0.1:0".parse().unwrap(),
            Transport::Tls(Box::new(tls::svid(&source))),
            Authentication::Principals(principals.subscribe()),
        )
        .await
        .unwrap();
        let (agent, drain, address) = (agent(), Drain::new(), listener.local_addr());
        tokio::spawn(listener.serve(agent.clone(), card(address, "https"), drain.watch()));
        Self {
            authority,
            source,
            address,
            agent,
            principals,
            drain,
        }
    }

    /// A config that shows this certificate.
    pub fn showing(&self, shown: Option<&Svid>) -> ClientConfig {
        let mut config = agentd_identity::tls::client_config_without_svid(&self.source, id(SERVER));
        if let Some(svid) = shown {
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            let pair =
                CertifiedKey::from_der(svid.chain().to_vec(), svid.key().clone_key(), &provider).unwrap();
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(pair));
        }
        config
    }

    /// A connection of this caller.
    pub async fn as_caller(&self, own: &str) -> Peer {
        let svid = svid(&self.authority, own, &[]);
        Peer::connect(self.address, self.showing(Some(&svid)))
            .await
            .unwrap()
    }

    /// A connection without a certificate.
    pub async fn as_nobody(&self) -> Peer {
        Peer::connect(self.address, self.showing(None)).await.unwrap()
    }
}

pub async fn tls_stream(address: SocketAddr, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config))
        .connect("localhost".try_into().unwrap(), stream)
        .await
}

/// One HTTP connection to the listener.
pub enum Peer {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Peer {
    pub async fn connect(address: SocketAddr, config: ClientConfig) -> Result<Self, String> {
        let stream = tls_stream(address, config)
            .await
            .map_err(|error| error.to_string())?;
        Self::over(TokioIo::new(stream)).await
    }

    pub async fn plain(address: SocketAddr) -> Self {
        Self::over(TokioIo::new(TcpStream::connect(address).await.unwrap()))
            .await
            .unwrap()
    }

    pub async fn connect_http2(address: SocketAddr, mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TokioIo::new(tls_stream(address, config).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        Self::Two(sender)
    }

    async fn over<I>(io: I) -> Result<Self, String>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(io).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Self::One(sender))
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let response = match self {
            Self::One(sender) => {
                sender.ready().await.map_err(|error| error.to_string())?;
                sender.send_request(request).await
            }
            Self::Two(sender) => sender.send_request(request).await,
        };
        Answer::read(response.map_err(|error| format!("{error:?}"))?).await
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        let host = self.authority();
        let request = Request::get(format!("{host}{path}")).header("host", "localhost");
        self.send(request.body(Full::default()).unwrap()).await.unwrap()
    }

    /// A JSON-RPC call of version 1.0.
    pub async fn call(&mut self, method: &str, params: Value) -> Answer {
        self.try_call("/", method, params).await.unwrap()
    }

    pub async fn try_call(&mut self, path: &str, method: &str, params: Value) -> Result<Answer, String> {
        let path = format!("{}{path}", self.authority());
        self.send(rpc(&path, method, params)).await
    }

    fn authority(&self) -> &'static str {
        match self {
            Self::One(_) => "",
            Self::Two(_) => "https://localhost",
        }
    }
}

pub fn rpc(path: &str, method: &str, params: Value) -> Request<Full<Bytes>> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    Request::post(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("a2a-version", "1.0")
        .body(Full::from(body.to_string()))
        .unwrap()
}

pub fn message(text: &str) -> Value {
    json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Answer {
    async fn read<B>(response: Response<B>) -> Result<Self, String>
    where
        B: hyper::body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let (head, body) = response.into_parts();
        let body = body
            .collect()
            .await
            .map_err(|error| format!("{error:?}"))?
            .to_bytes();
        Ok(Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn error_code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap()
    }

    pub fn reason(&self) -> String {
        self.json()["error"]["details"][0]["reason"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}
