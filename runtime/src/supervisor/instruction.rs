//! The standing instruction where it is a resource of a declared server: found at the start, read, subscribed to, and
//! known to every turn that begins later. Guarantees: no turn begins without it; one that is there stays until another
//! is; a server that says the resource changed is believed and read again; whoever asks for another one gets it from the
//! server that the operator named by the first, and from no other.

use std::sync::Arc;

use agentd_agent::Instruction;
use agentd_base::limit::INSTRUCTION_BYTES;
use agentd_base::report::ServerState;
use agentd_identity::IdentitySource;
use agentd_mcp::supervised::Lines;
use agentd_mcp::{CallMeta, Change, Content, Digest, ReadError, ResourceConsumer, ServersView};
use async_trait::async_trait;
use tokio::sync::watch;

use super::settings::{SettingsWatch, current};

/// Where it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum State {
    /// It is a text of the configuration.
    #[default]
    Static,
    /// It was not read yet.
    Pending,
    /// Where it was found, and as it was read last.
    Read(Place, Arc<Instruction>),
    /// Every server was asked, and none has it.
    Unserved(String),
}

/// Where a resource is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    server: String,
    uri: String,
}

/// The instruction as turns and the supervisor see it; a text of the configuration by default. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    state: watch::Sender<State>,
    /// What a turn asked for in the place of what is configured. Each time it is sent is another subscription.
    wish: watch::Sender<Option<Place>>,
}

impl Standing {
    /// One that is to be read before the first turn.
    pub fn pending() -> Self {
        let standing = Self::default();
        standing.state.send_replace(State::Pending);
        standing
    }

    /// Whether it is still to be read.
    pub fn is_pending(&self) -> bool {
        *self.state.borrow() == State::Pending
    }

    /// Returns when a turn may begin.
    pub async fn known(&self) {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| matches!(state, State::Static | State::Read(..)));
        // The sender is here.
        let _ = known.await;
    }

    /// The instruction; none where it is a text of the configuration.
    pub fn now(&self) -> Option<Instruction> {
        match &*self.state.borrow() {
            State::Read(_, read) => Some(read.as_ref().clone()),
            State::Static | State::Pending | State::Unserved(_) => None,
        }
    }

    /// Returns when no server has it: why.
    pub async fn unserved(&self) -> String {
        let mut state = self.state.subscribe();
        let unserved = state.wait_for(|state| matches!(state, State::Unserved(_))).await;
        match unserved.as_deref() {
            Ok(State::Unserved(why)) => why.clone(),
            _ => std::future::pending().await,
        }
    }

    /// `instruction.subscribe`: reads the resource, subscribes to it anew, and lets it count from the next turn on.
    pub async fn subscribe(
        &self,
        uri: Option<String>,
        lines: &Lines,
        instance: &str,
    ) -> Result<Arc<Instruction>, String> {
        let State::Read(found, _) = self.state.borrow().clone() else {
            return Err(
                "the instruction of this agent is no resource: it follows its configuration by itself"
                    .to_owned(),
            );
        };
        let place = Place {
            uri: uri.unwrap_or(found.uri),
            server: found.server,
        };
        let (read, _) = read(&place, lines, instance).await?;
        self.take(&place, read.clone());
        self.wish.send_replace(Some(place));
        Ok(read)
    }

    /// This one counts from now on.
    fn take(&self, place: &Place, read: Arc<Instruction>) {
        self.state.send_if_modified(|state| {
            let event = match state {
                // Only where it is may have changed.
                State::Read(_, before) if *before == read => None,
                State::Read(..) => Some("instruction.updated"),
                _ => Some("instruction.loaded"),
            };
            if let Some(event) = event {
                let version = read.version();
                tracing::info!(event, mcp.server = place.server, uri = place.uri, version);
            }
            *state = State::Read(place.clone(), read);
            event.is_some()
        });
    }
}

/// Reads it, for whoever asks.
async fn read(place: &Place, lines: &Lines, instance: &str) -> Result<(Arc<Instruction>, Digest), String> {
    let Place { server, uri } = place;
    let Some(connection) = lines.connection(server) else {
        return Err(format!("server {server} is not connected now; try later"));
    };
    let meta = CallMeta {
        instance: instance.to_owned(),
        ..CallMeta::default()
    };
    match connection.read(uri, &meta).await {
        Ok(contents) => {
            let digest = Digest::of(&contents);
            Ok((Arc::new(instruction(uri, &contents)?), digest))
        }
        Err(ReadError::NotFound { .. }) => Err(format!("server {server} has no such resource")),
        Err(error) => Err(format!("server {server}: {error}")),
    }
}

