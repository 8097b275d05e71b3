//! The changes that make another Event, and those that don't: at most one in a minute, or in an hour.

use run_operator::{
    api::{EventReason, Reason},
    decide::{
        EventDraft, WorkspaceView,
        conditions::Why,
        event_buffer::Received,
        events::of_workspace,
        workspace::{Check, Obstacle, assess},
    },
};

use crate::{
    conditions::{at_the_service, cancelled, elsewhere},
    support::{CONTRACT, Case, at, lost, not_ready, problem, session, version_failed, view},
};

fn count(case: &Case, reason: &str) -> usize {
    case.reasons().iter().filter(|r| **r == reason).count()
}

/// A write of the status may have more of them.
/// Proves: B-writes, P-events
#[test]
fn service_events_are_published_a_minute_apart() {
    let mut case = at_the_service("running").settle();
    for (second, shown) in [(10, 1), (20, 1), (50, 1), (60, 2), (110, 2), (120, 3)] {
        let event = Received {
            id: Some(format!("e{second}")),
            kind: "log".into(),
            data: String::new(),
        };
        case = case.at(second);
        let (running, now) = (Some("running"), case.now);
        let buffer = &mut case.tracked.memory.event_buffer;
        buffer.receive(&event, running, running, now);
        case = case.settle();
        assert_eq!(count(&case, "ServiceEvent"), shown, "{second}");
    }
    let next = case.restarted().at(400);
    assert_eq!(next.news(), [], "the next process has heard nothing new");
}

#[test]
fn a_text_is_cut_at_the_limit_of_an_event() {
    let published = EventDraft::new(EventReason::Retrying, "", "a".repeat(4000));
    assert_eq!(published.message.len(), 1024);
}

#[test]
fn a_stalled_run_that_is_cancelled_has_not_recovered() {
    let case = Case::new().mine().posted(Err(problem(403, "no"))).settle();
    let case = cancelled(case).at(10).settle();
    assert_eq!(case.reasons(), ["Stalled", "Cancelled"]);
}

/// Proves: P-events
#[test]
fn a_second_suspension_is_another_event_in_another_minute() {
    let mut case = Case::new().view(WorkspaceView::Missing);
    let seconds = [(0, 1), (20, 1), (70, 2)];
    for (second, shown) in seconds {
        case = case.at(second).spec(|s| s.suspend = Some(true)).settle();
        assert_eq!(count(&case, "Suspended"), shown, "{second}");
        case = case.spec(|s| s.suspend = Some(false)).settle();
    }
}

/// Proves: P-events
#[test]
fn an_unmapped_state_is_another_event_in_another_minute() {
    let mut case = at_the_service("running").settle();
    for (second, shown) in [(1, 1), (20, 1), (70, 2)] {
        let odd = format!("odd-{second}");
        case = case.at(second).got(Ok(view(&odd))).settle();
        assert_eq!(count(&case, "UnmappedState"), shown, "{second}");
    }
}

/// Proves: P-events
#[test]
fn the_same_stall_is_another_event_in_another_minute() {
    let mut case = Case::new().mine();
    for (second, shown) in [(0, 1), (20, 1), (70, 2)] {
        case = case.at(second).view(elsewhere()).settle();
        assert_eq!(count(&case, "Stalled"), shown, "{second}");
        case = case.at(second + 10).view(WorkspaceView::Ready(session(1)));
        case = case.posted(Err(lost())).settle();
    }
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
    let changes = [(None, &down), (Some(&down), &strange)];
    let [first, second] = changes.map(|(before, after)| {
        let event = of_workspace(before, after, false, at(0)).unwrap();
        assert_eq!(event.reason, EventReason::NotReady);
        event.occasion
    });
    assert_ne!(first, second);
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
