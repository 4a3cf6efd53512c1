//! The crash matrix: an agent is killed at every point of a scripted conversation with tools, subagents and messages
//! to itself. The points are those that a run of it shows; none is chosen. After each: no message that was acknowledged
//! is lost, none is carried out twice, no call is repeated under another idempotency key, nothing stays open, and what
//! failed says truthfully why. `SOAK=1` also kills on the other side of every point.

mod cancelled;
mod gate;
mod kept;
mod limited;
mod loaded;
mod restarted;
mod supervisor;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use self::gate::{Gate, Moment, Point};
use self::kept::{Kept, Stored};
use crate::a2a::Caller;
use crate::mcp_server::McpServer;
use crate::model::Model;
use crate::process::{Agentd, PATIENCE};
use crate::stored::support::kv::Held;
use crate::stored::support::server::Server;

/// Agents that are killed side by side.
const LANES: usize = 2;

fn is_soak() -> bool {
    std::env::var_os("SOAK").is_some()
}

/// Where an agent keeps its state, and with that what a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At a server of the test's: a point is a change that it is asked for.
    Server,
    /// In a folder, in which nobody sees what is written: a point is a request to the model or a call of a tool.
    Folder,
}

impl Place {
    /// At which side of an event most is at stake.
    fn chosen(self, event: &str) -> Moment {
        let is_done = match self {
            // An intent is the commit: it is there, and nobody heard of it. Of the records that follow, some are not.
            Self::Server => event.ends_with("manifest"),
            // What a tool did is done, and nobody heard of it.
            Self::Folder => event == "tool",
        };
        if is_done { Moment::After } else { Moment::Before }
    }

    /// Every event at its chosen side; when there is time, at both.
    fn points(self, events: &[String]) -> Vec<Point> {
        let both = [Moment::Before, Moment::After];
        let all = events.iter().enumerate().flat_map(|(number, event)| {
            let chosen = self.chosen(event);
            let moments = both
                .into_iter()
                .filter(move |moment| is_soak() || *moment == chosen);
            moments.map(move |moment| (number, moment))
        });
        all.collect()
    }
}

/// An agent and its peers, of which some are behind a gate.
struct World {
    place: Place,
    gate: Gate,
    model: Model,
    server: McpServer,
    held: Held,
    store: Server,
    folder: TempDir,
}

/// A message of the script.
#[derive(Debug, Clone)]
struct Said {
    id: String,
    context: String,
    text: String,
}

/// What the caller knows.
#[derive(Debug, Default)]
struct Ledger {
    /// What was sent, whether it arrived or not.
    sent: Vec<Said>,
    /// The tasks of the messages that were acknowledged, by message.
    acknowledged: BTreeMap<String, String>,
}

