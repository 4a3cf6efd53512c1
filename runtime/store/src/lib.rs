//! The engines behind `agentd-state`: SQLite in a folder, memory, and remote keys. An engine keeps the guarantees of that crate's
//! trait and knows nothing of what the records mean.

mod fault;
pub mod inspect;
pub mod kv;
pub mod memory;
pub mod remote;
pub mod sqlite;
mod working;

pub use kv::{Kv, KvStore, Owner};
pub use memory::MemoryStore;
pub use sqlite::SqliteStore;
