//! A read that was answered by an error is made again: nothing that is answered to it is final.

use std::time::Duration;

use rstest::rstest;
use run_operator::{
    api::Phase,
    decide::{delays, event_buffer::Received, failure::Failure},
};

use crate::support::{Case, at, bare, condition, hopeless, lost, problem, unreadable, view};

fn running() -> Case {
    let mut case = Case::new()
        .submitted("running")
        .got(Ok(view("running")))
        .settle();
    case.stream = run_operator::decide::Stream::Open;
    case
}

/// An event that names this state.
fn event(case: &mut Case, id: &str, state: &str) {
    let event = Received {
        id: Some(id.into()),
        kind: "state".into(),
        data: "{}".into(),
    };
    let now = case.now;
    case.tracked
        .memory
        .event_buffer
        .receive(&event, Some(state), Some("running"), now);
}

/// Plays second by second. Each call of this kind fails; gives back when they were made.
fn calls(mut case: Case, call: &str, failure: &Failure, seconds: i64) -> (Case, Vec<i64>) {
    let mut made = Vec::new();
    for second in 0..seconds {
        case = case.at(second).settle();
        if case.does() == call {
            made.push(second);
            let failed = Err(failure.clone());
            case = match call {
                "refresh" => case.got(failed),
                "cancel" => case.cancelled(failed),
                _ => case.posted(failed),
            };
        } else if case.does() == "refresh" {
            case = case.got(Ok(view("running")));
        }
    }
    (case, made)
}

/// Proves: F-reads
#[rstest]
#[case::a_page_of_a_proxy(bare(404))]
#[case::a_bare_408(bare(408))]
#[case::a_bare_425(bare(425))]
#[case::a_hopeless_one(hopeless())]
#[case::forbidden(problem(403, "no"))]
#[case::not_found(problem(404, "run_not_found"))]
#[case::unreadable(unreadable())]
#[case::no_answer(lost())]
fn whatever_a_read_is_answered_it_is_made_again_soon(#[case] failure: Failure) {
    let mut case = running().at(0);
    event(&mut case, "1", "succeeded");
    let (case, gets) = calls(case, "refresh", &failure, 110);
    assert!(gets.len() > 3 && gets.len() < 12, "{gets:?}");
    assert!(gets[1] <= 3, "{gets:?}");
    assert!(gets.windows(2).all(|w| w[1] - w[0] <= 66), "{gets:?}");
    let synced = condition(&case.settled(), "Synced").expect("Synced");
    assert_eq!(synced.0, "False");
    assert_eq!(case.settled().phase, Some(Phase::Active));
    // After four seconds of it, the end is seen less than 15 s later than without.
    let mut case = running().at(0);
    event(&mut case, "1", "succeeded");
    let (case, _) = calls(case, "refresh", &failure, 4);
    let asked = |second: &i64| case.clone().at(*second).settle().does() == "refresh";
    let second = (4..15).find(asked).expect("it is read in time");
    let over = case.at(second).settle().got(Ok(view("succeeded")));
    assert_eq!(over.settled().phase, Some(Phase::Succeeded));
}

/// Proves: F-reads
#[rstest]
#[case::refused(problem(403, "no"))]
#[case::no_answer(lost())]
fn the_pauses_between_failed_reads_grow_to_poll_max(#[case] failure: Failure) {
    let (case, gets) = calls(running().at(0), "refresh", &failure, 400);
    let gaps: Vec<_> = gets.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(
        gaps.len() < 16 && gaps.iter().all(|gap| *gap <= 67),
        "{gaps:?}"
    );
    assert!(gaps.last().is_some_and(|gap| *gap >= 60), "{gaps:?}");
    let status = case.settled();
    let synced = status.conditions.iter().find(|c| c.type_ == "Synced");
    let message = &synced.expect("Synced").message;
    assert!(message.contains("it went wrong"), "{message}");
}

/// Proves: P-events-hint
#[test]
fn a_hint_is_followed_while_reads_fail_and_an_old_one_is_not() {
    let mut case = running();
    event(&mut case, "1", "succeeded");
    let failed = (0..6).fold(case, |case, _| case.got(Err(problem(403, "no"))));
    let mut case = failed.at(2).settle();
    assert_eq!(case.does(), "nothing", "that hint had its GET");
    event(&mut case, "2", "succeeded");
    assert_eq!(case.does(), "refresh");
    let case = case.got(Err(problem(403, "no"))).settle();
    assert_eq!(case.does(), "nothing");
    assert_eq!(
        case.got(Ok(view("succeeded"))).settled().state.as_deref(),
        Some("succeeded")
    );
}

