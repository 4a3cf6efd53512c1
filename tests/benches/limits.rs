//! What is said of a measure, one JSON line each, and what the project promises of it.

use serde_json::json;

/// What was above its limit.
#[derive(Default)]
pub(crate) struct Limits(Vec<String>);

impl Limits {
    /// One measure, with what it may be at most.
    pub(crate) fn judge(&mut self, name: &str, value: f64, unit: &str, n: u32, limit: f64) {
        println!(
            "{}",
            json!({ "name": name, "value": value, "unit": unit, "n": n, "limit": limit })
        );
        if value > limit {
            self.0
                .push(format!("{name} is {value} {unit}, more than {limit}"));
        }
    }

    /// Fails where a measure was above.
    pub(crate) fn hold(&self) {
        assert!(self.0.is_empty(), "{}", self.0.join("; "));
    }
}

/// One measure that nothing is promised of.
pub(crate) fn measure(name: &str, value: f64, unit: &str, n: u32) {
    println!(
        "{}",
        json!({ "name": name, "value": value, "unit": unit, "n": n })
    );
}
