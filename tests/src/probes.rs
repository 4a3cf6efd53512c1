//! What the probes of the official A2A clients check (`tests/peers`), and what they said of it. Also a module of the tests
//! of other crates, which include this file. Pure.

/// Each of them, on either binding.
pub const CHECKS: [&str; 8] = [
    "card",
    "send",
    "stream",
    "get",
    "list",
    "cancel",
    "subscribe-terminal",
    "notfound",
];

/// What the probes of the clients of 0.3 check.
pub const CHECKS_BEFORE: [&str; 12] = [
    "card",
    "send",
    "data",
    "get",
    "stream",
    "at-once",
    "resubscribe",
    "resubscribe-terminal",
    "cancel-terminal",
    "notfound",
    "file",
    "push",
];

/// Whether a check was made and passed: a line `ok CHECK`, and perhaps more after it.
#[must_use]
pub fn passed(said: &str, check: &str) -> bool {
    said.lines()
        .filter_map(|line| line.strip_prefix("ok ")?.strip_prefix(check))
        .any(|more| more.is_empty() || more.starts_with(' '))
}
