#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

fn too_many(seconds: u64) -> Capacity {
    Capacity::TooMany(Some(Duration::from_secs(seconds)))
}

/// The pauses after calls that end so, each made when the pause before it is over, and the end of the last.
fn waits(limit: &mut Concurrency, outcome: Capacity, calls: usize) -> (Vec<Duration>, Instant) {
    let mut now = Instant::now();
    let mut waits = Vec::new();
    for _ in 0..calls {
        let call = limit.start();
        limit.end(call, outcome, now);
        let until = limit.paused_until(now).unwrap();
        waits.push(until - now);
        now = until;
    }
    (waits, now)
}

fn start_all(limit: &mut Concurrency, now: Instant) -> Vec<CallToken> {
    (0..limit.room(now)).map(|_| limit.start()).collect()
}

/// Proves: P-calls-bound
#[test]
fn a_full_concurrency_limit_admits_one_call_for_each_that_ends() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    let calls = start_all(&mut limit, now);
    assert_eq!((calls.len(), limit.room(now)), (MAX_IN_FLIGHT as usize, 0));
    assert_eq!(limit.end(calls[0], Capacity::Unknown, now), None);
    assert_eq!(limit.room(now), 1);
}

/// Proves: P-calls-bound
#[test]
fn after_an_outage_the_limit_starts_at_one_and_grows_per_answer() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    limit.start_slowly();
    let mut widths = Vec::new();
    for _ in 0..6 {
        let calls = start_all(&mut limit, now);
        widths.push(calls.len());
        for call in calls {
            limit.end(call, Capacity::Served, now);
        }
    }
    assert_eq!(widths, [1, 2, 4, 8, 16, 32]);
    let call = limit.start();
    limit.end(call, Capacity::Served, now);
    assert_eq!(limit.room(now), MAX_IN_FLIGHT, "it grows no further");
}

#[test]
fn what_gets_no_answer_does_not_widen_it() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    limit.start_slowly();
    let call = limit.start();
    limit.end(call, Capacity::Unknown, now);
    assert_eq!(limit.room(now), 1);
}

/// Proves: P-pause
#[test]
fn a_429_pauses_all_calls_for_its_retry_after_then_admits_one() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    let call = limit.start();
    assert_eq!(
        limit.end(call, too_many(60), now),
        Some(PauseCause::TooManyRequests)
    );
    let end = now + MINUTE;
    assert_eq!(limit.paused_until(now), Some(end));
    assert_eq!(limit.long_pause(now), Some(end));
    let before = end.checked_sub(Duration::from_millis(1)).unwrap();
    assert_eq!((limit.room(before), limit.room(end)), (0, 1));
    let first = limit.start();
    assert_eq!(limit.room(end), 0, "a second call beside the first one");
    limit.end(first, Capacity::Served, end);
    assert_eq!(limit.room(end), MAX_IN_FLIGHT / 2 + 1);
}

#[test]
fn a_first_call_without_an_answer_is_followed_by_one_more_alone() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    let call = limit.start();
    limit.end(call, too_many(60), now);
    let first = limit.start();
    limit.end(first, Capacity::Unknown, now + MINUTE);
    assert_eq!(limit.room(now + MINUTE), 1);
}

/// Proves: P-pause
#[test]
fn all_the_429s_of_one_burst_halve_the_window_once() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    let calls = start_all(&mut limit, now);
    let begun = calls.into_iter().map(|c| limit.end(c, too_many(1), now));
    assert_eq!(begun.flatten().count(), 1);
    let later = now + MINUTE;
    let first = limit.start();
    limit.end(first, Capacity::Served, later);
    assert_eq!(limit.room(later), MAX_IN_FLIGHT / 2 + 1);
}

#[test]
fn a_later_429_of_the_burst_that_asks_for_more_is_given_it() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    let calls = [limit.start(), limit.start(), limit.start()];
    limit.end(calls[0], too_many(10), now);
    limit.end(calls[1], too_many(60), now);
    limit.end(calls[2], too_many(2), now);
    assert_eq!(limit.paused_until(now), Some(now + MINUTE));
}

