//! Prompts of a server: listed and got, only where they are offered.

use rmcp::model::{GetPromptRequestParams, GetPromptResponse, GetPromptResult, InputResponses};
use serde_json::{Map, Value};

use super::lists::parameters;
use super::requests::{Again, Round};
use super::{ConnectError, Connection};
use crate::call::{CallError, CallMeta};
use crate::pages::Pages;
use crate::prompt::{self, Prompt};
use crate::reading;

impl Again for GetPromptRequestParams {
    type Result = GetPromptResult;

    async fn send(self, connection: &Connection) -> Result<Round<GetPromptResult>, CallError> {
        match connection.0.peer.get_prompt_once(self).await {
            Ok(GetPromptResponse::Complete(result)) => Ok(Round::Done(result)),
            Ok(GetPromptResponse::InputRequired(asked)) => Ok(Round::Asked(Box::new(asked))),
            Ok(_) => Err(CallError::Unavailable(
                "the server's answer is not a prompt".into(),
            )),
            Err(error) => Err(connection.call_error(&error)),
        }
    }

    fn with(&mut self, answers: Option<InputResponses>, state: Option<String>) {
        self.input_responses = answers;
        self.request_state = state;
    }
}

impl Connection {
    /// Whether there are prompts.
    pub fn offers_prompts(&self) -> bool {
        self.0.facts.offers_prompts
    }

    /// `prompts/list`, all pages, the first 2,000 lines; none where prompts are not offered.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn prompts(&self) -> Result<Vec<Prompt>, ConnectError> {
        if !self.0.facts.offers_prompts {
            return Ok(Vec::new());
        }
        let what = "prompts/list";
        let drained = async {
            let mut pages = Pages::new(reading::RESOURCES_KEPT);
            while let Some(cursor) = pages.next_cursor() {
                let page = self
                    .listed(what, self.0.peer.list_prompts(parameters(cursor)))
                    .await?;
                let lines = page.prompts.into_iter().filter_map(prompt::prompt);
                pages.take(lines.map(|line| (line, 0)), page.next_cursor);
            }
            Ok(pages)
        };
        self.whole(what, drained).await
    }

    /// `prompts/get`, within `call_timeout`: its words.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Result<String, CallError> {
        if !self.0.facts.offers_prompts {
            return Err(CallError::NotOffered("prompts"));
        }
        let mut parameters = GetPromptRequestParams::new(name);
        parameters.arguments = (!arguments.is_empty()).then_some(arguments);
        parameters.meta = Some(reading::call_meta(meta));
        self.within(self.rounds(parameters)).await.map(prompt::words)
    }
}
