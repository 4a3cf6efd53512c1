//! What an agent costs as processes: supervisor and workers together, judged by what the kernel counted for them, so
//! that a machine that is busy with something else changes nothing. One JSON line for each measure: name, value, unit,
//! n, limit; it fails where a measure is above what the project promises. Model and MCP server are scripted, on loopback, and
//! answer at once; they are this process, which is not measured. Arguments name the parts to run; all without any.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs
)]
// The modules are shared with tests, which use more of them.
#![allow(unreachable_pub, dead_code)]

#[path = "../../../runtime/tests/agentd/a2a.rs"]
mod a2a;
#[path = "../limits.rs"]
mod limits;
mod proc;
#[path = "../../../runtime/tests/agentd/process.rs"]
mod process;
mod scripted;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use a2a::Caller;
use limits::{Limits, measure};
use proc::{children_cpu, cpu, rss_kib, switches, unshared_kib};
use process::Agentd;

/// Of the start, one answer without a tool, and the end.
const ONE_SHOT_MS: f64 = 30.0;
const ONE_SHOTS: u32 = 20;
/// CPU of one tool round: the model's request and answer, the call and its result, and what is written down.
const ROUND_US: f64 = 500.0;
/// Rounds of a long turn over those of a short one.
const ROUNDS: u32 = 40;
const TURNS: u32 = 25;
/// Wake-ups of all processes in a second.
const WAKE_UPS: f64 = 1.0;
const IDLE: Duration = Duration::from_secs(10);
/// Until what a turn leaves to be done is done.
const SETTLED: Duration = Duration::from_secs(3);
const MESSAGES: u32 = 10_000;
/// Messages of one conversation.
const TALK: u32 = 20;
/// After so many the caches are full.
const FULL: u32 = 1_000;
/// What may be kept of nine thousand messages: not half a kilobyte of each.
const GROWN_KIB: f64 = 4_096.0;
/// CPU of a page of tasks.
const LIST_US: f64 = 2_000.0;
const LISTED: u32 = 2_000;
const LISTS: u32 = 200;
const SUBAGENTS: u32 = 32;
const SUBAGENT_KIB: f64 = 1.2 * 1024.0;

fn main() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // `cargo bench` adds arguments of its own.
    let given: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let wanted = |part: &str| given.is_empty() || given.iter().any(|given| given == part);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    let mut limits = Limits::default();
    runtime.block_on(async {
        if wanted("one_shot") {
            one_shots(&mut limits).await;
        }
        if wanted("rounds") {
            rounds(&mut limits).await;
        }
        if wanted("idle") {
            idle(&mut limits).await;
        }
        if wanted("lists") {
            lists(&mut limits).await;
        }
        if wanted("subagents") {
            subagents(&mut limits).await;
        }
        if wanted("messages") {
            messages(&mut limits).await;
        }
    });
    limits.hold();
}

/// What is measured: the program that `AGENTD` names, which is what is shipped; that of this build without.
fn start(arguments: &[&str], folder: &Path) -> Agentd {
    let program = std::env::var_os("AGENTD").unwrap_or_else(|| process::PROGRAM.into());
    Agentd::start_program(Path::new(&program), arguments, &[], folder)
}

/// A long-lived agent with its model and its MCP server.
struct World {
    agentd: Agentd,
    caller: Caller,
    _folder: TempDir,
}

impl World {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let peers = scripted::start().await;
        let document = json!({
            "intelligence": { "endpoints": peers.model(), "model": "scripted" },
            "agent": { "instruction": "Be brief." },
            "mcp": { "servers": [{ "name": "fs", "endpoint": peers.mcp() }] },
            "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
            "store": { "path": folder.path().join("state") },
            // All at once, for one caller.
            "limits": { "subagents": { "breadth": SUBAGENTS, "rate": "1000/1m" } },
        });
        let file = folder.path().join("agentd.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let mut agentd = start(&["-c", file.to_str().unwrap()], folder.path());
        let a2a = agentd.address("a2a.listen").await;
        agentd.event("mcp.connect").await;
        Self {
            agentd,
            caller: Caller::new(&a2a),
            _folder: folder,
        }
    }

    /// Supervisor and workers.
    fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.agentd.pid()];
        all.extend(self.agentd.workers());
        all
    }

    /// CPU of all processes so far, those that have ended included.
    fn cpu(&self) -> Duration {
        loop {
            let ended = children_cpu(self.agentd.pid());
            let own = cpu(self.agentd.pid()).expect("the supervisor runs");
            let workers: Option<Vec<Duration>> = self.agentd.workers().into_iter().map(cpu).collect();
            // One that has ended meanwhile is in none of them or in both.
            if let Some(workers) = workers
                && children_cpu(self.agentd.pid()) == ended
            {
                return workers.into_iter().fold(ended + own, |sum, one| sum + one);
            }
        }
    }

    async fn say(&self, id: &str, context: &str, text: &str) {
        let task = self.caller.send(id, text, json!({ "contextId": context })).await;
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task:#}");
    }
}

