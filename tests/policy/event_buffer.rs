//! The service's events on their way into the status.

use proptest::prelude::*;
use run_operator::{
    api::RunStatus,
    decide::event_buffer::{EventBuffer, Received},
};

use crate::support::at;

fn event(id: &str) -> Received {
    Received {
        id: Some(id.to_owned()),
        kind: "log".into(),
        data: "line".into(),
    }
}

/// An event that changes nothing.
fn silent(feed: &mut EventBuffer, id: &str) -> bool {
    feed.receive(&event(id), Some("running"), Some("running"), at(0))
}

/// An event that may change the state.
fn hint(feed: &mut EventBuffer, id: &str) -> bool {
    feed.receive(&event(id), None, Some("running"), at(0))
}

fn folded(feed: &EventBuffer, status: &RunStatus) -> RunStatus {
    let mut status = status.clone();
    feed.fold(&mut status);
    status
}

fn ids(status: &RunStatus) -> Vec<&str> {
    status
        .events
        .iter()
        .filter_map(|e| e.id.as_deref())
        .collect()
}

/// What another process stored: the events of these ids.
fn stored(ids: &[&str]) -> RunStatus {
    let mut other = EventBuffer::default();
    for id in ids {
        silent(&mut other, id);
    }
    let mut status = RunStatus::default();
    other.fold_all(&mut status);
    status
}

/// Proves: P-one-write
#[test]
fn events_that_another_process_stored_are_counted_once() {
    let mut behind = EventBuffer::default();
    silent(&mut behind, "1");
    let mut status = stored(&["1", "2"]);
    behind.overtaken(&status);
    behind.fold_all(&mut status);
    assert_eq!(status, stored(&["1", "2"]));
    assert!(!silent(&mut behind, "2"), "the status has it");
    assert!(silent(&mut behind, "3"));
    behind.fold_all(&mut status);
    assert_eq!(ids(&status), ["1", "2", "3"]);
    assert_eq!(status.event_count, Some(3));
}

