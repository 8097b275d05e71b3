//! Namespaces that may submit, and Runs that a Workspace must outlive.

use rstest::rstest;
use run_operator::{
    api::{Phase, Reason, RunStatus},
    decide::{WorkspaceView, claims::needs_workspace},
};

use crate::support::{BASE_URL, Case, at, condition, lost, not_ready, problem, view};

const NOT_ALLOWED: Option<bool> = Some(false);

fn stranger() -> Case {
    Case::new().allowed(NOT_ALLOWED)
}

/// Proves: P-tenancy
#[rstest]
#[case::fresh(stranger())]
#[case::workspace_not_ready(stranger().view(not_ready()))]
#[case::proved(stranger().mine())]
#[case::answered_429(stranger().mine().posted(Err(problem(429, "slow_down"))).at(60))]
#[case::in_doubt(stranger().mine().posted(Err(lost())).at(60))]
#[case::in_doubt_of_another_process(stranger().intent("earlier", 1))]
#[case::in_doubt_of_another_process_and_deleted(stranger().finalizer().intent("earlier", 1).deleting())]
fn a_namespace_that_is_not_allowed_submits_nothing(#[case] case: Case) {
    assert_eq!(case.does(), "nothing");
    assert_eq!(
        case.stalled(),
        Some(Reason::NamespaceNotAllowed.to_string())
    );
    let status = case.settled();
    assert_eq!(status.phase, Some(Phase::Pending));
    let told = status.conditions.iter().find(|c| c.type_ == "Stalled");
    let told = &told.unwrap().message;
    assert!(told.contains("namespaceSelector"), "{told}");
    assert!(!told.contains("Ready"), "it tells of the Workspace: {told}");
}

/// Proves: P-tenancy
#[rstest]
#[case::submitted(stranger().submitted("running"), "refresh")]
#[case::submitted_and_deleted(stranger().submitted("running").deleting().got(Ok(view("running"))), "cancel")]
#[case::never_submitted_and_deleted(stranger().deleting(), "nothing")]
#[case::proved_and_deleted(stranger().finalizer().mine().deleting(), "release")]
#[case::in_doubt_by_this_process_and_deleted(
    stranger().finalizer().mine().posted(Err(lost())).at(60).deleting(), "submit")]
#[case::let_go(stranger().finalizer().intent("earlier", 1).orphan(), "release")]
fn what_is_at_the_service_is_still_mirrored_and_cancelled(#[case] case: Case, #[case] does: &str) {
    assert_eq!(case.does(), does);
}

#[test]
fn with_unknown_labels_nothing_is_shown_or_done() {
    let case = Case::new().allowed(None);
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.settled(), RunStatus::initial());
}

#[test]
fn an_unreadable_workspace_outranks_its_unreadable_selector() {
    let unreadable = WorkspaceView::NotReady {
        reason: Reason::WorkspaceInvalid,
        message: "its fields can't be read".to_owned(),
        since: at(-60),
    };
    let case = Case::new().allowed(None).view(unreadable);
    let ready = condition(&case.settled(), "Ready").unwrap();
    assert_eq!(ready.1, "WorkspaceNotReady");
    assert_eq!(case.does(), "nothing");
}

#[test]
fn a_run_in_doubt_and_not_allowed_stalls_at_key_expiry() {
    let case = stranger().intent("earlier", 1).settle();
    assert_eq!(case.decide().requeue_at, Some(crate::support::at(86_400)));
    let late = case.at(86_400);
    assert_eq!(late.stalled().as_deref(), Some("SubmissionUnknown"));
}

#[test]
fn a_namespace_that_is_allowed_again_submits() {
    let case = stranger().settle();
    assert_eq!(case.does(), "nothing");
    let case = case.allowed(Some(true));
    assert_eq!(case.does(), "intent");
    let submitted = case.mine().posted(Ok(view("queued")));
    assert_eq!(condition(&submitted.settled(), "Stalled"), None);
}

#[test]
fn a_missing_workspace_is_reported_to_every_namespace() {
    let case = stranger().view(WorkspaceView::Missing);
    let ready = condition(&case.settled(), "Ready").unwrap();
    assert_eq!(ready.1, "WorkspaceNotFound");
}

fn ended(phase: Phase) -> Case {
    Case::new()
        .submitted("gone")
        .status(|s| s.phase = Some(phase))
}

/// A Run whose intent keeps an end, and whose status is lost.
fn restored() -> Case {
    let intent = Case::new().an_ended_intent(
        "earlier",
        (Some("run-1"), Phase::Succeeded, Reason::Succeeded),
    );
    Case::new().stands(&intent)
}

fn without_finalizer(mut case: Case) -> Case {
    case.run.metadata.finalizers = None;
    case
}

/// Proves: P-workspace-finalizer
#[rstest]
#[case::fresh(Case::new(), false)]
#[case::pinned(Case::new().intent("earlier", 1), true)]
#[case::submitted(Case::new().submitted("running"), true)]
#[case::refused_for_good(
    Case::new().intent("earlier", 1).refused(Reason::CreateRefused, true, 1), false)]
#[case::refused_without_proof(
    Case::new().intent("earlier", 1).refused(Reason::IdempotencyConflict, false, 1), true)]
#[case::refused_in_an_earlier_epoch(
    Case::new().intent("earlier", 2).refused(Reason::CreateRefused, true, 1), true)]
#[case::a_copy(Case::new().foreign(), false)]
#[case::a_copy_with_a_run_id(Case::new().submitted("running").foreign(), false)]
#[case::stripped(
    { let mut c = Case::new().submitted("running"); c.run.metadata.annotations = None; c }, true)]
#[case::unreadable(Case::new().annotate("run-operator.dev/intent", "{"), true)]
#[case::without_its_finalizer(without_finalizer(Case::new().intent("earlier", 1)), true)]
#[case::let_go_and_its_status_lost(restored(), false)]
#[case::with_an_end_that_somebody_wrote(restored().finalizer(), true)]
#[case::succeeded(ended(Phase::Succeeded), false)]
#[case::cancelled(ended(Phase::Cancelled), false)]
fn a_workspace_waits_for_runs_that_may_exist_at_the_service(
    #[case] case: Case,
    #[case] needs: bool,
) {
    assert_eq!(needs_workspace(&case.run, Some(BASE_URL)), needs);
}

#[test]
fn a_run_that_is_not_found_needs_its_workspace_until_released() {
    let mut case = ended(Phase::Failed).finalizer();
    let status = case.run.status.as_mut().unwrap();
    let finished = serde_json::json!({
        "type": "Finished", "status": "True", "reason": "RunNotFound", "message": "x",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    status.conditions = vec![serde_json::from_value(finished).unwrap()];
    assert!(needs_workspace(&case.run, Some(BASE_URL)));
    case.run.metadata.finalizers = None;
    assert!(!needs_workspace(&case.run, Some(BASE_URL)));
}