/// Proves: P-events-hint
#[rstest]
#[case::too_many(problem(429, "slow"))]
#[case::later(Failure { retry_after: Some(Duration::from_secs(30)), ..bare(503) })]
#[case::token(problem(401, "expired"))]
fn a_hint_waits_where_the_answer_asked_to_wait(#[case] failure: Failure) {
    let mut case = running()
        .got(Err(failure.clone()))
        .got(Err(failure))
        .settle();
    event(&mut case, "1", "succeeded");
    assert_eq!(case.does(), "nothing");
}

/// Proves: P-events-hint
#[test]
fn an_end_that_a_lagging_replica_denies_is_looked_for_soon() {
    let mut case = running();
    event(&mut case, "1", "succeeded");
    let mut gets = Vec::new();
    for second in 0..100 {
        case = case.at(second).settle();
        if case.does() == "refresh" {
            gets.push(second);
            case = case.got(Ok(view("running")));
        }
    }
    assert_eq!(gets[..3], [0, 3, 8], "2 s, then 4 s, with jitter: {gets:?}");
    assert!(gets.len() <= 6, "{gets:?}");
    // An event that names no end any more ends it.
    event(&mut case, "2", "running");
    let case = case.got(Ok(view("running")));
    assert_eq!(case.at(150).does(), "nothing", "the stream tells");
}

/// Proves: F-404
#[test]
fn a_denied_run_is_read_on_and_fails_at_the_third_minute() {
    for poll_max in [10, 600] {
        let mut case = running();
        case.settings.poll_max = Duration::from_secs(poll_max);
        event(&mut case, "1", "succeeded");
        let (case, gets) = calls(case, "refresh", &problem(404, "run_not_found"), 125);
        for mark in [0, 60, 120] {
            assert!(gets.contains(&mark), "{mark} is not in {gets:?}");
        }
        assert!(gets.len() > 5, "{gets:?}");
        let status = case.settled();
        assert_eq!(status.phase, Some(Phase::Failed), "{gets:?}");
        let finished = condition(&status, "Finished").expect("Finished");
        assert_eq!(finished.1, "RunNotFound");
    }
}

/// Proves: D-cancel
#[rstest]
#[case(problem(403, "no"), "CancelRefused")]
#[case(problem(404, "run_not_found"), "CancelRefused")]
#[case(bare(404), "Retrying")]
#[case(problem(429, "slow"), "RateLimited")]
fn a_cancellation_is_asked_for_again_soon(#[case] failure: Failure, #[case] reason: &str) {
    let asked = running().spec(|s| s.cancel = Some(true));
    let (case, cancels) = calls(asked.clone(), "cancel", &failure, 110);
    assert!(cancels.len() > 3 && cancels.len() < 12, "{cancels:?}");
    assert!(cancels[1] <= 5, "{cancels:?}");
    let ready = condition(&case.settled(), "Ready").expect("Ready");
    assert_eq!(ready.1, reason);
    if reason == "CancelRefused" {
        let (_, cancels) = calls(asked, "cancel", &failure, 400);
        let gaps = cancels.windows(2).map(|w| w[1] - w[0]);
        assert!(gaps.max() <= Some(67), "{cancels:?}");
    }
}

/// The 404 that counted hastens the next 404 alone.
#[test]
fn a_failure_after_a_denial_is_retried_with_backoff() {
    let denied = running().got(Err(problem(404, "run_not_found"))).settle();
    let (_, gets) = calls(denied, "refresh", &problem(503, "busy"), 400);
    let soon = gets.windows(2).filter(|pair| pair[1] - pair[0] < 5).count();
    assert!(gets.len() > 5 && soon <= 3, "{gets:?}");
}

#[test]
fn an_unreadable_answer_to_a_cancellation_is_retried_as_none() {
    let asked = || running().spec(|s| s.cancel = Some(true));
    let of = |failure: &Failure| calls(asked(), "cancel", failure, 300).1;
    assert_eq!(of(&unreadable()), of(&lost()));
    assert_ne!(of(&unreadable()), of(&problem(403, "no")));
}

