//! What servers and authorization servers say of tokens, whatever it is: challenges, metadata and tokens are taken or
//! refused in a few words, and nothing that is named gets past the guard of the endpoint that led there.

use std::sync::Arc;
use std::time::Duration;

use agentd_noise::{SECRET, changed_text, json, words};
use http::header::{LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use oauth2::TokenResponse as _;
use oauth2::basic::BasicTokenResponse;
use proptest::prelude::*;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json as object};
use tokio::time::Instant;
use url::Url;

use super::dialer::tests::dialer;
use super::dialer::{Dialer, completed};
use super::search::search;
use super::token::{Freshness, Granted, Kept, bearer_only, mended, missing_scopes, parameter};
use super::veil::{lifted_url, veiled, veiled_challenge};
use super::{bearer, challenge};

const CHALLENGES: &[&str] = &[
    r#"Bearer resource_metadata="https://10.0.0.1/.well-known/oauth-protected-resource/mcp", scope="a b""#,
    r#"Basic realm="x, scope=\"no\"", Bearer error="insufficient_scope", scope="a", error_description="s3cr3t""#,
    "Bearer resource_metadata=/m, scope=a",
];

const ADDRESSES: &[&str] = &[
    "https://10.0.0.5:8443/as/",
    "https://10.0.0.5@10.0.0.5/10.0.0.5?10.0.0.5#10.0.0.5",
    "https://[fd00::1]/x",
    "https://[::ffff:1.2.3.4]:1/",
    "HTTPS://0x0a.5",
    "https://169.254.169.254/",
    "https://v4-10-0-0-5.address.invalid/v6-fd00-0-0-0-0-0-0-1.address.invalid",
    "https://as.example/t?x=https://10.0.0.1",
    "http://127.0.0.1:1/",
];

fn resource() -> Value {
    object!({"resource": "https://10.0.0.1/mcp", "authorization_servers": ["https://10.0.0.2"],
        "scopes_supported": ["a", "b"], "bearer_methods_supported": ["header"]})
}

fn authorization_server() -> Value {
    object!({"issuer": "https://10.0.0.2", "authorization_endpoint": "https://10.0.0.2/login",
        "token_endpoint": "https://10.0.0.2/token", "registration_endpoint": "https://10.0.0.2/register",
        "scopes_supported": ["a", "offline_access"], "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["client_secret_post"]})
}

fn tokens() -> Vec<Value> {
    vec![
        object!({"access_token": SECRET, "token_type": "Bearer", "expires_in": 3600, "scope": "a b", "refresh_token": "r"}),
        object!({"access_token": SECRET, "token_type": "DPoP", "expires_in": "3600.5", "scope": ["a", 7]}),
        object!({"access_token": SECRET, "expires_in": -1, "scope": null}),
    ]
}

/// Answers whatever passes the guard.
struct Scripted {
    dialer: Dialer,
    resource: Vec<u8>,
    server: Vec<u8>,
    moved: Option<HeaderValue>,
}

impl OAuthHttpClient for Scripted {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let url = request.request.uri().to_string();
            self.dialer.client(&url)?;
            let own = url.starts_with("https://10.0.0.1/");
            let body = if own { &self.resource } else { &self.server };
            let mut response = Response::new(completed(body).unwrap_or_else(|| body.clone()));
            if let Some(to) = self.moved.clone().filter(|_| !own) {
                *response.status_mut() = StatusCode::FOUND;
                response.headers_mut().insert(LOCATION, to);
            }
            Ok(response)
        })
    }
}

proptest! {
    #![proptest_config(agentd_noise::cases(128))]

    /// The SDK is told a name, and who dials the address that was named, wherever else it reads alike.
    #[test]
    fn addresses_are_named_and_found_again(text in changed_text(ADDRESSES)) {
        let named = veiled(&text);
        let before = Url::parse(&text);
        if named == text {
            return Ok(());
        }
        let (before, veil) = (before.unwrap(), Url::parse(&named).unwrap());
        prop_assert!(veil.host_str().unwrap().ends_with(".address.invalid"), "{}", named);
        let back = lifted_url(&named).unwrap();
        prop_assert_eq!(Url::parse(&back).unwrap(), before, "{}", back);
    }

    #[test]
    fn challenges_say_one_thing(text in changed_text(CHALLENGES)) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.append(WWW_AUTHENTICATE, value);
        }
        let Some(read) = challenge(&headers) else { return Ok(()) };
        prop_assert!(read.len() <= 8 * 1024);
        if let Some(scopes) = missing_scopes(&read) {
            prop_assert!((1..=64).contains(&scopes.len()));
        }
        let veil = veiled_challenge(&read);
        prop_assert_eq!(parameter(&veil, "scope"), parameter(&read, "scope"));
        prop_assert_eq!(parameter(&veil, "error"), parameter(&read, "error"));
        prop_assert_eq!(
            parameter(&veil, "resource_metadata"),
            parameter(&read, "resource_metadata").map(|url| veiled(&url))
        );
    }

    #[test]
    fn metadata_leads_where_the_guard_lets_it(
        said in changed_text(CHALLENGES),
        resource in json(vec![resource()]),
        server in json(vec![authorization_server()]),
        moved in prop::option::weighted(0.2, changed_text(ADDRESSES)),
    ) {
        let moved = moved.and_then(|to| HeaderValue::from_bytes(to.as_bytes()).ok());
        let client = Arc::new(Scripted { dialer: dialer("https://10.0.0.1/mcp", None), resource, server, moved });
        let endpoint = client.dialer.endpoint().clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        match runtime.block_on(search(client.clone(), &endpoint, Some(&said), "names nobody")) {
            Ok(found) => {
                let issuer = found.metadata.issuer.unwrap_or_default();
                let host = Url::parse(&issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
                prop_assert!(!host.is_some_and(|host| host.ends_with(".address.invalid")), "{}", issuer);
                if let Err(error) = client.dialer.client(&found.metadata.token_endpoint) {
                    words(&error.to_string());
                }
            }
            Err(error) => words(&error.to_string()),
        }
    }

    #[test]
    fn tokens_are_read_as_they_were_meant(body in json(tokens())) {
        let better = mended(&body);
        if let Some(better) = &better {
            prop_assert_eq!(mended(better), None, "what was mended is right");
        }
        // Of what is neither, `client::refused` tells nothing that came.
        if let Ok(token) = serde_json::from_slice::<BasicTokenResponse>(&better.unwrap_or(body)) {
            if let Err(kind) = bearer_only(token.token_type()) {
                words(&kind);
            }
            let now = Instant::now();
            let lives = token.expires_in();
            prop_assert!(lives != Some(Duration::ZERO));
            let granted = Granted { token: token.access_token().secret().as_str().into(), lives, scopes: Default::default() };
            let kept = Kept::new(granted, 1, now);
            prop_assert_eq!(kept.freshness(now), Freshness::Fresh);
            if let Err(error) = bearer(&kept.token) {
                words(&error.to_string());
            }
            prop_assert_eq!(kept.token.expose_secret(), token.access_token().secret());
        }
    }
}
