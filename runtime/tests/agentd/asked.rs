//! An agent that asks whoever called it: the task waits for input, and a message with its id is the answer.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::a2a::{Caller, answer, said};
use crate::a2a_tasks::{Events, agent, agent_in, state};
use crate::model::{Model, tool_results};

const WAITS: &str = "TASK_STATE_INPUT_REQUIRED";

fn ask(arguments: Value) -> String {
    format!("calls {}", json!([["ask_human", arguments]]))
}

/// A message about a task.
fn about(task: &Value, message_id: &str, part: Value) -> Value {
    json!({ "message": { "messageId": message_id, "role": "ROLE_USER", "taskId": task["id"], "parts": [part] } })
}

async fn reply(caller: &Caller, task: &Value, message_id: &str, part: Value) -> Value {
    let call = caller.call("SendMessage", about(task, message_id, part));
    call.await.unwrap()
}

/// The result of the last tool that the model was told.
fn seen(model: &Model) -> Value {
    let requests = model.requests();
    serde_json::from_str(tool_results(requests.last().unwrap()).last().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_a_question_waits_for_the_message_that_answers_it() {
    for store in ["file", "memory"] {
        let model = Model::start().await;
        let (_agentd, address, _folder) = agent(&model.url(), &["--store.kind", store]).await;
        let caller = Caller::new(&address);
        let text = ask(json!({ "question": "Which colour?", "recommend": "blue" }));
        // A call that waits for the end comes back when it is asked something.
        let task = caller.send("m1", &text, json!({})).await;
        assert_eq!(state(&task), WAITS, "{task}");
        assert_eq!(said(&task), "Which colour?\n\nThe agent recommends: blue");
        assert_eq!(task["status"]["message"]["role"], "ROLE_AGENT");
        assert_eq!(caller.task(task["id"].as_str().unwrap()).await, task);
        let listed = caller
            .call("ListTasks", json!({ "status": WAITS }))
            .await
            .unwrap();
        assert_eq!(listed["result"]["tasks"][0]["id"], task["id"]);
        // The message again, streamed: the task as it is, and nothing happens before somebody says something.
        let message =
            json!({ "message": { "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": text }] } });
        let again = Events::of(&address, "SendStreamingMessage", message).await;
        assert_eq!(again.rest().await, [format!("{WAITS} ")]);
        // Who follows it hears of the answer.
        let mut follows = Events::of(&address, "SubscribeToTask", json!({ "id": task["id"] })).await;
        assert_eq!(follows.told().await, format!("{WAITS} "));

        let mut elsewhere = about(&task, "m2", json!({ "text": "red" }));
        elsewhere["message"]["contextId"] = json!("another");
        let refused = caller.call("SendMessage", elsewhere).await.unwrap();
        assert_eq!(refused["error"]["code"], -32602);
        let unknown = reply(&caller, &json!({ "id": "none" }), "m2", json!({ "text": "red" })).await;
        assert_eq!(unknown["error"]["code"], -32001);

        for _ in 0..2 {
            let done = reply(&caller, &task, "m2", json!({ "text": "red" })).await;
            let done = done["result"]["task"].clone();
            assert_eq!(
                (&done["id"], state(&done)),
                (&task["id"], "TASK_STATE_COMPLETED"),
                "{done}"
            );
            assert_eq!(
                answer(&done),
                r#"the tool said: {"reply":"red","timed_out":false}"#
            );
            let history: Vec<&Value> = done["history"]
                .as_array()
                .unwrap()
                .iter()
                .map(|m| &m["messageId"])
                .collect();
            assert_eq!(
                history,
                [
                    &json!("m1"),
                    &task["status"]["message"]["messageId"],
                    &json!("m2")
                ]
            );
        }
        assert_eq!(model.requests().len(), 2, "one answer");
        let told = follows.rest().await;
        assert_eq!(told.first().map(String::as_str), Some("TASK_STATE_WORKING"));
        assert_eq!(told.last().map(String::as_str), Some("TASK_STATE_COMPLETED"));
        let over = reply(&caller, &task, "m3", json!({ "text": "blue" })).await;
        assert_eq!(over["error"]["code"], -32004);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_a_form_is_answered_with_data_by_path_and_what_does_not_fit_leaves_it_open() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let caller = Caller::new(&address);
    let schema = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
    let text = ask(json!({ "question": "How many?", "schema": schema }));
    let message =
        json!({ "message": { "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": text }] } });
    let mut events = Events::begin(&address, "POST", "/message:stream", message.to_string()).await;
    let task = events.next().await["task"].clone();
    // It closes where it waits.
    assert_eq!(events.rest().await.last().map(String::as_str), Some(WAITS));
    let waits = caller.task(task["id"].as_str().unwrap()).await;
    let parts = &waits["status"]["message"]["parts"];
    assert_eq!(
        parts,
        &json!([{ "text": "How many?" }, { "data": { "requestedSchema": schema } }])
    );

    let (status, refused) = caller
        .post(
            "/message:send",
            about(&task, "m2", json!({ "data": { "n": "x" } })),
        )
        .await;
    assert_eq!(
        (status, &refused["error"]["status"]),
        (400, &json!("INVALID_ARGUMENT")),
        "{refused}"
    );
    assert_eq!(caller.task(task["id"].as_str().unwrap()).await, waits);

    let values = about(&task, "m2", json!({ "data": { "n": 3 } }));
    let events = Events::begin(&address, "POST", "/message:stream", values.to_string()).await;
    assert_eq!(
        events.rest().await.last().map(String::as_str),
        Some("TASK_STATE_COMPLETED")
    );
    assert_eq!(seen(&model), json!({ "reply": { "n": 3 }, "timed_out": false }));
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_a_question_ends_with_its_time_with_a_refusal_or_with_its_task() {
    let mut model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let caller = Caller::new(&address);
    // Nobody answers: the model is told, and the task goes on by itself.
    let calls = json!([["ask_human", { "question": "Now?", "timeout": "1s" }]]);
    let task = caller.send("m1", &format!("calls {calls}"), json!({})).await;
    assert_eq!(state(&task), WAITS);
    let mut follows = Events::of(&address, "SubscribeToTask", json!({ "id": task["id"] })).await;
    follows.next().await;
    assert_eq!(
        follows.rest().await.last().map(String::as_str),
        Some("TASK_STATE_COMPLETED")
    );
    assert_eq!(seen(&model), json!({ "timed_out": true }));
    // The person does not want to.
    let task = caller
        .send("m2", &ask(json!({ "question": "Please?" })), json!({}))
        .await;
    reply(&caller, &task, "m3", json!({ "data": { "action": "decline" } })).await;
    assert_eq!(seen(&model), json!({ "declined": true, "timed_out": false }));
    // The task is cancelled.
    let task = caller
        .send("m4", &ask(json!({ "question": "Really?" })), json!({}))
        .await;
    let canceled = caller
        .call("CancelTask", json!({ "id": task["id"] }))
        .await
        .unwrap();
    assert_eq!(state(&canceled["result"]), "TASK_STATE_CANCELED", "{canceled}");
    let over = reply(&caller, &task, "m5", json!({ "text": "yes" })).await;
    assert_eq!(over["error"]["code"], -32004);
    // A task that asks nothing takes no answer.
    let task = caller
        .send("m6", "hold", json!({ "returnImmediately": true }))
        .await;
    model.holds().await;
    let busy = reply(&caller, &task, "m7", json!({ "text": "yes" })).await;
    assert_eq!(busy["error"]["code"], -32602);
    model.release();
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_questions_of_one_task_come_one_after_the_other_be_it_of_a_subagent() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let caller = Caller::new(&address);
    let calls = json!([
        ["ask_human", { "question": "First?" }, "and"],
        ["ask_human", { "question": "Second?" }],
        ["subagent_run", { "instruction": ask(json!({ "question": "Third?" })), "tools": ["ask_human"] }],
    ]);
    let mut task = caller.send("m0", &format!("calls {calls}"), json!({})).await;
    let mut questions = Vec::new();
    for number in 1..=3 {
        assert_eq!(state(&task), WAITS, "{task}");
        questions.push(said(&task).to_owned());
        let words = json!({ "text": format!("answer to {}", said(&task)) });
        let answered = reply(&caller, &task, &format!("m{number}"), words).await;
        task = answered["result"]["task"].clone();
    }
    questions.sort();
    assert_eq!(questions, ["First?", "Second?", "Third?"]);
    assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
    let requests = model.requests();
    let results = tool_results(requests.last().unwrap()).join(" ");
    for question in questions {
        assert!(results.contains(&format!("answer to {question}")), "{results}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_that_nobody_answers_leave_a_place_for_others_and_an_answer_that_comes_twice_at_once_is_one()
 {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &["--agent.max_parallel_turns", "2"]).await;
    let caller = Caller::new(&address);
    let text = ask(json!({ "question": "Which colour?" }));
    let waits = caller.send("m1", &text, json!({})).await;
    assert_eq!(state(&waits), WAITS, "{waits}");
    // The second gives its place up at once.
    for (message_id, text, expected) in [("m2", text.as_str(), WAITS), ("m3", "hi", "TASK_STATE_COMPLETED")] {
        let task = caller.send(message_id, text, json!({})).await;
        assert_eq!(state(&task), expected, "{task}");
    }
    let red = || reply(&caller, &waits, "m4", json!({ "text": "red" }));
    let (one, other, third) = tokio::join!(red(), red(), red());
    for answered in [one, other, third] {
        let task = &answered["result"]["task"];
        assert_eq!(
            (&task["id"], state(task)),
            (&waits["id"], "TASK_STATE_COMPLETED"),
            "{answered}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_says_is_kept_however_deep_it_is_nested_or_refused() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &["--store.kind", "file"]).await;
    let caller = Caller::new(&address);
    let message = |id: &str, levels: usize| {
        let data = (0..levels).fold(json!(1), |inner, _| json!([inner]));
        json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "data": data }] } })
    };
    let kept = caller.call("SendMessage", message("m1", 63)).await.unwrap();
    let id = kept["result"]["task"]["id"].as_str().unwrap();
    assert_eq!(caller.task(id).await["id"], id);
    for levels in [64, 110] {
        let refused = caller.call("SendMessage", message("m2", levels)).await.unwrap();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let listed = caller.call("ListTasks", json!({})).await.unwrap();
    assert_eq!(listed["result"]["totalSize"], 1);
}

