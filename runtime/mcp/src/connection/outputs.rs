//! Whether `structuredContent` is what the tool's `outputSchema` promised. The schemas are those of the last list.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::catalogue::Tool;
use crate::reading::Structured;
use crate::schema::Checker;

/// A larger value is not checked: it takes long, and no model reads it whole.
const CHECKED_BYTES: usize = 256 * 1024;
/// A check that takes longer is given up; it ends by itself, as its schema and its value are bounded.
const CHECK: Duration = Duration::from_secs(2);

/// By tool, of one connection.
#[derive(Debug, Default)]
pub(super) struct Outputs(Mutex<HashMap<String, Promise>>);

/// What a tool says of its results.
#[derive(Debug, Clone)]
enum Promise {
    Nothing,
    Schema(Arc<Map<String, Value>>),
    Checker(Arc<Checker>),
    /// It cannot be checked.
    Unfit,
}

impl Outputs {
    /// Takes up a new list.
    pub(super) fn learn(&self, tools: &[Tool]) {
        let promises = tools.iter().map(|tool| {
            let promise = match &tool.output_schema {
                None => Promise::Nothing,
                Some(schema) => Promise::Schema(Arc::new(schema.clone())),
            };
            (tool.name.clone(), promise)
        });
        *self.promises() = promises.collect();
    }

    /// What a result's structured content is. `failed`: the tool reported a failure, which promises nothing.
    pub(super) async fn judge(&self, tool: &str, given: Option<&Value>, failed: bool) -> Structured {
        let promise = self.promises().get(tool).cloned();
        let Some(promise) = promise else {
            // Called without having been listed.
            return Structured::Fits;
        };
        let (Some(given), false) = (given, matches!(promise, Promise::Nothing)) else {
            return match promise {
                Promise::Nothing => Structured::Unpromised,
                _ if failed => Structured::Fits,
                _ => Structured::Broken("there is none, although the tool promised it".into()),
            };
        };
        if given.to_string().len() > CHECKED_BYTES {
            return Structured::Fits;
        }
        let given = given.clone();
        let checked = tokio::task::spawn_blocking(move || {
            let checker = match promise {
                Promise::Checker(checker) => Some(checker),
                Promise::Schema(schema) => match Checker::of(&schema, false) {
                    Ok(checker) => Some(Arc::new(checker)),
                    Err(why) => {
                        tracing::debug!(event = "tool.schema.unused", "{why}");
                        None
                    }
                },
                Promise::Nothing | Promise::Unfit => None,
            };
            let fault = checker.as_ref().and_then(|checker| checker.fault(&given));
            (checker, fault)
        });
        let Ok(Ok((checker, fault))) = tokio::time::timeout(CHECK, checked).await else {
            return Structured::Fits;
        };
        if let Some(promise) = self.promises().get_mut(tool) {
            *promise = checker.map_or(Promise::Unfit, Promise::Checker);
        }
        fault.map_or(Structured::Fits, Structured::Broken)
    }

    fn promises(&self) -> MutexGuard<'_, HashMap<String, Promise>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
