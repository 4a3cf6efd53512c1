//! A scripted MCP server that wants a token, and the authorization server that it names, each on a port of its own. What
//! they do is data; what they were sent is a log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What must be in no output: the client's secret, and how every token begins.
pub(crate) const SECRET: &str = "canary-secret-8f1e+/%";
pub(crate) const TOKEN: &str = "canary-token-";

/// How the authorization server answers a token request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    Given,
    /// 401 `invalid_client`, with the secret in its words, in every form in which it came.
    Refused,
    /// 503.
    Busy,
    /// A page.
    Page,
    /// 302 to elsewhere.
    Elsewhere,
}

#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) tokens: Tokens,
    /// `token_endpoint_auth_methods_supported`.
    pub(crate) methods: Option<Value>,
    /// The secret that is accepted.
    pub(crate) secret: String,
    /// A prefix for the token endpoint's URL in place of the authorization server's own.
    pub(crate) endpoint: Option<String>,
    /// What the metadata says of itself.
    pub(crate) issuer: Option<String>,
    /// Whether the MCP server says where tokens come from.
    pub(crate) names_issuer: bool,
    /// Whom it names.
    pub(crate) named: Option<String>,
    /// How many others it names before that one.
    pub(crate) crowd: usize,
    pub(crate) expires_in: Value,
    pub(crate) token_type: &'static str,
    /// Before metadata is given.
    pub(crate) slow: Duration,
    /// The MCP server speaks the stateless revision.
    pub(crate) modern: bool,
    /// What a `tools/call` needs beside a token.
    pub(crate) needs: Option<&'static str>,
    /// Rights that are never given.
    pub(crate) withheld: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            tokens: Tokens::Given,
            methods: None,
            secret: SECRET.into(),
            endpoint: None,
            issuer: None,
            names_issuer: true,
            named: None,
            crowd: 0,
            expires_in: 3600.into(),
            token_type: "Bearer",
            slow: Duration::ZERO,
            modern: false,
            needs: None,
            withheld: false,
        }
    }
}

/// One token request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) headers: Vec<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) form: BTreeMap<String, String>,
}

#[derive(Default)]
struct Seen {
    asked: Vec<Asked>,
    /// Valid tokens and their scopes.
    valid: BTreeMap<String, String>,
    /// JSON-RPC method and `Authorization` of each request to the MCP server.
    requests: Vec<(String, Option<String>)>,
    given: usize,
    /// Requests for metadata of authorization servers that do not exist.
    in_vain: usize,
}

pub(crate) struct Servers {
    pub(crate) mcp: u16,
    pub(crate) authorization: u16,
    script: Mutex<Script>,
    seen: Mutex<Seen>,
}

impl Servers {
    pub(crate) async fn start(script: Script) -> Arc<Self> {
        let mcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authorization = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let servers = Arc::new(Self {
            mcp: mcp.local_addr().unwrap().port(),
            authorization: authorization.local_addr().unwrap().port(),
            script: Mutex::new(script),
            seen: Mutex::default(),
        });
        let resource = Router::new()
            .route("/mcp", any(resource))
            .route("/.well-known/oauth-protected-resource/mcp", get(protected))
            .with_state(servers.clone());
        let issuer = Router::new()
            .route("/.well-known/oauth-authorization-server/as", get(metadata))
            .route("/as/token", post(token))
            .fallback(nobody)
            .with_state(servers.clone());
        tokio::spawn(async move { axum::serve(mcp, resource).await });
        tokio::spawn(async move { axum::serve(authorization, issuer).await });
        servers
    }

    pub(crate) fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}/as", self.authorization)
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// The MCP server names another authorization server from now on.
    pub(crate) fn moves_to(&self, other: &Self) {
        self.script().named = Some(other.issuer());
    }

    /// Every token that was given is worth nothing any more.
    pub(crate) fn revoke(&self) {
        self.seen.lock().unwrap().valid.clear();
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().asked.clone()
    }

    pub(crate) fn in_vain(&self) -> usize {
        self.seen.lock().unwrap().in_vain
    }

    pub(crate) fn requests(&self) -> Vec<(String, Option<String>)> {
        self.seen.lock().unwrap().requests.clone()
    }
}

async fn protected(State(servers): State<Arc<Servers>>) -> Response {
    let script = servers.script().clone();
    if !script.names_issuer {
        return StatusCode::NOT_FOUND.into_response();
    }
    let named = script.named.unwrap_or_else(|| servers.issuer());
    let crowd = (0..script.crowd).map(|n| format!("http://127.0.0.1:{}/nobody/{n}", servers.authorization));
    let named: Vec<_> = crowd.chain([named]).collect();
    axum::Json(json!({
        "resource": format!("http://127.0.0.1:{}/mcp", servers.mcp),
        "authorization_servers": named,
        "scopes_supported": ["mcp:read"],
    }))
    .into_response()
}

