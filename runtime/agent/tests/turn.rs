//! The turn with a scripted model and scripted tools: what it asks, what it carries out, and how it ends.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod scripted;

use agentd_agent::{Status, Transcript, TurnInput, TurnLimits, TurnOutcome, turn};
use agentd_base::class::exit;
use agentd_llm::{Block, Message, ModelError, Stop, ToolResult, Usage};
use scripted::{Scripted, Tools, calls, input, reply, results, run, says};
use serde_json::json;

#[tokio::test]
async fn one_answer() {
    let ran = run(input(), vec![says("hello")]).await;
    assert_eq!(
        (ran.outcome.status, ran.outcome.text.as_str()),
        (Status::Completed, "hello")
    );
    assert_eq!(
        (
            ran.outcome.steps,
            ran.outcome.tool_calls,
            ran.outcome.usage.total()
        ),
        (1, 0, 15)
    );
    assert_eq!(ran.outcome.reason, None);
    assert_eq!(ran.asked[0].system, "Be kind.\n\nAbout one.");
    assert_eq!(ran.asked[0].messages, [Message::User("go".into())]);
    assert_eq!(ran.asked[0].tools.len(), 1);
}

#[tokio::test]
async fn tools_are_carried_out_in_order_and_observed() {
    let ran = run(
        input(),
        vec![calls(&["one", "fail"]), calls(&["two"]), says("done")],
    )
    .await;
    assert_eq!(
        ran.called,
        [("one".into(), 0), ("fail".into(), 1), ("two".into(), 2)]
    );
    assert_eq!((ran.outcome.steps, ran.outcome.tool_calls), (6, 3));
    assert_eq!(
        ran.outcome.usage,
        Usage {
            input: 30,
            output: 15,
            cached: 0
        }
    );
    let result = |id: &str, content: &str, is_error| ToolResult {
        call_id: id.into(),
        content: content.into(),
        is_error,
    };
    assert_eq!(
        ran.asked[1].messages[2],
        Message::Results(vec![
            result("one-0", "one done", false),
            result("fail-1", "ERROR: it broke", true)
        ])
    );
    assert_eq!(ran.asked[2].messages.len(), 5);
}

#[tokio::test]
async fn m24_what_the_servers_offer_is_taken_up_before_each_round() {
    let ran = run(input(), vec![calls(&["one"]), calls(&["change"]), says("done")]).await;
    let asked: Vec<(&str, &str)> = ran
        .asked
        .iter()
        .map(|request| (request.system.as_str(), request.tools[0].name.as_str()))
        .collect();
    let (one, two) = (
        ("Be kind.\n\nAbout one.", "one"),
        ("Be kind.\n\nAbout two.", "two"),
    );
    assert_eq!(asked, [one, one, two]);
}

#[tokio::test]
async fn the_next_turn_goes_on_from_the_transcript() {
    let first = run(input(), vec![calls(&["one"]), says("done")]).await;
    let travelled = serde_json::from_value(serde_json::to_value(&first.outcome.transcript).unwrap()).unwrap();
    let second = run(
        TurnInput {
            transcript: travelled,
            text: "more".into(),
            ..input()
        },
        vec![says("yes")],
    )
    .await;
    let messages = &second.asked[0].messages;
    assert_eq!(messages.len(), 5);
    assert_eq!(messages[3], Message::Assistant(vec![Block::Text("done".into())]));
    assert_eq!(messages[4], Message::User("more".into()));
}

#[tokio::test]
async fn field_l06_an_empty_answer_completes_the_turn() {
    let ran = run(input(), vec![Ok(reply(vec![], Stop::End))]).await;
    assert_eq!(
        (ran.outcome.status, ran.outcome.text.as_str()),
        (Status::Completed, "")
    );
    // It is not in the transcript: providers refuse empty answers of ours.
    assert_eq!(ran.outcome.transcript.messages(), [Message::User("go".into())]);
}

