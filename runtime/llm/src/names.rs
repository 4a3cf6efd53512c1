//! Tool names for the wire: every provider takes another set of them. The way back is a table, so that no two names
//! become one and every name comes back as it was. Pure.

use std::collections::BTreeMap;

use agentd_base::digest;

use crate::dialect::Dialect;
use crate::message::{Block, Message, ModelRequest, ToolSpec};

/// Every provider takes this length.
const LENGTH: usize = 64;
/// Digits that tell names apart which look alike.
const DIGITS: usize = 8;

/// The names of one request: those of its tools and of the calls in its conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    out: BTreeMap<String, String>,
    back: BTreeMap<String, String>,
}

impl Names {
    /// The table of a request.
    pub(crate) fn of(request: &ModelRequest, dialect: Dialect) -> Self {
        Self::new(offered(&request.tools).chain(called(request)), dialect)
    }

    /// Names that are fit keep their own, whatever the others are.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str> + Clone, dialect: Dialect) -> Self {
        let mut table = Self::default();
        for name in names.clone().filter(|name| fit(name, dialect) == *name) {
            table.put(name, name.to_owned());
        }
        for name in names {
            if !table.out.contains_key(name) {
                let wire = table.free(name, dialect);
                table.put(name, wire);
            }
        }
        table
    }

    fn put(&mut self, name: &str, wire: String) {
        self.back.insert(wire.clone(), name.to_owned());
        self.out.insert(name.to_owned(), wire);
    }

    /// A fit name that nothing else has.
    pub(crate) fn free(&self, name: &str, dialect: Dialect) -> String {
        let plain = fit(name, dialect);
        let hex = digest::hex(name.as_bytes());
        let mark: String = hex.chars().take(DIGITS).collect();
        let marked = |mark: &str| {
            let stem: String = plain.chars().take(LENGTH - 1 - mark.len()).collect();
            format!("{stem}_{mark}")
        };
        let mut candidates = std::iter::once(plain.clone())
            .chain(std::iter::once(marked(&mark)))
            .chain((0_u32..).map(|number| marked(&format!("{mark}{number}"))));
        let free = candidates.find(|candidate| !self.back.contains_key(candidate));
        free.unwrap_or(plain)
    }

    /// Whether it is in the table.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.out.contains_key(name)
    }

    /// For the wire.
    pub(crate) fn wire<'a>(&'a self, name: &'a str) -> &'a str {
        self.out.get(name).map_or(name, String::as_str)
    }

    /// From the wire. A model may call what nobody offered: that stays as it came.
    pub(crate) fn ours(&self, wire: &str) -> String {
        self.back.get(wire).cloned().unwrap_or_else(|| wire.to_owned())
    }
}

/// The names of tools.
pub(crate) fn offered(tools: &[ToolSpec]) -> impl Iterator<Item = &str> + Clone {
    tools.iter().map(|tool| tool.name.as_str())
}

/// The names of the calls in a conversation.
pub(crate) fn called(request: &ModelRequest) -> impl Iterator<Item = &str> + Clone {
    let blocks = request.messages.iter().flat_map(|message| match message {
        Message::Assistant(blocks) => blocks.as_slice(),
        Message::User(_) | Message::Results(_) => &[],
    });
    blocks.filter_map(|block| match block {
        Block::ToolCall(call) => Some(call.name.as_str()),
        Block::Text(_) | Block::Opaque(_) => None,
    })
}

/// The nearest name that the provider takes.
///
/// Chat Completions is spoken by Gemini too, which wants a letter or `_` first; models on Bedrock differ, and letters,
/// digits and `_` after a letter suit all of them.
fn fit(name: &str, dialect: Dialect) -> String {
    let hyphens = dialect != Dialect::Bedrock;
    let safe = |c: char| {
        let fits = c.is_ascii_alphanumeric() || c == '_' || (hyphens && c == '-');
        if fits { c } else { '_' }
    };
    let mut fit: String = name.chars().map(safe).collect();
    let begins_well = |c: char| match dialect {
        Dialect::Anthropic => true,
        Dialect::Openai | Dialect::OpenaiResponses => c.is_ascii_alphabetic() || c == '_',
        Dialect::Bedrock => c.is_ascii_alphabetic(),
    };
    if !fit.starts_with(begins_well) {
        fit.insert_str(0, "t_");
    }
    fit.truncate(LENGTH);
    fit
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const DIALECTS: [Dialect; 4] = [
        Dialect::Openai,
        Dialect::OpenaiResponses,
        Dialect::Anthropic,
        Dialect::Bedrock,
    ];

    fn is_taken(name: &str, dialect: Dialect) -> bool {
        let hyphen = |c: char| c == '-' && dialect != Dialect::Bedrock;
        let first = name.chars().next();
        (1..=64).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || hyphen(c))
            && (dialect == Dialect::Anthropic || first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_'))
    }

    #[test]
    fn field_l01_hostile_names_go_out_fit_and_come_back() {
        let long = "x".repeat(200);
        let longer = format!("{long}y");
        let names = [
            "read_file",
            "fs.read",
            "fs:read",
            "fs read",
            "fs_read",
            "",
            " ",
            "7zip",
            "-",
            "_",
            "日本語",
            "日本誤",
            "a/b\\c",
            "\u{0}",
            "<script>",
            long.as_str(),
            longer.as_str(),
            "t_7zip",
            "fs-read",
        ];
        for dialect in DIALECTS {
            let table = Names::new(names.iter().copied(), dialect);
            let wires: BTreeSet<&str> = names.iter().map(|name| table.wire(name)).collect();
            assert_eq!(wires.len(), names.len(), "{dialect:?}: {wires:?}");
            for name in names {
                assert!(
                    is_taken(table.wire(name), dialect),
                    "{dialect:?} {name:?}: {}",
                    table.wire(name)
                );
                assert_eq!(table.ours(table.wire(name)), name);
            }
            assert_eq!(table.wire("read_file"), "read_file");
        }
        assert_eq!(
            Names::new(names.iter().copied(), Dialect::Openai).wire("fs-read"),
            "fs-read"
        );
        assert_eq!(
            Names::new(["fs-read"].into_iter(), Dialect::Bedrock).wire("fs-read"),
            "fs_read"
        );
    }

    proptest! {
        #[test]
        fn field_l01_any_names(names in prop::collection::vec("\\PC{0,80}|[a-c._-]{0,3}", 0..20)) {
            for dialect in DIALECTS {
                let table = Names::new(names.iter().map(String::as_str), dialect);
                for name in &names {
                    prop_assert!(is_taken(table.wire(name), dialect));
                    prop_assert_eq!(&table.ours(table.wire(name)), name);
                }
            }
        }
    }
}
