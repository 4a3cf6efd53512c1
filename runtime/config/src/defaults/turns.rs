//! What an absent key means for turns: how many, with how much of a conversation, what they may start and keep.

use std::time::Duration;

use agentd_base::duration::Duration as Text;
use agentd_base::rate::Rate;

use crate::document::{Agent, Context, Memory, Plan, Skills, Slow, Store, SubagentLimits};

/// `agent.max_parallel_turns`.
pub const PARALLEL_TURNS: u32 = 4;
/// `context.compact_at`.
pub const COMPACT_AT: f64 = 0.7;
/// `context.keep_last`.
pub const KEEP_LAST: u32 = 12;
/// `context.model_window` of a model that is not known.
pub const MODEL_WINDOW: u64 = 128_000;
/// `context.plan.max_items`.
pub const PLAN_ITEMS: u32 = 32;
/// `limits.subagents.depth`.
pub const SUBAGENT_DEPTH: u32 = 3;
/// `limits.subagents.breadth`.
pub const SUBAGENT_BREADTH: u32 = 8;
/// `limits.subagents.total`.
pub const SUBAGENTS: u32 = 64;
/// `limits.subagents.rate`.
pub const SUBAGENT_RATE: Rate = Rate {
    burst: 8,
    per: Text::secs(2),
};
/// `memory.max_value_bytes`.
pub const MEMORY_BYTES: u32 = 65_536;
/// `memory.list_default_limit`.
pub const MEMORY_LIST: u32 = 100;
/// `skills.max_loaded`.
pub const SKILLS_LOADED: u32 = 8;
/// `skills.reference_prefix`.
pub const SKILL_PREFIX: &str = "@skill:";
/// `skills.max_bytes`.
pub const SKILL_BYTES: u32 = 32_768;
/// `intelligence.budget.slow.factor`.
pub const SLOW_FACTOR: f64 = 0.5;
/// `store.prefix`.
pub const STORE_PREFIX: &str = "agentd";
/// `store.timeout`.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Windows of models by the beginning of their names, as their providers state them.
const WINDOWS: [(&str, u64); 3] = [("claude", 200_000), ("gemini", 1_000_000), ("gpt-4.1", 1_000_000)];

impl Agent {
    /// Turns that run at the same time.
    pub fn max_parallel_turns(&self) -> u32 {
        self.max_parallel_turns.unwrap_or(PARALLEL_TURNS)
    }
}

impl Context {
    /// The share of the window at which what was said is summarised.
    pub fn compact_at(&self) -> f64 {
        self.compact_at.unwrap_or(COMPACT_AT)
    }

    /// Messages that stay as they are.
    pub fn keep_last(&self) -> u32 {
        self.keep_last.unwrap_or(KEEP_LAST)
    }

    /// Tokens that this model takes: as given, else by its name, be it after a provider's (`vendor/claude-x`,
    /// `eu.vendor.claude-x`).
    pub fn model_window(&self, model: &str) -> u64 {
        let model = model.to_ascii_lowercase();
        let begins = |name: &str| {
            let mut found = model.match_indices(name);
            found.any(|(at, _)| {
                at == 0
                    || model
                        .get(..at)
                        .is_some_and(|before| before.ends_with(['/', '.', ':']))
            })
        };
        let known = WINDOWS.iter().find(|(name, _)| begins(name));
        self.model_window
            .unwrap_or_else(|| known.map_or(MODEL_WINDOW, |(_, window)| *window))
    }
}

impl Plan {
    /// Items of one plan.
    pub fn max_items(&self) -> u32 {
        self.max_items.unwrap_or(PLAN_ITEMS)
    }
}

impl SubagentLimits {
    /// Generations below a conversation.
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or(SUBAGENT_DEPTH)
    }

    /// Live ones of one parent.
    pub fn breadth(&self) -> u32 {
        self.breadth.unwrap_or(SUBAGENT_BREADTH)
    }

    /// Live ones of the agent.
    pub fn total(&self) -> u32 {
        self.total.unwrap_or(SUBAGENTS)
    }

    /// How fast they may be started.
    pub fn rate(&self) -> Rate {
        self.rate.unwrap_or(SUBAGENT_RATE)
    }
}

impl Memory {
    /// Of one value, as JSON.
    pub fn max_value_bytes(&self) -> u32 {
        self.max_value_bytes.unwrap_or(MEMORY_BYTES)
    }

    /// Entries of a list that names no limit.
    pub fn list_default_limit(&self) -> u32 {
        self.list_default_limit.unwrap_or(MEMORY_LIST)
    }
}

