//! What the servers of a worker offer at one moment: tools, resources, their own words. Pure. Which server a URI is
//! read from is decided here: whoever lists it first, else whoever's template fits it best.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentd_mcp::{Catalogue, Prompt, Resource, ResourceTemplate};

/// The scheme of our own resources: nothing of a server is ever read by it.
pub(crate) const OWN_SCHEME: &str = "agentd:";

/// What all servers offer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offer {
    /// Their tools by name.
    pub catalogue: Arc<Catalogue>,
    /// The servers in the order of the document.
    pub servers: Vec<ServerOffer>,
}

/// What one server offers beside its tools. All of it is text of the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerOffer {
    /// Its name in the document.
    pub server: String,
    /// `instructions` of its handshake.
    pub note: Option<String>,
    /// What it lists.
    pub resources: Vec<Resource>,
    /// What else it can make.
    pub templates: Vec<ResourceTemplate>,
    /// The prompts that it lists; empty where nobody asked for them.
    pub prompts: Vec<Prompt>,
}

impl Offer {
    /// Whether a server has something to read.
    pub fn is_readable(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|offer| offer.resources.iter().any(|one| is_uri(&one.uri)) || !literals(offer).is_empty())
    }

    /// The server that a URI is read from. Of templates the one that says most of the URI itself wins.
    pub fn owner(&self, uri: &str) -> Option<&str> {
        if !is_uri(uri) {
            return None;
        }
        let lists = |offer: &&ServerOffer| offer.resources.iter().any(|one| one.uri == uri);
        if let Some(offer) = self.servers.iter().find(lists) {
            return Some(&offer.server);
        }
        let mut best: Option<(usize, &str)> = None;
        for offer in &self.servers {
            for parts in literals(offer) {
                let said = parts.iter().map(|part| part.len()).sum();
                if fits(uri, &parts) && best.is_none_or(|(most, _)| said > most) {
                    best = Some((said, &offer.server));
                }
            }
        }
        best.map(|(_, server)| server)
    }

    /// The resources that can be read, by server: each URI once, with whoever lists it first.
    pub(crate) fn resources(&self) -> Vec<(&str, Vec<&Resource>)> {
        let mut seen = BTreeSet::new();
        let mut listed = Vec::new();
        for offer in &self.servers {
            let mut own = Vec::new();
            for resource in &offer.resources {
                if is_uri(&resource.uri) && seen.insert(resource.uri.as_str()) {
                    own.push(resource);
                }
            }
            listed.push((offer.server.as_str(), own));
        }
        listed
    }
}

/// A URI that can be written into a prompt and read from a server.
pub(crate) fn is_uri(uri: &str) -> bool {
    let plain = |c: char| !c.is_control() && !c.is_whitespace();
    !uri.is_empty() && uri.chars().all(plain) && !is_own(uri)
}

/// One of ours.
pub(crate) fn is_own(uri: &str) -> bool {
    uri.get(..OWN_SCHEME.len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(OWN_SCHEME))
}

/// What stands between the expressions of each template of a server, the first part and the last included. A template
/// without a scheme of its own would fit everything, and fits nothing.
fn literals(offer: &ServerOffer) -> Vec<Vec<&str>> {
    let usable = |parts: &Vec<&str>| {
        let first = parts.first().copied().unwrap_or_default();
        first.contains(':') && is_uri(first)
    };
    let templates = offer.templates.iter();
    templates
        .map(|template| parts(&template.uri_template))
        .filter(usable)
        .collect()
}

fn parts(template: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((literal, expression)) = rest.split_once('{') {
        parts.push(literal);
        rest = expression.split_once('}').map_or("", |(_, after)| after);
    }
    parts.push(rest);
    parts
}

/// Whether the parts stand in the URI in their order, at its beginning and its end. What an expression may hold is the
/// server's affair.
fn fits(uri: &str, parts: &[&str]) -> bool {
    let Some((first, others)) = parts.split_first() else {
        return false;
    };
    let Some(mut rest) = uri.strip_prefix(first) else {
        return false;
    };
    let Some((last, middle)) = others.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, uris: &[&str], templates: &[&str]) -> ServerOffer {
        let resource = |uri: &&str| Resource {
            uri: (*uri).to_owned(),
            name: String::new(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
        };
        let template = |text: &&str| ResourceTemplate {
            uri_template: (*text).to_owned(),
            name: String::new(),
            title: None,
            mime_type: None,
        };
        ServerOffer {
            server: name.to_owned(),
            note: None,
            resources: uris.iter().map(resource).collect(),
            templates: templates.iter().map(template).collect(),
            prompts: Vec::new(),
        }
    }

    fn offer(servers: Vec<ServerOffer>) -> Offer {
        Offer {
            servers,
            ..Offer::default()
        }
    }

    #[test]
    fn m25_the_first_owner_wins() {
        let offer = offer(vec![
            server(
                "one",
                &["file:///a", "file:///a", "x y", "agentd://results/1"],
                &[],
            ),
            server("two", &["file:///a", "file:///b"], &[]),
        ]);
        let listed: Vec<(&str, Vec<&str>)> = offer
            .resources()
            .into_iter()
            .map(|(server, own)| (server, own.iter().map(|one| one.uri.as_str()).collect()))
            .collect();
        assert_eq!(listed, [("one", vec!["file:///a"]), ("two", vec!["file:///b"])]);
        assert_eq!(offer.owner("file:///a"), Some("one"));
        assert_eq!(offer.owner("file:///b"), Some("two"));
        for foreign in ["file:///c", "x y", "", "agentd://results/1", "AGENTD://results/1"] {
            assert_eq!(offer.owner(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn m27_a_uri_that_only_a_template_knows_is_read_from_the_server_that_says_most_of_it() {
        let offer = offer(vec![
            server(
                "any",
                &["db://t/listed"],
                &["{+anything}", "db://{table}/{id}", "agentd://{x}"],
            ),
            server("db", &[], &["db://t/{id}{?fields*}", "log:{day}.txt"]),
        ]);
        for (uri, owner) in [
            ("db://t/7", Some("db")),
            ("db://t/7?fields=a", Some("db")),
            ("db://u/7", Some("any")),
            ("db://t/listed", Some("any")),
            ("db://u", None),
            ("log:2026.txt", Some("db")),
            ("log:2026.csv", None),
            ("file:///etc/passwd", None),
            ("agentd://results/1", None),
        ] {
            assert_eq!(offer.owner(uri), owner, "{uri}");
        }
    }

    #[test]
    fn m4_something_is_readable_or_nothing_is() {
        for (uris, templates, readable) in [
            (&[][..], &[][..], false),
            (&["file:///a"], &[], true),
            (&[], &["file:///{path}"], true),
            (&["agentd://x", "a b"], &["{+all}"], false),
        ] {
            let offer = offer(vec![server("x", &[], &[]), server("one", uris, templates)]);
            assert_eq!(offer.is_readable(), readable, "{uris:?} {templates:?}");
        }
    }
}
