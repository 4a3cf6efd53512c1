//! Answers of a server as text for people and as JSON for programs. Pure. Text of a server reaches a terminal without
//! its control characters; JSON holds them escaped, those included that JSON lets pass.

use std::time::Duration;

use agentd_base::report::ServerInfo;
use agentd_base::text::clip;
use agentd_mcp::{Change, Content, Digest, Resource, ResourceTemplate, Tool, ToolOutcome};
use serde_json::{Value, json};

use crate::commands::table::{clean, table};
use crate::logging::visible;

/// A description in a table.
const LINE: usize = 100;

/// An answer in both forms.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    text: String,
    json: Value,
}

impl Shown {
    /// JSON is one line, so that several answers are JSON lines.
    pub(super) fn text(&self, json: bool) -> String {
        if json {
            visible(self.json.to_string())
        } else {
            self.text.clone()
        }
    }
}

/// `{"server": …, "tools": […]}`
pub(super) fn tools(info: &ServerInfo, tools: &[Tool]) -> Shown {
    let rows: Vec<[String; 2]> = tools
        .iter()
        .map(|tool| {
            [
                clip(&tool.name, LINE),
                clip(tool.description.as_deref().unwrap_or_default(), LINE),
            ]
        })
        .collect();
    Shown {
        text: format!(
            "{}\n{}",
            headline(info, tools.len(), "tool"),
            table(["TOOL", "DESCRIPTION"], &rows)
        ),
        json: json!({ "server": info, "tools": tools }),
    }
}

/// `{"server": …, "resources": […], "templates": […]}`
pub(super) fn resources(info: &ServerInfo, resources: &[Resource], templates: &[ResourceTemplate]) -> Shown {
    let rows: Vec<[String; 3]> = resources
        .iter()
        .map(|resource| {
            let label = resource.title.as_ref().unwrap_or(&resource.name);
            let kind = resource.mime_type.as_deref().unwrap_or_default();
            [clean(&resource.uri), clip(kind, LINE), clip(label, LINE)]
        })
        .collect();
    let mut text = headline(info, resources.len(), "resource");
    text.push('\n');
    text.push_str(&table(["URI", "TYPE", "NAME"], &rows));
    if !templates.is_empty() {
        let rows: Vec<[String; 3]> = templates
            .iter()
            .map(|template| {
                let label = template.title.as_ref().unwrap_or(&template.name);
                let kind = template.mime_type.as_deref().unwrap_or_default();
                [clean(&template.uri_template), clip(kind, LINE), clip(label, LINE)]
            })
            .collect();
        text.push_str("\n\n");
        text.push_str(&table(["TEMPLATE", "TYPE", "NAME"], &rows));
    }
    Shown {
        text,
        json: json!({ "server": info, "resources": resources, "templates": templates }),
    }
}

/// `{"server": NAME, "uri": …, "digest": …, "contents": […]}`
pub(super) fn contents(server: &str, uri: &str, contents: &[Content]) -> Shown {
    let texts: Vec<String> = contents.iter().map(content).collect();
    Shown {
        text: texts.join("\n"),
        json: json!({ "server": server, "uri": uri, "digest": Digest::of(contents), "contents": contents }),
    }
}

/// `{"event": "armed"|"changed", "server": NAME, "uri": …, "digest": …, "contents": […]}`
pub(super) fn news(event: &str, now: &Change) -> Shown {
    let texts: Vec<String> = now.contents.iter().map(content).collect();
    Shown {
        text: format!("{event} {}\n{}", clean(&now.uri), texts.join("\n")),
        json: json!({
            "event": event, "server": now.server, "uri": now.uri, "digest": now.digest, "contents": now.contents,
        }),
    }
}

fn content(content: &Content) -> String {
    match content {
        Content::Text { text, .. } => clean(text),
        Content::Blob {
            uri,
            mime_type,
            base64,
        } => {
            let kind = mime_type.as_deref().unwrap_or("unknown type");
            format!(
                "[{}: {}, {} bytes; -o json has them]",
                clean(uri),
                clip(kind, LINE),
                base64.len() / 4 * 3
            )
        }
    }
}

/// `{"server": …, "ms": …}`
pub(super) fn ping(info: &ServerInfo, took: Duration) -> Shown {
    let ms = took.as_secs_f64() * 1000.0;
    Shown {
        text: format!("{} answered in {ms:.1} ms", who(info)),
        json: json!({ "server": info, "ms": ms }),
    }
}

