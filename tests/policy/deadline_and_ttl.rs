//! `activeDeadlineSeconds` and `ttlSecondsAfterFinished`: from when they count, and what changes them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use run_operator::api::Phase;

use crate::conditions::overdue;
use crate::support::{Case, at, condition, not_ready, problem, view};

/// Submitted at second 0 and running.
fn running() -> Case {
    Case::new()
        .submitted("running")
        .got(Ok(view("running")))
        .settle()
}

/// Proves: P-deadline
#[test]
fn a_changed_deadline_still_counts_from_the_submission() {
    let case = running()
        .spec(|s| s.active_deadline_seconds = Some(30))
        .at(20);
    let shorter = case.clone().spec(|s| s.active_deadline_seconds = Some(10));
    assert_eq!(shorter.does(), "cancel", "it has passed already");
    let longer = case
        .clone()
        .spec(|s| s.active_deadline_seconds = Some(60))
        .at(30);
    assert_ne!(longer.does(), "cancel");
    assert_eq!(longer.at(61).does(), "cancel");
    let none = case.spec(|s| s.active_deadline_seconds = None);
    assert_ne!(none.at(1000).does(), "cancel");
}

/// Proves: P-deadline
#[test]
fn a_long_time_in_the_queue_counts_toward_the_deadline() {
    let queued = Case::new()
        .submitted("queued")
        .spec(|s| s.active_deadline_seconds = Some(30))
        .got(Ok(view("queued")))
        .settle();
    let case = queued.at(20).got(Ok(view("running"))).settle();
    assert_ne!(case.clone().at(30).does(), "cancel");
    assert_eq!(case.at(31).does(), "cancel");
}

/// Its deadline has passed, and the status shows it.
fn shown_overdue() -> Case {
    overdue(running()).at(31).settle()
}

/// The phase, and the reason of `Failed`, once its run is seen cancelled.
fn after_cancelled(case: Case) -> (Option<Phase>, Option<String>) {
    let status = case.got(Ok(view("cancelled"))).settled();
    (status.phase, condition(&status, "Failed").map(|c| c.1))
}

/// Overdue, by the result of the cancellation: each in a process that knows of no cancellation, since the one that sent it
/// was lost with the answer.
fn shown_as_passed() -> Vec<(&'static str, Case)> {
    let passed = shown_overdue();
    let cancelling = passed.clone().cancelled(Ok(view("cancelling")));
    let expired = passed.clone().cancelled(Err(problem(401, "expired")));
    let refused = passed.clone().cancelled(Err(problem(403, "no")));
    let mut waiting = passed.clone();
    waiting.view = not_ready();
    let cases = vec![
        ("unsent", passed),
        ("accepted", cancelling.got(Ok(view("cancelling")))),
        ("retried", expired),
        ("refused", refused),
        ("waiting for its Workspace", waiting),
    ];
    let lost = |(what, case): (_, Case)| (what, case.settle().restarted());
    cases.into_iter().map(lost).collect()
}

/// Nothing that cancels is taken back, so it is known who it was.
/// Proves: P-deadline
#[test]
fn a_deadline_changed_after_its_cancel_is_still_the_reason() {
    for (what, case) in shown_as_passed() {
        let shown = case.settled();
        assert_eq!(shown.phase, Some(Phase::Cancelling), "{what}");
        let set_back = case.clone().wall_steps(-3600);
        let later = case
            .clone()
            .spec(|s| s.active_deadline_seconds = Some(3000));
        let none = case.spec(|s| s.active_deadline_seconds = None);
        for changed in [set_back, later, none] {
            assert_eq!(changed.settled().phase, Some(Phase::Cancelling), "{what}");
            let exceeded = (Some(Phase::Failed), Some("DeadlineExceeded".to_owned()));
            assert_eq!(after_cancelled(changed.settle()), exceeded, "{what}");
        }
    }
}

/// Proves: P-deadline
#[test]
fn a_shown_deadline_cancels_though_it_is_moved() {
    let later = shown_overdue().spec(|s| s.active_deadline_seconds = Some(3000));
    let since = later.settled().deadline_exceeded_time;
    assert_eq!(since, Some(Time(at(31))));
    assert_eq!(later.clone().does(), "cancel");
    assert_eq!(later.restarted().settle().does(), "cancel");
}

/// Proves: P-deadline
#[test]
fn a_run_that_others_cancel_early_is_cancelled_elsewhere() {
    let early = running()
        .spec(|s| s.active_deadline_seconds = Some(30))
        .at(20);
    let seen = early.clone().got(Ok(view("cancelling"))).settle();
    assert_eq!(seen.settled().phase, Some(Phase::Cancelling));
    assert_ne!(seen.does(), "cancel");
    let elsewhere = (
        Some(Phase::Cancelled),
        Some("CancelledElsewhere".to_owned()),
    );
    assert_eq!(after_cancelled(early), elsewhere);
    assert_eq!(after_cancelled(seen.clone()), elsewhere);
    let mut unusable = seen.clone();
    unusable.view = not_ready();
    for seen in [seen, unusable] {
        assert_eq!(after_cancelled(seen.settle().restarted()), elsewhere);
    }
}

/// Proves: P-deadline
#[test]
fn the_services_final_state_outranks_the_deadline() {
    for (state, phase, reason) in [
        ("succeeded", Phase::Succeeded, "Succeeded"),
        ("failed", Phase::Failed, "Failed"),
        ("cancelled", Phase::Failed, "DeadlineExceeded"),
    ] {
        let case = running()
            .spec(|s| s.active_deadline_seconds = Some(30))
            .at(31);
        let status = case.got(Ok(view(state))).settled();
        assert_eq!(status.phase, Some(phase), "{state}");
        assert_eq!(status.deadline_exceeded_time, None, "nothing was cancelled");
        assert_eq!(
            condition(&status, "Finished").map(|c| c.1).as_deref(),
            Some(reason)
        );
    }
}

/// Proves: P-deadline, P-ttl
#[test]
fn extreme_deadlines_and_ttls_do_not_overflow() {
    let far = running().spec(|s| s.active_deadline_seconds = Some(i64::MAX));
    assert_ne!(far.at(1).does(), "cancel");
    // The schema refuses these; an older one may have accepted them.
    for odd in [0, -1, i64::MIN] {
        let case = running().spec(|s| s.active_deadline_seconds = Some(odd));
        case.at(1).settled();
    }
    for (ttl, does) in [
        (i32::MAX, "nothing"),
        (0, "delete"),
        (-1, "nothing"),
        (i32::MIN, "nothing"),
    ] {
        let mut case = running()
            .spec(|s| s.ttl_seconds_after_finished = Some(ttl))
            .at(5)
            .got(Ok(view("succeeded")))
            .settle();
        case.run.metadata.finalizers = None;
        assert_eq!(case.does(), does, "{ttl}");
    }
}
