#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::controller::{flowcontrol::concurrency::MAX_IN_FLIGHT, state::fixtures::key};

use super::*;

/// Waits longer than any wait of a test; only a hang reaches the end.
async fn soon<T>(wait: impl Future<Output = T>) -> T {
    let end = Duration::from_mins(1);
    tokio::time::timeout(end, wait).await.unwrap()
}

fn gate() -> Arc<Gate> {
    Arc::new(Gate::new(key(), Arc::new(Metrics::new())))
}

/// The permits that the gate allows now.
fn full(gate: &Arc<Gate>) -> Vec<Permit> {
    let calls: Vec<_> = std::iter::from_fn(|| gate.permit_at_once()).collect();
    assert_eq!(calls.len(), MAX_IN_FLIGHT as usize);
    calls
}

fn answered_429(permit: Permit, seconds: u64) {
    permit.ended(Capacity::TooMany(Some(Duration::from_secs(seconds))));
}

/// Tasks parked on a permit, after the gate has queued each.
async fn parked(gate: &Arc<Gate>, count: usize) -> Vec<tokio::task::JoinHandle<Permit>> {
    let before = lock(&gate.state).queue.waiting();
    let wait = |gate: Arc<Gate>| async move { gate.permit_for("team").await };
    let tasks = (0..count)
        .map(|_| tokio::spawn(wait(Arc::clone(gate))))
        .collect();
    while lock(&gate.state).queue.waiting() < before + count {
        tokio::task::yield_now().await;
    }
    tasks
}

/// Proves: P-calls-bound
#[test]
fn the_room_of_a_call_is_given_back_however_it_ends() {
    let gate = gate();
    let mut calls = full(&gate);
    // A task that is aborted drops its permit.
    drop(calls.pop());
    let call = gate.permit_at_once().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _call = call;
        resume_unwind(Box::new("a call panics"));
    }));
    assert!(panicked.is_err());
    calls.push(gate.permit_at_once().unwrap());
    assert!(gate.permit_at_once().is_none());
    assert_eq!(gate.metrics.calls_in_flight.get(), i64::from(MAX_IN_FLIGHT));
    drop(calls);
    assert_eq!(gate.metrics.calls_in_flight.get(), 0);
}

#[tokio::test]
async fn a_finished_call_admits_the_first_waiter() {
    let gate = gate();
    let mut calls = full(&gate);
    let first = parked(&gate, 1).await.remove(0);
    let second = parked(&gate, 1).await.remove(0);
    assert_eq!(gate.metrics.calls_waiting.get(), 2);
    drop(calls.pop());
    let granted = soon(first).await.unwrap();
    assert!(!second.is_finished());
    drop(granted);
    soon(second).await.unwrap();
    assert_eq!(gate.metrics.calls_waiting.get(), 0);
}

#[tokio::test]
async fn waiters_are_notified_of_long_pauses_only() {
    for (seconds, long) in [(1, false), (60, true)] {
        let gate = gate();
        let mut calls = full(&gate);
        let heard = gate.next_long_pause();
        tokio::pin!(heard);
        heard.as_mut().enable();
        answered_429(calls.pop().unwrap(), seconds);
        assert_eq!(futures::poll!(heard).is_ready(), long, "{seconds} s");
        assert_eq!(gate.long_pause().is_some(), long);
    }
}

/// Proves: P-calls-bound
#[tokio::test]
async fn an_abandoned_waiter_blocks_no_other_and_is_not_counted() {
    let gate = gate();
    let mut calls = full(&gate);
    let mut tasks = parked(&gate, 2).await;
    let gave_up = tasks.remove(0);
    gave_up.abort();
    assert!(gave_up.await.is_err());
    assert_eq!(gate.metrics.calls_waiting.get(), 1);
    drop(calls.pop());
    let next = tasks.remove(0);
    soon(next).await.unwrap();
}

/// Proves: P-calls-bound
#[tokio::test]
async fn a_permit_that_is_given_back_unused_is_none_to_the_rate_limit() {
    let gate = gate();
    gate.limit(Some(RateLimit {
        requests_per_second: Some(1),
        burst: Some(1),
    }));
    for _ in 0..100 {
        drop(gate.permit_at_once().unwrap());
    }
    let mut used = gate.permit_at_once().unwrap();
    used.begin();
    drop(used);
    assert!(gate.permit_at_once().is_none());
}

/// Proves: P-pause
#[tokio::test]
async fn the_end_of_a_pause_is_noticed_by_itself() {
    let gate = gate();
    answered_429(gate.permit_at_once().unwrap(), 1);
    assert!(gate.permit_at_once().is_none());
    soon(gate.permit_for("team")).await;
}
