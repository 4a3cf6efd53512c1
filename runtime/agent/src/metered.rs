//! A model that is paid for: every call asks the supervisor's budget first and says afterwards what it took, be it a
//! round, a thought or a summary. The loop knows nothing of it but how a call ends that may not be made.

use std::sync::Arc;

use agentd_llm::{CallContext, Model, ModelError, ModelReply, ModelRequest};
use async_trait::async_trait;

use crate::request::{Reply, Request, Reservation, Supervisor};

/// Characters of a token, in an estimate.
const CHARS_PER_TOKEN: u64 = 4;
/// An answer whose length is not bounded takes so much at most, in an estimate (contract/runtime.md section 8).
const ANSWER: u64 = 4096;

/// See the module.
pub struct Metered<M> {
    /// The model.
    pub model: M,
    /// Keeps the budget.
    pub supervisor: Arc<dyn Supervisor>,
    /// What every call is taken to need; none: by what it holds.
    pub fixed: Option<u64>,
}

#[async_trait]
impl<M: Model> Model for Metered<M> {
    async fn complete(
        &self,
        request: &ModelRequest,
        context: &CallContext,
    ) -> Result<ModelReply, ModelError> {
        let estimate = self.fixed.unwrap_or_else(|| estimated(request));
        let (id, model) = match self.ask(Request::Reserve { tokens: estimate }).await {
            Reply::Reserved(Reservation::Granted { id, model }) => (id, model),
            Reply::Reserved(Reservation::Exhausted { reason, refuse }) => {
                return Err(ModelError::Budget {
                    refused: refuse,
                    reason,
                });
            }
            Reply::Refused(reason) => {
                return Err(ModelError::Budget {
                    refused: false,
                    reason: format!("the budget cannot be asked: {reason}"),
                });
            }
            Reply::Done(_) | Reply::Later => {
                return Err(ModelError::Budget {
                    refused: false,
                    reason: "the budget cannot be asked".to_owned(),
                });
            }
        };
        let degraded = model.map(|model| ModelRequest {
            model: Some(model),
            ..request.clone()
        });
        let reply = self
            .model
            .complete(degraded.as_ref().unwrap_or(request), context)
            .await;
        let tokens = match &reply {
            // A provider that does not say what it took has taken what was expected.
            Ok(reply) if reply.usage.total() == 0 => estimate,
            Ok(reply) => reply.usage.total(),
            Err(error) if error.may_be_billed() => estimate,
            Err(_) => 0,
        };
        self.ask(Request::Settle { id, tokens }).await;
        reply
    }
}

impl<M> Metered<M> {
    async fn ask(&self, request: Request) -> Reply {
        self.supervisor.request(request).await
    }
}

/// What a call takes at most, as far as one can know.
fn estimated(request: &ModelRequest) -> u64 {
    let messages = request.messages.iter().map(length);
    let tools = request.tools.iter().map(|tool| {
        let words = tool.name.len().saturating_add(tool.description.len());
        words.saturating_add(length(&tool.input_schema))
    });
    let chars = messages
        .chain(tools)
        .fold(request.system.len(), usize::saturating_add);
    let answer = request.max_output_tokens.map_or(ANSWER, u64::from);
    let read = u64::try_from(chars).unwrap_or(u64::MAX).div_ceil(CHARS_PER_TOKEN);
    read.saturating_add(answer)
}

