//! What a worker is told before and during a turn: the configuration and the identity where they have changed, then the
//! turn.

use agentd_agent::Held;
use agentd_base::report::ServerState;
use agentd_config::document::ToolsRefresh;
use agentd_identity::{IdentitySource, Snapshot as IdentitySnapshot};
use agentd_mcp::{ServerView, ServersView};

use super::office::contracts;
use super::settings::Settings;
use super::subagents::narrowed;
use super::turns::{TurnInput, TurnRunner, caller_of};
use crate::worker::frame::{Configure, IdentityMaterial, Reachable, SecretPem, ToWorker, Turn};
use crate::worker::framing::FrameError;
use crate::worker::pool::Warm;

impl TurnRunner {
    /// Tells the worker what has changed since its last turn, then the turn.
    pub(super) async fn prepare(
        &self,
        warm: &mut Warm,
        settings: &Settings,
        input: TurnInput,
    ) -> Result<(), FrameError> {
        let caller = caller_of(&input, &settings.document.limits.run);
        if warm.generation != Some(settings.generation) {
            let configure = Configure {
                generation: settings.generation,
                document: narrowed(&settings.document, &caller.held),
                parent: std::process::id(),
            };
            warm.worker
                .send(&ToWorker::Configure(Box::new(configure)))
                .await?;
            warm.generation = Some(settings.generation);
        }
        let seen = warm.identity.as_ref();
        if seen.is_none_or(|seen| seen.has_changed().unwrap_or(false)) {
            self.send_identity(warm).await?;
        }
        let view = self.servers.borrow().clone();
        if settings.document.mcp.tools_refresh == ToolsRefresh::Reload {
            give_tools(warm, &view, &caller.held).await?;
        }
        let charge = input.charge;
        let turn = Turn {
            run_id: input.run_id,
            instance: self.instance.clone(),
            origin: input.origin,
            transcript: input.transcript,
            text: input.text,
            resumed: input.resumed,
            holder: caller.holder,
            limits: caller.spent.limits(),
            role: charge
                .as_ref()
                .map(|charge| charge.role.clone())
                .unwrap_or_default(),
            confine: charge.as_ref().map(|charge| charge.confine).unwrap_or_default(),
            output_schema: charge.and_then(|charge| charge.output_schema),
            mapped: contracts(&settings.document, &view).into_keys().collect(),
            is_heard: input.listener.is_some(),
            instruction: self.office.instruction.now(),
            has_own: self.office.has_completions(&caller.root).await,
            servers: reachable(&view, &caller.held),
            held: caller.held,
        };
        warm.worker.send(&ToWorker::Turn(Box::new(turn))).await
    }

    /// The identity of now, whatever the worker has.
    pub(super) async fn send_identity(&self, warm: &mut Warm) -> Result<(), FrameError> {
        let Some(source) = &self.identity else {
            return Ok(());
        };
        let receiver = warm.identity.get_or_insert_with(|| source.subscribe());
        let snapshot = receiver.borrow_and_update().clone();
        warm.worker
            .send(&ToWorker::Identity(material(source, &snapshot)))
            .await
    }
}

/// Gives the worker the catalogue's tools where they are not those that it has, so that a conversation that began later
/// has no others. Tools that are too much for a frame the worker lists itself.
async fn give_tools(warm: &mut Warm, view: &ServersView, held: &Held) -> Result<(), FrameError> {
    for server in connected(view, held) {
        let digest = of_tools(server);
        let name = server.server.name.clone();
        if warm.tools.get(&name) == Some(&digest) {
            continue;
        }
        let given = server
            .tools
            .iter()
            .filter(|tool| held.has_tool(&name, &tool.name));
        let tools = ToWorker::Tools {
            server: name.clone(),
            tools: given.cloned().collect(),
        };
        match warm.worker.send(&tools).await {
            Ok(()) => {
                warm.tools.insert(name, digest);
            }
            Err(error @ (FrameError::TooLong(_) | FrameError::TooDeep)) => {
                tracing::warn!(event = "mcp.spec.invalid", mcp.server = name, err = %error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn connected<'a>(view: &'a ServersView, held: &'a Held) -> impl Iterator<Item = &'a ServerView> {
    let servers = view.servers.iter();
    servers.filter(|server| server.state == ServerState::Connected && held.has_server(&server.server.name))
}

/// The servers that a worker may dial now.
fn reachable(view: &ServersView, held: &Held) -> Vec<Reachable> {
    let reachable = connected(view, held).map(|server| Reachable {
        name: server.server.name.clone(),
        era: server.era,
        digest: of_lists(server),
    });
    reachable.collect()
}

fn of_tools(server: &ServerView) -> String {
    let digests: Vec<&str> = server.tools.iter().map(|tool| tool.digest.as_str()).collect();
    agentd_base::digest::of(digests.join(" ").as_bytes())
}

fn of_lists(server: &ServerView) -> String {
    let uris = server.resources.iter().map(|resource| resource.uri.as_str());
    let lists: Vec<&str> = uris.collect();
    let lists = format!("{} {}", of_tools(server), lists.join(" "));
    agentd_base::digest::of(lists.as_bytes())
}

fn material(source: &IdentitySource, snapshot: &IdentitySnapshot) -> IdentityMaterial {
    let svid = snapshot.svid.as_ref();
    IdentityMaterial {
        trust_domain: source.trust_domain().to_string(),
        bundle: snapshot.bundle.as_ref().map(|bundle| bundle.to_pem()),
        certificates: svid.map(|svid| svid.chain_pem()),
        key: svid.map(|svid| SecretPem::new(svid.key_pem().to_string())),
    }
}
