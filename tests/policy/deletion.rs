//! The deletion table of the design, except for unknown outcomes, which are in doubt.rs.

use rstest::rstest;
use run_operator::{
    api::{EventReason, Phase, Reason},
    decide::{EventDraft, WorkspaceView},
};

use crate::support::{
    Case, UID, at, condition, lost, not_ready, problem, session, unreadable, view,
};

fn cancelled(case: Case) -> Case {
    case.cancelled(Ok(view("running")))
}

fn refused(case: Case, status: u16, code: &str) -> Case {
    case.cancelled(Err(problem(status, code)))
}

/// A deletion whose run was read just before.
fn known(state: &str) -> Case {
    Case::new().submitted(state).deleting().got(Ok(view(state)))
}

/// Proves: P-orphan-policy, D-never-created, D-in-doubt, D-cancel, D-not-found
#[rstest]
#[case::known(known("running"), "cancel")]
#[case::not_yet_read(Case::new().submitted("running").deleting(), "cancel")]
#[case::accepted(cancelled(known("running")).at(1), "refresh")]
#[case::cancelling(cancelled(known("running")).at(1).got(Ok(view("stopping"))).at(2), "nothing")]
#[case::plainly_active(cancelled(known("running")).at(1).got(Ok(view("running"))).at(9), "cancel")]
#[case::looked_at_in_the_same_instant(cancelled(known("running")).got(Ok(view("running"))).at(9), "cancel")]
#[case::refused(refused(known("running"), 403, "no").at(1), "refresh")]
#[case::refused_and_read(refused(known("running"), 403, "no").at(1).got(Ok(view("running"))).at(1), "nothing")]
#[case::refused_from_poll_min(refused(known("running"), 403, "no").at(1).got(Ok(view("running"))).at(3), "cancel")]
#[case::no_answer_just_now(known("running").cancelled(Err(lost())), "nothing")]
#[case::no_answer(known("running").cancelled(Err(lost())).at(1), "cancel")]
#[case::looked_at_before_alone(cancelled(known("running")).got(Err(lost())).at(90), "refresh")]
#[case::looked_at_since(cancelled(known("running")).got(Ok(view("running"))).got(Err(lost())).at(90), "cancel")]
#[case::seen_ended(cancelled(known("running")).at(1).got(Ok(view("cancelled"))), "release")]
#[case::seen_succeeded(cancelled(known("running")).at(1).got(Ok(view("succeeded"))), "release")]
#[case::answered_as_ended(known("running").cancelled(Ok(view("cancelled"))).at(1), "refresh")]
#[case::denied_by_cancel_alone(refused(known("running"), 404, "run_not_found").at(1), "refresh")]
#[case::denied_by_get_alone(
    Case::new().submitted("running").deleting().got(Err(problem(404, "run_not_found"))), "cancel")]
#[case::denied_by_a_get_before_the_cancel(
    refused(Case::new().submitted("running").deleting().got(Err(problem(404, "run_not_found"))).at(1),
        404, "run_not_found").at(2), "refresh")]
#[case::denied_by_both(
    refused(known("running"), 404, "run_not_found").at(1).got(Err(problem(404, "run_not_found"))), "release")]
#[case::denied_by_get_and_refused_otherwise(
    refused(known("running"), 403, "no").at(1).got(Err(problem(404, "run_not_found"))), "nothing")]
#[case::workspace_not_ready(known("running").view(not_ready()), "nothing")]
#[case::workspace_unknown(known("running").view(WorkspaceView::Unknown), "nothing")]
#[case::orphan(Case::new().submitted("running").orphan(), "release")]
#[case::orphan_without_workspace(
    Case::new().submitted("running").orphan().view(WorkspaceView::Missing), "release")]
#[case::orphan_in_doubt(Case::new().intent("earlier", 1).orphan(), "release")]
#[case::orphan_with_an_unreadable_intent(
    Case::new().finalizer().annotate("run-operator.dev/intent", "{").orphan(), "release")]
#[case::let_go_already(
    { let mut c = Case::new().submitted("running").orphan(); c.run.metadata.finalizers = None; c }, "nothing")]
fn a_deletion_goes_by_what_is_known(#[case] case: Case, #[case] does: &str) {
    assert_eq!(case.does(), does);
}

