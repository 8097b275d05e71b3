#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::HashSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn caller(uid: &str) -> Caller {
    of("team", uid)
}

fn of(namespace: &str, uid: &str) -> Caller {
    Caller {
        uid: uid.to_owned(),
        namespace: namespace.to_owned(),
        name: format!("run-{uid}"),
    }
}

fn uids(callers: &[Caller]) -> Vec<&str> {
    callers.iter().map(|caller| caller.uid.as_str()).collect()
}

/// One call at a time, and that one is under way.
fn taken(now: Instant) -> (Turns<&'static str>, Started) {
    let mut turns = Turns::new(Window::new(1), |task| *task == "gone");
    turns.start_slowly();
    let call = turns.enter(&caller("first"), now).unwrap();
    (turns, call)
}

#[test]
fn runs_are_called_in_the_order_in_which_they_came() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    for uid in ["a", "b", "c"] {
        assert!(turns.enter(&caller(uid), now).is_none());
    }
    assert!(
        turns.enter(&caller("a"), now).is_none(),
        "asked again it keeps its place"
    );
    assert_eq!(turns.waiting(), 3);
    assert!(turns.turn(now).wake.is_empty());
    turns.end(call, Outcome::Untold, now);
    assert_eq!(uids(&turns.turn(now).wake), ["a"]);
    assert!(
        turns.enter(&caller("late comer"), now).is_none(),
        "the room is kept for the one that was called"
    );
    let call = turns.enter(&caller("a"), now).unwrap();
    turns.end(call, Outcome::Served, now);
    assert_eq!(uids(&turns.turn(now).wake), ["b", "c"]);
    assert_eq!(turns.waiting(), 1);
}

#[test]
fn one_that_wants_no_call_any_more_gives_its_turn_to_the_next() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    for uid in ["a", "b", "c"] {
        turns.enter(&caller(uid), now);
    }
    turns.pass("b");
    turns.end(call, Outcome::Untold, now);
    assert_eq!(uids(&turns.turn(now).wake), ["a"]);
    turns.pass("a");
    assert_eq!(uids(&turns.turn(now).wake), ["c"]);
    assert_eq!(turns.waiting(), 0);
}

#[test]
fn one_that_was_called_and_does_not_come_blocks_nobody_for_long() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    turns.enter(&caller("slow"), now);
    turns.enter(&caller("b"), now);
    turns.enter(&caller("c"), now);
    turns.end(call, Outcome::Untold, now);
    let turn = turns.turn(now);
    assert_eq!(uids(&turn.wake), ["slow"]);
    assert!(turns.enter_at_once(now).is_none());
    assert_eq!(turn.again, Some(now + CALLED));
    let later = now + CALLED;
    assert_eq!(uids(&turns.turn(later).wake), ["b"]);
    let call = turns.enter(&caller("b"), later).unwrap();
    assert!(turns.enter(&caller("slow"), later).is_none());
    turns.end(call, Outcome::Untold, later);
    assert_eq!(
        uids(&turns.turn(later).wake),
        ["slow"],
        "it comes late, and still before those behind it"
    );
}

#[test]
fn a_run_whose_wake_up_was_lost_is_woken_again() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    turns.enter(&caller("a"), now);
    turns.end(call, Outcome::Untold, now);
    assert_eq!(uids(&turns.turn(now).wake), ["a"]);
    let late = now + CALLED;
    let turn = turns.turn(late);
    assert!(turn.wake.is_empty());
    let again = turn.again.unwrap();
    assert_eq!(uids(&turns.turn(again).wake), ["a"]);
    assert!(turns.enter(&caller("a"), again).is_some());
    let turn = turns.turn(again + SILENT);
    assert!(turn.wake.is_empty() && turn.again.is_none());
}

#[test]
fn where_every_run_comes_late_all_of_them_still_go() {
    let mut now = Instant::now();
    let (mut turns, call) = taken(now);
    for n in 0..40 {
        turns.enter(&caller(&n.to_string()), now);
    }
    turns.end(call, Outcome::Untold, now);
    let mut woken = turns.turn(now).wake;
    let mut served = HashSet::new();
    for _ in 0..200 {
        now += 2 * CALLED;
        let mut next = Vec::new();
        for caller in woken {
            next.extend(turns.turn(now).wake);
            if served.contains(&caller.uid) {
                turns.pass(&caller.uid);
            } else if let Some(call) = turns.enter(&caller, now) {
                turns.end(call, Outcome::Untold, now);
                served.insert(caller.uid);
            }
        }
        next.extend(turns.turn(now).wake);
        woken = next;
    }
    assert_eq!((served.len(), turns.waiting()), (40, 0));
}