/// Proves: F-final
#[test]
fn in_doubt_a_refused_create_is_repeated_at_the_pace_of_polls() {
    let doubted = Case::new().taken_over();
    let (_, posts) = calls(doubted, "submit", &problem(403, "no"), 400);
    let gaps: Vec<_> = posts.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps[0] <= 3 && gaps.len() < 16, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 67), "{gaps:?}");
}

/// Proves: R10a, F-retried
#[rstest]
#[case::a_page_of_a_proxy(bare(503), 30)]
#[case::its_429(bare(429), 600)]
#[case::the_service(problem(503, "busy"), 600)]
fn a_proxys_retry_after_delays_a_read_or_cancel_by_30_seconds(
    #[case] answer: Failure,
    #[case] pause: i64,
) {
    let failure = Failure {
        retry_after: Some(Duration::from_mins(10)),
        ..answer
    };
    let (_, gets) = calls(running().at(0), "refresh", &failure, 700);
    assert_eq!(gets[1] - gets[0], pause, "{gets:?}");
    let asked = running().spec(|s| s.cancel = Some(true));
    let (_, cancels) = calls(asked, "cancel", &failure, 700);
    assert_eq!(cancels[1] - cancels[0], pause, "{cancels:?}");
    let (_, posts) = calls(Case::new().mine(), "submit", &failure, 700);
    assert_eq!(posts[1] - posts[0], 600, "{posts:?}");
}

/// Proves: F-reads
#[test]
fn a_failed_read_after_a_cancel_is_repeated_soon() {
    let deleted = running().deleting();
    let case = deleted.cancelled(Ok(view("cancelling")));
    let (case, gets) = calls(case, "refresh", &problem(403, "no"), 8);
    assert!(gets.len() >= 2, "{gets:?}");
    assert_eq!(case.got(Ok(view("cancelled"))).does(), "release");
}

/// Proves: F-409
#[test]
fn a_create_in_progress_is_asked_for_again_with_backoff() {
    let works = problem(409, "idempotency_in_progress");
    for begun in [Case::new().mine(), Case::new().taken_over()] {
        let (case, posts) = calls(begun, "submit", &works, 60);
        assert_eq!(case.stalled(), None);
        assert_eq!(posts[0], 0);
        assert!(
            posts[1] <= 1 && posts.len() > 4 && posts.len() < 12,
            "{posts:?}"
        );
        let message = &case.settled().conditions[0].message;
        assert!(
            message.contains("still works on an earlier request"),
            "{message}"
        );
        // Nothing is proved: a deletion asks on, at the same pace.
        let deleted = case.clone().deleting().at(200);
        assert_eq!(deleted.does(), "submit");
        let made = case.posted(Ok(view("running")));
        assert_eq!(made.settled().run_id.as_deref(), Some("run-1"));
    }
}

/// Proves: F-reads
#[test]
fn another_try_of_the_same_failure_costs_no_write_of_its_own() {
    let failed = |n: u32| Failure {
        request_id: Some(format!("req-{n}")),
        ..problem(403, "no")
    };
    let case = running().got(Err(failed(1))).settle();
    let again = case.at(3).got(Err(failed(2)));
    let decision = again.decide();
    assert_eq!(
        (decision.status, decision.requeue_at.is_some()),
        (None, true)
    );
    let told = again.at(10).settled().last_error.expect("an error");
    assert_eq!(told.attempts, 2);
    let other = case_of_another_code(&told.code);
    assert!(other.decide().status.is_some());
}

fn case_of_another_code(code: &str) -> Case {
    assert_eq!(code, "no");
    let case = running().got(Err(problem(403, "no"))).settle();
    case.at(3).got(Err(problem(403, "never")))
}

/// Proves: F-reads
#[test]
fn pauses_after_refusals_grow_within_the_polls_bounds() {
    let bounds = (Duration::from_secs(5), Duration::from_mins(5));
    let pause = |attempt, asked| delays::after_refusal(attempt, bounds, asked, 7);
    let pauses: Vec<_> = (1..20).map(|n| pause(n, None)).collect();
    assert!(pauses.is_sorted());
    assert!(pauses[0] >= bounds.0 && pauses[0] <= bounds.0 * 11 / 10);
    assert!(pauses[18] >= bounds.1 && pauses[18] <= bounds.1 * 11 / 10);
    let minute = Some(Duration::from_mins(1));
    assert_eq!(pause(1, minute), Duration::from_mins(1));
    assert_eq!(at(0) + pause(1, minute), at(60));
}