/// Proves: D-cancelling
#[rstest]
#[case(299, "nothing")]
#[case(301, "release")]
fn release_is_5_minutes_after_the_later_of_deletion_and_cancel(
    #[case] seen_at: i64,
    #[case] does: &str,
) {
    let case = cancelled(known("running"))
        .at(seen_at)
        .got(Ok(view("cancelling")));
    assert_eq!(case.does(), does);
    // Another 301 seconds on, but not read since.
    let unread = cancelled(known("running"))
        .at(9)
        .got(Ok(view("cancelling")))
        .at(310);
    assert_eq!(unread.does(), "refresh");
    // A cancellation of long ago: the deletion is the later.
    let deleted_late = cancelled(Case::new().submitted("running"))
        .at(1000)
        .deleting();
    let case = deleted_late.at(1000 + seen_at).got(Ok(view("cancelling")));
    assert_eq!(case.does(), does);
}

/// A cancellation that was accepted and had no effect uses up no time of the next one.
/// Proves: D-cancelling
#[rstest]
#[case::by_the_process_that_cancelled(false)]
#[case::by_the_one_after_it(true)]
fn each_accepted_cancel_restarts_the_five_minutes(#[case] restarted: bool) {
    let without_effect = cancelled(known("running")).settle();
    let again = cancelled(without_effect.at(310).got(Ok(view("running")))).settle();
    let case = if restarted { again.restarted() } else { again };
    let seen = |seconds: i64| case.clone().at(seconds).got(Ok(view("cancelling")));
    assert_eq!(seen(311).does(), "nothing");
    assert_eq!(seen(609).does(), "nothing");
    assert_eq!(seen(611).does(), "release");
}

/// An accepted cancellation on its own releases nothing, however old it is.
/// Proves: D-cancelling
#[rstest]
#[case("running")]
#[case("weird")]
fn a_run_not_seen_cancelling_is_cancelled_again_not_released(#[case] state: &str) {
    let case = cancelled(known("running")).at(9).got(Ok(view(state)));
    assert_eq!(case.clone().at(301).got(Ok(view(state))).does(), "cancel");
    let vanished = case.at(301).got(Ok(view(state))).vanish();
    assert_eq!(vanished.does(), "cancel");
}

#[test]
fn a_purged_run_last_seen_cancelling_is_cancelled_once_more() {
    let case = cancelled(known("running"))
        .at(9)
        .got(Ok(view("cancelling")));
    let case = case.at(90).got(Err(problem(404, "run_not_found"))).at(91);
    assert_eq!(case.does(), "cancel");
    let case = refused(case, 404, "run_not_found").at(151);
    assert_eq!(case.does(), "refresh");
    assert_eq!(
        case.got(Err(problem(404, "run_not_found"))).does(),
        "release"
    );
}

/// Proves: P-none-left, P-orphan-policy
#[test]
fn an_orphan_is_named_with_key_and_run_once() {
    let case = Case::new().submitted("running").orphan();
    let event = EventDraft::orphaned(Some(UID), Some("run-1"));
    assert_eq!(case.decide().events, [event]);
    let mut released = case;
    released.run.metadata.finalizers = None;
    assert_eq!(released.decide().events, []);
}

/// Proves: P-orphan-policy
#[test]
fn a_run_seen_to_have_ended_is_not_shown_as_active() {
    let case = Case::new().submitted("running").got(Ok(view("succeeded")));
    let decision = case.orphan().decide();
    assert_eq!(decision.events, []);
    assert_eq!(crate::support::name(decision.effect.as_ref()), "release");
}

/// Proves: P-orphan-policy
#[test]
fn an_orphan_in_doubt_is_named_with_its_key() {
    let case = Case::new().mine().posted(Err(lost())).orphan();
    let event = EventDraft::orphaned(Some(UID), None);
    assert_eq!(case.decide().events, [event]);
    assert_eq!(case.does(), "release");
}

/// No run continues that a person would have to handle.
/// Proves: P-orphan-policy
#[rstest]
#[case::never_submitted(Case::new().finalizer())]
#[case::refused(Case::new().mine().posted(Err(problem(422, "bad_image"))).settle())]
#[case::restored(Case::new().foreign().finalizer())]
#[case::ended(Case::new().submitted("running").got(Ok(view("succeeded"))).settle())]
#[case::ended_and_its_intent_was_replaced_since(
    Case::new().submitted("running").got(Ok(view("succeeded"))).settle().foreign())]
fn an_orphan_without_a_run_is_released_without_an_event(#[case] case: Case) {
    for case in [case.clone(), case.restarted()] {
        let case = case.orphan();
        let events = case.decide().events;
        let orphaned = events.iter().find(|e| e.reason == EventReason::Orphaned);
        assert_eq!(orphaned, None);
        assert_eq!(case.does(), "release");
    }
}

/// Proves: D-never-created
#[test]
fn a_deleted_finished_run_is_released_without_a_write_or_a_call() {
    for state in ["succeeded", "failed", "cancelled"] {
        let case = Case::new()
            .submitted("running")
            .got(Ok(view(state)))
            .settle();
        for view in [WorkspaceView::Missing, WorkspaceView::Ready(session(1))] {
            let decision = case.clone().restarted().view(view).deleting().decide();
            assert_eq!(decision.status, None);
            assert_eq!(crate::support::name(decision.effect.as_ref()), "release");
        }
    }
}

