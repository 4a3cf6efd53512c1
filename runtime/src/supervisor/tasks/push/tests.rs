//! Against a receiver on loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;

use agentd_base::clock::SystemClock;
use agentd_base::readiness::Readiness;
use agentd_net::TlsMode;
use agentd_state::{Retention, Store};
use agentd_store::MemoryStore;
use serde_json::Value;

use super::*;
use crate::metrics::Process;

/// Gives each answer in turn, the last one for ever, and hands on the bodies.
fn receiver(statuses: &'static [&'static str]) -> (String, mpsc::Receiver<(String, Value)>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", socket.local_addr().unwrap());
    let (heard, told) = mpsc::channel();
    std::thread::spawn(move || {
        for (nth, stream) in socket.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut bytes = Vec::new();
            let (head, body) = loop {
                let mut piece = [0; 4096];
                let length = stream.read(&mut piece).unwrap();
                bytes.extend_from_slice(&piece[..length]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else {
                    assert!(length > 0, "{text}");
                    continue;
                };
                let line = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                if body.len() == line.unwrap().parse::<usize>().unwrap() {
                    break (head.to_owned(), serde_json::from_str(body).unwrap());
                }
            };
            let status = statuses.get(nth).or(statuses.last()).unwrap();
            let answer = format!(
                "HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).unwrap();
            if heard.send((head, body)).is_err() {
                return;
            }
        }
    });
    (url, told)
}

fn state_of(body: &Value) -> &str {
    body["task"]["status"]["state"].as_str().unwrap()
}

fn task(id: &str, owner: &str, state: TaskState) -> Task {
    Task {
        id: id.to_owned(),
        context_id: "c".to_owned(),
        owner: owner.to_owned(),
        state,
        updated_at: Timestamp::now(),
        created_at: Timestamp::UNIX_EPOCH,
        status_message: None,
        asked: None,
        history: Vec::new(),
        artifacts: Vec::new(),
        hops: 0,
        trace: None,
    }
}

fn config(id: &str, url: &str) -> PushConfig {
    serde_json::from_value(json!({
        "id": id, "url": url, "token": "hush", "version": "1.0",
        "authentication": { "scheme": "Bearer", "credentials": "secret" },
    }))
    .unwrap()
}

struct World {
    store: Arc<MemoryStore>,
    watched: Watched,
    push: Arc<Push>,
}

impl World {
    /// An agent on this store.
    async fn on(store: &Arc<MemoryStore>) -> Self {
        let watched = Watched::new(store.clone(), Readiness::new());
        let sender = Sender::new(true, TlsMode::default());
        let metrics = Metrics::new(Process::Agent).unwrap();
        let push = Push::load(watched.clone(), sender, Arc::new(SystemClock), metrics)
            .await
            .unwrap();
        watched.tell(&push);
        Self {
            store: store.clone(),
            watched,
            push,
        }
    }

    async fn write(&self, task: Task) {
        self.watched.write(vec![Write::Task(task)]).await.unwrap();
    }

    async fn rows(&self, kind: EntryKind) -> usize {
        let query = EntryQuery {
            kind,
            scope: SCOPE.to_owned(),
            prefix: String::new(),
            after: None,
            limit: 9,
        };
        let page = self.store.entries(query, Timestamp::now()).await.unwrap();
        page.entries.len()
    }

    /// Returns when nothing is owed.
    async fn paid(&self) {
        while !lock(&self.push.owed).is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(self.rows(EntryKind::Outbox).await, 0);
    }
}

fn store() -> Arc<MemoryStore> {
    agentd_net_provider();
    Arc::new(MemoryStore::new(Retention::MEMORY))
}

/// What the program does at its start.
fn agentd_net_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_is_told_with_what_the_receiver_asks_for_and_a_failure_is_tried_again() {
    let (url, told) = receiver(&["500 no", "302 elsewhere", "200 ok"]);
    let world = World::on(&store()).await;
    world.write(task("t", "o", TaskState::Submitted)).await;
    world.push.add("t", config("a", &url)).await.unwrap();
    world.write(task("t", "o", TaskState::Working)).await;
    for _ in 0..3 {
        let (head, body) = told.recv().unwrap();
        assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("authorization: Bearer secret\r\n"), "{head}");
        assert!(head.contains("x-a2a-notification-token: hush\r\n"), "{head}");
        assert_eq!(state_of(&body), "TASK_STATE_WORKING");
    }
    world.paid().await;
    let ended = task("t", "o", TaskState::Completed);
    world.write(ended.clone()).await;
    assert_eq!(state_of(&told.recv().unwrap().1), "TASK_STATE_COMPLETED");
    world.paid().await;
    // The same change once more is none.
    world.write(ended).await;
    assert_eq!(world.rows(EntryKind::Outbox).await, 0);
    assert_eq!(world.rows(EntryKind::Push).await, 1, "for a day");
    // Another task is nothing to this receiver.
    world.write(task("u", "o", TaskState::Working)).await;
    assert!(told.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_owes_the_next_one_delivers() {
    let store = store();
    // Nobody listens there.
    let nobody = {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", socket.local_addr().unwrap())
    };
    let (url, told) = receiver(&["200 ok"]);
    let before = World::on(&store).await;
    before.write(task("t", "o", TaskState::Submitted)).await;
    before.push.add("t", config("a", &nobody)).await.unwrap();
    before.write(task("t", "o", TaskState::Completed)).await;
    assert_eq!(before.rows(EntryKind::Outbox).await, 1);
    // Where it leads to when the next process reads it.
    let moved = before
        .push
        .entry("t", "o", &config("a", &url), Some(later(Timestamp::now())));
    store.write(vec![moved]).await.unwrap();
    let next = World::on(&store).await;
    assert_eq!(state_of(&told.recv().unwrap().1), "TASK_STATE_COMPLETED");
    next.paid().await;
    assert_eq!(next.push.get("t", "a").await.unwrap(), config("a", &url));
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_are_bounded_replaced_and_deleted() {
    let world = World::on(&store()).await;
    world.write(task("t", "o", TaskState::Working)).await;
    let refused = world
        .push
        .add("nobody", config("a", "https://x"))
        .await
        .unwrap_err();
    assert_eq!(refused, ServiceError::TaskNotFound("nobody".to_owned()));
    for nth in 0..CONFIGS_OF_TASK {
        world
            .push
            .add("t", config(&nth.to_string(), "https://x"))
            .await
            .unwrap();
    }
    let refused = world
        .push
        .add("t", config("more", "https://x"))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ServiceError::Invalid { field: "taskId", .. }),
        "{refused:?}"
    );
    world.push.add("t", config("0", "https://y")).await.unwrap();
    assert_eq!(world.push.get("t", "0").await.unwrap().url, "https://y");
    for _ in 0..2 {
        world.push.delete("t", "0").await.unwrap();
    }
    let gone = world.push.get("t", "0").await.unwrap_err();
    assert_eq!(gone, ServiceError::NoPushConfig("0".to_owned()));
    assert_eq!(world.push.list("t").await.len(), CONFIGS_OF_TASK - 1);
    assert_eq!(world.rows(EntryKind::Push).await, CONFIGS_OF_TASK - 1);
    for nth in 0..CONFIGS_OF_ONE / CONFIGS_OF_TASK {
        let id = format!("t{nth}");
        world.write(task(&id, "o", TaskState::Working)).await;
        for nth in 0..CONFIGS_OF_TASK {
            let _ = world.push.add(&id, config(&nth.to_string(), "https://x")).await;
        }
    }
    let of_all: usize = world
        .push
        .book
        .read()
        .await
        .values()
        .map(|of_task| of_task.configs.len())
        .sum();
    assert_eq!(of_all, CONFIGS_OF_ONE);
    world.write(task("u", "p", TaskState::Working)).await;
    world.push.add("u", config("", "https://x")).await.unwrap();
    assert_eq!(
        world.push.list("u").await[0].id,
        "u",
        "another principal has its own share"
    );
}
