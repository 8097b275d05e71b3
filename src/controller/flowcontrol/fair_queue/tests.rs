#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::workspace::RateLimit;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

type Queue = FairQueue<&'static str>;

fn queue() -> Queue {
    FairQueue::new(Concurrency::new(1), |waiter| *waiter == "gave up")
}

/// A queue with one call at a time, which is in flight.
fn busy(now: Instant) -> (Queue, CallToken) {
    let mut queue = queue();
    queue.concurrency.start_slowly();
    let call = queue.start_at_once(now).unwrap();
    (queue, call)
}

fn names<T: Copy>(due: &Due<T>) -> Vec<T> {
    due.go.iter().map(|(waiter, _)| *waiter).collect()
}

/// Ends the call in flight repeatedly; returns the order of the waiters.
fn one_after_another<T: Copy>(
    queue: &mut FairQueue<T>,
    mut call: CallToken,
    now: Instant,
) -> Vec<T> {
    let mut order = Vec::new();
    loop {
        queue.concurrency.end(call, Capacity::Unknown, now);
        let due = queue.due(now);
        assert!(due.go.len() <= 1);
        let Some((waiter, started)) = due.go.into_iter().next() else {
            return order;
        };
        order.push(waiter);
        call = started;
    }
}

/// Proves: P-calls-bound
#[test]
fn waiters_of_a_namespace_go_in_the_order_in_which_they_came() {
    let now = Instant::now();
    let (mut queue, call) = busy(now);
    for waiter in ["a", "b", "c"] {
        queue.enqueue("team", waiter);
    }
    assert_eq!(queue.waiting(), 3);
    assert!(queue.due(now).go.is_empty());
    assert!(queue.start_at_once(now).is_none(), "others wait");
    assert_eq!(one_after_another(&mut queue, call, now), ["a", "b", "c"]);
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_waiter_that_gave_up_is_passed_over_and_counts_no_more() {
    let now = Instant::now();
    let (mut queue, call) = busy(now);
    for waiter in ["gave up", "a", "gave up", "b"] {
        queue.enqueue("team", waiter);
    }
    queue.abandon();
    queue.abandon();
    assert_eq!(queue.waiting(), 2);
    assert_eq!(one_after_another(&mut queue, call, now), ["a", "b"]);
    assert_eq!((queue.waiting(), queue.abandoned), (0, 0));
}

/// Proves: P-calls-bound
#[test]
fn waiters_that_repeatedly_give_up_leave_no_entries() {
    let now = Instant::now();
    let (mut queue, _call) = busy(now);
    queue.enqueue("team", "first");
    for _ in 0..10_000 {
        queue.enqueue("team", "gave up");
        queue.abandon();
    }
    assert!(queue.queue.len() < 4, "{}", queue.queue.len());
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn a_pause_admits_none_and_its_end_admits_one() {
    let now = Instant::now();
    let (mut queue, call) = busy(now);
    queue
        .concurrency
        .end(call, Capacity::TooMany(Some(2 * SECOND)), now);
    for waiter in ["a", "b"] {
        queue.enqueue("team", waiter);
    }
    let due = queue.due(now);
    assert!(due.go.is_empty());
    let end = due.again.unwrap();
    assert_eq!(end, now + 2 * SECOND);
    let due = queue.due(end);
    assert_eq!(names(&due), ["a"]);
    let (_, first) = due.go[0];
    queue.concurrency.end(first, Capacity::Served, end);
    assert_eq!(names(&queue.due(end)), ["b"]);
}

/// Proves: P-calls-bound
#[test]
fn a_waiter_arriving_as_a_pause_ends_queues_behind_the_others() {
    let now = Instant::now();
    let (mut queue, call) = busy(now);
    queue
        .concurrency
        .end(call, Capacity::TooMany(Some(SECOND)), now);
    queue.enqueue("team", "waits");
    let over = queue.concurrency.paused_until(now).unwrap();
    assert!(queue.start_at_once(over).is_none());
    queue.enqueue("team", "late");
    assert_eq!(names(&queue.due(over)), ["waits"]);
}

/// Proves: P-rate-limit
#[test]
fn the_rate_limit_is_kept_and_not_reset_by_a_check() {
    let now = Instant::now();
    let mut queue = queue();
    let limit = RateLimit {
        requests_per_second: Some(1),
        burst: Some(2),
    };
    queue.rate.limit(Some(limit));
    assert!(queue.start_at_once(now).is_some());
    assert!(queue.start_at_once(now).is_some());
    assert!(queue.start_at_once(now).is_none());
    queue.enqueue("team", "b");
    queue.rate.limit(Some(limit));
    let due = queue.due(now);
    assert!(due.go.is_empty(), "a check resets the limit");
    assert!(due.again.is_some_and(|at| at <= now + SECOND));
    queue.rate.limit(None);
    assert_eq!(names(&queue.due(now)), ["b"]);
}

#[test]
fn what_is_given_back_unused_costs_the_rate_limit_nothing() {
    let now = Instant::now();
    let mut queue = queue();
    queue.rate.limit(Some(RateLimit {
        requests_per_second: Some(1),
        burst: Some(1),
    }));
    for _ in 0..100 {
        let unused = queue.start_at_once(now).unwrap();
        queue.give_back(unused, now);
    }
    assert!(queue.start_at_once(now).is_some());
    assert!(queue.start_at_once(now).is_none(), "no more than the burst");
}

/// Proves: P-calls-bound
#[test]
fn a_thousand_waiters_never_exceed_the_concurrency_limit() {
    let now = Instant::now();
    let mut queue: FairQueue<usize> = FairQueue::new(Concurrency::new(1), |_| false);
    queue.concurrency.start_slowly();
    (0..1000).for_each(|n| queue.enqueue("team", n));
    let begin = |due: Due<usize>| due.go.into_iter().map(|(_, call)| call);
    let mut in_flight: VecDeque<CallToken> = begin(queue.due(now)).collect();
    let (mut most, mut served) = (in_flight.len(), 0);
    while let Some(call) = in_flight.pop_front() {
        queue.concurrency.end(call, Capacity::Served, now);
        served += 1;
        in_flight.extend(begin(queue.due(now)));
        most = most.max(in_flight.len());
    }
    assert_eq!((served, most, queue.waiting()), (1000, 32, 0));
}

/// Proves: P-calls-bound
#[test]
fn a_lone_waiter_is_second_behind_a_thousand_elsewhere() {
    let now = Instant::now();
    let mut queue: FairQueue<usize> = FairQueue::new(Concurrency::new(1), |_| false);
    queue.concurrency.start_slowly();
    let call = queue.start_at_once(now).unwrap();
    (0..1000).for_each(|n| queue.enqueue("big", n));
    queue.enqueue("small", 5000);
    let expected: Vec<usize> = [0, 5000].into_iter().chain(1..1000).collect();
    assert_eq!(one_after_another(&mut queue, call, now), expected);
}

/// Proves: P-calls-bound
#[test]
fn namespaces_alternate_and_abandoned_waiters_use_no_slot() {
    let now = Instant::now();
    let (mut queue, call) = busy(now);
    for waiter in ["gave up", "one", "two", "gave up", "three"] {
        queue.enqueue("big", waiter);
    }
    queue.enqueue("passing", "gave up");
    for waiter in ["a", "b"] {
        queue.enqueue("small", waiter);
    }
    let expected = ["one", "a", "two", "b", "three"];
    assert_eq!(one_after_another(&mut queue, call, now), expected);
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_long_pause_leaves_every_namespace_its_turn() {
    let now = Instant::now();
    let (mut queue, call) = busy(now);
    for (namespace, waiter) in [("big", "one"), ("big", "two"), ("small", "three")] {
        queue.enqueue(namespace, waiter);
    }
    queue
        .concurrency
        .end(call, Capacity::TooMany(Some(60 * SECOND)), now);
    let end = now + 60 * SECOND;
    let due = queue.due(end);
    assert_eq!(names(&due), ["one"]);
    let (_, call) = due.go[0];
    assert_eq!(one_after_another(&mut queue, call, end), ["three", "two"]);
}
