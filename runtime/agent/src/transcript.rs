//! The transcript of a conversation. A call and its result are one value, so that neither can be there without the
//! other; what is loaded is repaired first. Whatever happened to it, [`Transcript::messages`] is what providers take:
//! it begins with the caller, every call is answered at once, ids are unique, names are provider-safe.

mod told;

use agentd_llm::{Arguments, Block, Opaque, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observation::Observation;
use crate::tokens;

/// The form that is written. A higher one is of a newer program.
const VERSION: u64 = 1;
/// Function names of every provider.
const NAME_CHARS: usize = 64;
/// Ids of calls of every provider.
const ID_CHARS: usize = 40;
/// Stands where a result was lost.
const LOST: &str = "ERROR: the result of this call was lost; it may have been carried out";

/// A conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    items: Vec<Item>,
    /// What they take in a request, in characters: it is asked for several times a round, and a round adds to it.
    chars: u64,
}

/// What one side said. Items of one kind never follow each other unless the first holds calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Item {
    User(String),
    Round(Vec<Piece>),
    /// What was said before the rest, in short. Only ever the first.
    Summary(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Piece {
    Text(String),
    Call(Answered),
    /// The provider's own. It stands where it stood: before the call that it led to.
    Opaque(Opaque),
}

/// A call with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    id: String,
    pub(crate) name: String,
    pub(crate) arguments: Arguments,
    #[serde(default = "lost")]
    pub(crate) result: Observation,
}

fn lost() -> Observation {
    Observation::error(LOST)
}

/// What a transcript was made of, and what had to be mended.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The transcript.
    pub transcript: Transcript,
    /// One line each, for the log; empty when nothing was mended.
    pub repairs: Vec<String>,
}

impl Transcript {
    /// From what was stored: `Null` is an empty one. What cannot be read is left out, never an error.
    pub fn load(stored: Value) -> Loaded {
        let mut repairs = Vec::new();
        let items = match stored {
            Value::Null => Vec::new(),
            Value::Object(mut object) => {
                let version = object.get("version").and_then(Value::as_u64);
                if version != Some(VERSION) {
                    repairs.push("it is of another version".to_owned());
                }
                match object.remove("items") {
                    Some(Value::Array(items)) => items,
                    _ => {
                        repairs.push("it holds no list of items".to_owned());
                        Vec::new()
                    }
                }
            }
            _ => {
                repairs.push("it is no transcript".to_owned());
                Vec::new()
            }
        };
        let mut transcript = Self::default();
        for (index, item) in items.into_iter().enumerate() {
            let incomplete = item.pointer("/round").is_some_and(lacks_result);
            match serde_json::from_value(item) {
                Ok(item) => {
                    let mended = transcript.push(item);
                    if mended || incomplete {
                        repairs.push(format!("item {index} was mended"));
                    }
                }
                Err(_) => repairs.push(format!("item {index} was left out")),
            }
        }
        Loaded { transcript, repairs }
    }

    /// The caller said something.
    pub fn push_user(&mut self, text: impl Into<String>) {
        self.push(Item::User(text.into()));
    }

    /// The model said something, and every call of it has its result. Not kept where no caller spoke before, since no
    /// provider takes that.
    pub(crate) fn push_round(&mut self, said: Vec<(Block, Option<Observation>)>) {
        let pieces = said.into_iter().map(|(block, result)| match block {
            Block::Text(text) => Piece::Text(text),
            Block::ToolCall(ToolCall { id, name, arguments }) => Piece::Call(Answered {
                id,
                name,
                arguments,
                result: result.unwrap_or_else(lost),
            }),
            Block::Opaque(opaque) => Piece::Opaque(opaque),
        });
        let round = Item::Round(pieces.collect());
        self.push(round);
    }

    /// What came of a call of the last round, which was not known.
    pub(crate) fn answer_last(&mut self, id: &str, seen: Observation) {
        let Some(Item::Round(pieces)) = self.items.last_mut() else {
            return;
        };
        let waited = pieces.iter_mut().find_map(|piece| match piece {
            Piece::Call(call) if call.id == id => Some(call),
            Piece::Call(_) | Piece::Text(_) | Piece::Opaque(_) => None,
        });
        if let Some(call) = waited {
            call.result = seen;
        }
        self.count();
    }

    /// The ids of the calls that were made last.
    pub(crate) fn last_calls(&self) -> Vec<&str> {
        let Some(Item::Round(pieces)) = self.items.last() else {
            return Vec::new();
        };
        let ids = pieces.iter().filter_map(|piece| match piece {
            Piece::Call(call) => Some(call.id.as_str()),
            Piece::Text(_) | Piece::Opaque(_) => None,
        });
        ids.collect()
    }

    /// The place of what a caller said last.
    pub(crate) fn last_user(&self) -> usize {
        let is_user = |item: &Item| matches!(item, Item::User(_));
        self.items.iter().rposition(is_user).unwrap_or_default()
    }

    /// Takes back the words of a caller that are the last thing said; what came after them keeps them.
    pub fn take_back(&mut self, text: &str) {
        if let Some(Item::User(last)) = self.items.last_mut() {
            if last == text {
                self.items.pop();
            } else if let Some(before) = last.strip_suffix(text).and_then(|rest| rest.strip_suffix("\n\n")) {
                *last = before.to_owned();
            }
        }
        self.count();
    }

