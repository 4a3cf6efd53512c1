//! The CA Secret `<release>-ca` in the install's own namespace: made by the controllers' leader once, read by every
//! process that signs, never overwritten. The trust domain is kept with it, and taken from ConfigMap `agentd-bundle`
//! when the Secret is gone, so that a lost key does not rename every identity.

use std::collections::BTreeMap;

use agentd_base::class::{Class, Classified};
use agentd_identity::authority::{AuthorityError, draw_trust_domain};
use agentd_identity::{Authority, TrustDomain};
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use kube_runtime::{WatchStreamExt as _, watcher};

use crate::labels;

/// Key of the root certificate.
pub const CERTIFICATE: &str = "tls.crt";
/// Key of the root's private key.
pub const KEY: &str = "tls.key";
/// Key of the trust domain, in the Secret and in the ConfigMap.
pub const TRUST_DOMAIN: &str = "trust-domain";
/// The ConfigMap that everybody may read.
pub const BUNDLE_CONFIG_MAP: &str = "agentd-bundle";
/// A certificate, a key and a name: far below.
const MAX_BYTES: usize = 64 * 1024;

/// Why there is no authority.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The API server did not answer, or refused.
    #[error("Secret {name}: {source}")]
    Api {
        /// Namespace and name of the Secret.
        name: String,
        /// What kube says.
        source: Box<kube::Error>,
    },
    /// The watch failed; it goes on.
    #[error("Secret {name}: {source}")]
    Watch {
        /// Namespace and name of the Secret.
        name: String,
        /// What kube says.
        source: Box<watcher::Error>,
    },
    /// The content is unusable.
    #[error("Secret {name}: {problem}")]
    Content {
        /// Namespace and name of the Secret.
        name: String,
        /// Nothing of the key is in it.
        problem: String,
    },
    /// Another trust domain was given than the one in use.
    #[error(
        "identity.trustDomain is `{given}`, and this install has used `{stored}` ({place}); set it back, or remove all \
         Agents, McpServers and the Secret first: every identity changes its name"
    )]
    TrustDomainChanged {
        /// What was given now.
        given: TrustDomain,
        /// What is stored.
        stored: TrustDomain,
        /// Where it is stored.
        place: String,
    },
    /// Making one failed.
    #[error("making the authority failed: {0}")]
    Generate(#[from] AuthorityError),
}

impl Classified for StoreError {
    fn class(&self) -> Class {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) if status.is_forbidden() => Class::Denied,
                _ => Class::Unavailable,
            },
            Self::Watch { .. } => Class::Unavailable,
            Self::Content { .. } | Self::TrustDomainChanged { .. } => Class::Invalid,
            Self::Generate(error) => error.class(),
        }
    }
}

/// The name of the Secret.
pub fn secret_name(release: &str) -> String {
    format!("{release}-ca")
}

/// Reads the authority; `None` when there is no Secret yet.
///
/// # Errors
/// When the API server does not answer or the content is unusable.
pub async fn load(client: &Client, namespace: &str, release: &str) -> Result<Option<Authority>, StoreError> {
    let name = secret_name(release);
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    match api
        .get_opt(&name)
        .await
        .map_err(|source| api_error(namespace, &name, source))?
    {
        Some(secret) => parse(&secret).map(Some),
        None => Ok(None),
    }
}

/// What [`ensure`] found or did.
#[derive(Debug)]
pub struct Ensured {
    /// The authority.
    pub authority: Authority,
    /// It was made just now.
    pub made: bool,
    /// It was made although the trust domain was in use before: a key was lost.
    pub lost: bool,
}

/// Reads the authority, or makes it. `given` is the user's trust domain, if any. For the controllers' leader.
///
/// # Errors
/// As [`load`]; and when another trust domain is given than the one in use.
pub async fn ensure(
    client: &Client,
    namespace: &str,
    release: &str,
    given: Option<&TrustDomain>,
    now: Timestamp,
) -> Result<Ensured, StoreError> {
    let name = secret_name(release);
    if let Some(authority) = load(client, namespace, release).await? {
        same(
            given,
            authority.trust_domain(),
            &format!("Secret {namespace}/{name}"),
        )?;
        return Ok(Ensured {
            authority,
            made: false,
            lost: false,
        });
    }
    let published = published_trust_domain(client, namespace).await?;
    let trust_domain = match (given, &published) {
        (Some(given), Some(published)) if given != published => {
            // The Secret is gone already, so only objects that carry the old name stand against the new one.
            if objects_exist(client, namespace, &name).await? {
                same(
                    Some(given),
                    published,
                    &format!("ConfigMap {namespace}/{BUNDLE_CONFIG_MAP}"),
                )?;
            }
            given.clone()
        }
        (Some(given), _) => given.clone(),
        (None, Some(published)) => published.clone(),
        (None, None) => draw_trust_domain()?,
    };
    let lost = published.as_ref() == Some(&trust_domain);
    let authority = Authority::generate(&trust_domain, now)?;
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    match api
        .create(
            &PostParams::default(),
            &build_secret(&name, namespace, &authority),
        )
        .await
    {
        Ok(_) => Ok(Ensured {
            authority,
            made: true,
            lost,
        }),
        // Another leader was faster: its key counts.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let problem = "it came and went while it was read".to_owned();
            let authority = load(client, namespace, release)
                .await?
                .ok_or_else(|| StoreError::Content {
                    name: format!("{namespace}/{name}"),
                    problem,
                })?;
            same(
                given,
                authority.trust_domain(),
                &format!("Secret {namespace}/{name}"),
            )?;
            Ok(Ensured {
                authority,
                made: false,
                lost: false,
            })
        }
        Err(source) => Err(api_error(namespace, &name, source)),
    }
}