/// The status shows only the latest events, none of which this process knows.
/// Proves: P-one-write
#[test]
fn events_that_another_process_stored_long_ago_are_counted_once() {
    let ids: Vec<String> = (1..=50).map(|n| n.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut behind = EventBuffer::default();
    silent(&mut behind, "1");
    let mut status = stored(&ids);
    assert!(!self::ids(&status).contains(&"1"));
    behind.overtaken(&status);
    behind.fold_all(&mut status);
    assert_eq!(status, stored(&ids));
}

/// Proves: P-one-write
#[test]
fn a_process_ahead_of_what_another_stored_adds_only_the_rest() {
    let mut ahead = EventBuffer::default();
    for id in ["1", "2", "3"] {
        silent(&mut ahead, id);
    }
    let mut status = stored(&["1", "2"]);
    ahead.overtaken(&status);
    ahead.fold_all(&mut status);
    assert_eq!(ids(&status), ["1", "2", "3"]);
    assert_eq!(status.event_count, Some(3));
}

/// A person edits a condition long after this process's last write of events.
/// Proves: P-one-write
#[test]
fn an_edit_of_another_part_of_the_status_loses_no_event() {
    let mut buffer = EventBuffer::default();
    silent(&mut buffer, "first");
    let mut status = folded(&buffer, &RunStatus::default());
    buffer.written(1);
    for n in 0..70 {
        silent(&mut buffer, &n.to_string());
    }
    buffer.overtaken(&status);
    buffer.fold_all(&mut status);
    assert_eq!(status.event_count, Some(71));
    assert_eq!(status.last_event_id.as_deref(), Some("69"));
}

/// Proves: P-events-hint
#[test]
fn an_event_with_the_mirrored_state_is_shown_without_a_get() {
    let mut feed = EventBuffer::default();
    assert!(silent(&mut feed, "1"));
    assert!(!feed.refresh_wanted());
    let status = folded(&feed, &RunStatus::default());
    assert_eq!(status.last_event_id.as_deref(), Some("1"));
    assert_eq!(status.event_count, Some(1));
}

/// Proves: P-events-hint
#[test]
fn an_event_that_may_change_the_state_waits_for_a_get() {
    let mut feed = EventBuffer::default();
    hint(&mut feed, "1");
    assert!(feed.refresh_wanted());
    assert_eq!(folded(&feed, &RunStatus::default()), RunStatus::default());
    feed.mark();
    hint(&mut feed, "2");
    feed.covered();
    assert_eq!(ids(&folded(&feed, &RunStatus::default())), ["1"]);
    assert!(feed.refresh_wanted(), "the second came after the GET began");
}

/// Proves: P-one-write
#[test]
fn a_replayed_event_is_counted_once_also_after_a_restart() {
    let mut feed = EventBuffer::default();
    assert!(silent(&mut feed, "1"));
    assert!(!silent(&mut feed, "1"));
    let status = folded(&feed, &RunStatus::default());
    let mut later = EventBuffer::default();
    later.remember(&status);
    assert_eq!(
        later.cursor(),
        Some("1"),
        "the stream resumes where the mirror ends"
    );
    assert!(!silent(&mut later, "1"));
    assert!(silent(&mut later, "2"));
    let status = folded(&later, &status);
    assert_eq!(status.event_count, Some(2));
    let mut last = EventBuffer::default();
    last.remember(&status);
    assert!(!silent(&mut last, "1") && !silent(&mut last, "2"));
}

#[test]
fn an_event_without_an_id_is_no_replay_and_moves_no_cursor() {
    let mut feed = EventBuffer::default();
    silent(&mut feed, "1");
    for id in [None, Some(String::new()), Some("x".repeat(257))] {
        let event = Received { id, ..event("") };
        assert!(feed.receive(&event, Some("a"), Some("a"), at(0)));
    }
    let status = folded(&feed, &RunStatus::default());
    assert_eq!(status.event_count, Some(4));
    assert_eq!(status.last_event_id.as_deref(), Some("1"));
    assert_eq!(feed.cursor(), Some("1"));
}

/// Proves: X-caps
#[test]
fn events_arriving_during_a_write_are_shown_exactly_once() {
    let mut feed = EventBuffer::default();
    for n in 0..10 {
        silent(&mut feed, &format!("a{n}"));
    }
    let shown = feed.shown();
    let mut status = folded(&feed, &RunStatus::default());
    // Fifteen arrive before the write is answered and push out all that was shown.
    for n in 0..15 {
        silent(&mut feed, &format!("b{n}"));
    }
    feed.written(shown);
    status = folded(&feed, &status);
    assert_eq!(status.event_count, Some(25));
    assert_eq!(status.last_event_id.as_deref(), Some("b14"));
    assert_eq!(ids(&status).first(), Some(&"b5"));
}

/// Proves: P-one-write
#[test]
fn a_write_whose_answer_was_lost_shows_its_events_once() {
    let mut feed = EventBuffer::default();
    silent(&mut feed, "1");
    silent(&mut feed, "2");
    let status = folded(&feed, &RunStatus::default());
    // written() was never called.
    silent(&mut feed, "3");
    let status = folded(&feed, &status);
    assert_eq!(ids(&status), ["1", "2", "3"]);
    assert_eq!(status.event_count, Some(3));
    assert_eq!(folded(&feed, &status), status);
}

/// Proves: X-caps
#[test]
fn data_and_type_are_cut_at_a_character() {
    let mut feed = EventBuffer::default();
    let long = Received {
        id: Some("1".into()),
        kind: "k".repeat(500),
        data: "é".repeat(500),
    };
    feed.receive(&long, Some("a"), Some("a"), at(0));
    let status = folded(&feed, &RunStatus::default());
    let event = status.events.first().expect("an event");
    assert_eq!(event.kind.len(), 128);
    assert_eq!(event.data.as_deref(), Some("é".repeat(256).as_str()));
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    Silent,
    Hint,
    Replay,
    Big,
    Start,
    Answer,
    Decide,
    Written,
    LostWrite,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Model: events are numbered; a GET covers those received before it began.
    /// Proves: P-one-write
    #[test]
    fn the_cursor_is_never_ahead_of_what_was_mirrored(turns in prop::collection::vec(
        prop::sample::select(vec![
            Turn::Silent, Turn::Silent, Turn::Hint, Turn::Replay, Turn::Big, Turn::Start, Turn::Answer,
            Turn::Decide, Turn::Written, Turn::LostWrite,
        ]), 0..60)) {
        let mut feed = EventBuffer::default();
        let mut status = RunStatus::default();
        // Of each event: whether it may have changed the state.
        let mut events: Vec<bool> = Vec::new();
        let (mut covered, mut marked) = (0, 0);
        let mut writing: Option<(RunStatus, usize)> = None;
        for turn in turns {
            match turn {
                Turn::Silent => {
                    events.push(false);
                    let is_new = silent(&mut feed, &events.len().to_string());
                    prop_assert!(is_new);
                }
                Turn::Hint => {
                    events.push(true);
                    let is_new = hint(&mut feed, &events.len().to_string());
                    prop_assert!(is_new);
                }
                Turn::Replay => {
                    for n in 1..=events.len().min(5) {
                        let is_new = hint(&mut feed, &(events.len() + 1 - n).to_string());
                        prop_assert!(!is_new);
                    }
                }
                Turn::Big => feed.hint(),
                Turn::Start => { feed.mark(); marked = events.len(); }
                Turn::Answer => { feed.covered(); covered = covered.max(marked); }
                Turn::Decide if writing.is_none() => {
                    let next = folded(&feed, &status);
                    if next != status {
                        let cursor: usize = next.last_event_id.as_deref().unwrap_or("0").parse().expect("a number");
                        let ahead = events.iter().take(cursor).skip(covered).any(|changes| *changes);
                        prop_assert!(!ahead, "cursor {cursor}, covered {covered}");
                        prop_assert_eq!(next.event_count, i64::try_from(cursor).ok());
                        prop_assert!(next.events.len() <= 10);
                        let shown: Vec<usize> = ids(&next).iter().map(|i| i.parse().expect("a number")).collect();
                        prop_assert!(shown.is_sorted_by(|a, b| a < b), "{shown:?}");
                        writing = Some((next, feed.shown()));
                    }
                }
                Turn::Written => if let Some((next, shown)) = writing.take() {
                    status = next;
                    feed.written(shown);
                },
                Turn::LostWrite => if let Some((next, _)) = writing.take() {
                    status = next;
                },
                Turn::Decide => {}
            }
        }
        feed.mark();
        feed.covered();
        status = folded(&feed, &status);
        prop_assert_eq!(status.event_count.unwrap_or_default(), i64::try_from(events.len()).expect("few"));
    }
}
