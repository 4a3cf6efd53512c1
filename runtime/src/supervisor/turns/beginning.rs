//! Gives a turn to a worker: the one of its conversation that waits, or a new one. What becomes of a worker before it
//! said that it began costs the turn nothing.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::following::{Followed, Lost};
use super::{TurnInput, TurnRunner};
use crate::supervisor::settings::Settings;
use crate::worker::frame::TurnResult;
use crate::worker::framing::FrameError;
use crate::worker::pool::Warm;
use crate::worker::process::Incoming;

/// For a worker that could not be told a turn to say how it ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl TurnRunner {
    /// A turn that a worker took, and how it left it. One that had waited and was killed before it said that it began
    /// has called nothing: the turn begins again in another, once, lest a message that kills workers kills them all.
    pub(super) async fn begun(
        &self,
        settings: &Settings,
        input: TurnInput,
        turn: &mut Followed,
        stop: &CancellationToken,
    ) -> Result<(Warm, Result<Box<TurnResult>, Lost>), String> {
        let (mut warm, waited) = self.begin(settings, &input).await?;
        let ended = self.follow(&mut warm, turn, stop).await;
        match ended {
            Err(Lost::Idle(reason)) if waited && !stop.is_cancelled() => {
                self.metrics.restart();
                tracing::warn!(event = "child.exit", run.id = input.run_id, err = reason);
                (warm, _) = self.begin(settings, &input).await?;
                let ended = self.follow(&mut warm, turn, stop).await;
                Ok((warm, ended))
            }
            ended => Ok((warm, ended)),
        }
    }

    /// A worker that has the turn, and whether it had waited for one. One that is gone when it is told is replaced.
    async fn begin(&self, settings: &Settings, input: &TurnInput) -> Result<(Warm, bool), String> {
        loop {
            let mut warm = self
                .pool
                .take(&input.conversation)
                .map_err(|error| format!("no worker process could be started: {error}"))?;
            tracing::debug!(
                event = "turn.spawn",
                run.id = input.run_id,
                worker = warm.worker.pid()
            );
            let was_warm = warm.generation.is_some();
            match self.prepare(&mut warm, settings, input.clone()).await {
                Ok(()) => return Ok((warm, was_warm)),
                // Another worker could not take it either.
                Err(error @ (FrameError::TooLong(_) | FrameError::TooDeep)) => return Err(error.to_string()),
                Err(error) => {
                    let reason = self.bury(warm, error.to_string()).await;
                    if !was_warm {
                        return Err(reason);
                    }
                    self.metrics.restart();
                    tracing::warn!(event = "child.exit", run.id = input.run_id, err = reason);
                }
            }
        }
    }

    /// A worker that could not be spoken to: how it ended, if it has, else `otherwise`.
    async fn bury(&self, mut warm: Warm, otherwise: String) -> String {
        let end = async {
            loop {
                match warm.worker.next().await {
                    Some(Incoming::Exited(exit)) => return exit.describe(),
                    Some(Incoming::Frame(_)) => {}
                    None => return otherwise.clone(),
                }
            }
        };
        match tokio::time::timeout(LAST_WORDS, end).await {
            Ok(reason) => reason,
            Err(_) => {
                warm.worker.kill().await;
                otherwise
            }
        }
    }
}
