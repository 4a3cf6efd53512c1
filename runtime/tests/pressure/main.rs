//! `agentd` as a process under pressure: more than it can take, a disk that takes nothing, an output that takes nothing.
//! A program of its own, so that what is measured is not what other tests use.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods
)]
// The modules are shared with another program, which uses more of them.
#![allow(unreachable_pub, dead_code)]

#[path = "../agentd/a2a.rs"]
mod a2a;
#[path = "../agentd/loopback.rs"]
mod loopback;
#[path = "../agentd/model.rs"]
mod model;
#[path = "../agentd/process.rs"]
mod process;
#[path = "../agentd/world.rs"]
mod world;

mod memory;
mod output;
mod store;

use nix::sys::signal::Signal;

use crate::a2a::Caller;
use crate::process::Agentd;
use crate::world::World;

impl World {
    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let url = self.model.url();
        let mut arguments = vec![
            "--intelligence",
            &url,
            "--model",
            "scripted",
            "--instruction",
            "Be brief.",
        ];
        arguments.extend(more);
        arguments.into_iter().map(str::to_owned).collect()
    }

    /// Starts the long-lived agent by this shell line and waits for its ports: A2A and admin.
    async fn start(&self, line: &str) -> (Agentd, Caller, Caller) {
        let state = self.folder.path().join("state");
        let arguments = self.arguments(&[
            "--a2a.listen",
            "http://127.0.0.1:0",
            "--a2a.dev",
            "--observability.metrics_addr",
            "127.0.0.1:0",
            "--store.path",
            state.to_str().unwrap(),
        ]);
        let mut agentd = Agentd::start_by_shell(line, &arguments, &[], self.folder.path());
        let a2a = agentd.address("a2a.listen").await;
        let admin = agentd.address("metrics.serving").await;
        agentd.event("proc.ready").await;
        (agentd, Caller::new(&a2a), Caller::new(&admin))
    }
}

/// A line of `/proc/PID/status` in KiB: `VmHWM` is the most that was resident at once.
fn status(agentd: &Agentd, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", agentd.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

async fn killed(agentd: Agentd) {
    agentd.signal(Signal::SIGKILL);
    agentd.end().await;
}
