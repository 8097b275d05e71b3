//! Properties of trust: of namespaces, tokens, holds, pauses and forged intents.

use proptest::prelude::*;
use run_operator::{
    api::{Intent, Reason, status::ResolvedWorkspace},
    decide::{
        Effect, Session, WorkspaceView,
        claims::{begins_submission, needs_workspace},
        elsewhere,
    },
};

use crate::{
    histories::{self, Answer, Forgery, Sight, Turn, act, apply, see, turns},
    support::{BASE_URL, Case, INTENT, condition, lost, name},
};

/// Steps of one reconcile in the controller.
const STEPS: usize = 24;

fn is_call(effect: Option<&Effect>) -> bool {
    matches!(
        effect,
        Some(Effect::Submit { .. } | Effect::Refresh { .. } | Effect::Cancel { .. })
    )
}

fn deleting(case: &Case) -> bool {
    case.tracked.deleted() || case.run.metadata.deletion_timestamp.is_some()
}

/// It is deleted and has no finalizer: it can't be edited any more, and no Workspace waits for it.
fn gone(case: &Case) -> bool {
    case.over() || deleting(case) && case.run.metadata.finalizers.is_none()
}

/// True if this process wrote the intent in the object.
fn owned(case: &Case, intent: &Intent) -> bool {
    intent.owner == case.settings.process && intent.epoch == case.tracked.memory.submission.epoch
}

/// Somebody took this object's intent off, or put another's in its place: what is left is in memory.
fn meddled(case: &Case) -> bool {
    let annotations = case.run.metadata.annotations.as_ref();
    let there = annotations.is_some_and(|a| a.contains_key(INTENT));
    let remembered = case.tracked.memory.intent.is_some() || case.tracked.memory.run_id.is_some();
    case.run.intent_record().own().is_none()
        && remembered
        && (there || case.run.status.is_none() || !stored(case))
}

fn stored(case: &Case) -> bool {
    case.run.status.as_ref().is_some_and(|s| s.run_id.is_some())
}

/// Every place that the object, or this process's memory, names as its own.
fn pins(case: &Case) -> Vec<ResolvedWorkspace> {
    let status = case.run.status.clone().unwrap_or_default();
    match status.workspace.filter(|_| status.run_id.is_some()) {
        Some(place) => vec![place],
        None => case
            .run
            .intent_record()
            .own()
            .into_iter()
            .map(|i| i.workspace)
            .collect(),
    }
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let case = case.clone().settle();
    let decision = case.decide();
    let effect = decision.effect.as_ref();
    let status = case.run.status.clone().unwrap_or_default();
    let here = match &case.view {
        WorkspaceView::Ready(session) => Some(session.resolved.base_url.as_str()),
        _ => Some(BASE_URL),
    };
    let needs = needs_workspace(&case.run, here);
    let does = name(effect);

    if is_call(effect) {
        let WorkspaceView::Ready(session) = &case.view else {
            return Err(TestCaseError::fail("a call without a session"));
        };
        for pin in pins(&case) {
            prop_assert_eq!(
                elsewhere(&pin, &session.resolved),
                None,
                "{} elsewhere",
                does
            );
        }
        prop_assert!(
            needs || case.tracked.deleted() || gone(&case) || meddled(&case),
            "{does}, and its Workspace may go"
        );
    }
    if matches!(effect, Some(Effect::Submit { .. })) {
        let intent = case.run.intent_record().own().expect("an intent");
        prop_assert!(owned(&case, &intent));
        if case.namespace_allowed != Some(true) {
            prop_assert!(
                deleting(&case),
                "a POST from a namespace that is not allowed"
            );
        }
        if let Some(reason) = held(&case) {
            let first = case.tracked.memory.submission.made_none();
            prop_assert!(
                !first || reason == Reason::WorkspaceDeleting,
                "a first POST, held: {reason}"
            );
        }
    }
    if let Some(Effect::WriteIntent {
        clean: true,
        intent,
        ..
    }) = effect
    {
        prop_assert_eq!(case.namespace_allowed, Some(true));
        let mended = case
            .run
            .intent_record()
            .own()
            .is_some_and(|i| i.epoch == intent.epoch);
        let may = held(&case).is_none_or(|reason| reason == Reason::WorkspaceDeleting && needs);
        prop_assert!(may || mended, "a submission begins, and it is held");
    }
    if held(&case) == Some(Reason::WorkspaceDeleting) {
        // No submission is permitted: the controller would decide the same again at once. A write of an object that no
        // longer exists is refused.
        let begins = effect.is_some_and(|effect| begins_submission(effect, &case.run, here));
        prop_assert!(!begins || gone(&case), "{does} is not permitted");
        // Each would wait for the other. Until the namespace is known nothing is written or done, and the
        // status may be older.
        let waits = condition(&status, "Ready").is_some_and(|c| c.1 == "WorkspaceDeleting");
        let looks = case.namespace_allowed.is_some();
        let exempt = gone(&case) || meddled(&case) || !needs || !waits || !looks;
        prop_assert!(exempt || decision.effect.is_some());
    }
    Ok(())
}

/// Reason for which first submissions are held.
fn held(case: &Case) -> Option<Reason> {
    match &case.view {
        WorkspaceView::Ready(Session {
            submissions_blocked,
            ..
        }) => submissions_blocked.as_ref().map(|(reason, _)| *reason),
        _ => None,
    }
}

