//! `agentd a2a watch`: a task as it is, then what happens to it, each as it comes, until it has ended, waits for somebody,
//! or the user has seen enough.

use agentd_a2a::client::Client;
use agentd_a2a::wire::{StreamResponse, TaskState};
use agentd_base::class::exit;

use super::{A2aError, code_of, print, show};
use crate::signals::{Event, Signals};

/// The exit code.
pub(super) async fn watch(client: &Client, id: &str, json: bool) -> Result<u8, A2aError> {
    let mut signals = Signals::install()?;
    let mut followed = client.follow(id);
    let mut state = TaskState::Unspecified;
    loop {
        let event = tokio::select! {
            event = followed.next() => event.transpose()?,
            () = ended(&mut signals) => return Ok(exit::DONE),
        };
        let Some(event) = event else {
            return Ok(code_of(&state));
        };
        match &event {
            StreamResponse::Task(task) => state = task.status.state.clone(),
            StreamResponse::StatusUpdate(update) => state = update.status.state.clone(),
            StreamResponse::Message(_) => state = TaskState::Completed,
            StreamResponse::ArtifactUpdate(_) => {}
        }
        if !print(&show::event(&event), json)? {
            return Ok(exit::DONE);
        }
    }
}

async fn ended(signals: &mut Signals) {
    while signals.next().await != Event::End {}
}
