//! The lethal trifecta: text of strangers, data that is not for everybody and a way out, in one hand. Whoever writes the
//! text can then have the data sent out, by asking the model. Pure.
//!
//! A tool is judged by the tags that its server's declaration gives it, never by what the server says of itself. One
//! that nothing tags counts as bringing in text of strangers.

use std::collections::BTreeSet;
use std::fmt;

use agentd_base::text::clip;

use crate::document::{Document, EXEC, McpServer, Tag};
use crate::filter::{ToolFilter, ToolTags};

/// The key that lets it be.
pub const KEY: &str = "security.allow_trifecta";

/// Our tool that reads what a server offers to read; it is tagged like a tool of that server.
const READ: &str = "resource.read";

/// Of a place in a text: three of them and the remedy have to fit a condition.
const PLACE_CHARS: usize = 40;

/// What gives each of the three legs: the first tool or pattern of each, with its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trifecta {
    /// Text of strangers.
    pub untrusted_input: String,
    /// Data that is not for everybody.
    pub sensitive: String,
    /// A way out.
    pub egress: String,
}

impl fmt::Display for Trifecta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            untrusted_input,
            sensitive,
            egress,
        } = self;
        let [untrusted_input, sensitive, egress] =
            [untrusted_input, sensitive, egress].map(|place| clip(place, PLACE_CHARS));
        write!(
            f,
            "untrusted_input by {untrusted_input}, sensitive by {sensitive} and egress by {egress} meet in one agent"
        )
    }
}

/// Of tools that are really held, each as (server, name at the server). A server that is not in the document is one
/// without tags.
pub fn check(document: &Document, tools: &[(String, String)]) -> Option<Trifecta> {
    let mut legs = Legs::default();
    for (server, tool) in tools {
        let declared = document.mcp.servers.iter().find(|one| one.name == *server);
        let tags = declared.map_or_else(untagged, |declared| of(declared, tool));
        legs.add(&format!("{server}/{tool}"), &tags);
    }
    legs.all()
}

/// Of everything that the servers of the document may offer, before any of them was asked: their tags, as far as their
/// filters let tools in, and the reading of their resources, which no filter keeps out. What stands behind a contract
/// passes the same filters, so that it is among their tools.
pub fn declared(document: &Document) -> Option<Trifecta> {
    let mut legs = Legs::default();
    for server in &document.mcp.servers {
        let McpServer {
            name,
            allow,
            exclude,
            tags,
            ..
        } = server;
        let Ok(filter) = ToolFilter::of(server) else {
            continue;
        };
        // Names and nothing else: these are the tools.
        if let Some(allow) = allow
            .as_ref()
            .filter(|allow| allow.iter().all(|each| is_name(each)))
        {
            for tool in allow.iter().filter(|tool| filter.admits(tool)) {
                legs.add(&format!("{name}/{tool}"), &of(server, tool));
            }
            continue;
        }
        let let_in = |pattern: &str| {
            let whole = |each: &String| each == "*" || each == pattern;
            !exclude.iter().any(whole) && (!is_name(pattern) || filter.admits(pattern))
        };
        if !let_in("*") {
            continue;
        }
        for (pattern, tags) in tags.iter().filter(|(pattern, _)| let_in(pattern)) {
            legs.add(&place(name, pattern), &tags.iter().copied().collect());
        }
        if !tags.contains_key("*") {
            legs.add(name, &untagged());
        }
    }
    // Whatever its server's declaration says, a command reads and sends.
    if document.may_exec() && document.tools.overrides.contains_key(EXEC) {
        legs.add(EXEC, &BTreeSet::from([Tag::Sensitive, Tag::Egress]));
    }
    if !document.tools.disabled.iter().any(|name| name == READ) {
        for server in &document.mcp.servers {
            legs.add(&format!("{}/{READ}", server.name), &of(server, READ));
        }
    }
    legs.all()
}

