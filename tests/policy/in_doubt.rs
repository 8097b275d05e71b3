//! "In doubt", row by row: whether a deletion may release the object at once, and whether the submission
//! continues.

use rstest::rstest;
use run_operator::{
    api::{Phase, Reason},
    decide::failure::Call,
};

use crate::support::{
    Case, RETRY, at, bare, hopeless, intent_of, lost, no_file, not_ready, problem, unreadable, view,
};

const DAY: i64 = 86_400;

fn conflict() -> run_operator::decide::failure::Failure {
    problem(409, "idempotency_conflict")
}

/// The effect of a deletion, a minute later, on the earlier state.
/// Proves: D-never-created, D-proof, D-in-doubt
#[rstest]
#[case::no_intent(Case::new(), "nothing")]
#[case::no_intent_but_a_finalizer(Case::new().finalizer(), "release")]
#[case::announced_by_this_process(Case::new().mine(), "release")]
#[case::announced_by_another(Case::new().intent("earlier", 1), "intent")]
#[case::announced_and_restarted(Case::new().mine().restarted(), "intent")]
#[case::its_patch_was_never_answered(Case::new().intent("me", 1), "intent")]
#[case::lone_403(Case::new().mine().posted(Err(problem(403, "no"))), "release")]
#[case::lone_429(Case::new().mine().posted(Err(problem(429, "slow"))), "release")]
#[case::lone_422(Case::new().mine().posted(Err(problem(422, "bad"))), "release")]
#[case::lone_approval(Case::new().mine().posted(Err(problem(409, "approval_required"))), "release")]
#[case::lone_idempotency(Case::new().mine().posted(Err(conflict())), "submit")]
#[case::lone_in_progress(
    Case::new().mine().posted(Err(problem(409, "idempotency_in_progress"))), "submit")]
#[case::lone_408(Case::new().mine().posted(Err(problem(408, "slow_client"))), "submit")]
#[case::lone_bare_404(Case::new().mine().posted(Err(bare(404))), "submit")]
#[case::lone_bare_403(Case::new().mine().posted(Err(bare(403))), "submit")]
#[case::lone_bare_422(Case::new().mine().posted(Err(bare(422))), "submit")]
#[case::lone_hopeless(Case::new().mine().posted(Err(hopeless())), "submit")]
#[case::lost_answer(Case::new().mine().posted(Err(lost())), "submit")]
#[case::no_file_was_left(Case::new().mine().posted(Err(no_file())), "release")]
#[case::unreadable_answer(Case::new().mine().posted(Err(unreadable())), "submit")]
#[case::given_up_midway(Case::new().mine().unheard(Call::Create), "submit")]
#[case::refused_then_given_up(
    Case::new().mine().posted(Err(problem(429, "slow"))).unheard(Call::Create), "submit")]
#[case::given_up_then_refused(
    Case::new().mine().unheard(Call::Create).posted(Err(problem(403, "no"))), "submit")]
#[case::two_refusals(
    Case::new().mine().posted(Err(problem(429, "slow"))).posted(Err(problem(403, "no"))), "release")]
#[case::lost_then_403(Case::new().mine().posted(Err(lost())).posted(Err(problem(403, "no"))), "submit")]
#[case::lost_then_422(Case::new().mine().posted(Err(lost())).posted(Err(problem(422, "bad"))), "release")]
#[case::taken_over(Case::new().taken_over(), "submit")]
#[case::taken_over_then_403(Case::new().taken_over().posted(Err(problem(403, "no"))), "submit")]
#[case::taken_over_then_422(Case::new().taken_over().posted(Err(problem(422, "bad"))), "release")]
#[case::proof_in_the_status(Case::new().mine().refused(Reason::Forbidden, true, 1).restarted(), "release")]
#[case::refusal_without_proof(Case::new().mine().refused(Reason::ServerError, false, 1).restarted(), "intent")]
#[case::proof_withdrawn_by_a_takeover(Case::new().intent("other", 2).refused(Reason::Forbidden, true, 1), "intent")]
#[case::proved_while_its_workspace_is_not_ready(Case::new().mine().view(not_ready()), "release")]
#[case::copied(Case::new().foreign().finalizer(), "release")]
#[case::scribbled(Case::new().finalizer().annotate("run-operator.dev/intent", "{"), "nothing")]
fn a_deletion_releases_at_once_only_a_run_proved_never_created(
    #[case] case: Case,
    #[case] does: &str,
) {
    assert_eq!(case.at(61).deleting().does(), does);
}

