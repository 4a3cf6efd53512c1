//! What a subagent on a desk holds.

use std::collections::BTreeMap;

use agentd_agent::{Held, Holder, RunContext};

use super::context;

/// A subagent with these tools of these servers, and these of ours.
pub fn minted(servers: &[(&str, &[&str])], internal: &[&str]) -> RunContext {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let servers: BTreeMap<_, _> = servers
        .iter()
        .map(|(server, tools)| ((*server).to_owned(), names(tools)))
        .collect();
    RunContext {
        holder: Holder::Subagent,
        held: Held::Minted {
            servers,
            internal: names(internal),
        },
        ..context()
    }
}
