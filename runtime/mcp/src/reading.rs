//! From what a server says to what we keep: cut, cleaned, counted. Pure; nothing a server sends passes unbounded.

use agentd_base::digest;
use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::report::ServerInfo;
use agentd_base::text::{clip, is_unseen};
use rmcp::model::{
    CallToolResult, ContentBlock, MetaObject, ReadResourceResult, RequestMetaObject, ResourceContents,
    ServerCapabilities, ServerPeerInfo,
};
use serde_json::{Map, Value, json};

use crate::call::{CallMeta, ToolOutcome, WholeOutcome};
use crate::catalogue::Tool;
use crate::resource::{Content, Resource, ResourceTemplate};

/// Tools taken from one server.
pub(crate) const TOOLS: usize = 10_000;
/// Resources counted at one server.
pub(crate) const RESOURCES: usize = 100_000;
/// Resources and templates kept of one server: some hundred times what a prompt shows.
pub(crate) const RESOURCES_KEPT: usize = 2_000;
/// A URI that is longer is not taken: it could not be asked for.
const URI_CHARS: usize = 2 * 1024;
/// Parts of one read: a folder's files, more than a prompt holds.
const CONTENTS: usize = 1_000;
/// `instructions` in a prompt.
const INSTRUCTIONS_CHARS: usize = 16 * 1024;
/// A description of a tool in a prompt.
const DESCRIPTION_CHARS: usize = 8 * 1024;
/// The result of one call, as text for the model: more than most contexts hold.
const RESULT_CHARS: usize = 256 * 1024;
/// Links of one result.
const LINKS: usize = 64;
/// A URI of a resource in a result.
const LINK_CHARS: usize = 512;
/// A JSON-RPC error's text for the model.
pub(crate) const ERROR_CHARS: usize = 2 * 1024;

/// A tool's definition, and its size.
pub(crate) fn tool(tool: rmcp::model::Tool) -> (Tool, usize) {
    let annotations = tool.annotations.as_ref();
    let annotations = annotations.and_then(|hints| match serde_json::to_value(hints) {
        Ok(Value::Object(hints)) => Some(hints),
        _ => None,
    });
    let definition = json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": &*tool.input_schema,
        "outputSchema": tool.output_schema.as_deref(),
        "annotations": annotations,
    });
    let definition = sorted(definition).to_string();
    let mut input_schema = tool.input_schema.as_ref().clone();
    described(&mut input_schema);
    let tool = Tool {
        digest: digest::of(definition.as_bytes()),
        name: tool.name.into_owned(),
        description: tool.description.map(|text| plain(&text, DESCRIPTION_CHARS)),
        input_schema,
        output_schema: tool.output_schema.as_deref().cloned(),
        annotations,
    };
    (tool, definition.len())
}

/// The words of a schema, which a model reads, made plain. Names and values are sent back, so they stay as they are.
fn described(rules: &mut Map<String, Value>) {
    for (key, rule) in rules {
        match rule {
            Value::String(text) if matches!(key.as_str(), "description" | "title" | "$comment") => {
                text.retain(|c| !is_unseen(c));
            }
            rule => described_in(rule),
        }
    }
}

fn described_in(part: &mut Value) {
    match part {
        Value::Array(items) => items.iter_mut().for_each(described_in),
        Value::Object(rules) => described(rules),
        _ => {}
    }
}

/// A line of the resource list; none where it could not be asked for.
pub(crate) fn resource(line: rmcp::model::Resource) -> Option<Resource> {
    Some(Resource {
        uri: address(line.uri)?,
        name: clip(&line.name, FOREIGN_CHARS),
        title: line.title.map(|text| clip(&text, FOREIGN_CHARS)),
        description: line.description.map(|text| plain(&text, DESCRIPTION_CHARS)),
        mime_type: line.mime_type.map(|text| clip(&text, FOREIGN_CHARS)),
        size: line.size,
    })
}

