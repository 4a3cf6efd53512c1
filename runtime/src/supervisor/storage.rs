//! Opens the store that the document names. Nothing of an agent runs without its state: a store that cannot be opened
//! ends the process, with a line that names the folder or the server.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::clock::SharedClock;
use agentd_config::Document;
use agentd_config::document::{ClientTls, McpServer, StoreKind};
use agentd_mcp::Outbound;
use agentd_state::{Retention, Store, StoreError};
use agentd_store::remote::{HttpKv, McpKv};
use agentd_store::{Kv, KvStore, MemoryStore, Owner, SqliteStore};

use super::tasks::Durability;

/// A store that is reached with the pod's identity waits for it so long; then the pod is started again.
const IDENTITY: Duration = Duration::from_secs(30);

/// Where a document's store is.
pub(crate) enum Place {
    /// A folder.
    Folder(std::path::PathBuf),
    /// The process's own memory.
    Memory,
    /// Tools of an MCP server.
    Mcp(Box<McpKv>),
    /// An HTTP service.
    Http(Box<HttpKv>),
}

/// Finds the store; a remote one is dialled.
///
/// # Errors
/// [`StoreError::Unavailable`], naming what is away.
pub(crate) async fn place(
    document: &Document,
    instance: &str,
    outbound: &Outbound,
) -> Result<Place, StoreError> {
    let unusable = |why: &str| StoreError::Unavailable(why.to_owned());
    let store = &document.store;
    match document.store_kind() {
        StoreKind::Memory => Ok(Place::Memory),
        StoreKind::File => {
            let path = document.store_path(|name| std::env::var(name).ok());
            path.map(Place::Folder)
                .ok_or_else(|| unusable("there is no home folder; set store.path"))
        }
        StoreKind::Mcp => {
            // Validation has seen both.
            let mapping = store
                .mcp
                .as_ref()
                .ok_or_else(|| unusable("store.mcp is missing"))?;
            let server = server(document, &mapping.server)
                .ok_or_else(|| unusable("store.mcp.server is none of mcp.servers"))?;
            identified(server.connection.tls.as_ref(), outbound).await?;
            let connected = McpKv::connect(
                mapping,
                server.clone(),
                instance.to_owned(),
                outbound.clone(),
                store.timeout(),
            );
            let kv = connected.await.inspect_err(|error| {
                tracing::error!(event = "mcp.connect.fail", mcp.server = %server.name, err = %error);
            })?;
            Ok(Place::Mcp(Box::new(kv)))
        }
        StoreKind::Http => {
            let mapping = store
                .http
                .as_ref()
                .ok_or_else(|| unusable("store.http is missing"))?;
            identified(mapping.tls.as_ref(), outbound).await?;
            let kv = HttpKv::new(mapping, outbound, store.timeout());
            let kv = kv.map_err(|error| unusable(&error.to_string()))?;
            Ok(Place::Http(Box::new(kv)))
        }
    }
}

/// Opens the store, and says what becomes of it when the process ends.
pub(super) async fn open(
    document: &Document,
    instance: &str,
    outbound: &Outbound,
    clock: SharedClock,
) -> Result<(Arc<dyn Store>, Durability), StoreError> {
    match place(document, instance, outbound).await? {
        Place::Memory => {
            let store = MemoryStore::new(retention(document, Retention::MEMORY));
            Ok((Arc::new(store), Durability::Volatile))
        }
        Place::Folder(path) => {
            let retention = retention(document, Retention::DISK);
            let opening = path.clone();
            let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&opening, retention)).await;
            let store = opened.map_err(|error| StoreError::Unavailable(error.to_string()))??;
            tracing::info!(event = "store.file", path = %path.display());
            Ok((Arc::new(store), Durability::Durable))
        }
        Place::Mcp(kv) => remote(*kv, document, instance, clock).await,
        Place::Http(kv) => remote(*kv, document, instance, clock).await,
    }
}

async fn remote(
    kv: impl Kv,
    document: &Document,
    instance: &str,
    clock: SharedClock,
) -> Result<(Arc<dyn Store>, Durability), StoreError> {
    let place = kv.place();
    let retention = retention(document, Retention::MEMORY);
    let store = KvStore::open(kv, &owner(document, instance), retention, clock).await?;
    tracing::info!(event = "store.remote", place);
    Ok((Arc::new(store), Durability::Durable))
}

/// Whose keys they are.
pub(crate) fn owner(document: &Document, instance: &str) -> Owner {
    Owner {
        prefix: document.store.prefix().to_owned(),
        instance: instance.to_owned(),
    }
}

/// What is kept, as the document says or as suits the kind of store.
fn retention(document: &Document, otherwise: Retention) -> Retention {
    let tasks = &document.store.retention.tasks;
    Retention {
        age: tasks.ttl.map_or(otherwise.age, |ttl| ttl.0),
        bytes: tasks.bytes.unwrap_or(otherwise.bytes),
        ..otherwise
    }
}

fn server<'a>(document: &'a Document, name: &str) -> Option<&'a McpServer> {
    document.mcp.servers.iter().find(|server| server.name == name)
}

/// Waits for the identity that a server wants to see.
async fn identified(tls: Option<&ClientTls>, outbound: &Outbound) -> Result<(), StoreError> {
    let Some(source) = outbound
        .identity
        .as_ref()
        .filter(|_| tls.is_some_and(|tls| tls.spiffe_id.is_some()))
    else {
        return Ok(());
    };
    let mut changes = source.subscribe();
    let there = changes.wait_for(|now| now.svid.is_some() && now.bundle.is_some());
    match tokio::time::timeout(IDENTITY, there).await {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Unavailable(format!(
            "its server wants the pod's identity, and the issuer gave none within {IDENTITY:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_the_document_says_or_suits_the_store() {
        let mut document = Document::default();
        assert_eq!(retention(&document, Retention::DISK), Retention::DISK);
        document.store.retention =
            serde_json::from_str(r#"{ "tasks": { "ttl": "2h", "bytes": 5000000 } }"#).unwrap();
        let expected = Retention {
            age: Duration::from_secs(7200),
            bytes: 5_000_000,
            ..Retention::MEMORY
        };
        assert_eq!(retention(&document, Retention::MEMORY), expected);
    }
}
