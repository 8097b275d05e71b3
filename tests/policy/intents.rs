//! Intents of this object, of others and of unknown uids; other reasons that hold a submission.

use rstest::rstest;
use run_operator::{
    api::{Intent, Phase, Reason, intent::IntentRecord, status::ResolvedWorkspace},
    decide::WorkspaceView,
};

use crate::support::{Case, UID, at, hopeless, intent_of, lost, not_ready, problem, session, view};

/// Proves: P-intent-before-post
#[test]
fn the_first_intent_pins_workspace_key_and_bytes() {
    let (intent, finalizer, clean) = intent_of(&Case::new().at(5));
    assert_eq!(
        intent,
        Intent {
            time: at(5),
            ..Case::new().an_intent("me", 1)
        }
    );
    assert!(finalizer && clean);
    let text = serde_json::to_string(&intent).expect("JSON");
    assert_eq!(
        IntentRecord::read(Some(&text), UID),
        IntentRecord::Own(Box::new(intent))
    );
}

#[rstest]
#[case(None, IntentRecord::Absent)]
#[case(Some(""), IntentRecord::Unreadable)]
#[case(Some("{"), IntentRecord::Unreadable)]
#[case(
    Some(r#"{"uid":"6f1f0c0e-0000-4000-8000-000000000001","v":9}"#),
    IntentRecord::Unreadable
)]
#[case(Some(r#"{"uid":"another","v":9}"#), IntentRecord::Foreign)]
#[case(Some(r#"{"uid":7}"#), IntentRecord::Unreadable)]
fn an_annotation_is_read_for_what_it_is(
    #[case] text: Option<&str>,
    #[case] expected: IntentRecord,
) {
    assert_eq!(IntentRecord::read(text, UID), expected);
}

/// Reasons that hold a first submission, and the decision for an intent in doubt in the same situation.
/// Proves: S-check-first, P-workspace-check
#[rstest]
#[case::unknown(WorkspaceView::Unknown, "nothing", "nothing", "nothing")]
#[case::missing(WorkspaceView::Missing, "nothing", "nothing", "nothing")]
#[case::not_ready(not_ready(), "nothing", "nothing", "nothing")]
#[case::ready(WorkspaceView::Ready(session(1)), "intent", "intent", "refresh")]
#[case::held(
    { let mut s = session(1); s.submissions_blocked = Some((Reason::WorkspaceDeleting, "going".into())); WorkspaceView::Ready(s) },
    "nothing", "intent", "refresh")]
#[case::other_identity(
    { let mut s = session(1); s.resolved.identity = Some("other".into()); WorkspaceView::Ready(s) },
    "intent", "nothing", "nothing")]
#[case::other_url(
    { let mut s = session(1); s.resolved.base_url = "https://b/api/v1".into(); WorkspaceView::Ready(s) },
    "intent", "nothing", "nothing")]
#[case::recreated_alike(
    { let mut s = session(1); s.resolved.uid = "w2".into(); WorkspaceView::Ready(s) },
    "intent", "intent", "refresh")]
fn a_workspace_decides_what_may_be_done(
    #[case] workspace: WorkspaceView,
    #[case] fresh: &str,
    #[case] in_doubt: &str,
    #[case] submitted: &str,
) {
    assert_eq!(Case::new().view(workspace.clone()).does(), fresh);
    assert_eq!(
        Case::new()
            .intent("earlier", 1)
            .view(workspace.clone())
            .does(),
        in_doubt
    );
    assert_eq!(
        Case::new().submitted("running").view(workspace).does(),
        submitted
    );
}

/// Proves: P-place, X-forged
#[rstest]
#[case::name(|w: &mut ResolvedWorkspace| w.name = "theirs".into())]
#[case::address(|w: &mut ResolvedWorkspace| w.base_url = "http://127.0.0.1:1/api/v1".into())]
fn an_intent_for_another_workspace_than_spec_is_not_followed(
    #[case] change: fn(&mut ResolvedWorkspace),
) {
    let mut intent = Case::new().an_intent("earlier", 1);
    change(&mut intent.workspace);
    let case = Case::new().stands(&intent).finalizer();
    assert_eq!(case.stalled().as_deref(), Some("WorkspaceChanged"));
    assert_eq!(case.does(), "nothing");
}

