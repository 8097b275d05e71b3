#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::controller::state::fixtures::key;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn too_many(seconds: u64) -> Capacity {
    Capacity::TooMany(Some(Duration::from_secs(seconds)))
}

fn at_most(requests_per_second: i32, burst: i32) -> RateLimit {
    RateLimit {
        requests_per_second: Some(requests_per_second),
        burst: Some(burst),
    }
}

/// The limits, without anyone to notify.
type Limits = Calls<&'static str>;

impl Limits {
    fn start(&mut self, now: Timestamp) -> Option<Call> {
        self.begin_at_once(&"team".into(), now)
    }

    fn start_all(&mut self, now: Timestamp) -> Vec<Call> {
        std::iter::from_fn(|| self.start(now)).collect()
    }

    fn ended(&mut self, call: &Call, outcome: Capacity, now: Timestamp) -> Option<&'static str> {
        self.end(call, Some(outcome), now)
    }

    fn enqueue(&mut self, waiter: &'static str) {
        self.places.enqueue(&"team".into(), waiter);
    }
}

fn pauses(limits: &mut Limits, outcome: Capacity, calls: usize) -> (Vec<Duration>, Timestamp) {
    let mut now = START;
    let mut pauses = Vec::new();
    for _ in 0..calls {
        let call = limits.start(now).unwrap();
        limits.ended(&call, outcome, now);
        let until = limits.pauses.until(now).unwrap();
        pauses.push(until.duration_since(now).unsigned_abs());
        now = until;
    }
    (pauses, now)
}

/// Proves: P-calls-bound
#[test]
fn a_thousand_that_wait_are_served_by_32_at_a_time() {
    let mut limits = Limits::new(1);
    (0..1000).for_each(|_| limits.enqueue("waits"));
    let mut in_flight = VecDeque::from(limits.begin_waiting(START));
    let (mut most, mut served) = (in_flight.len(), 0);
    while let Some((_, call)) = in_flight.pop_front() {
        limits.ended(&call, Capacity::Served, START);
        served += 1;
        in_flight.extend(limits.begin_waiting(START));
        most = most.max(in_flight.len());
    }
    assert_eq!((served, most, limits.places.waiting()), (1000, PLACES, 0));
}

/// Proves: P-pause
#[test]
fn a_429_pauses_all_calls_for_its_retry_after_then_admits_one() {
    let mut limits = Limits::new(1);
    let call = limits.start(START).unwrap();
    let cause = limits.ended(&call, too_many(60), START);
    assert_eq!(cause, Some(TOO_MANY_REQUESTS));
    let end = later(START, MINUTE);
    assert_eq!(limits.pauses.until(START), Some(end));
    assert_eq!(limits.pauses.long_until(START), Some(end));
    let before = later(START, Duration::from_millis(59_999));
    assert!(limits.start(before).is_none());
    let first = limits.start_all(end);
    assert_eq!(first.len(), 1, "a second call beside the first one");
    limits.ended(&first[0], Capacity::Served, end);
    assert_eq!(limits.start_all(end).len(), PLACES);
}

/// Proves: P-pause
#[test]
fn all_the_429s_of_one_burst_begin_one_pause() {
    let mut limits = Limits::new(1);
    let calls = limits.start_all(START);
    let asked = |n| if n == 7 { too_many(60) } else { too_many(1) };
    let mut begun = 0;
    for (n, call) in calls[1..].iter().enumerate() {
        begun += usize::from(limits.ended(call, asked(n), START).is_some());
    }
    assert_eq!((begun, limits.pauses.refusals), (1, 1));
    // The longest is waited for, and the end of a call from before the pause doesn't end it.
    limits.ended(&calls[0], Capacity::Served, START);
    assert_eq!(limits.pauses.until(START), Some(later(START, MINUTE)));
    assert_eq!(limits.start_all(later(START, MINUTE)).len(), 1);
}

/// Proves: P-pause
#[test]
fn a_pause_is_shown_from_5_seconds_on() {
    for (seconds, shown) in [(4, false), (5, true)] {
        let mut limits = Limits::new(1);
        let call = limits.start(START).unwrap();
        limits.ended(&call, too_many(seconds), START);
        let long = limits.pauses.long_until(START);
        assert_eq!(long.is_some(), shown, "{seconds} s");
    }
}

/// Proves: P-pause
#[test]
fn a_pause_is_the_longer_of_retry_after_and_backoff() {
    let (pauses, _) = pauses(&mut Limits::new(1), too_many(2), 10);
    assert_eq!(pauses[0], 2 * SECOND);
    assert!(pauses[9] > MINUTE, "{pauses:?}");
}