/// Proves: P-run-id-at-once
#[test]
fn a_second_run_id_stalls_without_a_cancel_and_orphan_releases() {
    let mut other = view("running");
    other.run_id = Some("run-2".into());
    // Before the create is answered, another runID is in the status.
    let case = Case::new().mine().posted(Ok(other)).submitted("running");
    assert_eq!(case.stalled().as_deref(), Some("RunIDConflict"));
    assert_eq!(case.settled().run_id.as_deref(), Some("run-1"));
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.clone().deleting().does(), "nothing");
    assert_eq!(case.clone().orphan().does(), "release");
    let vanished = case.vanish();
    assert_eq!(vanished.does(), "release");
}

/// Proves: P-run-id-at-once
#[test]
fn an_answer_about_another_run_is_shown_and_the_call_repeated() {
    let read = Case::new().submitted("running").got(Err(unreadable()));
    let shown = ("False".to_owned(), Reason::ContractViolation.to_string());
    assert_eq!(condition(&read.settled(), "Synced"), Some(shown));
    assert_eq!(read.at(3).does(), "refresh");
    let cancelled = known("running").cancelled(Err(unreadable()));
    assert_eq!(cancelled.at(3).does(), "cancel");
}

/// Proves: F-404
#[test]
fn three_404s_a_minute_apart_fail_a_run_and_keep_its_finalizer() {
    let not_found = || Err(problem(404, "run_not_found"));
    let mut case = Case::new().submitted("running").got(not_found());
    for n in 1..20 {
        case = case.at(n).got(not_found());
    }
    assert_eq!(
        case.tracked.memory.not_found.count, 1,
        "within a minute they count once"
    );
    let case = case.at(60).got(not_found()).at(61);
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.settled().phase, Some(Phase::Active));
    let healed = case.clone().at(120).got(Ok(view("running")));
    assert_eq!(healed.tracked.memory.not_found.count, 0);
    let case = case.at(120).got(not_found()).settle();
    assert_eq!(case.settled().phase, Some(Phase::Failed));
    assert_eq!(case.does(), "nothing", "the finalizer stays");
    assert_eq!(case.at(999).restarted().deleting().does(), "cancel");
}

/// Proves: F-404
#[test]
fn a_404_with_another_code_is_no_proof_of_absence() {
    let case = (0..5).fold(Case::new().submitted("running"), |case, n| {
        case.at(100 * n).got(Err(problem(404, "no_such_route")))
    });
    assert_eq!(case.settled().phase, Some(Phase::Active));
    assert_eq!(case.tracked.memory.not_found.count, 0);
}

#[test]
fn a_lost_run_found_ended_at_its_deletion_is_released() {
    let mut case = Case::new().submitted("running").deleting();
    case = case.got(Ok(view("succeeded")));
    assert_eq!(case.does(), "release");
}

#[test]
fn a_ttl_deletes_no_object_that_is_being_deleted() {
    let case = Case::new()
        .spec(|s| s.ttl_seconds_after_finished = Some(0))
        .submitted("running")
        .got(Ok(view("succeeded")))
        .settle();
    let mut case = case.at(5);
    case.run.metadata.finalizers = None;
    assert_eq!(case.does(), "delete");
    assert_eq!(case.deleting().does(), "nothing");
}

/// Proves: D-forgotten
#[test]
fn a_deletion_without_its_workspace_explains_what_to_do() {
    let case = Case::new()
        .intent("earlier", 1)
        .view(WorkspaceView::Missing)
        .deleting();
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.stalled(), Some(Reason::WorkspaceNotFound.to_string()));
    for case in [
        case,
        Case::new()
            .submitted("running")
            .view(WorkspaceView::Missing)
            .deleting(),
        Case::new()
            .intent("earlier", 1)
            .view(not_ready())
            .deleting(),
        Case::new().mine().posted(Err(lost())).deleting(),
    ] {
        let status = case.settled();
        assert!(
            status
                .conditions
                .iter()
                .any(|c| c.message.contains("Orphan")),
            "{status:#?}"
        );
    }
}

#[test]
fn a_refused_token_at_a_deletion_waits_for_the_next_session() {
    let case = known("running").cancelled(Err(problem(401, "expired")));
    assert_eq!(case.clone().at(900).does(), "nothing");
    let case = case.at(900).view(WorkspaceView::Ready(session(2)));
    assert_eq!(case.does(), "cancel");
    assert_eq!(case.now, at(900));
}