/// Checks the decision of a process that knows only the object, given everything that it waits for.
fn check_afresh(case: &Case) -> Result<(), TestCaseError> {
    if needs_workspace(&case.run, Some(BASE_URL)) || case.tracked.deleted() || gone(case) {
        return Ok(());
    }
    for sight in [Sight::Ready, Sight::Holds(Reason::WorkspaceDeleting)] {
        for (gone, seconds) in [(false, 0), (false, 700), (true, 0), (true, 90_000)] {
            let mut fresh = see(case.clone().restarted(), sight);
            fresh.namespace_allowed = Some(true);
            fresh.call_delay = None;
            fresh.key_holder = None;
            fresh.now += jiff::SignedDuration::from_secs(seconds);
            if gone && !deleting(&fresh) {
                fresh = fresh.deleting();
            }
            let effect = fresh.effect();
            prop_assert!(
                !is_call(effect.as_ref()),
                "{} by the next process",
                name(effect.as_ref())
            );
        }
    }
    Ok(())
}

/// With the same answer to every request, the object is soon not written any more, and its next reconcile is
/// later than now.
fn check_quiet(case: &Case, answer: &Answer) -> Result<(), TestCaseError> {
    let mut case = case.clone().settle();
    let mut done = Vec::new();
    while let Some(effect) = case.decide().effect {
        done.push(name(Some(&effect)));
        prop_assert!(done.len() < STEPS, "never quiet: {done:?}");
        let releases = matches!(effect, Effect::Release { .. });
        case = act(case, answer, true).settle();
        if releases && deleting(&case) {
            return Ok(());
        }
    }
    let again = case.decide().requeue_at;
    prop_assert!(
        again.is_none_or(|at| at > case.now),
        "looks again in the past"
    );
    Ok(())
}

/// Found by the property below, which took the wait for the namespace for an endless one.
#[test]
fn an_intent_of_a_deleting_workspace_waits_for_namespace_labels() {
    let held = [
        Turn::View(Sight::Holds(Reason::WorkspaceDeleting)),
        Turn::Act(Answer::State("queued")),
        Turn::Allowed(None),
        Turn::Forge(Forgery::Made),
    ];
    let case = held.iter().fold(Case::new(), apply);
    let ready = |case: &Case| condition(&case.settled(), "Ready").map(|c| c.1);
    assert_eq!(ready(&case).as_deref(), Some("WorkspaceDeleting"));
    assert_eq!(case.effect(), None);
    let known = apply(case.clone(), &Turn::Allowed(Some(true)));
    assert_eq!(name(known.effect().as_ref()), "intent");
    let refused = apply(case, &Turn::Allowed(Some(false)));
    assert_ne!(ready(&refused).as_deref(), Some("WorkspaceDeleting"));
}

/// A Workspace that is being deleted permits no first intent of a Run, which it doesn't wait for. It waits for one that
/// has an intent, so whatever is written of that is permitted.
/// Proves: P-workspace-finalizer
#[test]
fn a_first_intent_begins_a_submission_and_its_repair_does_not() {
    let begins = |case: &Case| {
        let effect = case.effect().expect("an intent");
        assert!(matches!(effect, Effect::WriteIntent { clean: true, .. }));
        begins_submission(&effect, &case.run, Some(BASE_URL))
    };
    let first = Case::new();
    assert!(begins(&first));
    let mut unheld = act(first, &Answer::Nothing, true);
    unheld.run.metadata.finalizers = None;
    assert!(!begins(&unheld));
}

/// The intent and the finalizer of a Run that may have a run are put back, though its Workspace is being deleted and
/// doesn't wait for it: the write begins no submission, so no permit is refused again and again. The first history was
/// found by the property below.
/// Proves: D-stripped
#[test]
fn a_stripped_run_is_mended_under_a_deleting_workspace() {
    let elsewhere = [
        Turn::View(Sight::OtherUrl),
        Turn::Act(Answer::State("queued")),
        Turn::Act(Answer::State("queued")),
        Turn::View(Sight::Holds(Reason::WorkspaceDeleting)),
        Turn::Strip,
    ];
    let in_doubt = [
        Turn::Act(Answer::State("queued")),
        Turn::Act(Answer::Fails(lost())),
        Turn::View(Sight::Holds(Reason::WorkspaceDeleting)),
        Turn::Strip,
        Turn::Wait(600),
    ];
    // Another process may have posted before the edit was seen.
    let unsent = [
        Turn::Act(Answer::State("queued")),
        Turn::View(Sight::Holds(Reason::WorkspaceDeleting)),
        Turn::Strip,
    ];
    for history in [&elsewhere[..], &in_doubt, &unsent] {
        let case = history.iter().fold(Case::new(), apply).settle();
        assert!(!needs_workspace(&case.run, Some(BASE_URL)));
        let effect = case.effect().expect("it is mended");
        assert!(matches!(
            effect,
            Effect::WriteIntent {
                finalizer: true,
                ..
            }
        ));
        assert!(!begins_submission(&effect, &case.run, Some(BASE_URL)));
        let mended = act(case, &Answer::Nothing, true).settle();
        assert_ne!(mended.does(), "intent");
    }
}

proptest! {
    #![proptest_config(histories::config(1500))]

    #[test]
    fn no_history_leads_to_a_forbidden_or_unawaited_call(
        turns in turns(),
    ) {
        let mut case = Case::new();
        for turn in &turns {
            case = apply(case, turn);
            check(&case)?;
            check_afresh(&case)?;
        }
    }

    #[test]
    fn the_same_answer_for_ever_is_asked_for_in_no_hot_loop(turns in turns(), answer in histories::answers()) {
        let case = turns.iter().fold(Case::new(), apply);
        check_quiet(&case, &answer)?;
    }
}
