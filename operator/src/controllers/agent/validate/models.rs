//! The language model of an Agent: its endpoints, their wire, and what may be spent. Pure.

use agentd_config::document::{
    Auth, Budget, Degrade, Dialect, Exhausted, Intelligence, ModelEndpoint, Per, Window,
};
use agentd_crds::agent;

use super::Work;
use crate::problem::{Problem, Reason};

impl Work {
    pub(super) fn intelligence(&mut self, asked: &agent::Intelligence) -> Intelligence {
        let agent::Intelligence {
            endpoints,
            // Refused by name elsewhere.
            reference: _,
            model,
            dialect,
            budget,
        } = asked;
        Intelligence {
            endpoints: endpoints.iter().map(|endpoint| self.endpoint(endpoint)).collect(),
            model: model.clone(),
            dialect: match dialect {
                agent::Dialect::Openai => Dialect::Openai,
                agent::Dialect::OpenaiResponses => Dialect::OpenaiResponses,
                agent::Dialect::Anthropic => Dialect::Anthropic,
                agent::Dialect::Bedrock => Dialect::Bedrock,
            },
            budget: budget.as_ref().map(|budget| self.budget(budget)),
            ..Intelligence::default()
        }
    }

    fn endpoint(&mut self, endpoint: &agent::ModelEndpoint) -> ModelEndpoint {
        let path = format!("intelligence.endpoints[{}]", endpoint.name);
        let allow_plaintext = endpoint.allow_plaintext == Some(true);
        if allow_plaintext && endpoint.url.starts_with("http://") {
            self.notes.push(Problem::new(
                Reason::PlaintextModel,
                format!("spec.{path} is spoken to in plain http: prompts, answers and credentials can be read on the way"),
            ));
        }
        let mut connection = self
            .findings
            .connection(&format!("{path}."), (&endpoint.destination).into());
        // For a model it is refused by name elsewhere.
        connection.auth.take_if(|auth| matches!(auth, Auth::OAuth2(_)));
        ModelEndpoint {
            name: Some(endpoint.name.clone()),
            url: endpoint.url.clone(),
            allow_plaintext,
            connection,
        }
    }

    fn budget(&mut self, budget: &agent::Budget) -> Budget {
        let agent::Budget {
            windows,
            lifetime_tokens,
            on_exhausted,
            degrade,
        } = budget;
        Budget {
            windows: windows.iter().map(|window| self.window(window)).collect(),
            lifetime_tokens: lifetime_tokens.and_then(amount),
            on_exhausted: match on_exhausted {
                None | Some(agent::OnExhausted::Wait) => Exhausted::Wait,
                Some(agent::OnExhausted::Slow) => Exhausted::Slow,
                Some(agent::OnExhausted::Degrade) => Exhausted::Degrade,
                Some(agent::OnExhausted::Refuse) => Exhausted::Refuse,
                Some(agent::OnExhausted::Fail) => Exhausted::Fail,
            },
            degrade: degrade.as_ref().map(|degrade| Degrade {
                model: degrade.model.clone(),
            }),
            ..Budget::default()
        }
    }

    fn window(&mut self, window: &agent::BudgetWindow) -> Window {
        let agent::BudgetWindow {
            per,
            tokens,
            requests,
            reset,
        } = window;
        let reset = reset.as_ref().and_then(|reset| {
            let fault =
                |error| Problem::invalid(format!("spec.intelligence.budget.windows[].reset: {error}"));
            self.findings.take(reset.parse().map_err(fault))
        });
        Window {
            per: match per {
                agent::BudgetPeriod::Second => Per::Second,
                agent::BudgetPeriod::Minute => Per::Minute,
                agent::BudgetPeriod::Hour => Per::Hour,
                agent::BudgetPeriod::Day => Per::Day,
                agent::BudgetPeriod::Week => Per::Week,
            },
            tokens: tokens.and_then(amount),
            requests: requests.and_then(amount),
            reset,
        }
    }
}

/// The schema lets no negative one in.
fn amount(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}