/// The text of a resource as an instruction.
fn instruction(uri: &str, contents: &[Content]) -> Result<Instruction, String> {
    let texts = contents.iter().filter_map(|content| match content {
        Content::Text { text, .. } => Some(text.as_str()),
        Content::Blob { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    if text.trim().is_empty() {
        return Err("the resource holds no text".to_owned());
    }
    if text.len() > INSTRUCTION_BYTES {
        let bytes = text.len();
        return Err(format!(
            "the resource has {bytes} bytes, and an instruction has at most {INSTRUCTION_BYTES}"
        ));
    }
    Ok(Instruction {
        text,
        uri: Some(uri.to_owned()),
    })
}

/// Keeps the instruction what it is to be, as long as the agent runs.
pub(super) struct Follower {
    pub(super) standing: Standing,
    pub(super) settings: SettingsWatch,
    pub(super) servers: watch::Receiver<Arc<ServersView>>,
    pub(super) lines: Lines,
    pub(super) instance: String,
    pub(super) identity: Option<IdentitySource>,
}

impl Follower {
    pub(super) async fn run(mut self) {
        let mut wishes = self.standing.wish.subscribe();
        let mut configured = None;
        loop {
            self.settings.mark_unchanged();
            let settings = current(&self.settings);
            let uri = settings.document.instruction_uri().map(str::to_owned);
            if configured != uri {
                // What a turn asked for was in the place of what was configured then.
                self.standing.wish.send_replace(None);
                configured.clone_from(&uri);
            }
            let Some(uri) = uri else {
                self.standing.state.send_replace(State::Static);
                if self.settings.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let wished = wishes.borrow_and_update().clone();
            let declared = |place: &Place| {
                let servers = &settings.document.mcp.servers;
                servers.iter().any(|server| server.name == place.server)
            };
            let mut changes = self.settings.clone();
            let (place, known) = match wished.filter(declared) {
                Some(place) => (place, None),
                None => tokio::select! {
                    found = self.find(&uri) => found,
                    changed = changes.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                },
            };
            let reader = Arc::new(Reader {
                standing: self.standing.clone(),
                place: place.clone(),
            });
            let watching = self.lines.watch(&place.server, &place.uri, reader, known);
            tokio::select! {
                changed = self.settings.changed() => if changed.is_err() { return },
                _ = wishes.changed() => {}
            }
            drop(watching);
        }
    }

    /// The server that has it, as soon as there is one. Those that list it come first.
    async fn find(&self, uri: &str) -> (Place, Option<Digest>) {
        let mut servers = self.servers.clone();
        let mut identity = self.identity.as_ref().map(IdentitySource::subscribe);
        loop {
            let view = servers.borrow_and_update().clone();
            let connected = view
                .servers
                .iter()
                .filter(|one| one.state == ServerState::Connected);
            let (mut first, then): (Vec<_>, Vec<_>) =
                connected.partition(|one| one.resources.iter().any(|resource| resource.uri == uri));
            first.extend(then);
            let mut faults = Vec::new();
            for one in first {
                let place = Place {
                    server: one.server.name.clone(),
                    uri: uri.to_owned(),
                };
                match read(&place, &self.lines, &self.instance).await {
                    Ok((read, digest)) => {
                        self.standing.take(&place, read);
                        return (place, Some(digest));
                    }
                    Err(why) => faults.push(why),
                }
            }
            let named = match &mut identity {
                None => true,
                Some(identity) => identity.borrow_and_update().svid.is_some(),
            };
            if view.settled() && named {
                let away = view
                    .servers
                    .iter()
                    .filter(|one| one.state != ServerState::Connected);
                faults.extend(away.map(|one| format!("server {} is not connected", one.server.name)));
                let why = format!("no server serves agent.instruction: {}", faults.join("; "));
                tracing::error!(event = "instruction.subscribe.fail", uri, "{why}");
                self.standing.state.send_if_modified(|state| {
                    // One that is there stays.
                    let is_first = *state == State::Pending;
                    if is_first {
                        *state = State::Unserved(why);
                    }
                    is_first
                });
            }
            let named = async {
                match identity.as_mut().filter(|_| !named) {
                    None => std::future::pending().await,
                    Some(identity) => identity.changed().await,
                }
            };
            let changed = tokio::select! {
                changed = servers.changed() => changed,
                changed = named => changed,
            };
            if changed.is_err() {
                // The supervision has ended, and the agent with it.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Takes up what the resource becomes.
struct Reader {
    standing: Standing,
    place: Place,
}

#[async_trait]
impl ResourceConsumer for Reader {
    async fn changed(&self, change: Change) {
        match instruction(&self.place.uri, &change.contents) {
            Ok(read) => self.standing.take(&self.place, Arc::new(read)),
            // The one before stays.
            Err(why) => {
                let Place { server, uri } = &self.place;
                tracing::error!(
                    event = "instruction.update.fail",
                    mcp.server = server,
                    uri,
                    "{why}"
                );
            }
        }
    }

    async fn armed(&self, first: Change) {
        self.changed(first).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Content {
        Content::Text {
            uri: "note:///i".into(),
            mime_type: None,
            text: text.into(),
        }
    }

    #[test]
    fn m2_the_text_of_a_resource_is_an_instruction_within_the_bounds_of_one() {
        let read = instruction("note:///i", &[text("Be kind."), text("Be brief.")]).unwrap();
        let expected = Instruction {
            text: "Be kind.\n\nBe brief.".into(),
            uri: Some("note:///i".into()),
        };
        assert_eq!(read, expected);
        let blob = Content::Blob {
            uri: "note:///i".into(),
            mime_type: None,
            base64: "AAAA".into(),
        };
        assert!(instruction("note:///i", &[blob]).unwrap_err().contains("no text"));
        assert!(
            instruction("note:///i", &[text(" \n")])
                .unwrap_err()
                .contains("no text")
        );
        let long = text(&"x".repeat(INSTRUCTION_BYTES + 1));
        assert!(instruction("note:///i", &[long]).unwrap_err().contains("at most"));
    }
}
