//! State in one SQLite file. One thread owns the writing connection and commits what has queued up in one
//! transaction; readers have connections of their own and see committed state only.
//!
//! Guarantees: an acknowledged write is on the disk (write-ahead log, `synchronous=FULL`); a batch is applied whole or
//! not at all, and one that conflicts does not harm those it was committed with; one process at a time. A file system
//! without working locks (NFS) cannot give these.

mod fault;
mod folder;
mod inspect;
mod list;
mod reader;
mod retention;
mod schema;
mod writer;

use std::path::{Path, PathBuf};

use agentd_state::{
    Conversation, Entry, EntryKind, EntryPage, EntryQuery, Noted, OpenTask, Retention, Store, StoreError,
    Task, TaskPage, TaskQuery, Write,
};
use async_trait::async_trait;
use jiff::Timestamp;

use folder::Folder;
pub use inspect::inspect;
use reader::Readers;
use writer::Writer;

/// The database in its folder.
const FILE: &str = "agentd.db";

/// The store. Dropping it waits for the batch in hand and gives the folder free.
pub struct SqliteStore {
    // In this order: readers and writer close their connections before the folder's lock is given up.
    readers: Readers,
    writer: Writer,
    folder: Folder,
}

impl SqliteStore {
    /// Opens the store in `folder`, made when it is not there (0700; its files 0600), and brings it to this version's
    /// schema. Blocks for a few file operations. What has ended is kept as `retention` says, on a small volume less.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when another process has it, or the folder cannot be used; it names path and
    /// remedy. [`StoreError::Corrupt`] when the file is not a store of this version or an older one.
    pub fn open(folder: &Path, retention: Retention) -> Result<Self, StoreError> {
        let folder = Folder::claim(folder)?;
        let retention = retention::fitting(retention, folder.path());
        let file = folder.private_file(FILE)?;
        let mut connection = schema::connect(&file)?;
        schema::migrate(&mut connection, &file)?;
        folder.sync()?;
        let readers = Readers::new(file.clone());
        let writer = Writer::start(connection, file, retention)?;
        Ok(Self {
            readers,
            writer,
            folder,
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The database file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.writer.write(batch).await
    }

    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        let id = id.to_owned();
        self.readers
            .read(move |connection| reader::conversation(connection, &id))
            .await
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        let id = id.to_owned();
        self.readers
            .read(move |connection| reader::task(connection, &id))
            .await
    }

    async fn message(&self, owner: &str, message_id: &str) -> Result<Option<Noted>, StoreError> {
        let (owner, message_id) = (owner.to_owned(), message_id.to_owned());
        self.readers
            .read(move |connection| reader::message(connection, &owner, &message_id))
            .await
    }

    async fn open_tasks(&self) -> Result<Vec<OpenTask>, StoreError> {
        self.readers.read(reader::open_tasks).await
    }

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, StoreError> {
        self.readers
            .read(move |connection| list::tasks(connection, &query))
            .await
    }

    async fn entry(
        &self,
        kind: EntryKind,
        scope: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Entry>, StoreError> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.readers
            .read(move |connection| reader::entry(connection, kind, &scope, &key, now))
            .await
    }

    async fn entries(&self, query: EntryQuery, now: Timestamp) -> Result<EntryPage, StoreError> {
        self.readers
            .read(move |connection| reader::entries(connection, &query, now))
            .await
    }

    async fn probe(&self, bytes: u64) -> Result<(), StoreError> {
        self.writer.probe(bytes).await
    }

    async fn lost(&self) -> StoreError {
        self.writer.damaged().await
    }
}
