//! What a document says about skills, for a turn. Pure.

use agentd_agent::Shown;
use agentd_agent::skills::{Settings, Source};
use agentd_config::Document;
use agentd_config::document::Discover;
use agentd_config::filter::ToolFilter;

/// See the module.
pub fn settings(document: &Document) -> Settings {
    let skills = &document.skills;
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let sources = skills.sources.iter().map(|source| Source {
        server: source.server.clone(),
        prompts: source.discover != Discover::Resources,
        resources: source.discover != Discover::Prompts,
        filter: match &source.filter {
            None => Shown::default(),
            // Validation refused a glob that is none; should one come here, it lets nothing in.
            Some(glob) => match ToolFilter::new(Some(std::slice::from_ref(glob)), &[]) {
                Ok(filter) => Shown::by(move |name| filter.admits(name)),
                Err(_) => Shown::by(|_| false),
            },
        },
    });
    Settings {
        sources: sources.collect(),
        prefix: skills.reference_prefix().to_owned(),
        max_loaded: count(skills.max_loaded()),
        max_bytes: count(skills.max_bytes()),
    }
}
