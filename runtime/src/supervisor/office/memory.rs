//! `memory.*` and `artifact.*` against the store. What is remembered belongs to the principal of the conversation:
//! nobody else's turn reads, lists or changes it.

use agentd_agent::Reply;
use agentd_agent::request::{ArtifactCreate, Listed, MemoryPush, MemorySet};
use agentd_base::clock::SharedClock;
use agentd_state::{Entry, EntryKind, EntryPage, EntryQuery, Store, StoreError, Write};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Before the key of what is said of an artifact, and before that of its content: a list reads no content.
const ABOUT: &str = "about/";
const CONTENT: &str = "content/";
/// What a sensitive artifact is called wherever it was not asked for.
const REDACTED: &str = "[sensitive]";
/// What one artifact may take: what goes into a frame with room to spare.
const ARTIFACT_BYTES: usize = 4 * 1024 * 1024;

/// Where a value is taken out of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// The shelf of one principal.
pub(super) struct Shelf<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) clock: &'a SharedClock,
    pub(super) owner: &'a str,
    /// `memory.max_value_bytes`.
    pub(super) max_value_bytes: usize,
    /// `memory.list_default_limit`.
    pub(super) list_limit: usize,
}

impl Shelf<'_> {
    pub(super) async fn get(&self, key: &str) -> Result<Reply, StoreError> {
        let found = self.read(EntryKind::Memory, key).await?;
        Ok(Reply::Done(match found {
            None => json!({"key": key, "found": false}),
            Some(entry) => {
                let mut told = json!({"key": key, "found": true, "value": entry.value});
                tell(&mut told, entry.expires_at);
                told
            }
        }))
    }

    pub(super) async fn set(&self, set: MemorySet) -> Result<Reply, StoreError> {
        let bytes = set.value.to_string().len();
        if let Some(why) = self.too_long(&set.value) {
            return Ok(Reply::Refused(why));
        }
        // A time that no calendar holds is for ever.
        let expires_at = set.ttl.and_then(|ttl| self.clock.now().checked_add(ttl.0).ok());
        self.store
            .write(vec![self.remembered(set.key.clone(), set.value, expires_at)])
            .await?;
        let mut told = json!({"key": set.key, "bytes": bytes});
        tell(&mut told, expires_at);
        Ok(Reply::Done(told))
    }

    pub(super) async fn list(&self, listed: Listed) -> Result<Reply, StoreError> {
        let limit = self.limit(&listed);
        let prefix = listed.prefix.unwrap_or_default();
        let page = self.page(EntryKind::Memory, prefix, None, limit).await?;
        let keys: Vec<Value> = page
            .entries
            .iter()
            .map(|entry| {
                let mut told = json!({"key": entry.key, "updated_at": entry.updated_at.to_string()});
                tell(&mut told, entry.expires_at);
                told
            })
            .collect();
        Ok(Reply::Done(json!({"keys": keys, "more": page.more})))
    }

    pub(super) async fn delete(&self, key: &str) -> Result<Reply, StoreError> {
        let deleted = self.read(EntryKind::Memory, key).await?.is_some();
        if deleted {
            self.store
                .write(vec![self.dropped(EntryKind::Memory, key.to_owned())])
                .await?;
        }
        Ok(Reply::Done(json!({"key": key, "deleted": deleted})))
    }

    /// Adds to the end of a list. The caller sees to it that one list is changed at a time.
    pub(super) async fn push(&self, push: MemoryPush) -> Result<Reply, StoreError> {
        let (mut list, before) = match self.values(&push.key).await? {
            Ok(found) => found,
            Err(why) => return Ok(Reply::Refused(why)),
        };
        list.push(push.value);
        let length = list.len();
        let list = Value::Array(list);
        if let Some(why) = self.too_long(&list) {
            return Ok(Reply::Refused(why));
        }
        self.store
            .write(vec![self.remembered(push.key.clone(), list, before)])
            .await?;
        Ok(Reply::Done(json!({"key": push.key, "length": length})))
    }

    /// Takes a value out of a list, likewise.
    pub(super) async fn take(&self, key: String, end: End) -> Result<Reply, StoreError> {
        let (mut list, before) = match self.values(&key).await? {
            Ok(found) => found,
            Err(why) => return Ok(Reply::Refused(why)),
        };
        let taken = match end {
            End::Last => list.pop(),
            End::First if list.is_empty() => None,
            End::First => Some(list.remove(0)),
        };
        let Some(value) = taken else {
            return Ok(Reply::Done(json!({"key": key, "found": false, "length": 0})));
        };
        let told = json!({"key": key, "found": true, "value": value, "length": list.len()});
        self.store
            .write(vec![self.remembered(key, list.into(), before)])
            .await?;
        Ok(Reply::Done(told))
    }

    /// The list under a key and when it is forgotten; an empty one where there is nothing.
    async fn values(&self, key: &str) -> Result<Result<(Vec<Value>, Option<Timestamp>), String>, StoreError> {
        Ok(match self.read(EntryKind::Memory, key).await? {
            None => Ok((Vec::new(), None)),
            Some(entry) => match entry.value {
                Value::Array(list) => Ok((list, entry.expires_at)),
                _ => Err("what is remembered under this key is no list".to_owned()),
            },
        })
    }

    fn too_long(&self, value: &Value) -> Option<String> {
        let (bytes, limit) = (value.to_string().len(), self.max_value_bytes);
        (bytes > limit).then(|| {
            format!(
                "the value has {bytes} bytes, and at most {limit} are remembered under a key \
                 (memory.max_value_bytes); keep it as an artifact"
            )
        })
    }

    fn remembered(&self, key: String, value: Value, expires_at: Option<Timestamp>) -> Write {
        Write::Entry(Entry {
            kind: EntryKind::Memory,
            scope: self.owner.to_owned(),
            key,
            value,
            expires_at,
            updated_at: self.clock.now(),
        })
    }

    pub(super) async fn create(&self, id: String, made: ArtifactCreate) -> Result<Reply, StoreError> {
        let Some(content) = made.content.filter(|_| made.from_step.is_none()) else {
            return Ok(Reply::Refused(
                "give the content; from_step is for steps of a workflow, and there is none here".to_owned(),
            ));
        };
        if content.len() > ARTIFACT_BYTES {
            return Ok(Reply::Refused(format!(
                "an artifact has at most {ARTIFACT_BYTES} bytes"
            )));
        }
        let now = self.clock.now();
        let about = json!({
            "id": id,
            "name": made.name,
            "mime": made.mime.unwrap_or_else(|| "text/plain".to_owned()),
            "size": content.len(),
            "sha256": agentd_base::digest::hex(content.as_bytes()),
            "sensitive": made.sensitive,
            "created_at": now.to_string(),
        });
        let entry = |prefix: &str, value: Value| {
            Write::Entry(Entry {
                kind: EntryKind::Artifact,
                scope: self.owner.to_owned(),
                key: format!("{prefix}{id}"),
                value,
                expires_at: None,
                updated_at: now,
            })
        };
        let batch = vec![entry(ABOUT, about.clone()), entry(CONTENT, content.into())];
        self.store.write(batch).await?;
        Ok(Reply::Done(about))
    }

    pub(super) async fn open(&self, id: &str) -> Result<Reply, StoreError> {
        let about = self.read(EntryKind::Artifact, &format!("{ABOUT}{id}")).await?;
        let content = self.read(EntryKind::Artifact, &format!("{CONTENT}{id}")).await?;
        let (Some(about), Some(content)) = (about, content) else {
            return Ok(Reply::Refused("there is no artifact with this id".to_owned()));
        };
        let mut told = about.value;
        if let Some(told) = told.as_object_mut() {
            told.insert("content".to_owned(), content.value);
        }
        Ok(Reply::Done(told))
    }

    pub(super) async fn list_artifacts(&self, listed: Listed) -> Result<Reply, StoreError> {
        let limit = self.limit(&listed);
        let prefix = listed.prefix.unwrap_or_default();
        let (mut found, mut after) = (Vec::new(), None);
        let more = loop {
            let page = self
                .page(EntryKind::Artifact, ABOUT.to_owned(), after.take(), limit)
                .await?;
            after = page.entries.last().map(|entry| entry.key.clone());
            let named = page.entries.into_iter().map(|entry| entry.value);
            found.extend(
                named
                    .filter(|about| name_of(about).starts_with(&prefix))
                    .map(redacted),
            );
            if found.len() > limit || !page.more || after.is_none() {
                break found.len() > limit || page.more;
            }
        };
        found.truncate(limit);
        Ok(Reply::Done(json!({"artifacts": found, "more": more})))
    }

    pub(super) async fn drop_artifact(&self, id: &str) -> Result<Reply, StoreError> {
        let about = format!("{ABOUT}{id}");
        let deleted = self.read(EntryKind::Artifact, &about).await?.is_some();
        if deleted {
            let content = self.dropped(EntryKind::Artifact, format!("{CONTENT}{id}"));
            let batch = vec![self.dropped(EntryKind::Artifact, about), content];
            self.store.write(batch).await?;
        }
        Ok(Reply::Done(json!({"id": id, "deleted": deleted})))
    }

    fn limit(&self, listed: &Listed) -> usize {
        let asked = listed.limit.and_then(|limit| usize::try_from(limit).ok());
        asked.unwrap_or(self.list_limit)
    }

    async fn read(&self, kind: EntryKind, key: &str) -> Result<Option<Entry>, StoreError> {
        self.store.entry(kind, self.owner, key, self.clock.now()).await
    }

    async fn page(
        &self,
        kind: EntryKind,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> Result<EntryPage, StoreError> {
        let query = EntryQuery {
            kind,
            scope: self.owner.to_owned(),
            prefix,
            after,
            limit,
        };
        self.store.entries(query, self.clock.now()).await
    }

    fn dropped(&self, kind: EntryKind, key: String) -> Write {
        Write::DropEntry {
            kind,
            scope: self.owner.to_owned(),
            key,
        }
    }
}

/// The name, as a list may match it.
fn name_of(about: &Value) -> &str {
    if about.get("sensitive") == Some(&Value::Bool(true)) {
        return REDACTED;
    }
    about.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// As a list shows it.
fn redacted(mut about: Value) -> Value {
    let name = name_of(&about).to_owned();
    if let Some(about) = about.as_object_mut() {
        about.insert("name".to_owned(), name.into());
    }
    about
}

fn tell(told: &mut Value, expires_at: Option<Timestamp>) {
    if let (Some(told), Some(at)) = (told.as_object_mut(), expires_at) {
        told.insert("expires_at".to_owned(), at.to_string().into());
    }
}