/// The tags of a tool by its server's declaration.
fn of(server: &McpServer, tool: &str) -> BTreeSet<Tag> {
    let tags = ToolTags::new(&server.tags).map(|tags| tags.of(tool));
    let is_tagged = server.tags.keys().any(|pattern| {
        ToolFilter::new(Some(std::slice::from_ref(pattern)), &[]).is_ok_and(|one| one.admits(tool))
    });
    match tags {
        Ok(tags) if is_tagged => tags,
        Ok(_) | Err(_) => untagged(),
    }
}

fn untagged() -> BTreeSet<Tag> {
    BTreeSet::from([Tag::UntrustedInput])
}

fn place(server: &str, pattern: &str) -> String {
    if pattern == "*" {
        server.to_owned()
    } else {
        format!("{server}/{pattern}")
    }
}

/// Whether a pattern is one name.
fn is_name(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', ']', '{', '}', '\\', '!'])
}

#[derive(Default)]
struct Legs {
    untrusted_input: Option<String>,
    sensitive: Option<String>,
    egress: Option<String>,
}

impl Legs {
    fn add(&mut self, place: &str, tags: &BTreeSet<Tag>) {
        for tag in tags {
            let leg = match tag {
                Tag::UntrustedInput => &mut self.untrusted_input,
                Tag::Sensitive => &mut self.sensitive,
                Tag::Egress => &mut self.egress,
            };
            leg.get_or_insert_with(|| place.to_owned());
        }
    }

