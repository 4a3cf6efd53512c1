//! `spec.run` and `spec.limits`: how long the agent lives, and what one turn may use up.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::Duration;

/// How the agent runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode != 'Service' || !has(self.prompt)").message("prompt is for Job and CronJob"),
    validation = Rule::new("self.mode == 'Service' || has(self.prompt)").message("a Job or CronJob needs a prompt"),
    validation = Rule::new("self.mode == 'Job' || !(has(self.rerun) || has(self.backoffLimit) || has(self.ttlAfterFinished))")
        .message("rerun, backoffLimit and ttlAfterFinished are for mode Job"),
    validation = Rule::new("self.mode == 'CronJob' ? has(self.schedule) : !(has(self.schedule) || has(self.timeZone) || has(self.concurrencyPolicy) || has(self.startingDeadline) || has(self.historyLimit))")
        .message("a CronJob needs a schedule; schedule, timeZone, concurrencyPolicy, startingDeadline and historyLimit are for mode CronJob"),
)]
pub struct Run {
    /// Service: long-lived. Job: once. CronJob: on a schedule. Immutable.
    #[serde(default)]
    pub mode: RunMode,
    /// The task of a Job or CronJob.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65536))]
    pub prompt: Option<String>,
    /// Job: change it to run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub rerun: Option<String>,
    /// Job: tries after the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub backoff_limit: Option<i32>,
    /// Job: how long it stays after its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_after_finished: Option<Duration>,
    /// CronJob: five fields, as cron has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub schedule: Option<String>,
    /// CronJob: a name such as Europe/Berlin.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// CronJob: what happens when the last run is not over. Absent: Forbid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// CronJob: a run that could not start for this long is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting_deadline: Option<Duration>,
    /// CronJob: finished runs that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub history_limit: Option<i32>,
}

/// How long an agent lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum RunMode {
    #[default]
    Service,
    Job,
    CronJob,
}

/// What happens when the last run of a CronJob is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum ConcurrencyPolicy {
    Allow,
    Forbid,
    Replace,
}

/// What one turn may use up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Model and tool calls.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub steps: i32,
    /// Tokens, both ways.
    #[schemars(range(min = 1))]
    pub tokens: i64,
    /// Wall clock.
    pub deadline: Duration,
    /// Of the subagents that turns start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentLimits>,
}

/// What subagents may be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubagentLimits {
    /// Generations below a conversation; 0: none. Absent: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 16))]
    pub depth: Option<i32>,
    /// Live ones of one parent. Absent: 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub breadth: Option<i32>,
    /// Live ones of the whole agent. Absent: 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub total: Option<i32>,
    /// How fast they may be started, as number/seconds. Absent: 8/2s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[1-9][0-9]{0,4}/[1-9][0-9]{0,4}s$"))]
    pub rate: Option<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 500,
            tokens: 2_000_000,
            deadline: Duration("1h".into()),
            subagents: None,
        }
    }
}
