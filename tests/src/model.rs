//! What the scripted model server of the world outside was asked, by its own journal.

use std::process::Command;

use serde_json::Value;

use crate::caller::curl;
use crate::command::run_with;
use crate::namespace::Namespace;

/// Where it is.
pub const HOST: &str = "https://model.agentd-demo-outside.svc:8443";

/// One request.
#[derive(Debug)]
pub struct Request {
    /// Its path.
    pub path: String,
    /// The names of the tools that the model may call, as they are on the wire.
    pub tools: Vec<String>,
}

/// What this model was asked. `namespace` holds the token, and the names of the models of a test are no other test's.
///
/// # Panics
/// When the journal can't be read.
#[must_use]
pub fn asked(namespace: &Namespace, model: &str) -> Vec<Request> {
    let token = ["get", "secret", "model-token", "-o", "jsonpath={.data.token}"];
    let token = run_with(
        Command::new("base64").arg("-d"),
        namespace.kubectl(&token).ok().as_bytes(),
    );
    // In a file: a command line can be read by everybody on the machine.
    let folder = tempfile::tempdir().expect("a folder");
    let header = folder.path().join("header");
    std::fs::write(&header, format!("authorization: Bearer {}", token.ok())).expect("written");
    let header = format!("@{}", header.display());
    let journal = curl(
        &format!("{HOST}/v1/_requests"),
        &["--insecure", "--header", &header],
    )
    .ok();
    let (journal, _) = journal.rsplit_once('\n').expect("a status");
    let journal: Vec<Value> = serde_json::from_str(journal).expect("a journal");
    let ours = |entry: &Value| {
        entry["body"]["model"] == model
            || entry["path"]
                .as_str()
                .is_some_and(|path| path.contains(&format!("/{model}/")))
    };
    journal.iter().filter(|entry| ours(entry)).map(request).collect()
}

fn request(entry: &Value) -> Request {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tools = entry["body"]["tools"].as_array();
    Request {
        path: text(&entry["path"]),
        tools: tools
            .into_iter()
            .flatten()
            .map(|tool| text(&tool["function"]["name"]))
            .collect(),
    }
}
