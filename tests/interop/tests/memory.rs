//! What a server that sends too much costs us, and what connections leave behind: measured on this very process, so
//! these tests run one after the other and in a program of their own.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_interop::sane::sane;
use agentd_interop::tap::{Act, Asked, Tap, event, event_head};
use agentd_interop::{arguments, meta, server, worker};
use agentd_mcp::{Connection, Hooks, Outbound};
use serde_json::json;

/// Over what the process has at rest: a few times the longest message that is taken (16 MiB), far from what was sent.
const GROWTH_KIB: u64 = 160 * 1024;
/// The tests' own limit for calls.
const CLOCK: Duration = Duration::from_secs(5);
const SMALL: &str = "an answer that is a million small values";
const CYCLES: usize = 100;

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `VmRSS`, `VmHWM`, in KiB.
fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn open(tap: &Tap) -> Connection {
    let mut declared = server(tap.address.port());
    declared.call_timeout = Some(agentd_base::duration::Duration(CLOCK));
    Connection::open(&declared, None, worker(), &Outbound::default(), Hooks::default())
        .await
        .unwrap()
}

async fn call(connection: &Connection) -> bool {
    let outcome = connection
        .call("echo", arguments(&json!({ "text": "x" })), &meta("k"))
        .await;
    outcome.is_ok_and(|outcome| outcome.text == "echo: x")
}

fn act(name: &str, asked: &Asked) -> Act {
    let mebibyte = vec![b'x'; 1 << 20];
    let json_head =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n".to_vec();
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x".repeat(1 << 16) } });
    match name {
        "100 MB of JSON" => Act::repeated([json_head, b"{\"a\":\"".to_vec()].concat(), mebibyte, Some(100)),
        "100 MB in one event" => {
            Act::repeated([event_head(""), b"data: ".to_vec()].concat(), mebibyte, Some(100))
        }
        "100 MB in events" => Act::repeated(event_head(""), event(&notice).into_bytes(), Some(1600)),
        "100 MB of lines without an end" => {
            Act::repeated(event_head(""), b"data: x\n".repeat(1 << 17), Some(100))
        }
        SMALL => Act::repeated(
            [json_head, b"[0".to_vec()].concat(),
            b",0".repeat(1 << 19),
            Some(15),
        ),
        _ => sane(asked),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn m21_what_a_server_sends_too_much_of_is_not_kept() {
    let _alone = alone();
    runtime().block_on(async {
        let tap = Tap::server(sane).await;
        let connection = open(&tap).await;
        assert!(call(&connection).await);
        let rest = memory("VmRSS:");
        for name in [
            "100 MB of JSON",
            "100 MB in one event",
            "100 MB in events",
            "100 MB of lines without an end",
            SMALL,
        ] {
            tap.rule(move |asked| {
                if asked.what() == "tools/call" {
                    act(name, asked)
                } else {
                    sane(asked)
                }
            });
            assert!(!call(&connection).await, "{name} was taken");
            tap.rule(sane);
            assert!(call(&connection).await, "{name}: of no use afterwards");
            let grown = memory("VmHWM:").saturating_sub(rest);
            assert!(grown < GROWTH_KIB, "{name}: {grown} KiB more than at rest");
        }
        connection.close().await;
    });
}

/// M35: connections that are closed leave no file open, whatever the server did to them.
#[test]
fn m35_connections_leave_nothing_behind() {
    let _alone = alone();
    runtime().block_on(async {
        // The server holds the GET open, so that each connection has a stream that must go.
        let tap = Tap::server(|asked: &Asked| {
            if asked.method == "GET" {
                Act::held(&[])
            } else {
                sane(asked)
            }
        })
        .await;
        let mut files = 0;
        for cycle in 0..CYCLES + 5 {
            let connection = open(&tap).await;
            assert!(call(&connection).await);
            if cycle % 2 == 0 {
                connection.close().await;
            }
            // The other half is dropped, as when its holder is cancelled.
            drop(connection);
            tap.connections(0).await;
            if cycle == 5 {
                files = open_files();
            }
        }
        assert!(
            open_files() <= files + 2,
            "{} files, {files} at the beginning",
            open_files()
        );
        let deleted = tap.log().iter().filter(|asked| asked.method == "DELETE").count();
        assert!(deleted >= CYCLES / 2, "{deleted}");
    });
}