/// Whoever answers is answered, also by another process than the one that asked.
#[tokio::test(flavor = "multi_thread")]
async fn s13_a_question_outlives_the_process_that_asked_it() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let model = Model::start().await;
        let (agentd, address, folder) = agent(&model.url(), &[]).await;
        let caller = Caller::new(&address);
        let calls = json!([
            ["memory_set", { "key": "before", "value": 1 }],
            ["ask_human", { "question": "Which colour?" }],
            ["memory_set", { "key": "after", "value": 2 }],
        ]);
        let task = caller
            .send("m1", &format!("calls {calls}"), json!({ "contextId": "c" }))
            .await;
        assert_eq!(state(&task), WAITS);
        let at_once = json!({ "contextId": "c", "returnImmediately": true });
        let behind = caller.send("m2", "behind", at_once).await;
        agentd.signal(signal);
        agentd.end().await;
        let asked = model.requests().len();

        let (agentd, address) = agent_in(&folder, &model.url(), &[]).await;
        let caller = Caller::new(&address);
        assert_eq!(caller.task(task["id"].as_str().unwrap()).await, task, "{signal}");
        let mut follows = Events::of(&address, "SubscribeToTask", json!({ "id": task["id"] })).await;
        assert_eq!(follows.told().await, format!("{WAITS} "));
        let waits = caller.task(behind["id"].as_str().unwrap()).await;
        assert_eq!(state(&waits), "TASK_STATE_SUBMITTED");
        for _ in 0..2 {
            let done = reply(&caller, &task, "m3", json!({ "text": "red" })).await["result"]["task"].clone();
            assert_eq!(
                (&done["id"], state(&done)),
                (&task["id"], "TASK_STATE_COMPLETED"),
                "{done}"
            );
            assert_eq!(done["history"].as_array().unwrap().len(), 3);
        }
        assert_eq!(
            follows.rest().await.last().map(String::as_str),
            Some("TASK_STATE_COMPLETED")
        );
        let after = caller.ended(behind["id"].as_str().unwrap()).await;
        assert!(answer(&after).ends_with("behind"), "{after}");
        // Nothing was asked of the model twice, and it knows what was done and said before.
        let requests = model.requests();
        assert_eq!(requests.len(), asked + 3);
        let results = tool_results(&requests[asked]);
        assert_eq!(results.len(), 2, "{results:?}");
        assert_eq!(results[1], r#"{"reply":"red","timed_out":false}"#);
        assert_eq!(tool_results(&requests[asked + 1]).len(), 3);
        drop(agentd);
    }
}