    /// Adds an item so that the invariants hold; true when it was not as it should be.
    pub(crate) fn push(&mut self, item: Item) -> bool {
        match item {
            summary @ Item::Summary(_) if self.items.is_empty() => {
                self.add(summary);
                false
            }
            Item::Summary(text) => {
                self.push(Item::User(text));
                true
            }
            Item::User(text) => {
                if let Some(Item::User(last)) = self.items.last_mut() {
                    let before = last.len();
                    last.push_str("\n\n");
                    last.push_str(&text);
                    self.chars += last.get(before..).map_or(0, tokens::text);
                } else {
                    self.add(Item::User(text));
                }
                false
            }
            Item::Round(pieces) => self.push_pieces(pieces),
        }
    }

    fn push_pieces(&mut self, pieces: Vec<Piece>) -> bool {
        let given = pieces.len();
        let mut mended = false;
        let mut kept: Vec<Piece> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) if text.is_empty() => {}
                piece @ (Piece::Text(_) | Piece::Opaque(_)) => kept.push(piece),
                Piece::Call(mut call) => {
                    let before = self.calls().chain(calls(&kept));
                    mended |= call.mend(before.map(|call| call.id.as_str()));
                    kept.push(Piece::Call(call));
                }
            }
        }
        // What only a provider understands is no answer by itself, and another provider is not sent it.
        if kept.iter().all(|piece| matches!(piece, Piece::Opaque(_))) {
            kept.clear();
        }
        mended |= kept.len() != given;
        match self.items.last_mut() {
            None => mended = true,
            _ if kept.is_empty() => {}
            // Two answers in a row are one, unless results stand between them.
            Some(Item::Round(last)) if !last.iter().any(|piece| matches!(piece, Piece::Call(_))) => {
                self.chars += kept.iter().map(Piece::chars).sum::<u64>();
                last.extend(kept);
                mended = true;
            }
            Some(_) => self.add(Item::Round(kept)),
        }
        mended
    }

    fn add(&mut self, item: Item) {
        self.chars += item.chars();
        self.items.push(item);
    }

    /// After a change of what was there.
    fn count(&mut self) {
        self.chars = self.items.iter().map(Item::chars).sum();
    }

    fn calls(&self) -> impl Iterator<Item = &Answered> + Clone {
        self.items.iter().flat_map(|item| match item {
            Item::Round(pieces) => calls(pieces),
            Item::User(_) | Item::Summary(_) => calls(&[]),
        })
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Changes what was said.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut [Item]) -> T) -> T {
        let changed = change(&mut self.items);
        self.count();
        changed
    }

    /// What it takes in a request, in characters.
    pub(crate) fn chars(&self) -> u64 {
        self.chars
    }

    /// Whether nothing was said yet.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Serialize for Transcript {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Stored<'a> {
            version: u64,
            items: &'a [Item],
        }
        Stored {
            version: VERSION,
            items: &self.items,
        }
        .serialize(serializer)
    }
}

/// As [`Transcript::load`], without the notes.
impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::load(value).transcript)
    }
}

impl Item {
    /// The messages that it is.
    pub(crate) fn messages(&self) -> usize {
        match self {
            Self::User(_) | Self::Summary(_) => 1,
            Self::Round(pieces) => {
                1 + usize::from(pieces.iter().any(|piece| matches!(piece, Piece::Call(_))))
            }
        }
    }

    /// What it takes in a request, in characters.
    pub(crate) fn chars(&self) -> u64 {
        match self {
            Self::User(text) | Self::Summary(text) => tokens::text(text),
            Self::Round(pieces) => pieces.iter().map(Piece::chars).sum(),
        }
    }
}

impl Answered {
    /// A name that providers take, and an id that none before has; true when they were not so.
    fn mend<'a>(&mut self, before: impl Iterator<Item = &'a str> + Clone) -> bool {
        let mut mended = false;
        let name = provider_safe(&self.name);
        if name != self.name {
            self.name = name;
            mended = true;
        }
        let usable = |id: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            !id.is_empty() && id.len() <= ID_CHARS && id.bytes().all(plain)
        };
        let is_free = |id: &str| before.clone().all(|other| other != id);
        if !usable(&self.id) || !is_free(&self.id) {
            // Of as many numbers from here on as there are ids, and one, one is free.
            let mut number = before.clone().count();
            self.id = format!("call_{number}");
            while !is_free(&self.id) {
                number += 1;
                self.id = format!("call_{number}");
            }
            mended = true;
        }
        mended
    }
}

impl Piece {
    fn chars(&self) -> u64 {
        match self {
            Self::Text(text) => tokens::text(text),
            Self::Call(call) => {
                tokens::text(&call.name)
                    + tokens::arguments(&call.arguments)
                    + tokens::text(&call.result.text)
            }
            Self::Opaque(opaque) => tokens::json(&opaque.value),
        }
    }
}

/// The calls among some pieces.
fn calls(pieces: &[Piece]) -> impl Iterator<Item = &Answered> + Clone {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Call(call) => Some(call),
        Piece::Text(_) | Piece::Opaque(_) => None,
    })
}

/// `^[a-zA-Z0-9_-]{1,64}$`: a model may write any name, and providers refuse a conversation that repeats it.
fn provider_safe(name: &str) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().take(NAME_CHARS).map(safe).collect();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    }
}

fn lacks_result(pieces: &Value) -> bool {
    let calls = pieces
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|piece| piece.get("call"));
    calls.filter(|call| call.get("result").is_none()).count() > 0
}