/// Proves: P-pause
#[test]
fn pauses_after_429s_without_retry_after_grow_within_bounds() {
    let mut limits = Limits::new(7);
    let (pauses, now) = pauses(&mut limits, Capacity::TooMany(None), 14);
    assert!(pauses[0] < LONG_PAUSE && pauses[6] > pauses[0] && pauses[13] > pauses[6]);
    assert!(pauses.iter().all(|pause| *pause <= Duration::from_mins(5)));
    let call = limits.start(now).unwrap();
    limits.ended(&call, Capacity::Served, now);
    let call = limits.start(now).unwrap();
    limits.ended(&call, Capacity::TooMany(None), now);
    let again = limits.pauses.until(now).unwrap().duration_since(now);
    assert!(
        again.unsigned_abs() < LONG_PAUSE,
        "what was served is not forgotten"
    );
    assert_eq!(limits.pauses.long_until(now), None);
}

/// Proves: P-pause
#[test]
fn three_lost_calls_in_a_row_pause_all_calls_then_admit_one() {
    let mut now = START;
    let mut limits = Limits::new(1);
    let calls = limits.start_all(now);
    let begun: Vec<_> = calls
        .iter()
        .map(|call| limits.ended(call, Capacity::Lost, now))
        .collect();
    assert_eq!(begun[..3], [None, None, Some(UNANSWERED)]);
    assert!(begun[3..].iter().all(Option::is_none), "of one burst");
    for _ in 0..20 {
        let until = limits.pauses.until(now).unwrap();
        assert!(until <= later(now, 2 * SECOND));
        assert_eq!(limits.pauses.long_until(now), None);
        now = until;
        let first = limits.start_all(now);
        assert_eq!(first.len(), 1);
        assert_eq!(
            limits.ended(&first[0], Capacity::Lost, now),
            Some(UNANSWERED),
            "the first one again"
        );
    }
    now = limits.pauses.until(now).unwrap();
    let first = limits.start(now).unwrap();
    limits.ended(&first, Capacity::Served, now);
    assert_eq!(limits.start_all(now).len(), PLACES);
}

/// Proves: P-pause
#[test]
fn lost_calls_among_answered_ones_cause_no_pause() {
    let mut limits = Limits::new(1);
    for _ in 0..20 {
        for outcome in [Capacity::Lost, Capacity::Lost, Capacity::Served] {
            let call = limits.start(START).unwrap();
            assert_eq!(limits.ended(&call, outcome, START), None);
        }
    }
    assert_eq!(limits.start_all(START).len(), PLACES);
}

/// Proves: P-calls-bound
#[test]
fn after_an_outage_a_single_call_is_sent_first() {
    let mut limits = Limits::new(1);
    let before = limits.start(START).unwrap();
    limits.pauses.one_first = true;
    assert!(limits.start(START).is_none());
    limits.ended(&before, Capacity::Unknown, START);
    let first = limits.start_all(START);
    assert_eq!(first.len(), 1);
    limits.ended(&first[0], Capacity::Served, START);
    assert_eq!(limits.start_all(START).len(), PLACES);
}

#[test]
fn those_that_wait_for_the_end_of_a_pause_follow_the_first() {
    let mut limits = Limits::new(1);
    let call = limits.start(START).unwrap();
    limits.ended(&call, too_many(2), START);
    limits.enqueue("a");
    limits.enqueue("b");
    assert!(limits.begin_waiting(START).is_empty());
    let end = limits.next_timer(START).unwrap();
    assert_eq!(end, later(START, 2 * SECOND));
    assert_eq!(limits.next_timer(START), None, "it is set");
    assert!(limits.start(end).is_none(), "others wait");
    let (waiter, first) = limits.begin_waiting(end).remove(0);
    assert_eq!((waiter, limits.begin_waiting(end).len()), ("a", 0));
    limits.ended(&first, Capacity::Served, end);
    assert_eq!(limits.begin_waiting(end)[0].0, "b");
}

/// Proves: P-calls-bound
#[test]
fn the_burst_is_admitted_and_the_next_call_has_to_wait() {
    let mut limits = Limits::new(1);
    limits.rate.set(Some(at_most(2, 3)));
    assert_eq!(limits.start_all(START).len(), 3);
    limits.enqueue("waits");
    // A check resets nothing.
    limits.rate.set(Some(at_most(2, 3)));
    assert!(limits.begin_waiting(START).is_empty());
    let next = limits.next_timer(START).unwrap();
    assert_eq!(next, later(START, SECOND / 2));
    assert_eq!(limits.begin_waiting(next).len(), 1);
    assert!(limits.start(next).is_none());
    limits.rate.set(None);
    assert_eq!(limits.start_all(next).len(), PLACES - 4);
}

