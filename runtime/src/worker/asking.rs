//! What a worker asks the supervisor for: an answer of a person to a server's question, and whatever else only the
//! supervisor can do. Both belong to the turn that runs: outside of one, and when it ends, there is no answer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentd_agent::request::OPEN_REQUESTS;
use agentd_agent::{Reply, Request, Supervisor};
use agentd_mcp::{Answer, Elicitor, Question};
use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::frame::FromWorker;

/// Puts questions and requests to the supervisor.
pub struct Asker {
    /// Weak: a connection that lingers must not keep the worker from its end.
    frames: mpsc::WeakSender<FromWorker>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// The turn that runs.
    run_id: Option<String>,
    /// One sequence for both, so that an id says which is meant.
    last: u64,
    questions: Waiting<Answer>,
    requests: Waiting<Reply>,
}

type Waiting<T> = HashMap<u64, oneshot::Sender<T>>;

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
        if let Some(waiting) = self.open().questions.remove(&id) {
            let _ = waiting.send(answer);
        }
    }

    /// The supervisor's reply. One that nobody waits for is of a request that was given up.
    pub fn reply(&self, id: u64, reply: Reply) {
        if let Some(waiting) = self.open().requests.remove(&id) {
            let _ = waiting.send(reply);
        }
    }

    /// Sends what `frame` makes of the run and the id, and waits. None when there is no turn, or none any more.
    async fn put<T>(
        &self,
        waiting: fn(&mut Open) -> &mut Waiting<T>,
        frame: impl FnOnce(String, u64) -> FromWorker + Send,
    ) -> Option<T> {
        let frames = self.frames.upgrade()?;
        let (run_id, id, answer) = {
            let mut open = self.open();
            let run_id = open.run_id.clone()?;
            open.last += 1;
            let id = open.last;
            let (sender, receiver) = oneshot::channel();
            waiting(&mut open).insert(id, sender);
            (run_id, id, receiver)
        };
        let given_up = GivenUp {
            asker: self,
            frames: &frames,
            id,
        };
        if frames.send(frame(run_id, id)).await.is_err() {
            return None;
        }
        let answer = answer.await;
        drop(given_up);
        answer.ok()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Elicitor for Asker {
    async fn ask(&self, question: Question) -> Answer {
        let frame = |run_id, id| FromWorker::Ask { run_id, id, question };
        let answer = self.put(|open| &mut open.questions, frame).await;
        answer.unwrap_or(Answer::Cancel)
    }

    fn opens_urls(&self) -> bool {
        true
    }
}

#[async_trait]
impl Supervisor for Asker {
    async fn request(&self, request: Request) -> Reply {
        if self.open().requests.len() >= OPEN_REQUESTS {
            return Reply::Refused("too many requests of this turn wait for a reply; try later".to_owned());
        }
        let request = Box::new(request);
        let frame = |run_id, id| FromWorker::Request { run_id, id, request };
        let reply = self.put(|open| &mut open.requests, frame).await;
        reply.unwrap_or_else(|| Reply::Refused("the turn has ended".to_owned()))
    }
}

/// Something that waits. Given up before its answer, the supervisor is told.
struct GivenUp<'a> {
    asker: &'a Asker,
    frames: &'a mpsc::Sender<FromWorker>,
    id: u64,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let waited = {
            let mut open = self.asker.open();
            let question = open.questions.remove(&self.id).is_some();
            open.requests.remove(&self.id).is_some() || question
        };
        if waited {
            // With a full queue it stays until the turn ends.
            let _ = self.frames.try_send(FromWorker::Withdraw { id: self.id });
        }
    }
}

/// The turn that questions and requests belong to.
pub struct AskingTurn<'a>(&'a Asker);

impl Drop for AskingTurn<'_> {
    fn drop(&mut self) {
        let mut open = self.0.open();
        open.run_id = None;
        open.questions.clear();
        open.requests.clear();
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

    fn status() -> Request {
        Request::Status(Default::default())
    }

    #[tokio::test]
    async fn a_request_is_replied_to_once_and_by_its_own_id() {
        let (frames, mut queue) = mpsc::channel(4);
        let asker = Asker::new(&frames);
        let _turn = asker.turn("r");
        let replying = async {
            let question = asked(&mut queue).await;
            let Some(FromWorker::Request { run_id, id, request }) = queue.recv().await else {
                panic!("no request")
            };
            assert_eq!((run_id.as_str(), *request), ("r", status()));
            assert_ne!(id, question);
            asker.answer(id, Answer::Decline);
            asker.reply(question, Reply::Refused("no".into()));
            asker.reply(id, Reply::Done(json!(1)));
            asker.answer(question, Answer::Decline);
        };
        let (answer, reply, ()) = tokio::join!(asker.ask(question()), asker.request(status()), replying);
        assert_eq!((answer, reply), (Answer::Decline, Reply::Done(json!(1))));
        assert!(queue.try_recv().is_err(), "what was answered is not withdrawn");
    }

    #[tokio::test]
    async fn requests_end_with_their_turn_are_withdrawn_and_bounded() {
        let (frames, mut queue) = mpsc::channel(4 * OPEN_REQUESTS);
        let asker = Asker::new(&frames);
        let ended = Reply::Refused("the turn has ended".into());
        assert_eq!(asker.request(status()).await, ended);
        let turn = asker.turn("r");
        assert!(asker.request(status()).now_or_never().is_none());
        let Some(FromWorker::Request { id, .. }) = queue.recv().await else {
            panic!("no request")
        };
        match queue.recv().await {
            Some(FromWorker::Withdraw { id: withdrawn }) => assert_eq!(withdrawn, id),
            other => panic!("{other:?}"),
        }
        let mut open: Vec<_> = (0..=OPEN_REQUESTS).map(|_| asker.request(status())).collect();
        let last = open.pop().unwrap();
        let all = futures::future::join_all(open);
        tokio::pin!(all);
        assert!(all.as_mut().now_or_never().is_none());
        assert!(matches!(last.now_or_never(), Some(Reply::Refused(why)) if why.contains("too many")));
        drop(turn);
        assert!(all.await.iter().all(|reply| *reply == ended));
    }
}
