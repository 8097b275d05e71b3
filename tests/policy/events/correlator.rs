//! The changes that make another Event, and the most Events that one process publishes about one object.

use run_operator::{
    api::{EventReason, Reason},
    decide::{
        EventDraft, WorkspaceView,
        conditions::Why,
        events::{correlator::Correlator, event::ServiceEvent, transitions::of_workspace},
        workspace::{
            check::{Check, Obstacle},
            probe::assess,
        },
    },
};

use crate::{
    conditions::{at_the_service, cancelled, elsewhere},
    support::{CONTRACT, Case, at, lost, not_ready, problem, session, version_failed, view},
};

/// Changes of one object that may be published at once, and the marks of published ones that are kept.
const BURST: usize = 25;
const REMEMBERED: u32 = 64;

fn turn(n: u32) -> EventDraft {
    EventDraft::new(EventReason::Retrying, "again", n.to_string())
}

fn end() -> EventDraft {
    EventDraft::new(EventReason::Succeeded, "The run ended.", "")
}

fn heard(nth: i64) -> EventDraft {
    EventDraft::service_event(&ServiceEvent {
        id: Some(format!("e{nth}")),
        kind: "log".into(),
        data: None,
        nth,
        more: 0,
    })
}

fn count(case: &Case, reason: &str) -> usize {
    case.reasons().iter().filter(|r| **r == reason).count()
}

#[test]
fn a_quiet_day_earns_one_burst_and_an_end_is_always_published() {
    let mut correlator = Correlator::default();
    assert_eq!(correlator.correlate(&[turn(0)], at(0)).events.len(), 1);
    let many: Vec<EventDraft> = (1..=40).map(turn).chain([end()]).collect();
    let batch = correlator.correlate(&many, at(86_400));
    assert_eq!((batch.events.len(), batch.dropped), (BURST + 1, 15));
    assert_eq!(batch.events[BURST].reason, EventReason::Succeeded);
}

#[test]
fn published_events_are_remembered_within_a_bound() {
    let mut correlator = Correlator::default();
    for n in 0..=REMEMBERED {
        correlator.correlate(&[turn(n)], at(0));
    }
    assert!(!correlator.published(&turn(0)), "the oldest is forgotten");
    assert!((1..=REMEMBERED).all(|n| correlator.published(&turn(n))));
}

/// Proves: B-events
#[test]
fn service_events_are_published_ten_seconds_apart() {
    let mut correlator = Correlator::default();
    for (second, nth, told) in [(0, 1, true), (9, 2, false), (10, 3, true)] {
        assert_eq!(
            correlator.allows_service_event(at(second)),
            told,
            "{second}"
        );
        let published = correlator.correlate(&[heard(nth)], at(second)).events;
        assert_eq!(!published.is_empty(), told, "{second}");
    }
    assert_eq!(correlator.service_events_shown(), Some(3));
}

#[test]
fn a_service_event_is_identified_by_id_and_counts_earlier_ones() {
    let odd = "\u{202e}".repeat(300);
    let said = ServiceEvent {
        id: Some(odd.clone()),
        kind: odd.clone(),
        data: Some(odd),
        nth: 4,
        more: 3,
    };
    let later = ServiceEvent {
        nth: 9,
        ..said.clone()
    };
    let (said, later) = (
        EventDraft::service_event(&said),
        EventDraft::service_event(&later),
    );
    assert_eq!(said.identity, later.identity);
    assert!(
        said.message.ends_with(" (3 came before it)"),
        "{}",
        said.message
    );
}

