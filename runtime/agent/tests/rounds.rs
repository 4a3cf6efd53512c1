//! The calls of a round, and rounds that get nowhere.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod scripted;

use agentd_agent::{Status, TurnInput, TurnLimits};
use agentd_base::class::exit;
use agentd_llm::{Block, Message, ModelError, ModelReply, Stop, ToolCall};
use scripted::{Scripted, Tools, calls, input, results, run, run_with, says};

fn script(answers: Vec<Result<ModelReply, agentd_llm::ModelError>>) -> Scripted {
    Scripted {
        answers: std::sync::Mutex::new(answers.into()),
        ..Scripted::default()
    }
}

#[tokio::test]
async fn calls_of_a_round_are_under_way_at_the_same_time_and_keep_their_order() {
    let tools = Tools {
        meeting: 3,
        ..Tools::default()
    };
    let ran = run_with(
        tools,
        input(),
        script(vec![calls(&["meet", "one", "meet", "meet"]), says("done")]),
    )
    .await;
    let names = ["meet", "one", "meet", "meet"];
    let called: Vec<_> = names.iter().map(|name| (*name).to_owned()).zip(0..).collect();
    assert_eq!(ran.called, called, "they begin in the order of the calls");
    let texts = ["met 0", "one done", "met 2", "met 3"];
    let expected: Vec<_> = texts.iter().map(|text| ((*text).to_owned(), false)).collect();
    assert_eq!(results(&ran.outcome), expected, "and are answered in it");
    assert_eq!(
        (ran.outcome.rounds, ran.outcome.steps, ran.outcome.tool_calls),
        (2, 6, 4)
    );
}

#[tokio::test]
async fn no_more_calls_than_the_bound_are_under_way() {
    // Eight meet, and the ninth has to wait for one of them to end: alone it could not.
    let tools = Tools {
        meeting: 8,
        ..Tools::default()
    };
    let names = ["meet"; 16];
    let ran = run_with(tools, input(), script(vec![calls(&names), says("done")])).await;
    assert_eq!((ran.outcome.status, ran.called.len()), (Status::Completed, 16));
    assert!(results(&ran.outcome).iter().all(|(_, is_error)| !is_error));
}

#[tokio::test]
async fn a_cancel_in_the_middle_answers_every_call_and_counts_those_that_began() {
    let names = [
        "one", "slow", "slow", "slow", "slow", "slow", "slow", "slow", "cancel", "two",
    ];
    let ran = run(input(), vec![calls(&names)]).await;
    assert_eq!(ran.outcome.status, Status::Cancelled);
    let count = ran.called.len();
    assert_eq!(
        (ran.outcome.steps as usize, ran.outcome.tool_calls as usize),
        (count + 1, count)
    );
    let results = results(&ran.outcome);
    assert_eq!(results.len(), names.len());
    assert_eq!(results[0], ("one done".into(), false));
    let unknown = "ERROR: the turn ended before the result came; the call may have been carried out";
    assert!(
        results[1..9].iter().all(|(text, _)| text == unknown),
        "{results:?}"
    );
    assert_eq!(
        results[9],
        ("ERROR: not carried out: the turn was cancelled".into(), true)
    );
}

#[tokio::test]
async fn finish_is_acted_on_after_all_calls_of_the_round() {
    let ran = run(
        input(),
        vec![calls(&["finish-done", "one", "finish-late"]), says("never asked")],
    )
    .await;
    assert_eq!(ran.asked.len(), 1);
    assert_eq!(ran.called.len(), 3);
    assert_eq!(
        (ran.outcome.status, ran.outcome.text.as_str(), ran.outcome.reason),
        (Status::Completed, "the end", None)
    );
    // Every call has its result, and the next turn goes on from there.
    assert_eq!(ran.outcome.transcript.messages().len(), 3);
}

#[tokio::test]
async fn finish_says_how_the_turn_ends() {
    for (tool, status, code) in [
        ("finish-failed", Status::Failed, exit::FAILURE),
        ("finish-refused", Status::Refused, exit::REFUSED),
        ("finish-cancelled", Status::Cancelled, exit::FAILURE),
    ] {
        let mut answer = calls(&[tool]).unwrap();
        answer.blocks.insert(0, Block::Text("No use.".into()));
        let ran = run(input(), vec![Ok(answer)]).await;
        assert_eq!(
            (ran.outcome.status, ran.outcome.status.exit_code()),
            (status, code)
        );
        assert_eq!(ran.outcome.reason.as_deref(), Some("so it is"));
        assert_eq!(ran.outcome.text, "No use.", "what it said stands");
    }
    let ran = run(input(), vec![calls(&["finish-plain"])]).await;
    assert_eq!(
        (ran.outcome.status, ran.outcome.text.as_str()),
        (Status::Completed, "")
    );
}

