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

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_a2a::push::{PushConfig, PushConfigs};
use agentd_a2a::wire::{
    Artifact, Message, Part, Role as Speaker, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState,
    TaskStatus, TaskStatusUpdateEvent,
};
use agentd_a2a::{
    Authentication, Away, Caller, Card, CardConfig, Command, GetTask, ListTasks, Listed, Listener,
    Principals, Role, SendMessage, Sent, Service, ServiceError, Subscription, Transport, tls,
};
use agentd_base::drain::Drain;
use agentd_config::document::Principal;
use agentd_identity::{Authority, IdentitySource, SpiffeId, Svid, TrustDomain};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, broadcast, watch};
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

/// An agent that does what the text says: `echo X` answers X, `hold` waits for [`Agent::release`], `watched X` answers X
/// when somebody follows it, in pieces, `say` is answered with a message, `break` panics, `away` is unavailable.
#[derive(Clone)]
pub struct Agent {
    pub tasks: Arc<Mutex<HashMap<String, (String, Task)>>>,
    pub gate: Arc<Semaphore>,
    pub arrived: Arc<Semaphore>,
    /// Counts what was written.
    written: watch::Sender<usize>,
    feeds: Arc<Mutex<HashMap<String, broadcast::Sender<Arc<StreamResponse>>>>>,
    /// Counts those who follow.
    pub followers: watch::Sender<usize>,
    /// Whether it sends push notifications; it keeps the configurations of its tasks and sends none.
    pub pushes: Arc<AtomicBool>,
    configs: Arc<Mutex<BTreeMap<(String, String), PushConfig>>>,
}

impl Agent {
    pub fn release(&self) {
        self.gate.add_permits(1);
    }

