//! Our MCP client against a server that misbehaves: whatever it does, there is a typed error in bounded time, and the
//! connection is of use afterwards.

mod answers;
mod handshakes;
mod lists;
mod noise;
mod streams;

use std::time::{Duration, Instant};

use agentd_config::document::McpServer;
use agentd_interop::sane::sane;
use agentd_interop::tap::{Act, Asked, Tap};
use agentd_interop::{arguments, boot, hasty, meta, server, worker};
use agentd_mcp::{CallError, ConnectError, Connection, Hooks, Kind, Outbound, ToolOutcome};
use serde_json::json;

/// The clock of a call or a page in these tests.
const CLOCK: Duration = Duration::from_secs(2);
/// More than the clocks allow, on a machine that is busy with other tests.
const BOUND: Duration = Duration::from_secs(25);

/// The scripted server, one answer of which is another.
fn but(what: &'static str, act: impl Fn(&Asked) -> Act) -> impl Fn(&Asked) -> Act {
    move |asked| {
        if asked.what() == what {
            act(asked)
        } else {
            sane(asked)
        }
    }
}

/// Calls have a short clock, everything else a long one.
fn impatient(tap: &Tap) -> McpServer {
    let call_timeout = Some(agentd_base::duration::Duration(CLOCK));
    McpServer {
        call_timeout,
        ..server(tap.address.port())
    }
}

async fn open(server: &McpServer, kind: Kind) -> Result<Connection, ConnectError> {
    Connection::open(server, None, kind, &Outbound::default(), Hooks::default()).await
}

async fn echo(connection: &Connection, text: &str) -> Result<ToolOutcome, CallError> {
    connection
        .call("echo", arguments(&json!({ "text": text })), &meta(text))
        .await
}

/// That `future` ends within [`BOUND`].
async fn bounded<T>(what: &str, future: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let value = future.await;
    let took = began.elapsed();
    assert!(took < BOUND, "{what} took {took:?}");
    value
}

/// A connection of which one answer goes wrong; afterwards it works.
async fn survives(
    name: &str,
    act: impl Fn(&Asked) -> Act + Send + Sync + 'static,
) -> Result<ToolOutcome, CallError> {
    let tap = Tap::server(sane).await;
    let connection = open(&impatient(&tap), worker()).await.unwrap();
    tap.rule(but("tools/call", act));
    let result = bounded(name, echo(&connection, "wrong")).await;
    assert_eq!(tap.count("tools/call"), 1, "{name}: a call is sent once");
    tap.rule(sane);
    let after = bounded(name, echo(&connection, "after")).await;
    let after = after.unwrap_or_else(|error| panic!("{name}: of no use afterwards: {error}"));
    assert_eq!(after.text, "echo: after", "{name}");
    connection.close().await;
    result
}

/// Why a handshake came to nothing, in bounded time.
async fn refused(name: &str, rule: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> ConnectError {
    let tap = Tap::server(rule).await;
    let opened = bounded(name, open(&hasty(tap.address.port(), CLOCK), boot())).await;
    match opened {
        Ok(_) => panic!("{name}: connected"),
        Err(error) => error,
    }
}
