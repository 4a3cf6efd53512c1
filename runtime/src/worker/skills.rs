//! What a document says about skills, for a turn. Pure.

use agentd_agent::skills::{Settings, Source};
use agentd_config::Document;
use agentd_config::document::Discover;

use super::shown::shown;

/// The part of the window that skills may take, as what divides it: the conversation and its tools are the rest.
const PART: u64 = 4;
/// As long as no provider has said more.
const BYTES_PER_TOKEN: u64 = 4;

/// See the module. `window` is what the model reads, in tokens.
pub fn settings(document: &Document, window: u64) -> Settings {
    let skills = &document.skills;
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let sources = skills.sources.iter().map(|source| Source {
        server: source.server.clone(),
        prompts: source.discover != Discover::Resources,
        resources: source.discover != Discover::Prompts,
        filter: source
            .filter
            .as_ref()
            .map(|glob| shown(std::slice::from_ref(glob)))
            .unwrap_or_default(),
    });
    Settings {
        sources: sources.collect(),
        prefix: skills.reference_prefix().to_owned(),
        max_loaded: count(skills.max_loaded()),
        max_bytes: count(skills.max_bytes()),
        max_total: usize::try_from((window / PART).saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX),
    }
}
