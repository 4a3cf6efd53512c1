//! `think`: one structured model call without tools.

use std::sync::Arc;
use std::time::Duration;

use agentd_llm::{CallContext, Message, ModelRequest, Mute};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{object, text};
use crate::answer::Shape;
use crate::grants::READ;
use crate::internal::{self, Call, Came, Handler, Internal};
use crate::skills;

/// One call; the turn's own time ends it earlier.
const TIME: Duration = Duration::from_secs(300);
/// All that one thought reads: skills and resources.
const READ_BYTES: usize = 1024 * 1024;
const SYSTEM: &str = "Think about what you are asked and answer it. You have no tools.";

struct Think;

pub(super) fn tools() -> Vec<Internal> {
    let texts =
        |description: &str| json!({"type": "array", "maxItems": 32, "items": text(1024, description)});
    vec![Internal::new(
        "think",
        "Puts one question to the model apart from this conversation, and gives its answer. It has no tools and knows only what the prompt says.",
        object([
            (
                "prompt*",
                text(200_000, "The question with everything that it needs."),
            ),
            (
                "output_schema",
                json!({"type": "object", "description": "JSON Schema of the answer. Absent: text."}),
            ),
            ("reads", texts("A URI that is read first, as by resource.read.")),
            ("skills", texts("A skill that is followed.")),
        ]),
        object([("answer*", json!({}))]),
        &Think,
    )]
}

#[async_trait]
impl Handler for Think {
    async fn call(&self, call: Call<'_>) -> Came {
        let arguments = &call.arguments;
        let said = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut parts = vec![said("prompt").to_owned()];
        let followed = arguments.get("skills").and_then(Value::as_array);
        let followed = followed.map(Vec::as_slice).unwrap_or_default();
        if !followed.is_empty() && internal::find(skills::LOAD, call.desk).is_none() {
            return Came::error("skills needs the tool skills.load, which is not here; leave skills out");
        }
        let reads = arguments.get("reads").and_then(Value::as_array);
        let reads = reads.map(Vec::as_slice).unwrap_or_default();
        // Who may not read by the tool may not read by this one.
        if !reads.is_empty() && internal::find(READ, call.desk).is_none() {
            return Came::error(format!(
                "reads needs the tool {READ}, which is not here; leave reads out"
            ));
        }
        let mut bytes = 0;
        for name in followed {
            let name = name.as_str().unwrap_or_default();
            match skills::fetch(call.desk, name, Map::new(), call.ordinal).await {
                Ok(skill) => {
                    bytes += skill.text.len();
                    let max = READ_BYTES.min(call.desk.skills.max_total());
                    if bytes > max {
                        return Came::error(format!(
                            "the skills have more than {max} bytes together; name fewer of them"
                        ));
                    }
                    parts.push(format!("# Skill {name}\n\n{}", skill.text));
                }
                Err(why) => return Came::error(why),
            }
        }
        for uri in reads {
            let uri = uri.as_str().unwrap_or_default();
            let read = crate::reading::read(uri, call.ordinal, call.desk).await;
            if read.is_error {
                return Came::Seen(read);
            }
            bytes += read.text.len();
            if bytes > READ_BYTES {
                return Came::error(format!(
                    "what skills and reads name is more than {READ_BYTES} bytes; name less of it"
                ));
            }
            parts.push(format!("# {uri}\n\n{}", read.text));
        }
        let schema = arguments.get("output_schema");
        let shape = match schema.cloned().map(Shape::new).transpose() {
            Ok(shape) => shape,
            Err(why) => return Came::error(why),
        };
        if let Some(schema) = schema {
            parts.push(format!(
                "Answer with JSON of this schema and nothing else:\n{schema}"
            ));
        }
        let request = ModelRequest {
            system: SYSTEM.to_owned(),
            messages: vec![Message::User(parts.join("\n\n"))].into(),
            ..ModelRequest::default()
        };
        let context = CallContext {
            run_id: call.desk.context.run_id.clone(),
            traceparent: call.desk.context.traceparent.clone(),
            deadline: Instant::now() + TIME,
            sink: Some(Arc::new(Mute)),
        };
        let reply = match call.desk.model.complete(&request, &context).await {
            Ok(reply) => reply.text(),
            Err(error) => return Came::error(format!("the model gave no answer: {error}")),
        };
        let Some(shape) = shape else {
            return Came::Value(json!({"answer": reply}));
        };
        match shape.check(&reply) {
            Ok(answer) => {
                let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
                Came::Value(json!({"answer": answer}))
            }
            Err(fault) => Came::error(format!("the answer does not fit output_schema: {fault}\n{reply}")),
        }
    }
}