#[test]
fn calls_from_before_a_pause_neither_end_it_nor_raise_the_limit() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    let calls = [limit.start(), limit.start()];
    limit.end(calls[0], too_many(60), now);
    limit.end(calls[1], Capacity::Served, now);
    assert_eq!(limit.room(now), 0);
    assert_eq!(limit.room(now + MINUTE), 1);
}

/// Proves: P-pause
#[test]
fn a_pause_is_shown_from_5_seconds_on() {
    for (seconds, shown) in [(4, false), (5, true)] {
        let now = Instant::now();
        let mut limit = Concurrency::new(1);
        let call = limit.start();
        limit.end(call, too_many(seconds), now);
        assert_eq!(limit.long_pause(now).is_some(), shown, "{seconds} s");
    }
}

/// Proves: P-pause
#[test]
fn a_pause_is_the_longer_of_retry_after_and_backoff() {
    let (waits, _) = waits(&mut Concurrency::new(1), too_many(2), 10);
    assert_eq!(waits[0], Duration::from_secs(2));
    assert!(waits[9] > MINUTE, "{waits:?}");
}

/// Proves: P-pause
#[test]
fn pauses_after_429s_without_retry_after_grow_within_bounds() {
    let mut limit = Concurrency::new(7);
    let (waits, now) = waits(&mut limit, Capacity::TooMany(None), 14);
    assert!(waits[0] < LONG_PAUSE && waits[6] > waits[0] && waits[13] > waits[6]);
    assert!(waits.iter().all(|wait| *wait <= Duration::from_mins(5)));
    assert_eq!(limit.size, 1, "it never closes");
    let call = limit.start();
    limit.end(call, Capacity::Served, now);
    let call = limit.start();
    limit.end(call, Capacity::TooMany(None), now);
    let again = limit.paused_until(now).unwrap() - now;
    assert!(again < LONG_PAUSE, "what was served is not forgotten");
    assert_eq!(limit.long_pause(now), None);
}

/// Proves: P-pause
#[test]
fn three_lost_calls_in_a_row_pause_all_calls_then_admit_one() {
    let mut now = Instant::now();
    let mut limit = Concurrency::new(1);
    let calls = start_all(&mut limit, now);
    let begun: Vec<_> = calls
        .into_iter()
        .map(|call| limit.end(call, Capacity::Lost, now))
        .collect();
    assert_eq!(begun[..3], [None, None, Some(PauseCause::NoAnswer)]);
    assert!(begun[3..].iter().all(Option::is_none), "of one burst");
    for _ in 0..20 {
        let until = limit.paused_until(now).unwrap();
        assert!(until - now <= Duration::from_secs(2));
        assert_eq!(limit.long_pause(now), None);
        now = until;
        assert_eq!(limit.room(now), 1);
        let first = limit.start();
        assert_eq!(
            limit.end(first, Capacity::Lost, now),
            Some(PauseCause::NoAnswer),
            "the first one again"
        );
    }
    now = limit.paused_until(now).unwrap();
    let first = limit.start();
    limit.end(first, Capacity::Served, now);
    assert_eq!(limit.room(now), 2, "it starts slowly");
}

/// Proves: P-pause
#[test]
fn lost_calls_among_answered_ones_cause_no_pause() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    for _ in 0..20 {
        for outcome in [Capacity::Lost, Capacity::Lost, Capacity::Served] {
            let call = limit.start();
            assert_eq!(limit.end(call, outcome, now), None);
        }
    }
    assert_eq!(limit.room(now), MAX_IN_FLIGHT);
}

#[test]
fn an_absurd_retry_after_is_clamped() {
    let now = Instant::now();
    let mut limit = Concurrency::new(1);
    let call = limit.start();
    limit.end(call, too_many(u64::MAX), now);
    assert_eq!(limit.paused_until(now), Some(now + Duration::from_mins(10)));
}
