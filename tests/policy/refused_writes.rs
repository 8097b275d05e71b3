//! The operator's own writes: those that the API server refuses, and those for which an object has no room.

use rstest::rstest;
use run_operator::{
    api::{
        Intent, Phase, Reason, contract::RunDetails, limits::MAX_OBJECT, status::ResolvedWorkspace,
    },
    decide::{EventDraft, Follow, failure::RunView},
};

use crate::support::{Case, at, condition, not_ready, view};

const SENTENCE: &str = "ValidatingAdmissionPolicy 'p' denied request: no";

/// The message of Ready, if the reason is this one.
fn told(case: &Case) -> Option<String> {
    let status = case.settled();
    let ready = status.conditions.into_iter().find(|c| c.type_ == "Ready")?;
    (ready.reason == Reason::WriteRefused.as_str()).then_some(ready.message)
}

/// Proves: P-refused-writes, P-intent-before-post
#[test]
fn a_refused_intent_is_shown_and_tried_again() {
    let refused = Case::new().write_refused(SENTENCE).settle();
    assert!(told(&refused).unwrap().contains(SENTENCE));
    let holds = |kind| condition(&refused.settled(), kind).map(|c| c.0);
    assert_eq!(holds("Reconciling").as_deref(), Some("True"));
    assert_eq!(holds("Stalled"), None);
    assert_eq!(refused.does(), "nothing");
    assert_eq!(refused.decide().requeue_at, Some(at(60)));
    let due = refused.at(60);
    assert_eq!(due.does(), "intent");
    assert_eq!(due.decide().status, None, "no write beside the attempt");
    let intent = due.an_intent("me", 1);
    let taken = due.finalizer().intent_written(intent, true);
    assert_eq!(taken.does(), "submit");
}

/// Proves: P-refused-writes
#[test]
fn a_deletion_shows_what_keeps_the_object() {
    let refused = Case::new().mine().deleting().write_refused(SENTENCE);
    assert!(told(&refused).unwrap().contains(SENTENCE));
    assert_eq!(
        (refused.does(), refused.at(60).does()),
        ("nothing", "release")
    );
}

/// Proves: P-refused-writes, D-stripped
#[test]
fn a_run_is_mirrored_while_the_restoration_of_its_intent_is_refused() {
    let mut stripped = Case::new().submitted("queued").got(Ok(view("queued")));
    stripped.run.metadata.annotations = None;
    assert_eq!(stripped.does(), "intent");
    let refused = stripped.write_refused(SENTENCE).settle();
    assert!(told(&refused).unwrap().contains(SENTENCE));
    assert_eq!(refused.decide().follow, Follow::Open);
    let running = refused.clone().at(30).got(Ok(view("running")));
    assert_eq!(running.settled().state.as_deref(), Some("running"));
    assert_eq!(refused.at(60).does(), "intent");
}

/// Proves: P-refused-writes, P-none-left
#[rstest]
#[case::deleted(Case::new().submitted("running").got(Ok(view("running"))).settle().deleting(), "cancel")]
#[case::changed(Case::new().submitted("queued").got(Ok(view("running"))), "nothing")]
#[case::not_submitted(Case::new().view(not_ready()), "nothing")]
fn a_refused_status_is_tried_again_and_does_not_stop_a_cancellation(
    #[case] case: Case,
    #[case] does: &str,
) {
    assert!(case.decide().status.is_some());
    let refused = case.next_refused(SENTENCE);
    assert_eq!((refused.decide().status, refused.does()), (None, does));
    assert!(refused.decide().requeue_at <= Some(at(60)));
    assert!(refused.at(60).decide().status.is_some());
}

