//! The connections of one worker: opened at the first call, shared by all calls, opened again after a loss.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_config::document::McpServer;
use futures::future::join_all;
use tokio::sync::Mutex;

use crate::connection::{ConnectError, Connection, Era, Kind};
use crate::outbound::Outbound;

/// A server that a worker may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its entry in the document.
    pub server: McpServer,
    /// What the supervisor negotiated.
    pub era: Option<Era>,
}

/// See the module.
pub struct Pool {
    outbound: Outbound,
    default_timeout: Option<Duration>,
    members: BTreeMap<String, Place>,
}

struct Place {
    member: Member,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl Pool {
    /// A pool that has dialled nobody yet. `default_timeout` is `mcp.default_timeout`.
    pub fn new(members: Vec<Member>, default_timeout: Option<Duration>, outbound: Outbound) -> Self {
        let place = |member: Member| {
            (
                member.server.name.clone(),
                Place {
                    member,
                    connection: Arc::default(),
                },
            )
        };
        Self {
            outbound,
            default_timeout,
            members: members.into_iter().map(place).collect(),
        }
    }

    /// The connection to a server; `None` for one that is not in the pool. Callers of one server wait for one dial.
    pub async fn get(&self, server: &str) -> Option<Result<Connection, ConnectError>> {
        let place = self.members.get(server)?;
        let mut slot = place.connection.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_lost()) {
            return Some(Ok(connection.clone()));
        }
        *slot = None;
        let kind = Kind::Worker {
            era: place.member.era,
        };
        let opened = Connection::open(&place.member.server, self.default_timeout, kind, &self.outbound).await;
        if let Ok(connection) = &opened {
            *slot = Some(connection.clone());
        }
        Some(opened)
    }

    /// Closes every session, best effort within 1 s.
    pub async fn close(&self) {
        join_all(self.members.values().map(|place| async {
            if let Some(connection) = place.connection.lock().await.take() {
                connection.close().await;
            }
        }))
        .await;
    }
}
