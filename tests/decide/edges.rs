//! The sides of each condition that no other test tells apart: what a change of one operator in src/decide would
//! otherwise leave unnoticed (`make mutants`).

use run_operator::api::{Reason, status::ResolvedWorkspace};
use run_operator::decide::{Effect, Learned, Session, WorkspaceView};

use crate::support::{Case, UID, at, condition, hopeless, lost, place, problem, session};

const DAY: i64 = 86_400;

/// Epoch and `clean` of the intent that is written next.
fn next_intent(case: &Case) -> (i64, bool) {
    match case.effect() {
        Some(Effect::WriteIntent { intent, clean, .. }) => (intent.epoch, clean),
        other => panic!("not an intent: {other:?}"),
    }
}

fn without_finalizer(mut case: Case) -> Case {
    case.run.metadata.finalizers = None;
    case
}

#[test]
fn a_finalizer_that_is_put_back_proves_nothing_of_a_post_in_doubt() {
    let announced = without_finalizer(Case::new().mine());
    assert_eq!(next_intent(&announced), (1, true));
    let doubted = without_finalizer(Case::new().mine().posted(Err(lost()))).at(301);
    assert_eq!(next_intent(&doubted), (1, false));
}

#[test]
fn a_takeover_is_never_clean_whatever_a_status_says_of_an_earlier_epoch() {
    let case = Case::new()
        .intent("other", 2)
        .refused(Reason::Forbidden, true, 1);
    assert_eq!(next_intent(&case), (3, false));
}

#[test]
fn a_token_that_was_refused_twice_is_waited_for_without_looking_at_the_clock() {
    let refused = problem(401, "token_expired");
    let case = Case::new()
        .mine()
        .posted(Err(refused.clone()))
        .posted(Err(refused));
    let next = case.memory.troubles[0].next;
    let mut due = case.settle();
    due.now = next;
    let decision = due.decide();
    assert_eq!((decision.effect, decision.again), (None, None));
}

#[test]
fn a_lone_conflict_after_another_refusal_is_asked_again() {
    let stalled = Case::new().mine().posted(Err(hopeless())).settle();
    assert_eq!(stalled.stalled().as_deref(), Some("ServerError"));
    let retried = stalled.retry("once");
    assert_eq!(next_intent(&retried), (2, false));
    let mut intent = retried.an_intent("me", 2);
    intent.retry = Some("once".into());
    let conflict = retried
        .stands(&intent)
        .learn(Learned::IntentWritten {
            intent,
            clean: false,
        })
        .posted(Err(problem(409, "approval_required")));
    assert_eq!(conflict.stalled(), None);
    assert_eq!(conflict.at(61).does(), "submit");
}

#[test]
fn an_intent_of_another_object_in_memory_counts_for_nothing() {
    let mut case = Case::new();
    let mut other = case.an_intent("me", 1);
    other.uid = "another".into();
    other.workspace.identity = Some("ws-other".into());
    case.memory.intent = Some(other.clone());
    assert_eq!(case.does(), "intent");
    assert_eq!(next_intent(&case), (1, true));

    // Beside one of its own, too: it pins nothing.
    let mut case = Case::new().mine();
    case.memory.intent = Some(other);
    assert_eq!(case.does(), "submit");
    assert_eq!(case.run.metadata.uid.as_deref(), Some(UID));
}

#[test]
fn what_was_written_under_an_epoch_that_made_no_run_pins_nothing_under_the_next() {
    let elsewhere = ResolvedWorkspace {
        identity: Some("ws-other".into()),
        ..place()
    };
    let case = Case::new().mine();
    let mut next = case.an_intent("me", 2);
    next.workspace = elsewhere.clone();
    let there = WorkspaceView::Ready(Session {
        resolved: elsewhere,
        ..session(1)
    });
    // Another process moved the submission, which was proved to have made none, to another place.
    let case = case.stands(&next).view(there);
    assert_eq!(case.stalled(), None);
    assert_eq!(next_intent(&case).0, 3);

    // Of the same epoch, the word of the one who wrote it stands beside the object's.
    let case = Case::new().mine();
    let mut edited = case.an_intent("me", 1);
    edited.workspace.identity = Some("ws-other".into());
    let moved = case.stands(&edited).at(DAY / 2);
    assert_eq!(moved.stalled().as_deref(), Some("IdentityChanged"));
    assert_eq!(condition(&moved.settled(), "Ready").unwrap().0, "False");
    assert_eq!(moved.now, at(DAY / 2));
}
