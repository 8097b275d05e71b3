//! Intents that were stripped or edited, and the ends that they record.

use rstest::rstest;
use run_operator::{
    api::{Phase, Reason, RunStatus, intent::End},
    decide::{Effect, WorkspaceView, claims::needs_workspace},
};

use crate::support::{
    BASE_URL, Case, FINALIZER, UID, at, condition, intent_of, lost, place, session, view,
};

/// A replace strips finalizer and intent from an active Run.
/// Proves: D-stripped
#[rstest]
#[case::from_memory(true)]
#[case::from_the_status(false)]
fn a_stripped_active_run_is_mended(#[case] remembered: bool) {
    let mut case = Case::new().mine().posted(Ok(view("running"))).settle();
    if !remembered {
        case = case.restarted();
    }
    case.run.metadata.annotations = None;
    case.run.metadata.finalizers = None;
    let (intent, finalizer, clean) = intent_of(&case);
    assert_eq!((intent.uid.as_str(), &intent.workspace), (UID, &place()));
    assert!(finalizer && !clean);
    let mended = case.stands(&intent).finalizer();
    assert_ne!(mended.does(), "intent");
    assert_eq!(
        mended.run.metadata.finalizers,
        Some(vec![FINALIZER.to_owned()])
    );
}

#[test]
fn a_stripped_finalizer_is_restored_with_the_intent_unchanged() {
    let mut case = Case::new().submitted("running");
    case.run.metadata.finalizers = None;
    let stands = case.an_intent("earlier", 1);
    assert_eq!(intent_of(&case), (stands, true, false));
}

/// The API server puts no finalizer on it any more, and would refuse the whole patch.
#[test]
fn a_takeover_during_a_deletion_adds_no_finalizer() {
    let mut case = Case::new().intent("earlier", 1).deleting();
    case.run.metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    let (intent, finalizer, clean) = intent_of(&case);
    assert_eq!(
        (intent.owner.as_str(), finalizer, clean),
        ("me", false, false)
    );
}

#[test]
fn a_scribbled_intent_of_an_active_run_is_mended_too() {
    let case = Case::new()
        .submitted("running")
        .annotate("run-operator.dev/intent", "{");
    assert_eq!(case.does(), "intent");
    assert_eq!(case.deleting().does(), "cancel");
}

/// Proves: P-terminal
#[rstest]
#[case(Some("run-1"), Phase::Succeeded, Reason::Succeeded)]
#[case(Some("run-1"), Phase::Failed, Reason::DeadlineExceeded)]
#[case(None, Phase::Cancelled, Reason::Cancelled)]
fn a_status_lost_after_the_end_is_rebuilt_without_a_call(
    #[case] run_id: Option<&str>,
    #[case] phase: Phase,
    #[case] reason: Reason,
) {
    let intent = Case::new().an_ended_intent("earlier", (run_id, phase, reason));
    let case = Case::new().stands(&intent).view(WorkspaceView::Unknown);
    let status = case.settled();
    assert_eq!(
        (status.phase, status.run_id.as_deref()),
        (Some(phase), run_id)
    );
    assert_eq!(status.workspace.is_some(), run_id.is_some());
    assert_eq!(
        condition(&status, "Finished").map(|c| c.1),
        Some(reason.to_string())
    );
    assert_eq!(case.does(), "nothing");
    assert_eq!(
        case.view(WorkspaceView::Ready(session(1))).does(),
        "nothing"
    );
}

/// No status can be written any more; what is left to be done is to forget it.
#[test]
fn an_object_removed_before_its_final_status_is_released() {
    let intent = Case::new().an_ended_intent(
        "earlier",
        (Some("run-1"), Phase::Succeeded, Reason::Succeeded),
    );
    let mut case = Case::new()
        .mine()
        .posted(Ok(view("running")))
        .stands(&intent);
    case = case.vanish();
    assert_eq!(case.does(), "cancel");
    assert_eq!(case.got(Ok(view("succeeded"))).does(), "release");
}

/// The place is written once: an intent, which may have been edited, doesn't change it.
#[test]
fn what_is_left_of_a_status_lost_after_the_end_stays() {
    let mut intent =
        Case::new().an_ended_intent("earlier", (Some("run-2"), Phase::Failed, Reason::Failed));
    intent.workspace.identity = Some("ws-other".into());
    let case = Case::new().stands(&intent).status(|s| {
        s.run_id = Some("run-1".into());
        s.workspace = Some(place());
    });
    let status = case.settled();
    assert_eq!(status.phase, Some(Phase::Failed));
    assert_eq!(status.run_id.as_deref(), Some("run-1"));
    assert_eq!(status.workspace, Some(place()));
}