#[tokio::test]
async fn a_message_that_a_provider_refuses_is_not_said_again_with_the_next() {
    let too_long = ModelError::TooLong {
        endpoint: "gw".into(),
        message: "no".into(),
    };
    let ran = run(input(), vec![Err(too_long)]).await;
    assert_eq!(ran.outcome.status, Status::Failed);
    assert_eq!(ran.outcome.transcript, Transcript::default());
    let down = run(input(), vec![Err(ModelError::NoEndpoint)]).await;
    assert_eq!(down.outcome.transcript.messages(), [Message::User("go".into())]);
}

#[tokio::test]
async fn how_the_model_stopped_is_told() {
    let cut = run(
        input(),
        vec![Ok(reply(vec![Block::Text("half".into())], Stop::Length))],
    )
    .await;
    assert_eq!(cut.outcome.status, Status::Completed);
    assert_eq!(
        cut.outcome.reason.as_deref(),
        Some("the model's length limit cut the answer")
    );
    let refused = run(
        input(),
        vec![Ok(reply(vec![Block::Text("No.".into())], Stop::Refused))],
    )
    .await;
    assert_eq!(
        (refused.outcome.status, refused.outcome.text.as_str()),
        (Status::Refused, "No.")
    );
    assert_eq!(refused.outcome.status.exit_code(), exit::REFUSED);
}

#[tokio::test]
async fn field_l10_the_step_limit_ends_between_steps_and_answers_open_calls() {
    let limits = TurnLimits {
        steps: 3,
        ..input().limits
    };
    let ran = run(
        TurnInput { limits, ..input() },
        vec![calls(&["one", "two", "three"])],
    )
    .await;
    assert_eq!(ran.outcome.status, Status::ExhaustedSteps);
    assert_eq!(
        ran.outcome.reason.as_deref(),
        Some("limits.run.steps (3) is used up")
    );
    assert_eq!((ran.called.len(), ran.outcome.steps), (2, 3));
    assert_eq!(
        results(&ran.outcome)[2],
        (
            "ERROR: not carried out: limits.run.steps (3) is used up".into(),
            true
        )
    );
    assert_eq!(ran.outcome.status.exit_code(), exit::BUDGET);
}

