//! Before a write of a record that nobody can read is acknowledged, something readable is put in its place: a server that
//! does not take that would not take the record either.

use agentd_state::{StoreError, Write};
use serde_json::Value;

use super::contract::{Kv, KvError};
use super::envelope::Step;
use super::place::{Placed, write_over};
use super::writer::{Job, Writer, unavailable};
use crate::working::Key;

impl<K: Kv> Writer<K> {
    /// Without the batches that write what the server lets nobody write over.
    pub(super) async fn claimed(&mut self, group: Vec<Job>) -> Vec<Job> {
        let mut claimed = Vec::with_capacity(group.len());
        for job in group {
            match self.claim(&job.batch).await {
                Ok(()) => claimed.push(job),
                Err(error) => {
                    tracing::error!(event = "store.put.fail", err = %error);
                    let _ = job.done.send(Err(error));
                }
            }
        }
        claimed
    }

    /// Puts something that can be read in place of what cannot, before a write of it is acknowledged.
    async fn claim(&mut self, batch: &[Write]) -> Result<(), StoreError> {
        if self.spoilt.is_empty() {
            return Ok(());
        }
        for write in batch {
            let key = self.names.of(&key_of(write));
            let Some(at) = self.spoilt.get(&key).copied() else {
                continue;
            };
            let failed = |error: KvError| unavailable(&*self.kv, &error);
            let seq = match self.kv.get(&key).await.map_err(failed)? {
                // Somebody removed it.
                None => None,
                Some(found) => match self.names.open(&key, &found) {
                    Ok(envelope) => Some(envelope.seq),
                    Err(why) => {
                        let (now, seq) = (self.clock.now(), at + 1);
                        let text = Some(self.names.seal(&key, seq, now, Value::Null));
                        let step = Step {
                            key: key.clone(),
                            seq,
                            text,
                        };
                        let placed = write_over(&*self.kv, &self.names, now, &step, &why, &found);
                        match placed.await.map_err(failed)? {
                            Placed::At(seq) => Some(seq),
                            Placed::Spoilt(_) | Placed::Foreign => return Err(why),
                        }
                    }
                },
            };
            self.spoilt.remove(&key);
            if let Some(seq) = seq {
                self.seqs.insert(key, seq);
            }
        }
        Ok(())
    }
}

/// What is written.
fn key_of(write: &Write) -> Key {
    match write {
        Write::Conversation(record) => Key::Conversation(record.id.clone()),
        Write::Task(record) => Key::Task(record.id.clone()),
        Write::MessageId {
            owner, message_id, ..
        } => Key::Message(owner.clone(), message_id.clone()),
        Write::Entry(entry) => Key::Entry((entry.kind, entry.scope.clone(), entry.key.clone())),
        Write::DropEntry { kind, scope, key } => Key::Entry((*kind, scope.clone(), key.clone())),
    }
}
