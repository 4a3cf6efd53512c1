//! Prompts as their users see them: what a server lists, and the text of one. The texts are a server's: cut and cleaned,
//! never trusted. Pure.

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::{clip, is_unseen};
use rmcp::model::{ContentBlock, GetPromptResult, PromptMessage, ResourceContents, Role};

/// A name that is longer is not taken: it could not be asked for.
const NAME_CHARS: usize = 256;
/// Messages of one prompt.
const MESSAGES: usize = 256;

/// A line of `prompts/list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// As the server wrote it; one that is too long or holds control characters is not listed.
    pub name: String,
    /// What it says of it, for people.
    pub description: Option<String>,
}

/// A line of the list; none where it could not be asked for.
pub(crate) fn prompt(line: rmcp::model::Prompt) -> Option<Prompt> {
    let is_plain = line.name.chars().all(|c| !c.is_control() && !is_unseen(c));
    let fits = !line.name.is_empty() && line.name.chars().count() <= NAME_CHARS && is_plain;
    let label = line.description.or(line.title);
    fits.then(|| Prompt {
        name: line.name,
        description: label.map(|text| clip(&text, FOREIGN_CHARS)),
    })
}

/// The words of a prompt: those of its messages, each side named where there is more than the user's.
pub(crate) fn words(result: GetPromptResult) -> String {
    let mixed = result.messages.iter().any(|message| message.role != Role::User);
    let messages = result.messages.into_iter().take(MESSAGES);
    let parts: Vec<String> = messages.map(|message| said(message, mixed)).collect();
    parts.join("\n\n")
}

fn said(message: PromptMessage, mixed: bool) -> String {
    let text = match message.content {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            _ => "[contents that are no text]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[resource {}]", clip(&link.uri, FOREIGN_CHARS)),
        _ => "[contents that are no text]".to_owned(),
    };
    match (mixed, message.role) {
        (false, _) => text,
        (true, Role::Assistant) => format!("assistant: {text}"),
        (true, _) => format!("user: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_could_not_be_asked_for_is_not_listed_and_labels_are_cut() {
        let line = |name: &str| rmcp::model::Prompt::new(name, Some("x".repeat(10_000)), None);
        let taken = prompt(line("review")).unwrap();
        assert_eq!(taken.name, "review");
        assert!(taken.description.unwrap().chars().count() <= FOREIGN_CHARS + 1);
        for name in ["", "a\nb", &"n".repeat(NAME_CHARS + 1)] {
            assert_eq!(prompt(line(name)), None, "{name}");
        }
    }

    #[test]
    fn the_words_of_a_prompt_are_those_of_its_messages() {
        let said = |role, text: &str| PromptMessage::new_text(role, text);
        let words = |messages| words(GetPromptResult::new(messages));
        assert_eq!(
            words(vec![said(Role::User, "a"), said(Role::User, "b")]),
            "a\n\nb"
        );
        assert_eq!(
            words(vec![said(Role::User, "a"), said(Role::Assistant, "b")]),
            "user: a\n\nassistant: b"
        );
        assert_eq!(words(vec![]), "");
    }
}