    pub async fn wait_for_arrival(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    fn tell(&self, id: &str, event: StreamResponse) {
        let _ = self.feeds.lock().unwrap()[id].send(Arc::new(event));
    }

    /// Tells a piece of the answer.
    pub fn piece(&self, id: &str, text: &str, append: bool) {
        self.tell(
            id,
            StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: id.to_owned(),
                context_id: "c".into(),
                artifact: artifact(text),
                append: Some(append),
                last_chunk: None,
                metadata: None,
            }),
        );
    }

    fn end(&self, owner: &str, mut task: Task, state: TaskState) {
        task.status = status(state);
        self.store(owner, &task);
        let update = TaskStatusUpdateEvent {
            task_id: task.id.clone(),
            context_id: task.context_id.clone(),
            status: task.status.clone(),
            metadata: None,
        };
        self.tell(&task.id, StreamResponse::StatusUpdate(update));
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

fn artifact(text: &str) -> Artifact {
    Artifact {
        artifact_id: "answer".into(),
        name: None,
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    }
}

#[async_trait]
impl Service for Agent {
    async fn send_message(&self, caller: &Caller, request: SendMessage) -> Result<Sent, ServiceError> {
        let text = request.text();
        match text.as_str() {
            "break" => panic!("told to"),
            "say" => {
                let said = Message::new(Speaker::Agent, vec![Part::text("said")]);
                return Ok(Sent::Message(Box::new(said)));
            }
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
        agent
            .feeds
            .lock()
            .unwrap()
            .insert(id.clone(), broadcast::Sender::new(4));
        agent.store(&owner, &task);
        agent.arrived.add_permits(1);
        if request.return_immediately {
            return Ok(Sent::Task(id));
        }
        tokio::spawn(async move {
            if text == "hold" {
                agent.gate.acquire().await.unwrap().forget();
            }
            let said = text.strip_prefix("echo ").unwrap_or(&text);
            if let Some(said) = text.strip_prefix("watched ") {
                let mut followers = agent.followers.subscribe();
                followers.wait_for(|count| *count > 0).await.unwrap();
                agent.piece(&task.id, said, false);
                agent.piece(&task.id, "!", true);
            }
            task.artifacts = Some(vec![artifact(said)]);
            agent.end(&owner, task, TaskState::Completed);
            agent.arrived.add_permits(1);
        });
        Ok(Sent::Task(id))
    }

    async fn command(&self, caller: &Caller, command: Command) -> Result<Value, ServiceError> {
        Ok(json!({ "by": caller.key(), "command": format!("{command:?}") }))
    }

    async fn ended(&self, id: &str) {
        let mut written = self.written.subscribe();
        let ended = |_: &usize| self.tasks.lock().unwrap()[id].1.status.state == TaskState::Completed;
        written.wait_for(ended).await.unwrap();
    }

    async fn get_task(&self, caller: &Caller, request: GetTask) -> Result<Task, ServiceError> {
        let tasks = self.tasks.lock().unwrap();
        let found = caller.theirs(&request.id, tasks.get(&request.id), |(owner, _)| owner)?;
        Ok(found.1.clone())
    }

    async fn list_tasks(&self, caller: &Caller, request: ListTasks) -> Result<Listed, ServiceError> {
        let tasks = self.tasks.lock().unwrap();
        let mut tasks: Vec<Task> = tasks
            .values()
            .filter(|(owner, _)| caller.only().is_none_or(|only| only == owner))
            .map(|(_, task)| task.clone())
            .filter(|task| {
                request
                    .state
                    .as_ref()
                    .is_none_or(|state| *state == task.status.state)
            })
            .collect();
        tasks.sort_by(|one, other| other.id.cmp(&one.id));
        let total = tasks.len() as u64;
        if let Some(token) = &request.page_token {
            let at = tasks.iter().position(|task| task.id == *token);
            let at = at.ok_or(ServiceError::Invalid {
                field: "pageToken",
                problem: "is not of this list".into(),
            })?;
            tasks.drain(..=at);
        }
        let more = tasks.len() > request.page_size;
        tasks.truncate(request.page_size);
        let tasks = tasks.into_iter().map(|task| (task.clone(), task.id)).collect();
        Ok(Listed { tasks, more, total })
    }

    async fn cancel_task(&self, caller: &Caller, id: &str) -> Result<(), ServiceError> {
        let task = self.get_task(caller, GetTask { id: id.into() }).await?;
        match task.status.state {
            TaskState::Canceled => Ok(()),
            state if state.is_terminal() => Err(ServiceError::NotCancelable(id.into())),
            _ => {
                self.end(caller.key(), task, TaskState::Canceled);
                Ok(())
            }
        }
    }

    async fn subscribe(&self, caller: &Caller, id: &str) -> Result<Subscription, ServiceError> {
        let task = self.get_task(caller, GetTask { id: id.into() }).await?;
        let events = self
            .feeds
            .lock()
            .unwrap()
            .get(id)
            .map(broadcast::Sender::subscribe);
        self.followers.send_modify(|count| *count += 1);
        Ok(Subscription { task, events })
    }

    fn push(&self) -> Option<&dyn PushConfigs> {
        let on = self.pushes.load(Ordering::SeqCst);
        on.then_some(self as &dyn PushConfigs)
    }
}

impl Agent {
    async fn has(&self, caller: &Caller, id: &str) -> Result<(), ServiceError> {
        self.get_task(caller, GetTask { id: id.into() }).await.map(drop)
    }
}

#[async_trait]
impl PushConfigs for Agent {
    async fn create(&self, caller: &Caller, task_id: &str, config: PushConfig) -> Result<(), ServiceError> {
        self.has(caller, task_id).await?;
        let name = (task_id.to_owned(), config.id.clone());
        self.configs.lock().unwrap().insert(name, config);
        Ok(())
    }

    async fn get(&self, caller: &Caller, task_id: &str, id: &str) -> Result<PushConfig, ServiceError> {
        self.has(caller, task_id).await?;
        let configs = self.configs.lock().unwrap();
        let found = configs.get(&(task_id.to_owned(), id.to_owned()));
        found.cloned().ok_or(ServiceError::NoPushConfig(id.to_owned()))
    }

    async fn list(&self, caller: &Caller, task_id: &str) -> Result<Vec<PushConfig>, ServiceError> {
        self.has(caller, task_id).await?;
        let configs = self.configs.lock().unwrap();
        let of_task = configs.iter().filter(|((of, _), _)| of == task_id);
        Ok(of_task.map(|(_, config)| config.clone()).collect())
    }

    async fn delete(&self, caller: &Caller, task_id: &str, id: &str) -> Result<(), ServiceError> {
        self.has(caller, task_id).await?;
        let name = (task_id.to_owned(), id.to_owned());
        self.configs.lock().unwrap().remove(&name);
        Ok(())
    }
}

pub fn principal(name: &str, spiffe_id: &str, role: Role) -> Principal {
    Principal::with_spiffe_id(name, spiffe_id, role)
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
        feeds: Arc::default(),
        followers: watch::Sender::new(0),
        pushes: Arc::default(),
        configs: Arc::default(),
    })
}