/// Somebody who thinks for long keeps nobody from being answered.
#[tokio::test(flavor = "multi_thread")]
async fn s13_a_turn_that_waits_for_long_holds_no_slot() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &["--agent.max_parallel_turns", "1"]).await;
    let caller = Caller::new(&address);
    let mut waiting = Vec::new();
    for (id, arguments) in [
        ("m1", json!({ "question": "Which colour?" })),
        ("m2", json!({ "question": "Which shape?" })),
        ("m3", json!({ "question": "Now?", "timeout": "8s" })),
    ] {
        let task = caller.send(id, &ask(arguments), json!({})).await;
        assert_eq!(state(&task), WAITS, "{task}");
        waiting.push(task);
    }
    let other = caller.send("m4", "hi", json!({})).await;
    assert_eq!(state(&other), "TASK_STATE_COMPLETED");
    let canceled = caller
        .call("CancelTask", json!({ "id": waiting[1]["id"] }))
        .await
        .unwrap();
    assert_eq!(state(&canceled["result"]), "TASK_STATE_CANCELED", "{canceled}");
    let done = reply(&caller, &waiting[0], "m5", json!({ "text": "red" })).await;
    assert_eq!(
        answer(&done["result"]["task"]),
        r#"the tool said: {"reply":"red","timed_out":false}"#,
        "{done}"
    );
    let mut follows = Events::of(&address, "SubscribeToTask", json!({ "id": waiting[2]["id"] })).await;
    follows.next().await;
    assert_eq!(
        follows.rest().await.last().map(String::as_str),
        Some("TASK_STATE_COMPLETED")
    );
    assert_eq!(seen(&model), json!({ "timed_out": true }));
}
