//! Kubernetes Events: the changes of a status that are reported, and the maximum rate.

mod messages;
mod occasions;
mod workspaces;

use std::collections::HashSet;

use proptest::prelude::*;
use rstest::rstest;
use run_operator::{
    api::EventReason,
    decide::{
        EventDraft, WorkspaceView,
        event_buffer::Received,
        failure::{Failure, RunView},
    },
};

use crate::{
    conditions::{at_the_service, cancelled, elsewhere, held, lost_run, overdue, waits_for_key},
    histories::{self, apply, turns},
    support::{Case, at, bare, hopeless, lost, not_ready, problem, view},
    world::{Fate, World},
};

/// Bytes of an Event's text that the API server takes.
const NOTE_LIMIT: usize = 1024;

fn message(case: &Case, reason: EventReason) -> String {
    let event = case.events.iter().find(|event| event.reason == reason);
    event.map(|event| event.message.clone()).unwrap_or_default()
}

/// The rows of the table of conditions, one by one.
/// Proves: P-events
#[rstest]
#[case::no_workspace(Case::new().view(WorkspaceView::Missing), &["WorkspaceNotFound"])]
#[case::workspace_not_ready(Case::new().view(not_ready()), &[])]
#[case::held(Case::new().view(held()), &[])]
#[case::retrying(Case::new().mine().posted(Err(lost())), &["Retrying"])]
#[case::suspended(Case::new().spec(|s| s.suspend = Some(true)), &["Suspended"])]
#[case::refused(Case::new().mine().posted(Err(problem(422, "bad"))), &["Failed"])]
#[case::forbidden(Case::new().mine().posted(Err(problem(403, "no"))), &["Stalled"])]
#[case::unknown(Case::new().intent("x", 1).at(86_400), &["Stalled"])]
#[case::restored(Case::new().foreign(), &["Stalled"])]
#[case::restored_with_a_status(Case::new().submitted("running").foreign(), &["Stalled"])]
#[case::key_in_use(waits_for_key(Case::new()), &["Stalled"])]
#[case::identity_changed(Case::new().mine().view(elsewhere()), &["Stalled"])]
#[case::hopeless(Case::new().mine().posted(Err(hopeless())), &["Stalled"])]
#[case::queued(at_the_service("queued"), &["Submitted"])]
#[case::active(at_the_service("running"), &["Submitted"])]
#[case::unmapped(at_the_service("odd"), &["Submitted", "UnmappedState"])]
#[case::cancel_asked(cancelled(at_the_service("queued")), &["Submitted", "Cancelling"])]
#[case::deleting(at_the_service("queued").deleting(), &["Submitted", "Cancelling"])]
#[case::deadline(overdue(at_the_service("queued")), &["Submitted", "Cancelling"])]
#[case::cancelling_elsewhere(at_the_service("stopping"), &["Submitted", "Cancelling"])]
#[case::cancel_refused(
    cancelled(at_the_service("queued")).cancelled(Err(problem(403, "no"))),
    &["Submitted", "Cancelling", "CancelRefused"])]
#[case::succeeded(at_the_service("Succeeded"), &["Submitted", "Succeeded"])]
#[case::failed(at_the_service("ERROR"), &["Submitted", "Failed"])]
#[case::not_found(lost_run(), &["Submitted", "RunNotFound"])]
#[case::deadline_confirmed(overdue(at_the_service("cancelled")), &["Submitted", "DeadlineExceeded"])]
#[case::cancelled(cancelled(at_the_service("cancelled")), &["Submitted", "Cancelled"])]
#[case::cancelled_elsewhere(at_the_service("cancelled"), &["Submitted", "CancelledElsewhere"])]
#[case::cancelled_unsubmitted(cancelled(Case::new()), &["Cancelled"])]
#[case::unreachable((0..3).fold(at_the_service("queued"), |c, _| c.got(Err(bare(502)))), &["Submitted", "Retrying"])]
#[case::a_hiccup(at_the_service("queued").got(Err(lost())), &["Submitted"])]
#[case::elsewhere(at_the_service("queued").settle().view(elsewhere()), &["Submitted", "NotSynced"])]
#[case::missing_later(at_the_service("queued").settle().view(WorkspaceView::Missing), &["Submitted", "WorkspaceNotFound"])]
#[case::not_ready_later(at_the_service("queued").view(not_ready()), &["Submitted"])]
fn the_events_of_a_situation(#[case] case: Case, #[case] expected: &[&str]) {
    let case = case.settle();
    assert_eq!(case.reasons(), expected, "{:#?}", case.events);
    assert_eq!(case.news(), [], "it is published once");
    let restarted = case.clone().restarted().settle();
    let mut again = restarted.clone();
    again.tell(&restarted.decide().events);
    assert_eq!(again.reasons(), expected, "a restart tells of nothing anew");
}

