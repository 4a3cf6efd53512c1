//! What servers say of their tools, written down for whoever audits them: once for each definition, and again when it
//! becomes another one. Nothing is decided by it.

use std::collections::BTreeMap;

use agentd_base::limit::{FOREIGN_CHARS, MESSAGE_CHARS};
use agentd_base::text::clip;

use crate::catalogue::Tool;

/// Lines for one list; a server with more tools is audited by its report.
const LINES: usize = 256;

/// The definitions of one server that were written down.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    digests: BTreeMap<String, String>,
}

impl Audit {
    /// Writes down what is new in a list.
    pub(crate) fn write(&mut self, server: &str, tools: &[Tool]) {
        let news = self.news(tools);
        for (tool, before) in news.iter().take(LINES) {
            let name = clip(&tool.name, FOREIGN_CHARS);
            let description = clip(tool.description.as_deref().unwrap_or_default(), MESSAGE_CHARS);
            let annotations = tool
                .annotations
                .as_ref()
                .and_then(|hints| serde_json::to_string(hints).ok());
            let annotations = clip(annotations.as_deref().unwrap_or_default(), MESSAGE_CHARS);
            match before {
                None => {
                    tracing::info!(event = "mcp.tool", mcp.server = %server, gen_ai.tool.name = %name, digest = %tool.digest, description = %description, annotations = %annotations);
                }
                // A tool that was approved may do something else from now on.
                Some(before) => {
                    tracing::warn!(event = "mcp.tool.changed", mcp.server = %server, gen_ai.tool.name = %name, digest = %tool.digest, before = %before, description = %description, annotations = %annotations);
                }
            }
        }
        if let Some(more) = news.len().checked_sub(LINES).filter(|more| *more > 0) {
            tracing::info!(event = "mcp.tool", mcp.server = %server, "and {more} more");
        }
    }

    /// The tools whose definition was not seen, each with the digest it had before.
    fn news<'a>(&mut self, tools: &'a [Tool]) -> Vec<(&'a Tool, Option<String>)> {
        // What is gone is forgotten, so that a server cannot make this grow.
        let mut before = std::mem::take(&mut self.digests);
        let mut news = Vec::new();
        for tool in tools {
            let known = before
                .remove(&tool.name)
                .or_else(|| self.digests.get(&tool.name).cloned());
            if known.as_ref() != Some(&tool.digest) {
                news.push((tool, known));
            }
            self.digests.insert(tool.name.clone(), tool.digest.clone());
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m23_a_definition_is_written_down_once_and_again_when_it_is_another() {
        let tool = |name: &str, digest: &str| Tool {
            name: name.into(),
            digest: digest.into(),
            ..Tool::default()
        };
        let mut audit = Audit::default();
        let mut news = |tools: &[Tool]| -> Vec<(String, Option<String>)> {
            let news = audit.news(tools);
            news.into_iter()
                .map(|(tool, before)| (tool.name.clone(), before))
                .collect()
        };
        let (a, b) = (tool("a", "1"), tool("b", "1"));
        assert_eq!(
            news(&[a.clone(), b.clone()]),
            [("a".to_owned(), None), ("b".to_owned(), None)]
        );
        assert_eq!(news(&[b.clone(), a.clone()]), []);
        assert_eq!(
            news(&[tool("a", "2"), b.clone()]),
            [("a".to_owned(), Some("1".to_owned()))]
        );
        assert_eq!(news(&[b]), []);
        assert_eq!(news(&[a]), [("a".to_owned(), None)]);
    }
}
