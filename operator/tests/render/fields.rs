//! Every field of both specs either changes what comes out or is refused with its name: nothing is ignored.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::world::{World, install, messages, render_agent, render_server};
use crate::{agent, mcp_server};

/// One field.
struct Field {
    /// Its path in the schema.
    path: &'static str,
    /// The spec without it.
    without: &'static str,
    /// The spec with it.
    with: &'static str,
    /// Refused as `spec.<this>`; honoured where absent.
    refused: Option<&'static str>,
}

const fn honoured(path: &'static str, without: &'static str, with: &'static str) -> Field {
    Field {
        path,
        without,
        with,
        refused: None,
    }
}

const fn refused(path: &'static str, with: &'static str, name: &'static str) -> Field {
    Field {
        path,
        without: "{}",
        with,
        refused: Some(name),
    }
}

const BASE_ENDPOINT: &str = "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example' }] } }";
const BASE_SERVER: &str = "{ mcpServers: [{ name: s, url: 'https://s.example' }] }";

const AGENT: &[Field] = &[
    honoured("instruction", "{}", "{ instruction: Other. }"),
    honoured(
        "instructionFrom.configMapKeyRef",
        "{}",
        "{ instruction: null, instructionFrom: { configMapKeyRef: { name: corporate-roots, key: roots.pem } } }",
    ),
    honoured(
        "instructionFrom.secretKeyRef",
        "{}",
        "{ instruction: null, instructionFrom: { secretKeyRef: { name: a, key: b } } }",
    ),
    honoured("intelligence.model", "{}", "{ intelligence: { model: other } }"),
    refused(
        "intelligence.dialect",
        "{ intelligence: { dialect: anthropic } }",
        "intelligence.dialect",
    ),
    refused(
        "intelligence.ref",
        "{ intelligence: { endpoints: null, ref: { } } }",
        "intelligence.ref",
    ),
    refused(
        "intelligence.budget",
        "{ intelligence: { budget: { lifetimeTokens: 1 } } }",
        "intelligence.budget",
    ),
    honoured(
        "intelligence.endpoints.name",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: f, url: 'https://e.example' }] } }",
    ),
    honoured(
        "intelligence.endpoints.url",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'https://f.example' }] } }",
    ),
    honoured(
        "intelligence.endpoints.allowPlaintext",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'http://e.example', allowPlaintext: true }] } }",
    ),
    honoured(
        "intelligence.endpoints.headers",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', headers: [{ name: A, value: b }] }] } }",
    ),
    honoured(
        "intelligence.endpoints.auth.static",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', auth: { static: { bearer: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } }] } }",
    ),
    refused(
        "intelligence.endpoints.auth.oauth2",
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', auth: { oauth2: { } } }] } }",
        "intelligence.endpoints[e].auth.oauth2",
    ),
    refused(
        "intelligence.endpoints.auth.aws",
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', auth: { aws: { } } }] } }",
        "intelligence.endpoints[e].auth.aws",
    ),
    refused(
        "intelligence.endpoints.auth.aauth",
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', auth: { aauth: { } } }] } }",
        "intelligence.endpoints[e].auth.aauth",
    ),
    refused(
        "intelligence.endpoints.auth.spiffe",
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', auth: { spiffe: { } } }] } }",
        "intelligence.endpoints[e].auth.spiffe",
    ),
    honoured(
        "intelligence.endpoints.tls.caBundle",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', tls: { caBundle: { secretKeyRef: { name: a, key: b } } } }] } }",
    ),
    honoured(
        "intelligence.endpoints.tls.clientCertificate",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', tls: { clientCertificate: { secretName: a } } }] } }",
    ),
    honoured(
        "intelligence.endpoints.tls.serverName",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', tls: { serverName: x.example } }] } }",
    ),
    honoured(
        "intelligence.endpoints.timeout",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', timeout: 7s }] } }",
    ),
    honoured(
        "intelligence.endpoints.connectTimeout",
        BASE_ENDPOINT,
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', connectTimeout: 7s }] } }",
    ),
    honoured(
        "mcpServers.name",
        BASE_SERVER,
        "{ mcpServers: [{ name: t, url: 'https://s.example' }] }",
    ),
    honoured(
        "mcpServers.url",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://t.example' }] }",
    ),
    honoured(
        "mcpServers.ref.name",
        "{}",
        "{ mcpServers: [{ name: s, ref: { name: fs } }] }",
    ),
    refused(
        "mcpServers.ref.namespace",
        "{ mcpServers: [{ name: s, ref: { name: fs, namespace: other } }] }",
        "mcpServers[s].ref.namespace",
    ),
    honoured(
        "mcpServers.headers",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', headers: [{ name: A, valueFrom: { secretKeyRef: { name: a, key: b } } }] }] }",
    ),
    honoured(
        "mcpServers.auth.static",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { static: { bearer: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } }] }",
    ),
    refused(
        "mcpServers.auth.oauth2",
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { oauth2: { } } }] }",
        "mcpServers[s].auth.oauth2",
    ),
    refused(
        "mcpServers.auth.aws",
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { aws: { } } }] }",
        "mcpServers[s].auth.aws",
    ),
    refused(
        "mcpServers.auth.aauth",
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { aauth: { } } }] }",
        "mcpServers[s].auth.aauth",
    ),
    refused(
        "mcpServers.auth.spiffe",
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { spiffe: { } } }] }",
        "mcpServers[s].auth.spiffe",
    ),
    honoured(
        "mcpServers.tls.caBundle",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', tls: { caBundle: { configMapKeyRef: { name: corporate-roots, key: roots.pem } } } }] }",
    ),
    honoured(
        "mcpServers.tls.clientCertificate",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', tls: { clientCertificate: { secretName: a } } }] }",
    ),
    honoured(
        "mcpServers.tls.serverName",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', tls: { serverName: x.example } }] }",
    ),
    honoured(
        "mcpServers.timeout",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', timeout: 7s }] }",
    ),
    honoured(
        "mcpServers.connectTimeout",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', connectTimeout: 7s }] }",
    ),
    honoured(
        "mcpServers.callTimeout",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', callTimeout: 7s }] }",
    ),
    honoured(
        "mcpServers.namespacePrefix",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', namespacePrefix: x }] }",
    ),
    refused(
        "mcpServers.tags",
        "{ mcpServers: [{ name: s, url: 'https://s.example', tags: [egress] }] }",
        "mcpServers[s].tags",
    ),
    refused(
        "mcpServers.toolTags",
        "{ mcpServers: [{ name: s, url: 'https://s.example', toolTags: [{ name: x, tags: [egress] }] }] }",
        "mcpServers[s].toolTags",
    ),
    honoured(
        "mcpServers.required",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', required: false }] }",
    ),
    honoured(
        "mcpServers.tools.allow",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', tools: { allow: [] } }] }",
    ),
    honoured(
        "mcpServers.tools.deny",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', tools: { deny: [x] } }] }",
    ),
    refused(
        "mcpServers.tools.requireApproval",
        "{ mcpServers: [{ name: s, url: 'https://s.example', tools: { requireApproval: [x] } }] }",
        "mcpServers[s].tools.requireApproval",
    ),
    refused("workflows", "{ workflows: [{ name: x }] }", "workflows"),
    refused("run.mode", "{ run: { mode: Job } }", "run.mode"),
    refused("run.prompt", "{ run: { prompt: x } }", "run.prompt"),
    refused("run.rerun", "{ run: { rerun: x } }", "run.rerun"),
    refused(
        "run.backoffLimit",
        "{ run: { backoffLimit: 1 } }",
        "run.backoffLimit",
    ),
    refused(
        "run.ttlAfterFinished",
        "{ run: { ttlAfterFinished: 1s } }",
        "run.ttlAfterFinished",
    ),
    refused("run.schedule", "{ run: { schedule: x } }", "run.schedule"),
    refused("run.timeZone", "{ run: { timeZone: x } }", "run.timeZone"),
    refused(
        "run.concurrencyPolicy",
        "{ run: { concurrencyPolicy: Allow } }",
        "run.concurrencyPolicy",
    ),
    refused(
        "run.startingDeadline",
        "{ run: { startingDeadline: 1s } }",
        "run.startingDeadline",
    ),
    refused(
        "run.historyLimit",
        "{ run: { historyLimit: 1 } }",
        "run.historyLimit",
    ),
    refused("a2a.skills", "{ a2a: { skills: [{ id: x }] } }", "a2a.skills"),
    honoured(
        "a2a.principals.name",
        "{ a2a: { principals: [{ name: a, role: user, spiffeID: 'spiffe://td.example/x' }] } }",
        "{ a2a: { principals: [{ name: b, role: user, spiffeID: 'spiffe://td.example/x' }] } }",
    ),
    honoured(
        "a2a.principals.role",
        "{ a2a: { principals: [{ name: a, role: user, spiffeID: 'spiffe://td.example/x' }] } }",
        "{ a2a: { principals: [{ name: a, role: agent, spiffeID: 'spiffe://td.example/x' }] } }",
    ),
    honoured(
        "a2a.principals.spiffeID",
        "{}",
        "{ a2a: { principals: [{ name: a, role: user, spiffeID: 'spiffe://td.example/x' }] } }",
    ),
    honoured(
        "a2a.principals.agentRef.name",
        "{}",
        "{ a2a: { principals: [{ name: a, role: user, agentRef: { name: boss } }] } }",
    ),
    honoured(
        "a2a.principals.agentRef.namespace",
        "{}",
        "{ a2a: { principals: [{ name: a, role: user, agentRef: { name: one, namespace: team } }] } }",
    ),
    honoured(
        "a2a.principals.serviceAccountRef",
        "{}",
        "{ a2a: { principals: [{ name: a, role: user, serviceAccountRef: { name: robot } }] } }",
    ),
    honoured(
        "a2a.principals.namespace.name",
        "{}",
        "{ a2a: { principals: [{ name: a, role: user, namespace: { name: desk, kind: Callers } }] } }",
    ),
    honoured(
        "a2a.principals.namespace.kind",
        "{ a2a: { principals: [{ name: a, role: user, namespace: { name: support, kind: Callers } }] } }",
        "{ a2a: { principals: [{ name: a, role: user, namespace: { name: support, kind: Agents } }] } }",
    ),
    refused(
        "a2a.principals.oidc",
        "{ a2a: { principals: [{ name: a, role: user, oidc: { } }] } }",
        "a2a.principals[a].oidc",
    ),
    refused(
        "a2a.principals.bearer",
        "{ a2a: { principals: [{ name: a, role: user, bearer: { } }] } }",
        "a2a.principals[a].bearer",
    ),
    refused(
        "a2a.principals.grants",
        "{ a2a: { principals: [{ name: a, role: user, spiffeID: 'spiffe://td.example/x', grants: [x] }] } }",
        "a2a.principals[a].grants",
    ),
    refused(
        "a2a.peers",
        "{ a2a: { peers: [{ name: a, agentRef: { name: boss } }] } }",
        "a2a.peers",
    ),
    refused(
        "a2a.external",
        "{ a2a: { external: { url: 'https://x.example' } } }",
        "a2a.external",
    ),
    honoured(
        "store.file.size",
        "{ store: { file: { } } }",
        "{ store: { file: { size: 2Gi } } }",
    ),
    honoured(
        "store.file.storageClassName",
        "{ store: { file: { } } }",
        "{ store: { file: { storageClassName: x } } }",
    ),
    honoured(
        "store.file.retain",
        "{ store: { file: { } } }",
        "{ store: { file: { retain: Retain } } }",
    ),
    honoured(
        "store.file.ephemeral",
        "{ store: { file: { } } }",
        "{ store: { file: { ephemeral: true } } }",
    ),
    honoured("store.memory", "{}", "{ store: { memory: { } } }"),
    refused("store.mcp", "{ store: { mcp: { server: s } } }", "store.mcp"),
    refused(
        "store.http",
        "{ store: { http: { url: 'https://x.example' } } }",
        "store.http",
    ),
    honoured("limits.steps", "{}", "{ limits: { steps: 7 } }"),
    honoured("limits.tokens", "{}", "{ limits: { tokens: 7 } }"),
    honoured("limits.deadline", "{}", "{ limits: { deadline: 7s } }"),
    refused(
        "security.allowTrifecta",
        "{ security: { allowTrifecta: false } }",
        "security.allowTrifecta",
    ),
    refused("settings", "{ settings: { a: 1 } }", "settings"),
    honoured("replicas", "{}", "{ replicas: 1 }"),
    honoured("suspend", "{}", "{ suspend: true }"),
    honoured("image", "{}", "{ image: x.example/y }"),
    honoured("imagePullSecrets", "{}", "{ imagePullSecrets: [{ name: x }] }"),
    honoured(
        "resources.limits",
        "{ resources: { } }",
        "{ resources: { limits: { cpu: 1 } } }",
    ),
    honoured(
        "resources.requests",
        "{ resources: { } }",
        "{ resources: { requests: { cpu: 1 } } }",
    ),
    refused(
        "serviceAccount.name",
        "{ serviceAccount: { name: x } }",
        "serviceAccount.name",
    ),
    honoured(
        "serviceAccount.annotations",
        "{}",
        "{ serviceAccount: { annotations: { a: b } } }",
    ),
    honoured(
        "serviceAccount.labels",
        "{}",
        "{ serviceAccount: { labels: { a: b } } }",
    ),
    refused("podTemplate", "{ podTemplate: { spec: { } } }", "podTemplate"),
    honoured("networkPolicy.mode", "{}", "{ networkPolicy: { mode: None } }"),
    honoured(
        "networkPolicy.extraIngress",
        "{}",
        "{ networkPolicy: { extraIngress: [{ }] } }",
    ),
    honoured(
        "networkPolicy.extraEgress",
        "{}",
        "{ networkPolicy: { extraEgress: [{ }] } }",
    ),
    refused("updatePolicy", "{ updatePolicy: Always }", "updatePolicy"),
    // Shown by its own test: it needs a claim that is there.
    refused(
        "store.file.claimName",
        "{ store: { http: { url: 'https://x.example' } } }",
        "store.http",
    ),
];

