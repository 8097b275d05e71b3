#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::controller::registry::key;

use super::super::window::WIDEST;
use super::*;

/// More than any wait of a test; only a hang meets it.
const PATIENCE: Duration = Duration::from_mins(1);

/// A gate, and the names of the Runs that it has woken.
fn gate() -> (Arc<Gate>, Arc<Mutex<Vec<String>>>) {
    let woken: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&woken);
    let wake = move |namespace: &str, name: &str| lock(&told).push(format!("{namespace}/{name}"));
    let gate = Gate::new(key(), Box::new(wake), Arc::new(Metrics::new()));
    (Arc::new(gate), woken)
}

fn caller(uid: &str) -> Caller {
    Caller {
        uid: uid.to_owned(),
        namespace: "team".to_owned(),
        name: uid.to_owned(),
    }
}

/// As many calls as the gate allows.
fn full(gate: &Arc<Gate>) -> Vec<Permit> {
    let calls: Vec<_> = std::iter::from_fn(|| gate.enter_at_once()).collect();
    assert_eq!(calls.len(), WIDEST as usize);
    calls
}

fn answered_429(permit: Permit, seconds: u64) {
    permit.ended(Outcome::TooMany(Some(Duration::from_secs(seconds))));
}

#[test]
fn the_room_of_a_call_is_given_back_however_it_ends() {
    let (gate, _) = gate();
    let mut calls = full(&gate);
    // A task that is aborted drops its permit without a word.
    drop(calls.pop());
    let call = gate.enter_at_once().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _call = call;
        resume_unwind(Box::new("a call panics"));
    }));
    assert!(panicked.is_err());
    calls.push(gate.enter_at_once().unwrap());
    assert!(gate.enter_at_once().is_none());
    assert_eq!(gate.metrics.calls_in_flight.get(), i64::from(WIDEST));
    drop(calls);
    assert_eq!(gate.metrics.calls_in_flight.get(), 0);
}

#[test]
fn a_call_that_ends_wakes_the_one_that_came_first() {
    let (gate, woken) = gate();
    let mut calls = full(&gate);
    for uid in ["first", "second"] {
        assert!(gate.enter(&caller(uid)).is_none());
    }
    drop(calls.pop());
    assert_eq!(*lock(&woken), ["team/first"]);
    assert!(gate.enter(&caller("second")).is_none());
    assert!(gate.enter(&caller("first")).is_some());
}

#[test]
fn in_a_long_pause_every_run_that_waits_is_woken_to_say_so_and_in_a_short_one_none() {
    for (seconds, long) in [(1, false), (60, true)] {
        let (gate, woken) = gate();
        let mut calls = full(&gate);
        assert!(gate.enter(&caller("train")).is_none());
        answered_429(calls.pop().unwrap(), seconds);
        assert_eq!(!lock(&woken).is_empty(), long, "{seconds} s");
        let held = gate.held("train");
        assert_eq!(matches!(held, Some(Held::Paused { .. })), long, "{held:?}");
        assert!(gate.enter(&caller("other")).is_none());
    }
}

#[tokio::test]
async fn a_task_goes_when_a_call_ends_and_one_that_gave_up_keeps_its_turn_from_nobody() {
    let (gate, _) = gate();
    let mut calls = full(&gate);
    let waits = |gate: Arc<Gate>| async move { gate.wait("team").await };
    let gave_up = tokio::spawn(waits(Arc::clone(&gate)));
    let next = tokio::spawn(waits(Arc::clone(&gate)));
    while lock(&gate.state).turns.waiting() < 2 {
        tokio::task::yield_now().await;
    }
    gave_up.abort();
    assert!(gave_up.await.is_err());
    drop(calls.pop());
    assert!(tokio::time::timeout(PATIENCE, next).await.is_ok());
}

#[tokio::test]
async fn the_end_of_a_pause_is_noticed_without_anybody_asking() {
    let (gate, _) = gate();
    answered_429(gate.enter_at_once().unwrap(), 1);
    assert!(gate.enter_at_once().is_none());
    assert!(
        tokio::time::timeout(PATIENCE, gate.wait("team"))
            .await
            .is_ok()
    );
}
