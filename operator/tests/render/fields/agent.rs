//! Every field of an Agent's spec.

use super::{Field, awaited, honoured, refused};

const BASE_ENDPOINT: &str = "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example' }] } }";
const BASE_SERVER: &str = "{ mcpServers: [{ name: s, url: 'https://s.example' }] }";

const OAUTH_SERVER: &str = "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } }] }";

pub(crate) const AGENT: &[Field] = &[
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
    awaited(
        "intelligence.dialect",
        "{}",
        "{ intelligence: { dialect: anthropic } }",
        "intelligence.dialect",
    ),
    refused(
        "intelligence.ref",
        "{ intelligence: { endpoints: null, ref: { } } }",
        "intelligence.ref",
    ),
    awaited(
        "intelligence.budget.lifetimeTokens",
        "{ intelligence: { budget: { lifetimeTokens: 2 } } }",
        "{ intelligence: { budget: { lifetimeTokens: 1 } } }",
        "intelligence.budget",
    ),
    awaited(
        "intelligence.budget.windows.per",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 1 }] } } }",
        "{ intelligence: { budget: { windows: [{ per: week, tokens: 1 }] } } }",
        "intelligence.budget",
    ),
    awaited(
        "intelligence.budget.windows.tokens",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 1 }] } } }",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 2 }] } } }",
        "intelligence.budget",
    ),
    awaited(
        "intelligence.budget.windows.requests",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 1 }] } } }",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 1, requests: 1 }] } } }",
        "intelligence.budget",
    ),
    awaited(
        "intelligence.budget.windows.reset",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 1 }] } } }",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 1, reset: '06:00Z' }] } } }",
        "intelligence.budget",
    ),
    awaited(
        "intelligence.budget.onExhausted",
        "{ intelligence: { budget: { lifetimeTokens: 1 } } }",
        "{ intelligence: { budget: { lifetimeTokens: 1, onExhausted: refuse } } }",
        "intelligence.budget",
    ),
    awaited(
        "intelligence.budget.degrade",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 1 }], onExhausted: degrade, degrade: { model: one } } } }",
        "{ intelligence: { budget: { windows: [{ per: day, tokens: 1 }], onExhausted: degrade, degrade: { model: other } } } }",
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
        "{ intelligence: { endpoints: [{ name: e, url: 'https://e.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } }] } }",
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
    honoured(
        "mcpServers.auth.oauth2.clientID",
        OAUTH_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { oauth2: { clientID: you, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } }] }",
    ),
    honoured(
        "mcpServers.auth.oauth2.clientSecret",
        OAUTH_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: c } } } } } }] }",
    ),
    honoured(
        "mcpServers.auth.oauth2.scopes",
        OAUTH_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } }, scopes: [read] } } }] }",
    ),
    honoured(
        "mcpServers.auth.oauth2.tokenEndpoint",
        OAUTH_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } }, tokenEndpoint: 'https://a.example/token' } } }] }",
    ),
    honoured(
        "mcpServers.auth.oauth2.issuer",
        OAUTH_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } }, issuer: 'https://a.example' } } }] }",
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
    honoured(
        "mcpServers.tags",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', tags: [egress] }] }",
    ),
    honoured(
        "mcpServers.toolTags",
        BASE_SERVER,
        "{ mcpServers: [{ name: s, url: 'https://s.example', toolTags: [{ name: x, tags: [egress] }] }] }",
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
    honoured(
        "a2a.skills.id",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it. }] } }",
        "{ a2a: { skills: [{ id: b, name: A, description: Does it. }] } }",
    ),
    honoured(
        "a2a.skills.name",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it. }] } }",
        "{ a2a: { skills: [{ id: a, name: B, description: Does it. }] } }",
    ),
    honoured(
        "a2a.skills.description",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it. }] } }",
        "{ a2a: { skills: [{ id: a, name: A, description: Does more. }] } }",
    ),
    honoured(
        "a2a.skills.tags",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it. }] } }",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it., tags: [t] }] } }",
    ),
    honoured(
        "a2a.skills.examples",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it. }] } }",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it., examples: [do it] }] } }",
    ),
    honoured(
        "a2a.skills.role",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it. }] } }",
        "{ a2a: { skills: [{ id: a, name: A, description: Does it., role: user }] } }",
    ),
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
    honoured(
        "a2a.principals.bearer.valueFrom.secretKeyRef.name",
        "{ a2a: { principals: [{ name: a, role: user, bearer: { valueFrom: { secretKeyRef: { name: desk, key: token } } } }] } }",
        "{ a2a: { principals: [{ name: a, role: user, bearer: { valueFrom: { secretKeyRef: { name: ops, key: token } } } }] } }",
    ),
    honoured(
        "a2a.principals.bearer.valueFrom.secretKeyRef.key",
        "{ a2a: { principals: [{ name: a, role: user, bearer: { valueFrom: { secretKeyRef: { name: desk, key: token } } } }] } }",
        "{ a2a: { principals: [{ name: a, role: user, bearer: { valueFrom: { secretKeyRef: { name: desk, key: other } } } }] } }",
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
    honoured(
        "a2a.external.url",
        "{}",
        "{ a2a: { external: { url: 'https://x.example' } } }",
    ),
    honoured(
        "a2a.external.tls.secretName",
        "{ a2a: { external: { url: 'https://x.example' } } }",
        "{ a2a: { external: { url: 'https://x.example', tls: { secretName: outer } } } }",
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
    awaited(
        "store.mcp.server",
        "{ mcpServers: [{ name: s, url: 'https://s.example' }] }",
        "{ mcpServers: [{ name: s, url: 'https://s.example' }], store: { mcp: { server: s } } }",
        "store.mcp",
    ),
    awaited(
        "store.http.url",
        "{ store: { memory: { } } }",
        "{ store: { http: { url: 'https://x.example' } } }",
        "store.http",
    ),
    awaited(
        "store.http.headers",
        "{ store: { http: { url: 'https://x.example' } } }",
        "{ store: { http: { url: 'https://x.example', headers: [{ name: A, valueFrom: { secretKeyRef: { name: a, key: b } } }] } } }",
        "store.http",
    ),
    awaited(
        "store.http.auth.static",
        "{ store: { http: { url: 'https://x.example' } } }",
        "{ store: { http: { url: 'https://x.example', auth: { static: { bearer: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } } } }",
        "store.http",
    ),
    refused(
        "store.http.auth.oauth2",
        "{ store: { http: { url: 'https://x.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } } } }",
        "store.http.auth.oauth2",
    ),
    refused(
        "store.http.auth.aws",
        "{ store: { http: { url: 'https://x.example', auth: { aws: { } } } } }",
        "store.http.auth.aws",
    ),
    refused(
        "store.http.auth.aauth",
        "{ store: { http: { url: 'https://x.example', auth: { aauth: { } } } } }",
        "store.http.auth.aauth",
    ),
    refused(
        "store.http.auth.spiffe",
        "{ store: { http: { url: 'https://x.example', auth: { spiffe: { } } } } }",
        "store.http.auth.spiffe",
    ),
    awaited(
        "store.http.tls.caBundle",
        "{ store: { http: { url: 'https://x.example' } } }",
        "{ store: { http: { url: 'https://x.example', tls: { caBundle: { configMapKeyRef: { name: corporate-roots, key: roots.pem } } } } } }",
        "store.http",
    ),
    awaited(
        "store.http.tls.clientCertificate",
        "{ store: { http: { url: 'https://x.example' } } }",
        "{ store: { http: { url: 'https://x.example', tls: { clientCertificate: { secretName: a } } } } }",
        "store.http",
    ),
    awaited(
        "store.http.tls.serverName",
        "{ store: { http: { url: 'https://x.example' } } }",
        "{ store: { http: { url: 'https://x.example', tls: { serverName: y.example } } } }",
        "store.http",
    ),
    awaited(
        "store.http.timeout",
        "{ store: { http: { url: 'https://x.example' } } }",
        "{ store: { http: { url: 'https://x.example', timeout: 7s } } }",
        "store.timeout",
    ),
    refused(
        "store.http.connectTimeout",
        "{ store: { http: { url: 'https://x.example', connectTimeout: 7s } } }",
        "store.http.connectTimeout",
    ),
    honoured("limits.steps", "{}", "{ limits: { steps: 7 } }"),
    honoured("limits.tokens", "{}", "{ limits: { tokens: 7 } }"),
    honoured("limits.deadline", "{}", "{ limits: { deadline: 7s } }"),
    awaited(
        "limits.subagents.depth",
        "{ limits: { subagents: { depth: 2 } } }",
        "{ limits: { subagents: { depth: 1 } } }",
        "limits.subagents",
    ),
    awaited(
        "limits.subagents.breadth",
        "{ limits: { subagents: { depth: 2 } } }",
        "{ limits: { subagents: { breadth: 1 } } }",
        "limits.subagents",
    ),
    awaited(
        "limits.subagents.total",
        "{ limits: { subagents: { depth: 2 } } }",
        "{ limits: { subagents: { total: 1 } } }",
        "limits.subagents",
    ),
    awaited(
        "limits.subagents.rate",
        "{ limits: { subagents: { depth: 2 } } }",
        "{ limits: { subagents: { rate: 1/2s } } }",
        "limits.subagents",
    ),
    honoured(
        "security.allowTrifecta",
        "{}",
        "{ security: { allowTrifecta: true } }",
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
        "{ updatePolicy: Always, store: { file: { claimName: x } } }",
        "updatePolicy",
    ),
];
