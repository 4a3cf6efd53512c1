//! What the kernel says of processes: CPU, memory, wake-ups.

use std::collections::BTreeMap;
use std::time::Duration;

/// `getconf CLK_TCK` is 100 on every Linux that we run on.
const TICK: Duration = Duration::from_millis(10);

fn read(pid: u32, name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok()
}

/// The sum of two numbers of `/proc/PID/stat` in clock ticks, counted from 1 as in proc(5); none when it has ended.
fn ticks(pid: u32, numbers: [usize; 2]) -> Option<Duration> {
    let stat = read(pid, "stat")?;
    // After the program's name, which may hold anything: field 3 is the first.
    let rest: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let number = |number: usize| rest.get(number - 3)?.parse::<u32>().ok();
    let [one, other] = numbers;
    Some(TICK * (number(one)? + number(other)?))
}

/// CPU of all threads of the process so far; none when it has ended.
pub(crate) fn cpu(pid: u32) -> Option<Duration> {
    ticks(pid, [14, 15])
}

/// CPU of the children that have ended and were waited for, and of theirs.
pub(crate) fn children_cpu(pid: u32) -> Duration {
    ticks(pid, [16, 17]).unwrap_or_else(|| panic!("{pid} has ended"))
}

fn kib(text: &str, key: &str) -> u64 {
    let of_key = text.lines().filter_map(|line| line.strip_prefix(key));
    of_key
        .map(|rest| rest.split_whitespace().next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// What is resident.
pub(crate) fn rss_kib(pid: u32) -> u64 {
    kib(
        &read(pid, "status").unwrap_or_else(|| panic!("{pid} has ended")),
        "VmRSS:",
    )
}

/// What no other process shares.
pub(crate) fn unshared_kib(pid: u32) -> u64 {
    let rollup = read(pid, "smaps_rollup").unwrap_or_else(|| panic!("{pid} has ended"));
    kib(&rollup, "Private_Clean:") + kib(&rollup, "Private_Dirty:")
}

/// How often each thread of these processes has waited for something, which is how often it was woken.
pub(crate) fn switches(pids: &[u32]) -> BTreeMap<String, u64> {
    let of_process = |pid: &u32| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let counted = tasks.filter_map(|task| {
            let path = task.unwrap().path();
            let status = std::fs::read_to_string(path.join("status")).ok()?;
            Some((
                path.display().to_string(),
                kib(&status, "voluntary_ctxt_switches:"),
            ))
        });
        counted.collect::<Vec<_>>()
    };
    pids.iter().flat_map(of_process).collect()
}
