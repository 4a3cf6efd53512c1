//! Layers: file < environment < flag < live folder; unknown keys refused with their place, path and the allowed keys.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::path::{Path, PathBuf};

use agentd_base::duration::Duration;
use agentd_config::document::LogLevel;
use agentd_config::filter::ToolFilter;
use agentd_config::load::{self, Layers};
use agentd_config::{ConfigErrors, live};

/// A folder with files, and the layers of a one-shot that is complete without them.
struct Setup {
    folder: tempfile::TempDir,
    layers: Layers,
}

fn setup() -> Setup {
    let flags = [
        ("prompt", "say hello"),
        ("intelligence", "https://gw.example/v1"),
        ("model", "m"),
    ];
    let layers = Layers {
        flags: pairs(&flags),
        ..Layers::default()
    };
    Setup {
        folder: tempfile::tempdir().unwrap(),
        layers,
    }
}

impl Setup {
    fn file(mut self, name: &str, text: &str) -> Self {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        self.layers.files.push(path);
        self
    }

    fn variables(mut self, variables: &[(&str, &str)]) -> Self {
        self.layers.variables = pairs(variables);
        self
    }

    fn flags(mut self, flags: &[(&str, &str)]) -> Self {
        self.layers.flags.extend(pairs(flags));
        self
    }

    fn load(&self) -> Result<load::Loaded, ConfigErrors> {
        load::load(&self.layers)
    }

    fn lines(&self) -> Vec<String> {
        let text = self.load().unwrap_err().to_string().replace(&self.path(""), "");
        text.lines().map(str::to_owned).collect()
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder.path().display())
    }
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn later_layers_win_key_by_key() {
    let setup = setup()
        .file(
            "1.yaml",
            "limits: { run: { steps: 1, tokens: 1, deadline: 1m } }\nagent: { name: one }",
        )
        .file(
            "2.json",
            r#"{"limits": {"run": {"tokens": 2}}, "observability": {"log_level": "error"}}"#,
        )
        .variables(&[
            ("AGENTD_LIMITS_RUN_STEPS", "3"),
            ("PATH", "/bin"),
            ("AGENTD_AGENT_NAME", "three"),
        ])
        .flags(&[("limits.run.steps", "4"), ("observability-log-level", "debug")]);
    let document = setup.load().unwrap().document;
    let run = &document.limits.run;
    assert_eq!(
        (run.steps, run.tokens, run.deadline),
        (Some(4), Some(2), Some(Duration::secs(60)))
    );
    assert_eq!(document.agent.name.as_deref(), Some("three"));
    assert_eq!(document.observability.log_level, Some(LogLevel::Debug));
    assert_eq!(document.agent.prompt.as_deref(), Some("say hello"));
}

#[test]
fn a_null_in_a_later_file_takes_a_key_out_and_a_list_replaces_a_list() {
    let setup = setup()
        .file(
            "1.yaml",
            "agent: { name: one }\nmcp: { servers: [{ name: a, endpoint: 'https://a.example' }] }",
        )
        .file(
            "2.yaml",
            "agent: { name: null }\nmcp: { servers: [{ name: b, endpoint: 'https://b.example' }] }",
        );
    let document = setup.load().unwrap().document;
    assert_eq!(document.agent.name, None);
    assert_eq!(
        document
            .mcp
            .servers
            .iter()
            .map(|server| &server.name)
            .collect::<Vec<_>>(),
        ["b"]
    );
}

#[test]
fn servers_and_endpoints_have_short_forms() {
    let mut setup = setup()
        .file(
            "1.yaml",
            "intelligence: { endpoints: [https://a.example/v1, { url: 'https://b.example', name: b }] }",
        )
        .variables(&[(
            "AGENTD_MCP_SERVERS",
            "fs=https://fs.example/mcp, web=https://web.example/mcp",
        )]);
    setup.layers.flags.retain(|(name, _)| name != "intelligence");
    setup.layers.servers = vec!["extra=https://extra.example/mcp?x=1".into()];
    let document = setup.load().unwrap().document;
    let urls: Vec<_> = document
        .intelligence
        .endpoints
        .iter()
        .map(|endpoint| endpoint.url.as_str())
        .collect();
    assert_eq!(urls, ["https://a.example/v1", "https://b.example"]);
    let servers: Vec<_> = document
        .mcp
        .servers
        .iter()
        .map(|server| (server.name.as_str(), server.endpoint.as_str()))
        .collect();
    assert_eq!(
        servers,
        [
            ("fs", "https://fs.example/mcp"),
            ("web", "https://web.example/mcp"),
            ("extra", "https://extra.example/mcp?x=1"),
        ]
    );

    let json = r#"[{"name": "j", "endpoint": "https://j.example", "ns": "web"}]"#;
    setup = setup.flags(&[
        ("mcp-servers", json),
        ("intelligence.endpoints", "https://c.example,https://d.example"),
    ]);
    let document = setup.load().unwrap().document;
    assert_eq!(document.mcp.servers[0].ns.as_deref(), Some("web"));
    assert_eq!(document.mcp.servers[1].name, "extra");
    assert_eq!(document.intelligence.endpoints.len(), 2);
}

