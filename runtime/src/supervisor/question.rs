//! A question as its task shows it, and what a caller's message says to it. Pure.

use agentd_a2a::wire::{self, Part, PartContent};
use agentd_mcp::{Answer, Ask, Question};
use agentd_state::{Message, Role, TaskState};
use serde_json::{Map, Value, json};
use url::Url;

/// The only field of a question that is answered in words.
const WORDS: &str = "answer";
/// Members of the data part of a question.
const SCHEMA: &str = "requestedSchema";
const URL: &str = "url";
/// Members of an answer that says more than values, as MCP has them.
const ACTION: &str = "action";
const CONTENT: &str = "content";

/// How a question is answered in words.
pub fn words() -> Ask {
    Ask::Form {
        schema: json!({"type": "object", "properties": {WORDS: {"type": "string"}}, "required": [WORDS]}),
    }
}

/// What was said to a question that is answered in words.
pub fn said(mut given: Map<String, Value>) -> Value {
    given.remove(WORDS).unwrap_or_default()
}

/// What a task shows while this is asked, under this message id; none where nobody may be shown it: a page that is not
/// reached by https, or whose URL carries a name or a password.
pub fn shown(id: String, question: &Question) -> Option<(TaskState, Message)> {
    let text = match question.server.as_str() {
        "" => question.message.clone(),
        server => format!("The server {server} asks: {}", question.message),
    };
    let (state, parts) = match &question.ask {
        ask if *ask == words() => (TaskState::InputRequired, vec![Part::text(text)]),
        Ask::Form { schema } => {
            let data = Part::data(json!({ SCHEMA: schema }));
            (TaskState::InputRequired, vec![Part::text(text), data])
        }
        Ask::Url { url, .. } => {
            let url = page(url)?;
            let text = format!("{text}\n\nVisit {url} and say `done` when you have, or `decline`.");
            let data = Part::data(json!({ URL: url }));
            (TaskState::AuthRequired, vec![Part::text(text), data])
        }
    };
    let message = Message {
        id,
        role: Role::Agent,
        parts: serde_json::to_value(parts).unwrap_or_default(),
    };
    Some((state, message))
}

/// The URL as browsers read it, with a host that nothing can be hidden in.
fn page(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let is_plain = url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
    is_plain.then(|| url.to_string())
}

/// What a caller's message says to a question.
///
/// # Errors
/// Says what would be an answer.
pub fn answer(ask: &Ask, parts: &[wire::Part]) -> Result<Answer, String> {
    let data = parts.iter().find_map(|part| match &part.content {
        PartContent::Data(Value::Object(data)) => Some(data.clone()),
        PartContent::Data(_) | PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
    });
    if let Some(data) = data {
        return in_data(ask, data).ok_or_else(|| wanted(ask));
    }
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    if texts.is_empty() {
        return Err(wanted(ask));
    }
    let text = texts.join("\n\n");
    let to_do = || action(&text.trim().to_ascii_lowercase(), ask, Map::new());
    // What the agent asks in words may have these words for an answer; to a server they are a refusal.
    let given = if *ask == words() {
        in_words(ask, &text).or_else(to_do)
    } else {
        to_do().or_else(|| in_words(ask, &text))
    };
    given.ok_or_else(|| wanted(ask))
}

fn in_data(ask: &Ask, mut data: Map<String, Value>) -> Option<Answer> {
    if is_action(ask, &data) {
        let content = match data.remove(CONTENT) {
            Some(Value::Object(content)) => content,
            _ => Map::new(),
        };
        return action(data.get(ACTION)?.as_str()?, ask, content);
    }
    match ask {
        Ask::Form { .. } => ask.shape(data).map(Answer::Accept),
        Ask::Url { .. } => None,
    }
}

/// Whether it says what is to be done with the question: it may also be values of a form that has such a field.
fn is_action(ask: &Ask, data: &Map<String, Value>) -> bool {
    let is_field = match ask {
        Ask::Form { schema } => schema.pointer("/properties/action").is_some(),
        Ask::Url { .. } => false,
    };
    !is_field && data.contains_key(ACTION) && data.keys().all(|key| key == ACTION || key == CONTENT)
}

fn action(word: &str, ask: &Ask, content: Map<String, Value>) -> Option<Answer> {
    match (word, ask) {
        ("decline", _) => Some(Answer::Decline),
        ("cancel", _) => Some(Answer::Cancel),
        ("accept" | "done", Ask::Url { .. }) => Some(Answer::Accept(Map::new())),
        ("accept", Ask::Form { .. }) => ask.shape(content).map(Answer::Accept),
        _ => None,
    }
}

/// Words are the value of a form's only field, or the values as JSON.
fn in_words(ask: &Ask, text: &str) -> Option<Answer> {
    let Ask::Form { schema } = ask else { return None };
    let mut fields = schema.get("properties")?.as_object()?.keys();
    let given = match (fields.next(), fields.next()) {
        (Some(only), None) => {
            let given = Map::from_iter([(only.clone(), Value::from(text))]);
            ask.shape(given)
        }
        _ => None,
    };
    let parsed = || match serde_json::from_str(text) {
        Ok(Value::Object(given)) => ask.shape(given),
        _ => None,
    };
    given.or_else(parsed).map(Answer::Accept)
}

