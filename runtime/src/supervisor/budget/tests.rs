//! Waiting, giving back, keeping: against a real engine and a clock that moves with the runtime's.

use agentd_base::clock::Clock;
use agentd_config::document::{Budget as Asked, Window as AskedWindow};
use agentd_state::Retention;
use agentd_store::MemoryStore;

use super::*;
use crate::supervisor::settings::Settings;

/// Moves as tokio's clock does.
struct Moving {
    began: Instant,
    from: Timestamp,
}

impl Clock for Moving {
    fn now(&self) -> Timestamp {
        self.from + self.began.elapsed()
    }
}

fn clock() -> SharedClock {
    Arc::new(Moving {
        began: Instant::now(),
        from: "2026-12-02T08:00:10Z".parse().unwrap(),
    })
}

fn settings(asked: Option<Asked>) -> watch::Sender<Arc<Settings>> {
    let mut document = Document::default();
    document.intelligence.budget = asked;
    watch::Sender::new(Arc::new(Settings {
        generation: 1,
        document,
        digest: None,
    }))
}

fn per_minute(tokens: u64, on_exhausted: Exhausted) -> Asked {
    Asked {
        windows: vec![AskedWindow {
            per: document::Per::Minute,
            tokens: Some(tokens),
            requests: None,
            reset: None,
        }],
        on_exhausted,
        ..Asked::default()
    }
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Retention::MEMORY))
}

async fn open(store: &Arc<dyn Store>, settings: &watch::Sender<Arc<Settings>>) -> Arc<Budget> {
    Arc::new(
        Budget::open(store.clone(), clock(), settings.subscribe())
            .await
            .unwrap(),
    )
}

fn hour() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