#[test]
fn an_unknown_key_is_refused_with_file_path_and_allowed_keys() {
    let setup = setup().file(
        "a.yaml",
        "agnet: {}\nlimits: { run: { step: 1 } }\nmcp: { servers: [{ name: fs, endpoint: 'https://x', endpoitn: y }, { name: 7 }] }\nintelligence: { endpoints: [{ url: 'https://x', auth: { basic: {} }, tls: { ca: /x } }] }",
    );
    insta::assert_snapshot!(setup.lines().join("\n"));
}

#[test]
fn an_unknown_variable_or_flag_is_refused_by_its_name() {
    let setup = setup()
        .variables(&[
            ("AGENTD_LIMIT_RUN_STEPS", "3"),
            ("AGENTD_LIMITS_RUN_STEPS", "many"),
            ("AGENTD_A2A_DEV", "yes"),
        ])
        .flags(&[
            ("limits.run.stepz", "4"),
            ("observability.log_level", "loud"),
            ("deadline", "soon"),
        ]);
    insta::assert_snapshot!(setup.lines().join("\n"));
}

#[test]
fn names_that_are_not_keys_but_ours_or_the_kubelets_pass() {
    let setup = setup().variables(&[
        ("AGENTD_POD_NAME", "p"),
        ("AGENTD_POD_UID", "u"),
        ("AGENTD_POD_NAMESPACE", "n"),
        ("AGENTD_POD_IP", "10.0.0.1"),
        ("AGENTD_STATE_DIR", "/x"),
        ("AGENTD_PORT", "tcp://10.0.0.1:8443"),
        ("AGENTD_ISSUER_SERVICE_HOST", "10.0.0.1"),
        ("AGENTD_ISSUER_SERVICE_PORT_HTTPS", "8443"),
        ("AGENTD_ISSUER_PORT_8443_TCP_ADDR", "10.0.0.1"),
        ("AGENTDX", "not ours"),
    ]);
    setup.load().unwrap();
    let report = self::setup().variables(&[("AGENTD_REPORT", "x")]);
    assert_eq!(report.load().unwrap_err().0.len(), 1);
}

#[test]
fn files_are_named_by_flag_or_by_variable() {
    let mut setup = setup()
        .file("a.yaml", "agent: { name: a }")
        .file("b.yml", "agent: { name: b }");
    let listed = setup
        .layers
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(":");
    setup.layers.files.clear();
    setup.layers.variables = pairs(&[("AGENTD_CONFIG", &listed)]);
    assert_eq!(setup.load().unwrap().document.agent.name.as_deref(), Some("b"));
    setup.layers.files = vec![PathBuf::from(setup.path("a.yaml"))];
    assert_eq!(setup.load().unwrap().document.agent.name.as_deref(), Some("a"));
}