impl Skills {
    /// Loaded at a time in one conversation.
    pub fn max_loaded(&self) -> u32 {
        self.max_loaded.unwrap_or(SKILLS_LOADED)
    }

    /// What refers to a skill in a text.
    pub fn reference_prefix(&self) -> &str {
        self.reference_prefix.as_deref().unwrap_or(SKILL_PREFIX)
    }

    /// Of one skill.
    pub fn max_bytes(&self) -> u32 {
        self.max_bytes.unwrap_or(SKILL_BYTES)
    }
}

impl Slow {
    /// The share of a window from which on calls are spread.
    pub fn factor(&self) -> f64 {
        self.factor.unwrap_or(SLOW_FACTOR)
    }
}

impl Store {
    /// The first segment of every key.
    pub fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(STORE_PREFIX)
    }

    /// One call to a remote store.
    pub fn timeout(&self) -> Duration {
        self.timeout.map_or(STORE_TIMEOUT, |given| given.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_the_given_one_or_the_default() {
        let agent = |max_parallel_turns| Agent {
            max_parallel_turns,
            ..Agent::default()
        };
        assert_eq!(
            [None, Some(9)].map(|given| agent(given).max_parallel_turns()),
            [4, 9]
        );
        let context = Context::default();
        assert_eq!(
            (
                context.compact_at(),
                context.keep_last(),
                context.plan.max_items()
            ),
            (0.7, 12, 32)
        );
        let context = Context {
            compact_at: Some(0.5),
            keep_last: Some(2),
            model_window: Some(5000),
            plan: Plan { max_items: Some(3) },
        };
        assert_eq!(
            (
                context.compact_at(),
                context.keep_last(),
                context.plan.max_items()
            ),
            (0.5, 2, 3)
        );
        assert_eq!(context.model_window("claude-x"), 5000);

        let subagents = SubagentLimits::default();
        let all = (
            subagents.depth(),
            subagents.breadth(),
            subagents.total(),
            subagents.rate().to_string(),
        );
        assert_eq!(all, (3, 8, 64, "8/2s".to_owned()));
        let subagents = SubagentLimits {
            depth: Some(0),
            breadth: Some(1),
            total: Some(2),
            rate: Some("3/4s".parse().unwrap()),
        };
        let all = (
            subagents.depth(),
            subagents.breadth(),
            subagents.total(),
            subagents.rate().to_string(),
        );
        assert_eq!(all, (0, 1, 2, "3/4s".to_owned()));

        let (memory, skills, slow, store) = (
            Memory::default(),
            Skills::default(),
            Slow::default(),
            Store::default(),
        );
        assert_eq!(
            (memory.max_value_bytes(), memory.list_default_limit()),
            (65_536, 100)
        );
        assert_eq!(
            (skills.max_loaded(), skills.max_bytes(), skills.reference_prefix()),
            (8, 32_768, "@skill:")
        );
        assert_eq!(
            (store.prefix(), store.timeout(), slow.factor()),
            ("agentd", Duration::from_secs(10), 0.5)
        );
        let memory = Memory {
            max_value_bytes: Some(1),
            list_default_limit: Some(2),
        };
        let skills = Skills {
            max_loaded: Some(3),
            max_bytes: Some(4),
            ..Skills::default()
        };
        let store = Store {
            prefix: Some("p".into()),
            timeout: Some(Text::secs(6)),
            ..Store::default()
        };
        let slow = Slow { factor: Some(0.25) };
        assert_eq!((memory.max_value_bytes(), memory.list_default_limit()), (1, 2));
        assert_eq!((skills.max_loaded(), skills.max_bytes()), (3, 4));
        assert_eq!(
            (store.prefix(), store.timeout(), slow.factor()),
            ("p", Duration::from_secs(6), 0.25)
        );
    }

    #[test]
    fn a_window_follows_from_the_models_name() {
        let context = Context::default();
        for (model, window) in [
            ("claude-opus-4", 200_000),
            ("anthropic/Claude-3.5", 200_000),
            ("eu.anthropic.claude-3-5-v1:0", 200_000),
            ("google/gemini-2.5-pro", 1_000_000),
            ("gpt-4.1-mini", 1_000_000),
            ("gpt-4o", 128_000),
            ("my-model", 128_000),
            ("notclaude", 128_000),
            ("", 128_000),
        ] {
            assert_eq!(context.model_window(model), window, "{model}");
        }
    }
}