const REMOTE: &str = "{ deployment: null, endpoint: 'https://x.example' }";

/// Of an McpServer, seen from the Agent that uses it where nothing is made of it.
const SERVER: &[Field] = &[
    honoured(
        "endpoint",
        REMOTE,
        "{ deployment: null, endpoint: 'https://y.example' }",
    ),
    honoured(
        "headers",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', headers: [{ name: A, value: b }] }",
    ),
    honoured(
        "auth.static",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', auth: { static: { bearer: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } }",
    ),
    refused(
        "auth.oauth2",
        "{ deployment: null, endpoint: 'https://x.example', auth: { oauth2: { } } }",
        "auth.oauth2",
    ),
    refused(
        "auth.aws",
        "{ deployment: null, endpoint: 'https://x.example', auth: { aws: { } } }",
        "auth.aws",
    ),
    refused(
        "auth.aauth",
        "{ deployment: null, endpoint: 'https://x.example', auth: { aauth: { } } }",
        "auth.aauth",
    ),
    refused(
        "auth.spiffe",
        "{ deployment: null, endpoint: 'https://x.example', auth: { spiffe: { } } }",
        "auth.spiffe",
    ),
    honoured(
        "tls.caBundle",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', tls: { caBundle: { secretKeyRef: { name: a, key: b } } } }",
    ),
    honoured(
        "tls.clientCertificate",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', tls: { clientCertificate: { secretName: a } } }",
    ),
    honoured(
        "tls.serverName",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', tls: { serverName: z.example } }",
    ),
    honoured(
        "timeout",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', timeout: 7s }",
    ),
    honoured(
        "connectTimeout",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', connectTimeout: 7s }",
    ),
    honoured(
        "callTimeout",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', callTimeout: 7s }",
    ),
    honoured(
        "namespacePrefix",
        REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', namespacePrefix: x }",
    ),
    honoured("deployment.image", "{}", "{ deployment: { image: x.example/y } }"),
    honoured("deployment.command", "{}", "{ deployment: { command: [x] } }"),
    honoured("deployment.args", "{}", "{ deployment: { args: [x] } }"),
    refused(
        "deployment.transport",
        "{ deployment: { transport: stdio, command: [x] } }",
        "deployment.transport",
    ),
    honoured("deployment.port", "{}", "{ deployment: { port: 7 } }"),
    honoured("deployment.path", "{}", "{ deployment: { path: /x } }"),
    honoured(
        "deployment.env",
        "{}",
        "{ deployment: { env: [{ name: A, value: b }] } }",
    ),
    honoured(
        "deployment.resources",
        "{}",
        "{ deployment: { resources: { limits: { cpu: 1 } } } }",
    ),
    honoured("deployment.replicas", "{}", "{ deployment: { replicas: 2 } }"),
    refused(
        "deployment.podTemplate",
        "{ deployment: { podTemplate: { spec: { } } } }",
        "deployment.podTemplate",
    ),
    honoured("deployment.runAsUser", "{}", "{ deployment: { runAsUser: 7 } }"),
    refused("tags", "{ tags: [egress] }", "tags"),
    refused(
        "toolTags",
        "{ toolTags: [{ name: x, tags: [egress] }] }",
        "toolTags",
    ),
    refused("tools.pin", "{ tools: { pin: false } }", "tools.pin"),
    refused(
        "allowedAgents.namespaces.from",
        "{ allowedAgents: { namespaces: { from: All } } }",
        "allowedAgents.namespaces.from",
    ),
    refused(
        "allowedAgents.namespaces.selector",
        "{ allowedAgents: { namespaces: { from: Selector, selector: { } } } }",
        "allowedAgents.namespaces.selector",
    ),
    honoured("allowedAgents.agents", "{}", "{ allowedAgents: { agents: [] } }"),
    honoured(
        "allowedAgents.spiffeIDs",
        "{}",
        "{ allowedAgents: { spiffeIDs: ['spiffe://td.example/x'] } }",
    ),
    honoured("networkPolicy.mode", "{}", "{ networkPolicy: { mode: None } }"),
    honoured(
        "networkPolicy.extraIngress",
        "{}",
        "{ networkPolicy: { extraIngress: [{ }] } }",
    ),
    honoured(
        "networkPolicy.extraEgress",
        "{}",
        "{ networkPolicy: { extraEgress: [{ }] } }",
    ),
];