#[test]
fn a_second_run_id_is_an_event() {
    let other = RunView {
        run_id: Some("run-2".into()),
        ..view("queued")
    };
    let case = at_the_service("queued").settle();
    let case = case.cancelled(Ok(other)).settle();
    assert_eq!(case.reasons(), ["Submitted", "Stalled"]);
    assert!(message(&case, EventReason::Stalled).starts_with("RunIDConflict: "));
}

/// Proves: B-writes
#[test]
fn a_life_has_two_events() {
    let mut world = World::new(Case::new()).script(&["running", "succeeded"]);
    world.play(100_000);
    assert_eq!(world.case.reasons(), ["Submitted", "Succeeded"]);
    assert_eq!(world.case.published.len(), 2);
    world.crash();
    world.case.now = at(3600);
    world.play(200_000);
    assert!(world.case.published.is_empty(), "it is old");
}

/// The process ends after the write and before the Event, or the write's answer is lost.
/// Proves: P-events
#[rstest]
#[case::of_a_submission(at_the_service("running"), &["Submitted"])]
#[case::of_a_stall(Case::new().mine().posted(Err(problem(403, "no"))), &["Stalled"])]
#[case::of_an_end(at_the_service("Succeeded"), &["Submitted", "Succeeded"])]
#[case::of_an_end_without_a_finalizer(cancelled(Case::new()), &["Cancelled"])]
fn an_event_that_was_lost_is_published_later(#[case] case: Case, #[case] expected: &[&str]) {
    let case = case.settle();
    let mut unheard = case.clone();
    unheard.published.clear();
    for mut unsaid in [unheard, case.clone().restarted()] {
        unsaid.events.clear();
        unsaid.tell(&unsaid.decide().events);
        assert_eq!(unsaid.reasons(), expected);
        let same = unsaid
            .events
            .iter()
            .all(|event| case.events.contains(event));
        assert!(same, "by the same names");
        let late = unsaid.restarted().at(300);
        assert_eq!(late.decide().events, [], "five minutes later it is old");
    }
}

/// Proves: P-events
#[test]
fn a_recurring_stall_is_another_event_and_so_is_the_recovery() {
    let refused = || Fate::Answered(problem(403, "forbidden"));
    let mut world = World::new(Case::new()).fate(refused()).fate(refused());
    world.play(10);
    world.case = world.case.retry("1").at(20);
    world.play(30);
    world.case = world.case.retry("2").at(40);
    world.play(50);
    let told = world.case.reasons();
    assert_eq!(
        told,
        ["Stalled", "Stalled", "Submitted", "Recovered"],
        "{:#?}",
        world.case.events
    );
}

/// Proves: P-events
#[test]
fn one_error_class_is_an_event_once_an_hour_another_at_once() {
    let busy = || Failure {
        retryable: Some(true),
        ..problem(503, "busy")
    };
    let slow = || problem(429, "slow");
    let mut case = Case::new().mine();
    for second in 0..60 {
        case = case.at(second).posted(Err(busy())).settle();
    }
    assert_eq!(case.reasons(), ["Retrying"]);
    case = case.at(60).posted(Err(slow())).settle();
    case = case.at(61).posted(Err(busy())).settle();
    assert_eq!(case.events.len(), 2, "the first sort was told of");
    let intent = case.an_intent("me+", 2);
    case = case.restarted().intent("me+", 2);
    case = case.intent_written(intent, false);
    case = case.at(90).posted(Err(slow())).settle();
    assert_eq!(case.events.len(), 2, "before the restart too");
    case = case.at(3700).posted(Err(busy())).settle();
    assert_eq!(case.events.len(), 3, "the API server has forgotten it");
}