fn wanted(ask: &Ask) -> String {
    match ask {
        Ask::Form { .. } => {
            "is no answer to what the task asks; send the values that its status message describes \
                             (requestedSchema) in a `data` part, or `{\"action\": \"decline\"}`"
                .to_owned()
        }
        Ask::Url { .. } => {
            "is no answer to what the task asks; say `done` when the page was visited, or `decline`"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: Value) -> Ask {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        Ask::Form {
            schema: json!({ "type": "object", "required": required, "properties": properties }),
        }
    }

    fn accept(given: Value) -> Result<Answer, ()> {
        Ok(Answer::Accept(given.as_object().unwrap().clone()))
    }

    fn page_of(url: &str) -> Ask {
        Ask::Url {
            url: url.into(),
            id: String::new(),
        }
    }

    #[test]
    fn s13_an_answer_in_words_or_in_data_is_what_the_question_wants_or_none() {
        let colour = form(json!({ "colour": { "type": "string", "enum": ["red", "blue"] } }));
        let free = form(json!({ "token": { "type": "string" } }));
        let two = form(json!({ "a": { "type": "integer" }, "b": { "type": "boolean" } }));
        let acts = form(json!({ "action": { "type": "string" } }));
        let url = page_of("https://x.example/");
        let (text, data) = (|text: &str| Part::text(text), Part::data);
        for (ask, part, expected) in [
            (
                &words(),
                text("blue, I think"),
                accept(json!({ "answer": "blue, I think" })),
            ),
            (&words(), text("decline"), accept(json!({ "answer": "decline" }))),
            (
                &words(),
                data(json!({ "action": "decline" })),
                Ok(Answer::Decline),
            ),
            (
                &words(),
                data(json!({ "answer": "x" })),
                accept(json!({ "answer": "x" })),
            ),
            (&words(), data(json!("blue")), Err(())),
            (&words(), data(json!(["blue"])), Err(())),
            (&free, text("blue"), accept(json!({ "token": "blue" }))),
            (&free, text("decline"), Ok(Answer::Decline)),
            (&colour, text("red"), accept(json!({ "colour": "red" }))),
            (
                &colour,
                text(r#"{"colour": "blue"}"#),
                accept(json!({ "colour": "blue" })),
            ),
            (&colour, text("green"), Err(())),
            (&colour, text(" Decline "), Ok(Answer::Decline)),
            (&colour, text("cancel"), Ok(Answer::Cancel)),
            (&colour, data(json!({ "colour": "green" })), Err(())),
            (&colour, data(json!(["red"])), Err(())),
            (
                &colour,
                data(json!({ "action": "accept", "content": { "colour": "red" } })),
                accept(json!({ "colour": "red" })),
            ),
            (&colour, data(json!({ "action": "accept" })), Err(())),
            (&colour, data(json!({ "action": "shrug" })), Err(())),
            (
                &two,
                data(json!({ "a": 1, "b": true, "c": 3 })),
                accept(json!({ "a": 1, "b": true })),
            ),
            (
                &two,
                text(r#"{"a": "1", "b": false}"#),
                accept(json!({ "a": 1, "b": false })),
            ),
            (&two, text("1 and true"), Err(())),
            (
                &acts,
                data(json!({ "action": "decline" })),
                accept(json!({ "action": "decline" })),
            ),
            (&url, text("done"), accept(json!({}))),
            (&url, data(json!({ "action": "accept" })), accept(json!({}))),
            (&url, text("decline"), Ok(Answer::Decline)),
            (&url, text("I lost my password"), Err(())),
            (&url, data(json!({ "token": "x" })), Err(())),
        ] {
            let read = answer(ask, std::slice::from_ref(&part));
            assert_eq!(read.map_err(|_| ()), expected, "{ask:?} {part:?}");
        }
        // What is said beside the values is for people.
        let both = [text("here"), data(json!({ "colour": "red" }))];
        assert_eq!(
            answer(&colour, &both),
            Ok(Answer::Accept(Map::from_iter([("colour".into(), "red".into())])))
        );
    }

    #[test]
    fn s13_a_question_is_a_message_of_the_agent_and_a_page_is_shown_only_where_it_is_safe() {
        let shown = |server: &str, ask: Ask| {
            let question = Question {
                server: server.into(),
                message: "Which?".into(),
                ask,
            };
            super::shown("m1".into(), &question).map(|(state, message)| {
                assert_eq!((message.id.as_str(), message.role), ("m1", Role::Agent));
                (state, message.parts)
            })
        };
        assert_eq!(
            shown("", words()),
            Some((TaskState::InputRequired, json!([{ "text": "Which?" }])))
        );
        let Ask::Form { schema } = form(json!({ "n": { "type": "integer" } })) else {
            panic!()
        };
        assert_eq!(
            shown(
                "fs",
                Ask::Form {
                    schema: schema.clone()
                }
            ),
            Some((
                TaskState::InputRequired,
                json!([{ "text": "The server fs asks: Which?" }, { "data": { "requestedSchema": schema } }])
            ))
        );
        let (state, parts) = shown("fs", page_of("https://bücher.example/a b")).unwrap();
        assert_eq!(state, TaskState::AuthRequired);
        assert_eq!(
            parts[1],
            json!({ "data": { "url": "https://xn--bcher-kva.example/a%20b" } })
        );
        assert!(
            parts[0]["text"]
                .as_str()
                .unwrap()
                .contains("https://xn--bcher-kva.example/a%20b")
        );
        for hostile in [
            "http://x.example/",
            "javascript:alert(1)",
            "https://bank.example@x.example/",
            "file:///etc",
            "x",
        ] {
            assert_eq!(shown("fs", page_of(hostile)), None, "{hostile}");
        }
    }
}