#[tokio::test]
async fn a_call_that_the_length_limit_cut_off_is_not_made() {
    let cut = |answer: Result<ModelReply, ModelError>, more: &[Block]| {
        let ModelReply {
            mut blocks, usage, ..
        } = answer.unwrap();
        blocks.extend_from_slice(more);
        Ok(ModelReply {
            blocks,
            usage,
            stop: Stop::Length,
        })
    };
    let text = Block::Text("and th".into());
    let answers = vec![
        cut(calls(&["one", "finish-done"]), &[]),
        // All of this was cut off.
        cut(calls(&["two"]), &[]),
        // The call was said to its end.
        cut(calls(&["three"]), &[text]),
        says("done"),
    ];
    let ran = run(input(), answers).await;
    assert_eq!(
        (
            ran.outcome.status,
            ran.outcome.text.as_str(),
            ran.outcome.tool_calls
        ),
        (Status::Completed, "done", 2)
    );
    assert_eq!(ran.called, [("one".into(), 0), ("three".into(), 1)]);
    let told: Vec<Vec<_>> = ran.asked[1..]
        .iter()
        .map(|request| match request.messages.last() {
            Some(Message::Results(results)) => results
                .iter()
                .map(|result| (result.content.clone(), result.is_error))
                .collect(),
            other => panic!("{other:?}"),
        })
        .collect();
    let cut = "ERROR: not carried out: the length limit cut this answer off in the middle of the call; do it in \
               smaller pieces, each with a call of its own";
    assert_eq!(
        told,
        [
            vec![("one done".to_owned(), false), (cut.to_owned(), true)],
            vec![(cut.to_owned(), true)],
            vec![("three done".to_owned(), false)],
        ]
    );
}

#[tokio::test]
async fn what_ends_a_round_in_the_middle_comes_before_its_finish() {
    let limits = TurnLimits {
        steps: 2,
        ..input().limits
    };
    let ran = run(
        TurnInput { limits, ..input() },
        vec![calls(&["finish-done", "one"])],
    )
    .await;
    assert_eq!(ran.outcome.status, Status::ExhaustedSteps);
}

#[tokio::test]
async fn field_l10_the_same_calls_with_the_same_results_end_the_turn_after_a_warning() {
    let answers = (0..9).map(|_| calls(&["one", "fail"])).collect();
    let ran = run(input(), answers).await;
    assert_eq!(
        (ran.outcome.status, ran.outcome.status.exit_code()),
        (Status::LoopDetected, exit::PARTIAL)
    );
    assert_eq!(
        ran.outcome.reason.as_deref(),
        Some("the same calls brought the same results 4 times in a row")
    );
    assert_eq!((ran.asked.len(), ran.called.len()), (4, 8));
    let told = |request: &agentd_llm::ModelRequest| match request.messages.last() {
        Some(Message::Results(results)) => results.last().unwrap().content.clone(),
        _ => String::new(),
    };
    let told: Vec<_> = ran
        .asked
        .iter()
        .map(|request| told(request).contains("Once more"))
        .collect();
    assert_eq!(told, [false, false, false, true], "it is told before the fourth");
}

#[tokio::test]
async fn results_that_change_and_rounds_that_sleep_are_no_loop() {
    for tools in [&["news"][..], &["one", "sleep"]] {
        let mut answers: Vec<_> = (0..12).map(|_| calls(tools)).collect();
        answers.push(says("done"));
        let ran = run(input(), answers).await;
        assert_eq!(ran.outcome.status, Status::Completed, "{tools:?}");
    }
    let mut answers: Vec<_> = (0..12)
        .flat_map(|_| [calls(&["one"]), calls(&["sleep"])])
        .collect();
    answers.push(says("done"));
    assert_eq!(run(input(), answers).await.outcome.status, Status::Completed);
    // Other arguments are other calls.
    let with = |number: u32| {
        let mut answer = calls(&["one"]).unwrap();
        if let Block::ToolCall(ToolCall { arguments, .. }) = &mut answer.blocks[0] {
            *arguments = agentd_llm::Arguments::parse(&format!("{{\"page\": {number}}}"));
        }
        Ok(answer)
    };
    let mut answers: Vec<_> = (0..12).map(with).collect();
    answers.push(says("done"));
    assert_eq!(run(input(), answers).await.outcome.status, Status::Completed);
}

#[tokio::test]
async fn field_m06_a_call_that_fails_is_told_to_the_model_and_the_turn_goes_on() {
    let ran = run(input(), vec![calls(&["fail", "one"]), says("mended")]).await;
    assert_eq!(
        (ran.outcome.status, ran.outcome.text.as_str()),
        (Status::Completed, "mended")
    );
    assert_eq!(
        results(&ran.outcome),
        [("ERROR: it broke".into(), true), ("one done".into(), false)]
    );
}
