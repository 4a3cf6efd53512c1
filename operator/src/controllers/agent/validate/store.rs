//! What a spec says of its store, for the document. Pure.
//!
//! Guarantee: Agents that share a server have keys of their own there, by namespace and name.

use std::path::PathBuf;

use agentd_config::document::{Auth, Connection, HttpStore, McpStore, Store, StoreKind};
use agentd_crds::agent;

use super::Work;
use super::servers::Servers;
use crate::controllers::agent::build::document::STATE_FOLDER;
use crate::controllers::subject::Subject;

impl Work {
    pub(super) fn store(
        &mut self,
        asked: Option<&agent::Store>,
        servers: &Servers,
        subject: &Subject,
    ) -> Store {
        // The runtime adds the Agent's name.
        let prefix = Some(format!("agentd.{}", subject.namespace));
        match asked {
            Some(agent::Store { memory: Some(_), .. }) => Store {
                kind: Some(StoreKind::Memory),
                ..Store::default()
            },
            Some(agent::Store { mcp: Some(mcp), .. }) => {
                self.keeper(&mcp.server, servers);
                Store {
                    kind: Some(StoreKind::Mcp),
                    prefix,
                    mcp: Some(McpStore {
                        server: mcp.server.clone(),
                        ..McpStore::default()
                    }),
                    ..Store::default()
                }
            }
            Some(agent::Store { http: Some(http), .. }) => {
                let Connection {
                    headers,
                    mut auth,
                    tls,
                    timeout,
                    // Refused by name elsewhere, as OAuth is.
                    connect_timeout: _,
                } = self
                    .findings
                    .connection("store.http.", (&http.destination).into());
                auth.take_if(|auth| matches!(auth, Auth::OAuth2(_)));
                Store {
                    kind: Some(StoreKind::Http),
                    prefix,
                    timeout,
                    http: Some(HttpStore {
                        base_url: http.url.clone(),
                        headers,
                        auth,
                        tls,
                        ..HttpStore::default()
                    }),
                    ..Store::default()
                }
            }
            Some(agent::Store { .. }) | None => Store {
                kind: Some(StoreKind::File),
                path: Some(PathBuf::from(STATE_FOLDER)),
                ..Store::default()
            },
        }
    }

    /// The server that keeps the state must be there: without it nothing may be accepted.
    fn keeper(&mut self, name: &str, servers: &Servers) {
        match servers.declared.iter().find(|server| server.name == name) {
            None => self.invalid(format!(
                "spec.store.mcp.server: `{name}` is not in spec.mcpServers; add the server there"
            )),
            Some(server) => {
                if let Some(why) = &server.left_out {
                    self.block(format!("the store's server `{name}` is not used: {why}"));
                }
            }
        }
    }
}
