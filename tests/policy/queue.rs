//! Runs that wait for a slot of their Workspace: what they show, and which of them could be submitted.

use rstest::rstest;
use run_operator::{
    api::{Phase, WorkspaceRef, WorkspaceSpec, workspace::RunLimits},
    decide::{Choice, WorkspaceView, claims::holds_slot, queue::Claim},
};

use crate::support::{Case, condition, lost, not_ready, problem, view};

/// `needs_slot` as it is while it has none of the slots.
fn queued(case: Case, all: Option<usize>, per_namespace: Option<usize>) -> Case {
    Case {
        needs_slot: Some(RunLimits { all, per_namespace }),
        ..case
    }
}

fn full(case: Case) -> Case {
    queued(case, Some(10), None)
}

fn message(case: &Case) -> String {
    let status = case.settled();
    let ready = status.conditions.into_iter().find(|c| c.type_ == "Ready");
    let ready = ready.unwrap();
    assert_eq!(ready.reason, "Queued");
    ready.message
}

/// Proves: P-slots
#[test]
fn a_run_without_a_slot_shows_that_it_waits_and_goes_on_when_it_has_one() {
    let case = full(Case::new()).settle();
    assert_eq!((case.does(), case.decide().requeue_at), ("nothing", None));
    let holds = |kind| condition(&case.settled(), kind).map(|c| c.0);
    assert_eq!(holds("Reconciling").as_deref(), Some("True"));
    assert_eq!(
        (holds("Stalled"), case.settled().phase),
        (None, Some(Phase::Pending))
    );
    assert_eq!(
        message(&case),
        "Waiting for other Runs of the Workspace default in namespace team to end: as many are active as it allows: \
         10 in all (spec.maxActiveRuns). This Run is submitted automatically, in the order of priority and age."
    );
    let has = Case {
        needs_slot: None,
        ..case
    };
    assert_eq!(has.does(), "intent");
}

/// While the rule chooses its Workspace, the choice may change.
/// Proves: P-slots
#[test]
fn the_status_names_the_workspace_for_which_it_waits() {
    let own = full(Case::new()).settle();
    let named = |case: &Case| case.settled().queued_for.map(|workspace| workspace.name);
    assert_eq!(named(&own).as_deref(), Some("default"));
    let mut moved = own.clone();
    moved.by_rule = Choice::One(WorkspaceRef::shared("shared".to_owned()));
    assert_eq!(named(&moved).as_deref(), Some("shared"));
    assert!(message(&moved).contains("ClusterWorkspace shared"));
    assert_eq!(named(&own.submitted("running")), None);
}

#[rstest]
#[case::held(Some(0), None, "spec.maxActiveRuns there is 0")]
#[case::shared(
    Some(10),
    Some(4),
    "10 in all (spec.maxActiveRuns), 4 of a namespace (spec.maxActiveRunsPerNamespace)"
)]
#[case::by_namespace(None, Some(4), ": 4 of a namespace")]
fn the_message_has_the_limits(
    #[case] all: Option<usize>,
    #[case] per_namespace: Option<usize>,
    #[case] says: &str,
) {
    let message = message(&queued(Case::new(), all, per_namespace));
    assert!(message.contains(says), "{message}");
}

fn forbidden() -> Case {
    Case::new().mine().posted(Err(problem(403, "no"))).settle()
}

/// Only Runs that could be submitted stand in the queue, as far as their own state goes.
/// Proves: P-slots
#[rstest]
#[case::fresh(Case::new(), true)]
#[case::workspace_not_known(Case::new().view(WorkspaceView::Unknown), true)]
#[case::workspace_not_ready(Case::new().view(not_ready()), true)]
#[case::workspace_missing(Case::new().view(WorkspaceView::Missing), false)]
#[case::suspended(Case::new().spec(|s| s.suspend = Some(true)), false)]
#[case::cancelled(Case::new().spec(|s| s.cancel = Some(true)), false)]
#[case::deleted(Case::new().finalizer().deleting(), false)]
#[case::not_allowed(Case::new().allowed(Some(false)), false)]
#[case::against_the_rules(
    Case::new().rules(|r: &mut WorkspaceSpec| r.allowed_providers = Some(Vec::new())), false)]
#[case::key_held(Case { key_holder: Some("elder".into()), ..Case::new() }, false)]
#[case::refused(forbidden(), false)]
#[case::refused_and_retried(forbidden().retry("1"), true)]
fn a_run_stands_in_the_queue(#[case] case: Case, #[case] stands: bool) {
    assert!(!holds_slot(&case.run));
    assert_eq!(full(case).decide().wants_slot, stands);
}

/// Proves: P-slots
#[rstest]
#[case::announced(Case::new().mine(), "submit")]
#[case::announced_by_an_earlier_process(Case::new().intent("earlier", 1), "intent")]
#[case::in_doubt(Case::new().mine().posted(Err(lost())).at(60), "submit")]
#[case::submitted(Case::new().submitted("running"), "refresh")]
#[case::deleted(Case::new().submitted("running").got(Ok(view("running"))).deleting(), "cancel")]
fn a_run_that_may_have_a_run_has_a_slot_and_waits_for_none(#[case] case: Case, #[case] does: &str) {
    assert!(holds_slot(&case.run));
    assert_eq!(full(case).does(), does);
}

/// It delays no Run behind it meanwhile.
/// Proves: P-slots, P-refused-writes
#[test]
fn a_run_whose_intent_is_refused_leaves_the_queue_until_the_next_attempt() {
    let refused = Case::new().write_refused("no").settle();
    assert!(!full(refused.clone()).decide().wants_slot);
    assert!(full(refused.at(60)).decide().wants_slot);
}

/// Proves: P-slots, D-stripped
#[rstest]
#[case::in_doubt(Case::new().mine().posted(Err(lost())), Claim::Holds)]
#[case::proved(Case::new().mine().posted(Err(problem(403, "no"))), Claim::Nothing)]
fn an_edit_that_removes_an_intent_frees_no_slot(#[case] case: Case, #[case] claim: Claim) {
    let mut case = full(case.settle());
    case.run.metadata.annotations = None;
    case.reads_object();
    let turn = case.next();
    assert_eq!(case.tracked.claim(&turn), claim);
}

/// Proves: P-slots
#[test]
fn a_changed_limit_costs_a_queued_run_no_write() {
    let shown = full(Case::new()).settle();
    let status = shown.run.status.clone();
    assert_eq!(queued(shown, Some(3), None).settle().run.status, status);
}
