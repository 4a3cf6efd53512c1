//! The CRDs on a real API server: accepted without a warning, also by plain client-side apply, and the rules say no with
//! a message that names field and remedy.
//!
//! `KUBECONFIG=… PATH=…kubectl… cargo test -p agentd-crds --test api_server -- --ignored`; an API server without nodes
//! is enough (`tests/cluster/cluster.sh up --nodes 0`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test, helpers included"
)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What every case is written over.
const AGENT: &str = r"
apiVersion: agentd.io/v1alpha1
kind: Agent
metadata: { name: NAME, namespace: crd-rules }
spec: { instruction: Sort., intelligence: { model: m, endpoints: [{ name: gw, url: https://gw.example/v1 }] } }
";
const SERVER: &str = r"
apiVersion: agentd.io/v1alpha1
kind: McpServer
metadata: { name: NAME, namespace: crd-rules }
spec: { }
";

struct Output {
    ok: bool,
    text: String,
}

fn kubectl(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new("kubectl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl is on the PATH");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    Output {
        ok: output.status.success(),
        text,
    }
}

/// The object of a case: `base` with the fields of `change` laid over its spec, as JSON.
fn object(base: &str, name: &str, change: &str) -> String {
    let mut object: serde_json::Value = serde_saphyr::from_str(base).unwrap();
    object["metadata"]["name"] = name.into();
    let change: serde_json::Value = serde_saphyr::from_str(change).unwrap();
    for (key, value) in change.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object["spec"]
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    object.to_string()
}

fn install() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    for _ in 0..2 {
        let applied = kubectl(&["apply", "-f", folder.to_str().unwrap()], "");
        assert!(applied.ok, "{}", applied.text);
        assert!(
            !applied.text.to_lowercase().contains("warning"),
            "{}",
            applied.text
        );
    }
    let wait = kubectl(
        &[
            "wait",
            "--for=condition=Established",
            "crd/agents.agentd.io",
            "crd/mcpservers.agentd.io",
        ],
        "",
    );
    assert!(wait.ok, "{}", wait.text);
    for crd in ["agents.agentd.io", "mcpservers.agentd.io"] {
        let conditions = kubectl(
            &["get", "crd", crd, "-o", "jsonpath={.status.conditions[*].type}"],
            "",
        );
        assert!(
            !conditions.text.contains("NonStructuralSchema"),
            "{}",
            conditions.text
        );
    }
    let namespace = kubectl(&["create", "namespace", "crd-rules"], "");
    assert!(
        namespace.ok || namespace.text.contains("AlreadyExists"),
        "{}",
        namespace.text
    );
}

#[test]
#[ignore = "needs a Kubernetes API server"]
fn rules_hold_on_a_real_api_server() {
    install();
    created_and_refused();
    changed();
    defaulted();
}

/// Refused at creation with this text in the message, or accepted where it is empty.
fn created_and_refused() {
    let agents = [
        ("a", "{}", ""),
        ("Triage", "{}", "a lowercase RFC 1123 subdomain"),
        ("1st", "{}", "at most 46 characters"),
        ("a-", "{}", "a lowercase RFC 1123 subdomain"),
        ("a.b", "{}", "at most 46 characters"),
        (&"a".repeat(46), "{}", ""),
        (&"a".repeat(47), "{}", "at most 46 characters"),
        (
            "a",
            "{ instruction: null }",
            "exactly one of instruction, instructionFrom",
        ),
        (
            "a",
            "{ instructionFrom: { configMapKeyRef: { name: x, key: k } } }",
            "exactly one of instruction, instructionFrom",
        ),
        (
            "a",
            "{ instruction: null, instructionFrom: { } }",
            "exactly one of configMapKeyRef, secretKeyRef",
        ),
        (
            "a",
            "{ instruction: null, instructionFrom: { secretKeyRef: { name: x, key: ../y } } }",
            "should match",
        ),
        (
            "a",
            "{ intelligence: { model: m } }",
            "exactly one of endpoints, ref",
        ),
        ("a", "{ intelligence: { model: m, ref: { name: x } } }", ""),
        ("a", "{ mcpServers: [{ name: x }] }", "exactly one of ref, url"),
        (
            "a",
            "{ mcpServers: [{ name: x, ref: { name: s }, url: 'https://z' }] }",
            "exactly one of ref, url",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, ref: { name: s }, callTimeout: 1s }] }",
            "these stand in the McpServer",
        ),
        ("a", "{ mcpServers: [{ name: '', url: 'ftp://z' }] }", ""),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z' }, { name: x, url: 'https://z' }] }",
            "Duplicate value",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', auth: { } }] }",
            "exactly one of static, oauth2",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', auth: { oauth2: { clientID: c, clientSecret: { valueFrom: { secretKeyRef: { name: s, key: k } } } } } }] }",
            "",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', auth: { static: { bearer: { valueFrom: { secretKeyRef: { name: s, key: k } } } }, oauth2: { clientID: c, clientSecret: { valueFrom: { secretKeyRef: { name: s, key: k } } } } } }] }",
            "exactly one of static, oauth2",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', auth: { oauth2: { clientID: '', clientSecret: { valueFrom: { secretKeyRef: { name: s, key: k } } } } } }] }",
            "clientID: Invalid value",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', auth: { oauth2: { clientID: c } } }] }",
            "clientSecret: Required value",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', auth: { oauth2: { clientID: c, clientSecret: plain } } }] }",
            "clientSecret: Invalid value",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', auth: { oauth2: { clientID: c, clientSecret: { valueFrom: { secretKeyRef: { name: s, key: k } } }, scopes: [a, a] } } }] }",
            "Duplicate value",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', tags: [secret] }] }",
            "Unsupported value",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', toolTags: [{ name: a, tags: [egress] }, { name: a, tags: [] }] }] }",
            "Duplicate value",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', namespacePrefix: '' }] }",
            "namespacePrefix: Invalid value",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', headers: [{ name: A }] }] }",
            "exactly one of value, valueFrom",
        ),
        (
            "a",
            "{ mcpServers: [{ name: x, url: 'https://z', timeout: 1 minute }] }",
            "should match",
        ),
        ("a", "{ run: { mode: Job } }", "needs a prompt"),
        ("a", "{ run: { mode: Job, prompt: do it } }", ""),
        (
            "a",
            "{ run: { mode: Job, prompt: do it }, a2a: { } }",
            "does not listen",
        ),
        (
            "a",
            "{ run: { mode: CronJob, prompt: do it } }",
            "needs a schedule",
        ),
        (
            "a",
            "{ run: { mode: CronJob, prompt: do it, schedule: '* * * * *' } }",
            "",
        ),
        ("a", "{ run: { prompt: do it } }", "prompt is for Job and CronJob"),
        ("a", "{ run: { rerun: x } }", "are for mode Job"),
        (
            "a",
            "{ a2a: { principals: [{ name: x, role: user }] } }",
            "exactly one of agentRef",
        ),
        (
            "a",
            "{ a2a: { principals: [{ name: x, spiffeID: 'spiffe://a/b' }] } }",
            "role",
        ),
        (
            "a",
            "{ a2a: { principals: [{ name: x, role: agent, agentRef: { name: x }, spiffeID: 'spiffe://a/b' }] } }",
            "exactly one of agentRef",
        ),
        (
            "a",
            "{ a2a: { peers: [{ name: x, agentRef: { name: x }, url: 'https://x' }] } }",
            "exactly one of agentRef, url",
        ),
        ("a", "{ store: { } }", "exactly one of file, memory, mcp, http"),
        (
            "a",
            "{ store: { memory: { }, file: { } } }",
            "exactly one of file, memory, mcp, http",
        ),
        (
            "a",
            "{ store: { file: { ephemeral: true, size: 1Gi } } }",
            "ephemeral needs no size",
        ),
        (
            "a",
            "{ store: { file: { claimName: x, retain: Delete } } }",
            "a claim of yours",
        ),
        ("a", "{ store: { file: { size: big } } }", "should match"),
        (
            "a",
            "{ store: { http: { url: 'https://x', auth: { static: { bearer: { valueFrom: { secretKeyRef: { name: s, key: k } } } } } } } }",
            "",
        ),
        (
            "a",
            "{ intelligence: { model: m, dialect: anthropic, endpoints: [{ name: gw, url: 'https://x' }], budget: { windows: [{ per: day, tokens: 5, reset: '06:30Z' }, { per: minute, requests: 3 }], lifetimeTokens: 9, onExhausted: refuse } } }",
            "",
        ),
        (
            "a",
            "{ intelligence: { model: m, dialect: cohere, endpoints: [{ name: gw, url: 'https://x' }] } }",
            "Unsupported value",
        ),
        (
            "a",
            "{ intelligence: { model: m, endpoints: [{ name: gw, url: 'https://x' }], budget: { windows: [{ per: day }] } } }",
            "at least one of tokens, requests",
        ),
        (
            "a",
            "{ intelligence: { model: m, endpoints: [{ name: gw, url: 'https://x' }], budget: { windows: [{ per: day, tokens: 1, reset: 6am }] } } }",
            "should match",
        ),
        (
            "a",
            "{ intelligence: { model: m, endpoints: [{ name: gw, url: 'https://x' }], budget: { lifetimeTokens: 1, onExhausted: degrade } } }",
            "needs degrade.model",
        ),
        (
            "a",
            "{ intelligence: { model: m, endpoints: [{ name: gw, url: 'https://x' }], budget: { lifetimeTokens: 1, degrade: { model: x } } } }",
            "needs degrade.model",
        ),
        (
            "a",
            "{ limits: { subagents: { depth: 0, breadth: 4, total: 9, rate: 8/2s } } }",
            "",
        ),
        (
            "a",
            "{ limits: { subagents: { depth: 17 } } }",
            "less than or equal to 16",
        ),
        ("a", "{ limits: { subagents: { rate: fast } } }", "should match"),
        ("a", "{ replicas: 2 }", "less than or equal to 1"),
        ("a", "{ limits: { steps: 0 } }", "greater than or equal to 1"),
        ("a", "{ suspended: true }", "unknown field"),
        (
            "a",
            "{ workflows: [{ any: [1] }], settings: { any: 1 }, podTemplate: { spec: { } } }",
            "",
        ),
        (
            "a",
            "{ a2a: { skills: [{ id: s, name: s, description: It sums up., tags: [text], role: agent }] } }",
            "",
        ),
        (
            "a",
            "{ a2a: { skills: [{ id: s, name: s }] } }",
            "spec.a2a.skills[0].description: Required",
        ),
        (
            "a",
            "{ networkPolicy: { extraEgress: [{ ports: [{ port: 5432 }] }] }, resources: { limits: { memory: 1Gi, cpu: 1 } } }",
            "",
        ),
    ];
    let servers = [
        ("a", "{ endpoint: 'https://x/mcp' }", ""),
        ("a", "{ }", "exactly one of endpoint, deployment"),
        (
            "a",
            "{ endpoint: 'https://x', deployment: { image: x } }",
            "exactly one of endpoint, deployment",
        ),
        ("a", "{ deployment: { image: x } }", ""),
        (
            "a",
            "{ deployment: { image: x }, auth: { static: { bearer: { valueFrom: { secretKeyRef: { name: x, key: k } } } } } }",
            "are for an endpoint",
        ),
        (
            "a",
            "{ deployment: { image: x }, auth: { oauth2: { clientID: c, clientSecret: { valueFrom: { secretKeyRef: { name: x, key: k } } } } } }",
            "are for an endpoint",
        ),
        (
            "a",
            "{ endpoint: 'https://x', auth: { oauth2: { clientID: c, clientSecret: { value: plain } } } }",
            "unknown field",
        ),
        (
            "a",
            "{ deployment: { image: x, port: 8443 } }",
            "are the bridge's",
        ),
        (
            "a",
            "{ deployment: { image: x, transport: stdio } }",
            "stdio needs a command",
        ),
        (
            "a",
            "{ deployment: { image: x, transport: stdio, command: [x], port: 1 } }",
            "for transport http",
        ),
        (
            "a",
            "{ deployment: { image: x, transport: stdio, command: [x] } }",
            "",
        ),
        (
            "a",
            "{ deployment: { image: x, runAsUser: 0 } }",
            "greater than or equal to 1",
        ),
        (
            "a",
            "{ deployment: { image: x, env: [{ name: A, value: b, valueFrom: { secretKeyRef: { name: x, key: k } } }] } }",
            "one of value, valueFrom",
        ),
        (
            "a",
            "{ endpoint: 'https://x', allowedAgents: { } }",
            "say at least one of",
        ),
        (
            "a",
            "{ endpoint: 'https://x', allowedAgents: { agents: [] } }",
            "",
        ),
        (
            "a",
            "{ endpoint: 'https://x', allowedAgents: { namespaces: { from: Selector } } }",
            "selector goes with",
        ),
        (
            "a",
            "{ endpoint: 'https://x', allowedAgents: { namespaces: { from: All } } }",
            "",
        ),
    ];
    let cases = agents
        .iter()
        .map(|case| (AGENT, case))
        .chain(servers.iter().map(|case| (SERVER, case)));
    let mut faults = Vec::new();
    for (base, (name, change, expected)) in cases {
        let got = kubectl(
            &["create", "--dry-run=server", "-f", "-"],
            &object(base, name, change),
        );
        if got.ok != expected.is_empty() || !got.text.contains(expected) {
            faults.push(format!(
                "{name} {change}\n  expected `{expected}`\n  got {}",
                got.text
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Allowed or refused as a change of what is there.
fn changed() {
    let cases = [
        (
            "{ }",
            "{ run: { mode: Job, prompt: x } }",
            "run.mode is immutable",
        ),
        (
            "{ }",
            "{ store: { memory: { } } }",
            "the store's kind, class and claim are immutable",
        ),
        (
            "{ }",
            "{ store: { file: { ephemeral: true } } }",
            "the store's kind, class and claim are immutable",
        ),
        (
            "{ }",
            "{ store: { file: { claimName: x } } }",
            "the store's kind, class and claim are immutable",
        ),
        (
            "{ }",
            "{ store: { file: { storageClassName: x } } }",
            "the store's kind, class and claim are immutable",
        ),
        ("{ }", "{ store: { file: { size: 512Mi } } }", "only grows"),
        ("{ }", "{ store: { file: { size: 1024Mi, retain: Retain } } }", ""),
        (
            "{ store: { file: { size: 2Gi } } }",
            "{ store: { file: { size: 3Gi } } }",
            "",
        ),
        (
            "{ store: { file: { size: 2Gi } } }",
            "{ store: null }",
            "only grows",
        ),
        (
            "{ store: { memory: { } } }",
            "{ store: null }",
            "the store's kind, class and claim are immutable",
        ),
        (
            "{ store: { file: { size: 1Gi } } }",
            "{ store: null, suspend: true, limits: { steps: 7 } }",
            "",
        ),
    ];
    for (index, (before, after, expected)) in cases.iter().enumerate() {
        let name = format!("change-{index}");
        let _ = kubectl(
            &[
                "delete",
                "agents.agentd.io",
                "-n",
                "crd-rules",
                "--ignore-not-found",
                &name,
            ],
            "",
        );
        let made = kubectl(&["create", "-f", "-"], &object(AGENT, &name, before));
        assert!(made.ok, "{}", made.text);
        let got = kubectl(
            &["replace", "--dry-run=server", "-f", "-"],
            &object(AGENT, &name, after),
        );
        assert!(
            got.ok == expected.is_empty() && got.text.contains(expected),
            "{before} -> {after}: {}",
            got.text
        );
    }
}

/// What is absent and what comes of it.
fn defaulted() {
    let get = |kind: &str, name: &str, path: &str| {
        kubectl(
            &[
                "get",
                "-n",
                "crd-rules",
                kind,
                name,
                "-o",
                &format!("jsonpath={path}"),
            ],
            "",
        )
        .text
    };
    let made = kubectl(&["apply", "-f", "-"], &object(AGENT, "plain", "{ }"));
    assert!(made.ok, "{}", made.text);
    let made = kubectl(
        &["apply", "-f", "-"],
        &object(SERVER, "plain", "{ endpoint: 'https://x/mcp' }"),
    );
    assert!(made.ok, "{}", made.text);
    assert_eq!(get("agd", "plain", "{.status.observedGeneration}"), "-1");
    assert_eq!(get("mcps", "plain", "{.status.observedGeneration}"), "-1");
    let spec: serde_json::Value = serde_json::from_str(&get("agd", "plain", "{.spec}")).unwrap();
    assert_eq!(
        spec,
        serde_json::json!({
            "instruction": "Sort.",
            "intelligence": {
                "model": "m", "dialect": "openai", "endpoints": [{ "name": "gw", "url": "https://gw.example/v1" }]
            },
            "limits": { "deadline": "1h", "steps": 500, "tokens": 2_000_000 },
            "networkPolicy": { "mode": "Managed" },
            "run": { "mode": "Service" },
            "suspend": false
        })
    );
    let spec: serde_json::Value = serde_json::from_str(&get("mcps", "plain", "{.spec}")).unwrap();
    assert_eq!(
        spec,
        serde_json::json!({
            "endpoint": "https://x/mcp", "timeout": "60s", "callTimeout": "60s", "connectTimeout": "10s",
            "networkPolicy": { "mode": "Managed" }
        })
    );
    let listed = kubectl(&["get", "agentd", "-n", "crd-rules"], "");
    assert!(
        listed.text.contains("agent.agentd.io/plain") && listed.text.contains("mcpserver.agentd.io/plain"),
        "{}",
        listed.text
    );
}
