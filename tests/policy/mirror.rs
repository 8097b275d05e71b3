//! A run at the service: when it is read, what is written, and what is not.

use std::time::Duration;

use rstest::rstest;
use run_operator::api::EventReason;
use run_operator::decide::{
    Follow, Report, Stream, WorkspaceView, event_buffer::Received, failure::Failure,
    stream::StreamEnd,
};

use crate::support::{
    Case, at, bare, condition, lost, not_ready, problem, session, unreadable, view,
};

fn event(case: &mut Case, id: &str, state: Option<&str>) {
    let event = Received {
        id: Some(id.into()),
        kind: "log".into(),
        data: "{}".into(),
    };
    let now = case.now;
    case.tracked
        .memory
        .event_buffer
        .receive(&event, state, Some("running"), now);
}

fn streaming() -> Case {
    let mut case = Case::new()
        .submitted("running")
        .got(Ok(view("running")))
        .settle();
    case.stream = Stream::Open;
    case
}

/// Proves: P-run-id-at-once
#[test]
fn the_run_id_is_written_before_the_stream_opens() {
    let case = Case::new().mine().posted(Ok(view("queued")));
    let decision = case.decide();
    let status = decision.status.expect("a status");
    assert_eq!(status.run_id.as_deref(), Some("run-1"));
    assert!(status.workspace.is_some() && status.submission_time.is_some());
    assert_eq!((decision.effect, decision.follow), (None, Follow::Keep));
    let deleted = case.clone().deleting().decide();
    assert!(deleted.status.is_some_and(|s| s.run_id.is_some()));
    assert_eq!(deleted.effect, None, "a cancel before it");
    assert_eq!(case.settle().decide().follow, Follow::Open);
}

/// Proves: B-writes, P-one-write
#[test]
fn an_event_alone_waits_and_a_change_of_state_does_not() {
    let mut case = streaming();
    event(&mut case, "1", Some("running"));
    let case = case.at(3);
    let waits = case.decide();
    assert_eq!((waits.status, waits.requeue_at), (None, Some(at(10))));
    let due = case.clone().at(10).decide().status.expect("a write");
    assert_eq!(due.last_event_id.as_deref(), Some("1"));
    let changed = case.got(Ok(view("odd"))).decide().status.expect("a write");
    assert_eq!(
        (changed.state.as_deref(), changed.last_event_id.as_deref()),
        (Some("odd"), Some("1"))
    );
}

/// Proves: P-stream-places, P-last-events
#[test]
fn a_stream_that_does_not_exist_is_asked_for_once_in_each_state() {
    let follow = |case: &Case| case.decide().follow;
    let missing = |case: Case| case.stream(Report::StreamEnded(StreamEnd::Missing));
    let case = streaming();
    assert_eq!(follow(&case), Follow::Open);
    let mut case = missing(case);
    case.stream = Stream::Closed;
    for second in [5, 20, 60] {
        case = case.at(second);
        assert_eq!((case.does(), follow(&case)), ("refresh", Follow::Close));
        case = case.got(Ok(view("running"))).settle();
        assert_eq!((case.does(), follow(&case)), ("nothing", Follow::Close));
    }
    let case = case.at(200).got(Ok(view("odd"))).settle();
    assert_eq!(follow(&case), Follow::Open);
    let case = missing(case).at(300).got(Ok(view("succeeded"))).settle();
    assert_eq!(follow(&case), Follow::Finish);
    let case = missing(case.stream(Report::ReadingOn));
    assert_eq!(case.does(), "release", "nothing is waited for");
}

#[test]
fn a_stale_mirror_is_fresh_only_after_a_read_in_the_new_session() {
    let synced = |case: &Case| condition(&case.settled(), "Synced").map(|c| c.0);
    let stale = streaming().view(not_ready()).settle();
    assert_eq!(synced(&stale).as_deref(), Some("False"));
    let ready = stale.view(WorkspaceView::Ready(session(2)));
    assert_eq!(ready.does(), "refresh", "at once, and without a write");
    assert_eq!(synced(&ready).as_deref(), Some("False"));
    let read = ready.got(Ok(view("running")));
    assert_eq!(synced(&read).as_deref(), Some("True"));
    assert_eq!(read.settle().does(), "nothing");
}

/// Proves: B-writes
#[test]
fn a_first_event_with_another_state_leads_to_a_get_at_once() {
    let mut case = Case::new().mine().posted(Ok(view("queued"))).settle();
    case.stream = Stream::Open;
    assert_eq!(
        case.does(),
        "nothing",
        "the create's answer named the state"
    );
    event(&mut case, "1", Some("provisioning"));
    assert_eq!(case.does(), "refresh");
}