/// The same, not deleted: whether it is final, and asked again otherwise.
/// Proves: R9, F-final, F-409
#[rstest]
#[case(problem(403, "no"), Some("Forbidden"))]
#[case(problem(404, "nope"), Some("Refused"))]
#[case(problem(409, "approval_required"), Some("ApprovalConflict"))]
#[case(problem(409, "version_conflict"), Some("VersionConflict"))]
#[case(problem(409, "else"), Some("UnknownConflict"))]
#[case(conflict(), Some("IdempotencyConflict"))]
#[case(hopeless(), Some("ServerError"))]
#[case(bare(403), None)]
#[case(bare(404), None)]
#[case(bare(409), None)]
#[case(lost(), None)]
#[case(unreadable(), None)]
#[case(problem(408, "slow_client"), None)]
#[case(problem(425, "too_early"), None)]
#[case(problem(409, "idempotency_in_progress"), None)]
#[case(problem(429, "slow"), None)]
fn a_lone_first_answer_is_final_or_asked_again(
    #[case] failure: run_operator::decide::failure::Failure,
    #[case] stalled: Option<&str>,
) {
    let case = Case::new().mine().posted(Err(failure));
    assert_eq!(case.stalled().as_deref(), stalled);
    let later = case.at(700);
    assert_eq!(
        later.does(),
        if stalled.is_some() {
            "nothing"
        } else {
            "submit"
        }
    );
    // The same words after a restart.
    if stalled.is_some() {
        let before = later.settled();
        let after = later.settle().restarted();
        assert_eq!(after.settled(), before);
        assert_eq!(after.does(), "nothing");
    }
}

/// Proves: D-proof, F-final
#[rstest]
#[case(problem(403, "no"))]
#[case(conflict())]
#[case(problem(409, "approval_required"))]
fn in_doubt_a_refusal_answers_only_its_own_request(
    #[case] failure: run_operator::decide::failure::Failure,
) {
    for case in [
        Case::new().taken_over(),
        Case::new().mine().posted(Err(lost())),
    ] {
        let case = case.posted(Err(failure.clone()));
        assert_eq!(case.stalled(), None);
        assert_eq!(case.clone().at(1).does(), "nothing");
        assert!(case.clone().at(1).settle().decide().requeue_at.is_some());
        assert_eq!(case.at(5).does(), "submit", "from --poll-min");
    }
}

/// Proves: D-proof
#[test]
fn a_refusal_of_the_pinned_bytes_is_final_even_in_doubt() {
    let case = Case::new().taken_over().posted(Err(problem(422, "bad")));
    assert_eq!(case.stalled().as_deref(), Some("CreateRefused"));
    assert_eq!(case.settled().phase, Some(Phase::Failed));
    assert!(
        case.settled()
            .refusal
            .is_some_and(|r| r.not_created && r.epoch == 2)
    );
}

/// Proves: F-final
#[test]
fn an_unreadable_answer_is_tried_five_times() {
    let mut case = Case::new().mine();
    for _ in 0..4 {
        case = case.posted(Err(unreadable()));
        assert_eq!(case.stalled(), None);
    }
    case = case.posted(Err(unreadable()));
    assert_eq!(case.stalled().as_deref(), Some("ContractViolation"));
    assert_eq!(
        case.at(9999).deleting().does(),
        "submit",
        "a deletion asks again"
    );
}

/// Proves: R12, D-forgotten
#[test]
fn past_the_keys_retention_nothing_is_posted() {
    for case in [
        Case::new().intent("earlier", 1),
        Case::new().mine().posted(Err(lost())),
        Case::new().mine().posted(Err(lost())).view(not_ready()),
    ] {
        let before = case.clone().at(DAY - 1);
        assert_ne!(before.stalled().as_deref(), Some("SubmissionUnknown"));
        let case = case.at(DAY);
        assert_eq!(case.stalled().as_deref(), Some("SubmissionUnknown"));
        assert_eq!(case.does(), "nothing");
        let gone = case.clone().deleting();
        assert_eq!(gone.does(), "nothing");
        assert!(
            gone.settled()
                .conditions
                .iter()
                .any(|c| c.message.contains("Orphan"))
        );
        assert_eq!(case.orphan().does(), "release");
    }
}

#[test]
fn a_wait_for_the_workspace_ends_where_the_key_is_forgotten() {
    let case = Case::new().intent("earlier", 1).view(not_ready()).settle();
    assert_eq!(case.decide().requeue_at, Some(at(DAY)));
}

/// Proves: D-forgotten
#[test]
fn a_takeover_makes_the_key_no_younger() {
    let (intent, ..) = intent_of(&Case::new().intent("earlier", 1).at(DAY - 1));
    assert_eq!((intent.epoch, intent.time), (2, at(0)));
}

/// Proves: D-forgotten
#[test]
fn a_run_proved_never_created_is_resubmitted_past_key_retention() {
    let case = Case::new().mine().at(DAY);
    let (intent, _, clean) = intent_of(&case);
    assert_eq!((intent.epoch, intent.time, clean), (2, at(DAY), true));
}

