//! From a request to bytes and back, whichever the dialect. Pure: what is sent and read is decided here, and by the
//! modules of the dialects; `client` only carries it.

use serde_json::Value;

use crate::dialect::{Dialect, StructuredOutput};
use crate::message::{Arguments, Block, ModelReply, ModelRequest, Usage};
use crate::tokens::{Calibration, characters};
use crate::wire::{Ask, Fault, Heard, Quirks, Reader, Way};
use crate::{anthropic, bedrock, openai, responses};

/// How an answer of a given shape is asked for. The modes of providers take objects alone.
pub(crate) fn way(dialect: Dialect, wanted: StructuredOutput, quirks: Quirks, request: &ModelRequest) -> Way {
    let is_other = request
        .output_schema
        .as_ref()
        .is_some_and(|shape| !shape.is_object());
    match (wanted, dialect) {
        (StructuredOutput::Auto | StructuredOutput::JsonSchema, _) if is_other => Way::Tool,
        (StructuredOutput::Prompt, _) => Way::Prompt,
        (StructuredOutput::Tool, _) => Way::Tool,
        (StructuredOutput::JsonSchema, _) if !quirks.no_json_schema => Way::JsonSchema,
        (StructuredOutput::Auto, Dialect::Openai | Dialect::OpenaiResponses) if !quirks.no_json_schema => {
            Way::JsonSchema
        }
        // Their own modes take a part of JSON Schema only, and a tool takes any.
        (StructuredOutput::Auto | StructuredOutput::JsonSchema, Dialect::Anthropic | Dialect::Bedrock) => {
            Way::Tool
        }
        (StructuredOutput::Auto | StructuredOutput::JsonSchema, _) => Way::Prompt,
    }
}

/// What is appended to the path of the base URL.
pub(crate) fn path(ask: &Ask<'_>) -> String {
    match ask.dialect {
        Dialect::Openai => "/chat/completions".to_owned(),
        Dialect::OpenaiResponses => "/responses".to_owned(),
        Dialect::Anthropic => "/messages".to_owned(),
        Dialect::Bedrock => {
            let model = bedrock::segment(ask.model);
            let stream = if ask.stream { "-stream" } else { "" };
            format!("/model/{model}/converse{stream}")
        }
    }
}

/// The body of a request.
pub(crate) fn body(ask: &Ask<'_>) -> Vec<u8> {
    let body = match ask.dialect {
        Dialect::Openai => openai::write::request(ask),
        Dialect::OpenaiResponses => responses::write::request(ask),
        Dialect::Anthropic => anthropic::write::request(ask),
        Dialect::Bedrock => bedrock::write::request(ask),
    };
    ask.shelf.wrote(body.len());
    body
}

/// An answer that came as a whole.
pub(crate) fn whole(dialect: Dialect, body: &[u8]) -> Result<Heard, Fault> {
    match dialect {
        Dialect::Openai => openai::read::reply(body),
        Dialect::OpenaiResponses => responses::read::reply(body),
        Dialect::Anthropic => anthropic::read::reply(body),
        Dialect::Bedrock => bedrock::read::reply(body),
    }
}

/// The reader of an answer that comes as a stream.
pub(crate) fn reader(dialect: Dialect) -> Box<dyn Reader> {
    match dialect {
        Dialect::Openai => Box::<openai::stream::Stream>::default(),
        Dialect::OpenaiResponses => Box::<responses::stream::Stream>::default(),
        Dialect::Anthropic => Box::<anthropic::stream::Stream>::default(),
        Dialect::Bedrock => Box::<bedrock::stream::Stream>::default(),
    }
}

/// The media type of a streamed answer.
pub(crate) fn media_type(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Bedrock => "application/vnd.amazon.eventstream",
        Dialect::Openai | Dialect::OpenaiResponses | Dialect::Anthropic => "text/event-stream",
    }
}

/// The reply in our words: names as they were offered, the provider's own marked with where it came from, counts or
/// estimates. `sent` is the request's body.
pub(crate) fn reply(ask: &Ask<'_>, heard: Heard, sent: &[u8], calibration: &Calibration) -> ModelReply {
    let Heard { blocks, stop, counts } = heard;
    let sent = characters(sent);
    if let Some(input) = counts.input {
        calibration.learn(sent, input);
    }
    let usage = Usage {
        input: counts.input.unwrap_or_else(|| calibration.estimate(sent)),
        output: counts
            .output
            .unwrap_or_else(|| calibration.estimate(blocks.iter().map(length).sum())),
        cached: counts.cached,
    };
    let blocks = answered(blocks, ask).into_iter().map(|block| match block {
        Block::ToolCall(mut call) => {
            call.name = ask.names.ours(&call.name);
            Block::ToolCall(call)
        }
        Block::Opaque(mut opaque) => {
            ask.origin.clone_into(&mut opaque.origin);
            Block::Opaque(opaque)
        }
        text @ Block::Text(_) => text,
    });
    ModelReply {
        blocks: blocks.collect(),
        stop,
        usage,
    }
}