#[test]
fn tasks_and_runs_wait_in_one_line_and_a_task_that_has_gone_is_passed_over() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    turns.enqueue("team", "gone");
    turns.enqueue("team", "stream");
    turns.enter(&caller("a"), now);
    assert!(turns.enter_at_once(now).is_none());
    turns.end(call, Outcome::Untold, now);
    let turn = turns.turn(now);
    assert_eq!((turn.go.len(), turn.wake.len()), (1, 0));
    let (task, call) = turn.go[0];
    assert_eq!(task, "stream");
    turns.end(call, Outcome::Untold, now);
    assert_eq!(uids(&turns.turn(now).wake), ["a"]);
    assert_eq!(turns.waiting(), 0);
}

#[test]
fn nobody_is_called_in_a_pause_and_one_is_at_its_end() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    turns.end(call, Outcome::TooMany(Some(2 * SECOND)), now);
    for uid in ["a", "b"] {
        assert!(turns.enter(&caller(uid), now).is_none());
    }
    let turn = turns.turn(now);
    assert!(turn.wake.is_empty());
    let end = turn.again.unwrap();
    assert_eq!(end, now + 2 * SECOND);
    assert_eq!(uids(&turns.turn(end).wake), ["a"]);
    let first = turns.enter(&caller("a"), end).unwrap();
    assert!(turns.turn(end).wake.is_empty());
    turns.end(first, Outcome::Served, end);
    assert_eq!(uids(&turns.turn(end).wake), ["b"]);
}

#[test]
fn a_long_pause_sends_the_runs_away_and_keeps_the_tasks() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    for uid in ["a", "b"] {
        turns.enter(&caller(uid), now);
    }
    turns.enqueue("team", "stream");
    let begun = turns.end(call, Outcome::TooMany(Some(60 * SECOND)), now);
    assert_eq!(begun, Some(Cause::TooMany));
    assert_eq!(uids(&turns.send_away()), ["a", "b"]);
    assert_eq!(turns.waiting(), 1);
    let turn = turns.turn(now + 60 * SECOND);
    assert_eq!(turn.go.len(), 1);
}

#[test]
fn a_run_that_waits_for_long_is_woken_once_to_say_so() {
    let now = Instant::now();
    let (mut turns, _call) = taken(now);
    turns.enter(&caller("a"), now);
    assert_eq!(turns.turn(now).again, Some(now + SILENT));
    assert!(!turns.waits_long("a", now));
    let later = now + SILENT;
    assert_eq!(uids(&turns.turn(later).wake), ["a"]);
    assert!(turns.waits_long("a", later));
    assert!(turns.enter(&caller("a"), later).is_none());
    let turn = turns.turn(later + SILENT);
    assert!(turn.wake.is_empty() && turn.again.is_none());
}

#[test]
fn the_rate_limit_holds_for_runs_and_tasks_together() {
    let now = Instant::now();
    let mut turns: Turns<&str> = Turns::new(Window::new(1), |_| false);
    let limit = RateLimit {
        requests_per_second: Some(1),
        burst: Some(2),
    };
    turns.limit(Some(limit));
    assert!(turns.enter_at_once(now).is_some());
    assert!(turns.enter(&caller("a"), now).is_some());
    assert!(turns.enter(&caller("b"), now).is_none());
    turns.limit(Some(limit));
    let turn = turns.turn(now);
    assert!(turn.wake.is_empty(), "a check resets the limit");
    assert!(turn.again.is_some_and(|at| at <= now + SECOND));
    turns.limit(None);
    assert_eq!(uids(&turns.turn(now).wake), ["b"]);
}

#[test]
fn when_everybody_is_woken_at_once_no_more_go_than_the_window_is_wide() {
    let now = Instant::now();
    let mut turns: Turns<&str> = Turns::new(Window::new(1), |_| false);
    turns.start_slowly();
    let all: Vec<Caller> = (0..1000).map(|n| caller(&n.to_string())).collect();
    let mut under_way: VecDeque<Started> = all
        .iter()
        .filter_map(|caller| turns.enter(caller, now))
        .collect();
    let (mut most, mut served) = (under_way.len(), 0);
    while let Some(call) = under_way.pop_front() {
        turns.end(call, Outcome::Served, now);
        served += 1;
        for caller in turns.turn(now).wake {
            under_way.extend(turns.enter(&caller, now));
        }
        most = most.max(under_way.len());
    }
    assert_eq!((served, most), (1000, 32));
    assert_eq!((turns.waiting(), turns.places.len()), (0, 0));
}

