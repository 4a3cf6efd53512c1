//! Whether `structuredContent` is what the tool's `outputSchema` promised. The schemas are those of the last list; each is
//! made ready once, however often its tool is called or listed, and one that takes too long is not used again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use serde_json::{Map, Value};

use crate::catalogue::Tool;
use crate::reading::Structured;
use crate::schema::Checker;

/// A larger value is not checked: it takes long, and no model reads it whole.
const CHECKED_BYTES: usize = 256 * 1024;
/// A check that takes longer is given up; it ends by itself, as its schema and its value are bounded.
const CHECK: Duration = Duration::from_secs(2);

/// By tool, of one connection.
#[derive(Default)]
pub(super) struct Outputs(Mutex<HashMap<String, Promised>>);

struct Promised {
    /// The tool's.
    digest: String,
    promise: Promise,
}

/// What a tool says of its results.
#[derive(Clone)]
enum Promise {
    Nothing,
    Schema(Arc<Map<String, Value>>),
    Ready(Ready),
    /// It cannot be checked.
    Unfit,
}

/// A schema that is being made ready, or is; none where it cannot be used.
type Ready = Shared<BoxFuture<'static, Option<Arc<Checker>>>>;

impl Outputs {
    /// Takes up a new list. What is known of a tool that is the same stays known.
    pub(super) fn learn(&self, tools: &[Tool]) {
        let mut known = self.known();
        let mut before = std::mem::take(&mut *known);
        known.extend(tools.iter().map(|tool| {
            let same = before
                .remove(&tool.name)
                .filter(|promised| promised.digest == tool.digest);
            let promised = same.unwrap_or_else(|| Promised {
                digest: tool.digest.clone(),
                promise: match &tool.output_schema {
                    None => Promise::Nothing,
                    Some(schema) => Promise::Schema(Arc::new(schema.clone())),
                },
            });
            (tool.name.clone(), promised)
        }));
    }

    /// What a result's structured content is. `failed`: the tool reported a failure, which promises nothing.
    pub(super) async fn judge(&self, tool: &str, given: Option<&Value>, failed: bool) -> Structured {
        let Some((promise, digest)) = self.promise(tool, given.is_some()) else {
            // Called without having been listed.
            return Structured::Fits;
        };
        let (given, ready) = match (given, promise) {
            (_, Promise::Nothing) => return Structured::Unpromised,
            (None, _) if failed => return Structured::Fits,
            (None, _) => return Structured::Broken("there is none, although the tool promised it".into()),
            (Some(given), Promise::Ready(ready)) => (given, ready),
            (Some(_), Promise::Schema(_) | Promise::Unfit) => return Structured::Fits,
        };
        if given.to_string().len() > CHECKED_BYTES {
            return Structured::Fits;
        }
        let given = given.clone();
        let checked = async {
            let checker = ready.await?;
            let checked = tokio::task::spawn_blocking(move || checker.fault(&given));
            Some(
                checked
                    .await
                    .unwrap_or_default()
                    .map_or(Structured::Fits, Structured::Broken),
            )
        };
        match tokio::time::timeout(CHECK, checked).await {
            Ok(Some(structured)) => structured,
            Ok(None) | Err(_) => {
                self.give_up(tool, &digest);
                Structured::Fits
            }
        }
    }

    /// What a tool promised, and the tool's digest; made ready where there is something to check.
    fn promise(&self, tool: &str, check: bool) -> Option<(Promise, String)> {
        let mut known = self.known();
        let promised = known.get_mut(tool)?;
        if let (true, Promise::Schema(schema)) = (check, &promised.promise) {
            promised.promise = Promise::Ready(prepare(schema.clone()));
        }
        Some((promised.promise.clone(), promised.digest.clone()))
    }

    /// It costs too much, or is none.
    fn give_up(&self, tool: &str, digest: &str) {
        if let Some(promised) = self
            .known()
            .get_mut(tool)
            .filter(|promised| promised.digest == digest)
        {
            promised.promise = Promise::Unfit;
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Promised>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs to its end whoever waits for it, so that nobody begins it a second time.
fn prepare(schema: Arc<Map<String, Value>>) -> Ready {
    let compiled = tokio::task::spawn_blocking(move || match Checker::of(&schema, false) {
        Ok(checker) => Some(Arc::new(checker)),
        Err(why) => {
            tracing::debug!(event = "tool.schema.unused", "{why}");
            None
        }
    });
    async move { compiled.await.unwrap_or_default() }.boxed().shared()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(digest: &str, schema: Option<Value>) -> Tool {
        Tool {
            name: "t".into(),
            digest: digest.into(),
            output_schema: schema.map(|schema| schema.as_object().unwrap().clone()),
            ..Tool::default()
        }
    }

    fn state(outputs: &Outputs) -> &'static str {
        match outputs.known()["t"].promise {
            Promise::Nothing => "nothing",
            Promise::Schema(_) => "schema",
            Promise::Ready(_) => "ready",
            Promise::Unfit => "unfit",
        }
    }

    #[tokio::test]
    async fn m22_a_schema_is_made_ready_once_for_each_definition() {
        let outputs = Outputs::default();
        let number = json!({"properties": {"n": {"type": "number"}}});
        outputs.learn(&[tool("1", Some(number.clone()))]);
        assert_eq!(state(&outputs), "schema");
        let judge = async |given: Value| outputs.judge("t", Some(&given), false).await;
        assert_eq!(judge(json!({"n": 1})).await, Structured::Fits);
        assert!(matches!(judge(json!({"n": "x"})).await, Structured::Broken(_)));
        outputs.learn(&[tool("1", Some(number.clone()))]);
        assert_eq!(state(&outputs), "ready");
        outputs.learn(&[tool("2", Some(number))]);
        assert_eq!(state(&outputs), "schema");
        outputs.learn(&[tool("3", None)]);
        assert_eq!(judge(json!({})).await, Structured::Unpromised);
    }

    /// What costs too much is found out once, and is unused for as long as the tool is the same.
    #[tokio::test]
    async fn m22_a_schema_of_thousands_of_patterns_costs_nothing_the_second_time() {
        let outputs = Outputs::default();
        let patterns: Map<String, Value> = (0..4_000)
            .map(|n| {
                (
                    format!("p{n}"),
                    json!({"pattern": format!(r"^[\p{{L}}\p{{N}}]{{1,{n}}}$")}),
                )
            })
            .collect();
        let bomb = tool("1", Some(json!({"properties": patterns})));
        outputs.learn(std::slice::from_ref(&bomb));
        let calls = (0..8).map(|_| outputs.judge("t", Some(&Value::Null), false));
        for judged in futures::future::join_all(calls).await {
            assert_eq!(judged, Structured::Fits);
        }
        assert_eq!(state(&outputs), "unfit");
        outputs.learn(&[bomb]);
        assert_eq!(state(&outputs), "unfit");
    }
}