/// Proves: P-refused-writes, P-details, D-cancelling
#[test]
fn a_refused_status_of_details_alone_holds_back_no_release() {
    let told = |percent| RunView {
        details: Some(Box::new(RunDetails {
            percent: Some(percent),
            ..RunDetails::default()
        })),
        ..view("cancelling")
    };
    let deleted = Case::new().submitted("running").got(Ok(view("running")));
    let cancelled = deleted
        .settle()
        .deleting()
        .cancelled(Ok(view("cancelling")));
    let cancelling = cancelled.at(9).got(Ok(told(1))).settle();
    let late = cancelling.at(299).got(Ok(told(2)));
    assert!(late.decide().status.is_some());
    let refused = late.next_refused(SENTENCE).at(305).got(Ok(told(3)));
    let decision = refused.decide();
    assert_eq!((decision.status, refused.does()), (None, "release"));
}

/// Proves: P-refused-writes, P-terminal
#[test]
fn after_the_end_a_refused_release_changes_no_status() {
    let ended = Case::new()
        .submitted("running")
        .got(Ok(view("done")))
        .settle()
        .read_on()
        .settle();
    assert_eq!(ended.does(), "release");
    let refused = ended.write_refused(SENTENCE);
    assert_eq!(refused.decide().status, None);
    assert_eq!(
        (refused.does(), refused.at(60).does()),
        ("nothing", "release")
    );
}

/// Proves: P-refused-writes
#[test]
fn a_refused_part_of_an_object_is_one_event_an_hour() {
    let occasion =
        |writes, second| EventDraft::write_refused(writes, SENTENCE, None, at(second)).occasion;
    let now = 3600 - at(0).as_second() % 3600;
    assert_eq!(occasion("status", now), occasion("status", now + 3599));
    assert_ne!(occasion("status", now), occasion("status", now + 3600));
    assert_ne!(occasion("status", now), occasion("metadata", now));
}

fn of_bytes(case: Case, bytes: usize) -> Case {
    case.spec(|spec| spec.object_bytes = bytes)
}

/// Proves: P-room
#[rstest]
#[case::that_just_fits(MAX_OBJECT, "intent", Phase::Pending)]
#[case::of_unknown_size(0, "intent", Phase::Pending)]
#[case::that_is_too_large(MAX_OBJECT + 1, "nothing", Phase::Failed)]
fn an_object(#[case] bytes: usize, #[case] does: &str, #[case] phase: Phase) {
    let case = of_bytes(Case::new(), bytes);
    assert_eq!((case.does(), case.settled().phase), (does, Some(phase)));
}

/// Its intent stands: no Run that may have a run ends by its size.
/// Proves: P-room
#[test]
fn an_object_that_grew_is_submitted_and_not_retried() {
    let grown = of_bytes(Case::new().mine(), MAX_OBJECT + 1);
    assert_eq!(grown.does(), "submit");
    let retried = Case::new()
        .mine()
        .refused(Reason::Forbidden, true, 1)
        .retry("again");
    let grown = of_bytes(retried.clone(), MAX_OBJECT + 1);
    assert_eq!((retried.does(), grown.does()), ("intent", "nothing"));
    assert_eq!(grown.stalled().as_deref(), Some("RunTooLarge"));
}

/// Beside the status of 32 KiB, and as much as the intent for what the API server records of both.
/// Proves: P-room
#[test]
fn the_largest_intent_takes_a_quarter_of_what_is_left_for_it() {
    let quotes = |length| "\"".repeat(length);
    let mut largest: Intent =
        Case::new().an_ended_intent("me", (None, Phase::Failed, Reason::Failed));
    largest.workspace = ResolvedWorkspace {
        name: "n".repeat(253),
        base_url: quotes(512),
        identity: Some(quotes(256)),
        ..largest.workspace
    };
    largest.key = quotes(512);
    largest.owner = "o".repeat(512);
    largest.retry = Some(quotes(128));
    largest.end.as_mut().unwrap().run_id = Some(quotes(512));
    let annotation = serde_json::to_string(&largest).unwrap();
    let stored = serde_json::to_string(&annotation).unwrap();
    assert!(stored.len() < 16 * 1024, "{}", stored.len());
}
