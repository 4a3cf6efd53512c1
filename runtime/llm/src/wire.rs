//! What the dialects have in common: a request made ready for one endpoint, what was heard of its answer, and how an
//! answer fails. No sockets.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::body::Shelf;
use crate::dialect::Dialect;
use crate::message::{
    Arguments, Block, Message, ModelRequest, Opaque, OutputSchema, Stop, ToolCall, ToolSpec,
};
use crate::names::Names;
use crate::schema::Profile;

/// The content of one answer. One of a million tokens is under 8 MiB.
pub(crate) const REPLY_BYTES: usize = 8 * 1024 * 1024;
/// The bytes of a streamed answer: the events around a token are ten times its length.
pub(crate) const STREAM_BYTES: usize = 16 * REPLY_BYTES;
/// More calls in one answer than anybody means; the rest is not carried out.
pub(crate) const CALLS: usize = 128;

/// The tool that takes an answer of a given shape; another name where a tool has it.
const ANSWER: &str = "final_answer";
/// What a model is told of it.
const ANSWER_WORDS: &str = "Takes your answer. Call it once, alone, when you are done with everything else.";

/// The property of an answer that is no object.
const WRAPPED: &str = "answer";

/// How an answer of a given shape is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The provider's own mode.
    JsonSchema,
    /// A tool that takes the answer.
    Tool,
    /// Words in the system prompt.
    Prompt,
}

/// What an endpoint turned out not to take. It is learnt from its refusals, so that one costs one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// No streams, of this model or with tools.
    pub(crate) no_stream: bool,
    /// No counts in streams (`stream_options`).
    pub(crate) no_stream_options: bool,
    /// The other of `max_tokens` and `max_completion_tokens`.
    pub(crate) other_limit: bool,
    /// No mode for JSON schemas.
    pub(crate) no_json_schema: bool,
    /// No forced choice of a tool.
    pub(crate) no_tool_choice: bool,
    /// Nothing of its own comes back to it.
    pub(crate) no_opaque: bool,
    /// No encrypted reasoning.
    pub(crate) no_encryption: bool,
    /// Only short answers.
    pub(crate) short: bool,
}

/// A request made ready.
pub(crate) struct Ask<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) model: &'a str,
    pub(crate) origin: &'a str,
    pub(crate) request: &'a ModelRequest,
    pub(crate) stream: bool,
    pub(crate) names: Arc<Names>,
    /// Where the request has an `output_schema`.
    pub(crate) way: Way,
    pub(crate) quirks: Quirks,
    /// With the tools that the endpoint was given last.
    pub(crate) shelf: &'a Shelf,
}