pub fn card(address: SocketAddr, scheme: &str) -> Arc<Card> {
    Arc::new(Card::new(card_config(address, scheme)).unwrap())
}

pub fn card_config(address: SocketAddr, scheme: &str) -> CardConfig {
    let url = format!("{scheme}://localhost:{}/agents/helper", address.port());
    CardConfig {
        name: "helper".into(),
        description: "Helps.".into(),
        version: "0.1.0".into(),
        url: url.parse().unwrap(),
        external: None,
        skills: Vec::new(),
        extensions: Vec::new(),
        push_notifications: false,
        mutual_tls: scheme == "https",
    }
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
        Self::promising(|config| config).await
    }

    /// Whose card says what this makes of an ordinary one.
    pub async fn promising(promise: impl FnOnce(CardConfig) -> CardConfig) -> Self {
        Self::with_card(|config, _| Card::new(promise(config)).unwrap()).await
    }

    /// The same, signed.
    pub async fn signing(promise: impl FnOnce(CardConfig) -> CardConfig) -> Self {
        Self::with_card(|config, source| Card::new(promise(config)).unwrap().signed_by(source.clone())).await
    }

    async fn with_card(card: impl FnOnce(CardConfig, &IdentitySource) -> Card) -> Self {
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
        let card = card(card_config(address, "https"), &source);
        tokio::spawn(listener.serve(agent.clone(), Arc::new(card), drain.watch()));
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
        Answer::read(self.open(request).await?).await
    }

    /// The head of the answer, and the body as it comes.
    pub async fn open(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let response = match self {
            Self::One(sender) => {
                sender.ready().await.map_err(|error| error.to_string())?;
                sender.send_request(request).await
            }
            Self::Two(sender) => sender.send_request(request).await,
        };
        response.map_err(|error| format!("{error:?}"))
    }

    /// A request of the HTTP+JSON binding.
    pub async fn rest(&mut self, verb: &str, path: &str, body: Value) -> Answer {
        let path = format!("{}{path}", self.authority());
        self.send(rest(verb, &path, body)).await.unwrap()
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

pub fn rest(verb: &str, path: &str, body: Value) -> Request<Full<Bytes>> {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    Request::builder()
        .method(verb)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/a2a+json")
        .header("a2a-version", "1.0")
        .body(Full::from(body))
        .unwrap()
}

/// The events of a stream, one by one.
pub struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    pub fn of(response: Response<Incoming>) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: response.into_body(),
            text: String::new(),
        }
    }

    /// The next one; none at the end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                match event.strip_prefix("data: ") {
                    Some(json) => return Some(serde_json::from_str(json).unwrap()),
                    None => continue,
                }
            }
            let frame = self.body.frame().await?.unwrap();
            let data = frame.into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// All that come, to the end.
    pub async fn all(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
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
