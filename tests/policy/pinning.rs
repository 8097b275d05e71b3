//! A Run is served at the place that it is pinned to, and nowhere else: every state of a Run against
//! every change of its Workspace.

use rstest::rstest;
use run_operator::{
    api::{Intent, Phase, Reason, WorkspaceKind, status::ResolvedWorkspace},
    decide::{Follow, WorkspaceView, elsewhere},
};

use crate::support::{
    Case, at, bare, condition, hopeless, intent_of, lost, not_ready, place, session, view,
};

/// A later session of another place.
fn moved(change: impl FnOnce(&mut ResolvedWorkspace)) -> WorkspaceView {
    let mut session = session(2);
    change(&mut session.resolved);
    WorkspaceView::Ready(session)
}

fn other_identity() -> WorkspaceView {
    moved(|w| w.identity = Some("ws-other".into()))
}

fn other_url() -> WorkspaceView {
    moved(|w| w.base_url = "https://other.example.com/api/v1".into())
}

/// The difference, if there is one.
/// Proves: P-place
#[rstest]
#[case::kind(|w: &mut ResolvedWorkspace| w.kind = WorkspaceKind::ClusterWorkspace, Some(Reason::WorkspaceChanged))]
#[case::name(|w: &mut ResolvedWorkspace| w.name = "other".into(), Some(Reason::WorkspaceChanged))]
#[case::base_url(|w: &mut ResolvedWorkspace| w.base_url += "/v2", Some(Reason::WorkspaceChanged))]
#[case::identity(|w: &mut ResolvedWorkspace| w.identity = Some("ws-other".into()), Some(Reason::IdentityChanged))]
#[case::no_identity(|w: &mut ResolvedWorkspace| w.identity = None, Some(Reason::IdentityChanged))]
#[case::created_anew(|w: &mut ResolvedWorkspace| w.uid = "w2".into(), None)]
fn a_pin_covers_workspace_kind_name_base_url_and_identity(
    #[case] change: fn(&mut ResolvedWorkspace),
    #[case] differs: Option<Reason>,
) {
    let view = moved(change);
    let now = view.place().expect("a session's place");
    assert_eq!(elsewhere(&place(), now), differs);
    assert_eq!(view.serves(&place()), differs.is_none());
}

#[test]
fn without_a_verified_token_no_place_is_served() {
    for view in [WorkspaceView::Unknown, WorkspaceView::Missing, not_ready()] {
        assert!(view.place().is_none() && !view.serves(&place()), "{view:?}");
    }
}

fn in_doubt() -> Case {
    Case::new().mine().posted(Err(lost())).at(700)
}

fn active() -> Case {
    Case::new().submitted("running").got(Ok(view("running")))
}

/// The Ready condition: reason and message.
fn ready(case: &Case) -> (String, String) {
    let status = case.settled();
    let ready = status.conditions.iter().find(|c| c.type_ == "Ready");
    let ready = ready.expect("a Ready condition");
    (ready.reason.clone(), ready.message.clone())
}

/// A Run's decision at its own place, and none at any other: phase, and the reason of Ready.
/// Proves: P-place
#[rstest]
#[case::announced(Case::new().mine(), "submit", Phase::Pending, true)]
#[case::announced_by_an_earlier_process(Case::new().mine().restarted(), "intent", Phase::Pending, true)]
#[case::in_doubt(in_doubt(), "submit", Phase::Pending, true)]
#[case::in_doubt_and_restarted(in_doubt().restarted(), "intent", Phase::Pending, true)]
#[case::in_doubt_and_cancelled(in_doubt().spec(|s| s.cancel = Some(true)), "submit", Phase::Pending, true)]
#[case::in_doubt_and_deleted(in_doubt().deleting(), "submit", Phase::Pending, true)]
#[case::in_doubt_deleted_and_restarted(in_doubt().deleting().restarted(), "intent", Phase::Pending, true)]
#[case::retried(Case::new().mine().posted(Err(hopeless())).settle().retry("1"), "intent", Phase::Pending, true)]
#[case::active(active().at(700), "refresh", Phase::Active, false)]
#[case::active_and_restarted(active().restarted(), "refresh", Phase::Active, false)]
#[case::asked_to_cancel(active().spec(|s| s.cancel = Some(true)), "cancel", Phase::Cancelling, true)]
#[case::past_its_deadline(
    active().spec(|s| s.active_deadline_seconds = Some(5)).at(10), "cancel", Phase::Cancelling, true)]