/// Ends the call under way again and again, and gives what goes then, Runs and tasks, in its order.
fn one_after_another(
    turns: &mut Turns<&'static str>,
    mut call: Started,
    now: Instant,
) -> Vec<String> {
    let mut gone = Vec::new();
    loop {
        turns.end(call, Outcome::Untold, now);
        let turn = turns.turn(now);
        assert!(turn.go.len() + turn.wake.len() <= 1, "{turn:?}");
        if let Some((task, started)) = turn.go.into_iter().next() {
            gone.push(task.to_owned());
            call = started;
        } else if let Some(caller) = turn.wake.into_iter().next() {
            call = turns.enter(&caller, now).unwrap();
            gone.push(caller.uid);
        } else {
            return gone;
        }
    }
}

#[test]
fn one_run_of_a_namespace_goes_second_behind_a_thousand_of_another() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    let mut expected = Vec::new();
    for n in 0..1000 {
        let big = of("big", &n.to_string());
        assert!(turns.enter(&big, now).is_none());
        expected.push(big.uid);
    }
    assert!(turns.enter(&of("small", "other"), now).is_none());
    expected.insert(1, "other".to_owned());
    assert_eq!(turns.waiting(), 1001);
    assert_eq!(one_after_another(&mut turns, call, now), expected);
    assert_eq!((turns.waiting(), turns.places.len()), (0, 0));
}

#[test]
fn the_tasks_of_a_namespace_take_turns_with_the_runs_of_others() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    for task in ["gone", "one", "two", "gone", "three"] {
        turns.enqueue("big", task);
    }
    turns.enqueue("passing", "gone");
    for uid in ["a", "b"] {
        turns.enter(&of("small", uid), now);
    }
    turns.enter(&of("big", "c"), now);
    let expected = ["one", "a", "two", "b", "three", "c"];
    assert_eq!(one_after_another(&mut turns, call, now), expected);
    assert_eq!(turns.waiting(), 0);
}

#[test]
fn late_runs_go_first_in_their_namespace_and_not_before_those_of_others() {
    let now = Instant::now();
    let (mut turns, mut call) = taken(now);
    for uid in ["slow", "slower", "a"] {
        turns.enter(&of("big", uid), now);
    }
    turns.end(call, Outcome::Untold, now);
    assert_eq!(uids(&turns.turn(now).wake), ["slow"]);
    let later = now + CALLED;
    assert_eq!(uids(&turns.turn(later).wake), ["slower"]);
    let latest = later + CALLED;
    assert_eq!(uids(&turns.turn(latest).wake), ["a"]);
    call = turns.enter(&of("big", "a"), latest).unwrap();
    for (namespace, uid) in [
        ("big", "b"),
        ("small", "other"),
        ("big", "slow"),
        ("big", "slower"),
    ] {
        assert!(turns.enter(&of(namespace, uid), latest).is_none());
    }
    let expected = ["slower", "other", "slow", "b"];
    assert_eq!(one_after_another(&mut turns, call, latest), expected);
}

#[test]
fn a_long_pause_leaves_the_tasks_of_every_namespace_their_turns() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    for (namespace, task) in [("big", "one"), ("big", "two"), ("small", "three")] {
        turns.enter(&of(namespace, task), now);
        turns.enqueue(namespace, task);
    }
    turns.enter(&of("third", "four"), now);
    turns.end(call, Outcome::TooMany(Some(60 * SECOND)), now);
    assert_eq!(uids(&turns.send_away()), ["one", "two", "three", "four"]);
    let end = now + 60 * SECOND;
    let turn = turns.turn(end);
    let [(first, call)] = turn.go[..] else {
        panic!("{turn:?}")
    };
    assert_eq!((first, turn.wake.len()), ("one", 0));
    assert_eq!(one_after_another(&mut turns, call, end), ["three", "two"]);
}

#[test]
fn one_that_comes_just_when_a_pause_ends_goes_behind_those_that_waited() {
    let now = Instant::now();
    let (mut turns, call) = taken(now);
    turns.end(call, Outcome::TooMany(Some(SECOND)), now);
    assert!(turns.enter(&caller("waits"), now).is_none());
    let over = turns.window().paused_until(now).unwrap();
    assert!(turns.enter(&caller("late"), over).is_none());
    assert_eq!(uids(&turns.turn(over).wake), ["waits"]);
}
