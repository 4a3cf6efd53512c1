//! Configuration of any bytes, from every layer: a document or faults in words, and never a panic.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use agentd_config::load::{Layers, load, load_bridge, merged};
use agentd_config::secret::Template;
use proptest::collection::vec;
use proptest::prelude::*;

const DOCUMENT: &str = r#"# A document.
intelligence: { endpoints: ["https://gw.example/v1"], model: m, budget: { windows: [{ per: hour, tokens: 10 }] } }
agent:
  instruction: |
    Be brief. "${HOME:-nowhere}" {{config.NAME}}
  prompt: hi
mcp:
  default_timeout: 60s
  servers:
    - name: fs
      endpoint: http://127.0.0.1:1/mcp
      headers: { X-Token: "{{secret:TOKEN}}" }
      tools: { allow: ["read_*"], exclude: ["*.delete"] }
limits: { run: { steps: 5, deadline: 1m }, subagents: { rate: 8/2s } }
observability: { log_level: debug }
store: { path: /tmp/x, retention: {} }
"#;

fn words(errors: &agentd_config::ConfigErrors) {
    assert!(!errors.0.is_empty());
    for error in &errors.0 {
        agentd_noise::words(&error.to_string());
    }
}

proptest! {
    #[test]
    fn files(bytes in prop_oneof![3 => agentd_noise::changed(vec![DOCUMENT.as_bytes().to_vec()]), 1 => vec(any::<u8>(), 0..200)], name in prop::sample::select(vec!["a.yaml", "a.json"])) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let layers = Layers { files: vec![file.clone()], ..Layers::default() };
        if let Err(errors) = load(&layers) {
            words(&errors);
        }
        if let Err(errors) = load_bridge(&[file]) {
            words(&errors);
        }
    }

    #[test]
    fn variables_flags_and_servers(
        name in "AGENTD_[A-Z_]{0,24}|AGENTD_(MCP_SERVERS|LIMITS_RUN_STEPS|CONFIG|INTELLIGENCE_BUDGET|TOOLS_OVERRIDES)",
        path in ".{0,8}|[a-z._-]{0,24}|mcp.servers|intelligence.budget.windows|limits.run.deadline|mcp.servers.0.name",
        value in ".{0,30}|\\PC{0,30}|[\\[\\]{}\":,a-z0-9 .*&!]{0,40}",
        server in ".{0,20}|\\PC{0,20}|[a-z]{0,4}=\\PC{0,20}",
    ) {
        for layers in [
            Layers { variables: vec![(name, value.clone())], ..Layers::default() },
            Layers { flags: vec![(path, value.clone())], ..Layers::default() },
            Layers { servers: vec![server], ..Layers::default() },
        ] {
            if let Err(errors) = merged(&layers) {
                words(&errors);
            }
        }
    }

    #[test]
    fn references_to_secrets(text in ".{0,40}|\\PC{0,40}|[{}a-zA-Z:/._ -]{0,40}|(\\{\\{secret(-file)?:[A-Za-z/._]{0,8}\\}{0,3}){0,3}") {
        if let Err(error) = Template::parse(&text) {
            agentd_noise::words(&error.to_string());
        }
    }
}
