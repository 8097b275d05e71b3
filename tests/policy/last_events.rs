//! The last events of a run that has ended: waited for with the finalizer, within a bound.

use run_operator::decide::{
    Follow, Report, Stream, WorkspaceView, event_buffer::Received, failure::Call, stream::StreamEnd,
};

use crate::support::{Case, at, not_ready, session, view};

fn event(case: &mut Case, id: &str, state: Option<&str>) -> bool {
    let event = Received {
        id: Some(id.into()),
        kind: "state".into(),
        data: state.map_or_else(String::new, |s| format!("{{\"state\":\"{s}\"}}")),
    };
    let with = case.report_context();
    case.tracked.memory.received(&event, with)
}

fn running() -> Case {
    let case = Case::new().submitted("running").got(Ok(view("running")));
    let mut case = case.settle().stream(Report::StreamOpened);
    case.stream = Stream::Open;
    case
}

/// A run that a GET has seen to end while its stream is open, its end written.
fn ended() -> Case {
    running().got(Ok(view("succeeded"))).settle()
}

fn waits(case: &Case) -> bool {
    let decision = case.decide();
    assert_eq!(decision.effect.is_some(), decision.follow == Follow::Close);
    decision.follow == Follow::Finish
}

/// Proves: P-last-events, P-terminal
#[test]
fn an_end_streamed_before_the_close_is_released_without_waiting() {
    let mut case = running();
    event(&mut case, "1", Some("succeeded"));
    let case = case.stream(Report::StreamEnded(StreamEnd::Closed));
    let case = case.got(Ok(view("succeeded"))).settle();
    assert!(!waits(&case));
    assert_eq!(case.run.status.as_ref().unwrap().event_count, Some(1));
    assert_eq!(case.does(), "release");
}

/// Proves: P-last-events
#[test]
fn the_end_is_written_at_once_and_late_events_in_one_more_write() {
    let mut case = ended();
    let status = case.run.status.clone().unwrap();
    assert_eq!(status.state.as_deref(), Some("succeeded"));
    assert!(waits(&case));
    case = case.stream(Report::ReadingOn);
    for (id, state) in [
        ("1", None),
        ("2", Some("running")),
        ("3", Some("succeeded")),
    ] {
        assert!(event(&mut case, id, state));
        assert_eq!(
            case.decide().status,
            None,
            "nothing is written before the last"
        );
    }
    let case = case.stream(Report::StreamEnded(StreamEnd::Closed));
    let written = case.clone().settle().run.status.unwrap();
    assert_eq!(written.event_count, Some(3));
    assert_eq!(written.last_event_id.as_deref(), Some("3"));
    let without = |mut s: run_operator::api::RunStatus| {
        s.events.clear();
        (s.event_count, s.last_event_id) = (None, None);
        s
    };
    assert_eq!(without(written), without(status), "nothing else changes");
    assert_eq!(case.does(), "release");
}

#[test]
fn an_event_received_during_the_last_get_precedes_the_release() {
    let mut case = running();
    event(&mut case, "1", Some("done"));
    case = case.sent(Call::Get);
    event(&mut case, "2", Some("succeeded"));
    case = case.stream(Report::StreamEnded(StreamEnd::Closed));
    let case = case.answered(Call::Get, Ok(view("succeeded")));
    assert_eq!(case.settled().event_count, Some(2));
    assert_eq!(case.does(), "release");
}

/// Proves: P-last-events
#[test]
fn a_stream_that_was_closed_behind_another_event_is_read_on() {
    let mut case = running();
    event(&mut case, "1", Some("running"));
    let case = case.stream(Report::StreamEnded(StreamEnd::Closed));
    let case = case.got(Ok(view("succeeded"))).settle();
    assert!(waits(&case), "it may hand out its events in portions");
    let mut case = case.stream(Report::ReadingOn).stream(Report::StreamOpened);
    event(&mut case, "2", None);
    let case = case.stream(Report::StreamEnded(StreamEnd::Closed));
    assert!(waits(&case), "there was something new");
    let case = case.stream(Report::StreamOpened);
    let case = case.stream(Report::StreamEnded(StreamEnd::Broken));
    assert!(waits(&case), "it broke");
    let case = case.stream(Report::StreamOpened);
    let case = case.stream(Report::StreamEnded(StreamEnd::Closed));
    assert!(!waits(&case.clone().settle()));
    assert_eq!(case.settled().event_count, Some(2));
}