fn granted(reservation: Reservation) -> u64 {
    match reservation {
        Reservation::Granted { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_settled_outlives_the_process_and_what_was_reserved_does_not() {
    let (store, settings) = (store(), settings(Some(per_minute(100, Exhausted::Fail))));
    let budget = open(&store, &settings).await;
    let id = granted(budget.reserve("run", 60, hour()).await);
    budget.settle("run", id, 50).await;
    granted(budget.reserve("run", 50, hour()).await);
    assert_eq!(budget.remaining(), Some(0));
    drop(budget);
    // As after kill -9: nobody has settled the second.
    let again = open(&store, &settings).await;
    assert_eq!(again.remaining(), Some(50));
    let reason = "the tokens of this minute (100, intelligence.budget) are used up".to_owned();
    assert_eq!(
        again.reserve("run", 51, hour()).await,
        Reservation::Exhausted {
            reason,
            refuse: false
        }
    );
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_granted_when_the_window_opens() {
    let (store, settings) = (store(), settings(Some(per_minute(100, Exhausted::Wait))));
    let budget = open(&store, &settings).await;
    let id = granted(budget.reserve("run", 100, hour()).await);
    budget.settle("run", id, 100).await;
    let began = Instant::now();
    granted(budget.reserve("run", 100, hour()).await);
    // From ten seconds past to the full minute.
    assert_eq!(began.elapsed().as_secs(), 50);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_window_that_opens_after_its_turn() {
    let (store, settings) = (store(), settings(Some(per_minute(100, Exhausted::Wait))));
    let budget = open(&store, &settings).await;
    let id = granted(budget.reserve("run", 100, hour()).await);
    budget.settle("run", id, 100).await;
    let soon = Instant::now() + Duration::from_secs(49);
    let reason = "the tokens of this minute (100, intelligence.budget) are used up; it goes on at 2026-12-02T08:01:00Z, \
                  after the time of this turn (limits.run.deadline)";
    assert_eq!(
        budget.reserve("run", 1, soon).await,
        Reservation::Exhausted {
            reason: reason.to_owned(),
            refuse: false
        }
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_goes_to_who_waits() {
    let (store, settings) = (store(), settings(Some(per_minute(100, Exhausted::Refuse))));
    let budget = open(&store, &settings).await;
    let began = Instant::now();
    for _ in 0..2 {
        let id = granted(budget.reserve("a", 80, hour()).await);
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.reserve("b", 80, hour()).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        // Another run cannot give it back.
        budget.settle("b", id, 0).await;
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        budget.settle("a", id, 0).await;
        let id = granted(waiting.await.unwrap());
        budget.settle("b", id, 0).await;
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(budget.remaining(), Some(100));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_off_costs_what_was_reserved_for_it() {
    let (store, settings) = (store(), settings(Some(per_minute(100, Exhausted::Refuse))));
    let budget = open(&store, &settings).await;
    granted(budget.reserve("a", 30, hour()).await);
    granted(budget.reserve("a", 20, hour()).await);
    let other = granted(budget.reserve("b", 10, hour()).await);
    budget.close("a").await;
    assert_eq!(budget.remaining(), Some(40));
    budget.settle("b", other, 0).await;
    // Nothing of it is left open, and it is kept.
    budget.close("a").await;
    assert_eq!(budget.remaining(), Some(50));
    assert_eq!(open(&store, &settings).await.remaining(), Some(50));
}

#[tokio::test(start_paused = true)]
async fn another_document_counts_at_once() {
    let (store, settings) = (store(), settings(Some(per_minute(100, Exhausted::Wait))));
    let budget = open(&store, &settings).await;
    let id = granted(budget.reserve("a", 90, hour()).await);
    budget.settle("a", id, 90).await;
    let waiting = tokio::spawn({
        let budget = budget.clone();
        async move { budget.reserve("b", 20, hour()).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    settings.send_modify(|settings| {
        let mut document = settings.document.clone();
        document.intelligence.budget = Some(per_minute(110, Exhausted::Wait));
        *settings = Arc::new(Settings {
            generation: 2,
            document,
            digest: None,
        });
    });
    granted(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn each_tactic_is_the_documents() {
    let asked = |on_exhausted| Asked {
        degrade: Some(document::Degrade {
            model: "small".into(),
        }),
        ..per_minute(10, on_exhausted)
    };
    let reason = "a call may take 11 tokens, more than intelligence.budget has for a whole minute (10)";
    let exhausted = |refuse| Reservation::Exhausted {
        reason: reason.to_owned(),
        refuse,
    };
    let degraded = Reservation::Granted {
        id: 1,
        model: Some("small".to_owned()),
    };
    for (on_exhausted, expected) in [
        (Exhausted::Wait, exhausted(false)),
        (Exhausted::Slow, exhausted(false)),
        (Exhausted::Degrade, degraded),
        (Exhausted::Refuse, exhausted(true)),
        (Exhausted::Fail, exhausted(false)),
    ] {
        let budget = open(&store(), &settings(Some(asked(on_exhausted)))).await;
        assert_eq!(
            budget.reserve("run", 11, hour()).await,
            expected,
            "{on_exhausted:?}"
        );
    }
    let unbounded = open(&store(), &settings(None)).await;
    let free = Reservation::Granted { id: 0, model: None };
    assert_eq!(unbounded.reserve("run", u64::MAX, hour()).await, free);
    unbounded.settle("run", 0, 5).await;
    assert_eq!(unbounded.remaining(), None);
}

#[tokio::test]
async fn counters_that_are_none_are_not_begun_anew() {
    let store = store();
    let entry = Entry {
        kind: EntryKind::Budget,
        scope: SCOPE.to_owned(),
        key: KEY.to_owned(),
        value: "x".into(),
        expires_at: None,
        updated_at: Timestamp::now(),
    };
    store.write(vec![Write::Entry(entry)]).await.unwrap();
    let opened = Budget::open(store, clock(), settings(None).subscribe()).await;
    assert!(matches!(opened, Err(StoreError::Corrupt(_))));
}
