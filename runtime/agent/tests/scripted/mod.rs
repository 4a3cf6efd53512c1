//! A scripted model and scripted tools for the tests of the turn.
#![allow(dead_code, reason = "each test binary uses what it needs")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_agent::{
    ContextLimits, Effect, Observation, Status, ToolRunner, Transcript, TurnInput, TurnLimits, TurnOutcome,
    View, turn,
};
use agentd_llm::{
    Arguments, Block, CallContext, Message, Model, ModelError, ModelReply, ModelRequest, Mute, Stop,
    ToolCall, ToolSpec, Usage,
};
use async_trait::async_trait;
use serde_json::Map;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Answers in order; hangs when there are no more.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) answers: Mutex<VecDeque<Result<ModelReply, ModelError>>>,
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
}

#[async_trait]
impl Model for Scripted {
    async fn complete(&self, request: &ModelRequest, _: &CallContext) -> Result<ModelReply, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        let next = self.answers.lock().unwrap().pop_front();
        match next {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

/// Echoes the name; `slow` hangs, `fail` fails, `cancel` cancels the turn while it runs, `change` puts another tool in
/// the place of the first, `news` never says the same twice, `sleep` waits, `finish-…` ends the turn, `meet` waits until
/// all calls of its round are under way.
#[derive(Default)]
pub(crate) struct Tools {
    pub(crate) called: Mutex<Vec<(String, u32)>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) view: Mutex<Option<Arc<View>>>,
    /// Calls under way, and the most there were at once.
    pub(crate) under_way: Mutex<(usize, usize)>,
    /// Calls of `meet` that let each other go on.
    pub(crate) meeting: usize,
    pub(crate) met: Notify,
}

impl Tools {
    async fn meet(&self) {
        let is_last = {
            let mut under_way = self.under_way.lock().unwrap();
            under_way.0 += 1;
            under_way.1 = under_way.1.max(under_way.0);
            under_way.0 == self.meeting
        };
        if is_last {
            self.met.notify_waiters();
        } else {
            self.met.notified().await;
        }
        self.under_way.lock().unwrap().0 -= 1;
    }
}

pub(crate) fn view(tool: &str) -> Arc<View> {
    Arc::new(View {
        servers: format!("About {tool}."),
        tools: vec![ToolSpec {
            name: tool.into(),
            description: "x".into(),
            input_schema: Map::new(),
        }]
        .into(),
    })
}

#[async_trait]
impl ToolRunner for Tools {
    async fn view(&self) -> Arc<View> {
        self.view
            .lock()
            .unwrap()
            .get_or_insert_with(|| view("one"))
            .clone()
    }

    async fn call(&self, call: &ToolCall, ordinal: u32) -> Observation {
        self.called.lock().unwrap().push((call.name.clone(), ordinal));
        match call.name.as_str() {
            "slow" => std::future::pending().await,
            "fail" => Observation::error("it broke"),
            "change" => {
                *self.view.lock().unwrap() = Some(view("two"));
                Observation::result("changed")
            }
            "cancel" => {
                self.cancel.cancel();
                std::future::pending().await
            }
            "news" => Observation::result(format!("news {ordinal}")),
            "sleep" => Observation::result("slept").with_effect(Effect::Waited),
            "meet" => {
                self.meet().await;
                Observation::result(format!("met {ordinal}"))
            }
            "finish" | "finish-done" => finish(Status::Completed, Some("the end")),
            "finish-late" => finish(Status::Completed, Some("too late")),
            "finish-plain" => finish(Status::Completed, None),
            "finish-failed" => finish(Status::Failed, None),
            "finish-refused" => finish(Status::Refused, None),
            "finish-cancelled" => finish(Status::Cancelled, None),
            name => Observation::result(format!("{name} done")),
        }
    }
}

fn finish(status: Status, text: Option<&str>) -> Observation {
    Observation::result("the turn ends").with_effect(Effect::Finish {
        status,
        text: text.map(Into::into),
        reason: (status != Status::Completed).then(|| "so it is".into()),
    })
}

pub(crate) fn says(text: &str) -> Result<ModelReply, ModelError> {
    Ok(reply(vec![Block::Text(text.into())], Stop::End))
}

pub(crate) fn calls(names: &[&str]) -> Result<ModelReply, ModelError> {
    let call = |(index, name): (usize, &&str)| {
        let (id, arguments) = (format!("{name}-{index}"), Arguments::Object(Map::new()));
        Block::ToolCall(ToolCall {
            id,
            name: (*name).into(),
            arguments,
        })
    };
    Ok(reply(names.iter().enumerate().map(call).collect(), Stop::End))
}

pub(crate) fn reply(blocks: Vec<Block>, stop: Stop) -> ModelReply {
    ModelReply {
        blocks,
        stop,
        usage: Usage {
            input: 10,
            output: 5,
            cached: 0,
        },
    }
}

pub(crate) fn input() -> TurnInput {
    TurnInput {
        run_id: "r".into(),
        traceparent: None,
        instruction: "Be kind.".into(),
        transcript: Transcript::default(),
        text: "go".into(),
        resumed: None,
        limits: TurnLimits {
            steps: 500,
            tokens: 1_000_000,
            deadline: Duration::from_secs(60),
        },
        output_schema: None,
        context: ContextLimits {
            compact_at: 0.7,
            keep_last: 12,
            window: 128_000,
        },
        kept_bytes: 6 * 1024 * 1024,
        listener: Arc::new(Mute),
    }
}

pub(crate) struct Ran {
    pub(crate) outcome: TurnOutcome,
    pub(crate) asked: Vec<ModelRequest>,
    pub(crate) called: Vec<(String, u32)>,
}

pub(crate) async fn run(input: TurnInput, answers: Vec<Result<ModelReply, ModelError>>) -> Ran {
    let model = Scripted {
        answers: Mutex::new(answers.into()),
        ..Scripted::default()
    };
    run_with(Tools::default(), input, model).await
}

pub(crate) async fn run_with(tools: Tools, input: TurnInput, model: Scripted) -> Ran {
    let outcome = turn::run(input, &model, &tools, &tools.cancel).await;
    Ran {
        outcome,
        asked: model.asked.into_inner().unwrap(),
        called: tools.called.into_inner().unwrap(),
    }
}

/// The results of the last round.
pub(crate) fn results(outcome: &TurnOutcome) -> Vec<(String, bool)> {
    let messages = outcome.transcript.messages();
    let Some(Message::Results(results)) = messages
        .iter()
        .rfind(|message| matches!(message, Message::Results(_)))
    else {
        panic!("no results")
    };
    results
        .iter()
        .map(|result| (result.content.clone(), result.is_error))
        .collect()
}
