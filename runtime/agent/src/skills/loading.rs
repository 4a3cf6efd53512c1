//! From a name to the words of a skill, and from a reference in a text to a skill that is loaded.

use std::collections::BTreeSet;

use agentd_base::text::clip;
use agentd_mcp::{CallError, ReadError};
use serde_json::{Map, Value};

use super::discovery::{Skill, available, missing};
use super::{LOAD, Loaded, NAME_CHARS};
use crate::desk::Desk;
use crate::internal;
use crate::prompt::bounded;
use crate::reading;

/// Names in an error that says which there are.
const TOLD: usize = 32;

/// Of one that is not listed.
fn unknown(desk: &Desk, shown: &str) -> String {
    match missing(desk).is_empty() {
        true => format!("there is no skill {shown}"),
        false => format!("there is no skill {shown} now, and a server of skills is not connected; try later"),
    }
}

/// The servers of skills that are given away by name, with these servers or with all of the giver's.
///
/// # Errors
/// Names the first that is not there, and those that are.
pub(crate) fn servers_of(
    desk: &Desk,
    names: &[&str],
    chosen: Option<&[&str]>,
) -> Result<BTreeSet<String>, String> {
    let max = desk.skills.settings.max_loaded;
    if names.len() > max {
        return Err(format!("{} skills are too many; name at most {max}", names.len()));
    }
    let mut known = available(desk);
    known.retain(|skill| chosen.is_none_or(|chosen| chosen.contains(&skill.server.as_str())));
    let mut servers = BTreeSet::new();
    for name in names {
        let Some(skill) = known.iter().find(|skill| skill.name == *name) else {
            let told: Vec<&str> = known.iter().take(TOLD).map(|skill| skill.name.as_str()).collect();
            let told = match (told.is_empty(), known.len().saturating_sub(TOLD)) {
                (true, _) => "none can be given".to_owned(),
                (false, 0) => format!("there are {}", told.join(", ")),
                (false, more) => format!("there are {} and {more} more", told.join(", ")),
            };
            return Err(format!("{}; {told}", unknown(desk, &clip(name, NAME_CHARS))));
        };
        servers.insert(skill.server.clone());
    }
    Ok(servers)
}

/// The words of a skill, for what thinks apart.
pub(crate) async fn fetch(
    desk: &Desk,
    name: &str,
    arguments: Map<String, Value>,
    ordinal: u32,
) -> Result<Loaded, String> {
    words(desk, find(desk, name)?, arguments, ordinal).await
}

fn find(desk: &Desk, name: &str) -> Result<Skill, String> {
    let skill = available(desk).into_iter().find(|skill| skill.name == name);
    skill.ok_or_else(|| {
        let unknown = unknown(desk, &clip(name, NAME_CHARS));
        format!("{unknown}; skills_list lists them")
    })
}

async fn words(
    desk: &Desk,
    skill: Skill,
    arguments: Map<String, Value>,
    ordinal: u32,
) -> Result<Loaded, String> {
    let shown = clip(&skill.name, NAME_CHARS);
    if skill.uri.is_some() && !arguments.is_empty() {
        return Err(format!("the skill {shown} takes no arguments"));
    }
    if arguments.values().any(|value| !value.is_string()) {
        return Err("the arguments of a skill are texts".to_owned());
    }
    let server = &skill.server;
    let meta = desk.meta(server, LOAD, &arguments, ordinal);
    let text = match &skill.uri {
        None => match desk.servers.prompt(server, &skill.name, arguments, &meta).await {
            None => Err(away(server)),
            Some(Ok(text)) => Ok(bounded(&text, usize::MAX)),
            Some(Err(error)) => Err(failed(server, &shown, &error)),
        },
        Some(uri) => match reading::fetch(desk, server, uri, &meta).await {
            None => Err(away(server)),
            Some(Ok(contents)) => Ok(reading::words(uri, &contents)),
            Some(Err(ReadError::NotFound { .. })) => Err(format!("server {server} has no skill {shown} now")),
            Some(Err(ReadError::Call(error))) => Err(failed(server, &shown, &error)),
        },
    }?;
    let max = desk.skills.settings.max_bytes;
    if text.len() > max {
        return Err(format!(
            "the skill {shown} has {} bytes, and one may have {max}",
            text.len()
        ));
    }
    Ok(Loaded {
        name: skill.name,
        server: skill.server,
        text,
    })
}

fn away(server: &str) -> String {
    tracing::warn!(event = "skills.source.unavailable", mcp.server = server);
    format!("server {server} is not connected now; try later")
}

fn failed(server: &str, name: &str, error: &CallError) -> String {
    if matches!(error, CallError::Unavailable(_) | CallError::Timeout(_)) {
        tracing::warn!(event = "skills.source.unavailable", mcp.server = server);
    }
    reading::unread(name, error)
}

/// Fetches one and puts it into the prompt.
pub(crate) async fn load(
    desk: &Desk,
    name: &str,
    arguments: Map<String, Value>,
    ordinal: u32,
) -> Result<Loaded, String> {
    let skill = find(desk, name)?;
    // Before its server is asked for what has no place.
    desk.skills.has_place(name)?;
    let skill = words(desk, skill, arguments, ordinal).await?;
    desk.skills.admit(skill.clone())?;
    tracing::info!(
        event = "skill.loaded",
        run.id = desk.context.run_id,
        mcp.server = skill.server,
        skill = skill.name,
        bytes = skill.text.len()
    );
    Ok(skill)
}

/// Loads what texts refer to. A source that is away is no fault of the run.
pub(crate) async fn follow(desk: &Desk, texts: &[&str]) {
    for server in missing(desk) {
        tracing::warn!(
            event = "skills.source.unavailable",
            run.id = desk.context.run_id,
            mcp.server = server
        );
    }
    let settings = &desk.skills.settings;
    if internal::find(LOAD, desk).is_none() {
        return;
    }
    let mut seen = BTreeSet::new();
    let names = texts.iter().flat_map(|text| references(text, &settings.prefix));
    let names = names.filter(|name| !desk.skills.is_loaded(name) && seen.insert(*name));
    let mut left_out = Vec::new();
    // Whether it is there or not: a text of a thousand names costs no more than this.
    for name in names.take(settings.max_loaded) {
        if let Err(reason) = load(desk, name, Map::new(), 0).await {
            tracing::warn!(
                event = "skill.load.refused",
                run.id = desk.context.run_id,
                skill = name,
                reason
            );
            left_out.push((name.to_owned(), reason));
        }
    }
    desk.skills.leave_out(left_out);
}

/// The names that follow the prefix in a text.
pub(crate) fn references<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let named = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    let after = text.split(prefix).skip(1).filter(move |_| !prefix.is_empty());
    after.filter_map(move |rest| {
        let end = rest.find(|c| !named(c)).unwrap_or(rest.len());
        let name = rest.get(..end)?.trim_end_matches(['.', ':', '/']);
        (!name.is_empty() && name.chars().count() <= NAME_CHARS).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m2_a_reference_is_the_prefix_and_the_name_after_it() {
        let found = |text| references(text, "@skill:").collect::<Vec<_>>();
        assert_eq!(
            found("Use @skill:review, then @skill:a/b-c. And @skill: nothing; skill:x"),
            ["review", "a/b-c"]
        );
        assert_eq!(found(&format!("@skill:{}", "n".repeat(NAME_CHARS + 1))), [""; 0]);
        assert_eq!(references("abc", "").count(), 0);
    }
}
