//! The audit line: who did what to what on whose behalf, and how it came out (contract/runtime.md section 14). Written by
//! the supervisor alone, whoever acted, by one function, so that each line has the same fields; never dependent on the
//! log level; never with an argument or a result.

use agentd_base::text::AUDIT;

use crate::worker::frame::ToolCalled;

/// Who acts when it is nobody's turn: the agent itself, by its configuration.
pub const SYSTEM: &str = "system";

/// One line. `ts` is that of the log line.
#[derive(Debug, Clone, Copy)]
pub struct Audit<'a> {
    /// The agent's name.
    pub instance: &'a str,
    /// On whose behalf.
    pub principal: &'a str,
    /// What kind of actor: `root`, `subagent`, [`SYSTEM`].
    pub role: &'a str,
    /// What was done, such as `tool.call`.
    pub action: &'static str,
    /// To what: a tool, as `server/tool` where it is a server's.
    pub target: &'a str,
    /// How it came out.
    pub outcome: &'a str,
    /// The run, and the call in it.
    pub request_id: &'a str,
    /// W3C trace context of the act.
    pub trace: &'a str,
    /// How long it took, in milliseconds; none for what takes no time.
    pub dur_ms: Option<u64>,
}

impl Audit<'_> {
    /// Writes it down.
    pub fn write(self) {
        tracing::info!(
            target: AUDIT,
            event = "audit",
            instance = self.instance,
            principal = self.principal,
            role = self.role,
            action = self.action,
            target = self.target,
            outcome = self.outcome,
            request_id = self.request_id,
            trace = self.trace,
            dur_ms = self.dur_ms,
        );
    }
}

/// A call that a worker told of, or that was made here.
pub fn call(instance: &str, principal: &str, role: &str, call: &ToolCalled) {
    let target = match &call.server {
        // What is read there may say too much.
        Some(server) if call.tool.is_empty() => server.clone(),
        Some(server) => format!("{server}/{}", call.tool),
        None => call.tool.clone(),
    };
    Audit {
        instance,
        principal,
        role,
        action: call.action.label(),
        target: &target,
        outcome: call.outcome.label(),
        request_id: &call.request_id,
        trace: &call.trace,
        dur_ms: Some(call.millis),
    }
    .write();
}
