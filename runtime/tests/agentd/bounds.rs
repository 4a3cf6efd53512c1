//! What a document bounds, against the process: what the model may cost, how long a conversation may be, how many turns
//! run at once.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::a2a::{Caller, answer, said};
use crate::process::{Agentd, kill_worker};
use crate::world::World;

impl World {
    /// An agent of a model and nothing else, with more.
    fn bounded(&self, more: Value) -> Value {
        let mut document = json!({
            "agent": { "name": "bounded", "instruction": "Be brief." },
            "intelligence": { "endpoints": [{ "url": self.model.url() }], "model": "scripted" },
        });
        merge(&mut document, more);
        document
    }

    /// Writes it; where.
    fn write(&self, document: &Value) -> String {
        let path = self.folder.path().join("agentd.json");
        std::fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A service that keeps its state in a folder.
    async fn serve(&self, more: Value) -> (Agentd, Caller) {
        let mut document = self.bounded(json!({
            "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
            "store": { "kind": "file", "path": self.folder.path().join("state") },
        }));
        merge(&mut document, more);
        let path = self.write(&document);
        let mut agentd = Agentd::start(&["-c", &path], &[], self.folder.path());
        let a2a = agentd.address("a2a.listen").await;
        agentd.event("proc.ready").await;
        (agentd, Caller::new(&a2a))
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

/// A call of the scripted model takes 10 tokens.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_used_up_ends_the_task_and_names_the_budget() {
    for (on_exhausted, code) in [("refuse", 5), ("fail", 7)] {
        let world = World::new().await;
        let budget = json!({
            "windows": [{ "per": "week", "tokens": 15 }],
            "on_exhausted": on_exhausted,
            "reserve": { "fixed": 8 },
        });
        let prompt = r#"calls [["status", {}]]"#;
        let document = world.bounded(json!({
            "agent": { "prompt": prompt },
            "intelligence": { "budget": budget },
        }));
        let path = world.write(&document);
        let agentd = Agentd::start(&["-c", &path], &[], world.folder.path());
        let (status, output, lines) = agentd.end().await;
        assert_eq!((status.code(), output.as_str()), (Some(code), ""), "{lines:#?}");
        assert_eq!(world.model.requests().len(), 1, "the second call was not made");
        let refused = lines.iter().find(|line| line["event"] == "budget.refused");
        assert_eq!(
            refused.unwrap()["message"],
            "the tokens of this week (15, intelligence.budget) are used up"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_spent_for_ever_outlives_the_process() {
    let world = World::new().await;
    let budget =
        json!({ "intelligence": { "budget": { "lifetime_tokens": 25, "reserve": { "fixed": 10 } } } });
    let (agentd, caller) = world.serve(budget.clone()).await;
    let first = caller.send("m1", "one", json!({})).await;
    assert_eq!(state(&first), "TASK_STATE_COMPLETED", "{first:#}");
    kill_worker(agentd.pid());
    agentd.end().await;

    let (agentd, caller) = world.serve(budget.clone()).await;
    let second = caller.send("m2", "two", json!({})).await;
    assert_eq!(state(&second), "TASK_STATE_COMPLETED", "{second:#}");
    agentd.signal(Signal::SIGTERM);
    assert_eq!(agentd.end().await.0.code(), Some(0));

    let (_agentd, caller) = world.serve(budget).await;
    let third = caller.send("m3", "three", json!({})).await;
    assert_eq!(state(&third), "TASK_STATE_FAILED", "{third:#}");
    let why = "intelligence.budget.lifetime_tokens (25) leaves 5, and a call may take 10";
    assert!(said(&third).contains(why), "{third:#}");
    assert_eq!(world.model.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_too_long_for_the_model_goes_on_from_a_summary() {
    let world = World::new().await;
    let context = json!({ "context": { "compact_at": 0.7, "keep_last": 1, "model_window": 1024 } });
    let (mut agentd, caller) = world.serve(context).await;
    let long = format!("the harbour is blue {}", "and deep ".repeat(200));
    let first = caller.send("m1", &long, json!({})).await;
    assert_eq!(state(&first), "TASK_STATE_COMPLETED", "{first:#}");
    assert!(agentd.lines("context.compacted").is_empty());

    let more = json!({ "contextId": first["contextId"] });
    let second = caller.send("m2", "go on", more).await;
    assert!(answer(&second).ends_with("We talked.\n\ngo on"), "{second:#}");
    let compacted = agentd.event("context.compacted").await;
    assert_eq!(
        (&compacted["run_id"], &compacted["degraded"]),
        (&second["id"], &json!(false))
    );
    let requests = world.model.requests();
    let [_, summary, last] = &requests[..] else {
        panic!("{requests:#?}");
    };
    assert!(summary["messages"].to_string().contains("the harbour is blue"));
    let messages = last["messages"].to_string();
    assert!(
        messages.contains("in summary") && messages.contains("the colour of the harbour"),
        "{messages}"
    );
    assert!(
        messages.contains("go on") && !messages.contains("the harbour is blue"),
        "{messages}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_has_as_many_items_as_the_document_says() {
    let world = World::new().await;
    let (_agentd, caller) = world
        .serve(json!({ "context": { "plan": { "max_items": 1 } } }))
        .await;
    let made = |titles: &[&str]| {
        let items: Vec<Value> = titles.iter().map(|title| json!({ "title": title })).collect();
        format!(
            "calls {}",
            json!([["plan_create", { "goal": "g", "items": items }]])
        )
    };
    let task = caller.send("m1", &made(&["a", "b"]), json!({})).await;
    let why = "a plan has at most 1 items (context.plan.max_items)";
    assert!(answer(&task).contains(why), "{task:#}");
    let task = caller.send("m2", &made(&["a"]), json!({})).await;
    assert!(!answer(&task).contains("max_items"), "{task:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_turns_run_at_once_as_the_document_says_at_the_moment() {
    let mut world = World::new().await;
    let (mut agentd, caller) = world.serve(json!({ "agent": { "max_parallel_turns": 1 } })).await;
    let now = json!({ "returnImmediately": true });
    let first = caller.send("m1", "hold first", now.clone()).await;
    assert_eq!(world.model.holds().await, "hold first");
    let second = caller.send("m2", "hold second", now).await;
    let waits = caller.task(second["id"].as_str().unwrap()).await;
    assert_eq!(state(&waits), "TASK_STATE_SUBMITTED", "{waits:#}");

    let mut document: Value =
        serde_json::from_slice(&std::fs::read(world.folder.path().join("agentd.json")).unwrap()).unwrap();
    document["agent"]["max_parallel_turns"] = json!(2);
    world.write(&document);
    agentd.signal(Signal::SIGHUP);
    assert_eq!(
        agentd.event("config.reloaded").await["changed"],
        "agent.max_parallel_turns"
    );
    // Beside the first, which still waits for its model.
    assert_eq!(world.model.holds().await, "hold second");
    let runs = caller.task(first["id"].as_str().unwrap()).await;
    assert_eq!(state(&runs), "TASK_STATE_WORKING", "{runs:#}");
    for task in [first, second] {
        world.model.release();
        world.model.release();
        let task = caller.ended(task["id"].as_str().unwrap()).await;
        assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task:#}");
    }
}