#[test]
fn files_that_cannot_be_read_are_each_named() {
    let mut setup = setup()
        .file("a.toml", "a = 1")
        .file("b.json", r#"{"agent": {"name": "a", "name": "b"}}"#)
        .file("c.json", "{} {}")
        .file("d.yaml", "[1]")
        .file("e.yaml", "a:\n  b: 1\n  b: 2")
        .file("f.json", &"[".repeat(500))
        .file("g.yaml", "# nothing but a comment\n")
        .file("h.yaml", "agent: {}\n---\nagent: {}")
        .file("i.yaml", "a: {b: [}")
        .file("j.yaml", "a: *nowhere")
        .file("k.yaml", "a: '")
        .file("l.yaml", &"[".repeat(5000))
        .file("m.yaml", "a:\n\t- b")
        .file("n.yaml", &format!("a: {}", "x".repeat(900 * 1024)));
    for (name, bytes) in [
        ("o.yaml", &b"\xffa: 1"[..]),
        ("p.json", b"\xef\xbb\xbf{\"agent\": }"),
    ] {
        setup = setup.file(name, "");
        std::fs::write(setup.path(name), bytes).unwrap();
    }
    setup.layers.files.push(setup.folder.path().join("none.yaml"));
    setup.layers.files.push("/dev/zero".into());
    setup.layers.files.push("/dev".into());
    let text = setup.lines().join("\n");
    for word in ["Policy", "Options", "from_str"] {
        assert!(!text.contains(word), "{text}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    let setup = setup()
        .file("a.json", "\u{feff}{\"agent\": {\"name\": \"a\"}}")
        .file("b.yaml", "\u{feff}limits: { run: { steps: 3 } }");
    let document = setup.load().unwrap().document;
    assert_eq!(
        (document.agent.name.as_deref(), document.limits.run.steps),
        (Some("a"), Some(3))
    );
}

#[test]
fn a_pipe_is_read_once_and_a_reload_reads_it_again() {
    for (text, name) in [
        ("agent: { name: yaml }", "yaml"),
        ("{\"agent\": {\"name\": \"json\"}}", "json"),
    ] {
        let mut setup = setup();
        let fifo = setup.folder.path().join("63");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let to = fifo.clone();
        let writer = std::thread::spawn(move || std::fs::write(to, text).unwrap());
        setup.layers.files = vec![fifo];
        setup.layers = setup.layers.hold();
        writer.join().unwrap();
        for _ in 0..2 {
            assert_eq!(setup.load().unwrap().document.agent.name.as_deref(), Some(name));
            setup.layers = setup.layers.hold();
        }
    }
}

#[test]
fn a_value_is_never_shown_where_it_could_be_a_credential() {
    let setup = setup()
        .file("a.yaml", "mcp: { servers: [{ name: a, endpoint: 'https://x', headers: { Authorization: hunter2, X-A: [hunter2] } }] }")
        .file("b.yaml", "intelligence: { endpoints: [{ url: 'https://x', auth: { static: { bearer: hunter2 } } }] }");
    let text = setup.lines().join("\n");
    assert!(!text.contains("hunter2"), "{text}");
}

fn live_setup(base: &str, live: &str) -> Setup {
    let setup = setup();
    let folder = setup.folder.path().join("live");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("agentd.json"), live).unwrap();
    std::fs::write(folder.join("bundle.pem"), "PEM").unwrap();
    let base = format!("lifecycle: {{ live_folder: '{}' }}\n{base}", folder.display());
    let mut setup = setup.file("agentd.yaml", &base);
    setup.layers.flags.clear();
    setup
}

#[test]
fn the_live_folder_is_laid_over_everything_and_read_again() {
    let setup = live_setup(
        "agent: { name: a, instruction: old }\nintelligence: { endpoints: [https://x], model: m }",
        r#"{"agent": {"instruction": "new"}, "limits": {"run": {"steps": 9}}}"#,
    );
    let loaded = setup.load().unwrap();
    assert_eq!(loaded.document.agent.instruction.as_deref(), Some("new"));
    assert_eq!(loaded.document.limits.run.steps, Some(9));
    let before = loaded.live.unwrap();
    assert_eq!(before.digest, agentd_base::digest::of_files(&before.files));

    let folder = setup.folder.path().join("live");
    std::fs::write(folder.join("agentd.json"), r#"{"agent": {"instruction": ""}}"#).unwrap();
    let next = live::read(&folder).unwrap();
    let refused = load::reload(&setup.layers, Some(next)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "agent.instruction: is empty; write it, or take the key out"
    );
    assert!(load::reload(&setup.layers, Some(before)).is_ok());
}

#[test]
fn the_live_folder_may_hold_only_what_needs_no_new_process() {
    let setup = live_setup(
        "agent: { prompt: x }\nintelligence: { endpoints: [https://x], model: m }",
        r#"{"agent": {"name": "b"}, "security": {"tls_ca": "/x"}, "mcp": {"servers": []}}"#,
    );
    let lines = setup.lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].starts_with("agent.name: may not stand in the live folder"));
    assert!(lines[1].starts_with("security.tls_ca: may not stand in the live folder"));
}

#[test]
fn a_live_folder_that_is_not_there_is_a_fault() {
    let setup = setup().flags(&[("lifecycle.live_folder", "/nowhere/at/all")]);
    assert!(setup.lines()[0].starts_with("lifecycle.live_folder: /nowhere/at/all cannot be read"));
}

const BRIDGE: &str = r#"{
  "name": "fs", "listen": "0.0.0.0:8443", "upstream_port": 8080, "upstream_path": "/mcp", "timeout": "5s",
  "identity": {"trust_domain": "td", "spiffe_id": "spiffe://td/ns/a/sa/fs-mcp", "issuer_url": "https://i.ns.svc:8443",
    "issuer_id": "spiffe://td/ns/a/sa/i", "token_file": "/t", "bundle_file": "/b"},
  "report": {"url": "https://r.ns.svc:8444", "server_id": "spiffe://td/ns/a/sa/c"}
"#;

fn bridge(folder: &Path, rest: &str) -> Vec<PathBuf> {
    let path = folder.join("bridge.json");
    std::fs::write(&path, format!("{BRIDGE}{rest}}}")).unwrap();
    vec![path]
}

#[test]
fn a_bridge_takes_its_allowed_ids_from_its_live_folder() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    std::fs::create_dir(&live).unwrap();
    std::fs::write(
        live.join("bridge.json"),
        r#"{"allowed": ["spiffe://td/ns/a/sa/x"]}"#,
    )
    .unwrap();
    let files = bridge(
        folder.path(),
        &format!(r#", "lifecycle": {{"live_folder": "{}"}}"#, live.display()),
    );
    let loaded = load::load_bridge(&files).unwrap();
    assert_eq!(loaded.document.allowed, ["spiffe://td/ns/a/sa/x"]);
    assert_eq!(loaded.document.timeout, Some(Duration::secs(5)));

    std::fs::write(
        live.join("bridge.json"),
        r#"{"allowed": ["spiffe://other/ns/a/sa/x", "*"]}"#,
    )
    .unwrap();
    let refused = load::reload_bridge(&files, Some(live::read(&live).unwrap())).unwrap_err();
    assert_eq!(refused.0.len(), 2);
    std::fs::write(live.join("bridge.json"), r#"{"upstream_port": 1}"#).unwrap();
    let refused = load::reload_bridge(&files, Some(live::read(&live).unwrap())).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("upstream_port: may not stand in the live folder")
    );
}

#[test]
fn a_bridge_document_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let files = bridge(folder.path(), "");
    load::load_bridge(&files).unwrap();
    for (from, to, key) in [
        ("\"fs\"", "\"\"", "name"),
        (": 8080", ": 8443", "upstream_port"),
        (": 8080", ": 80800", "upstream_port"),
        ("/mcp\"", "mcp?x\"", "upstream_path"),
        ("\"5s\"", "\"0s\"", "timeout"),
        ("https://i", "http://i", "identity.issuer_url"),
        ("\"td\"", "\"TD\"", "identity.trust_domain"),
        ("0.0.0.0:8443", "everywhere", "configuration"),
    ] {
        let text = std::fs::read_to_string(bridge(folder.path(), "")[0].as_path()).unwrap();
        std::fs::write(&files[0], text.replacen(from, to, 1)).unwrap();
        let faults = load::load_bridge(&files).unwrap_err();
        assert!(
            faults.0.iter().any(|fault| fault.key == key),
            "{from} -> {to}: {faults}"
        );
    }
}

#[test]
fn the_tools_by_which_state_is_kept_are_not_the_agents() {
    let loaded = setup()
        .file(
            "a.yaml",
            "mcp: {servers: [\
               {name: ledger, endpoint: 'https://l.example/mcp', tags: {'*': [sensitive]}, exclude: [secret*]},\
               {name: other, endpoint: 'https://o.example/mcp', tags: {'*': [sensitive]}}]}\n\
             store: {kind: mcp, mcp: {server: ledger, put: {tool: 'write[1]'}}}\n",
        )
        .load()
        .unwrap();
    let [ledger, other] = &loaded.document.mcp.servers[..] else {
        panic!("{loaded:?}")
    };
    let names = [
        "write[1]",
        "state.put",
        "state.get",
        "state.list",
        "state.delete",
        "secret1",
        "sum",
    ];
    let admitted = |server| {
        let filter = ToolFilter::of(server).unwrap();
        names
            .into_iter()
            .filter(|name| filter.admits(name))
            .collect::<Vec<_>>()
    };
    assert_eq!(admitted(ledger), ["state.put", "sum"]);
    assert_eq!(admitted(other), names);
}