/// Proves: P-last-events
#[test]
fn the_last_events_are_waited_for_for_ten_seconds() {
    let mut case = ended().stream(Report::ReadingOn);
    assert_eq!(case.decide().requeue_at, Some(at(10)));
    event(&mut case, "1", None);
    assert!(waits(&case.clone().at(9)));
    let case = case.at(10).settle();
    assert_eq!(case.run.status.as_ref().unwrap().event_count, Some(1));
    assert_eq!(case.does(), "release");
}

/// Proves: P-last-events
#[test]
fn where_no_stream_can_be_had_nothing_is_waited_for() {
    let mut polled = ended();
    polled.stream = Stream::Waiting { since: at(0) };
    let refused = ended()
        .stream(Report::ReadingOn)
        .stream(Report::StreamEnded(StreamEnd::Refused));
    let mut elsewhere = session(2);
    elsewhere.resolved.identity = Some("another".into());
    let cases = vec![
        polled,
        refused,
        ended().view(not_ready()),
        ended().view(WorkspaceView::Missing),
        ended().view(WorkspaceView::Ready(elsewhere)),
        ended().deleting(),
    ];
    for (n, case) in cases.into_iter().enumerate() {
        assert!(!waits(&case), "case {n}");
        assert_eq!(case.does(), "release", "case {n}");
    }
}

/// Proves: P-last-events
#[test]
fn a_restart_before_the_release_reads_events_from_the_cursor() {
    let mut case = running();
    event(&mut case, "1", Some("running"));
    let case = case.got(Ok(view("succeeded"))).settle().restarted();
    for view in [WorkspaceView::Unknown, WorkspaceView::Ready(session(1))] {
        assert!(waits(&case.clone().view(view)));
    }
    assert_eq!(case.tracked.memory.event_buffer.cursor(), Some("1"));
    let mut case = case.stream(Report::ReadingOn).stream(Report::StreamOpened);
    assert!(!event(&mut case, "1", Some("running")), "a replay");
    event(&mut case, "2", Some("succeeded"));
    let case = case.stream(Report::StreamEnded(StreamEnd::Closed));
    assert_eq!(case.settled().event_count, Some(2));
    assert_eq!(case.does(), "release");
}

#[test]
fn a_run_that_never_was_submitted_has_no_last_events() {
    let case = Case::new()
        .spec(|s| s.cancel = Some(true))
        .finalizer()
        .settle();
    assert_ne!(case.decide().follow, Follow::Finish);
}

/// Proves: P-metrics
#[test]
fn an_end_is_heard_of_by_the_first_event_or_answer_that_names_it() {
    let mut streamed = running().at(5);
    event(&mut streamed, "1", Some("running"));
    assert_eq!(streamed.tracked.memory.end_heard, None);
    event(&mut streamed, "2", Some("succeeded"));
    let streamed = streamed.wall_steps(3600).at(7).got(Ok(view("succeeded")));
    assert_eq!(streamed.tracked.memory.end_heard, Some(at(5)));
    let polled = running().at(7).got(Ok(view("succeeded")));
    assert_eq!(polled.tracked.memory.end_heard, Some(at(7)));
    // Events and answers that take it back.
    let mut lags = running().at(5);
    event(&mut lags, "1", Some("succeeded"));
    let mut lags = lags.got(Ok(view("running")));
    assert_eq!(lags.tracked.memory.end_heard, Some(at(5)));
    event(&mut lags, "2", Some("running"));
    let taken_back = lags.at(6).got(Ok(view("running")));
    assert_eq!(taken_back.tracked.memory.end_heard, None);
}