/// A line of the template list, likewise.
pub(crate) fn template(line: rmcp::model::ResourceTemplate) -> Option<ResourceTemplate> {
    Some(ResourceTemplate {
        uri_template: address(line.uri_template)?,
        name: clip(&line.name, FOREIGN_CHARS),
        title: line.title.map(|text| clip(&text, FOREIGN_CHARS)),
        mime_type: line.mime_type.map(|text| clip(&text, FOREIGN_CHARS)),
    })
}

fn address(uri: String) -> Option<String> {
    let plain = |c: char| !c.is_control() && !is_unseen(c);
    let fits = !uri.is_empty() && uri.chars().count() <= URI_CHARS && uri.chars().all(plain);
    fits.then_some(uri)
}

/// What a read of `uri` gave: the transport bounds it, its reader cuts it. More parts than anybody reads are counted.
pub(crate) fn contents(uri: &str, mut result: ReadResourceResult) -> Vec<Content> {
    let more = result.contents.len().saturating_sub(CONTENTS);
    result.contents.truncate(CONTENTS);
    let cut = (more > 0).then(|| Content::Text {
        uri: uri.to_owned(),
        mime_type: None,
        text: format!("[{more} more parts, not shown]"),
    });
    let contents = result.contents.into_iter().filter_map(|part| match part {
        ResourceContents::TextResourceContents {
            uri, mime_type, text, ..
        } => Some(Content::Text { uri, mime_type, text }),
        ResourceContents::BlobResourceContents {
            uri, mime_type, blob, ..
        } => Some(Content::Blob {
            uri,
            mime_type,
            base64: blob,
        }),
        _ => None,
    });
    contents.chain(cut).collect()
}

/// The same value with keys in order, so that a digest does not depend on how a server orders them. The parser that
/// made the value bounds its depth.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// `serverInfo`, revision and capabilities.
pub(crate) fn server_info(info: &ServerPeerInfo) -> ServerInfo {
    let own = info.server_info.as_ref();
    ServerInfo {
        name: own.map(|own| clip(&own.name, FOREIGN_CHARS)).unwrap_or_default(),
        version: own
            .map(|own| clip(&own.version, FOREIGN_CHARS))
            .unwrap_or_default(),
        protocol_version: clip(info.protocol_version.as_str(), FOREIGN_CHARS),
        capabilities: capabilities(&info.capabilities),
    }
}

fn capabilities(offered: &ServerCapabilities) -> Vec<String> {
    let changed = |flag: Option<bool>| flag.unwrap_or(false);
    let prompts = offered.prompts.as_ref();
    let resources = offered.resources.as_ref();
    let tools = offered.tools.as_ref();
    [
        ("completions", offered.completions.is_some()),
        ("logging", offered.logging.is_some()),
        ("prompts", prompts.is_some()),
        (
            "prompts.listChanged",
            prompts.is_some_and(|prompts| changed(prompts.list_changed)),
        ),
        ("resources", resources.is_some()),
        (
            "resources.listChanged",
            resources.is_some_and(|resources| changed(resources.list_changed)),
        ),
        (
            "resources.subscribe",
            resources.is_some_and(|resources| changed(resources.subscribe)),
        ),
        ("tools", tools.is_some()),
        (
            "tools.listChanged",
            tools.is_some_and(|tools| changed(tools.list_changed)),
        ),
    ]
    .into_iter()
    .filter(|(_, offered)| *offered)
    .map(|(name, _)| name.to_owned())
    .collect()
}

/// `instructions`; `None` when there is nothing to read.
pub(crate) fn instructions(text: &str) -> Option<String> {
    let text = plain(text.trim(), INSTRUCTIONS_CHARS);
    if text.is_empty() { None } else { Some(text) }
}