/// A status that no operator has written, as the API server shows it: by the CRD of this version, by one without the
/// default of the phase, by one without any.
/// Proves: P-defaults, P-foreign-intent, P-terminal
#[rstest]
#[case::the_default(Some(RunStatus::initial()))]
#[case::without_a_phase(Some(RunStatus { phase: None, ..RunStatus::initial() }))]
#[case::none(None)]
fn a_status_that_no_operator_has_written_is_none(#[case] status: Option<RunStatus>) {
    let with = |mut case: Case| {
        case.run.status = status.clone();
        case
    };
    let copied = with(Case::new().foreign().retry("of the original"));
    assert_eq!(copied.does(), "nothing");
    let down = WorkspaceView::NotReady {
        reason: Reason::ServiceUnavailable,
        message: "no answer".into(),
        since: at(0),
    };
    let waiting = with(Case::new()).view(down).at(1).settled();
    let ready = condition(&waiting, "Ready").expect("shown at once");
    assert_eq!(ready.1, "WorkspaceNotReady");
    let end = (Some("run-1"), Phase::Failed, Reason::Failed);
    let ended = Case::new().an_ended_intent("earlier", end);
    // Only what is written once is left.
    let rest = with(Case::new().stands(&ended)).status(|s| {
        s.run_id = Some("run-1".into());
        s.workspace = Some(place());
    });
    assert_eq!(rest.settled().phase, Some(Phase::Failed));
    assert_eq!(rest.does(), "nothing");
}

#[test]
fn the_end_is_left_in_the_intent() {
    let case = Case::new()
        .submitted("running")
        .got(Ok(view("failed")))
        .settle();
    let end = End {
        run_id: Some("run-1".into()),
        phase: Phase::Failed,
        reason: Reason::Failed,
    };
    assert_eq!(case.effect(), Some(Effect::Release { end: Some(end) }));
}

/// Such an end leads to calls when the object is deleted, so the operator writes none, and believes none.
/// Proves: X-forged
#[test]
fn an_end_in_an_intent_that_would_lead_to_a_call_leads_to_none() {
    let intent = Case::new().an_ended_intent(
        "earlier",
        (Some("somebody-s"), Phase::Failed, Reason::RunNotFound),
    );
    let case = Case::new().stands(&intent).finalizer();
    let status = case.settled();
    assert_eq!(
        condition(&status, "Finished").map(|c| c.1),
        Some(Reason::Failed.to_string())
    );
    let mut ended = case;
    ended.run.status = Some(status);
    assert_eq!(ended.deleting().does(), "release");
}

/// The process that made the POST is not misled: it asks what became of it.
#[rstest]
#[case::in_doubt(Case::new().mine().posted(Err(lost())), "submit")]
#[case::known(Case::new().mine().posted(Ok(view("running"))), "status")]
fn a_forged_end_in_the_intent_does_not_override_memory(#[case] case: Case, #[case] does: &str) {
    let intent = case.an_ended_intent("me", (Some("somebody-s"), Phase::Failed, Reason::Failed));
    let forged = case.stands(&intent).finalizer().at(400);
    match does {
        "submit" => assert_eq!(forged.does(), "submit"),
        _ => assert_eq!(forged.settled().run_id.as_deref(), Some("run-1")),
    }
    let phase = forged.decide().status.and_then(|s| s.phase);
    assert_ne!(phase, Some(Phase::Failed));
    // A process that knows of no run can't detect it.
    assert_eq!(forged.restarted().settled().phase, Some(Phase::Failed));
}

/// The end in the intent is for a status that was lost. Where it is there, the next process believes it too, and the
/// Workspace waits for the Run.
#[rstest]
fn a_forged_end_in_the_intent_does_not_override_the_status(#[values(true, false)] finalizer: bool) {
    let running = Case::new().mine().posted(Ok(view("running"))).settle();
    let intent = running.an_ended_intent("me", (Some("run-1"), Phase::Failed, Reason::Failed));
    let mut next = running.stands(&intent).finalizer().restarted();
    if !finalizer {
        next.run.metadata.finalizers = None;
    }
    assert!(needs_workspace(&next.run, Some(BASE_URL)));
    assert_eq!(next.settled().phase, Some(Phase::Active));
    assert_eq!(next.deleting().does(), "cancel");
}