/// `{"text": …, "is_error": …, "structured": …}`
pub(super) fn outcome(outcome: &ToolOutcome) -> Shown {
    Shown {
        text: clean(&outcome.text),
        json: json!({
            "text": outcome.text, "is_error": outcome.is_error, "structured": outcome.structured,
        }),
    }
}

fn who(info: &ServerInfo) -> String {
    format!(
        "{} {} (MCP {})",
        clip(&info.name, LINE),
        clip(&info.version, LINE),
        clip(&info.protocol_version, LINE)
    )
}

fn headline(info: &ServerInfo, count: usize, what: &str) -> String {
    format!(
        "{}: {count} {what}{}",
        who(info),
        if count == 1 { "" } else { "s" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ServerInfo {
        ServerInfo {
            name: "fs".into(),
            version: "1.2".into(),
            protocol_version: "2025-11-25".into(),
            capabilities: vec!["tools".into()],
        }
    }

    #[test]
    fn resources_as_a_table_and_as_json() {
        let resource = |uri: &str, name: &str| Resource {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
        };
        let template = ResourceTemplate {
            uri_template: "a:{n}".into(),
            name: "n".into(),
            title: Some("by number".into()),
            mime_type: Some("text/plain".into()),
        };
        let all = [resource("a:1", "one"), resource("a:long", "\u{1b}[31mtwo")];
        let shown = resources(&info(), &all, std::slice::from_ref(&template));
        assert_eq!(
            shown.text(false),
            "fs 1.2 (MCP 2025-11-25): 2 resources\nURI     TYPE  NAME\na:1           one\na:long         [31mtwo\n\n\
             TEMPLATE  TYPE        NAME\na:{n}     text/plain  by number"
        );
        let value: Value = serde_json::from_str(&shown.text(true)).unwrap();
        assert_eq!(
            value,
            json!({ "server": info(), "resources": all, "templates": [template] })
        );
    }

    #[test]
    fn a_read_shows_text_and_names_the_rest() {
        let parts = [
            Content::Text {
                uri: "a:1".into(),
                mime_type: None,
                text: "one\u{7}\n\u{202e}two".into(),
            },
            Content::Blob {
                uri: "a:2".into(),
                mime_type: Some("image/png".into()),
                base64: "AAAA".into(),
            },
        ];
        let shown = contents("fs", "a:1", &parts);
        assert_eq!(
            shown.text(false),
            "one\\u{7}\n\\u{202e}two\n[a:2: image/png, 3 bytes; -o json has them]"
        );
        let value: Value = serde_json::from_str(&shown.text(true)).unwrap();
        assert_eq!(
            value,
            json!({ "server": "fs", "uri": "a:1", "digest": Digest::of(&parts), "contents": parts })
        );
    }

    #[test]
    fn a_change_is_a_line_of_json() {
        let contents = vec![Content::Text {
            uri: "a:1".into(),
            mime_type: None,
            text: "one\ntwo".into(),
        }];
        let change = Change {
            server: "fs".into(),
            uri: "a:1".into(),
            digest: Digest::of(&contents),
            contents,
        };
        let shown = news("changed", &change);
        assert_eq!(shown.text(false), "changed a:1\none\ntwo");
        assert_eq!(shown.text(true).lines().count(), 1);
        let expected = json!({
            "event": "changed", "server": "fs", "uri": "a:1", "digest": change.digest, "contents": change.contents,
        });
        assert_eq!(shown.json, expected);
    }

    #[test]
    fn an_outcome_and_a_ping() {
        let failed = ToolOutcome {
            text: "no \u{1b}]0;x\u{7}file".into(),
            is_error: true,
            structured: Some(json!({ "a": 1 })),
            links: Vec::new(),
        };
        let shown = outcome(&failed);
        assert_eq!(shown.text(false), "no \\u{1b}]0;x\\u{7}file");
        let value: Value = serde_json::from_str(&shown.text(true)).unwrap();
        assert_eq!(
            value,
            json!({ "text": failed.text, "is_error": true, "structured": { "a": 1 } })
        );
        let shown = ping(&info(), Duration::from_micros(1500));
        assert_eq!(shown.text(false), "fs 1.2 (MCP 2025-11-25) answered in 1.5 ms");
        assert_eq!(shown.json, json!({ "server": info(), "ms": 1.5 }));
    }
}