#[case::deleted(active().deleting(), "cancel", Phase::Cancelling, true)]
#[case::deleted_and_restarted(active().deleting().restarted(), "cancel", Phase::Cancelling, true)]
fn a_run_is_called_only_where_it_is_pinned(
    #[case] case: Case,
    #[case] does: &str,
    #[case] phase: Phase,
    #[case] shown: bool,
) {
    for (elsewhere, reason) in [
        (other_identity(), "IdentityChanged"),
        (moved(|w| w.identity = None), "IdentityChanged"),
        (other_url(), "WorkspaceChanged"),
    ] {
        let held = case.clone().view(elsewhere).settle();
        assert_eq!(held.does(), "nothing");
        assert_ne!(held.decide().follow, Follow::Open);
        assert_eq!(held.settled().phase, Some(phase));
        if shown {
            assert_eq!(ready(&held).0, reason);
        } else {
            let synced = condition(&held.settled(), "Synced").expect("Synced");
            assert_eq!(synced, ("False".into(), reason.into()));
        }
        let back = held.view(WorkspaceView::Ready(session(3)));
        assert_eq!(back.does(), does, "after {reason}");
    }
    let recreated = moved(|w| w.uid = "w2".into());
    assert_eq!(case.view(recreated).does(), does, "re-created alike");
}

#[rstest]
#[case::in_doubt(in_doubt())]
#[case::active(active())]
fn a_deletion_pinned_elsewhere_explains_how_to_resume_or_orphan(#[case] case: Case) {
    let case = case.deleting().view(other_identity()).settle();
    let (reason, message) = ready(&case);
    assert_eq!(reason, "IdentityChanged");
    for words in [
        "pinned to the service's workspace ws-123",
        "acts for ws-other",
        "Put a token of ws-123 into the Secret",
        "deletionPolicy: Orphan",
    ] {
        assert!(message.contains(words), "{words:?} is not in {message:?}");
    }
    let orphaned = case.spec(|s| {
        s.deletion_policy = Some(run_operator::api::run::DeletionPolicy::Orphan);
    });
    assert_eq!(orphaned.does(), "release");
}

#[test]
fn a_cancel_that_cannot_be_sent_is_not_reported_as_in_progress() {
    for elsewhere in [other_identity(), other_url(), not_ready()] {
        let (_, message) = ready(&active().deleting().view(elsewhere));
        assert!(
            message.starts_with("The run is not cancelled yet."),
            "{message}"
        );
    }
}

#[test]
fn only_a_requested_cancel_that_cannot_be_sent_is_waiting() {
    assert_eq!(ready(&active().view(not_ready())).0, "Active");
    let unread = (0..3).fold(active().deleting(), |c, _| c.got(Err(bare(502))));
    assert_eq!(ready(&unread).0, "Cancelling");
}

#[test]
fn another_base_url_is_named_with_the_one_that_it_was() {
    let (_, message) = ready(&in_doubt().view(other_url()));
    for words in [
        "https://runs.example.com",
        "https://other.example.com",
        "--base-url",
    ] {
        assert!(message.contains(words), "{words:?} is not in {message:?}");
    }
}

#[test]
fn a_run_without_an_intent_is_pinned_to_the_current_identity() {
    let (intent, ..) = intent_of(&Case::new().view(other_identity()));
    assert_eq!(intent.workspace.identity.as_deref(), Some("ws-other"));
}

#[test]
fn a_run_proved_never_created_can_be_retried_at_a_new_identity() {
    let case = Case::new().mine().view(other_identity()).settle();
    assert_eq!(case.does(), "nothing");
    assert!(ready(&case).1.contains("No run was made yet"));
    assert_eq!(case.retry("1").does(), "intent");
    let doubted = in_doubt().view(other_identity()).settle();
    assert!(!ready(&doubted).1.contains("No run was made yet"));
    assert_eq!(doubted.retry("1").does(), "nothing");
}

#[test]
fn a_run_pinned_without_an_identity_is_bound_to_its_base_url() {
    let mut intent = Case::new().an_intent("earlier", 1);
    intent.workspace.identity = None;
    let case = Case::new().stands(&intent).finalizer();
    assert_eq!(case.clone().view(other_identity()).does(), "intent");
    assert_eq!(case.view(other_url()).does(), "nothing");
}

#[test]
fn a_run_in_doubt_elsewhere_stalls_when_key_retention_ends() {
    let case = in_doubt().view(other_identity()).settle();
    let again = case.decide().requeue_at.expect("a look");
    assert_eq!(again, at(86_400));
    assert_eq!(
        case.at(86_400).stalled().as_deref(),
        Some("SubmissionUnknown")
    );
}