/// Proves: P-calls-bound
#[test]
fn an_unset_half_of_the_limit_has_its_default() {
    let mut rate = Rate::default();
    rate.set(Some(RateLimit {
        requests_per_second: None,
        burst: None,
    }));
    let mut taken = |now| (0..100).take_while(|_| rate.take(now)).count();
    assert_eq!((taken(START), taken(later(START, SECOND))), (40, 20));
}

/// Waits longer than any wait of a test; only a hang reaches the end.
async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(MINUTE, wait).await.unwrap()
}

fn limiter() -> Arc<CallLimiter> {
    Arc::new(CallLimiter::new(key(), Arc::new(Metrics::new())))
}

fn full(limiter: &Arc<CallLimiter>) -> Vec<CallPermit> {
    let calls: Vec<_> = std::iter::from_fn(|| limiter.ask("team").ok()).collect();
    assert_eq!(calls.len(), PLACES);
    calls
}

fn queued(limiter: &Arc<CallLimiter>) -> Queued<CallPermit> {
    limiter.ask("team").err().unwrap()
}

/// Proves: P-calls-bound
#[test]
fn the_room_of_a_call_is_given_back_however_it_ends() {
    let limiter = limiter();
    let mut calls = full(&limiter);
    // A task that is aborted drops its permit.
    drop(calls.pop());
    let call = limiter.ask("team").ok().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _call = call;
        resume_unwind(Box::new("a call panics"));
    }));
    assert!(panicked.is_err());
    calls.push(limiter.ask("team").ok().unwrap());
    assert!(limiter.ask("team").is_err());
    assert_eq!(limiter.metrics.calls_in_flight.get(), 32);
    drop(calls);
    assert_eq!(limiter.metrics.calls_in_flight.get(), 0);
    assert_eq!(limiter.metrics.calls_waiting.get(), 0);
}

/// Proves: P-calls-bound
#[tokio::test]
async fn an_abandoned_waiter_blocks_no_other_and_is_not_counted() {
    let limiter = limiter();
    let mut calls = full(&limiter);
    let (gone, late, next) = (queued(&limiter), queued(&limiter), queued(&limiter));
    drop(gone);
    assert_eq!(limiter.metrics.calls_waiting.get(), 2);
    drop(calls.pop());
    // It had been given the permit.
    drop(late);
    soon(next.given()).await;
}

#[tokio::test]
async fn waiters_are_notified_of_long_pauses_only() {
    for (seconds, long) in [(1, false), (60, true)] {
        let limiter = limiter();
        let mut calls = full(&limiter);
        let (place, woken) = waiting(&limiter);
        calls.pop().unwrap().ended(too_many(seconds));
        assert_eq!(woken(), usize::from(long), "{seconds} s");
        assert_eq!(limiter.long_pause().is_some(), long);
        drop(place);
    }
}

fn waiting(limiter: &Arc<CallLimiter>) -> (Queued<CallPermit>, impl Fn() -> usize + use<>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let wake = Box::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let place = limiter.ask_or_wake("team", wake).err().unwrap();
    (place, move || count.load(Ordering::SeqCst))
}

#[tokio::test]
async fn one_who_waits_is_woken_by_the_grant_and_takes_it_once() {
    let limiter = limiter();
    let mut calls = full(&limiter);
    let (mut first, woken) = waiting(&limiter);
    let (second, next) = waiting(&limiter);
    assert!(first.try_given().is_none() && first.is_in(&limiter));
    calls.pop().unwrap().ended(Capacity::Served);
    assert_eq!((woken(), next()), (1, 0));
    let permit = first.try_given().unwrap();
    assert!(first.try_given().is_none());
    // Unused, it is given to the next; a place that is left with its permit gives that back, too.
    drop(permit);
    assert_eq!(next(), 1);
    let (_third, last) = waiting(&limiter);
    drop(second);
    assert_eq!(last(), 1);
}

/// Proves: P-calls-bound
#[tokio::test]
async fn a_permit_counts_for_the_rate_limit_from_its_beginning_on() {
    let limiter = limiter();
    limiter.set_rate(Some(at_most(1, 1)));
    for _ in 0..100 {
        drop(limiter.ask("team").ok().unwrap());
    }
    let mut used = limiter.ask("team").ok().unwrap();
    used.begin();
    drop(used);
    assert!(limiter.ask("team").is_err());
}

/// Proves: P-pause
#[tokio::test]
async fn the_end_of_a_pause_is_noticed_by_itself() {
    let limiter = limiter();
    limiter.ask("team").ok().unwrap().ended(too_many(1));
    soon(queued(&limiter).given()).await;
}