impl Ask<'_> {
    /// The shape of the answer, where it is asked for in this way.
    pub(crate) fn shape(&self, way: Way) -> Option<&OutputSchema> {
        self.request.output_schema.as_ref().filter(|_| self.way == way)
    }

    /// The system prompt.
    pub(crate) fn system(&self) -> Cow<'_, str> {
        let system = self.request.system.as_str();
        let Some(shape) = self.shape(Way::Prompt) else {
            return system.into();
        };
        let schema = Value::Object(shape.schema.clone());
        let gap = if system.is_empty() { "" } else { "\n\n" };
        format!(
            "{system}{gap}When you have no tool to call, answer with JSON of this schema and nothing else, no words and no fence around it:\n{schema}"
        )
        .into()
    }

    /// The name of the tool that takes the answer.
    pub(crate) fn answer(&self) -> String {
        self.names.free(ANSWER, self.dialect)
    }

    /// The tools that are offered, the one that takes the answer last, as a dialect writes each; none when there is no tool.
    pub(crate) fn tools(&self, write: fn(&ToolSpec, &Ask<'_>, Profile) -> Value) -> Option<Arc<[u8]>> {
        let profile = Profile::of(self.dialect, self.model);
        let (tools, answer) = (&self.request.tools, self.answer_tool());
        self.shelf
            .list(tools, answer.as_ref(), profile, &self.names, |spec| {
                write(spec, self, profile)
            })
    }

    /// That tool, where there is one. Arguments are an object: an answer that is none is a property of one.
    pub(crate) fn answer_tool(&self) -> Option<ToolSpec> {
        self.shape(Way::Tool).map(|shape| ToolSpec {
            name: self.answer(),
            description: ANSWER_WORDS.to_owned(),
            input_schema: if shape.is_object() {
                shape.schema.clone()
            } else {
                let mut wrapper = Map::new();
                wrapper.insert("type".into(), "object".into());
                wrapper.insert("properties".into(), json!({ WRAPPED: shape.schema }));
                wrapper.insert("required".into(), json!([WRAPPED]));
                wrapper
            },
        })
    }

    /// The answer in that tool's arguments.
    pub(crate) fn unwrapped(&self, mut arguments: Map<String, Value>) -> Value {
        let is_wrapped = self.shape(Way::Tool).is_some_and(|shape| !shape.is_object());
        let answer = if is_wrapped {
            arguments.remove(WRAPPED)
        } else {
            None
        };
        answer.unwrap_or(Value::Object(arguments))
    }

    /// The tools that the conversation has called, as the wire has them.
    pub(crate) fn called(&self) -> impl Iterator<Item = &str> {
        let blocks = self.request.messages.iter().flat_map(|message| match message {
            Message::Assistant(blocks) => blocks.as_slice(),
            Message::User(_) | Message::Results(_) => &[],
        });
        let names = blocks.filter_map(|block| match block {
            Block::ToolCall(call) => Some(self.names.wire(&call.name)),
            Block::Text(_) | Block::Opaque(_) => None,
        });
        names.collect::<BTreeSet<_>>().into_iter()
    }

    /// Whether something of a provider's own goes back.
    pub(crate) fn takes(&self, opaque: &Opaque) -> bool {
        !self.quirks.no_opaque && opaque.dialect == self.dialect && opaque.origin == self.origin
    }
}

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) cached: u64,
}

/// An answer as it was heard: names are the wire's, blocks of the provider's own have no origin yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: Stop,
    pub(crate) counts: Counts,
}

/// Why there is no answer though the exchange was fine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is none. In our own words, which may be logged.
    Malformed(String),
    /// It is none; with words of the provider, or of a reader that quotes it.
    Unreadable(&'static str, String),
    /// An error of the provider, within the answer; with the status that it would have had.
    Status(u16, String),
}

impl Fault {
    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self::Malformed(why.into())
    }

    pub(crate) fn unreadable(what: &'static str, error: &serde_json::Error) -> Self {
        Self::Unreadable(what, agentd_base::json::why(error))
    }

    /// An answer without what an answer has: with the error that stands in it, if one does.
    pub(crate) fn without(what: &'static str, answer: &Value) -> Self {
        said(answer).map_or_else(|| Self::malformed(what), |words| Self::Unreadable(what, words))
    }
}

/// Reads a streamed answer, in chunks of any size. What it holds is bounded.
pub(crate) trait Reader: Send {
    /// Takes a chunk and tells the text in it; true when the answer is complete.
    fn push(&mut self, chunk: &[u8], told: &mut dyn FnMut(&str)) -> Result<bool, Fault>;
    /// The answer, when there is no more.
    fn end(self: Box<Self>) -> Result<Heard, Fault>;
}

/// An answer while it is put together.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pieces: Vec<Piece>,
    has_text: bool,
    bytes: usize,
}

/// A block while it is put together.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    Opaque(Value),
}

impl Draft {
    /// Counts what is kept.
    pub(crate) fn weigh(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > REPLY_BYTES {
            return Err(Fault::malformed(format!(
                "the answer is longer than {REPLY_BYTES} bytes"
            )));
        }
        Ok(())
    }

    /// Adds a piece; its place.
    pub(crate) fn add(&mut self, piece: Piece) -> usize {
        self.pieces.push(piece);
        self.pieces.len() - 1
    }

    pub(crate) fn piece(&mut self, place: usize) -> Option<&mut Piece> {
        self.pieces.get_mut(place)
    }

    /// More text of a piece, told as it comes.
    pub(crate) fn text(&mut self, place: usize, more: &str, told: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        self.weigh(more.len())?;
        if more.is_empty() {
            return Ok(());
        }
        let goes_on = self.has_text;
        if let Some(Piece::Text(text)) = self.piece(place) {
            if text.is_empty() && goes_on {
                told("\n");
            }
            text.push_str(more);
            told(more);
            self.has_text = true;
        }
        Ok(())
    }

