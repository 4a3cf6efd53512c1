//! Rows M5, M6, M8 and M10 of the contract: how MCP servers are declared, that every way is the same, and what is
//! refused before anything is touched.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use agentd_config::document::{McpServer, Tag, ToolsRefresh};
use agentd_config::load::{self, Layers};
use agentd_config::{ConfigErrors, Document};

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// A one-shot that is complete without servers.
fn layers() -> Layers {
    Layers {
        flags: pairs(&[
            ("prompt", "x"),
            ("intelligence", "https://gw.example/v1"),
            ("model", "m"),
        ]),
        ..Layers::default()
    }
}

fn with_file(name: &str, text: &str) -> (tempfile::TempDir, Layers) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let files = vec![path];
    (folder, Layers { files, ..layers() })
}

fn document(layers: &Layers) -> Document {
    load::load(layers).unwrap().document
}

fn refused(layers: &Layers) -> String {
    let ConfigErrors(faults) = load::load(layers).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].to_string()
}

fn names(document: &Document) -> Vec<&str> {
    document
        .mcp
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect()
}

#[test]
fn m10_the_file_block_the_flag_and_the_variable_are_the_same() {
    const JSON: &str = r#"[{"name": "fs", "endpoint": "https://fs.example/mcp"},
        {"name": "web", "endpoint": "https://web.example/mcp", "ns": "w", "headers": {"X-Team": "blue"},
         "auth": {"static": {"bearer": "{{secret:TOKEN}}"}}, "tags": {"*": ["untrusted_input"]}, "timeout": "30s"}]"#;
    const YAML: &str = "
- { name: fs, endpoint: https://fs.example/mcp }
- name: web
  endpoint: https://web.example/mcp
  ns: w
  headers: { X-Team: blue }
  auth: { static: { bearer: '{{secret:TOKEN}}' } }
  tags: [untrusted_input]
  timeout: 30s
";
    let (_folder, file) = with_file(
        "a.yaml",
        &format!("mcp:\n  servers:\n{}", YAML.replace('\n', "\n    ")),
    );
    let expected = document(&file).mcp.servers;
    assert_eq!(
        (expected.len(), expected[1].ns.as_deref()),
        (2, Some("w")),
        "{expected:?}"
    );
    for text in [JSON, YAML] {
        let mut flag = layers();
        flag.flags.extend(pairs(&[("mcp-servers", text)]));
        assert_eq!(document(&flag).mcp.servers, expected, "{text}");
        let variable = Layers {
            variables: pairs(&[("AGENTD_MCP_SERVERS", text)]),
            ..layers()
        };
        assert_eq!(document(&variable).mcp.servers, expected, "{text}");
    }
}

#[test]
fn m10_a_flag_or_variable_replaces_the_list_and_mcp_adds_to_it() {
    let (_folder, mut layers) = with_file(
        "a.yaml",
        "mcp: { servers: [{ name: a, endpoint: 'https://a.example' }] }",
    );
    assert_eq!(names(&document(&layers)), ["a"]);
    layers.servers = vec!["b=https://b.example/mcp".into(), "c=https://c.example/mcp".into()];
    assert_eq!(names(&document(&layers)), ["a", "b", "c"]);
    layers.variables = pairs(&[("AGENTD_MCP_SERVERS", "d=https://d.example")]);
    assert_eq!(names(&document(&layers)), ["d", "b", "c"]);
    layers.flags.extend(pairs(&[(
        "mcp.servers",
        r#"[{"name": "e", "endpoint": "https://e.example"}]"#,
    )]));
    assert_eq!(names(&document(&layers)), ["e", "b", "c"]);
    layers.servers = vec!["e=https://other.example/mcp".into()];
    assert_eq!(
        refused(&layers),
        "mcp.servers[e].name: is used twice; give each its own name"
    );
}

#[test]
fn m5_mcp_declares_a_server_by_name_and_endpoint() {
    let layers = Layers {
        servers: vec![" fs = https://fs.example:8443/mcp?tenant=a=b ".into()],
        ..layers()
    };
    let expected = McpServer {
        name: "fs".into(),
        endpoint: "https://fs.example:8443/mcp?tenant=a=b".into(),
        ..McpServer::default()
    };
    assert_eq!(document(&layers).mcp.servers, [expected]);
}