/// The answer out of the tool that takes it: it is the text then. Beside other calls it is no answer yet.
fn answered(mut blocks: Vec<Block>, ask: &Ask<'_>) -> Vec<Block> {
    let Some(tool) = ask.answer_tool() else {
        return blocks;
    };
    let is_answer = |block: &Block| matches!(block, Block::ToolCall(call) if call.name == tool.name);
    let Some(place) = blocks.iter().position(is_answer) else {
        return blocks;
    };
    if blocks
        .iter()
        .any(|block| matches!(block, Block::ToolCall(_)) && !is_answer(block))
    {
        blocks.retain(|block| !is_answer(block));
        return blocks;
    }
    // Words around it are not the answer; what is the provider's own led to a call that is gone.
    match blocks.swap_remove(place) {
        Block::ToolCall(call) => vec![Block::Text(match call.arguments {
            Arguments::Object(object) => ask.unwrapped(object).to_string(),
            Arguments::Invalid(text) => text,
        })],
        other => vec![other],
    }
}

fn length(block: &Block) -> usize {
    match block {
        Block::Text(text) => text.chars().count(),
        Block::ToolCall(call) => {
            let arguments = match &call.arguments {
                Arguments::Object(object) => characters(Value::Object(object.clone()).to_string().as_bytes()),
                Arguments::Invalid(text) => text.chars().count(),
            };
            call.name.chars().count() + arguments
        }
        Block::Opaque(opaque) => characters(opaque.value.to_string().as_bytes()),
    }
}

/// What a refusal (400, 422) teaches about an endpoint; none when it is no fault of ours.
pub(crate) fn learn(ask: &Ask<'_>, message: &str) -> Option<Quirks> {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let mut quirks = ask.quirks;
    match ask.dialect {
        Dialect::Openai if ask.stream && says(&["stream_options", "include_usage"]) => {
            quirks.no_stream_options = true
        }
        Dialect::Openai
            if ask.request.max_output_tokens.is_some() && says(&["max_tokens", "max_completion_tokens"]) =>
        {
            quirks.other_limit = true;
        }
        Dialect::OpenaiResponses if says(&["ncrypted content", "encrypted_content", "include"]) => {
            quirks.no_encryption = true;
        }
        Dialect::Anthropic if says(&["max_tokens"]) => quirks.short = true,
        _ if ask.shape(Way::JsonSchema).is_some()
            && says(&[
                "response_format",
                "json_schema",
                "text.format",
                "output_config",
                "outputConfig",
                "output_format",
                "schema",
            ]) =>
        {
            quirks.no_json_schema = true;
        }
        _ if ask.shape(Way::Tool).is_some() && says(&["tool_choice", "toolChoice"]) => {
            quirks.no_tool_choice = true
        }
        // Some models do not stream, or not with tools, or not for everybody.
        _ if ask.stream && names_streams(message) => quirks.no_stream = true,
        _ if has_own(ask)
            && says(&[
                "reasoning",
                "thinking",
                "signature",
                "extra_content",
                "not permitted",
                "unsupported",
                "Unknown",
            ]) =>
        {
            quirks.no_opaque = true;
        }
        _ => return None,
    }
    (quirks != ask.quirks).then_some(quirks)
}

/// Whether words are about streams. What is upstream of a gateway is none.
fn names_streams(message: &str) -> bool {
    let mut words = message.split(|c: char| !c.is_ascii_alphabetic());
    words.any(|word| word.to_ascii_lowercase().starts_with("stream"))
}

/// Whether something of the provider's own goes with the request.
fn has_own(ask: &Ask<'_>) -> bool {
    let blocks = ask.request.messages.iter().flat_map(|message| match message {
        crate::message::Message::Assistant(blocks) => blocks.as_slice(),
        crate::message::Message::User(_) | crate::message::Message::Results(_) => &[],
    });
    blocks
        .into_iter()
        .any(|block| matches!(block, Block::Opaque(opaque) if ask.takes(opaque)))
}