    /// More arguments of a call.
    pub(crate) fn arguments(&mut self, place: usize, more: &str) -> Result<(), Fault> {
        self.weigh(more.len())?;
        if let Some(Piece::Call { arguments, .. }) = self.piece(place) {
            arguments.push_str(more);
        }
        Ok(())
    }

    /// The blocks.
    pub(crate) fn blocks(self, dialect: Dialect) -> Vec<Block> {
        let blocks = self.pieces.into_iter().filter_map(|piece| match piece {
            Piece::Text(text) => (!text.is_empty()).then_some(Block::Text(text)),
            Piece::Call { id, name, arguments } => Some(call(id, name, Arguments::parse(&arguments))),
            Piece::Opaque(value) => Some(opaque(dialect, value)),
        });
        bounded(blocks)
    }
}

/// A call that was heard.
pub(crate) fn call(id: String, name: String, arguments: Arguments) -> Block {
    Block::ToolCall(ToolCall { id, name, arguments })
}

/// Something of the provider's own that was heard.
pub(crate) fn opaque(dialect: Dialect, value: Value) -> Block {
    Block::Opaque(Opaque {
        dialect,
        origin: String::new(),
        value,
    })
}

/// No more than [`CALLS`] calls.
pub(crate) fn bounded(blocks: impl Iterator<Item = Block>) -> Vec<Block> {
    let mut calls = 0;
    let fits = |block: &Block| {
        calls += usize::from(matches!(block, Block::ToolCall(_)));
        !matches!(block, Block::ToolCall(_)) || calls <= CALLS
    };
    blocks.filter(fits).collect()
}

/// Arguments as they go back. Some servers parse those of old calls and fail on what is no JSON; the result says what
/// was wrong.
pub(crate) fn written(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Object(object) => Value::Object(object.clone()),
        Arguments::Invalid(_) => Value::Object(Map::new()),
    }
}

/// The same as a text of JSON.
pub(crate) fn written_text(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Object(object) => serde_json::to_string(object).unwrap_or_default(),
        Arguments::Invalid(_) => "{}".to_owned(),
    }
}

/// Arguments that came as a value: an object, or a text of one.
pub(crate) fn arguments(value: &Value) -> Arguments {
    match value {
        Value::Null => Arguments::Object(Map::new()),
        Value::String(text) => Arguments::parse(text),
        other => Arguments::parse(&other.to_string()),
    }
}

/// A text field, or nothing.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A count; anything else than a whole number is none.
pub(crate) fn count(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

/// What an error's body says: its words and its code.
pub(crate) fn error_words(body: &Value) -> Option<(String, String)> {
    let places = [
        "/error/message",
        "/error",
        "/message",
        "/Message",
        "/detail",
        "/0/error/message",
    ];
    let message = places.iter().find_map(|place| body.pointer(place)?.as_str())?;
    let codes = ["/error/code", "/error/type", "/error/status", "/code", "/type"];
    let code = codes.iter().find_map(|place| body.pointer(place)?.as_str());
    Some((message.to_owned(), code.unwrap_or_default().to_owned()))
}

/// The words for a report.
pub(crate) fn said(body: &Value) -> Option<String> {
    error_words(body).map(|(message, code)| with_code(message, &code))
}

/// A message with its code, where the message does not say it itself.
pub(crate) fn with_code(message: String, code: &str) -> String {
    if code.is_empty() || message.contains(code) {
        message
    } else {
        format!("{message} ({code})")
    }
}

/// Whether an error says that the request is longer than the model can read.
pub(crate) fn is_too_long(status: u16, message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let says = [
        "context_length_exceeded",
        "context length",
        "context limit",
        "context size",
        "context window",
        "prompt is too long",
        "prompt too long",
        "input is too long",
        "input too long",
        "too many input tokens",
        "maximum number of tokens allowed",
        "request_too_large",
        "reduce the length of the messages",
    ];
    status == 413 || (matches!(status, 400 | 422 | 500) && says.iter().any(|words| message.contains(words)))
}
