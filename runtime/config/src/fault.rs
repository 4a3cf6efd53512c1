//! What is wrong with a configuration, in one line each: `key: problem; remedy`. The same texts stand on stderr of
//! `agentd` and in the `Accepted` condition of an Agent. Never holds a value that could be a credential.

use std::fmt;

use agentd_base::class::{Class, Classified};
use agentd_base::text::clip;

/// Of a path of keys, or of a file.
const KEY_CHARS: usize = 512;
/// Of what is said of it: the keys that are allowed at a place are some hundred words.
const WORDS_CHARS: usize = 1700;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The path of the key, such as `mcp.servers[fs].endpoint`; or the name of the variable, flag or file.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl Fault {
    /// A fault of `key`. All three may repeat what stands in a document: each is made one line, and bounded.
    pub fn new(key: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            key: clip(&key.into(), KEY_CHARS),
            problem: clip(&problem.into(), WORDS_CHARS),
            remedy: clip(&remedy.into(), WORDS_CHARS),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.key, self.problem, self.remedy)
    }
}

/// Every fault that was found, at least one. Displays as one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct ConfigErrors(pub Vec<Fault>);

impl Classified for ConfigErrors {
    fn class(&self) -> Class {
        Class::Invalid
    }
}

impl From<Fault> for ConfigErrors {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_each() {
        let errors = ConfigErrors(vec![
            Fault::new("a.b", "is missing", "set it"),
            Fault::new("c", "is wrong", "mend it"),
        ]);
        assert_eq!(
            errors.to_string(),
            "a.b: is missing; set it\nc: is wrong; mend it"
        );
        assert_eq!(errors.class(), Class::Invalid);
        let odd = Fault::new("a\nb\0", "x".repeat(100_000), "\u{202e}ok").to_string();
        assert!(
            odd.starts_with("a b : xxx") && odd.ends_with("…; ok") && odd.len() < 2000,
            "{odd}"
        );
    }
}
