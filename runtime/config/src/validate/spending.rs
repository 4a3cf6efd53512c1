//! Checks of `intelligence.budget`.

use crate::document::{Budget, Exhausted, Per};
use crate::fault::Fault;

/// Each is counted for every model call.
const WINDOWS: usize = 8;
const KEY: &str = "intelligence.budget";

pub(super) fn check(budget: &Budget, faults: &mut Vec<Fault>) {
    let mut fault = |key: String, problem: &str, remedy: &str| faults.push(Fault::new(key, problem, remedy));
    if budget.windows.is_empty() && budget.lifetime_tokens.is_none() {
        fault(
            KEY.to_owned(),
            "limits nothing",
            "set windows or lifetime_tokens, or take it out",
        );
    }
    if budget.windows.len() > WINDOWS {
        let remedy = format!("keep at most {WINDOWS}");
        fault(format!("{KEY}.windows"), "holds too many windows", &remedy);
    }
    for (index, window) in budget.windows.iter().enumerate() {
        let key = format!("{KEY}.windows[{index}]");
        if window.tokens.is_none() && window.requests.is_none() {
            fault(key.clone(), "limits nothing", "set tokens or requests");
        }
        let on_the_clock = matches!(window.per, Per::Second | Per::Minute | Per::Hour);
        if window.reset.is_some() && on_the_clock {
            fault(
                format!("{key}.reset"),
                "has no effect: only days and weeks begin at a time of the day",
                "take it out, or set per to day or week",
            );
        }
    }
    let asked = budget.on_exhausted;
    match &budget.degrade {
        None if asked == Exhausted::Degrade => fault(
            format!("{KEY}.degrade.model"),
            "is missing: on_exhausted is degrade",
            "name the model that is asked instead",
        ),
        Some(degrade) if degrade.model.trim().is_empty() => fault(
            format!("{KEY}.degrade.model"),
            "is empty",
            "name the model that is asked instead",
        ),
        Some(_) if asked != Exhausted::Degrade => fault(
            format!("{KEY}.degrade"),
            "has no effect",
            "take it out, or set on_exhausted to degrade",
        ),
        _ => {}
    }
    if budget.slow.factor.is_some() && asked != Exhausted::Slow {
        fault(
            format!("{KEY}.slow.factor"),
            "has no effect",
            "take it out, or set on_exhausted to slow",
        );
    }
    if budget.windows.is_empty() && matches!(asked, Exhausted::Slow | Exhausted::Degrade) {
        fault(
            format!("{KEY}.on_exhausted"),
            "has no effect: a ceiling for ever does not open again",
            "add windows, or set it to refuse or fail",
        );
    }
}