/// The authority now and after each change of the Secret. `None` when it was deleted. Errors do not end the stream.
pub fn follow(
    client: Client,
    namespace: &str,
    release: &str,
) -> impl Stream<Item = Result<Option<Authority>, StoreError>> + Send + 'static {
    let name = secret_name(release);
    let shown = format!("{namespace}/{name}");
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api, only).default_backoff().filter_map(move |event| {
        let result = match event {
            Ok(watcher::Event::Apply(secret) | watcher::Event::InitApply(secret)) => {
                Some(parse(&secret).map(Some))
            }
            Ok(watcher::Event::Delete(_)) => Some(Ok(None)),
            Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
            Err(source) => Some(Err(StoreError::Watch {
                name: shown.clone(),
                source: Box::new(source),
            })),
        };
        futures::future::ready(result)
    })
}

/// The authority in a Secret.
///
/// # Errors
/// When a key is missing, too large, or does not fit the others.
pub fn parse(secret: &Secret) -> Result<Authority, StoreError> {
    let ObjectMeta { name, namespace, .. } = &secret.metadata;
    let name = format!(
        "{}/{}",
        namespace.as_deref().unwrap_or_default(),
        name.as_deref().unwrap_or_default()
    );
    let error = |problem: String| StoreError::Content {
        name: name.clone(),
        problem,
    };
    let text = |key: &str| {
        let value = secret.data.as_ref().and_then(|data| data.get(key));
        let value = value.ok_or_else(|| error(format!("key `{key}` is missing")))?;
        if value.0.len() > MAX_BYTES {
            return Err(error(format!("key `{key}` has more than {MAX_BYTES} bytes")));
        }
        std::str::from_utf8(&value.0).map_err(|_| error(format!("key `{key}` is not UTF-8")))
    };
    let trust_domain: TrustDomain = text(TRUST_DOMAIN)?
        .trim()
        .parse()
        .map_err(|e| error(format!("{TRUST_DOMAIN}: {e}")))?;
    Authority::from_pem(trust_domain, text(CERTIFICATE)?, text(KEY)?).map_err(|e| error(e.to_string()))
}

fn build_secret(name: &str, namespace: &str, authority: &Authority) -> Secret {
    let (certificate, key) = authority.to_pem();
    let value = |text: &str| ByteString(text.as_bytes().to_vec());
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(
                labels::MANAGED_BY.to_owned(),
                labels::MANAGED_BY_VALUE.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(BTreeMap::from([
            (CERTIFICATE.to_owned(), value(&certificate)),
            (KEY.to_owned(), value(&key)),
            (TRUST_DOMAIN.to_owned(), value(authority.trust_domain().as_str())),
        ])),
        ..Secret::default()
    }
}

fn same(given: Option<&TrustDomain>, stored: &TrustDomain, place: &str) -> Result<(), StoreError> {
    match given {
        Some(given) if given != stored => Err(StoreError::TrustDomainChanged {
            given: given.clone(),
            stored: stored.clone(),
            place: place.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The trust domain in `agentd-bundle`, if it is there and well-formed.
async fn published_trust_domain(client: &Client, namespace: &str) -> Result<Option<TrustDomain>, StoreError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = api
        .get_opt(BUNDLE_CONFIG_MAP)
        .await
        .map_err(|e| api_error(namespace, BUNDLE_CONFIG_MAP, e))?;
    Ok(found.and_then(|map| map.data?.get(TRUST_DOMAIN)?.trim().parse().ok()))
}

/// Whether any Agent or McpServer exists, anywhere.
async fn objects_exist(client: &Client, namespace: &str, name: &str) -> Result<bool, StoreError> {
    let one = ListParams::default().limit(1);
    let agents: Api<agentd_crds::Agent> = Api::all(client.clone());
    let servers: Api<agentd_crds::McpServer> = Api::all(client.clone());
    let (agents, servers) = futures::try_join!(agents.list_metadata(&one), servers.list_metadata(&one))
        .map_err(|e| api_error(namespace, name, e))?;
    Ok(!agents.items.is_empty() || !servers.items.is_empty())
}

fn api_error(namespace: &str, name: &str, source: kube::Error) -> StoreError {
    StoreError::Api {
        name: format!("{namespace}/{name}"),
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> (Authority, Secret) {
        let authority = Authority::generate(&"td".parse().unwrap(), Timestamp::now()).unwrap();
        let secret = build_secret("r-ca", "ns", &authority);
        (authority, secret)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (authority, secret) = secret();
        assert_eq!(parse(&secret).unwrap().bundle(), authority.bundle());
        assert_eq!(
            secret.metadata.owner_references, None,
            "it must outlive the install"
        );
    }

    #[test]
    fn an_unusable_secret_says_which_key_and_shows_none() {
        for key in [CERTIFICATE, KEY, TRUST_DOMAIN] {
            let (_, mut without) = secret();
            without.data.as_mut().unwrap().remove(key);
            let error = parse(&without).unwrap_err().to_string();
            assert!(
                error.contains("ns/r-ca") && error.contains(&format!("`{key}` is missing")),
                "{error}"
            );
        }
        let (_, mut foreign) = secret();
        foreign
            .data
            .as_mut()
            .unwrap()
            .insert(KEY.to_owned(), secret().1.data.unwrap().remove(KEY).unwrap());
        let error = parse(&foreign).unwrap_err().to_string();
        assert!(
            error.contains("does not belong") && !error.contains("PRIVATE"),
            "{error}"
        );
    }
}