/// Of what travels as JSON; what cannot be written is not sent either.
fn length(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use agentd_llm::{Block, Message, Stop, Usage};
    use tokio::time::Instant;

    use super::*;

    /// A budget that says the same to all, and remembers what it was asked.
    struct Says(Reply, Mutex<Vec<Request>>);

    #[async_trait]
    impl Supervisor for Says {
        async fn request(&self, request: Request) -> Reply {
            self.1.lock().unwrap().push(request);
            self.0.clone()
        }
    }

    /// A model that takes so many tokens, or fails.
    struct Takes(Result<u64, ModelError>, Mutex<Vec<Option<String>>>);

    #[async_trait]
    impl Model for &Takes {
        async fn complete(&self, request: &ModelRequest, _: &CallContext) -> Result<ModelReply, ModelError> {
            self.1.lock().unwrap().push(request.model.clone());
            let output = self.0.clone()?;
            Ok(ModelReply {
                blocks: vec![Block::Text("hi".to_owned())],
                stop: Stop::End,
                usage: Usage {
                    input: 0,
                    output,
                    cached: 0,
                },
            })
        }
    }

    async fn called(
        says: Reply,
        takes: Result<u64, ModelError>,
        fixed: Option<u64>,
    ) -> (String, Vec<Request>, Vec<Option<String>>) {
        let (budget, model) = (
            Arc::new(Says(says, Mutex::default())),
            Takes(takes, Mutex::default()),
        );
        let metered = Metered {
            model: &model,
            supervisor: budget.clone(),
            fixed,
        };
        let request = ModelRequest {
            system: "s".repeat(400),
            messages: vec![Message::User("u".repeat(380))].into(),
            ..ModelRequest::default()
        };
        let context = CallContext {
            run_id: "run".to_owned(),
            traceparent: None,
            deadline: Instant::now() + Duration::from_secs(9),
            sink: None,
        };
        let came = match metered.complete(&request, &context).await {
            Ok(reply) => reply.text(),
            Err(error) => format!("{error:?}"),
        };
        let asked = budget.1.lock().unwrap().clone();
        let models = model.1.lock().unwrap().clone();
        (came, asked, models)
    }

    fn granted(model: Option<&str>) -> Reply {
        Reply::Reserved(Reservation::Granted {
            id: 7,
            model: model.map(str::to_owned),
        })
    }

    #[tokio::test]
    async fn a_call_reserves_what_it_may_take_and_settles_what_it_took() {
        let (came, asked, models) = called(granted(None), Ok(55), None).await;
        assert_eq!((came.as_str(), models), ("hi", vec![None]));
        let [Request::Reserve { tokens }, Request::Settle { id: 7, tokens: 55 }] = asked[..] else {
            panic!("{asked:?}")
        };
        assert!((4096 + 195..4096 + 210).contains(&tokens), "{tokens}");
        // What was cut off is billed too, as far as one can know for what was expected; what was refused is not.
        let (endpoint, limit) = ("m".to_owned(), Duration::from_secs(60));
        let silent = ModelError::Silent { endpoint, limit };
        for (takes, fixed, settled) in [
            (Ok(0), Some(30), 30),
            (Err(ModelError::Deadline), Some(30), 30),
            (Err(silent), Some(30), 30),
            (Err(ModelError::NoEndpoint), Some(30), 0),
        ] {
            let (_, asked, _) = called(granted(None), takes, fixed).await;
            let expected = [
                Request::Reserve { tokens: 30 },
                Request::Settle {
                    id: 7,
                    tokens: settled,
                },
            ];
            assert_eq!(asked, expected);
        }
    }

    #[tokio::test]
    async fn another_model_answers_where_the_budget_says_so() {
        let (came, _, models) = called(granted(Some("small")), Ok(5), None).await;
        assert_eq!((came.as_str(), models), ("hi", vec![Some("small".to_owned())]));
    }

    #[tokio::test]
    async fn a_call_that_may_not_be_made_is_not_made() {
        for refuse in [true, false] {
            let reason = "spent".to_owned();
            let says = Reply::Reserved(Reservation::Exhausted { reason, refuse });
            let (came, asked, models) = called(says, Ok(5), Some(1)).await;
            assert_eq!(came, format!("Budget {{ refused: {refuse}, reason: \"spent\" }}"));
            assert_eq!((asked, models), (vec![Request::Reserve { tokens: 1 }], vec![]));
        }
        let (came, _, models) = called(Reply::Refused("gone".to_owned()), Ok(5), None).await;
        assert!(came.contains("the budget cannot be asked: gone"), "{came}");
        assert_eq!(models, vec![]);
    }
}