/// `agentd` from its start to its end with one answer of the model.
async fn one_shots(limits: &mut Limits) {
    let peers = scripted::start().await;
    let folder = tempfile::tempdir().unwrap();
    let model = peers.model();
    let arguments = [
        "--intelligence",
        &model,
        "--model",
        "scripted",
        "--instruction",
        "Be brief.",
        "--prompt",
        "hi",
    ];
    let us = std::process::id();
    let run = async || {
        let (status, answer, lines) = start(&arguments, folder.path()).end().await;
        assert!(status.success() && answer.contains("done"), "{answer} {lines:#?}");
    };
    run().await;
    let before = children_cpu(us);
    let mut walls = Vec::new();
    for _ in 0..ONE_SHOTS {
        let began = Instant::now();
        run().await;
        walls.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let cpu = (children_cpu(us) - before).as_secs_f64() * 1e3 / f64::from(ONE_SHOTS);
    walls.sort_by(f64::total_cmp);
    limits.judge("agent.one_shot.cpu", cpu, "ms", ONE_SHOTS, ONE_SHOT_MS);
    measure("agent.one_shot.wall_min", walls[0], "ms", ONE_SHOTS);
    measure("agent.one_shot.wall_p50", walls[walls.len() / 2], "ms", ONE_SHOTS);
}

/// What a round more costs: a turn with many rounds less a turn with one, each in a conversation of its own.
async fn rounds(limits: &mut Limits) {
    let world = World::start().await;
    let mut spent = [Duration::ZERO; 2];
    for (which, rounds) in [(0, 1), (1, 1 + ROUNDS)] {
        // One that nobody counts.
        for turn in 0..=TURNS {
            let before = world.cpu();
            let context = format!("c-{which}-{turn}");
            world
                .say(
                    &format!("m-{which}-{turn}"),
                    &context,
                    &format!("rounds {rounds}"),
                )
                .await;
            if turn > 0 {
                spent[which] += world.cpu() - before;
            }
        }
    }
    let all = ROUNDS * TURNS;
    let round = (spent[1].as_secs_f64() - spent[0].as_secs_f64()) * 1e6 / f64::from(all);
    limits.judge("agent.tool_round.cpu", round, "us", all, ROUND_US);
    let turn = spent[0].as_secs_f64() * 1e3 / f64::from(TURNS);
    measure("agent.first_turn.cpu", turn, "ms", TURNS);
}

/// An agent that has answered and waits, its worker warm and its MCP connections open.
async fn idle(limits: &mut Limits) {
    let world = World::start().await;
    world.say("m", "c", "rounds 1").await;
    tokio::time::sleep(SETTLED).await;
    let processes = world.processes();
    let (before, began) = (switches(&processes), Instant::now());
    tokio::time::sleep(IDLE).await;
    // Threads of pools end when they have had nothing to do for a while; one that has is not counted.
    let woken: u64 = switches(&processes)
        .iter()
        .map(|(thread, now)| now - before.get(thread).copied().unwrap_or_default())
        .sum();
    let second = woken as f64 / began.elapsed().as_secs_f64();
    assert_eq!(world.processes(), processes, "the worker is still there");
    limits.judge(
        "agent.idle.wake_ups",
        second,
        "1/s",
        u32::try_from(processes.len()).unwrap(),
        WAKE_UPS,
    );
}

/// `ListTasks`, the first page of ten.
async fn lists(limits: &mut Limits) {
    let world = World::start().await;
    for number in 0..LISTED {
        world
            .say(&format!("m{number}"), &format!("c{}", number / TALK), "hi")
            .await;
    }
    let list = async || {
        let answer = world.caller.call("ListTasks", json!({ "pageSize": 10 })).await;
        let answer: Value = answer.unwrap();
        assert_eq!(
            answer["result"]["tasks"].as_array().map(Vec::len),
            Some(10),
            "{answer:#}"
        );
    };
    list().await;
    let before = world.cpu();
    for _ in 0..LISTS {
        list().await;
    }
    let one = (world.cpu() - before).as_secs_f64() * 1e6 / f64::from(LISTS);
    limits.judge("agent.list_tasks.cpu", one, "us", LISTS, LIST_US);
}

/// Subagents that have answered and are kept warm, each with a worker and a connection of its own: what each holds alone.
async fn subagents(limits: &mut Limits) {
    let world = World::start().await;
    let before = world.agentd.workers();
    world.say("m", "c", &format!("spawn {SUBAGENTS}")).await;
    tokio::time::sleep(SETTLED).await;
    let mut held: Vec<f64> = world
        .agentd
        .workers()
        .into_iter()
        .filter(|worker| !before.contains(worker))
        .map(|worker| unshared_kib(worker) as f64)
        .collect();
    let n = u32::try_from(held.len()).unwrap();
    // That of the conversation is one more.
    assert_eq!(n, SUBAGENTS + 1, "all of them live");
    held.sort_by(f64::total_cmp);
    let median = held[held.len() / 2];
    limits.judge("agent.warm_subagent.private", median, "KiB", n, SUBAGENT_KIB);
    measure("agent.warm_subagent.private_max", held[held.len() - 1], "KiB", n);
}

/// The supervisor after a thousand messages, and after nine thousand more.
async fn messages(limits: &mut Limits) {
    let world = World::start().await;
    let mut full = 0;
    for number in 0..MESSAGES {
        if number == FULL {
            full = rss_kib(world.agentd.pid());
        }
        world
            .say(&format!("m{number}"), &format!("c{}", number / TALK), "hi")
            .await;
    }
    let grown = rss_kib(world.agentd.pid()) as f64 - full as f64;
    measure("agent.messages.rss_before", full as f64, "KiB", FULL);
    limits.judge(
        "agent.messages.rss_grown",
        grown,
        "KiB",
        MESSAGES - FULL,
        GROWN_KIB,
    );
}