/// `params._meta` of a call.
pub(crate) fn call_meta(meta: &CallMeta) -> RequestMetaObject {
    let mut map = MetaObject::new();
    for (key, value) in [
        ("agent/run_id", &meta.run_id),
        ("agent/instance", &meta.instance),
        ("agent/idempotency_key", &meta.idempotency_key),
    ] {
        // A read for a subscription belongs to no run.
        if !value.is_empty() {
            map.insert(key.into(), value.clone().into());
        }
    }
    if let Some(traceparent) = &meta.traceparent {
        map.insert("traceparent".into(), traceparent.clone().into());
    }
    RequestMetaObject(map)
}

/// What a tool's structured content is, by what the tool said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Structured {
    /// The revision has none.
    Unknown,
    /// The tool promised none: it is read as text where there is no other.
    Unpromised,
    /// As promised, as far as that was checked.
    Fits,
    /// Not as promised; why.
    Broken(String),
}

/// A tool's answer.
pub(crate) fn outcome(result: CallToolResult, structured: Structured) -> ToolOutcome {
    let given = result
        .structured_content
        .filter(|_| structured != Structured::Unknown);
    let links = result.content.iter().filter_map(link).take(LINKS).collect();
    let mut text = result.content.iter().map(block).collect::<Vec<_>>().join("\n");
    if text.is_empty()
        && let Some(value) = &given
    {
        text = value.to_string();
    }
    let mut text = readable(&text, RESULT_CHARS);
    if let Structured::Broken(why) = &structured {
        text.push_str(&format!(
            "\n[the structured result is not what the tool promised: {why}]"
        ));
    }
    ToolOutcome {
        text,
        is_error: result.is_error.unwrap_or(false),
        structured: given.filter(|_| structured == Structured::Fits),
        links,
    }
}

/// A tool's answer, neither cut nor cleaned.
pub(crate) fn whole(result: CallToolResult) -> WholeOutcome {
    let texts = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let value = result.structured_content.unwrap_or_else(|| {
        let text = texts.collect::<Vec<_>>().join("\n");
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    });
    WholeOutcome {
        value,
        is_error: result.is_error.unwrap_or(false),
    }
}

/// A link whose URI is shown whole.
fn link(block: &ContentBlock) -> Option<String> {
    let ContentBlock::ResourceLink(link) = block else {
        return None;
    };
    let uri = link.uri.to_string();
    (clip(&uri, LINK_CHARS) == uri).then_some(uri)
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => media("image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => media("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::ResourceLink(link) => {
            format!(
                "[resource {}: {}]",
                clip(&link.uri, LINK_CHARS),
                clip(&link.name, FOREIGN_CHARS)
            )
        }
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[resource {}]\n{text}", clip(uri, LINK_CHARS))
            }
            ResourceContents::BlobResourceContents {
                uri, mime_type, blob, ..
            } => {
                format!(
                    "[resource {}]\n{}",
                    clip(uri, LINK_CHARS),
                    media("data", mime_type.as_deref().unwrap_or("?"), blob.len())
                )
            }
            _ => "[a resource of an unknown kind]".into(),
        },
        _ => "[content of an unknown kind]".into(),
    }
}

fn media(what: &str, kind: &str, base64: usize) -> String {
    format!(
        "[{what}, {}, {} bytes, not shown]",
        clip(kind, 64),
        base64 / 4 * 3
    )
}

/// What a server says of itself and of what it has: readable, without characters that are not seen.
pub(crate) fn plain(text: &str, max: usize) -> String {
    let seen: String = text.chars().filter(|c| !is_unseen(*c)).collect();
    readable(&seen, max)
}

/// Keeps line ends and tabs, drops other control characters, cuts to `max` characters and says so.
pub(crate) fn readable(text: &str, max: usize) -> String {
    let clean = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let mut characters = text.chars().filter(clean);
    let mut kept: String = characters.by_ref().take(max).collect();
    let rest = characters.count();
    if rest > 0 {
        kept.push_str(&format!("\n[{rest} characters cut]"));
    }
    kept
}
