//! What is kept of subagents: a record of each with its conversation, and a mark while it lives, so that the next process
//! knows what this one left in the middle. Of those that have ended the newest are kept.

use std::sync::Arc;

use agentd_state::{Entry, EntryKind, EntryQuery, StoreError, Write};

use super::record::Record;
use crate::supervisor::office::{Office, PLAN};

/// The scope of the marks of those that live, by handle: what a restart looks through.
const LIVE: &str = "live";
/// Records that are read at a time.
const PAGE: usize = 256;
/// Records of ended ones that a conversation keeps: more than it speaks of again.
const KEPT: usize = 128;

impl Office {
    /// Whether a conversation has subagents whose completion can be read.
    pub(in crate::supervisor) async fn has_completions(&self, root: &str) -> bool {
        let query = EntryQuery {
            kind: EntryKind::Subagent,
            scope: root.to_owned(),
            prefix: String::new(),
            after: None,
            limit: 1,
        };
        let page = self.store.entries(query, self.clock.now()).await;
        page.is_ok_and(|page| !page.entries.is_empty())
    }

    /// What the process before this one left in the middle has failed.
    ///
    /// # Errors
    /// When the store cannot be read. One that takes nothing now, as on a full disk, is written when it does.
    pub async fn restore_subagents(self: &Arc<Self>) -> Result<(), StoreError> {
        let (mut failed, mut after, mut later) = (0_u32, None, Vec::new());
        loop {
            let query = EntryQuery {
                kind: EntryKind::Subagent,
                scope: LIVE.to_owned(),
                prefix: String::new(),
                after: after.take(),
                limit: PAGE,
            };
            let now = self.clock.now();
            let page = self.store.entries(query, now).await?;
            after = page.entries.last().map(|mark| mark.key.clone());
            for mark in page.entries {
                let mut batch = vec![Write::DropEntry {
                    kind: EntryKind::Subagent,
                    scope: LIVE.to_owned(),
                    key: mark.key.clone(),
                }];
                let root = mark.value.as_str().unwrap_or_default();
                let entry = match self.store.entry(EntryKind::Subagent, root, &mark.key, now).await {
                    // One bad record does not keep the agent from the others.
                    Err(error @ StoreError::Corrupt(_)) => {
                        tracing::error!(event = "restore.subagent.corrupt", subagent = mark.key, err = %error);
                        None
                    }
                    entry => entry?,
                };
                if let Some(record) = entry.as_ref().and_then(read) {
                    failed += 1;
                    batch.push(plan_of(root, &record.handle));
                    batch.push(self.entry(root, &record.restarted(now)));
                }
                match self.store.write(batch.clone()).await {
                    Err(StoreError::Unavailable(_)) => later.push(batch),
                    written => written?,
                }
            }
            if !page.more || after.is_none() {
                break;
            }
        }
        if failed > 0 {
            tracing::info!(event = "restore.subagents", failed);
        }
        if !later.is_empty() {
            let office = self.clone();
            tokio::spawn(async move {
                for batch in later {
                    office.stored(batch).await;
                }
            });
        }
        Ok(())
    }

    /// What is stored of one that begins.
    pub(super) fn first_record(&self, root: &str, record: &Record) -> Vec<Write> {
        let mark = Entry {
            kind: EntryKind::Subagent,
            scope: LIVE.to_owned(),
            key: record.handle.clone(),
            value: root.into(),
            expires_at: None,
            updated_at: record.began_at,
        };
        vec![self.entry(root, record), Write::Entry(mark)]
    }

    /// What is stored of one that has ended: its plan ends with it.
    pub(super) fn last_record(&self, root: &str, record: &Record) -> Vec<Write> {
        let unmark = Write::DropEntry {
            kind: EntryKind::Subagent,
            scope: LIVE.to_owned(),
            key: record.handle.clone(),
        };
        vec![self.entry(root, record), unmark, plan_of(root, &record.handle)]
    }

    /// All records of a conversation, oldest first.
    pub(super) async fn records(&self, root: &str) -> Result<Vec<Record>, StoreError> {
        let (mut records, mut after) = (Vec::new(), None);
        loop {
            let query = EntryQuery {
                kind: EntryKind::Subagent,
                scope: root.to_owned(),
                prefix: String::new(),
                after: after.take(),
                limit: PAGE,
            };
            let page = self.store.entries(query, self.clock.now()).await?;
            records.extend(page.entries.iter().filter_map(read));
            after = page.entries.last().map(|entry| entry.key.clone());
            if !page.more || after.is_none() {
                return Ok(records);
            }
        }
    }

    /// Lets go of the oldest records that are more than a conversation keeps. What cannot be let go now is with the next.
    pub(super) async fn forget_oldest(&self, root: &str) {
        let Ok(records) = self.records(root).await else {
            return;
        };
        let batch: Vec<Write> = too_old(&records)
            .map(|record| Write::DropEntry {
                kind: EntryKind::Subagent,
                scope: root.to_owned(),
                key: record.handle.clone(),
            })
            .collect();
        if !batch.is_empty() {
            let _ = self.store.write(batch).await;
        }
    }

    pub(super) fn entry(&self, root: &str, record: &Record) -> Write {
        Write::Entry(Entry {
            kind: EntryKind::Subagent,
            scope: root.to_owned(),
            key: record.handle.clone(),
            value: serde_json::to_value(record).unwrap_or_default(),
            expires_at: None,
            updated_at: self.clock.now(),
        })
    }
}

/// A record as it is stored; none where another version wrote it.
pub(super) fn read(entry: &Entry) -> Option<Record> {
    serde_json::from_value(entry.value.clone()).ok()
}

/// The conversation of a subagent, which nobody else can name: its worker and its plan go by it. Every other begins with
/// its owner, and nobody is called by nothing.
pub(super) fn conversation_of(root: &str, handle: &str) -> String {
    format!(" {handle} {root}")
}

/// Of these, oldest first, those that have ended and are more than is kept.
fn too_old(records: &[Record]) -> impl Iterator<Item = &Record> {
    let ended = || records.iter().filter(|record| record.is_over());
    ended().take(ended().count().saturating_sub(KEPT))
}

fn plan_of(root: &str, handle: &str) -> Write {
    Write::DropEntry {
        kind: EntryKind::Plan,
        scope: conversation_of(root, handle),
        key: PLAN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use agentd_agent::Status;
    use agentd_agent::request::Mode;
    use jiff::Timestamp;

    use super::*;
    use crate::supervisor::subagents::record::State;

    #[test]
    fn m2_of_those_that_have_ended_the_newest_are_kept_and_all_that_live() {
        let record = |n: usize| Record {
            handle: format!("{n:03}"),
            parent: "c".into(),
            depth: 1,
            mode: Mode::Async,
            state: match n {
                0 => State::Running,
                _ => State::Ended(Status::Completed),
            },
            result: None,
            reason: None,
            steps: 0,
            tokens: 0,
            tool_calls: 0,
            began_at: Timestamp::UNIX_EPOCH,
            ended_at: None,
        };
        let records: Vec<Record> = (0..=KEPT + 2).map(record).collect();
        let old: Vec<&str> = too_old(&records).map(|record| record.handle.as_str()).collect();
        assert_eq!(old, ["001", "002"]);
        assert_eq!(too_old(&records[..KEPT]).count(), 0);
    }
}