#[test]
fn m6_an_empty_name_or_another_endpoint_is_refused_with_key_and_remedy() {
    for (server, line) in [
        (
            "fs",
            "--mcp: an entry is not name=endpoint; write such as fs=https://mcp-fs.example/mcp",
        ),
        (
            "=https://fs.example",
            "mcp.servers[0].name: is empty; give it a name",
        ),
        (
            "a b=https://fs.example",
            "mcp.servers[0].name: is not a name; use at most 128 letters, digits, `-`, `_`, `.`",
        ),
        (
            "fs=",
            "mcp.servers[fs].endpoint: is empty; write https://host[:port][/path]",
        ),
        (
            "fs=http://fs.example/mcp",
            "mcp.servers[fs].endpoint: is plain http to another host; use https; http is for loopback only",
        ),
        (
            "fs=stdio:///bin/fs",
            "mcp.servers[fs].endpoint: names no host; write https://host[:port][/path]",
        ),
        (
            "fs=ws://fs.example",
            "mcp.servers[fs].endpoint: has the scheme `ws`; use https",
        ),
        (
            "fs=npx server-fs",
            "mcp.servers[fs].endpoint: is not a URL (relative URL without a base); write https://host[:port][/path]",
        ),
    ] {
        let layers = Layers {
            servers: vec![server.into()],
            ..layers()
        };
        assert_eq!(refused(&layers), line);
    }
    for endpoint in ["http://127.0.0.1:9/mcp", "http://localhost", "http://[::1]:9/mcp"] {
        let layers = Layers {
            servers: vec![format!("fs={endpoint}")],
            ..layers()
        };
        assert_eq!(document(&layers).mcp.servers[0].endpoint, endpoint);
    }
}

#[test]
fn m8_an_endpoint_is_text_of_the_configuration_and_holds_no_placeholder() {
    for endpoint in [
        "https://fs.example/{{secret:TENANT}}/mcp",
        "https://${HOST}/mcp",
        "https://fs.example/mcp?tenant={tenant}",
    ] {
        let layers = Layers {
            servers: vec![format!("fs={endpoint}")],
            ..layers()
        };
        assert_eq!(
            refused(&layers),
            "mcp.servers[fs].endpoint: holds a placeholder or braces; \
             write the address out: no part of it is filled in"
        );
    }
}

#[test]
fn m10_every_key_of_a_server_and_of_the_block() {
    let (_folder, layers) = with_file(
        "a.yaml",
        "
mcp:
  default_timeout: 45s
  tools_refresh: live
  servers:
    - name: all
      endpoint: https://all.example/mcp
      ns: a
      headers: { X-Team: blue }
      auth: { oauth2: { client_id: me, client_secret: '{{secret-file:/s/oauth}}', scopes: [a, b] } }
      tls: { ca_file: /ca.pem }
      tags: { '*': [sensitive], 'send_*': [egress] }
      timeout: 1s
      call_timeout: 2s
      connect_timeout: 3s
",
    );
    let mcp = document(&layers).mcp;
    assert_eq!(mcp.tools_refresh, ToolsRefresh::Live);
    let written = serde_json::to_value(&mcp).unwrap();
    assert_eq!(
        written,
        serde_json::json!({"default_timeout": "45s", "tools_refresh": "live", "servers": [{
            "name": "all", "endpoint": "https://all.example/mcp", "ns": "a", "headers": {"X-Team": "blue"},
            "auth": {"oauth2": {"client_id": "me", "client_secret": "{{secret-file:/s/oauth}}", "scopes": ["a", "b"]}},
            "tls": {"ca_file": "/ca.pem"}, "tags": {"*": ["sensitive"], "send_*": ["egress"]},
            "timeout": "1s", "call_timeout": "2s", "connect_timeout": "3s"}]})
    );
    assert_eq!(mcp.servers[0].tags["send_*"], [Tag::Egress]);
}

#[test]
fn an_unknown_tag_is_refused_with_the_words_there_are() {
    for (tags, key) in [
        ("[sensitive, secret]", "mcp.servers[fs].tags.*[1]"),
        ("{ 'a*': [secret] }", "mcp.servers[fs].tags.a*[0]"),
    ] {
        let text =
            format!("mcp: {{ servers: [{{ name: fs, endpoint: 'https://fs.example', tags: {tags} }}] }}");
        let (folder, layers) = with_file("a.yaml", &text);
        let line = refused(&layers).replace(&folder.path().display().to_string(), "");
        assert_eq!(
            line,
            format!(
                "{key}: is not one of the words it may be in file /a.yaml; write one of: untrusted_input, sensitive, egress"
            )
        );
    }
}

#[test]
fn a_list_in_a_flag_or_variable_that_cannot_be_read_is_named_without_its_text() {
    for text in [
        "[{\"name\": \"a\", \"hunter2\"}",
        "- name: a\n  name: hunter2",
        "[hunter2: {a: b",
    ] {
        let mut layers = layers();
        layers.flags.extend(pairs(&[("mcp-servers", text)]));
        let line = refused(&layers);
        assert!(
            line.starts_with("mcp.servers: cannot be read in flag --mcp-servers (")
                && !line.contains("hunter2"),
            "{line}"
        );
    }
}