/// What comes out: objects and what is told, or the problems.
type Outcome = Result<Value, Vec<String>>;

fn agent_outcome(spec: Value) -> Outcome {
    render_agent(&agent::agent(spec), &install()).map_err(|rejected| messages(&rejected.problems))
}

/// What an McpServer becomes, and what an Agent that uses it becomes.
fn server_outcome(spec: Value) -> Outcome {
    let world = mcp_server::server(spec);
    let made = render_server(&world, &install()).map_err(|rejected| messages(&rejected.problems))?;
    let seen = render_agent(
        &World {
            servers: world.servers.clone(),
            agents: world.agents.clone(),
            ..World::default()
        },
        &install(),
    );
    Ok(json!({ "made": made, "seen": seen.map_err(|rejected| messages(&rejected.problems)).unwrap() }))
}

fn check(table: &[Field], outcome: fn(Value) -> Outcome) {
    let read = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let mut faults = Vec::new();
    for field in table {
        let with = outcome(read(field.with));
        match (field.refused, with) {
            (Some(name), Err(problems)) => {
                let expected = format!("NotSupportedYet: spec.{name} is not supported yet; remove it");
                if !problems.contains(&expected) {
                    faults.push(format!("{}: {problems:?}", field.path));
                }
            }
            (Some(_), Ok(_)) => faults.push(format!("{}: is not refused", field.path)),
            (None, Err(problems)) => faults.push(format!("{}: refused: {problems:?}", field.path)),
            (None, Ok(with)) => {
                let without = outcome(read(field.without))
                    .unwrap_or_else(|problems| panic!("{}: {problems:?}", field.path));
                if with == without {
                    faults.push(format!("{}: changes nothing", field.path));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Leaves of a schema as paths. Types that are one value to us end a path.
fn leaves(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    let inner = schema.get("items").unwrap_or(schema);
    match inner.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            for (name, property) in properties {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                leaves(&path, property, found);
            }
        }
        None => {
            found.insert(path.to_owned());
        }
    }
}

fn covered(crd: &Value, table: &[Field]) {
    let mut all = BTreeSet::new();
    let spec = crd
        .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .unwrap();
    leaves("", spec, &mut all);
    let missing: Vec<&String> = all
        .iter()
        .filter(|leaf| {
            !table
                .iter()
                .any(|field| *leaf == field.path || leaf.starts_with(&format!("{}.", field.path)))
        })
        .collect();
    assert!(missing.is_empty(), "no case for {missing:#?}");
    let unknown: Vec<&str> = table
        .iter()
        .map(|field| field.path)
        .filter(|path| {
            !all.iter()
                .any(|leaf| leaf == path || leaf.starts_with(&format!("{path}.")))
        })
        .collect();
    assert!(unknown.is_empty(), "the schema has no {unknown:#?}");
}

#[test]
fn every_field_of_an_agent_is_honoured_or_refused() {
    covered(&agentd_crds::schema::agents(), AGENT);
    check(AGENT, agent_outcome);
}

#[test]
fn every_field_of_an_mcp_server_is_honoured_or_refused() {
    covered(&agentd_crds::schema::mcp_servers(), SERVER);
    check(SERVER, server_outcome);
}