#[tokio::test]
async fn field_l10_the_token_limit_ends_before_the_next_step() {
    let limits = TurnLimits {
        tokens: 30,
        ..input().limits
    };
    let ran = run(
        TurnInput { limits, ..input() },
        vec![calls(&["one"]), calls(&["two"])],
    )
    .await;
    assert_eq!(
        (ran.outcome.status, ran.outcome.usage.total()),
        (Status::ExhaustedTokens, 30)
    );
    assert_eq!(ran.called, [("one".into(), 0)]);
    // An answer that used up the rest is an answer all the same, however it is given.
    for (answer, text) in [(says("done"), "done"), (calls(&["finish"]), "the end")] {
        let ran = run(TurnInput { limits, ..input() }, vec![calls(&["one"]), answer]).await;
        assert_eq!(
            (ran.outcome.status, ran.outcome.text.as_str()),
            (Status::Completed, text)
        );
    }
    // Beside it nothing is done any more whose result nobody could read.
    let answer = calls(&["two", "finish", "three"]);
    let ran = run(TurnInput { limits, ..input() }, vec![calls(&["one"]), answer]).await;
    assert_eq!(
        (ran.outcome.status, ran.outcome.text.as_str()),
        (Status::Completed, "the end")
    );
    assert_eq!(ran.called, [("one".into(), 0), ("finish".into(), 1)]);
    let told = scripted::results(&ran.outcome);
    let expected = [
        ("ERROR: not carried out: the turn has ended".to_owned(), true),
        ("the turn ends".to_owned(), false),
        ("ERROR: not carried out: the turn has ended".to_owned(), true),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn what_leaves_a_turn_is_what_can_be_kept() {
    // The result is longer than that: it repeats the name.
    let long = "x".repeat(10_000);
    let script = || vec![calls(&[long.as_str()]), says("done")];
    for (kept_bytes, is_cut) in [(20_000, false), (3_000, true)] {
        let input = TurnInput {
            kept_bytes,
            ..input()
        };
        let ran = run(input, script()).await;
        assert_eq!(ran.outcome.status, Status::Completed);
        let [(result, false)] = &scripted::results(&ran.outcome)[..] else {
            panic!("{:?}", ran.outcome.transcript)
        };
        assert_eq!(
            result.ends_with("[cut here to make room]"),
            is_cut,
            "{}",
            result.len()
        );
        let kept = serde_json::to_vec(&ran.outcome.transcript).unwrap();
        assert!(kept.len() as u64 <= kept_bytes, "{}", kept.len());
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_a_model_or_a_tool_that_hangs() {
    let ran = run(input(), vec![]).await;
    assert_eq!((ran.outcome.status, ran.outcome.steps), (Status::Deadline, 1));
    assert_eq!(
        ran.outcome.reason.as_deref(),
        Some("limits.run.deadline (1m) is over")
    );
    let ran = run(input(), vec![calls(&["slow", "two"])]).await;
    assert_eq!((ran.outcome.status, ran.called.len()), (Status::Deadline, 2));
    let unknown = "ERROR: the turn ended before the result came; the call may have been carried out";
    assert_eq!(
        results(&ran.outcome),
        [(unknown.into(), true), ("two done".into(), false)]
    );
}

#[tokio::test]
async fn cancel_ends_a_model_or_a_tool_that_hangs() {
    let ran = run(input(), vec![calls(&["cancel", "two"])]).await;
    assert_eq!((ran.outcome.status, ran.called.len()), (Status::Cancelled, 2));
    assert_eq!((ran.outcome.steps, ran.outcome.tool_calls), (3, 2));
    assert_eq!(ran.outcome.status.exit_code(), exit::FAILURE);

    let (model, tools) = (Scripted::default(), Tools::default());
    let cancelled = async {
        tokio::task::yield_now().await;
        tools.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(turn::run(input(), &model, &tools, &tools.cancel), cancelled);
    assert_eq!((outcome.status, outcome.steps), (Status::Cancelled, 1));
    let outcome = turn::run(input(), &model, &tools, &tools.cancel).await;
    assert_eq!((outcome.status, outcome.steps), (Status::Cancelled, 0));
}

#[tokio::test]
async fn a_model_that_does_not_answer_ends_the_turn_with_its_reason() {
    let denied = ModelError::Denied {
        endpoint: "gw".into(),
        reason: "status 401".into(),
    };
    for (error, status, code) in [
        (denied, Status::ModelUnavailable, exit::MODEL),
        (ModelError::NoEndpoint, Status::Failed, exit::FAILURE),
        (ModelError::Deadline, Status::Deadline, exit::BUDGET),
    ] {
        let expected = error.to_string();
        let ran = run(input(), vec![calls(&["one"]), Err(error)]).await;
        assert_eq!(
            (ran.outcome.status, ran.outcome.status.exit_code()),
            (status, code)
        );
        if status != Status::Deadline {
            assert_eq!(ran.outcome.reason, Some(expected));
        }
        // What was done is kept.
        assert_eq!(ran.outcome.transcript.messages().len(), 3);
    }
}

#[test]
fn an_outcome_travels_as_json() {
    let mut transcript = Transcript::default();
    transcript.push_user("x");
    let outcome = TurnOutcome {
        status: Status::ExhaustedSteps,
        text: "t".into(),
        reason: None,
        plain: Some("p".into()),
        transcript,
        rounds: 1,
        compactions: 0,
        steps: 1,
        tool_calls: 0,
        usage: Usage::default(),
    };
    let wire = serde_json::to_value(&outcome).unwrap();
    assert_eq!(wire["status"], json!("exhausted_steps"));
    assert_eq!(serde_json::from_value::<TurnOutcome>(wire).unwrap(), outcome);
}
