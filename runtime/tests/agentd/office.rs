//! What a turn asks of the supervisor, with workers of their own and a turn that the test can cancel.

use std::sync::Arc;

use agentd::origin::Origin;
use agentd::reload::Settings;
use agentd::supervisor::office::{Caller, Spent};
use agentd::supervisor::turns::{TurnEnd, TurnInput, TurnRunner};
use agentd::worker::frame::TurnResult;
use agentd_agent::{Held, Holder, Reply, Request, Status, TurnLimits};
use agentd_config::Document;
use agentd_state::{EntryKind, EntryQuery, Retention, Store};
use agentd_store::MemoryStore;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::model::{Model, tool_results};
use crate::process::PATIENCE;
use crate::runner::runner;

struct World {
    model: Model,
    store: Arc<MemoryStore>,
    runner: Arc<TurnRunner>,
    _settings: watch::Sender<Arc<Settings<Document>>>,
}

impl World {
    async fn new() -> Self {
        let model = Model::start().await;
        let store = Arc::new(MemoryStore::new(Retention::MEMORY));
        let (runner, sender) = runner(&model.url(), &store);
        Self {
            model,
            store,
            runner,
            _settings: sender,
        }
    }

    async fn turn(&self, run_id: &str, calls: Value, stop: &CancellationToken) -> Box<TurnResult> {
        let input = TurnInput {
            run_id: run_id.into(),
            owner: "alice".into(),
            conversation: "c".into(),
            transcript: Value::Null,
            text: format!("calls {calls}"),
            hops: 0,
            resumed: None,
            used: Default::default(),
            charge: None,
            origin: Origin::agent("a", None),
            listener: None,
        };
        match tokio::time::timeout(PATIENCE, self.runner.run(input, stop))
            .await
            .unwrap()
        {
            TurnEnd::Done(result) => result,
            TurnEnd::Broken { reason, .. } => panic!("{reason}"),
        }
    }

    /// What the office says to a turn that asks.
    async fn ask(
        &self,
        owner: &str,
        conversation: &str,
        holder: Holder,
        tool: &str,
        arguments: Value,
    ) -> Value {
        let limits = TurnLimits {
            steps: 10,
            tokens: 1000,
            deadline: PATIENCE,
        };
        let caller = Caller {
            owner: owner.into(),
            root: conversation.into(),
            conversation: conversation.into(),
            run_id: "r".into(),
            holder,
            held: Held::All,
            depth: 0,
            hops: 0,
            origin: Origin::agent("a", None),
            until: tokio::time::Instant::now() + PATIENCE,
            spent: Spent::new(limits, None),
        };
        let request = Request::of_tool(tool, arguments.as_object().unwrap().clone()).unwrap();
        let office = self.runner.office.clone();
        match office.carry_out(Arc::new(caller), request).await {
            Reply::Done(value) => value,
            Reply::Refused(why) => json!({ "refused": why }),
            other => panic!("{other:?}"),
        }
    }

