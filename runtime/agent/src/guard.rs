//! What ends a turn before its next step. Pure. The budget, which comes last, is asked by the model itself: it may wait
//! or answer with another model, and then has to count what that took.

use crate::end::End;
use crate::status::Status;
use crate::turn::TurnLimits;

/// Where a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) is_cancelled: bool,
    pub(crate) is_late: bool,
    /// Model calls and tool calls so far.
    pub(crate) steps: u32,
    /// Both ways, so far.
    pub(crate) tokens: u64,
    /// What the next request reads at least, as far as it is known.
    pub(crate) next: u64,
}

/// Cancelled, deadline, steps, tokens, in this order. A request that alone takes more than is left is not made.
pub(crate) fn guard(limits: &TurnLimits, standing: Standing) -> Option<End> {
    let TurnLimits {
        steps,
        tokens,
        deadline,
    } = *limits;
    if standing.is_cancelled {
        return Some(End::cancelled());
    }
    if standing.is_late {
        return Some(End::late(deadline));
    }
    if standing.steps >= steps {
        return Some(End::out_of_steps(steps));
    }
    let left = tokens.saturating_sub(standing.tokens);
    if left == 0 {
        return Some(End::because(
            Status::ExhaustedTokens,
            format!("limits.run.tokens ({tokens}) is used up"),
        ));
    }
    if standing.next > left {
        return Some(End::because(
            Status::ExhaustedTokens,
            format!(
                "limits.run.tokens ({tokens}) leaves {left}, and the next request alone takes about {}",
                standing.next
            ),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: TurnLimits = TurnLimits {
        steps: 3,
        tokens: 100,
        deadline: Duration::from_secs(60),
    };
    const FRESH: Standing = Standing {
        is_cancelled: false,
        is_late: false,
        steps: 0,
        tokens: 0,
        next: 0,
    };

    #[test]
    fn the_first_that_holds_ends_the_turn() {
        let all = Standing {
            is_cancelled: true,
            is_late: true,
            steps: 3,
            tokens: 100,
            next: 1,
        };
        let not_cancelled = Standing {
            is_cancelled: false,
            ..all
        };
        let in_time = Standing {
            is_late: false,
            ..not_cancelled
        };
        let steps_left = Standing { steps: 2, ..in_time };
        let some_left = Standing {
            tokens: 90,
            next: 11,
            ..steps_left
        };
        let ends = [all, not_cancelled, in_time, steps_left, some_left];
        let ends: Vec<_> = ends
            .into_iter()
            .map(|standing| guard(&LIMITS, standing))
            .map(|end| end.and_then(|end| end.reason).unwrap_or_default())
            .collect();
        assert_eq!(
            ends,
            [
                "the turn was cancelled",
                "limits.run.deadline (1m) is over",
                "limits.run.steps (3) is used up",
                "limits.run.tokens (100) is used up",
                "limits.run.tokens (100) leaves 10, and the next request alone takes about 11",
            ]
        );
    }

    #[test]
    fn a_turn_that_has_something_left_goes_on() {
        let last = Standing {
            steps: 2,
            tokens: 99,
            next: 1,
            ..FRESH
        };
        for standing in [FRESH, last] {
            assert_eq!(guard(&LIMITS, standing), None, "{standing:?}");
        }
        let beyond = Standing {
            tokens: u64::MAX,
            ..FRESH
        };
        assert_eq!(
            guard(&LIMITS, beyond).map(|end| end.status),
            Some(Status::ExhaustedTokens)
        );
    }
}