/// Proves: P-immutable, P-place, X-forged
#[rstest]
#[case::body(|i: &mut Intent| i.sha256 = "0".repeat(64))]
#[case::serializer(|i: &mut Intent| i.serializer = 99)]
#[case::key(|i: &mut Intent| i.key = "theirs/nightly".into())]
fn an_intent_that_the_spec_does_not_give_is_never_posted(#[case] change: fn(&mut Intent)) {
    let mut intent = Case::new().an_intent("earlier", i64::MAX);
    change(&mut intent);
    let case = Case::new().stands(&intent).finalizer();
    assert_eq!(case.stalled().as_deref(), Some("BodyChanged"));
    assert_eq!(case.clone().retry("1").does(), "nothing");
    assert_eq!(case.deleting().does(), "nothing");
}

#[test]
fn an_epoch_can_not_overflow() {
    let case = Case::new().intent("earlier", i64::MAX);
    assert_eq!(intent_of(&case).0.epoch, i64::MAX);
}

/// Proves: P-key-in-use
#[test]
fn a_key_in_use_waits_for_the_other_run_also_on_a_retry() {
    let mut fresh = Case::new();
    fresh.key_holder = Some("elder".into());
    assert_eq!(fresh.stalled().as_deref(), Some("KeyInUse"));
    assert_eq!(fresh.does(), "nothing");
    // That is --poll-max.
    assert_eq!(fresh.clone().settle().decide().requeue_at, Some(at(60)));
    let mut retried = Case::new()
        .mine()
        .posted(Err(problem(403, "no")))
        .settle()
        .retry("1");
    retried.key_holder = Some("elder".into());
    assert_eq!(retried.does(), "nothing");
    let mut retried = retried.settle();
    assert_eq!(retried.stalled().as_deref(), Some("KeyInUse"));
    retried.key_holder = None;
    assert_eq!(retried.does(), "intent", "the retry was not forgotten");
}

#[test]
fn a_blocked_retry_is_kept_until_the_obstacle_is_removed() {
    let mut elsewhere = session(1);
    elsewhere.resolved.identity = Some("other".into());
    let case = Case::new()
        .mine()
        .posted(Err(hopeless()))
        .settle()
        .retry("1");
    let case = case.view(WorkspaceView::Ready(elsewhere)).settle();
    assert_eq!(case.stalled().as_deref(), Some("IdentityChanged"));
    assert_eq!(case.settled().handled_retry, None);
    assert_eq!(case.view(WorkspaceView::Ready(session(2))).does(), "intent");
}

#[test]
fn a_retry_withdrawn_while_it_waited_shows_the_refusal_again() {
    let case = Case::new()
        .mine()
        .posted(Err(problem(403, "no")))
        .settle()
        .restarted();
    let waiting = case.retry("1").view(not_ready()).settle();
    assert_eq!(waiting.stalled(), None);
    let mut case = waiting;
    if let Some(annotations) = &mut case.run.metadata.annotations {
        annotations.remove(crate::support::RETRY);
    }
    assert_eq!(case.stalled().as_deref(), Some("Forbidden"));
    assert!(case.settled().refusal.is_some());
}

/// Suspend holds what has no intent, and nothing else.
/// Proves: P-one-way
#[rstest]
#[case::fresh(Case::new(), "nothing")]
#[case::announced(Case::new().mine(), "submit")]
#[case::announced_and_restarted(Case::new().mine().restarted(), "intent")]
#[case::retrying(Case::new().mine().posted(Err(problem(429, "slow"))).at(700), "submit")]
#[case::submitted(Case::new().submitted("running"), "refresh")]
#[case::copied_and_retried(Case::new().foreign().settle().retry("1"), "nothing")]
#[case::deleted(Case::new().finalizer().deleting(), "release")]
#[case::cancelled(Case::new().spec(|s| s.cancel = Some(true)), "nothing")]
fn suspend_is_ignored_from_the_intent_on(#[case] case: Case, #[case] does: &str) {
    assert_eq!(case.spec(|s| s.suspend = Some(true)).does(), does);
}