    /// The subagents of the conversation, oldest first.
    async fn subagents(&self) -> Vec<Value> {
        let query = EntryQuery {
            kind: EntryKind::Subagent,
            scope: "c".into(),
            prefix: String::new(),
            after: None,
            limit: 100,
        };
        let page = self
            .store
            .entries(query, agentd_base::clock::system().now())
            .await
            .unwrap();
        page.entries.into_iter().map(|entry| entry.value).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_turn_that_is_cancelled_takes_its_subagents_with_it_but_not_those_that_are_detached() {
    let mut world = World::new().await;
    let stop = CancellationToken::new();
    let run = |text: &str, mode: &str| json!(["subagent_run", { "instruction": format!("hold {text}"), "mode": mode }]);
    let calls = json!([run("a", "async"), run("d", "detached"), run("s", "sync")]);
    let held = {
        let stop = stop.clone();
        let model = &mut world.model;
        let mut seen = 0;
        let waiting = async {
            while seen < 3 {
                model.holds().await;
                seen += 1;
            }
            stop.cancel();
        };
        let input = TurnInput {
            run_id: "run-1".into(),
            owner: "alice".into(),
            conversation: "c".into(),
            transcript: Value::Null,
            text: format!("calls {calls}"),
            hops: 0,
            resumed: None,
            used: Default::default(),
            charge: None,
            origin: Origin::agent("a", None),
            listener: None,
        };
        let (end, ()) = tokio::time::timeout(PATIENCE, async {
            tokio::join!(world.runner.run(input, &stop), waiting)
        })
        .await
        .unwrap();
        match end {
            TurnEnd::Done(result) => result.status,
            TurnEnd::Broken { reason, .. } => panic!("{reason}"),
        }
    };
    assert_eq!(held, Status::Cancelled);
    let known = world.subagents().await;
    let handles: Vec<&str> = known.iter().map(|one| one["handle"].as_str().unwrap()).collect();
    assert_eq!(handles.len(), 3);
    // Both end; what is detached goes on.
    let calls = json!([
        ["subagent_await", { "handle": handles[0] }],
        ["subagent_await", { "handle": handles[2] }],
        ["subagent_status", { "handle": handles[1] }],
    ]);
    world.turn("run-2", calls, &CancellationToken::new()).await;
    let requests = world.model.requests();
    let told: Vec<Value> = tool_results(requests.last().unwrap())
        .into_iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect();
    let states: Vec<&str> = told.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["cancelled", "cancelled", "running"]);
    assert_eq!(world.runner.office.extent_of_subagents().0, 1);
    world.runner.office.close_subagents().await;
    assert_eq!(world.runner.office.extent_of_subagents().0, 0);
}

/// Memory and artifacts are the principal's, plans and subagents the conversation's.
#[tokio::test(flavor = "multi_thread")]
async fn m2_nobody_reads_what_another_principal_keeps() {
    let world = World::new().await;
    let ask = async |owner: &str, conversation: &str, holder: Holder, tool: &str, arguments: Value| {
        world.ask(owner, conversation, holder, tool, arguments).await
    };
    let root = Holder::Root;
    ask(
        "alice",
        "alice c",
        root,
        "memory.set",
        json!({ "key": "k", "value": 1 }),
    )
    .await;
    ask(
        "alice",
        "alice c",
        root,
        "plan.create",
        json!({ "goal": "g", "items": ["i"] }),
    )
    .await;
    let made = ask(
        "alice",
        "alice c",
        root,
        "artifact.create",
        json!({ "name": "n", "content": "x" }),
    )
    .await;
    let id = json!({ "id": made["id"] });
    for (owner, conversation, has_memory, has_plan) in [
        ("alice", "alice c", true, true),
        ("alice", "alice d", true, false),
        ("bob", "bob c", false, false),
    ] {
        let got = ask(owner, conversation, root, "memory.get", json!({ "key": "k" })).await;
        assert_eq!(got["found"], has_memory, "{owner}");
        let listed = ask(owner, conversation, root, "memory.list", json!({})).await;
        assert_eq!(listed["keys"].as_array().unwrap().len(), usize::from(has_memory));
        let listed = ask(owner, conversation, root, "artifact.list", json!({})).await;
        assert_eq!(
            listed["artifacts"].as_array().unwrap().len(),
            usize::from(has_memory)
        );
        let opened = ask(owner, conversation, root, "artifact.get", id.clone()).await;
        assert_eq!(opened["content"] == "x", has_memory);
        let plan = ask(owner, conversation, root, "plan.get", json!({})).await;
        assert_eq!(plan["exists"], has_plan, "{conversation}");
    }
    for (owner, tool, arguments) in [
        ("bob", "memory.delete", json!({ "key": "k" })),
        ("bob", "artifact.delete", id),
    ] {
        assert_eq!(ask(owner, "bob c", root, tool, arguments).await["deleted"], false);
    }
    // What a worker of a subagent writes into a frame is not granted by that.
    let refused = ask(
        "alice",
        "alice c",
        Holder::Subagent,
        "subagent.run",
        json!({ "instruction": "x" }),
    )
    .await;
    assert!(
        refused["refused"].as_str().unwrap().contains("not granted"),
        "{refused}"
    );
    // A time to live is one.
    ask(
        "alice",
        "alice c",
        root,
        "memory.set",
        json!({ "key": "t", "value": 1, "ttl": "0s" }),
    )
    .await;
    let got = ask("alice", "alice c", root, "memory.get", json!({ "key": "t" })).await;
    assert_eq!(got["found"], false);
}

/// Neither its worker nor its plan is of use to anybody.
#[tokio::test(flavor = "multi_thread")]
async fn m2_a_subagent_that_has_ended_leaves_no_worker_and_no_plan() {
    let world = World::new().await;
    let never = CancellationToken::new();
    let plan = format!(
        "calls {}",
        json!([["plan_create", { "goal": "g", "items": ["i"] }]])
    );
    let calls = json!([
        ["subagent_run", { "instruction": plan }],
        ["subagent_run", { "instruction": "hi", "mode": "warm" }],
    ]);
    world.turn("run-1", calls, &never).await;
    assert_eq!(
        world.runner.pool.idle(),
        2,
        "the conversation's and the warm one's"
    );
    let known = world.subagents().await;
    let states: Vec<&Value> = known.iter().map(|one| &one["state"]).collect();
    assert_eq!(states, [&json!({ "ended": "completed" }), &json!("waiting")]);
    for one in &known {
        for scope in [" {handle} c", "c {handle}"] {
            let scope = scope.replace("{handle}", one["handle"].as_str().unwrap());
            let plan = world.store.entry(
                EntryKind::Plan,
                &scope,
                "plan",
                agentd_base::clock::system().now(),
            );
            assert_eq!(plan.await.unwrap(), None, "{scope}");
        }
    }
    let calls = json!([["subagent_kill", { "handle": known[1]["handle"] }]]);
    world.turn("run-2", calls, &never).await;
    assert_eq!(world.runner.pool.idle(), 1);
}

/// Whoever asked for it may go before it has begun.
#[tokio::test]
async fn m2_a_subagent_that_nobody_waits_for_any_more_does_not_begin() {
    let world = World::new().await;
    let office = world.runner.office.clone();
    let caller = Arc::new(Caller {
        owner: "alice".into(),
        root: "c".into(),
        conversation: "c".into(),
        run_id: "r".into(),
        holder: Holder::Root,
        held: Held::All,
        depth: 0,
        hops: 0,
        origin: Origin::agent("a", None),
        until: tokio::time::Instant::now() + PATIENCE,
        spent: Spent::new(
            TurnLimits {
                steps: 10,
                tokens: 1000,
                deadline: PATIENCE,
            },
            None,
        ),
    });
    let run = json!({ "instruction": "hold", "mode": "detached" });
    let request = Request::of_tool("subagent.run", run.as_object().unwrap().clone()).unwrap();
    let asking = office.clone().carry_out(caller, request);
    // Begun by one look at it, and given up.
    assert!(futures::FutureExt::now_or_never(asking).is_none());
    let ended = async {
        while office.extent_of_subagents().0 > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    let known = world.subagents().await;
    assert_eq!(known.len(), 1);
    assert_eq!(known[0]["state"], json!({ "ended": "cancelled" }));
    assert!(world.model.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_list_is_added_to_and_taken_from_at_both_ends_and_nothing_of_it_is_lost() {
    let world = World::new().await;
    let ask = async |tool: &str, arguments: Value| {
        world.ask("alice", "alice c", Holder::Root, tool, arguments).await
    };
    let push = |value: u32| ask("memory.push", json!({ "key": "l", "value": value }));
    // Side by side: each is there once.
    let lengths = futures::future::join_all((0..20).map(push)).await;
    let mut lengths: Vec<_> = lengths
        .iter()
        .map(|told| told["length"].as_u64().unwrap())
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, (1..=20).collect::<Vec<_>>());
    let list = ask("memory.get", json!({ "key": "l" })).await["value"].take();
    let list = list.as_array().unwrap();
    let taken =
        |value: &Value, length: u32| json!({ "key": "l", "found": true, "value": value, "length": length });
    assert_eq!(
        ask("memory.shift", json!({ "key": "l" })).await,
        taken(&list[0], 19)
    );
    assert_eq!(
        ask("memory.pop", json!({ "key": "l" })).await,
        taken(&list[19], 18)
    );
    let nothing = json!({ "key": "none", "found": false, "length": 0 });
    assert_eq!(ask("memory.pop", json!({ "key": "none" })).await, nothing);
    // What is no list is not made one.
    ask("memory.set", json!({ "key": "l", "value": "x" })).await;
    for (tool, more) in [
        ("memory.push", json!({ "value": 1 })),
        ("memory.shift", json!({})),
    ] {
        let mut arguments = json!({ "key": "l" });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let told = ask(tool, arguments).await;
        assert_eq!(
            told,
            json!({ "refused": "what is remembered under this key is no list" })
        );
    }
    // A list ends where a value does.
    let long = "x".repeat(40_000);
    ask("memory.push", json!({ "key": "m", "value": long })).await;
    let told = ask("memory.push", json!({ "key": "m", "value": long })).await;
    assert!(
        told["refused"]
            .as_str()
            .unwrap()
            .contains("memory.max_value_bytes"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_condition_is_looked_at_when_what_it_is_about_changes_and_at_no_other_time() {
    let world = World::new().await;
    let ask = async |owner: &str, tool: &str, arguments: Value| {
        world
            .ask(owner, &format!("{owner} c"), Holder::Root, tool, arguments)
            .await
    };
    let observe = |since: Option<&Value>| json!({ "plan": true, "memory": false, "keys": ["k"], "subagents": true, "servers": true, "since": since });
    let first = ask("alice", "state.observe", observe(None)).await;
    assert_eq!(
        first["state"],
        json!({ "plan": { "exists": false }, "memory": {}, "subagents": {}, "servers": {} })
    );
    let mut since = first["digest"].clone();
    let changes = [
        ("memory.set", json!({ "key": "k", "value": 1 })),
        ("plan.create", json!({ "goal": "g", "items": ["i"] })),
        ("memory.set", json!({ "key": "k", "value": 2, "ttl": "1s" })),
    ];
    for (tool, arguments) in changes {
        let mut waiting = Box::pin(ask("alice", "state.observe", observe(Some(&since))));
        // What is another's, and what the condition is not about, changes nothing for it.
        let others = async {
            ask("bob", "memory.set", json!({ "key": "k", "value": 9 })).await;
            ask("alice", "memory.set", json!({ "key": "other", "value": 9 })).await;
        };
        tokio::select! {
            biased;
            told = &mut waiting => panic!("{told}"),
            () = others => {}
        }
        let (told, _) = tokio::time::timeout(PATIENCE, async {
            tokio::join!(waiting, ask("alice", tool, arguments))
        })
        .await
        .unwrap();
        assert_ne!(told["digest"], since);
        since = told["digest"].clone();
    }
    // What is forgotten by itself is a change as well.
    let told = tokio::time::timeout(PATIENCE, ask("alice", "state.observe", observe(Some(&since))));
    assert_eq!(told.await.unwrap()["state"]["memory"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_turn_waits_for_a_condition_and_another_turn_makes_it_hold() {
    let world = World::new().await;
    let waits = json!([
        ["await", { "condition": "memory.ready == true && memory.count > 1", "timeout": "60s" }],
        ["await", { "condition": "nonsense.x" }],
        ["await", { "condition": "memory.never == 1", "timeout": "1s" }],
    ]);
    let stop = CancellationToken::new();
    let turn = world.turn("run-1", waits, &stop);
    let sets = async {
        for (key, value) in [("count", json!(1)), ("ready", json!(true)), ("count", json!(2))] {
            let set = json!({ "key": key, "value": value });
            world
                .ask("alice", "alice d", Holder::Root, "memory.set", set)
                .await;
        }
    };
    tokio::join!(turn, sets);
    let requests = world.model.requests();
    let told = tool_results(requests.last().unwrap());
    assert_eq!(told[0], r#"{"satisfied":true}"#);
    assert!(
        told[1].starts_with("ERROR: condition names nonsense, which is not known"),
        "{told:?}"
    );
    assert_eq!(told[2], r#"{"satisfied":false}"#);
    // A subagent ends, and one that fails ends the waiting for what it was to do.
    let begun = json!([["subagent_run", { "instruction": "say hi", "mode": "async" }]]);
    world.turn("run-2", begun, &CancellationToken::new()).await;
    let handle = world.subagents().await[0]["handle"].as_str().unwrap().to_owned();
    let waits = json!([
        ["await", { "condition": format!("subagents[{handle:?}].status == \"completed\""), "timeout": "60s" }],
        ["await", { "condition": "memory.never == 1", "on": [handle], "timeout": "60s" }],
    ]);
    world.turn("run-3", waits, &CancellationToken::new()).await;
    let requests = world.model.requests();
    let told = tool_results(requests.last().unwrap());
    assert_eq!(told[0], r#"{"satisfied":true}"#);
    let ended: Value = serde_json::from_str(told[1]).unwrap();
    assert_eq!(ended["satisfied"], false);
    assert_eq!(ended["value"]["status"], "completed", "{ended}");
}
