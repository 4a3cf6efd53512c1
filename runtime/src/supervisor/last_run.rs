//! What the status of the Agent says of the turn that ended last. It names limits and faults in our own words and holds
//! nothing that a caller, a model or a server said: whoever may read an Agent may not read its conversations.

use std::time::Duration;

use agentd_base::report::LastRun;
use jiff::Timestamp;
use tokio::sync::watch;

use super::record::words_of;
use super::turns::TurnEnd;

/// A busy agent ends many turns a second, and every report is a write at the API server: the last one of so long is told.
const PACE: Duration = Duration::from_secs(10);

/// The one of this turn, which `hops` messages of turns led to.
pub(super) fn last_run(
    id: &str,
    hops: u32,
    end: &TurnEnd,
    started_at: Timestamp,
    ended_at: Timestamp,
) -> LastRun {
    let (outcome, reason, steps, tokens) = match end {
        TurnEnd::Done(result) => (
            result.status.label(),
            result
                .plain
                .clone()
                .or_else(|| words_of(result.status).map(str::to_owned)),
            result.steps,
            result.tokens,
        ),
        TurnEnd::Broken { reason, .. } => ("crashed", Some(reason.clone()), 0, 0),
    };
    LastRun {
        id: id.to_owned(),
        trigger: if hops == 0 { "message" } else { "conversation" }.to_owned(),
        outcome: outcome.to_owned(),
        reason,
        started_at,
        ended_at,
        steps,
        tokens,
    }
}

/// Hands `ended` on, at once and then once in [`PACE`], for as long as turns end.
pub(super) async fn paced(mut ended: watch::Receiver<Option<LastRun>>, told: watch::Sender<Option<LastRun>>) {
    while ended.changed().await.is_ok() {
        told.send_replace(ended.borrow_and_update().clone());
        tokio::time::sleep(PACE).await;
    }
}

#[cfg(test)]
mod tests {
    use agentd_agent::Status;
    use serde_json::Value;

    use super::*;
    use crate::worker::frame::TurnResult;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn done(status: Status) -> TurnEnd {
        TurnEnd::Done(Box::new(TurnResult {
            run_id: "t1".into(),
            status,
            text: "the secret plan".into(),
            reason: Some("because of the secret plan".into()),
            plain: None,
            transcript: Value::Null,
            steps: 3,
            tokens: 40,
            tool_calls: 2,
        }))
    }

    #[test]
    fn it_says_how_and_why_in_our_own_words_only() {
        let told = |end: TurnEnd| last_run("t1", 0, &end, at(1), at(2));
        let expected = LastRun {
            id: "t1".into(),
            trigger: "message".into(),
            outcome: "completed".into(),
            reason: None,
            started_at: at(1),
            ended_at: at(2),
            steps: 3,
            tokens: 40,
        };
        assert_eq!(told(done(Status::Completed)), expected);
        assert_eq!(
            told(done(Status::ExhaustedTokens)),
            LastRun {
                outcome: "exhausted_tokens".into(),
                reason: Some("the turn used up its tokens (limits.run.tokens)".into()),
                ..expected.clone()
            }
        );
        // A refusal is the agent's own, or that of its budget.
        let spent = "the requests of this week (2, intelligence.budget) are used up".to_owned();
        for (plain, says) in [
            (None, "the agent declined the task".to_owned()),
            (Some(spent.clone()), spent),
        ] {
            let TurnEnd::Done(mut result) = done(Status::Refused) else {
                panic!("it is done")
            };
            result.plain = plain;
            assert_eq!(
                told(TurnEnd::Done(result)),
                LastRun {
                    outcome: "refused".into(),
                    reason: Some(says),
                    ..expected.clone()
                }
            );
        }
        let broken = TurnEnd::Broken {
            reason: "the worker process was killed by SIGKILL".into(),
            began: true,
            tool_calls: 1,
        };
        assert_eq!(
            last_run("t1", 2, &broken, at(1), at(2)),
            LastRun {
                trigger: "conversation".into(),
                outcome: "crashed".into(),
                reason: Some("the worker process was killed by SIGKILL".into()),
                steps: 0,
                tokens: 0,
                ..expected
            }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_told_at_once_and_of_many_the_last() {
        let (ended, follow) = watch::channel(None);
        let (told, mut seen) = watch::channel(None);
        tokio::spawn(paced(follow, told));
        let run = |second| last_run("t", 0, &done(Status::Completed), at(0), at(second));
        let began = tokio::time::Instant::now();
        ended.send_replace(Some(run(1)));
        seen.changed().await.unwrap();
        assert_eq!(
            (seen.borrow_and_update().clone(), began.elapsed()),
            (Some(run(1)), Duration::ZERO)
        );
        for second in 2..100 {
            ended.send_replace(Some(run(second)));
        }
        seen.changed().await.unwrap();
        assert_eq!(
            (seen.borrow_and_update().clone(), began.elapsed()),
            (Some(run(99)), PACE)
        );
        drop(ended);
        assert!(seen.changed().await.is_err());
    }
}
