//! Every field of an McpServer's spec.

use super::{Field, honoured, refused};

const REMOTE: &str = "{ deployment: null, endpoint: 'https://x.example' }";

/// Of an McpServer, seen from the Agent that uses it where nothing is made of it.
const OAUTH_REMOTE: &str = "{ deployment: null, endpoint: 'https://x.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } }";

pub(crate) const SERVER: &[Field] = &[
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
    honoured(
        "auth.oauth2.clientID",
        OAUTH_REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', auth: { oauth2: { clientID: you, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } } } } }",
    ),
    honoured(
        "auth.oauth2.clientSecret",
        OAUTH_REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: c } } } } } }",
    ),
    honoured(
        "auth.oauth2.scopes",
        OAUTH_REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } }, scopes: [read] } } }",
    ),
    honoured(
        "auth.oauth2.tokenEndpoint",
        OAUTH_REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } }, tokenEndpoint: 'https://a.example/token' } } }",
    ),
    honoured(
        "auth.oauth2.issuer",
        OAUTH_REMOTE,
        "{ deployment: null, endpoint: 'https://x.example', auth: { oauth2: { clientID: me, clientSecret: { valueFrom: { secretKeyRef: { name: a, key: b } } }, issuer: 'https://a.example' } } }",
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
    honoured("tags", "{}", "{ tags: [egress] }"),
    honoured("toolTags", "{}", "{ toolTags: [{ name: x, tags: [egress] }] }"),
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