/// Proves: B-writes
#[test]
fn the_services_events_are_published_only_if_asked_for() {
    let reasons_with = |service_events| {
        let mut case = at_the_service("running").settle();
        case.settings.service_events = service_events;
        let event = Received {
            id: Some("e1".into()),
            kind: "log".into(),
            data: "a line".into(),
        };
        let running = Some("running");
        let buffer = &mut case.tracked.memory.event_buffer;
        buffer.receive(&event, running, running, case.now);
        let shown = case.at(10).settle();
        let events = shown.run.status.as_ref().map(|s| s.events.len());
        assert_eq!(events, Some(1), "the status has it");
        shown.reasons()
    };
    assert_eq!(reasons_with(true), ["Submitted", "ServiceEvent"]);
    assert_eq!(reasons_with(false), ["Submitted"]);
}

/// The service's log, ten thousand lines in a hundred seconds, a write every ten seconds: two minutes.
/// Proves: P-events, B-writes
#[test]
fn a_flood_of_service_events_is_published_as_a_few_events() {
    let mut case = at_the_service("running").settle();
    for n in 0..10_000_u32 {
        let event = Received {
            id: Some(format!("e{n}")),
            kind: "log".into(),
            data: format!("line {n}"),
        };
        case = case.at(i64::from(n / 100));
        let now = case.now;
        case.tracked
            .memory
            .event_buffer
            .receive(&event, Some("running"), Some("running"), now);
        case = case.settle();
    }
    let heard: Vec<&EventDraft> = case
        .events
        .iter()
        .filter(|event| event.reason == EventReason::ServiceEvent)
        .collect();
    let texts: Vec<_> = heard.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(
        texts,
        [
            "The service's event number 1001 (log, id e1000): line 1000",
            "The service's event number 6001 (log, id e6000): line 6000"
        ]
    );
}

#[rstest]
#[case::succeeded("Succeeded", "Succeeded")]
#[case::cancelled("cancelled", "CancelledElsewhere")]
#[case::failed("ERROR", "Failed")]
fn an_end_with_an_unknown_reason_is_published_by_its_phase(
    #[case] state: &str,
    #[case] reason: &str,
) {
    let case = at_the_service(state).settle();
    assert_eq!(case.reasons(), ["Submitted", reason]);
    let told = case.status(|status| {
        for condition in &mut status.conditions {
            condition.reason = "AsInTheFuture".into();
        }
    });
    let mut told = told.restarted();
    told.events.clear();
    let events = told.decide().events;
    told.tell(&events);
    let by_phase = if reason == "CancelledElsewhere" {
        "Cancelled"
    } else {
        reason
    };
    assert_eq!(told.reasons(), ["Submitted", by_phase]);
}

proptest! {
    #![proptest_config(histories::config(1000))]

    /// What isn't once in a life has the number of a minute or an hour in its name.
    /// Proves: P-events
    #[test]
    fn every_event_is_once_in_a_life_a_minute_or_an_hour(turns in turns()) {
        let mut case = Case::new();
        for turn in &turns {
            case = apply(case, turn).settle();
        }
        let events = case.decide().events;
        case.tell(&events);
        let mut once = HashSet::new();
        for event in &case.events {
            if event.occasion.is_empty() {
                prop_assert!(once.insert(event.reason));
            } else {
                let number = event.occasion.rsplit('@').next().map(str::parse::<i64>);
                prop_assert!(matches!(number, Some(Ok(_))), "{}", event.occasion);
            }
            prop_assert!(event.message.len() <= NOTE_LIMIT);
            prop_assert!(!event.message.is_empty() && !event.message.chars().any(char::is_control));
        }
    }

    /// Another process at the same place, a moment later.
    /// Proves: P-events
    #[test]
    fn a_restart_makes_no_second_event(turns in turns()) {
        let mut case = Case::new();
        for turn in &turns {
            case = apply(case, turn).settle();
        }
        let events = case.decide().events;
        case.tell(&events);
        if case.tracked.deleted() {
            return Ok(());
        }
        // What is known to have made no run is orphaned without a word; the next process may not know it.
        let told = |case: &Case| -> Vec<EventDraft> {
            let events = case.events.iter().filter(|event| event.reason != EventReason::Orphaned);
            events.cloned().collect()
        };
        let before = told(&case);
        let stands = case.run.status.clone();
        let mut case = case.restarted();
        let decision = case.decide();
        // Where it writes another status, that is another matter.
        if decision.status.is_none() || decision.status == stands {
            case.tell(&decision.events);
            prop_assert_eq!(told(&case), before);
        }
    }
}
