//! What callers answer to a question, and what servers ask, whatever it is: an answer fits what was asked, or it is said
//! in a few words what would; what is shown can be shown.

use agentd_a2a::wire::Part;
use agentd_mcp::{Answer, Ask, Question};
use agentd_noise::{changed_text, json, words as few};
use proptest::prelude::*;
use serde_json::{Value, json as object};

use super::question::{answer, shown, words};

fn asks() -> Vec<Ask> {
    let form = |properties: Value| Ask::Form {
        schema: object!({"type": "object", "properties": properties}),
    };
    vec![
        words(),
        form(object!({"colour": {"type": "string", "enum": ["red", "blue"]}})),
        form(object!({"a": {"type": "integer"}, "b": {"type": "boolean", "default": true}})),
        form(object!({"action": {"type": "string"}})),
        Ask::Url {
            url: "https://x.example/".into(),
            id: "e".into(),
        },
    ]
}

proptest! {
    #[test]
    fn answers_to_questions(
        ask in prop::sample::select(asks()),
        parts in json(vec![
            object!([{"text": "red"}]),
            object!([{"text": "{\"a\": 1, \"b\": \"yes\"}"}, {"text": "done"}]),
            object!([{"data": {"action": "accept", "content": {"colour": "red", "a": "7"}}}]),
            object!([{"data": {"colour": "blue"}}, {"url": "https://x"}, {"raw": "AAAA"}]),
        ]),
    ) {
        let Ok(parts) = serde_json::from_slice::<Vec<Part>>(&parts) else { return Ok(()) };
        match answer(&ask, &parts) {
            Ok(Answer::Accept(given)) => prop_assert_eq!(ask.shape(given.clone()), Some(given)),
            Ok(Answer::Decline | Answer::Cancel) => {}
            Err(why) => few(&why),
        }
    }

    #[test]
    fn pages_that_are_shown(url in changed_text(&["https://x.example/a?b=c#d", "https://u:p@x.example", "http://x.example", "javascript:x"])) {
        let question = Question { server: "s".into(), message: "m".into(), ask: Ask::Url { url, id: "e".into() } };
        if let Some((_, message)) = shown("id".into(), &question) {
            let shown = message.parts[1]["data"]["url"].as_str().unwrap_or_default().to_owned();
            prop_assert!(shown.starts_with("https://") && !shown.chars().any(|c| c.is_control() || c == ' '), "{}", shown);
            prop_assert!(!shown.split('/').nth(2).unwrap_or_default().contains('@'), "{}", shown);
            prop_assert!(shown.is_ascii(), "{}", shown);
        }
    }
}