/// Proves: P-events-hint
#[test]
fn hints_lead_to_three_gets_at_once_and_then_to_one_a_second() {
    let mut case = streaming();
    let mut gets = Vec::new();
    for tenth in 0..100 {
        case.now = at(0) + Duration::from_millis(100 * tenth);
        event(&mut case, &tenth.to_string(), None);
        case = case.settle();
        if case.does() == "refresh" {
            gets.push(tenth);
            case = case.got(Ok(view("running")));
        }
    }
    assert_eq!(gets.len(), 3 + 9, "{gets:?}");
    assert_eq!(gets[..3], [0, 1, 2]);
    assert_eq!(gets[4] - gets[3], 10);
    assert_eq!(case.at(30).does(), "refresh", "the last one is covered too");
}

#[test]
fn the_first_event_after_the_create_is_followed_at_once() {
    let mut case = Case::new().mine().posted(Ok(view("queued"))).settle();
    assert_eq!(case.does(), "nothing", "the answer to the create is fresh");
    event(&mut case, "1", Some("done"));
    assert_eq!(case.does(), "refresh");
}

/// Proves: P-events-hint
#[rstest]
#[case(true, 59, "nothing")]
#[case(true, 67, "refresh")]
#[case(false, 1, "nothing")]
#[case(false, 3, "refresh")]
fn a_run_is_polled_seldom_with_a_stream_and_often_without(
    #[case] stream: bool,
    #[case] seconds: i64,
    #[case] does: &str,
) {
    let mut case = streaming();
    case.stream = if stream { Stream::Open } else { Stream::Closed };
    assert_eq!(case.at(seconds).does(), does);
}

fn waiting() -> Case {
    let mut case = streaming();
    case.settings.poll_max = Duration::from_mins(5);
    case.stream = Stream::Waiting { since: at(0) };
    case.settle()
}

/// Proves: P-events-hint
#[test]
fn a_run_that_waits_for_a_place_is_read_every_30_seconds() {
    let mut case = waiting();
    let mut reads = vec![0];
    for second in 1..=600 {
        case = case.at(second).settle();
        if case.does() == "refresh" {
            reads.push(second);
            case = case.got(Ok(view("running")));
        }
    }
    let gaps: Vec<_> = reads.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.iter().all(|gap| (2..=30).contains(gap)), "{gaps:?}");
    assert!(gaps.is_sorted_by(|a, b| a <= &(b + 3)), "{gaps:?}");
}

/// Proves: P-events-hint
#[test]
fn poll_min_counts_also_for_a_run_that_waits_for_a_place() {
    let mut case = waiting();
    case.settings.poll_min = Duration::from_mins(1);
    assert_eq!(case.clone().at(59).does(), "nothing");
    assert_eq!(case.at(67).does(), "refresh");
}

/// Proves: P-stream-places
#[test]
fn a_slot_given_to_another_run_leads_to_no_immediate_read() {
    let mut case = streaming().at(100);
    case.stream = Stream::Waiting { since: at(100) };
    assert_eq!(case.does(), "nothing", "the stream showed what was new");
    assert_eq!(case.at(103).does(), "refresh");
}

/// Proves: P-stream-places
#[test]
fn that_a_run_is_polled_for_want_of_a_place_is_written_once() {
    let says = |case: &Case| {
        let status = case.run.status.clone().unwrap();
        let synced = status.conditions.iter().find(|c| c.type_ == "Synced");
        let synced = synced.unwrap();
        assert_eq!(synced.status, "True");
        let polled = synced.reason == "Polled";
        assert!(polled || synced.reason == "Mirrored", "{synced:?}");
        polled
    };
    assert!(!says(&streaming().settle()));
    let mut case = waiting();
    assert!(says(&case));
    let written = case.run.status.clone();
    for stream in [
        Stream::Closed,
        Stream::Open,
        Stream::Waiting { since: at(40) },
        Stream::Open,
    ] {
        case.stream = stream;
        case = case.at(60).got(Ok(view("running"))).settle();
        assert_eq!(case.run.status, written, "{stream:?}");
    }
    // With the next change, a stream being open, it is taken back.
    case = case.got(Ok(view("odd"))).settle();
    assert!(!says(&case));
}