/// Without `authorization_endpoint`: nobody logs in here.
async fn metadata(State(servers): State<Arc<Servers>>) -> Response {
    let script = servers.script().clone();
    tokio::time::sleep(script.slow).await;
    let endpoint = script.endpoint.unwrap_or_else(|| servers.issuer());
    let mut metadata = json!({
        "issuer": script.issuer.unwrap_or_else(|| servers.issuer()),
        "token_endpoint": format!("{endpoint}/token"),
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
    });
    if let Some(methods) = script.methods {
        metadata["token_endpoint_auth_methods_supported"] = methods;
    }
    axum::Json(metadata).into_response()
}

async fn nobody(State(servers): State<Arc<Servers>>) -> StatusCode {
    servers.seen.lock().unwrap().in_vain += 1;
    StatusCode::NOT_FOUND
}

async fn token(State(servers): State<Arc<Servers>>, headers: HeaderMap, body: Bytes) -> Response {
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let asked = Asked {
        headers: headers.keys().map(|name| name.as_str().to_owned()).collect(),
        authorization: text("authorization"),
        form: form.clone(),
    };
    servers.seen.lock().unwrap().asked.push(asked.clone());
    let script = servers.script().clone();
    let refused = |words: String| {
        let error = json!({"error": "invalid_client", "error_description": words});
        (StatusCode::UNAUTHORIZED, axum::Json(error)).into_response()
    };
    match script.tokens {
        Tokens::Given => {}
        Tokens::Refused => {
            let header = asked.authorization.unwrap_or_default();
            let body = String::from_utf8_lossy(&body);
            return refused(format!("nobody has the secret {SECRET}; {header}; {body}"));
        }
        Tokens::Busy => return (StatusCode::SERVICE_UNAVAILABLE, "busy").into_response(),
        Tokens::Page => return "<html>sign in</html>".into_response(),
        Tokens::Elsewhere => {
            let to = [("location", "https://169.254.169.254/latest")];
            return (StatusCode::FOUND, to).into_response();
        }
    }
    let basic = asked
        .authorization
        .is_some_and(|given| given == basic("svc", &script.secret));
    if !basic && form.get("client_secret") != Some(&script.secret) {
        return refused("unknown".into());
    }
    let mut seen = servers.seen.lock().unwrap();
    seen.given += 1;
    let token = format!("{TOKEN}{}", seen.given);
    let scope = form.get("scope").cloned().unwrap_or_default();
    let scope = if script.withheld {
        "mcp:read".to_owned()
    } else {
        scope
    };
    seen.valid.insert(token.clone(), scope.clone());
    axum::Json(json!({"access_token": token, "token_type": script.token_type, "expires_in": script.expires_in, "scope": scope}))
        .into_response()
}

/// `client_secret_basic` of RFC 6749: both halves are form-encoded first.
pub(crate) fn basic(id: &str, secret: &str) -> String {
    let encode = |text: &str| {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => {
                    char::from(byte).to_string()
                }
                byte => format!("%{byte:02X}"),
            })
            .collect::<String>()
    };
    format!(
        "Basic {}",
        base64(format!("{}:{}", encode(id), encode(secret)).as_bytes())
    )
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let number = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

async fn resource(
    State(servers): State<Arc<Servers>>,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Response {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    assert!(uri.query().is_none(), "a token has no place in a URL");
    let authorization = text("authorization");
    let mut seen = servers.seen.lock().unwrap();
    seen.requests.push((method.clone(), authorization.clone()));
    let token = authorization.and_then(|value| value.strip_prefix("Bearer ").map(str::to_owned));
    let scope = token.as_ref().and_then(|token| seen.valid.get(token)).cloned();
    drop(seen);
    let script = servers.script().clone();
    let Some(scope) = scope else {
        let metadata = format!(
            "http://127.0.0.1:{}/.well-known/oauth-protected-resource/mcp",
            servers.mcp
        );
        let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
        let challenge = if script.names_issuer {
            challenge
        } else {
            "Bearer".into()
        };
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response();
    };
    if let Some(needs) = script.needs.filter(|_| method == "tools/call")
        && !scope.split(' ').any(|has| has == needs)
    {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{needs}\"");
        return (StatusCode::FORBIDDEN, [("www-authenticate", challenge)]).into_response();
    }
    let result = match method.as_str() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "9"},
        }),
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        // It repeats what it was told in confidence.
        "tools/call" => {
            json!({"content": [{"type": "text", "text": format!("you are {}", token.unwrap_or_default())}]})
        }
        "server/discover" if script.modern => json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "9"}},
            "ttlMs": 0,
            "cacheScope": "private",
        }),
        "server/discover" => return (StatusCode::BAD_REQUEST, "no").into_response(),
        "" => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}
