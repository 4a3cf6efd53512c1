//! Who may have which of our tools (contract/runtime.md section 5): one table, read by the router of a worker, which
//! decides what a model sees, and by the supervisor, which decides what is carried out. Pure.

use serde::{Deserialize, Serialize};

use crate::minted::Held;

/// On whose behalf a turn calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// A conversation's turn.
    Root,
    /// A step of a workflow.
    Workflow,
    /// A subagent.
    Subagent,
}

impl Holder {
    /// In logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Workflow => "workflow",
            Self::Subagent => "subagent",
        }
    }
}

/// The tool of ours that reads what servers offer to read.
pub const READ: &str = "resource.read";

/// Who has a tool without being given it by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    /// Everybody.
    All,
    /// Conversations and workflows. A subagent has it when it was named to it.
    Commanding,
    /// Conversations.
    Root,
    /// Whoever has an end of its own to declare.
    Ending,
}

/// By the names of the contract.
#[rustfmt::skip]
const TABLE: [(&str, Grant); 54] = [
    ("artifact.create", Grant::All), ("artifact.delete", Grant::All), ("artifact.get", Grant::All), ("artifact.list", Grant::All),
    ("ask_human", Grant::All), ("await", Grant::All),
    ("code.run", Grant::Commanding), ("context.compact", Grant::All), ("exec", Grant::All), ("finish", Grant::Ending),
    ("instruction.read", Grant::All), ("instruction.subscribe", Grant::Root),
    ("knowledge.get", Grant::All), ("knowledge.list", Grant::All), ("knowledge.search", Grant::All),
    ("memory.delete", Grant::All), ("memory.get", Grant::All), ("memory.list", Grant::All), ("memory.set", Grant::All),
    ("memory.pop", Grant::All), ("memory.push", Grant::All), ("memory.shift", Grant::All),
    ("message.send", Grant::Commanding),
    ("plan.clear", Grant::All), ("plan.create", Grant::All), ("plan.get", Grant::All), ("plan.update", Grant::All),
    (READ, Grant::All), ("search.fetch", Grant::All), ("search.query", Grant::All),
    ("skills.list", Grant::All), ("skills.load", Grant::All), ("skills.unload", Grant::All),
    ("sleep", Grant::All), ("status", Grant::All),
    ("subagent.await", Grant::Commanding), ("subagent.kill", Grant::Commanding), ("subagent.list", Grant::Commanding),
    ("subagent.retire", Grant::Commanding), ("subagent.run", Grant::Commanding), ("subagent.send", Grant::Commanding),
    ("subagent.status", Grant::Commanding), ("think", Grant::All),
    ("workflow.cancel", Grant::Commanding), ("workflow.create", Grant::Root), ("workflow.delete", Grant::Root),
    ("workflow.list", Grant::All), ("workflow.pause", Grant::Root), ("workflow.resume", Grant::Root),
    ("workflow.run", Grant::Commanding), ("workflow.signal", Grant::All), ("workflow.status", Grant::All),
    ("workflow.update", Grant::Root), ("workflow.wait", Grant::Commanding),
];

/// Whether this holder, with what it holds, may have this tool of ours. A name that is none of ours nobody may have.
pub fn may(holder: Holder, held: &Held, tool: &str) -> bool {
    let Some((_, grant)) = TABLE.iter().find(|(name, _)| *name == tool) else {
        return false;
    };
    let named = held.has_internal(tool);
    match (grant, holder) {
        (Grant::Ending, holder) => holder != Holder::Workflow,
        (Grant::Root, holder) => holder == Holder::Root && named,
        // Without a list of its own a subagent has what everybody has.
        (Grant::Commanding, Holder::Subagent) => named && *held != Held::All,
        (Grant::All | Grant::Commanding, _) => named,
    }
}

/// Whether this is a name of ours at all.
pub fn is_ours(tool: &str) -> bool {
    TABLE.iter().any(|(name, _)| *name == tool)
}

/// All of ours, by the names of the contract.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// Whether it is a contract without an implementation of ours.
pub fn is_contract(tool: &str) -> bool {
    let family = tool.split_once('.').map_or(tool, |(family, _)| family);
    matches!(family, "knowledge" | "search" | "code" | "exec")
}

/// What a subagent gets that was given no list: everything that everybody has.
pub fn common() -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .filter(|(_, grant)| *grant == Grant::All)
        .map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn m2_who_may_have_what() {
        let minted = Held::Minted {
            servers: BTreeMap::new(),
            internal: ["memory.get", "subagent.run", "workflow.create"]
                .map(str::to_owned)
                .into(),
        };
        use Holder::{Root, Subagent, Workflow};
        for (holder, held, tool, may_have) in [
            (Root, &Held::All, "memory.get", true),
            (Root, &Held::All, "subagent.run", true),
            (Root, &Held::All, "workflow.create", true),
            (Root, &Held::All, "finish", true),
            (Root, &Held::All, "budget.reserve", false),
            (Workflow, &Held::All, "subagent.run", true),
            (Workflow, &Held::All, "workflow.create", false),
            (Workflow, &Held::All, "finish", false),
            (Subagent, &Held::All, "memory.get", true),
            (Subagent, &Held::All, "subagent.run", false),
            (Subagent, &minted, "memory.get", true),
            (Subagent, &minted, "memory.set", false),
            (Subagent, &minted, "subagent.run", true),
            (Subagent, &minted, "subagent.send", false),
            (Subagent, &minted, "workflow.create", false),
            (Subagent, &minted, "finish", true),
        ] {
            assert_eq!(may(holder, held, tool), may_have, "{holder:?} {held:?} {tool}");
        }
    }
}
