//! What the machine leaves to this process: read when somebody reads the metrics, and never by a clock.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

/// The cgroup that a container sees as its own.
const CGROUP: &str = "/sys/fs/cgroup";

/// See the module. What cannot be found out is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machine {
    /// The memory that there may be at most.
    pub memory_max: Option<u64>,
    /// The memory in use.
    pub memory: Option<u64>,
    /// Free where the store is.
    pub disk_free: Option<u64>,
}

impl Machine {
    /// As it is now. A file system that hangs makes this hang: not where others wait.
    pub fn read(store: Option<&Path>) -> Self {
        let cgroup = |name: &str| {
            let text = std::fs::read_to_string(PathBuf::from(CGROUP).join(name)).ok()?;
            text.trim().parse().ok()
        };
        let proc = |file: &str, member: &str| member_kib(&std::fs::read_to_string(file).ok()?, member);
        Self {
            memory_max: cgroup("memory.max").or_else(|| proc("/proc/meminfo", "MemTotal:")),
            memory: cgroup("memory.current").or_else(|| proc("/proc/self/status", "VmRSS:")),
            disk_free: store.and_then(free),
        }
    }
}

fn free(store: &Path) -> Option<u64> {
    let system = statvfs(store).ok()?;
    Some(system.blocks_available().saturating_mul(system.fragment_size()))
}

/// `Member:   12 kB`, in bytes.
fn member_kib(text: &str, member: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(member))?;
    let count: u64 = rest.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    count.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_memory_and_a_folder_is_on_a_disk() {
        let machine = Machine::read(Some(Path::new("/")));
        let Machine {
            memory_max: Some(most),
            memory: Some(now),
            disk_free: Some(_),
        } = machine
        else {
            panic!("{machine:?}");
        };
        assert!(now > 0 && most > now, "{machine:?}");
        assert_eq!(Machine::read(None).disk_free, None);
        assert_eq!(Machine::read(Some(Path::new("/nowhere"))).disk_free, None);
        let status = "Name:\tagentd\nVmRSS:\t    2048 kB\nOdd:\tkB\n";
        assert_eq!(member_kib(status, "VmRSS:"), Some(2 * 1024 * 1024));
        assert_eq!(member_kib(status, "Odd:"), None);
    }
}
