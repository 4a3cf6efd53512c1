//! A server's question on its way to a person: by the supervisor, which knows who can be asked. A question belongs to
//! the turn that runs; outside of one, and when it ends, the answer is cancel.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentd_mcp::{Answer, Elicitor, Question};
use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::frame::FromWorker;

/// Puts questions of servers to the supervisor.
pub struct Asker {
    /// Weak: a connection that lingers must not keep the worker from its end.
    frames: mpsc::WeakSender<FromWorker>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// The turn that runs.
    run_id: Option<String>,
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
}

impl Asker {
    /// Frames go to the supervisor.
    pub fn new(frames: &mpsc::Sender<FromWorker>) -> Self {
        Self {
            frames: frames.downgrade(),
            open: Mutex::default(),
        }
    }

    /// A turn begins; it ends when the guard is dropped.
    pub fn turn(&self, run_id: &str) -> AskingTurn<'_> {
        self.open().run_id = Some(run_id.to_owned());
        AskingTurn(self)
    }

    /// The supervisor's answer. One that nobody waits for is of a question that was given up.
    pub fn answer(&self, id: u64, answer: Answer) {
        if let Some(waiting) = self.open().waiting.remove(&id) {
            let _ = waiting.send(answer);
        }
    }

    fn begin(&self) -> Option<(u64, String, oneshot::Receiver<Answer>)> {
        let mut open = self.open();
        let run_id = open.run_id.clone()?;
        open.last += 1;
        let id = open.last;
        let (sender, receiver) = oneshot::channel();
        open.waiting.insert(id, sender);
        Some((id, run_id, receiver))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Elicitor for Asker {
    async fn ask(&self, question: Question) -> Answer {
        let (Some(frames), Some((id, run_id, answer))) = (self.frames.upgrade(), self.begin()) else {
            return Answer::Cancel;
        };
        let given_up = GivenUp {
            asker: self,
            frames: &frames,
            id,
        };
        let ask = FromWorker::Ask { run_id, id, question };
        if frames.send(ask).await.is_err() {
            return Answer::Cancel;
        }
        let answer = answer.await;
        drop(given_up);
        answer.unwrap_or(Answer::Cancel)
    }
}

/// A question that waits. Given up before its answer, the supervisor is told.
struct GivenUp<'a> {
    asker: &'a Asker,
    frames: &'a mpsc::Sender<FromWorker>,
    id: u64,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if self.asker.open().waiting.remove(&self.id).is_some() {
            // With a full queue the question stays until the turn ends.
            let _ = self.frames.try_send(FromWorker::Withdraw { id: self.id });
        }
    }
}

/// The turn that questions belong to.
pub struct AskingTurn<'a>(&'a Asker);

impl Drop for AskingTurn<'_> {
    fn drop(&mut self) {
        let mut open = self.0.open();
        open.run_id = None;
        open.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use agentd_mcp::Ask;
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn question() -> Question {
        Question {
            server: "fs".into(),
            message: "Really?".into(),
            ask: Ask::Form {
                schema: json!({"type": "object", "properties": {}}),
            },
        }
    }

    async fn asked(queue: &mut mpsc::Receiver<FromWorker>) -> u64 {
        match queue.recv().await {
            Some(FromWorker::Ask { run_id, id, question }) => {
                assert_eq!((run_id.as_str(), question.server.as_str()), ("r", "fs"));
                id
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn m13_a_question_is_answered_by_the_supervisor() {
        let (frames, mut queue) = mpsc::channel(4);
        let asker = Asker::new(&frames);
        let _turn = asker.turn("r");
        let answering = async {
            let id = asked(&mut queue).await;
            asker.answer(id + 1, Answer::Cancel);
            asker.answer(id, Answer::Decline);
            asker.answer(id, Answer::Cancel);
        };
        let (answer, ()) = tokio::join!(asker.ask(question()), answering);
        assert_eq!(answer, Answer::Decline);
        assert!(queue.try_recv().is_err(), "an answered question is not withdrawn");
    }

    #[tokio::test]
    async fn m13_a_question_outside_a_turn_is_cancelled_and_the_end_of_a_turn_cancels() {
        let (frames, mut queue) = mpsc::channel(4);
        let asker = Asker::new(&frames);
        assert_eq!(asker.ask(question()).await, Answer::Cancel);
        let turn = asker.turn("r");
        let ending = async {
            asked(&mut queue).await;
            drop(turn);
        };
        let (answer, ()) = tokio::join!(asker.ask(question()), ending);
        assert_eq!(answer, Answer::Cancel);
        drop(frames);
        assert!(queue.recv().await.is_none(), "an asker keeps no worker alive");
        assert_eq!(asker.ask(question()).await, Answer::Cancel);
    }

    #[tokio::test]
    async fn m13_a_question_that_is_given_up_is_withdrawn() {
        let (frames, mut queue) = mpsc::channel(4);
        let asker = Asker::new(&frames);
        let _turn = asker.turn("r");
        assert!(asker.ask(question()).now_or_never().is_none());
        let id = asked(&mut queue).await;
        match queue.recv().await {
            Some(FromWorker::Withdraw { id: withdrawn }) => assert_eq!(withdrawn, id),
            other => panic!("{other:?}"),
        }
    }
}