    fn all(self) -> Option<Trifecta> {
        Some(Trifecta {
            untrusted_input: self.untrusted_input?,
            sensitive: self.sensitive?,
            egress: self.egress?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn document(servers: Value) -> Document {
        let mut servers = servers;
        for server in servers.as_array_mut().unwrap() {
            server["endpoint"] = json!("https://x.example/mcp");
            if server["tags"].is_array() {
                server["tags"] = json!({ "*": server["tags"] });
            }
            if server["tags"].is_null() {
                server.as_object_mut().unwrap().remove("tags");
            }
        }
        serde_json::from_value(json!({ "mcp": { "servers": servers } })).unwrap()
    }

    fn legs(servers: Value) -> Option<[String; 3]> {
        declared(&document(servers)).map(|found| [found.untrusted_input, found.sensitive, found.egress])
    }

    fn found(legs: [&str; 3]) -> Option<[String; 3]> {
        Some(legs.map(str::to_owned))
    }

    #[test]
    fn three_legs_are_found_over_servers_and_over_the_tools_of_one() {
        assert_eq!(legs(json!([])), None);
        assert_eq!(
            legs(json!([
                { "name": "web", "tags": ["untrusted_input"] },
                { "name": "crm", "tags": ["sensitive"] },
            ])),
            None
        );
        assert_eq!(
            legs(json!([
                { "name": "web", "tags": ["untrusted_input"] },
                { "name": "crm", "tags": ["sensitive"] },
                { "name": "mail", "tags": { "*": [], "send_*": ["egress"] } },
            ])),
            found(["web", "crm", "mail/send_*"])
        );
        assert_eq!(
            legs(
                json!([{ "name": "mail", "tags": { "*": ["untrusted_input", "sensitive"], "send": ["egress"] } }])
            ),
            found(["mail", "mail", "mail/send"])
        );
    }

    #[test]
    fn the_text_names_all_three_however_long_their_names_are() {
        let name = "n".repeat(63);
        let tags = json!({ "*": ["untrusted_input", "sensitive"], "s".repeat(128): ["egress"] });
        let text = declared(&document(json!([{ "name": name, "tags": tags }])))
            .unwrap()
            .to_string();
        assert!(
            text.chars().count() < 200 && text.ends_with("meet in one agent"),
            "{text}"
        );
    }

    #[test]
    fn a_server_without_tags_brings_in_text_of_strangers() {
        let two = json!({ "name": "crm", "tags": ["sensitive", "egress"] });
        assert_eq!(legs(json!([two])), None);
        assert_eq!(
            legs(json!([two, { "name": "new" }])),
            found(["new", "crm", "crm"])
        );
        // The tools that no pattern tags, too, unless the declaration says that they are harmless.
        let some = json!({ "name": "new", "tags": { "send": ["egress"] } });
        assert_eq!(legs(json!([two, some])), found(["new", "crm", "crm"]));
        let said = json!({ "name": "new", "tags": { "*": [], "send": ["egress"] } });
        assert_eq!(legs(json!([two, said])), None);
    }

    #[test]
    fn what_a_filter_keeps_out_is_no_leg() {
        let mail = |filter: Value| {
            let mut server = json!({ "name": "mail", "tags": { "*": ["untrusted_input", "sensitive"], "send_*": ["egress"] } });
            server
                .as_object_mut()
                .unwrap()
                .extend(filter.as_object().unwrap().clone());
            legs(json!([server]))
        };
        let all = found(["mail", "mail", "mail/send_*"]);
        assert_eq!(mail(json!({})), all);
        assert_eq!(mail(json!({ "allow": ["send_*", "read"] })), all);
        assert_eq!(mail(json!({ "exclude": ["send_*"] })), None);
        assert_eq!(mail(json!({ "exclude": ["*"] })), None);
        assert_eq!(mail(json!({ "allow": [] })), None);
        assert_eq!(mail(json!({ "allow": ["read"] })), None);
        assert_eq!(
            mail(json!({ "allow": ["read", "send_mail"] })),
            found(["mail/read", "mail/read", "mail/send_mail"])
        );
        assert_eq!(
            mail(json!({ "allow": ["read", "send_mail"], "exclude": ["send_*"] })),
            None
        );
    }

    #[test]
    fn the_reading_of_resources_is_a_leg_whatever_the_filter_lets_in() {
        let servers = json!([
            { "name": "web", "endpoint": "https://x.example/mcp", "allow": ["harmless"], "tags": { "harmless": [] } },
            { "name": "crm", "endpoint": "https://x.example/mcp", "tags": { "*": ["sensitive", "egress"] } },
        ]);
        let of = |servers: &Value, tools: Value| {
            let document = json!({ "mcp": { "servers": servers }, "tools": tools });
            declared(&serde_json::from_value(document).unwrap())
                .map(|found| [found.untrusted_input, found.sensitive, found.egress])
        };
        assert_eq!(
            of(&servers, json!({})),
            found(["web/resource.read", "crm", "crm"])
        );
        assert_eq!(of(&servers, json!({ "disabled": ["resource.read"] })), None);
        let mut said = servers;
        said[0]["tags"]["resource.read"] = json!([]);
        assert_eq!(of(&said, json!({})), None);
    }

    #[test]
    fn tools_that_are_held_are_judged_one_by_one() {
        let document = document(json!([
            { "name": "mail", "tags": { "*": ["sensitive"], "send": ["egress"] } },
            { "name": "web", "tags": ["untrusted_input"] },
        ]));
        let held = |tools: &[(&str, &str)]| {
            let tools: Vec<_> = tools
                .iter()
                .map(|(server, tool)| ((*server).to_owned(), (*tool).to_owned()))
                .collect();
            check(&document, &tools).map(|found| [found.untrusted_input, found.sensitive, found.egress])
        };
        assert_eq!(held(&[("mail", "read"), ("web", "get")]), None);
        assert_eq!(held(&[("mail", "send"), ("mail", "read")]), None);
        assert_eq!(
            held(&[("mail", "read"), ("mail", "send"), ("web", "get")]),
            found(["web/get", "mail/read", "mail/send"])
        );
        assert_eq!(
            held(&[("mail", "send"), ("elsewhere", "any")]),
            found(["elsewhere/any", "mail/send", "mail/send"])
        );
    }
}
