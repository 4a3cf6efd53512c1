//! What a remote store must offer: single keys with compare-and-set. Everything else is made of it.

use async_trait::async_trait;

/// Why an operation did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The key is not at the sequence number before: somebody wrote it, or this very write arrived before.
    #[error("the key was written by somebody else: {0}")]
    Conflict(String),
    /// Nothing was sent.
    #[error("{0}")]
    Unsent(String),
    /// The server answered with an error. It may have been carried out all the same.
    #[error("{0}")]
    Refused(String),
    /// As [`KvError::Refused`], for its size.
    #[error("{0}")]
    TooLarge(String),
    /// Nobody knows whether it was carried out.
    #[error("{0}")]
    Unknown(String),
}

/// A part of the list of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys.
    pub keys: Vec<String>,
    /// Where the next part begins; opaque. `None`: there are no more.
    pub next: Option<String>,
}

/// A store of texts under keys. Every operation has a clock of its own and answers of bounded size.
#[async_trait]
pub trait Kv: Send + Sync + 'static {
    /// Stores the text if the key is at `seq - 1`; a key that is not there is at 0. Sending the same again does no harm.
    async fn put(&self, key: &str, seq: u64, text: &str) -> Result<(), KvError>;
    /// As [`Kv::put`], in place of another text of which nobody knows whether it arrived under this number: what bears
    /// an idempotency key bears another one.
    async fn put_instead(&self, key: &str, seq: u64, text: &str) -> Result<(), KvError> {
        self.put(key, seq, text).await
    }
    /// The longest text that can be read back for certain, however the server wraps it.
    fn limit(&self) -> usize;
    /// The text; `None` when there is none.
    async fn get(&self, key: &str) -> Result<Option<String>, KvError>;
    /// Keys that begin with `prefix`.
    async fn list(&self, prefix: &str, next: Option<&str>) -> Result<KeyPage, KvError>;
    /// Whether keys can be deleted; where not, a text without a record is put in their place.
    fn deletes(&self) -> bool;
    /// Deletes a key that is at `seq`. One that is not there is deleted.
    async fn delete(&self, key: &str, seq: u64) -> Result<(), KvError>;
    /// Where it is, for messages.
    fn place(&self) -> String;
}