impl World {
    async fn new(place: Place) -> Arc<Self> {
        let (gate, held) = (Gate::new(), Held::default());
        let store = Server::start_with(&held, |router| gate.before_changes(router)).await;
        let (model, server) = match place {
            Place::Server => (Model::start().await, McpServer::start().await),
            Place::Folder => {
                let any = "127.0.0.1:0".parse().unwrap();
                let model = Model::start_with(|app| gate.before_all(app)).await;
                (
                    model,
                    McpServer::start_with(any, |app| gate.before_calls(app)).await,
                )
            }
        };
        Arc::new(Self {
            place,
            gate,
            model,
            server,
            held,
            store,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    fn document(&self) -> String {
        let store = match self.place {
            Place::Server => json!({ "kind": "http", "http": { "base_url": self.store.base_url() } }),
            Place::Folder => json!({ "kind": "file", "path": self.folder.path().join("state") }),
        };
        let document = json!({
            "agent": { "name": "keeper", "instruction": "Be brief." },
            "intelligence": { "endpoints": [{ "url": self.model.url() }], "model": "scripted" },
            "mcp": { "servers": [{ "name": "fs", "endpoint": self.server.url() }] },
            "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
            "store": store,
            "observability": { "log_level": "debug" },
        });
        let path = self.folder.path().join("agentd.json");
        std::fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn start(&self) -> (Agentd, Caller) {
        let agentd = Agentd::start(&["run", "-c", &self.document()], &[], self.folder.path());
        let ready = Self::ready(agentd).await;
        ready.unwrap_or_else(|agentd| panic!("it ended: {:#?}", agentd.lines.lock().unwrap()))
    }

    /// Waits until it is; gives it back when it ended before.
    async fn ready(mut agentd: Agentd) -> Result<(Agentd, Caller), Agentd> {
        let mut address = None;
        for event in ["a2a.listen", "mcp.connect", "proc.ready"] {
            match agentd.next(event).await {
                None => return Err(agentd),
                Some(line) => {
                    address = address.or_else(|| line["address"].as_str().map(str::to_owned));
                }
            }
        }
        Ok((agentd, Caller::new(&address.unwrap())))
    }

    /// `agentd store check`: every record can be read, and what it counts is there.
    async fn check(&self) {
        let out = self.look("check").await;
        let found: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&found["ok"], &found["unreadable"]), (&json!(true), &json!(0)));
        assert_eq!(found["counts"]["task"], self.kept().await.tasks().len());
    }

    async fn look(&self, verb: &str) -> String {
        let document = self.document();
        let looking = Agentd::start(&["store", verb, "-c", &document], &[], self.folder.path());
        let (status, out, log) = looking.end().await;
        assert_eq!(status.code(), Some(0), "{out} {log:#?}");
        out
    }

    async fn kept(&self) -> Kept {
        match self.place {
            Place::Server => Kept::of(&self.held.lock().unwrap()),
            Place::Folder => Kept::exported(&self.look("export").await),
        }
    }

    /// Returns when nothing is open in the store; false when the agent died before.
    async fn settled(&self) -> bool {
        match self.place {
            Place::Server => {
                let is_settled = || Kept::of(&self.held.lock().unwrap()).is_settled();
                self.gate.quiet(is_settled).await
            }
            Place::Folder => {
                let settled = async { while !self.kept().await.is_settled() {} };
                tokio::time::timeout(PATIENCE, settled).await.is_ok()
            }
        }
    }

    /// Says it all in order; ends early where the agent does.
    async fn converse(self: Arc<Self>, caller: Caller, script: Vec<Said>) -> Ledger {
        let mut ledger = Ledger::default();
        for said in script {
            ledger.sent.push(said.clone());
            let Some(task) = said.say(&caller, json!({ "returnImmediately": true })).await else {
                break;
            };
            let id = task["id"].as_str().unwrap().to_owned();
            ledger.acknowledged.insert(said.id.clone(), id.clone());
            // The same again, which waits for the answer.
            let Some(task) = said.say(&caller, json!({})).await else {
                break;
            };
            assert_eq!(task["id"], id, "the same message is the same task");
            // In a folder it cannot be seen; the script leaves nothing open.
            if self.place == Place::Server && !self.settled().await {
                break;
            }
        }
        ledger
    }

    /// How often each text of this conversation came to the tool. All calls with one text have one key, and no two
    /// texts have the same.
    fn calls(&self, tag: &str) -> BTreeMap<String, usize> {
        let mut keys: BTreeMap<String, String> = BTreeMap::new();
        let mut counts = BTreeMap::new();
        for call in self.server.requests("tools/call") {
            let text = call["params"]["arguments"]["text"].as_str().unwrap().to_owned();
            let key = call["params"]["_meta"]["agent/idempotency_key"].as_str().unwrap();
            let before = keys.insert(key.to_owned(), text.clone());
            assert!(
                before.is_none_or(|before| before == text),
                "one key for two calls: {call}"
            );
            if text.starts_with(&format!("{tag}-")) {
                *counts.entry(text).or_default() += 1;
            }
        }
        let of_tag = keys.values().filter(|text| text.starts_with(&format!("{tag}-")));
        assert_eq!(of_tag.count(), counts.len(), "a call under two keys");
        counts
    }
}

impl Said {
    /// The task; `None` when the agent is gone, or about to go.
    async fn say(&self, caller: &Caller, more: Value) -> Option<Value> {
        let mut more = more;
        more["contextId"] = json!(self.context);
        let answer = caller.try_send(&self.id, &self.text, more).await.ok()?;
        if let Some(error) = answer.get("error") {
            assert!(error.to_string().contains("AGENT_STOPPING"), "{error:#}");
            return None;
        }
        Some(answer["result"]["task"].clone())
    }
}

/// The conversation: every text is said once in all, and begins with `tag`.
fn script(tag: &str) -> Vec<Said> {
    let said = |name: &str, context: &str, calls: Value| Said {
        id: format!("{tag}-{name}"),
        context: format!("{tag}-{context}"),
        text: format!("calls {calls}"),
    };
    let echo = |name: &str| json!(["echo", { "text": format!("{tag}-{name}") }]);
    let set = |name: &str| json!(["memory_set", { "key": format!("{tag}-{name}"), "value": name }]);
    let below = format!("calls {}", json!([echo("a2"), set("below")]));
    vec![
        said(
            "m1",
            "c",
            json!([
                // Together, in one round.
                ["echo", { "text": format!("{tag}-a1") }, "and"],
                ["memory_set", { "key": format!("{tag}-own"), "value": 1 }, "and"],
                echo("a3"),
                ["artifact_create", { "name": format!("{tag}-note"), "content": "hello" }],
                ["plan_create", { "goal": "tea", "items": ["boil", "pour"] }],
                ["plan_update", { "item": 1, "status": "done" }],
                ["subagent_run", { "instruction": below, "tools": ["echo", "memory.set"] }],
                echo("m1"),
            ]),
        ),
        // It speaks to itself, and the message waits behind it.
        said(
            "m2",
            "c",
            json!([
                ["message_send", { "to": format!("{tag}-c"), "text": format!("echo {tag}-b1") }],
                echo("m2"),
            ]),
        ),
        // It waits behind that message.
        said("m4", "c", json!([echo("m4")])),
        said(
            "m3",
            "d",
            json!([
                // While the turn sleeps, and waits in two ways, the subagent is at work.
                ["sleep", { "duration": "50ms" }, "and"],
                ["subagent_run", { "instruction": format!("echo {tag}-d1"), "mode": "async", "tools": ["echo"] }],
                ["await", { "on": ["$handle"], "timeout": "5m" }, "and"],
                ["await", { "condition": ENDED, "timeout": "5m" }],
                ["message_send", { "to": "new", "text": format!("echo {tag}-d2"), "wait": true }],
                echo("m3"),
            ]),
        ),
    ]
}

/// No subagent is at work.
const ENDED: &str = "subagents.all(h, subagents[h].status != \"running\")";

/// What the tool is asked in the course of the whole conversation, once each.
const CALLS: [&str; 10] = ["a1", "a2", "a3", "b1", "d1", "d2", "m1", "m2", "m3", "m4"];

/// Whether a task was answered as it is to be: its last call is what it says.
fn assert_answered(task: &Stored) {
    let last = task.asked().rsplit_once("\"text\":\"").map(|(_, rest)| rest);
    let text = match last {
        Some(rest) => rest.split('"').next().unwrap(),
        None => task.asked().strip_prefix("echo ").unwrap(),
    };
    assert_eq!(
        (task.state(), task.answer()),
        ("completed", format!("the tool said: echo: {text}").as_str()),
        "{task:#?}"
    );
}
