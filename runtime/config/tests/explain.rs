//! Every fault in one pass, and the document with who set what.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::collections::BTreeMap;

use agentd_config::load::{Explained, Layers, explain, load};
use serde_json::json;

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Layers with one file of this text.
fn layers(folder: &tempfile::TempDir, text: &str) -> Layers {
    let path = folder.path().join("a.yaml");
    std::fs::write(&path, text).unwrap();
    Layers {
        files: vec![path],
        ..Layers::default()
    }
}

fn lines(folder: &tempfile::TempDir, layers: &Layers) -> Vec<String> {
    let errors = load(layers).unwrap_err().to_string();
    let errors = errors.replace(&format!("{}/", folder.path().display()), "");
    errors.lines().map(str::to_owned).collect()
}

#[test]
fn every_fault_is_found_in_one_pass_and_none_that_follows_from_another() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
agent: {nane: x, prompt: go}
intelligence:
  model: 5
  endpoints: [{url: 'http://gw.example/v1'}, {name: b}]
mcp:
  servers: [{name: fs, endpoint: 'https://fs.example/mcp', ns: a.b}]
  default_timeout: soon
identity: {trust_domain: TD, token_file: 7}
limits: {run: {steps: 0, deadline: 0s}, subagents: {rate: fast}}
context: {compact_at: 2}
";
    let mut layers = layers(&folder, text);
    layers.variables = pairs(&[("AGENTD_LIMITS_RUN_TOKENS", "many"), ("AGENTD_MODLE", "m")]);
    layers.flags = pairs(&[("a2a.dev", "perhaps")]);
    layers.servers = vec!["web".to_owned(), "fs=https://two.example/mcp".to_owned()];
    insta::assert_snapshot!(lines(&folder, &layers).join("\n"));
}

#[test]
fn what_else_is_wrong_is_not_guessed_where_a_layer_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut layers = layers(&folder, "agent: {prompt: go, nane: x}");
    layers.files.push(folder.path().join("gone.yaml"));
    let lines = lines(&folder, &layers);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("agent.nane: unknown key in file a.yaml; allowed here: name, "));
    assert!(lines[1].starts_with("gone.yaml: "), "{lines:?}");
}

#[test]
fn each_key_has_the_layer_that_set_it_last() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
agent: {prompt: go, name: one}
intelligence: {model: m, endpoints: ['https://gw.example/v1']}
mcp: {servers: [{name: fs, endpoint: 'https://fs.example/mcp'}]}
limits: {run: {steps: 5, tokens: 6}}
";
    let mut layers = layers(&folder, text);
    let second = folder.path().join("b.json");
    std::fs::write(
        &second,
        r#"{"agent": {"name": null}, "limits": {"run": {"steps": 7}}}"#,
    )
    .unwrap();
    layers.files.push(second);
    layers.variables = pairs(&[("AGENTD_LIMITS_RUN_TOKENS", "8")]);
    layers.flags = pairs(&[("model", "n")]);
    layers.servers = vec![
        "web=https://web.example/mcp".to_owned(),
        "db=https://db.example/mcp".to_owned(),
    ];
    let Explained {
        document,
        origins,
        faults,
    } = explain(&layers);
    assert_eq!(faults, []);
    let expected = json!({
        "agent": {"prompt": "go"},
        "intelligence": {"model": "n", "endpoints": [{"url": "https://gw.example/v1"}]},
        "mcp": {"servers": [
            {"name": "fs", "endpoint": "https://fs.example/mcp"},
            {"name": "web", "endpoint": "https://web.example/mcp"},
            {"name": "db", "endpoint": "https://db.example/mcp"},
        ]},
        "limits": {"run": {"steps": 7, "tokens": 8}},
    });
    assert_eq!(document, expected);
    let place = format!("{}/", folder.path().display());
    let origins: BTreeMap<&str, String> = origins
        .iter()
        .map(|(path, source)| (path.as_str(), source.replace(&place, "")))
        .collect();
    let expected = [
        ("agent.prompt", "file a.yaml"),
        ("intelligence.endpoints", "file a.yaml"),
        ("intelligence.model", "flag --model"),
        ("limits.run.steps", "file b.json"),
        ("limits.run.tokens", "variable AGENTD_LIMITS_RUN_TOKENS"),
        ("mcp.servers", "file a.yaml, flag --mcp"),
    ];
    assert_eq!(
        origins,
        expected.map(|(path, source)| (path, source.to_owned())).into()
    );
}

#[test]
fn the_live_folder_is_a_layer_too() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    std::fs::create_dir(&live).unwrap();
    std::fs::write(live.join("config.json"), r#"{"intelligence": {"model": "late"}}"#).unwrap();
    let text = format!(
        "lifecycle: {{live_folder: '{}'}}\nintelligence: {{model: early}}",
        live.display()
    );
    let explained = explain(&layers(&folder, &text));
    assert_eq!(explained.document["intelligence"]["model"], "late");
    let origin = &explained.origins["intelligence.model"];
    assert!(origin.ends_with("live/config.json"), "{origin}");
}

#[test]
fn a_broken_document_is_explained_and_no_secret_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
agent: {prompt: go, token: hunter2, instruction: 'https://me:hunter2@x.example/'}
intelligence:
  model: 5
  endpoints:
    - url: 'https://me:hunter2@gw.example/v1?key=hunter2'
      headers: {Authorization: 'Bearer hunter2', X-Api-Key: 'Bearer {{secret:KEY}}', X-Auth-Token: 'hunter2-{{secret-file:/k}}', X-Plain: v}
      auth: {static: {bearer: hunter2}}
mcp:
  servers:
    - {name: a, endpoint: 'https://a.example/mcp', auth: {oauth2: {client_id: i, client_secret: hunter2, client_key: 'hunter2 {{hunter2}}', token_endpoint: 'https://t.example/token'}}}
    - {name: b, password: hunter2, endpoint: 'https://b.example/mcp'}
identity: {token_file: /t}
hunter: {x: hunter2}
";
    let explained = explain(&layers(&folder, text));
    assert!(explained.faults.len() > 8, "{:?}", explained.faults);
    let shown = serde_json::to_string_pretty(&explained.document).unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
    insta::assert_snapshot!(shown);
}
