//! What callers send is more than the agent may hold.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::process::PATIENCE;
use crate::{World, killed, status};

/// An agent pod may have 512 MiB, its workers included.
const RESIDENT_KIB: u64 = 128 * 1024;
/// The process that the tests run, and no other.
const PLAIN: &str = r#"exec "$0" "$@""#;

fn reason(answer: &Value) -> &str {
    let details = answer["error"]["data"].as_array().unwrap();
    details.last().unwrap()["reason"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_large_messages_is_refused_in_time_and_a_restart_does_not_take_it_up_at_once() {
    let mut world = World::new().await;
    let (agentd, caller, _) = world.start(PLAIN).await;
    let text = format!("hold {}", "x".repeat(1_000_000));
    let mut accepted = Vec::new();
    for number in 0..64 {
        // The first few share a conversation, so that some wait for their turn.
        let context = format!("c{}", number / 4);
        let more = json!({ "returnImmediately": true, "contextId": context });
        let answer = caller.try_send(&format!("m{number}"), &text, more).await.unwrap();
        match answer["result"]["task"]["id"].as_str() {
            Some(id) => accepted.push(id.to_owned()),
            None => assert_eq!(reason(&answer), "TOO_MANY_MESSAGES", "{answer}"),
        }
    }
    // 8 MiB for one principal.
    assert_eq!(accepted.len(), 8);
    let peak = status(&agentd, "VmHWM:");
    assert!(peak < RESIDENT_KIB, "{peak} KiB");
    // Small messages of the same caller have no place either, and it is told when to come again.
    let more = json!({ "returnImmediately": true });
    let small = caller
        .try_send("small", &"x".repeat(500_000), more)
        .await
        .unwrap();
    assert_eq!(small["error"]["data"][0]["retryDelay"], "5s", "{small}");
    // What had begun when it was killed has failed; what waited is taken up.
    for _ in 0..2 {
        world.model.holds().await;
    }
    killed(agentd).await;
    let (mut agentd, caller, _) = world.start(PLAIN).await;
    let restored = agentd.event("restore.done").await;
    assert_eq!(
        (restored["resumed"].as_u64(), restored["failed"].as_u64()),
        (Some(6), Some(2))
    );
    let peak = status(&agentd, "VmHWM:");
    assert!(peak < RESIDENT_KIB, "{peak} KiB");
    // Those of the process before count as open until they end.
    for _ in 0..8 {
        world.model.release();
    }
    for id in &accepted {
        let task = caller.ended(id).await;
        let state = task["status"]["state"].as_str().unwrap();
        assert!(
            ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"].contains(&state),
            "{state}"
        );
    }
    assert!(caller.send("after", "hi", json!({})).await["id"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_bodies_at_once_do_not_take_the_memory() {
    let world = World::new().await;
    let (agentd, caller, _) = world.start(PLAIN).await;
    let address = agentd.lines("a2a.listen")[0]["address"]
        .as_str()
        .unwrap()
        .to_owned();
    let before = status(&agentd, "VmRSS:");
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n\
                content-length: 1000000\r\n\r\n";
    let part = "x".repeat(900_000);
    let mut held = Vec::new();
    for _ in 0..200 {
        let address = address.clone();
        let part = part.clone();
        held.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            // All but the end, as far as it is taken.
            let _ = stream.write_all(part.as_bytes()).await;
            stream
        }));
    }
    // Those that are beyond what may wait are told so; the others hold what they have.
    let mut streams = Vec::new();
    for one in held {
        streams.push(one.await.unwrap());
    }
    let mut told = 0;
    for stream in &mut streams {
        let mut line = [0_u8; 12];
        let got = stream.try_read(&mut line);
        told += usize::from(got.is_ok_and(|length| line[..length].starts_with(b"HTTP/1.1 429")));
    }
    let peak = status(&agentd, "VmHWM:");
    assert!(
        peak < before + 64 * 1024,
        "{before} KiB, then {peak} KiB; {told} told"
    );
    drop(streams);
    // What they held is given back, one after the other.
    let again = async {
        loop {
            let answer = caller.try_send("after", "hi", json!({})).await.unwrap();
            if answer["error"]["code"] != 429 {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, again).await.unwrap();
    let state = &answer["result"]["task"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_COMPLETED", "{answer}");
}
