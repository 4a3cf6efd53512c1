//! A transcript as a model is told it, message by message. Pure.

use std::borrow::Cow;

use agentd_llm::{Block, Conversation, Message, ToolCall, ToolResult};

use super::{Item, Piece, Transcript};

impl Transcript {
    /// As a model is told.
    pub fn messages(&self) -> Conversation {
        let mut messages = Conversation::default();
        self.tell(&mut messages);
        messages
    }

    /// Makes these messages the ones of [`Transcript::messages`]. Those that are it already stay: a round adds to the
    /// end of a conversation, and the rest of it is not copied anew for each.
    pub fn tell(&self, messages: &mut Conversation) {
        let mut at = 0;
        let mut items = self.items.iter().peekable();
        while let Some(item) = items.next() {
            match item {
                Item::User(text) | Item::Summary(text) => {
                    let mut said = Cow::Borrowed(text);
                    // A summary and what the caller said after it.
                    while let Some(Item::User(more) | Item::Summary(more)) = items.peek() {
                        let said = said.to_mut();
                        said.push_str("\n\n");
                        said.push_str(more);
                        items.next();
                    }
                    let is_it = |message: &Message| matches!(message, Message::User(text) if *text == *said);
                    place(messages, &mut at, is_it, || Message::User(said.to_string()));
                }
                Item::Round(pieces) => {
                    place(
                        messages,
                        &mut at,
                        |message| answers(pieces, message),
                        || Message::Assistant(pieces.iter().map(Piece::block).collect()),
                    );
                    if pieces.iter().any(|piece| matches!(piece, Piece::Call(_))) {
                        place(
                            messages,
                            &mut at,
                            |message| results(pieces, message),
                            || Message::Results(pieces.iter().filter_map(Piece::result).collect()),
                        );
                    }
                }
            }
        }
        messages.truncate(at);
    }
}

impl Piece {
    fn block(&self) -> Block {
        match self {
            Self::Text(text) => Block::Text(text.clone()),
            Self::Opaque(opaque) => Block::Opaque(opaque.clone()),
            Self::Call(call) => Block::ToolCall(ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            }),
        }
    }

    fn result(&self) -> Option<ToolResult> {
        match self {
            Self::Text(_) | Self::Opaque(_) => None,
            Self::Call(call) => Some(ToolResult {
                call_id: call.id.clone(),
                content: call.result.text.clone(),
                is_error: call.result.is_error,
            }),
        }
    }
}

/// Puts a message at its place, unless it stands there; what comes after another one is another conversation.
fn place(
    messages: &mut Conversation,
    at: &mut usize,
    is_it: impl Fn(&Message) -> bool,
    new: impl FnOnce() -> Message,
) {
    if !messages.get(*at).is_some_and(is_it) {
        messages.truncate(*at);
        messages.push(new());
    }
    *at += 1;
}

/// Whether a message is what was said in a round.
fn answers(pieces: &[Piece], message: &Message) -> bool {
    let is_block = |(piece, block): (&Piece, &Block)| match (piece, block) {
        (Piece::Text(text), Block::Text(other)) => text == other,
        (Piece::Opaque(opaque), Block::Opaque(other)) => opaque == other,
        (Piece::Call(call), Block::ToolCall(other)) => {
            call.id == other.id && call.name == other.name && call.arguments == other.arguments
        }
        _ => false,
    };
    matches!(message, Message::Assistant(blocks) if blocks.len() == pieces.len() && pieces.iter().zip(blocks).all(is_block))
}

/// Whether a message is the results of a round.
fn results(pieces: &[Piece], message: &Message) -> bool {
    let Message::Results(results) = message else {
        return false;
    };
    let calls = pieces.iter().filter_map(|piece| match piece {
        Piece::Call(call) => Some(call),
        Piece::Text(_) | Piece::Opaque(_) => None,
    });
    calls.clone().count() == results.len()
        && calls.zip(results).all(|(call, result)| {
            call.id == result.call_id
                && call.result.text == result.content
                && call.result.is_error == result.is_error
        })
}