/// An edit of the intent can make a Run wait, never send it elsewhere.
/// Proves: P-place
#[rstest]
#[case::to_where_the_token_acts(Some("ws-other"))]
#[case::to_nobody(None)]
fn an_edited_intent_is_no_way_to_another_place(#[case] identity: Option<&str>) {
    let edit = |intent: &mut Intent| intent.workspace.identity = identity.map(str::to_owned);
    let mut intent = Case::new().an_intent("me", 1);
    edit(&mut intent);
    let case = in_doubt().stands(&intent).view(other_identity());
    assert_eq!(case.stalled().as_deref(), Some("IdentityChanged"));
    assert_eq!(case.does(), "nothing");
    // At the service the status determines the place: it can't be changed.
    let mut intent = Case::new().an_intent("earlier", 1);
    edit(&mut intent);
    let submitted = active().stands(&intent).deleting();
    assert_eq!(submitted.clone().view(other_identity()).does(), "nothing");
    assert_eq!(submitted.does(), "cancel");
}

#[rstest]
#[case::of_the_place(|i: &mut Intent| i.workspace.identity = Some("ws-other".into()))]
#[case::of_the_place_and_the_epoch(|i: &mut Intent| {
    i.workspace.identity = Some("ws-other".into());
    i.epoch = 7;
})]
fn an_edit_while_the_outcome_is_unknown_sends_no_post_elsewhere(#[case] edit: fn(&mut Intent)) {
    let mut intent = Case::new().an_intent("me", 1);
    edit(&mut intent);
    let case = in_doubt().stands(&intent).view(other_identity());
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.stalled().as_deref(), Some("IdentityChanged"));
    // Nor does one between the answer and its first write.
    let answered = Case::new().mine().posted(Ok(view("running")));
    let status = answered.stands(&intent).settled();
    assert_eq!(status.workspace, Some(place()));
}

#[rstest]
#[case::alone(1)]
#[case::with_the_epoch(7)]
fn an_edit_of_the_intents_time_makes_no_key_younger(#[case] epoch: i64) {
    let mut intent = Case::new().an_intent("me", epoch);
    intent.time = at(86_000);
    let case = in_doubt().stands(&intent).at(86_400);
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.stalled().as_deref(), Some("SubmissionUnknown"));
}

/// The service may have seen the key earlier than this process knows.
#[test]
fn an_edit_of_the_intents_time_may_make_its_key_older() {
    let mut intent = Case::new().an_intent("me", 1);
    intent.time = at(-86_400);
    let case = in_doubt().stands(&intent);
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.stalled().as_deref(), Some("SubmissionUnknown"));
}

/// A runID with neither Workspace nor intent: someone else wrote it.
/// Proves: X-forged
#[test]
fn a_run_id_without_a_pin_causes_no_call_and_can_be_deleted() {
    let forged = Case::new().finalizer().status(|s| {
        s.phase = Some(Phase::Active);
        s.run_id = Some("somebody-s".into());
    });
    assert_eq!(forged.does(), "nothing");
    assert_eq!(forged.stalled().as_deref(), Some("SubmissionUnknown"));
    assert_eq!(forged.clone().deleting().does(), "release");
    let vanished = forged.vanish();
    assert_eq!(vanished.does(), "release");
}

#[test]
fn a_deadline_is_noticed_in_time_where_no_call_can_be_made() {
    for elsewhere in [other_identity(), other_url(), not_ready()] {
        let case = active().spec(|s| s.active_deadline_seconds = Some(100));
        let case = case.at(50).view(elsewhere).settle();
        assert_eq!(case.decide().requeue_at, Some(at(101)));
        assert_eq!(case.at(101).settled().phase, Some(Phase::Cancelling));
    }
}

/// Proves: P-place
#[test]
fn a_vanished_run_is_cancelled_at_its_own_place_alone() {
    let mut case = active();
    case = case.vanish();
    for elsewhere in [other_identity(), other_url()] {
        let held = case.clone().view(elsewhere);
        assert_eq!(held.decide().effect, None);
        assert!(held.decide().requeue_at.is_some(), "no watch wakes it");
    }
    assert_eq!(case.does(), "cancel");
}

#[test]
fn an_accepted_run_is_pinned_as_announced_despite_an_edit() {
    let mut intent = Case::new().an_intent("me", 1);
    intent.workspace.identity = Some("ws-other".into());
    let case = Case::new().mine().stands(&intent);
    let status = case.posted(Ok(view("running"))).settled();
    assert_eq!(status.workspace, Some(place()));
}
