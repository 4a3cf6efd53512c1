//! One task and out: the answer on stdout, everything else on stderr, the way it ended in the exit code.

use agentd_base::class::exit;
use agentd_base::trace::TraceContext;
use tokio_util::sync::CancellationToken;

use super::turns::{TurnEnd, TurnInput};
use super::{Foundation, Start, StartError};
use crate::origin::Origin;
use crate::output;
use crate::signals::{Event, Signals};

/// Whose the only conversation is: whoever started the process.
const LOCAL: &str = "local";
/// What a standing instruction alone is begun with.
const BEGIN: &str = "Carry out your instructions now.";

pub(super) async fn run(start: Start, mut signals: Signals) -> Result<u8, StartError> {
    let foundation = Foundation::lay(&start).await?;
    let text = start
        .loaded
        .document
        .agent
        .prompt
        .clone()
        .unwrap_or_else(|| BEGIN.to_owned());
    let mut view = foundation.servers.view();
    tokio::select! {
        // Every server has its own clock: this ends.
        _ = view.wait_for(|view| view.settled()) => {}
        () = ended(&mut signals) => return Ok(exit::FAILURE),
    }
    tracing::info!(
        event = "proc.ready",
        tools = view.borrow().catalogue.entries().len()
    );

    let stop = CancellationToken::new();
    let run_id = foundation.ids.next();
    let input = TurnInput {
        run_id,
        owner: LOCAL.to_owned(),
        conversation: LOCAL.to_owned(),
        transcript: serde_json::Value::Null,
        text,
        hops: 0,
        resumed: None,
        used: Default::default(),
        charge: None,
        origin: Origin::agent(&foundation.runner.instance, within()),
        listener: None,
    };
    let turn = foundation.runner.run(input, &stop);
    tokio::pin!(turn);
    let end = tokio::select! {
        end = &mut turn => end,
        error = foundation.store.lost() => return Err(error.into()),
        why = foundation.runner.office.instruction.unserved() => return Err(StartError::Instruction(why)),
        () = ended(&mut signals) => {
            stop.cancel();
            tokio::select! {
                end = &mut turn => end,
                () = ended(&mut signals) => return Ok(exit::HARD_KILL),
            }
        }
    };
    foundation.runner.office.close_subagents().await;
    foundation.runner.pool.clear();
    let code = match end {
        TurnEnd::Done(result) => {
            let printed = if result.text.is_empty() {
                Ok(())
            } else {
                output::print(&result.text)
            };
            match printed {
                Ok(()) => result.status.exit_code(),
                Err(error) => {
                    tracing::error!(event = "proc.fail", err = %error, "the answer could not be written to standard output");
                    exit::FAILURE
                }
            }
        }
        TurnEnd::Broken { .. } => exit::FAILURE,
    };
    foundation.servers.close().await;
    Ok(code)
}

/// What whoever started the process says that it is part of; what is no `traceparent` is none.
fn within() -> Option<TraceContext> {
    std::env::var("TRACEPARENT").ok()?.parse().ok()
}

async fn ended(signals: &mut Signals) {
    while signals.next().await != Event::End {}
}
