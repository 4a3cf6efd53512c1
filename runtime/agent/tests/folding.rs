//! Conversations that are too long, and answers that have to fit a schema.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod scripted;

use agentd_agent::{ContextLimits, Status, Transcript, TurnInput};
use agentd_llm::{Message, ModelError, ModelRequest};
use proptest::prelude::*;
use scripted::{calls, input, run, says};
use serde_json::{Value, json};

const SUMMARY: &str =
    r#"{"goals": ["win"], "decisions": [], "open": ["all"], "facts": ["id 7"], "narrative": "We began."}"#;

fn context(window: u64) -> ContextLimits {
    ContextLimits {
        compact_at: 0.7,
        keep_last: 2,
        window,
    }
}

fn long(turns: usize) -> Transcript {
    let items: Vec<Value> = (0..turns)
        .flat_map(|n| {
            let call = json!({"call": {"id": format!("c{n}"), "name": "one", "arguments": {"object": {}},
                "result": {"text": format!("result {n} {}", "x".repeat(2_000)), "is_error": false}}});
            [
                json!({"user": format!("request {n}")}),
                json!({"round": [call]}),
                json!({"round": [{"text": format!("answer {n}")}]}),
            ]
        })
        .collect();
    Transcript::load(json!({"version": 1, "items": items})).transcript
}

fn first(request: &ModelRequest) -> &str {
    match request.messages.first() {
        Some(Message::User(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn too_long() -> Result<agentd_llm::ModelReply, ModelError> {
    Err(ModelError::TooLong {
        endpoint: "gw".into(),
        message: "too many tokens".into(),
    })
}

#[tokio::test]
async fn a_conversation_that_is_too_long_goes_on_from_a_summary() {
    let input = TurnInput {
        transcript: long(20),
        text: "the task, word for word".into(),
        context: context(8_000),
        ..input()
    };
    let ran = run(input, vec![says(&format!("Here: {SUMMARY}")), says("done")]).await;
    assert_eq!((ran.outcome.status, ran.asked.len()), (Status::Completed, 2));
    assert!(ran.asked[0].tools.is_empty() && ran.asked[0].output_schema.is_some());
    assert!(first(&ran.asked[0]).contains("request 0"));
    let told = first(&ran.asked[1]);
    assert!(
        told.contains("- id 7") && told.contains("We began.") && !told.contains("request 0"),
        "{told}"
    );
    let all = format!("{:?}", ran.asked[1].messages);
    assert!(all.contains("the task, word for word") && all.contains("answer 19"));
    // What it took counts.
    assert_eq!(
        (ran.outcome.steps, ran.outcome.rounds, ran.outcome.compactions),
        (2, 1, 1)
    );
    assert_eq!(ran.outcome.usage.total(), 30);
}

#[tokio::test]
async fn without_a_summary_a_part_is_left() {
    for failed in [says("I cannot."), Err(ModelError::NoEndpoint), too_long()] {
        let input = TurnInput {
            transcript: long(20),
            context: context(8_000),
            ..input()
        };
        let ran = run(input, vec![failed, says("done")]).await;
        assert_eq!(
            (ran.outcome.status, ran.outcome.compactions),
            (Status::Completed, 1)
        );
        let told = first(&ran.asked[1]);
        assert!(told.starts_with("[What was said before is cut;") && told.contains("request 0"));
        assert!(told.len() < 9 * 1024, "{}", told.len());
    }
}

#[tokio::test]
async fn a_request_that_the_provider_finds_too_long_is_made_again_once_it_is_shorter() {
    let input = || TurnInput {
        transcript: long(20),
        ..input()
    };
    let ran = run(input(), vec![too_long(), says(SUMMARY), says("done")]).await;
    assert_eq!((ran.outcome.status, ran.outcome.steps), (Status::Completed, 3));
    assert!(ran.asked[2].messages.len() < ran.asked[0].messages.len() / 2);
    let ran = run(input(), vec![too_long(), says(SUMMARY), too_long()]).await;
    assert_eq!((ran.outcome.status, ran.asked.len()), (Status::Failed, 3));
    // One that cannot be shorter.
    let ran = run(scripted::input(), vec![too_long()]).await;
    assert_eq!((ran.outcome.status, ran.asked.len()), (Status::Failed, 1));
}

fn answer_schema() -> Option<Value> {
    Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}))
}

#[tokio::test]
async fn an_answer_is_asked_again_until_it_fits_twice_at_most() {
    let input = || TurnInput {
        output_schema: answer_schema(),
        ..input()
    };
    let ran = run(
        input(),
        vec![
            says("seven"),
            calls(&["finish-done"]),
            says("```json\n{\"n\": 7}\n```"),
        ],
    )
    .await;
    assert_eq!(
        (ran.outcome.status, ran.outcome.text.as_str()),
        (Status::Completed, "{\"n\":7}")
    );
    assert_eq!(
        ran.asked[0].output_schema.as_ref().map(|one| one.name.as_str()),
        Some("answer")
    );
    let Some(Message::User(asked)) = ran.asked[1].messages.last() else {
        panic!()
    };
    assert!(asked.contains("there is no JSON value in it") && asked.contains("\"required\":[\"n\"]"));
    let ran = run(
        input(),
        vec![says("1"), says("{}"), says("{\"n\": \"7\"}"), says("{\"n\": 7}")],
    )
    .await;
    assert_eq!((ran.outcome.status, ran.asked.len()), (Status::Failed, 3));
    let reason = ran.outcome.reason.unwrap();
    assert!(
        reason.contains("/n: \"7\" is not of type \"integer\""),
        "{reason}"
    );
    let bad = TurnInput {
        output_schema: Some(json!({"type": "what"})),
        ..input()
    };
    let ran = run(bad, vec![]).await;
    assert_eq!((ran.outcome.status, ran.asked.len()), (Status::Failed, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the conversation, window and numbers are: the task stays, no call is parted from its result, and what
    /// is stored is what providers take.
    #[test]
    fn compaction_never_loses_the_task_nor_parts_a_call_from_its_result(
        turns in 0_usize..30,
        window in 500_u64..40_000,
        keep_last in 0_u32..40,
        is_good in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let input = TurnInput {
            transcript: long(turns),
            text: "the task, word for word".into(),
            context: ContextLimits { compact_at: 0.7, keep_last, window },
            ..input()
        };
        let summary = if is_good { says(SUMMARY) } else { says("no") };
        let again = if is_good { says(SUMMARY) } else { says("no") };
        let ran = runtime.block_on(run(input, vec![summary, again, says("done"), says("done")]));
        prop_assert_eq!(ran.outcome.status, Status::Completed);
        let stored = serde_json::to_value(&ran.outcome.transcript).unwrap();
        let loaded = Transcript::load(stored.clone());
        prop_assert_eq!(loaded.repairs, Vec::<String>::new());
        prop_assert_eq!(&loaded.transcript, &ran.outcome.transcript);
        prop_assert!(stored.to_string().contains("the task, word for word"));
        for request in &ran.asked {
            for (at, message) in request.messages.iter().enumerate() {
                let next = request.messages.get(at + 1);
                let calls = matches!(message, Message::Assistant(blocks)
                    if blocks.iter().any(|block| matches!(block, agentd_llm::Block::ToolCall(_))));
                prop_assert_eq!(calls, matches!(next, Some(Message::Results(_))));
                let both = matches!((message, next), (Message::User(_), Some(Message::User(_))));
                prop_assert!(!both);
            }
            prop_assert!(matches!(request.messages.first(), Some(Message::User(_))));
        }
    }
}
