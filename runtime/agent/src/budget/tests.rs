//! Windows, tactics, the ceiling; and what holds for every sequence of calls and clocks.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn window(per: Per, tokens: Option<u64>, requests: Option<u64>) -> Window {
    Window {
        per,
        reset: TimeOfDay::default(),
        tokens,
        requests,
    }
}

fn plan(tactic: Tactic, windows: Vec<Window>) -> Plan {
    Plan {
        windows,
        lifetime_tokens: None,
        tactic,
    }
}

fn granted(decision: Decision) -> u64 {
    match decision {
        Decision::Granted { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

/// A ledger that has spent so much of the first minute.
fn spent(plan: &Plan, tokens: u64) -> Ledger {
    let mut ledger = Ledger::default();
    let id = granted(ledger.reserve(plan, tokens, 0));
    assert!(ledger.settle(id, tokens));
    ledger
}

#[test]
fn what_each_tactic_does_with_a_window_that_is_used_up() {
    let used = "the tokens of this minute (100, intelligence.budget) are used up";
    let later = Decision::Later {
        until: Some(60_000),
        reason: used.into(),
    };
    for (tactic, decision) in [
        (Tactic::Wait, later.clone()),
        (Tactic::Slow { factor: 0.5 }, later),
        (
            Tactic::Degrade {
                model: "small".into(),
            },
            Decision::Granted {
                id: 2,
                model: Some("small".into()),
            },
        ),
        (
            Tactic::Refuse,
            Decision::Exhausted {
                reason: used.into(),
                refuse: true,
            },
        ),
        (
            Tactic::Fail,
            Decision::Exhausted {
                reason: used.into(),
                refuse: false,
            },
        ),
    ] {
        let plan = plan(tactic, vec![window(Per::Minute, Some(100), None)]);
        let mut ledger = spent(&plan, 45);
        // 45 and 45 would fit.
        granted(ledger.clone().reserve(&plan, 45, 59_999));
        let mut full = Ledger::new(ledger.counters().clone());
        full.counters.charge("minute", 0, 20);
        assert_eq!(
            full.reserve(&plan, 36, 30_000).id_from(2),
            decision.clone().id_from(2),
            "{plan:?}"
        );
        // The next minute is another.
        assert!(matches!(
            ledger.reserve(&plan, 36, 60_000),
            Decision::Granted { model: None, .. }
        ));
    }
}

impl Decision {
    fn id_from(self, id: u64) -> Self {
        match self {
            Self::Granted { model, .. } => Self::Granted { id, model },
            other => other,
        }
    }
}

#[test]
fn what_others_have_reserved_may_come_back() {
    for tactic in [
        Tactic::Wait,
        Tactic::Refuse,
        Tactic::Fail,
        Tactic::Degrade { model: "m".into() },
    ] {
        let plan = plan(tactic, vec![window(Per::Hour, Some(100), None)]);
        let mut ledger = Ledger::default();
        let first = granted(ledger.reserve(&plan, 80, 0));
        assert!(matches!(
            ledger.reserve(&plan, 30, 0),
            Decision::Later { until: None, .. }
        ));
        assert!(ledger.settle(first, 10));
        assert!(!ledger.settle(first, 10), "settled once");
        assert_eq!(ledger.remaining(&plan, 0), Some(90));
        let second = granted(ledger.reserve(&plan, 30, 0));
        assert!(ledger.release(second));
        assert_eq!(ledger.remaining(&plan, 0), Some(90));
        assert_eq!(ledger.counters().spent("hour", 0).requests, 1);
    }
}

#[test]
fn requests_are_counted_too() {
    let plan = plan(Tactic::Fail, vec![window(Per::Second, None, Some(2))]);
    let mut ledger = Ledger::default();
    for _ in 0..2 {
        let id = granted(ledger.reserve(&plan, 1_000_000, 5));
        ledger.settle(id, 1);
    }
    assert_eq!(
        ledger.reserve(&plan, 1, 999),
        Decision::Exhausted {
            reason: "the requests of this second (2, intelligence.budget) are used up".into(),
            refuse: false
        }
    );
    granted(ledger.reserve(&plan, 1, 1000));
    assert_eq!(ledger.remaining(&plan, 0), None);
}

#[test]
fn the_window_that_opens_last_says_until_when() {
    let windows = vec![
        window(Per::Minute, Some(100), None),
        window(Per::Day, Some(100), None),
        window(Per::Hour, Some(100), None),
    ];
    let plan = plan(Tactic::Wait, windows);
    let mut ledger = spent(&plan, 100);
    let Decision::Later { until, reason } = ledger.reserve(&plan, 1, 10) else {
        panic!()
    };
    assert_eq!(until, Some(86_400_000));
    assert_eq!(
        reason,
        "the tokens of this day (100, intelligence.budget) are used up"
    );
}

#[test]
fn a_call_that_no_window_ever_has_room_for_does_not_wait() {
    let plan = plan(Tactic::Wait, vec![window(Per::Day, Some(100), None)]);
    let decision = Ledger::default().reserve(&plan, 101, 0);
    let reason = "a call may take 101 tokens, more than intelligence.budget has for a whole day (100)";
    assert_eq!(
        decision,
        Decision::Exhausted {
            reason: reason.into(),
            refuse: false
        }
    );
}

#[test]
fn the_ceiling_is_for_ever_and_for_every_model() {
    let mut plan = plan(
        Tactic::Degrade {
            model: "small".into(),
        },
        vec![window(Per::Minute, Some(50), None)],
    );
    plan.lifetime_tokens = Some(100);
    let mut ledger = spent(&plan, 50);
    let second = granted(ledger.reserve(&plan, 40, 1));
    assert!(matches!(
        ledger.reserve(&plan, 20, 1),
        Decision::Later { until: None, .. }
    ));
    ledger.settle(second, 40);
    // The other model's tokens are not those of the window.
    assert_eq!(ledger.counters().spent("minute", 0).tokens, 50);
    let reason = "intelligence.budget.lifetime_tokens (100) leaves 10, and a call may take 11";
    for now in [1, 60_000, i64::MAX] {
        assert_eq!(
            ledger.reserve(&plan, 11, now),
            Decision::Exhausted {
                reason: reason.into(),
                refuse: false
            }
        );
    }
    assert_eq!(ledger.remaining(&plan, 60_000), Some(10));
    // A document with another ceiling goes on from what was spent.
    plan.lifetime_tokens = Some(101);
    granted(ledger.reserve(&plan, 11, 60_000));
}

#[test]
fn slow_spreads_what_is_left_over_the_windows_time() {
    let plan = plan(
        Tactic::Slow { factor: 0.5 },
        vec![window(Per::Minute, Some(100), None)],
    );
    let mut ledger = spent(&plan, 50);
    let Decision::Later { until, reason } = ledger.reserve(&plan, 10, 1000) else {
        panic!()
    };
    assert_eq!(until, Some(36_000));
    assert_eq!(
        reason,
        "the tokens of this minute (100, intelligence.budget) are spread over it"
    );
    let id = granted(ledger.reserve(&plan, 10, 36_000));
    ledger.settle(id, 10);
    assert!(matches!(
        ledger.reserve(&plan, 40, 36_000),
        Decision::Later {
            until: Some(60_000),
            ..
        }
    ));
}

#[test]
fn counters_are_a_value_that_is_read_again() {
    let plan = plan(Tactic::Fail, vec![window(Per::Day, Some(100), None)]);
    let ledger = spent(&plan, 70);
    let text = serde_json::to_string(ledger.counters()).unwrap();
    assert_eq!(
        text,
        r#"{"lifetime":70,"windows":{"day@00:00Z":[{"start":0,"tokens":70,"requests":1}]}}"#
    );
    let mut again = Ledger::new(serde_json::from_str(&text).unwrap());
    assert_eq!(again.remaining(&plan, 5), Some(30));
    assert!(matches!(again.reserve(&plan, 31, 5), Decision::Exhausted { .. }));
    assert_eq!(
        serde_json::from_str::<Counters>("{}").unwrap(),
        Counters::default()
    );
}

/// What happens to a ledger.
#[derive(Debug, Clone)]
enum Event {
    Reserve(u64),
    /// The first open call: takes this share of what was reserved.
    Settle(u8),
    Release,
    /// The clock shows this, be it before or after what it showed.
    Clock(i64),
    /// The process is killed and begins again with what was kept.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u64..60).prop_map(Event::Reserve),
        4 => any::<u8>().prop_map(Event::Settle),
        1 => Just(Event::Release),
        2 => (0i64..7 * 60_000).prop_map(Event::Clock),
        1 => Just(Event::Restart),
    ]
}

fn tactic() -> impl Strategy<Value = Tactic> {
    prop_oneof![
        Just(Tactic::Wait),
        (0.05f64..0.95).prop_map(|factor| Tactic::Slow { factor }),
        Just(Tactic::Degrade { model: "m".into() }),
        Just(Tactic::Refuse),
        Just(Tactic::Fail),
    ]
}

proptest! {
    #[test]
    fn never_more_than_the_limits_whatever_the_clock_shows(
        tactic in tactic(),
        tokens in 50u64..200,
        requests in 1u64..8,
        ceiling in proptest::option::of(100u64..400),
        events in vec(event(), 1..120),
    ) {
        let windows = vec![window(Per::Minute, Some(tokens), None), window(Per::Hour, None, Some(requests))];
        let plan = Plan { windows, lifetime_tokens: ceiling, tactic };
        let (mut ledger, mut now) = (Ledger::default(), 0);
        // What the test itself counts, by the minute in which a call was granted; degraded calls in none.
        let mut minutes: BTreeMap<i64, u64> = BTreeMap::new();
        let (mut answered, mut all) = (0, 0);
        let mut open: Vec<(u64, u64, Option<i64>)> = Vec::new();
        for event in events {
            match event {
                Event::Reserve(want) => match ledger.reserve(&plan, want, now) {
                    Decision::Granted { id, model } => {
                        open.push((id, want, model.is_none().then_some(now / 60_000)));
                    }
                    Decision::Later { until: Some(until), .. } => {
                        prop_assert!(until > now, "a wait that is over at once");
                        prop_assert!(until <= now + Per::Hour.length());
                    }
                    Decision::Later { until: None, .. } => prop_assert!(!open.is_empty(), "waits for nobody"),
                    Decision::Exhausted { .. } => {}
                },
                Event::Settle(share) if !open.is_empty() => {
                    let (id, want, minute) = open.remove(0);
                    let took = want * u64::from(share) / 255;
                    prop_assert!(ledger.settle(id, took));
                    all += took;
                    if let Some(minute) = minute {
                        *minutes.entry(minute).or_default() += took;
                        answered += 1;
                    }
                }
                Event::Release if !open.is_empty() => {
                    let (id, ..) = open.remove(0);
                    prop_assert!(ledger.release(id));
                }
                Event::Settle(_) | Event::Release => {}
                Event::Clock(shown) => now = shown,
                Event::Restart => {
                    let kept = serde_json::to_string(ledger.counters()).unwrap();
                    ledger = Ledger::new(serde_json::from_str(&kept).unwrap());
                    open.clear();
                }
            }
            prop_assert!(minutes.values().all(|taken| *taken <= tokens), "{:?} of {}", minutes, tokens);
            prop_assert!(answered <= requests);
            prop_assert_eq!(ledger.counters().lifetime, all);
            if let Some(ceiling) = ceiling {
                prop_assert!(all <= ceiling);
            }
        }
    }

    #[test]
    fn who_waits_until_then_is_granted(
        slow in any::<bool>(),
        factor in 0.05f64..0.95,
        tokens in 50u64..200,
        wants in vec(1u64..50, 1..60),
    ) {
        let tactic = if slow { Tactic::Slow { factor } } else { Tactic::Wait };
        let plan = plan(tactic, vec![window(Per::Minute, Some(tokens), None)]);
        let (mut ledger, mut now) = (Ledger::default(), 0);
        for want in wants {
            let mut waits = 0;
            let id = loop {
                match ledger.reserve(&plan, want, now) {
                    Decision::Granted { id, .. } => break id,
                    Decision::Later { until: Some(until), .. } => now = until,
                    other => panic!("{other:?}"),
                }
                waits += 1;
                prop_assert!(waits <= 3, "waits over and over");
            };
            ledger.settle(id, want);
        }
    }
}
