//! Questions of MCP servers to people. A question belongs to a turn: it is withdrawn when the turn ends, and the turn's
//! time (`limits.run.deadline`) runs while a person thinks, so that nobody holds a turn for ever by not answering.
//! Without anybody to ask the answer is cancel at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_agent::SoFar;
use agentd_mcp::{Answer, Question};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::open::Open;

/// Questions of one turn at the same time: more than a person reads.
const QUESTIONS: usize = 8;

/// Whoever can put a question to a person.
#[async_trait]
pub trait Human: Send + Sync + std::fmt::Debug {
    /// Asks, and gives what the person said. Dropped when nobody waits for the answer any more.
    async fn ask(&self, asked: Asked) -> Answer;
}

/// What is asked, and on whose behalf.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The run.
    pub run_id: String,
    /// The conversation whose caller is asked: its own, or the one that its subagent belongs to.
    pub root: String,
    /// Its conversation.
    pub conversation: String,
    /// What is asked: untrusted text, cut.
    pub question: Question,
    /// How long the answer is waited for, where there is a bound other than the turn's time.
    pub timeout: Option<Duration>,
    /// The turn that asks, where it may be given up and gone on with later.
    pub so_far: Option<Box<SoFar>>,
    /// Whether the turn is given up.
    pub later: Later,
}

/// Whether a turn that asks is given up or goes on without an answer: whichever is decided first, and never both.
#[derive(Debug, Clone, Default)]
pub struct Later {
    is_decided: Arc<AtomicBool>,
    given_up: CancellationToken,
}

impl Later {
    /// It is given up, unless it goes on already.
    pub fn give_up(&self) -> bool {
        let is_first = !self.is_decided.swap(true, Ordering::SeqCst);
        if is_first {
            self.given_up.cancel();
        }
        is_first
    }

    /// It goes on, unless it was given up already.
    pub fn go_on(&self) -> bool {
        !self.is_decided.swap(true, Ordering::SeqCst)
    }

    /// Returns when it is given up.
    pub async fn given_up(&self) {
        self.given_up.cancelled().await;
    }
}

/// The open questions of a turn. Dropping it withdraws them.
pub(super) struct Questions {
    human: Option<Arc<dyn Human>>,
    open: Open<Answer>,
}

impl Questions {
    /// None yet.
    pub(super) fn new(human: Option<Arc<dyn Human>>) -> Self {
        Self {
            human,
            open: Open::new(QUESTIONS),
        }
    }

    /// Puts one; the answer when there is one at once.
    pub(super) fn ask(&mut self, id: u64, asked: Asked) -> Option<Answer> {
        let server = asked.question.server.clone();
        let why = match &self.human {
            None => "nobody can be asked",
            Some(_) if self.open.is_full() => "too many questions wait for an answer",
            Some(human) => {
                tracing::info!(event = "human.ask", run.id = asked.run_id, mcp.server = server);
                let human = human.clone();
                self.open.begin(id, async move { human.ask(asked).await });
                return None;
            }
        };
        tracing::info!(
            event = "human.ask.failed",
            run.id = asked.run_id,
            mcp.server = server,
            "{why}"
        );
        Some(Answer::Cancel)
    }

    /// Nobody waits for this one any more.
    pub(super) fn withdraw(&mut self, id: u64) {
        self.open.withdraw(id);
    }

    /// Withdraws all.
    pub(super) fn close(&mut self) {
        self.open.close();
    }

    /// The next answer; never while nothing is asked. Cancel safe.
    pub(super) async fn next(&mut self) -> (u64, Answer) {
        self.open.next().await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use agentd_mcp::Ask;
    use futures::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    /// Answers when the test does.
    #[derive(Debug, Default)]
    struct Person(Mutex<BTreeMap<String, oneshot::Receiver<Answer>>>);

    #[async_trait]
    impl Human for Person {
        async fn ask(&self, asked: Asked) -> Answer {
            let answer = self.0.lock().unwrap().remove(&asked.question.message).unwrap();
            answer.await.unwrap()
        }
    }

    impl Person {
        fn expects(&self, message: &str) -> oneshot::Sender<Answer> {
            let (sender, receiver) = oneshot::channel();
            self.0.lock().unwrap().insert(message.to_owned(), receiver);
            sender
        }
    }

    fn asked(message: &str) -> Asked {
        Asked {
            run_id: "r".into(),
            root: "c".into(),
            conversation: "c".into(),
            timeout: None,
            so_far: None,
            later: Later::default(),
            question: Question {
                server: "fs".into(),
                message: message.into(),
                ask: Ask::Url {
                    url: "https://x.example/".into(),
                    id: String::new(),
                },
            },
        }
    }

    #[tokio::test]
    async fn m13_answers_come_as_people_give_them() {
        let person = Arc::new(Person::default());
        let (one, two) = (person.expects("1"), person.expects("2"));
        let mut questions = Questions::new(Some(person));
        assert_eq!(questions.ask(1, asked("1")), None);
        assert_eq!(questions.ask(2, asked("2")), None);
        assert!(questions.next().now_or_never().is_none());
        two.send(Answer::Decline).unwrap();
        assert_eq!(questions.next().await, (2, Answer::Decline));
        one.send(Answer::Cancel).unwrap();
        assert_eq!(questions.next().await, (1, Answer::Cancel));
        assert!(questions.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn m13_a_question_that_is_withdrawn_is_taken_from_the_person() {
        let person = Arc::new(Person::default());
        let answers: Vec<_> = ["1", "2", "3"].map(|message| person.expects(message)).into();
        let mut questions = Questions::new(Some(person));
        for (id, message) in [(1, "1"), (2, "2"), (3, "3")] {
            assert_eq!(questions.ask(id, asked(message)), None);
        }
        assert!(questions.next().now_or_never().is_none());
        questions.withdraw(2);
        assert!(questions.next().now_or_never().is_none());
        assert!(answers[1].is_closed() && !answers[0].is_closed());
        questions.close();
        assert!(answers.iter().all(oneshot::Sender::is_closed));
    }

    #[test]
    fn m13_nobody_to_ask_and_too_much_asked_is_cancelled_at_once() {
        assert_eq!(Questions::new(None).ask(1, asked("1")), Some(Answer::Cancel));
        let mut questions = Questions::new(Some(Arc::new(Person::default())));
        let all: Vec<_> = (0..10).map(|id| questions.ask(id, asked("x"))).collect();
        assert_eq!(all.iter().filter(|answer| answer.is_none()).count(), QUESTIONS);
        assert_eq!(all.last(), Some(&Some(Answer::Cancel)));
    }
}
