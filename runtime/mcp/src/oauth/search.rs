//! The SDK's search for the authorization server of an MCP server, over our client, and its faults in our words.

use std::sync::Arc;

use agentd_base::class::{Class, Classified as _};
use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use agentd_net::{Destination, NetError};
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata, OAuthHttpClient};

use super::veil::{Veiled, lifted, lifted_url, veiled_challenge};
use super::{denied, unavailable};

/// The authorization server of an MCP server.
pub(crate) struct Discovered {
    pub(crate) manager: AuthorizationManager,
    pub(crate) metadata: AuthorizationMetadata,
    /// What is asked for where nobody says anything else.
    pub(crate) scopes: Vec<String>,
}

/// The SDK's search for an authorization server. Which addresses may be asked is for the client to say.
pub(super) async fn search<C: OAuthHttpClient + 'static>(
    client: Arc<C>,
    endpoint: &Destination,
    challenge: Option<&str>,
    unnamed: &str,
) -> Result<Discovered, NetError> {
    let url = endpoint.url().to_string();
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url, Arc::new(Veiled(client)))
        .await
        .map_err(fault)?;
    let challenge = challenge.map(veiled_challenge);
    let found = manager
        .resolve_metadata_from_challenge(challenge.as_deref())
        .await
        .map_err(fault)?;
    if !found.source.is_discovered() {
        return Err(denied(format!("{} {unnamed}", endpoint.authority())));
    }
    let mut metadata = found.metadata;
    metadata.issuer = metadata
        .issuer
        .map(|issuer| lifted_url(&issuer).unwrap_or(issuer));
    manager.set_metadata(metadata.clone());
    let scopes = manager.select_initial_scopes(&[]).await;
    Ok(Discovered {
        manager,
        metadata,
        scopes,
    })
}

/// The SDK's error as ours: which URL, what was seen, who must act.
pub(crate) fn fault(error: AuthError) -> NetError {
    match error {
        AuthError::DiscoveryRequestFailed { url, source } => {
            let class = source
                .downcast_ref::<NetError>()
                .map_or(Class::Unavailable, |error| error.class());
            NetError::Authorization {
                message: format!(
                    "looking for the authorization server at {}: {}",
                    clip(&lifted(url.as_str()), 2 * FOREIGN_CHARS),
                    clip(&lifted(&source.to_string()), 2 * FOREIGN_CHARS)
                ),
                class,
            }
        }
        AuthError::TokenRefreshFailed(_) | AuthError::AuthorizationServersUnavailable { .. } => {
            unavailable(clip(&lifted(&error.to_string()), 2 * FOREIGN_CHARS))
        }
        other => denied(clip(&lifted(&other.to_string()), 2 * FOREIGN_CHARS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::Dialer;
    use crate::oauth::dialer::tests::dialer;
    use http::Response;
    use rmcp::transport::auth::{OAuthHttpClientFuture, OAuthHttpRequest};

    /// Answers by URL, once the dialer's guard let the URL pass; what has no answer is dialled.
    struct Scripted(
        Dialer,
        std::collections::BTreeMap<&'static str, serde_json::Value>,
    );

    impl OAuthHttpClient for Scripted {
        fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
            Box::pin(async move {
                let url = request.request.uri().to_string();
                self.0.client(&url)?;
                match self.1.get(url.as_str()) {
                    Some(answer) => Ok(Response::new(answer.to_string().into_bytes())),
                    None => self.0.execute(request).await,
                }
            })
        }
    }

    /// What a server at `endpoint` leads to that names the authorization server `named`.
    async fn led(endpoint: &'static str, named: &'static str, known: bool) -> Result<Discovered, NetError> {
        let metadata = "https://10.9.9.9/metadata";
        let challenge = match endpoint.contains("//10.") {
            true => format!(r#"Bearer resource_metadata="{metadata}""#),
            false => format!(r#"Bearer resource_metadata="{endpoint}/metadata""#),
        };
        let here: &'static str = format!("{endpoint}/metadata").leak();
        let protected = serde_json::json!({"resource": endpoint, "authorization_servers": [named]});
        let mut answers =
            std::collections::BTreeMap::from([(metadata, protected.clone()), (here, protected)]);
        if known {
            let known: &'static str = format!("{named}/.well-known/oauth-authorization-server").leak();
            let says = serde_json::json!({"issuer": named, "token_endpoint": format!("{named}/token"),
                "authorization_endpoint": format!("{named}/login")});
            answers.insert(known, says);
        }
        let scripted = Arc::new(Scripted(dialer(endpoint, None), answers));
        let endpoint = scripted.0.endpoint().clone();
        search(scripted, &endpoint, Some(&challenge), "names nobody").await
    }

    /// The guard judges, not the SDK: what is private may lead to what is private, and to nothing else.
    #[tokio::test]
    async fn m36_a_private_server_has_a_private_authorization_server() {
        for named in ["https://10.0.0.2", "https://[fd00::2]:8443", "https://100.64.0.1"] {
            let found = led("https://10.0.0.1/mcp", named, true).await;
            let metadata = found.map(|found| found.metadata).unwrap();
            assert_eq!(
                (metadata.issuer.as_deref(), metadata.token_endpoint.as_str()),
                (Some(named), format!("{named}/token").as_str())
            );
        }
    }

    /// Whatever a server names, an error about it is short.
    #[tokio::test]
    async fn m36_an_address_of_any_length_is_told_in_a_few_words() {
        let long: &'static str = format!("https://10.0.0.2/{}", "x".repeat(100_000)).leak();
        let error = led("https://1.1.1.1/mcp", long, false).await.err().unwrap();
        agentd_noise::words(&error.to_string());
    }

    #[tokio::test]
    async fn m36_a_public_server_leads_nowhere_private_and_nobody_to_metadata() {
        for (endpoint, named, why) in [
            (
                "https://1.1.1.1/mcp",
                "https://10.0.0.2",
                "more private than the endpoint",
            ),
            (
                "https://1.1.1.1/mcp",
                "https://[fd00::2]",
                "more private than the endpoint",
            ),
            ("https://1.1.1.1/mcp", "https://169.254.169.254", "never dialled"),
            ("https://10.0.0.1/mcp", "https://169.254.169.254", "never dialled"),
            ("https://10.0.0.1/mcp", "https://[fe80::1]", "never dialled"),
            ("https://10.0.0.1/mcp", "https://100.100.100.200", "never dialled"),
        ] {
            let error = led(endpoint, named, false).await.err().unwrap().to_string();
            assert!(
                error.contains(why) && error.contains(named) && !error.contains(".invalid"),
                "{endpoint} -> {named}: {error}"
            );
        }
    }
}
