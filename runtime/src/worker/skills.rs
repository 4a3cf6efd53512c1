//! What a document says about skills, for a turn. Pure.

use agentd_agent::skills::{Settings, Source};
use agentd_config::Document;
use agentd_config::document::Discover;

use super::shown::shown;

/// See the module.
pub fn settings(document: &Document) -> Settings {
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
    }
}
