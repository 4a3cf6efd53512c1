//! What is stored: record types and the storage trait, no engine. The supervisor is the only writer.
//!
//! Guarantees an engine gives: a call that returned `Ok` is durable; a batch is applied whole or not at all;
//! nothing is read back that could not be written.

pub mod entry;
pub mod list;
pub mod record;
pub mod store;

pub use entry::{Entry, EntryKind, EntryPage, EntryQuery, PageBuilder};
pub use list::{TaskMark, TaskPage, TaskQuery};
pub use record::{Conversation, Message, OpenTask, Role, Task, TaskState, conversation_key};
pub use store::{Noted, Retention, Store, StoreError, Write};
