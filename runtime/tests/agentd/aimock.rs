//! The agent loop with a model server that we did not write, aimock, once by each family of wire that it speaks, and with
//! the tools of MCP's reference server: what a task comes to, and what the model was told, by the model's own journal.

use std::path::Path;

use serde_json::{Value, json};

use crate::a2a::Caller;
use crate::peers::{Peer, TESTS};
use crate::process::Agentd;

/// What a task comes to, whatever the wire.
struct Case {
    prompt: &'static str,
    code: i32,
    answer: &'static str,
    /// The status of each request.
    asked: &'static [u16],
    /// What the last request says of calls, each by its id, by how its text begins.
    told: &'static [(&'static str, &'static str)],
}

const CASES: [Case; 9] = [
    Case {
        prompt: "add 2 and 40",
        code: 0,
        answer: "The answer is 42.\n",
        asked: &[200, 200],
        told: &[("call_add", "The sum of 2 and 40 is 42.")],
    },
    Case {
        prompt: "two at once",
        code: 0,
        answer: "both done\n",
        asked: &[200, 200],
        told: &[("call_p1", "Echo: one"), ("call_p2", "Echo: two")],
    },
    Case {
        prompt: "unknown tool",
        code: 0,
        answer: "recovered from unknown tool\n",
        asked: &[200, 200],
        told: &[("call_x", "ERROR: there is no tool no_such_tool now")],
    },
    // By one wire aimock puts {} in the place of what it cannot parse, and the server misses its numbers.
    Case {
        prompt: "bad arguments",
        code: 0,
        answer: "recovered from bad arguments\n",
        asked: &[200, 200],
        told: &[("call_b", "ERROR: ")],
    },
    Case {
        prompt: "rate limit",
        code: 0,
        answer: "after the limit\n",
        asked: &[429, 200],
        told: &[],
    },
    Case {
        prompt: "cut short",
        code: 0,
        answer: "whole on the second try\n",
        asked: &[200, 200],
        told: &[],
    },
    Case {
        prompt: "slow",
        code: 0,
        answer: "slow words come one by one\n",
        asked: &[200],
        told: &[],
    },
    Case {
        prompt: "too long",
        code: 0,
        answer: "stopped at the limit\n",
        asked: &[200],
        told: &[],
    },
    // The ids are drawn.
    Case {
        prompt: "forever",
        code: 3,
        answer: "",
        asked: &[200, 200, 200, 200],
        told: &[
            ("", "Echo: again"),
            ("", "Echo: again"),
            ("", "Echo: again\n\n[This has now been done three times in a row"),
        ],
    },
];

/// The calls and the results of a request, in their order; aimock's journal has the shape of one wire for all.
fn calls_and_results(request: &Value) -> (Vec<&str>, Vec<(&str, &str)>) {
    let messages = request["body"]["messages"].as_array().unwrap();
    let calls = messages
        .iter()
        .filter_map(|message| message["tool_calls"].as_array())
        .flatten()
        .map(|call| call["id"].as_str().unwrap());
    let results = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| {
            (
                message["tool_call_id"].as_str().unwrap(),
                message["content"].as_str().unwrap(),
            )
        });
    (calls.collect(), results.collect())
}

fn is_about(request: &Value, prompt: &str) -> bool {
    let messages = request["body"]["messages"].as_array().unwrap();
    messages
        .iter()
        .any(|message| message["role"] == "user" && message["content"] == prompt)
}

async fn every_task_comes_to_what_is_said(dialect: &str, path: &str) {
    let fixtures = Path::new(TESTS).join("peers/models/agent-loop.json");
    let (model, tools) = (Peer::aimock(&fixtures).await, Peer::everything().await);
    for case in &CASES {
        let folder = tempfile::tempdir().unwrap();
        let document = json!({
            "agent": { "instruction": "Be brief.", "prompt": case.prompt },
            "intelligence": {
                "endpoints": [{ "name": "m", "url": format!("http://127.0.0.1:{}/v1", model.port) }],
                "model": "scripted",
                "dialect": dialect,
            },
            "mcp": { "servers": [{ "name": "tools", "endpoint": format!("http://127.0.0.1:{}/mcp", tools.port) }] },
        });
        let file = folder.path().join("agentd.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let agentd = Agentd::start(&["--config", file.to_str().unwrap()], &[], folder.path());
        let (status, output, lines) = agentd.end().await;
        assert_eq!(
            (status.code(), output.as_str()),
            (Some(case.code), case.answer),
            "{dialect}: {}: {lines:#?}",
            case.prompt
        );
        let is_loop = lines.iter().any(|line| line["status"] == "loop_detected");
        assert_eq!(is_loop, case.prompt == "forever", "{dialect}: {lines:#?}");
    }

    let journal = Caller::new(&format!("127.0.0.1:{}", model.port));
    let (_, journal) = journal.get("/__aimock/journal").await.unwrap();
    let journal: Vec<Value> = serde_json::from_str(&journal).unwrap();
    for case in &CASES {
        let what = format!("{dialect}: {}", case.prompt);
        let requests: Vec<&Value> = journal
            .iter()
            .filter(|request| is_about(request, case.prompt))
            .collect();
        let asked: Vec<_> = requests
            .iter()
            .map(|request| (request["path"].as_str(), request["response"]["status"].as_u64()))
            .collect();
        let expected: Vec<_> = case
            .asked
            .iter()
            .map(|status| (Some(path), Some(u64::from(*status))))
            .collect();
        assert_eq!(asked, expected, "{what}");
        // Never a call without its result, and never a result without its call.
        for request in &requests {
            let (calls, results) = calls_and_results(request);
            let answered: Vec<_> = results.iter().map(|(id, _)| *id).collect();
            assert_eq!(calls, answered, "{what}: {request:#}");
        }
        let last = requests.last().unwrap();
        let (_, told) = calls_and_results(last);
        assert_eq!(told.len(), case.told.len(), "{what}: {last:#}");
        for ((id, text), (its, begins)) in told.iter().zip(case.told) {
            assert!(its.is_empty() || id == its, "{what}: {id}");
            assert!(text.starts_with(begins), "{what}: {text}");
        }
    }
    assert_eq!(
        journal.len(),
        CASES.iter().map(|case| case.asked.len()).sum::<usize>()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_with_aimock_by_chat_completions() {
    every_task_comes_to_what_is_said("openai", "/v1/chat/completions").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_with_aimock_by_responses() {
    every_task_comes_to_what_is_said("openai-responses", "/v1/responses").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_with_aimock_by_messages() {
    every_task_comes_to_what_is_said("anthropic", "/v1/messages").await;
}
