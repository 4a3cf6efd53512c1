//! Which tools of a server are let in, and what they are tagged with. Pure.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::class::{Class, Classified};
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::document::{McpServer, Tag};

/// Why a filter is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{pattern}` is not a glob: {reason}")]
pub struct FilterError {
    /// The pattern.
    pub pattern: String,
    /// Why.
    pub reason: String,
}

impl Classified for FilterError {
    fn class(&self) -> Class {
        Class::Invalid
    }
}

/// `allow` and `exclude` of one server, over the names that the server itself uses.
#[derive(Debug, Clone)]
pub struct ToolFilter {
    allow: Option<GlobSet>,
    exclude: GlobSet,
}

impl ToolFilter {
    /// That of a server.
    pub fn of(server: &McpServer) -> Result<Self, FilterError> {
        Self::new(server.allow.as_deref(), &server.exclude)
    }

    /// `allow` absent lets everything in, empty nothing; `exclude` wins.
    pub fn new(allow: Option<&[String]>, exclude: &[String]) -> Result<Self, FilterError> {
        Ok(Self {
            allow: allow.map(globs).transpose()?,
            exclude: globs(exclude)?,
        })
    }

    /// Whether the tool is let in.
    pub fn admits(&self, name: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.is_match(name)) && !self.exclude.is_match(name)
    }
}

/// The tags of one server's tools.
#[derive(Debug, Clone, Default)]
pub struct ToolTags(Vec<(GlobSet, Vec<Tag>)>);

impl ToolTags {
    /// Of `tags` of a server: glob to tags.
    pub fn new(tags: &BTreeMap<String, Vec<Tag>>) -> Result<Self, FilterError> {
        let each = tags
            .iter()
            .map(|(pattern, tags)| Ok((globs(std::slice::from_ref(pattern))?, tags.clone())));
        each.collect::<Result<_, _>>().map(Self)
    }

    /// Every tag of the tool, by the name that the server itself uses: the union of what matches.
    pub fn of(&self, name: &str) -> BTreeSet<Tag> {
        let matching = self.0.iter().filter(|(globs, _)| globs.is_match(name));
        matching.flat_map(|(_, tags)| tags.iter().copied()).collect()
    }
}

fn globs(patterns: &[String]) -> Result<GlobSet, FilterError> {
    let fault = |pattern: &str, error: &globset::Error| FilterError {
        pattern: agentd_base::text::clip(pattern, 80),
        reason: error.kind().to_string(),
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(|error| fault(pattern, &error))?);
    }
    set.build()
        .map_err(|error| fault(error.glob().unwrap_or_default(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn absent_is_all_empty_is_none_and_exclude_wins() {
        let all = ToolFilter::new(None, &[]).unwrap();
        assert!(all.admits("anything") && all.admits("a/b.c"));
        let none = ToolFilter::new(Some(&[]), &[]).unwrap();
        assert!(!none.admits("anything"));
        let some = ToolFilter::new(Some(&texts(&["read_*", "fs/*"])), &texts(&["*_secret"])).unwrap();
        assert!(some.admits("read_file") && some.admits("fs/a/b"));
        assert!(!some.admits("write_file") && !some.admits("read_secret"));
    }

    #[test]
    fn names_the_pattern_that_is_none() {
        let error = ToolFilter::new(None, &texts(&["ok", "[a"])).unwrap_err();
        assert_eq!(error.pattern, "[a");
    }

    #[test]
    fn a_tool_has_every_tag_that_matches_it() {
        let tags = BTreeMap::from([
            ("*".to_owned(), vec![Tag::Sensitive]),
            ("send_*".to_owned(), vec![Tag::Egress, Tag::Sensitive]),
            ("*_web".to_owned(), vec![Tag::UntrustedInput]),
        ]);
        let tags = ToolTags::new(&tags).unwrap();
        assert_eq!(tags.of("read"), BTreeSet::from([Tag::Sensitive]));
        let all = BTreeSet::from([Tag::UntrustedInput, Tag::Sensitive, Tag::Egress]);
        assert_eq!(tags.of("send_web"), all);
        assert!(ToolTags::default().of("read").is_empty());
        let error = ToolTags::new(&BTreeMap::from([("[a".to_owned(), vec![])])).unwrap_err();
        assert_eq!(error.pattern, "[a");
    }
}