/// Proves: D-proof
#[rstest]
#[case::proved(Case::new().mine().posted(Err(problem(403, "no"))), true)]
#[case::in_doubt(Case::new().mine().posted(Err(hopeless())), false)]
fn a_retry_withdraws_the_proof_with_a_new_epoch(#[case] case: Case, #[case] proved: bool) {
    let case = case.settle().retry("1").at(10);
    let (intent, _, clean) = intent_of(&case);
    assert_eq!((intent.epoch, clean), (2, proved));
    assert_eq!(intent.retry.as_deref(), Some("1"));
    let case = case.stands(&intent).intent_written(intent, clean);
    assert_eq!(case.does(), "submit");
    // Another process has no proof.
    assert_eq!(case.clone().restarted().deleting().does(), "intent");
    let refused = case.posted(Err(problem(403, "no"))).settle();
    assert_eq!(
        refused.at(11).deleting().does(),
        if proved { "release" } else { "nothing" }
    );
}

/// Proves: D-proof
#[test]
fn a_proof_from_before_a_takeover_is_void_in_the_next_epoch() {
    // Refused once, taken over by another process, and taken back by this one.
    let case = Case::new().mine().posted(Err(problem(403, "no")));
    let intent = case.an_intent("me", 3);
    let case = case.intent("me", 3).intent_written(intent, false);
    let case = case.posted(Err(problem(403, "no"))).at(61);
    assert_eq!(case.clone().deleting().does(), "submit");
    assert_eq!(case.does(), "submit");
    let (intent, _, clean) = intent_of(&Case::new().intent("earlier", 1));
    assert_eq!((intent.epoch, clean), (2, false));
}

/// Proves: P-owner-posts
#[test]
fn an_intent_with_an_unanswered_patch_is_taken_over_before_post() {
    // Epoch 1 was refused, the retry's patch arrived and its answer did not.
    let case = Case::new().mine().posted(Err(hopeless())).settle();
    let mut intent = case.an_intent("me", 2);
    intent.retry = Some("1".into());
    let case = case.stands(&intent).retry("1");
    let (intent, _, clean) = intent_of(&case);
    assert_eq!((intent.epoch, clean), (3, false));
}

/// Its epoch is that of this process's own.
/// Proves: P-owner-posts
#[test]
fn an_intent_that_names_another_owner_is_taken_over_before_post() {
    let case = Case::new().mine();
    let others = case.an_intent("other", 1);
    let (intent, _, clean) = intent_of(&case.stands(&others));
    assert_eq!(
        (intent.owner.as_str(), intent.epoch, clean),
        ("me", 2, false)
    );
}

#[test]
fn an_answer_without_a_run_id_is_no_success() {
    let mut answer = view("running");
    answer.run_id = None;
    let case = Case::new().mine().posted(Ok(answer));
    assert_eq!(case.does(), "nothing");
    assert!(case.decide().requeue_at.is_some());
}

/// Proves: P-intent-before-post
#[test]
fn a_stripped_intent_is_put_back_as_a_takeover() {
    let mut case = Case::new().mine().posted(Err(problem(429, "slow")));
    case.run.metadata.annotations = None;
    case.run.metadata.finalizers = None;
    let (intent, finalizer, clean) = intent_of(&case.at(700));
    assert_eq!((intent.epoch, clean, finalizer), (2, false, true));
}

/// Another process took the intent over and made the run; then a replace took it off.
#[test]
fn a_restored_intent_discards_proofs_from_before_a_takeover() {
    let mut case = Case::new().submitted("running").mine();
    case.run.metadata.annotations = None;
    case.run.metadata.finalizers = None;
    let (intent, _, clean) = intent_of(&case);
    assert_eq!(
        (intent.owner.as_str(), intent.epoch, clean),
        ("me", 2, false)
    );
    let mut mended = case
        .stands(&intent)
        .finalizer()
        .intent_written(intent, clean);
    mended.run.status = None;
    assert_eq!(mended.deleting().does(), "submit");
}

#[test]
fn a_missing_finalizer_alone_withdraws_nothing() {
    let mut case = Case::new().mine().posted(Err(problem(429, "slow"))).at(700);
    case.run.metadata.finalizers = None;
    let (intent, finalizer, clean) = intent_of(&case);
    assert_eq!((intent.epoch, clean, finalizer), (1, true, true));
}

#[test]
fn a_refusal_whose_intent_was_stripped_stands_until_a_retry() {
    let mut case = Case::new()
        .mine()
        .posted(Err(problem(403, "no")))
        .settle()
        .restarted();
    case.run.metadata.annotations = None;
    assert_eq!(case.stalled().as_deref(), Some("Forbidden"));
    assert_eq!(case.does(), "nothing");
    let case = case.annotate(RETRY, "1");
    let (intent, ..) = intent_of(&case);
    assert_eq!(intent.epoch, 2, "the refusal of epoch 1 must not answer it");
}
