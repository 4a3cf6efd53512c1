//! Subagents in worker processes of their own: what they get, what they cannot do, and what becomes of them.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::a2a::answer;
use crate::model::{task_tools, tool_results};
use crate::process::kill_worker;
use crate::tree::{World, calls, results};

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_subagent_does_its_task_with_what_was_minted_and_nothing_else() {
    let world = World::new().await;
    let (_agentd, caller) = world.start(json!({})).await;
    let task = calls(json!([
        ["echo", { "text": "x" }],
        ["fail", {}],
        ["rich.fail", {}],
        ["memory_set", { "key": "a", "value": 1 }],
        ["subagent_run", { "instruction": "more" }],
        ["resource_read", { "uri": "memo:///todo" }],
    ]));
    let run = json!({ "instruction": task, "tools": ["echo"] });
    caller
        .send("m0", "a secret of the conversation", json!({ "contextId": "c" }))
        .await;
    let done = caller
        .send(
            "m1",
            &calls(json!([["subagent_run", run], ["subagent_list", {}]])),
            json!({ "contextId": "c" }),
        )
        .await;
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done:#}");
    let told = results(&world);
    let told = &told[told.len() - 2..];
    assert_eq!(
        (&told[0]["mode"], &told[0]["status"], &told[0]["tool_calls"]),
        (&json!("sync"), &json!("completed"), &json!(6)),
        "{told:#?}"
    );
    assert_eq!(told[1], json!({ "subagents": [told[0]] }));
    let requests = world.of_subagents();
    for request in &requests {
        assert_eq!(task_tools(request), ["echo"]);
        assert!(
            !request.to_string().contains("a secret of"),
            "it sees nothing of the conversation"
        );
        assert!(
            !request.to_string().contains("ask before you act"),
            "and hears of no other server"
        );
    }
    // Of ours it has what it was given, and its own end.
    let names: Vec<&Value> = requests[0]["tools"].as_array().unwrap().iter().collect();
    let names: Vec<&str> = names
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["finish", "echo"]);
    let seen = tool_results(requests.last().unwrap());
    assert_eq!(seen[0], "echo: x");
    for refused in &seen[1..] {
        assert!(refused.contains("there is no tool"), "{seen:#?}");
    }
    // The worker of the subagent is not even connected: the supervisor is, and the conversation's.
    assert_eq!(world.rich.requests("initialize").len(), 2);
    assert_eq!(world.fs.requests("initialize").len(), 3);
    assert!(world.rich.requests("tools/call").is_empty());
    assert_eq!(world.fs.requests("tools/call").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_what_cannot_be_given_begins_nothing() {
    let world = World::new().await;
    let limits = json!({ "limits": { "subagents": { "depth": 1, "breadth": 1 } } });
    let (agentd, caller) = world.start(limits).await;
    let run = |more: Value| {
        let mut run = json!({ "instruction": "hi" });
        run.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!(["subagent_run", run])
    };
    let task = calls(json!([
        run(json!({ "tools": ["ecko"] })),
        run(json!({ "servers": ["sf"] })),
        run(json!({ "servers": ["rich"], "tools": ["echo"] })),
        run(json!({ "tools": ["workflow.create"] })),
        run(json!({ "mode": "warm" })),
        run(json!({ "mode": "async" })),
    ]));
    caller.send("m1", &task, json!({})).await;
    let told = results(&world);
    let says = |at: usize, words: &str| {
        let text = told[at].as_str().unwrap_or_default();
        assert!(
            text.starts_with("ERROR: ") && text.contains(words),
            "{at} {told:#?}"
        );
    };
    says(0, "no tool ecko");
    says(1, "no server sf");
    says(2, "no tool echo");
    says(3, "workflow.create cannot be given");
    assert_eq!(told[4]["status"], "waiting");
    says(5, "limits.subagents.breadth");
    assert_eq!(world.of_subagents().len(), 1);
    assert_eq!(agentd.lines("subagent.spawn").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_an_async_subagent_is_awaited_and_its_completion_read() {
    let world = World::new().await;
    let (_agentd, caller) = world.start(json!({})).await;
    let task = calls(json!([
        ["subagent_run", { "instruction": "echo y", "mode": "async" }],
        ["await", { "on": ["$handle"], "timeout": "5m" }],
        ["resource_read", { "uri": "agentd://subagents/$handle" }],
        ["subagent_status", { "handle": "$handle" }],
        ["subagent_status", { "handle": "nobody" }],
    ]));
    caller.send("m1", &task, json!({ "contextId": "c" })).await;
    let told = results(&world);
    let handle = told[0]["handle"].as_str().unwrap();
    assert_eq!(
        told[0]["uri"],
        format!("agentd://subagents/{handle}"),
        "{told:#?}"
    );
    assert_eq!(told[1]["satisfied"], true, "{told:#?}");
    assert_eq!(told[2], "the tool said: echo: y");
    assert_eq!(
        (&told[3]["status"], &told[3]["result"]),
        (&json!("completed"), &json!("the tool said: echo: y"))
    );
    assert!(told[4].as_str().unwrap().contains("no subagent of yours"));
    // Another turn, in which nothing else is readable: the completion still is. Another conversation's is not.
    let read = calls(json!([["resource_read", { "uri": format!("agentd://subagents/{handle}") }]]));
    caller.send("m2", &read, json!({ "contextId": "c" })).await;
    assert_eq!(results(&world).last().unwrap(), "the tool said: echo: y");
    caller.send("m3", &read, json!({ "contextId": "d" })).await;
    assert!(results(&world)[0].as_str().unwrap().starts_with("ERROR: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_warm_subagent_knows_what_was_said_until_it_is_ended() {
    let world = World::new().await;
    let (_agentd, caller) = world.start(json!({})).await;
    let task = calls(json!([
        ["subagent_run", { "instruction": "one", "mode": "warm" }],
        ["subagent_send", { "handle": "$handle", "message": "two" }],
        ["subagent_kill", { "handle": "$handle", "reason": "done" }],
        ["subagent_send", { "handle": "$handle", "message": "three" }],
    ]));
    caller.send("m1", &task, json!({})).await;
    let told = results(&world);
    assert_eq!(
        (&told[0]["status"], &told[0]["result"]),
        (&json!("waiting"), &json!("you said: one"))
    );
    assert_eq!(
        (&told[1]["status"], &told[1]["result"]),
        (&json!("waiting"), &json!("you said: two"))
    );
    assert_eq!(told[2]["status"], "cancelled", "{told:#?}");
    assert!(told[3].as_str().unwrap().starts_with("ERROR: "));
    let second = world.of_subagents()[1]["messages"].to_string();
    assert!(second.contains("you said: one"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_each_message_to_a_warm_subagent_gets_its_own_answer_or_is_refused() {
    let world = World::new().await;
    let (_agentd, caller) = world.start(json!({})).await;
    let send = |message: &str, more: Value| {
        let mut call = vec![
            json!("subagent_send"),
            json!({ "handle": "$handle", "message": message }),
        ];
        call.extend(more.as_array().unwrap().clone());
        Value::from(call)
    };
    let task = calls(json!([
        ["subagent_run", { "instruction": "one", "mode": "warm" }],
        send("two", json!(["and"])),
        send("three", json!(["and"])),
        send("four", json!([])),
    ]));
    caller.send("m1", &task, json!({})).await;
    let told = results(&world);
    let mut answered = 0;
    for (told, message) in told[1..].iter().zip(["two", "three", "four"]) {
        match told.as_str() {
            Some(text) => assert!(text.contains("does not wait for a message"), "{told}"),
            None => {
                assert_eq!(told["result"], format!("you said: {message}"));
                answered += 1;
            }
        }
    }
    assert!(answered > 0, "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_the_limits_of_a_run_bound_all_of_its_subagents_together() {
    let world = World::new().await;
    let (_agentd, caller) = world.start(json!({ "limits": { "run": { "steps": 30 } } })).await;
    // Each of the two below them alone would use 41 steps.
    let echoes: Vec<Value> = (0..20)
        .map(|n| json!(["echo", { "text": n.to_string() }]))
        .collect();
    let run = |task: &str, tools: Value| json!({ "instruction": task, "tools": tools });
    let below = calls(json!([[
        "subagent_run",
        run(&calls(Value::from(echoes)), json!(["echo"]))
    ]]));
    let with_one_below = run(&below, json!(["subagent.run", "echo"]));
    let task = calls(json!([
        ["subagent_run", with_one_below, "and"],
        ["subagent_run", with_one_below],
    ]));
    let sent = caller.send("m1", &task, json!({})).await;
    assert!(sent.to_string().contains("limits.run"), "{sent:#}");
    // A round is a step and a call another; what was under way in the end is all that there is beyond it.
    let rounds = world.model.requests().len();
    assert!((10..=20).contains(&rounds), "{rounds}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_worker_that_dies_fails_its_subagent_and_nothing_else() {
    let mut world = World::new().await;
    let (agentd, caller) = world.start(json!({})).await;
    let task =
        calls(json!([["subagent_run", { "instruction": "hold" }], ["echo", { "text": "still here" }]]));
    let sending = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.send("m1", &task, json!({})).await })
    };
    world.model.holds().await;
    // The conversation's worker was the first.
    let child = agentd.workers().into_iter().max().unwrap();
    kill_worker(child);
    let done = sending.await.unwrap();
    assert_eq!(answer(&done), "the tool said: echo: still here", "{done:#}");
    let told = results(&world);
    assert_eq!(told[0]["status"], "failed");
    assert!(
        told[0]["reason"].as_str().unwrap().contains("SIGKILL"),
        "{told:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_subagent_that_a_restart_finds_in_the_middle_has_failed() {
    let mut world = World::new().await;
    let (agentd, caller) = world.start(json!({})).await;
    let task = calls(json!([["subagent_run", { "instruction": "hold", "mode": "detached" }]]));
    caller.send("m1", &task, json!({ "contextId": "c" })).await;
    let handle = results(&world)[0]["handle"].as_str().unwrap().to_owned();
    world.model.holds().await;
    agentd.signal(Signal::SIGKILL);
    agentd.end().await;
    let (mut agentd, caller) = world.start(json!({})).await;
    let ask = calls(json!([["subagent_status", { "handle": handle }], ["subagent_list", {}]]));
    caller.send("m2", &ask, json!({ "contextId": "c" })).await;
    let told = results(&world);
    let told = &told[told.len() - 2..];
    assert_eq!(told[0]["status"], "failed");
    assert!(
        told[0]["reason"].as_str().unwrap().contains("was restarted"),
        "{told:#?}"
    );
    assert_eq!(told[1]["subagents"][0], told[0]);
    assert_eq!(agentd.event("restore.subagents").await["failed"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_drain_ends_what_goes_on_by_itself() {
    let mut world = World::new().await;
    let (agentd, caller) = world.start(json!({})).await;
    let task = calls(json!([["subagent_run", { "instruction": "hold", "mode": "detached" }]]));
    caller.send("m1", &task, json!({})).await;
    world.model.holds().await;
    agentd.signal(Signal::SIGTERM);
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0));
    let ended: Vec<&Value> = lines
        .iter()
        .filter(|line| line["event"] == "subagent.result")
        .collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_memory_artifacts_and_plans_are_kept_over_a_restart() {
    let world = World::new().await;
    let (agentd, caller) = world.start(json!({ "memory": { "max_value_bytes": 20 } })).await;
    let task = calls(json!([
        ["memory_set", { "key": "a", "value": { "b": 1 } }],
        ["memory_set", { "key": "big", "value": "x".repeat(30) }],
        ["artifact_create", { "name": "note", "content": "hello", "sensitive": true }],
        ["plan_create", { "goal": "tea", "items": ["boil", "pour"] }],
        ["plan_update", { "item": 1, "status": "done" }],
        ["status", {}],
        ["workflow_run", { "name": "x" }],
        ["skills_list", {}],
    ]));
    caller.send("m1", &task, json!({ "contextId": "c" })).await;
    let told = results(&world);
    assert_eq!(told[0], json!({ "key": "a", "bytes": 7 }), "{told:#?}");
    assert!(told[1].as_str().unwrap().contains("memory.max_value_bytes"));
    assert_eq!((&told[2]["size"], &told[2]["name"]), (&json!(5), &json!("note")));
    assert_eq!(told[4]["items"][0]["status"], "done");
    assert_eq!(told[5]["servers"].as_array().unwrap().len(), 2);
    assert!(told[6].as_str().unwrap().contains("no workflows"));
    assert_eq!(told[7], json!({ "skills": [] }));
    let id = told[2]["id"].clone();
    agentd.signal(Signal::SIGKILL);
    agentd.end().await;
    let (_agentd, caller) = world
        .start(json!({
            "agent": { "instruction": "Be brief.", "tools": { "internal": ["memory.*", "artifact.*", "plan.get"], "mcp": ["none"] } },
            "tools": { "disabled": ["memory.delete"] },
        }))
        .await;
    let task = calls(json!([
        ["memory_get", { "key": "a" }],
        ["memory_list", {}],
        ["artifact_list", {}],
        ["artifact_get", { "id": id }],
        ["plan_get", {}],
        ["memory_delete", { "key": "a" }],
        ["plan_clear", {}],
        ["echo", {}],
    ]));
    caller.send("m2", &task, json!({ "contextId": "d" })).await;
    let told = results(&world);
    assert_eq!(told[0]["value"], json!({ "b": 1 }), "{told:#?}");
    assert_eq!(told[1]["keys"].as_array().unwrap().len(), 1);
    assert_eq!(told[2]["artifacts"][0]["name"], "[sensitive]");
    assert_eq!(told[3]["content"], "hello");
    assert_eq!(
        told[4],
        json!({ "exists": false }),
        "a plan is the conversation's"
    );
    for refused in &told[5..8] {
        assert!(
            refused.as_str().unwrap().contains("there is no tool"),
            "{told:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_message_goes_into_another_conversation_of_the_same_principal() {
    let world = World::new().await;
    let (_agentd, caller) = world.start(json!({})).await;
    let task = calls(json!([
        ["message_send", { "to": "new", "text": "hi there", "wait": true }],
        ["message_send", { "to": "c", "text": "echo to myself", "wait": true }],
        ["message_send", { "to": "root", "text": "later" }],
    ]));
    caller.send("m1", &task, json!({ "contextId": "c" })).await;
    let told = results(&world);
    // The last request may be that of the message to root: the sender's results are found by their number.
    let of_sender = world.model.requests().into_iter().rev().find(|request| {
        let text = request.to_string();
        text.contains("waits for itself") || text.contains("wait for itself")
    });
    let of_sender = of_sender.unwrap();
    let tools = tool_results(&of_sender);
    let first: Value = serde_json::from_str(tools[0]).unwrap();
    assert_eq!(
        (&first["state"], &first["answer"]),
        (&json!("completed"), &json!("you said: hi there")),
        "{told:#?}"
    );
    assert_ne!(first["context"], "c");
    assert!(tools[1].contains("wait for itself"), "{tools:#?}");
    let later: Value = serde_json::from_str(tools[2]).unwrap();
    assert_eq!(later["context"], "root");
    let later = caller.ended(later["task"].as_str().unwrap()).await;
    assert_eq!(answer(&later), "you said: later");
}

#[tokio::test(flavor = "multi_thread")]
async fn m3_a_contract_is_carried_out_by_the_server_behind_it() {
    let world = World::new().await;
    let overrides =
        json!({ "search.fetch": { "server": "fs", "tool": "echo", "args": { "text": "{{url}}" } } });
    let (agentd, caller) = world.start(json!({ "tools": { "overrides": overrides } })).await;
    let run = |more: Value| {
        let mut run = json!({ "instruction": calls(json!([["search_fetch", { "url": "u" }]])) });
        run.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!(["subagent_run", run])
    };
    let task = calls(json!([
        ["search_fetch", { "url": "https://x.example/" }],
        run(json!({ "servers": ["fs"] })),
        run(json!({ "servers": ["rich"] })),
        ["search_query", { "query": "tea" }],
    ]));
    caller.send("m1", &task, json!({})).await;
    let told = results(&world);
    assert_eq!(told[0], "echo: https://x.example/", "{told:#?}");
    assert_eq!(told[1]["result"], "the tool said: echo: u");
    // Narrowing to a server holds for what another one stands behind.
    assert!(
        told[2]["result"]
            .as_str()
            .unwrap()
            .contains("there is no tool search_fetch"),
        "{told:#?}"
    );
    assert!(told[3].as_str().unwrap().contains("there is no tool"));
    let calls = world.fs.requests("tools/call");
    assert_eq!(calls.len(), 2);
    assert_eq!(
        calls[0]["params"]["_meta"]["agent/idempotency_key"]
            .as_str()
            .unwrap()
            .len(),
        64
    );
    // As every call does (m20), and the audit names the same.
    let traces = calls
        .iter()
        .map(|call| &call["params"]["_meta"]["traceparent"])
        .collect::<Vec<_>>();
    let audited = agentd.lines("audit");
    let at_server = audited.iter().filter(|line| line["action"] == "contract.call");
    assert!(
        at_server.clone().all(|line| line["target"] == "fs/echo"),
        "{audited:#?}"
    );
    let told: Vec<&Value> = at_server.map(|line| &line["trace"]).collect();
    assert_eq!(told, traces, "{audited:#?}");
    assert!(traces.len() == 2 && traces.iter().all(|trace| trace.is_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trifecta_that_is_allowed_is_audited_where_a_subagent_really_holds_it() {
    let world = World::new().await;
    let servers = json!([
        { "name": "fs", "endpoint": world.fs.url(), "tags": { "*": ["untrusted_input"] } },
        { "name": "rich", "endpoint": world.rich.url(), "tags": { "ask": ["sensitive"], "*": ["egress"] } },
    ]);
    let more = json!({ "mcp": { "servers": servers }, "security": { "allow_trifecta": true } });
    let (agentd, caller) = world.start(more).await;
    let task = calls(json!([
        ["subagent_run", { "instruction": "hi" }],
        ["subagent_run", { "instruction": "hi", "servers": ["fs"] }],
        ["subagent_run", { "instruction": "hi", "tools": ["echo", "fail"] }],
        ["subagent_run", { "instruction": "hi", "tools": ["echo", "fail", "ask"] }],
    ]));
    caller.send("m1", &task, json!({})).await;
    assert_eq!(results(&world).len(), 4);
    let audited = agentd.lines("audit");
    let allowed = audited.iter().filter(|line| line["action"] == "trifecta.allowed");
    assert_eq!(
        allowed.filter(|line| line["role"] == "root").count(),
        2,
        "{audited:#?}"
    );
}