/// Proves: F-reads
#[rstest]
#[case::refused(problem(403, "no"), 1, "nothing")]
#[case::refused_later(problem(403, "no"), 3, "refresh")]
#[case::retried(bare(502), 1, "refresh")]
#[case::no_answer(lost(), 1, "refresh")]
#[case::unreadable(unreadable(), 1, "nothing")]
#[case::unreadable_later(unreadable(), 3, "refresh")]
#[case::retry_after(Failure { retry_after: Some(Duration::from_secs(30)), ..bare(503) }, 29, "nothing")]
#[case::not_found(problem(404, "run_not_found"), 1, "nothing")]
#[case::not_found_later(problem(404, "run_not_found"), 3, "refresh")]
fn a_get_that_failed_is_made_again_by_its_class(
    #[case] failure: Failure,
    #[case] seconds: i64,
    #[case] does: &str,
) {
    let case = Case::new().submitted("running").got(Err(failure));
    assert_eq!(case.at(seconds).does(), does);
}

/// Proves: F-reads
#[test]
fn a_hiccup_of_the_mirror_costs_no_write() {
    let case = streaming().got(Err(lost())).got(Err(lost()));
    assert_eq!(case.settled(), case.run.status.clone().expect("a status"));
    let case = case.got(Err(lost()));
    assert!(case.settled().last_error.is_some());
    assert_eq!(case.got(Ok(view("running"))).settled().last_error, None);
}

/// Proves: P-unmapped
#[test]
fn an_unmapped_state_is_active_shown_verbatim_and_noted_once() {
    let noted = |case: &Case| {
        let mut events = case.news().into_iter();
        let event = events.find(|event| event.reason == EventReason::UnmappedState);
        event.is_some_and(|event| event.message.contains("the state \"Odd\""))
    };
    let created = Case::new().mine().posted(Ok(view("Odd")));
    assert!(noted(&created));
    assert!(!noted(&created.settle()));
    let read = streaming().got(Ok(view("Odd")));
    assert!(noted(&read));
    assert_eq!(read.settled().state.as_deref(), Some("Odd"));
    let ready = condition(&read.settled(), "Ready");
    assert_eq!(ready.unwrap().1, "StateNotMapped");
    // The next process finds it in the status.
    let later = read.settle().restarted().at(400).got(Ok(view("Odd")));
    assert_eq!(later.news(), []);
}

/// Proves: P-guarded-writes, B-writes
#[test]
fn nothing_new_writes_nothing() {
    let case = streaming();
    let read = case.clone().at(60).got(Ok(view("running")));
    assert_eq!(read.settled(), case.settled());
}

/// Proves: D-cancel
#[test]
fn cancel_is_repeated_with_backoff_while_the_run_stays_active() {
    let mut case = Case::new()
        .submitted("running")
        .spec(|s| s.cancel = Some(true));
    let mut cancels = Vec::new();
    for second in 0..200 {
        case = case.at(second).settle();
        match case.does() {
            "cancel" => {
                cancels.push(second);
                case = case.cancelled(Ok(view("running")));
            }
            "refresh" => case = case.got(Ok(view("running"))),
            _ => {}
        }
    }
    let gaps: Vec<_> = cancels.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.is_sorted() && gaps.len() >= 4, "{cancels:?}");
    assert!(gaps.len() < 12 && gaps.iter().all(|g| *g >= 2), "{gaps:?}");
}

/// Proves: P-deadline
#[test]
fn the_deadline_counts_from_the_submission_and_wakes_the_run() {
    let case = streaming().spec(|s| s.active_deadline_seconds = Some(30));
    assert_eq!(case.decide().requeue_at, Some(at(31)));
    assert_eq!(case.clone().at(30).does(), "nothing");
    assert_eq!(case.at(31).does(), "cancel");
}

#[test]
fn start_and_submission_times_are_written_once() {
    let case = Case::new().mine().at(4).posted(Ok(view("queued"))).settle();
    let case = case.at(9).got(Ok(view("running"))).settle();
    let case = case
        .at(20)
        .got(Ok(view("odd")))
        .at(30)
        .got(Ok(view("running")));
    let status = case.settled();
    assert_eq!(status.submission_time.map(|t| t.0), Some(at(4)));
    assert_eq!(status.start_time.map(|t| t.0), Some(at(9)));
}

/// Proves: F-stale
#[test]
fn a_read_older_than_another_processs_mirror_is_not_written() {
    let mut case = Case::new()
        .submitted("queued")
        .got(Ok(view("queued")))
        .settle();
    case.stream = Stream::Open;
    event(&mut case, "1", Some("queued"));
    let case = case.got(Ok(view("queued")));
    // Another process read the run later and wrote what it saw.
    let mut case = case.status(|s| s.state = Some("running".into()));
    case.reads_object();
    let status = case.settled();
    assert_eq!(status.state.as_deref(), Some("running"));
    assert_eq!(status.last_event_id, None, "shown before it was read again");
    assert_eq!(case.does(), "refresh");
    let status = case.got(Ok(view("running"))).at(20).settled();
    assert_eq!(status.last_event_id.as_deref(), Some("1"));
}
