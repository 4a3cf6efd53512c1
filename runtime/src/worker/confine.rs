//! What binds the process of a subagent: how it is scheduled beside others, its memory, its processor time. The process
//! binds itself, before it does anything for the subagent; a worker is never another's afterwards.

use agentd_agent::request::{Priority, SubagentRun};
use rustix::process::{Resource, Rlimit, nice, setrlimit};
use serde::{Deserialize, Serialize};

/// What a worker needs to begin with: an address space under this is none.
const LEAST_MEMORY: u64 = 128 * 1024 * 1024;

/// See the module. By default nothing binds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confine {
    /// Added to that of the agent's processes, which need not be none.
    niceness: u8,
    /// Bytes of address space.
    memory: Option<u64>,
    /// Seconds of a processor.
    cpu: Option<u64>,
}

impl Confine {
    /// What was asked for.
    ///
    /// # Errors
    /// When no worker could live with it.
    pub fn of(asked: &SubagentRun) -> Result<Self, String> {
        let limits = asked.limits.unwrap_or_default();
        let memory = limits.memory.map(|memory| memory.0);
        if memory.is_some_and(|memory| memory < LEAST_MEMORY) {
            return Err("limits.memory is at least 128 MiB".to_owned());
        }
        // The system counts whole seconds, and nothing at all as none.
        let seconds = |cpu: std::time::Duration| (cpu.as_secs() + u64::from(cpu.subsec_nanos() > 0)).max(1);
        Ok(Self {
            niceness: match asked.priority {
                Priority::Low => 10,
                Priority::Normal => 5,
                Priority::High => 0,
            },
            memory,
            cpu: limits.cpu.map(|cpu| seconds(cpu.0)),
        })
    }

    /// Which limits an end that a signal brought may be owed to; none where there are none.
    pub fn limits(&self) -> Option<&'static str> {
        match (self.memory, self.cpu) {
            (None, None) => None,
            (Some(_), None) => Some("limits.memory"),
            (None, Some(_)) => Some("limits.cpu"),
            (Some(_), Some(_)) => Some("limits.memory, limits.cpu"),
        }
    }

    /// Binds this process. Its priority is that of the thread that asks, which is the one that works, and of those that
    /// it starts.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn apply(&self) -> std::io::Result<()> {
        if self.niceness > 0 {
            nice(self.niceness.into())?;
        }
        // A process that uses up its time is told so by a signal of its own, and at the hard limit by none.
        let last = self.cpu.map(|cpu| cpu.saturating_add(1));
        for (resource, current, maximum) in [
            (Resource::As, self.memory, self.memory),
            (Resource::Cpu, self.cpu, last),
        ] {
            if current.is_some() {
                setrlimit(resource, Rlimit { current, maximum })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(more: Value) -> Result<Confine, String> {
        let mut asked = more;
        asked["instruction"] = "go".into();
        Confine::of(&serde_json::from_value(asked).unwrap())
    }

    #[test]
    fn m2_priority_and_limits_of_a_process() {
        let confine = |niceness, memory, cpu| {
            Ok(Confine {
                niceness,
                memory,
                cpu,
            })
        };
        for (asked, bound) in [
            (json!({}), confine(5, None, None)),
            (json!({"priority": "high"}), confine(0, None, None)),
            (
                json!({"priority": "low", "limits": {"memory": "1.5GiB", "cpu": "1500ms"}}),
                confine(10, Some(3 << 29), Some(2)),
            ),
            (json!({"limits": {"cpu": 0}}), confine(5, None, Some(1))),
            (
                json!({"limits": {"memory": "64M"}}),
                Err("limits.memory is at least 128 MiB".to_owned()),
            ),
        ] {
            assert_eq!(of(asked.clone()), bound, "{asked}");
        }
    }
}
