//! A retry of a conflict, again and again.

use rstest::rstest;
use run_operator::decide::Effect;

use crate::support::{Case, hopeless, intent_of, lost, problem};

/// A person asks for a retry; the intent of it is written.
fn retried(case: Case, value: &str) -> Case {
    let case = case.retry(value);
    let (intent, _, clean) = intent_of(&case);
    case.intent_written(intent, clean)
}

/// Proves: F-409
#[test]
fn a_retried_idempotency_conflict_that_recurs_is_stalled_again() {
    let conflict = || problem(409, "idempotency_conflict");
    let mut case = Case::new().mine().posted(Err(conflict())).settle();
    for (value, restart) in [("1", false), ("2", true), ("3", false)] {
        if restart {
            case = case.restarted();
        }
        case = retried(case, value);
        let Some(Effect::Submit { key, .. }) = case.effect() else {
            panic!("no POST");
        };
        assert_eq!(key, crate::support::UID, "never a new key");
        case = case.posted(Err(conflict())).settle();
        assert_eq!(case.stalled().as_deref(), Some("IdempotencyConflict"));
        assert_eq!(case.does(), "nothing");
        assert_eq!(case.settled().handled_retry.as_deref(), Some(value));
        // Still no proof: a deletion repeats the request.
        assert_eq!(case.clone().at(700).deleting().does(), "submit");
    }
}

#[test]
fn a_lost_answer_to_a_retried_conflict_keeps_the_run_in_doubt() {
    let conflict = || problem(409, "idempotency_conflict");
    let case = Case::new().mine().posted(Err(conflict())).settle();
    let case = retried(case, "1").posted(Err(lost())).settle();
    let case = case.posted(Err(conflict())).settle();
    assert_eq!(case.stalled(), None);
    assert_eq!(case.at(700).does(), "submit");
}

#[rstest]
#[case::approval(409, "approval_required")]
#[case::another_conflict(409, "else")]
#[case::forbidden(403, "no")]
fn a_refused_retry_of_a_conflict_leaves_the_first_post_open(
    #[case] status: u16,
    #[case] code: &str,
) {
    let conflict = || problem(409, "idempotency_conflict");
    let case = Case::new().mine().posted(Err(conflict())).settle();
    let case = retried(case, "1")
        .posted(Err(problem(status, code)))
        .settle();
    // A copy of the first request may still be carried out: no status shows that it waits for an approval.
    assert_eq!(case.stalled(), None);
    assert_eq!(case.at(700).does(), "submit");
}

#[test]
fn a_conflict_on_the_retry_of_what_else_left_doubt_is_asked_on() {
    let case = Case::new().mine().posted(Err(hopeless())).settle();
    assert_eq!(case.stalled().as_deref(), Some("ServerError"));
    let conflict = problem(409, "idempotency_conflict");
    let case = retried(case, "1").posted(Err(conflict)).settle();
    // The request that the service gave up may have made the run that this one is in conflict with.
    assert_eq!(case.stalled(), None);
    assert_eq!(case.at(700).does(), "submit");
}