/// Proves: P-one-way
#[test]
fn a_suspend_after_the_submission_is_shown_as_too_late() {
    for case in [
        Case::new().mine().posted(Err(lost())),
        Case::new().mine().view(not_ready()),
    ] {
        let status = case.spec(|s| s.suspend = Some(true)).settled();
        assert!(
            status
                .conditions
                .iter()
                .any(|c| c.message.contains("spec.suspend is ignored"))
        );
    }
}

/// `cancel: true`, in every situation.
/// Proves: D-never-created
#[rstest]
#[case::fresh(Case::new(), "nothing", Phase::Cancelled)]
#[case::announced(Case::new().mine(), "release", Phase::Cancelled)]
#[case::proved(Case::new().mine().posted(Err(problem(403, "no"))), "release", Phase::Cancelled)]
#[case::proved_before_a_restart(
    Case::new().mine().refused(Reason::Forbidden, true, 1).restarted(), "release", Phase::Cancelled)]
#[case::in_doubt(Case::new().mine().posted(Err(lost())).at(700), "submit", Phase::Pending)]
#[case::restarted(Case::new().mine().restarted(), "intent", Phase::Pending)]
#[case::hopeless(Case::new().mine().posted(Err(hopeless())), "nothing", Phase::Pending)]
#[case::submitted(Case::new().submitted("running"), "cancel", Phase::Cancelling)]
#[case::ended(Case::new().submitted("x").got(Ok(view("done"))).settle(), "release", Phase::Succeeded)]
#[case::copied(Case::new().foreign().finalizer(), "release", Phase::Cancelled)]
#[case::without_workspace(Case::new().view(WorkspaceView::Missing), "nothing", Phase::Cancelled)]
fn cancel_makes_no_call_for_what_is_proved_unsubmitted(
    #[case] case: Case,
    #[case] does: &str,
    #[case] phase: Phase,
) {
    let case = case.spec(|s| s.cancel = Some(true));
    assert_eq!(case.settled().phase, Some(phase));
    assert_eq!(case.does(), does);
}

/// Proves: P-foreign-intent, I-status-policy
#[test]
fn a_copied_manifest_is_submitted_only_by_a_new_retry() {
    // The retry annotation came along with the copy.
    let case = Case::new().foreign().retry("old").settle();
    assert_eq!(case.stalled().as_deref(), Some("Restored"));
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.clone().restarted().does(), "nothing");
    let case = case.retry("new");
    let (intent, finalizer, clean) = intent_of(&case);
    assert_eq!((intent.uid.as_str(), intent.key.as_str()), (UID, UID));
    assert!(finalizer && clean);
}

#[test]
fn a_copy_that_waits_for_its_workspace_keeps_its_retry() {
    let case = Case::new()
        .foreign()
        .settle()
        .retry("new")
        .view(not_ready())
        .settle();
    assert_eq!(case.view(WorkspaceView::Ready(session(1))).does(), "intent");
}

/// Proves: P-foreign-intent
#[test]
fn the_run_id_of_a_restored_status_is_another_objects() {
    let case = Case::new().submitted("running").foreign().settle();
    assert_eq!(case.stalled().as_deref(), Some("Restored"));
    for case in [case.clone(), case.clone().retry("1")] {
        assert_eq!(case.does(), "nothing", "neither mirrored nor submitted");
        assert_eq!(case.deleting().does(), "release", "nor cancelled");
    }
}

#[test]
fn a_refusal_in_a_restored_status_does_not_apply_to_the_object() {
    let case = Case::new()
        .foreign()
        .refused(Reason::Forbidden, true, 1)
        .settle()
        .retry("1");
    assert_eq!(intent_of(&case).0.epoch, 2);
}
