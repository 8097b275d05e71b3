//! Calls that have to wait: the service answered 429, or others came first.

use std::collections::BTreeSet;

use run_operator::api::{ConditionType as Type, Phase, conditions};
use run_operator::decide::{CallDelay, Stream};

use crate::support::{Case, at, bare, condition, lost, problem, view};

fn paused(mut case: Case, until: i64) -> Case {
    case.call_delay = Some(CallDelay::Paused { until: at(until) });
    case
}

fn queued(mut case: Case) -> Case {
    case.call_delay = Some(CallDelay::Queued);
    case
}

fn running() -> Case {
    Case::new()
        .submitted("running")
        .got(Ok(view("running")))
        .settle()
}

/// Status and reason of a condition, as `False Reason`.
fn says(case: &Case, kind: &str) -> String {
    condition(&case.settled(), kind)
        .map_or_else(String::new, |(status, reason)| format!("{status} {reason}"))
}

/// Looks again when the pause is over, and within two seconds of that.
fn comes_back_after(case: &Case, until: i64) {
    let again = case
        .clone()
        .settle()
        .decide()
        .requeue_at
        .expect("a next look");
    assert!(again >= at(until) && again <= at(until + 2), "{again}");
}

/// Proves: P-pause
#[test]
fn a_new_run_in_a_pause_shows_it_and_writes_no_intent() {
    let case = paused(Case::new(), 60);
    assert_eq!(case.does(), "nothing");
    assert_eq!(says(&case, "Ready"), "False RateLimited");
    assert_eq!(says(&case, "Reconciling"), "True RateLimited");
    assert_eq!(case.settled().phase, Some(Phase::Pending));
    comes_back_after(&case, 60);
    let suspended = paused(Case::new().spec(|s| s.suspend = Some(true)), 60);
    assert_eq!(says(&suspended, "Ready"), "False Suspended");
}

#[test]
fn in_a_pause_no_post_is_asked_for_and_after_it_the_same_one_is() {
    let case = paused(Case::new().mine(), 60);
    assert_eq!(case.does(), "nothing");
    comes_back_after(&case, 60);
    let mut over = case.settle().at(60);
    over.call_delay = None;
    assert_eq!(over.does(), "submit");
}

#[test]
fn a_pause_message_names_status_and_workspace_and_is_stable() {
    let case = paused(Case::new().mine(), 60);
    let status = case.settled();
    let ready = conditions::find(&status.conditions, Type::Ready).expect("Ready");
    for word in [
        "429",
        "Workspace default in namespace team",
        "automatically",
    ] {
        assert!(ready.message.contains(word), "{}", ready.message);
    }
    let later = paused(case.settle().at(30), 400);
    assert_eq!(later.decide().status, later.run.status, "nothing to write");
}

#[test]
fn the_run_that_met_the_429_itself_keeps_saying_what_it_met() {
    let case = Case::new().mine().posted(Err(bare(429)));
    let case = paused(case, 60);
    let status = case.settled();
    let ready = conditions::find(&status.conditions, Type::Ready).expect("Ready");
    assert!(ready.message.contains("answered 429"), "{}", ready.message);
    assert_eq!(says(&case, "Ready"), "False RateLimited");
}

/// Proves: P-pause
#[test]
fn a_run_without_a_call_that_is_due_writes_nothing_in_a_pause() {
    let mut case = paused(running().at(1), 600);
    case.stream = Stream::Open;
    let decision = case.decide();
    assert_eq!(decision.status, case.run.status);
    assert_eq!(decision.effect, None);
    assert!(decision.requeue_at.expect("its next poll") < at(600));
}

/// Proves: P-pause
#[test]
fn a_mirror_whose_read_is_paused_is_stale_until_it_is_read() {
    let case = paused(running().at(100), 160);
    assert_eq!(case.does(), "nothing");
    assert_eq!(says(&case, "Synced"), "False RateLimited");
    assert_eq!(says(&case, "Ready"), "False Active");
    comes_back_after(&case, 160);
    let mut over = case.settle().at(161);
    over.call_delay = None;
    assert_eq!(over.does(), "refresh");
    assert_eq!(says(&over, "Synced"), "False RateLimited");
    let read = over.got(Ok(view("running")));
    assert_eq!(says(&read, "Synced"), "True Mirrored");
}

#[test]
fn a_known_failure_is_reported_in_preference_to_the_pause() {
    let case = running().at(10);
    let case = (0..4).fold(case, |case, _| case.got(Err(lost()))).settle();
    let case = paused(case.at(400), 460);
    assert_eq!(says(&case, "Synced"), "False ServiceUnavailable");
    assert_eq!(case.does(), "nothing");
}

#[test]
fn a_read_that_is_answered_429_is_no_outage_of_the_service() {
    let slow = || Err(problem(429, "slow"));
    let case = (0..4).fold(running().at(10), |case, _| case.got(slow()));
    assert_eq!(says(&case, "Synced"), "False RateLimited");
}

#[test]
fn a_pause_delays_a_cancel_but_not_the_notice_of_a_deadline() {
    let case = paused(running().at(1).deleting(), 60);
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.settled().phase, Some(Phase::Cancelling));
    assert_eq!(says(&case, "Synced"), "False RateLimited");
    comes_back_after(&case, 60);
    let limited = running().spec(|s| s.active_deadline_seconds = Some(100));
    let case = paused(limited.at(90), 600).settle();
    assert_eq!(case.decide().requeue_at, Some(at(101)));
}

#[test]
fn a_pause_does_not_delay_what_needs_no_call() {
    let orphan = paused(running().orphan(), 60);
    assert_eq!(orphan.does(), "release");
    let done = paused(running().got(Ok(view("succeeded"))), 60);
    assert_eq!(done.settled().phase, Some(Phase::Succeeded));
    assert_eq!(done.does(), "release");
    let unsent = paused(Case::new().spec(|s| s.cancel = Some(true)), 60);
    assert_eq!(unsent.settled().phase, Some(Phase::Cancelled));
}

#[test]
fn a_run_that_queues_long_reports_it_and_stays_queued() {
    let case = queued(Case::new().mine());
    assert_eq!(case.does(), "submit");
    assert_eq!(says(&case, "Ready"), "False RateLimited");
    let mut turn = case.settle();
    turn.call_delay = None;
    assert_eq!(turn.decide().status, None, "its turn needs no write");
    let mirror = queued(running().at(100));
    assert_eq!(mirror.does(), "refresh");
    assert_eq!(says(&mirror, "Synced"), "False RateLimited");
    assert_eq!(queued(Case::new()).does(), "intent");
    let answered = mirror.settle().got(Ok(view("running")));
    assert_eq!(says(&answered, "Synced"), "True Mirrored");
}

/// Proves: P-pause
#[test]
fn requeues_after_a_pause_are_spread_over_its_runs() {
    let mut times = BTreeSet::new();
    for n in 0..20 {
        let mut case = Case::new();
        case.run.metadata.uid = Some(format!("uid-{n}"));
        times.extend(paused(case, 60).decide().requeue_at);
    }
    assert!(times.len() > 10, "{times:?}");
    assert!(times.first() >= Some(&at(60)) && times.last() <= Some(&at(62)));
}
