//! Subagents as callers of the agent see them, who are no turn: by handle, and with whose they are.

use agentd_state::{EntryKind, StoreError};
use serde_json::Value;

use super::kept::read;
use super::lock;
use crate::supervisor::office::Office;

impl Office {
    /// One that lives, or one that has ended in the conversation with this key, of this owner; and whose it is.
    pub(in crate::supervisor) async fn subagent_told(
        &self,
        handle: &str,
        root: Option<(String, String)>,
    ) -> Result<Option<(String, Value)>, StoreError> {
        let owner = lock(&self.subagents.ledger).owner(handle).map(str::to_owned);
        let living = lock(&self.subagents.live)
            .get(handle)
            .map(|one| one.record.borrow().told());
        if let (Some(owner), Some(told)) = (owner, living) {
            return Ok(Some((owner, told)));
        }
        let Some((root, owner)) = root else {
            return Ok(None);
        };
        let entry = self
            .store
            .entry(EntryKind::Subagent, &root, handle, self.clock.now())
            .await?;
        let record = entry.as_ref().and_then(read);
        Ok(record.map(|record| (owner, record.told())))
    }
}
