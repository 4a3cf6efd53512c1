//! `resource.read`: from a URI to its server or to what we keep ourselves, and from contents to words. Whatever goes
//! wrong is told to the model.

use std::time::Duration;

use agentd_base::text::clip;
use agentd_mcp::{CallError, CallMeta, Content, Policy, ReadError};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::desk::Desk;
use crate::grants::READ;
use crate::observation::Observation;
use crate::offer::is_own;
use crate::prompt::bounded;
use crate::request::{self, Reply, Request};

/// A URI that a model may ask for.
pub(crate) const URI_CHARS: usize = 8 * 1024;
/// In a line for the model.
const SHOWN_CHARS: usize = 512;

/// Before a read that failed is made again.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// Of subagents that have ended: the supervisor has them.
const SUBAGENTS: &str = "agentd://subagents/";

/// Whether anything can be read.
pub(crate) fn is_useful(desk: &Desk) -> bool {
    !desk.kept.is_empty() || desk.context.has_own || desk.readable().is_readable()
}

/// Reads a URI.
pub(crate) async fn read(uri: &str, ordinal: u32, desk: &Desk) -> Observation {
    if uri.starts_with(SUBAGENTS) {
        let request = Request::ResourceRead(request::Uri { uri: uri.to_owned() });
        return match desk.supervisor.request(request).await {
            Reply::Done(Value::String(text)) => Observation::result(text),
            Reply::Done(value) => Observation::result(value.to_string()),
            Reply::Refused(why) => Observation::error(why),
            Reply::Reserved(_) | Reply::Later => Observation::error("the supervisor gave no result"),
        };
    }
    if is_own(uri) {
        return desk.kept.read(uri);
    }
    let shown = clip(uri, SHOWN_CHARS);
    let readable = desk.readable();
    // Whoever lists it comes before whoever pointed to it: a result takes nothing from another server.
    let owner = readable.owner(uri).map(str::to_owned);
    let linked = || {
        desk.kept
            .linked(uri)
            .filter(|server| desk.context.held.has_server(server))
    };
    let Some(server) = owner.or_else(linked) else {
        return Observation::error(format!(
            "no server offers {shown}; read a URI that is listed, or one of a template that is"
        ));
    };
    let mut arguments = Map::new();
    arguments.insert("uri".to_owned(), uri.into());
    let meta = desk.meta(&server, READ, &arguments, ordinal);
    match fetch(desk, &server, uri, &meta).await {
        None => Observation::error(format!("server {server} is not connected now; try later")),
        Some(Ok(contents)) => Observation::result(words(uri, &contents)),
        Some(Err(ReadError::NotFound { .. })) => {
            Observation::error(format!("server {server} has no resource {shown}"))
        }
        Some(Err(ReadError::Call(error))) => Observation::error(unread(&shown, &error)),
    }
}

/// Reads; again where the server failed in a way that may pass, since reading twice does no harm.
pub(crate) async fn fetch(
    desk: &Desk,
    server: &str,
    uri: &str,
    meta: &CallMeta,
) -> Option<Result<Vec<Content>, ReadError>> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let answer = desk.servers.read(server, uri, meta).await;
        let may_pass =
            matches!(&answer, Some(Err(ReadError::Call(error))) if error.policy() == Policy::Retry);
        match pauses.next().filter(|_| may_pass) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return answer,
        }
    }
}

/// Why there are no contents. The server's own words only where the model can mend what they say.
pub(crate) fn unread(uri: &str, error: &CallError) -> String {
    match (error, error.policy()) {
        (CallError::Protocol { code, .. }, Policy::Retry | Policy::Abort) => {
            format!("{uri} could not be read: its server failed (error {code})")
        }
        _ => format!("{uri} could not be read: {error}"),
    }
}

/// Contents as a model is told: text as it is, anything else named. More than one, or one of another URI, is headed.
pub(crate) fn words(uri: &str, contents: &[Content]) -> String {
    let alone = contents.len() == 1;
    let parts: Vec<String> = contents
        .iter()
        .map(|content| match content {
            Content::Text { uri: own, text, .. } => {
                headed(alone && own == uri, own, bounded(text, usize::MAX))
            }
            Content::Blob {
                uri: own,
                mime_type,
                base64,
            } => blob(alone && own == uri, own, mime_type.as_deref(), base64),
        })
        .collect();
    match parts.is_empty() {
        true => "[the resource is empty]".to_owned(),
        false => parts.join("\n"),
    }
}

fn headed(is_plain: bool, uri: &str, text: String) -> String {
    if is_plain {
        return text;
    }
    format!("[resource {}]\n{text}", clip(uri, SHOWN_CHARS))
}

fn blob(is_plain: bool, uri: &str, mime_type: Option<&str>, base64: &str) -> String {
    let Ok(bytes) = BASE64_STANDARD.decode(base64) else {
        return format!("[resource {}: what came is not base64]", clip(uri, SHOWN_CHARS));
    };
    if is_text(mime_type)
        && let Ok(text) = std::str::from_utf8(&bytes)
    {
        return headed(is_plain, uri, bounded(text, usize::MAX));
    }
    format!(
        "[resource {}: {}, {} bytes, not shown]",
        clip(uri, SHOWN_CHARS),
        clip(mime_type.unwrap_or("of no named type"), SHOWN_CHARS),
        bytes.len()
    )
}

/// Types whose bytes are meant to be read.
fn is_text(mime_type: Option<&str>) -> bool {
    let kind = mime_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    kind.starts_with("text/")
        || [
            "application/json",
            "application/xml",
            "application/yaml",
            "application/javascript",
        ]
        .contains(&kind.as_str())
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
}
