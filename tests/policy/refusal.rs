//! A refusal of exactly the pinned bytes ends the Run: nothing can change them.

use rstest::rstest;
use run_operator::{
    api::{Phase, Reason},
    decide::{Effect, Follow},
};

use crate::{
    support::{Case, at, condition, intent_of, lost, problem},
    world::{Fate, World},
};

fn refused() -> Case {
    Case::new().mine().posted(Err(problem(422, "bad")))
}

/// Proves: F-refused-bytes
#[rstest]
#[case::at_first(refused())]
#[case::another_status(Case::new().mine().posted(Err(problem(413, "big"))))]
#[case::in_doubt(Case::new().mine().posted(Err(lost())).posted(Err(problem(422, "bad"))))]
#[case::taken_over(Case::new().taken_over().posted(Err(problem(400, "bad"))))]
fn a_refused_run_is_failed_finished_and_released(#[case] case: Case) {
    let status = case.settled();
    assert_eq!(status.phase, Some(Phase::Failed));
    for (kind, expected) in [
        ("Finished", "True"),
        ("Failed", "True"),
        ("Stalled", "True"),
        ("Ready", "False"),
        ("Accepted", "False"),
    ] {
        let told = condition(&status, kind).expect(kind);
        assert_eq!(
            told,
            (expected.to_owned(), "CreateRefused".to_owned()),
            "{kind}"
        );
    }
    assert_eq!(condition(&status, "Reconciling"), None);
    assert_eq!(condition(&status, "Synced"), None);
    assert!(status.completion_time.is_some() && status.run_id.is_none());
    assert_eq!(status.last_error.expect("an error").next_attempt_time, None);
    let settled = case.settle().decide();
    assert_eq!(settled.follow, Follow::Close);
    let Some(Effect::Release { end: Some(end) }) = settled.effect else {
        panic!("{:?}", settled.effect);
    };
    assert_eq!(
        (end.run_id, end.phase, end.reason),
        (None, Phase::Failed, Reason::CreateRefused)
    );
}

/// Proves: F-refused-bytes
#[test]
fn a_retry_that_is_asked_for_afterwards_does_nothing() {
    let mut world = World::new(Case::new()).fate(Fate::Answered(problem(422, "bad")));
    world.play(5);
    world.case = world.case.clone().retry("again").at(10);
    world.play(2000);
    assert_eq!(world.service.posts.len(), 1);
    assert!(world.case.run.metadata.finalizers.is_none());
    let before = world.case.settled();
    world.crash();
    world.play(4000);
    assert_eq!(
        (world.service.posts.len(), world.case.settled()),
        (1, before)
    );
}

/// Proves: F-refused-bytes
#[test]
fn a_refused_run_is_deleted_by_its_ttl() {
    let mut case = Case::new()
        .spec(|s| s.ttl_seconds_after_finished = Some(30))
        .mine()
        .posted(Err(problem(422, "bad")))
        .settle();
    case.run.metadata.finalizers = None;
    // The stored time may be up to a second early.
    assert_eq!(case.decide().requeue_at, Some(at(31)));
    assert_eq!(case.at(31).does(), "delete");
}

/// Proves: F-refused-bytes
#[test]
fn a_status_that_was_lost_is_rebuilt_without_a_call() {
    let mut world = World::new(Case::new()).fate(Fate::Answered(problem(422, "bad")));
    world.play(5);
    let intent = world.case.run.intent_record().own().expect("an intent");
    assert_eq!(intent.end.expect("an end").reason, Reason::CreateRefused);
    for restarts in [false, true] {
        world.case.run.status = None;
        if restarts {
            world.crash();
        }
        world.play(900);
        let status = world.case.settled();
        assert_eq!(status.phase, Some(Phase::Failed));
        let finished = condition(&status, "Finished").expect("Finished");
        assert_eq!(finished, ("True".to_owned(), "CreateRefused".to_owned()));
        assert_eq!(world.service.posts.len(), 1);
    }
}

/// An earlier version left such a Run Pending and Stalled, and asked for a retry.
/// Proves: F-refused-bytes
#[rstest]
#[case(Case::new())]
#[case(Case::new().retry("1"))]
fn a_refusal_written_by_an_earlier_version_ends_the_run(#[case] case: Case) {
    let case = case
        .intent("earlier", 1)
        .refused(Reason::CreateRefused, true, 1);
    assert_eq!(case.settled().phase, Some(Phase::Failed));
    assert_eq!(case.does(), "release");
}

/// Proves: F-refused-bytes
#[test]
fn a_refusal_that_answers_another_epoch_or_object_ends_nothing() {
    let retried = Case::new()
        .intent("earlier", 2)
        .refused(Reason::CreateRefused, true, 1);
    assert_eq!(retried.settled().phase, Some(Phase::Pending));
    assert_eq!(retried.does(), "intent");
    let copied = Case::new()
        .foreign()
        .refused(Reason::CreateRefused, true, 1)
        .retry("1");
    assert_eq!(copied.does(), "intent");
    let unproved = Case::new()
        .intent("earlier", 1)
        .refused(Reason::CreateRefused, false, 1);
    assert_eq!(unproved.settled().phase, Some(Phase::Pending));
}

/// Proves: F-final
#[test]
fn what_can_be_mended_waits_for_a_retry() {
    for (status, code) in [
        (403, "no"),
        (409, "approval_required"),
        (409, "version_conflict"),
        (409, "else"),
    ] {
        let case = Case::new()
            .mine()
            .posted(Err(problem(status, code)))
            .settle();
        assert_eq!(case.settled().phase, Some(Phase::Pending), "{code}");
        let asked = case.retry("1");
        let (intent, _, clean) = intent_of(&asked);
        let again = asked.intent_written(intent, clean);
        let again = again.posted(Err(problem(status, code))).settle();
        assert_eq!(again.does(), "nothing", "{code}: by the same value");
    }
}

#[rstest]
#[case::of_the_bytes(Reason::CreateRefused, "Correct the spec in a new Run.")]
#[case::of_the_caller(Reason::Forbidden, "When the cause is resolved, ")]
fn a_refusal_whose_message_was_lost_still_says_what_to_do(
    #[case] reason: Reason,
    #[case] todo: &str,
) {
    let status = Case::new()
        .intent("me", 1)
        .refused(reason, true, 1)
        .settled();
    let stalled = status
        .conditions
        .iter()
        .find(|c| c.type_ == "Stalled")
        .unwrap();
    assert_eq!(stalled.reason, reason.as_str());
    assert!(stalled.message.contains(todo), "{}", stalled.message);
}
