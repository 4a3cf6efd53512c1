//! What the conditions of waiting turns are about: collected when it is asked for, and again when one of its parts says
//! that it has changed. Guarantees: nobody is asked again and again; a change between a look and the wait for the next
//! one is not missed; a turn sees what is its own and nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_agent::Reply;
use agentd_agent::request::{Observe, Observed};
use agentd_mcp::ServersView;
use agentd_state::{EntryKind, EntryQuery, StoreError};
use futures::future::{BoxFuture, FutureExt as _, select_all};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{Caller, Office};

/// Keys of the memory that a condition is about, where it names none.
const KEYS: usize = 256;
/// What one look may bring: a part of a frame.
const BYTES: usize = 256 * 1024;
/// Before the next look at what should be forgotten by now: a clock that is set back makes no loop.
const LEAST: Duration = Duration::from_millis(100);

/// Who waits for a change of what a principal keeps, by principal. There is nothing here of those for whom nobody waits.
#[derive(Debug, Default)]
pub struct Changes(Mutex<HashMap<String, watch::Sender<()>>>);

impl Changes {
    /// Something that the principal keeps is another now.
    pub(in crate::supervisor) fn note(&self, owner: &str) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = waiting.get(owner) {
            waiting.send_replace(());
        }
    }

    fn follow(&self, owner: &str) -> watch::Receiver<()> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, sender| !sender.is_closed());
        waiting.entry(owner.to_owned()).or_default().subscribe()
    }
}

/// The next change; never where nobody can say so any more.
async fn changed<T>(of: &mut watch::Receiver<T>) {
    if of.changed().await.is_err() {
        std::future::pending().await
    }
}

/// What was found, and when the first of it is forgotten by itself.
struct Found {
    state: Map<String, Value>,
    until: Option<Timestamp>,
}

impl Office {
    /// What a condition needs to know, as soon as it is another than what is known already.
    pub(super) async fn observe(&self, caller: &Caller, observe: Observe) -> Result<Reply, StoreError> {
        let mut servers = self.servers.clone();
        loop {
            // Before the look: what changes meanwhile is one more look.
            let mut kept = self.changes.follow(&caller.owner);
            servers.mark_unchanged();
            let subagents = match observe.subagents {
                true => self.changes_of(caller),
                false => Vec::new(),
            };
            let found = match self.look(caller, &observe).await? {
                Ok(found) => found,
                Err(why) => return Ok(Reply::Refused(why)),
            };
            let state = Value::Object(found.state);
            let text = state.to_string();
            if text.len() > BYTES {
                return Ok(Reply::Refused(format!(
                    "what the condition is about has more than {BYTES} bytes; name the keys of the memory that matter"
                )));
            }
            let digest = agentd_base::digest::hex(text.as_bytes());
            if observe.since.as_ref() != Some(&digest) {
                let observed = serde_json::to_value(Observed { digest, state });
                return Ok(Reply::Done(observed.unwrap_or_default()));
            }
            let mut events: Vec<BoxFuture<'_, ()>> = vec![changed(&mut kept).boxed()];
            if observe.servers {
                events.push(changed(&mut servers).boxed());
            }
            events.extend(subagents);
            if let Some(until) = found.until {
                let time = until.duration_since(self.clock.now());
                let time = Duration::try_from(time).unwrap_or_default().max(LEAST);
                events.push(tokio::time::sleep(time).boxed());
            }
            select_all(events).await;
        }
    }

    async fn look(&self, caller: &Caller, observe: &Observe) -> Result<Result<Found, String>, StoreError> {
        let mut state = Map::new();
        let mut until = None;
        if observe.plan {
            let plan = self.plan(&caller.conversation).await?;
            let told = plan.map_or(json!({"exists": false}), |plan| plan.told());
            state.insert("plan".to_owned(), told);
        }
        if observe.subagents {
            let mut by_handle = Map::new();
            match self.list_subagents(caller).await {
                Reply::Done(mut told) => {
                    let all = told.get_mut("subagents").map(Value::take);
                    for one in all.as_ref().and_then(Value::as_array).into_iter().flatten() {
                        let handle = one.get("handle").and_then(Value::as_str).unwrap_or_default();
                        by_handle.insert(handle.to_owned(), one.clone());
                    }
                }
                Reply::Refused(why) => return Ok(Err(why)),
                Reply::Reserved(_) | Reply::Later => {}
            }
            state.insert("subagents".to_owned(), by_handle.into());
        }
        if observe.servers {
            let view = self.servers.borrow().clone();
            state.insert("servers".to_owned(), states(&view, caller));
        }
        if observe.memory || !observe.keys.is_empty() {
            let mut values = Map::new();
            let entries = match observe.memory {
                true => match self.all_kept(caller).await? {
                    Some(entries) => entries,
                    None => {
                        return Ok(Err(format!(
                            "more than {KEYS} keys are remembered; name those that the condition is about"
                        )));
                    }
                },
                false => {
                    let mut entries = Vec::new();
                    for key in observe.keys.iter().take(KEYS) {
                        let now = self.clock.now();
                        let read = self.store.entry(EntryKind::Memory, &caller.owner, key, now);
                        entries.extend(read.await?);
                    }
                    entries
                }
            };
            for entry in entries {
                until = [until, entry.expires_at].into_iter().flatten().min();
                values.insert(entry.key, entry.value);
            }
            state.insert("memory".to_owned(), values.into());
        }
        Ok(Ok(Found { state, until }))
    }

    /// All that the principal has remembered; none where that is too much.
    async fn all_kept(&self, caller: &Caller) -> Result<Option<Vec<agentd_state::Entry>>, StoreError> {
        let query = EntryQuery {
            kind: EntryKind::Memory,
            scope: caller.owner.clone(),
            prefix: String::new(),
            after: None,
            limit: KEYS,
        };
        let page = self.store.entries(query, self.clock.now()).await?;
        Ok((!page.more).then_some(page.entries))
    }
}

/// The servers that the turn holds, and how each is.
fn states(view: &Arc<ServersView>, caller: &Caller) -> Value {
    let held = |name: &str| caller.held.has_server(name);
    let servers = view.servers.iter().filter(|one| held(&one.server.name));
    let states = servers.map(|one| (one.server.name.clone(), json!(one.state)));
    Value::Object(states.collect())
}