#[test]
fn unpublished_service_events_are_counted_in_the_next_event() {
    let receive = |mut case: Case, ids: std::ops::Range<u32>| {
        let now = case.now;
        for n in ids {
            let event = run_operator::decide::event_buffer::Received {
                id: Some(format!("e{n}")),
                kind: "log".into(),
                data: String::new(),
            };
            let running = Some("running");
            case.tracked
                .memory
                .event_buffer
                .receive(&event, running, running, now);
        }
        case.settle()
    };
    let case = receive(at_the_service("running").settle().at(10), 0..1);
    // A change of the state is written at once, and the events with it: too soon to be published.
    let case = receive(case.at(12).got(Ok(view("queued"))), 1..3);
    let case = receive(case.at(13).got(Ok(view("running"))), 3..5);
    let case = receive(case.at(30).got(Ok(view("queued"))), 5..6);
    let heard = case.events.iter();
    let heard: Vec<_> = heard
        .filter(|n| n.reason == EventReason::ServiceEvent)
        .collect();
    assert_eq!(heard.len(), 2, "{heard:#?}");
    assert!(
        heard[1].message.ends_with("(4 came before it)"),
        "{heard:#?}"
    );
    let next = case.restarted().at(400).decide();
    assert_eq!(next.events, [], "the next process has heard nothing new");
}

#[test]
fn a_text_is_cut_at_the_limit_of_an_event() {
    let published = EventDraft::new(EventReason::Retrying, "a".repeat(4000), "");
    assert_eq!(published.message.len(), 1024);
}

#[test]
fn a_stalled_run_that_is_cancelled_has_not_recovered() {
    let case = Case::new().mine().posted(Err(problem(403, "no"))).settle();
    let case = cancelled(case).at(10).settle();
    assert_eq!(case.reasons(), ["Stalled", "Cancelled"]);
}

#[test]
fn a_second_suspension_is_another_event() {
    let mut case = Case::new().view(WorkspaceView::Missing);
    for (generation, suspended) in [(2, true), (3, false), (4, true)] {
        case.run.metadata.generation = Some(generation);
        case = case.spec(|s| s.suspend = Some(suspended)).settle();
    }
    assert_eq!(count(&case, "Suspended"), 2, "{:#?}", case.events);
}

#[test]
fn the_same_stall_at_another_time_is_another_event() {
    let mut case = Case::new().mine();
    for second in [0, 20, 40] {
        case = case.at(second).view(elsewhere()).settle();
        case = case.at(second + 10).view(WorkspaceView::Ready(session(1)));
        case = case.posted(Err(lost())).settle();
    }
    assert_eq!(count(&case, "Stalled"), 3, "{:#?}", case.events);
}

#[test]
fn a_recurring_missing_workspace_is_an_event_once_an_hour() {
    let mut case = Case::new();
    for second in [0, 10, 3700] {
        case = case.at(second).view(WorkspaceView::Missing).settle();
        case = case.at(second + 5).view(not_ready()).settle();
    }
    assert_eq!(count(&case, "WorkspaceNotFound"), 2, "{:#?}", case.events);
}

#[test]
fn another_reason_why_a_workspace_is_not_ready_is_another_event() {
    let assessed = |before, obstacle| {
        let check = Check {
            obstacle: Some(obstacle),
            ..Check::default()
        };
        assess(before, &check, 1, 1, &CONTRACT, at(0)).status
    };
    let down = assessed(None, version_failed(lost()));
    let strange = assessed(
        Some(&down),
        Obstacle::Config(Why::new(Reason::SecretNotFound, "It is not there.")),
    );
    let mut correlator = Correlator::default();
    for (before, after) in [(None, &down), (Some(&down), &strange)] {
        let events = of_workspace(before, after, false, &correlator, at(0));
        let published = correlator.correlate(&events, at(0)).events;
        assert_eq!(published.len(), 1);
        assert_eq!(published[0].reason, EventReason::NotReady);
    }
    assert_ne!(down.conditions, strange.conditions);
}

#[test]
fn a_deadlines_cancel_counts_before_its_acceptance_is_stored() {
    let case = at_the_service("running")
        .settle()
        .spec(|s| s.active_deadline_seconds = Some(30))
        .at(31)
        .settle()
        .cancelled(Ok(view("cancelling")))
        .spec(|s| s.active_deadline_seconds = Some(3000))
        .got(Ok(view("cancelled")))
        .settle();
    let word = Reason::DeadlineExceeded.as_str();
    assert_eq!(case.reasons().last(), Some(&word), "{:#?}", case.events);
}
