//! Which skills a turn can load now: what its sources list, by name. Pure.

use std::collections::BTreeSet;

use agentd_base::text::clip;

use super::{NAME_CHARS, Source};
use crate::desk::Desk;
use crate::offer::ServerOffer;

/// A description in the list.
const LABEL_CHARS: usize = 160;
/// Skills that are listed: more than a model chooses from.
const LISTED: usize = 256;

/// One that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skill {
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) label: Option<String>,
    /// Of a resource; none of a prompt.
    pub(super) uri: Option<String>,
}

/// The skills that this turn can load now.
pub(crate) fn available(desk: &Desk) -> Vec<Skill> {
    let offer = desk.readable();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for source in &desk.skills.settings.sources {
        let Some(server) = offer.servers.iter().find(|one| one.server == source.server) else {
            continue;
        };
        for skill in of(source, server) {
            if all.len() < LISTED && source.filter.takes(&skill.name) && seen.insert(skill.name.clone()) {
                all.push(skill);
            }
        }
    }
    all
}

pub(crate) fn of(source: &Source, offer: &ServerOffer) -> Vec<Skill> {
    let skill = |name: &str, label: Option<&str>, uri: Option<&str>| {
        let is_name =
            !name.trim().is_empty() && name.chars().count() <= NAME_CHARS && !name.contains(char::is_control);
        let label = label.map(|label| clip(label.trim(), LABEL_CHARS));
        is_name.then(|| Skill {
            name: name.to_owned(),
            server: offer.server.clone(),
            label: label.filter(|label| !label.is_empty()),
            uri: uri.map(str::to_owned),
        })
    };
    if source.prompts && !(source.resources && offer.prompts.is_empty()) {
        let prompts = offer.prompts.iter();
        return prompts
            .filter_map(|one| skill(&one.name, one.description.as_deref(), None))
            .collect();
    }
    let resources = offer.resources.iter().filter(|_| source.resources);
    resources
        .filter_map(|one| {
            let label = one.description.as_deref().or(one.title.as_deref());
            skill(&one.name, label, Some(&one.uri))
        })
        .collect()
}

/// Sources that this turn holds and that are not there now.
pub(crate) fn missing(desk: &Desk) -> Vec<String> {
    let sources = desk.skills.settings.sources.iter().map(|source| &source.server);
    let is_there = |server: &String| desk.offer.servers.iter().any(|one| one.server == *server);
    let held = sources.filter(|server| desk.context.held.has_server(server));
    held.filter(|server| !is_there(server)).cloned().collect()
}
