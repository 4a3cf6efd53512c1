//! What a model is given in a round: tools and what the servers say, for every kind of turn by the same function, so
//! that no kind can lack one. Pure.

use std::sync::Arc;

use agentd_llm::ToolSpec;
use agentd_mcp::Entry;

use crate::desk::Desk;
use crate::internal;
use crate::prompt::{self, bounded};
use crate::skills;

/// A description; providers refuse longer ones.
const DESCRIPTION_CHARS: usize = 1024;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// What the servers say of themselves and of their resources, for the prompt; may be empty.
    pub servers: String,
    /// Our tools, then those of the servers.
    pub tools: Arc<[ToolSpec]>,
}

impl View {
    /// Of what is on the desk.
    pub(crate) fn of(desk: &Desk) -> Self {
        let mut tools: Vec<ToolSpec> = internal::offered(desk).map(internal::Internal::spec).collect();
        tools.extend(entries(desk).map(spec));
        Self {
            servers: [prompt::servers(&desk.readable()), skills::prompt(desk)]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("\n\n"),
            tools: tools.into(),
        }
    }

    /// Whether it still says which of our tools are useful, with the same offer on the desk.
    pub(crate) fn is_of(&self, desk: &Desk) -> bool {
        internal::offered(desk).count() + entries(desk).count() == self.tools.len()
    }
}

/// The tools of the servers that this turn has.
fn entries(desk: &Desk) -> impl Iterator<Item = &Entry> {
    desk.offer
        .catalogue
        .entries()
        .iter()
        .filter(|entry| desk.takes(entry))
}

fn spec(entry: &Entry) -> ToolSpec {
    ToolSpec {
        name: entry.provider.clone(),
        description: bounded(
            entry.tool.description.as_deref().unwrap_or_default(),
            DESCRIPTION_CHARS,
        ),
        input_schema: entry.tool.input_schema.clone(),
    }
}
