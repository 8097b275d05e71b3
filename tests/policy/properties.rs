//! Properties of every observation: random histories, then random observations of their ends.

use proptest::prelude::*;
use run_operator::{
    api::{Phase, Reason, RunStatus, WorkspaceRef, contract::RunDetails},
    decide::{
        Effect, Follow, WorkspaceView,
        event_buffer::Received,
        failure::{Failure, RunView},
        truncate::{MAX_SENTENCES, cut},
    },
};

use crate::{
    histories::{self, Answer, Turn, apply, turns},
    support::{Case, at, condition, name, problem, view},
};

/// As the API server stores it.
fn size(status: &RunStatus) -> usize {
    let text = serde_json::to_string(status).expect("a status");
    text.len() + 5 * text.matches(['<', '>', '&']).count()
}

fn blocked_or_waits_for_a_watch(case: &Case, status: &RunStatus) -> bool {
    // Each of these is woken by a change of the object, of its Workspace or of its session.
    let woken = [
        "Suspended",
        "WorkspaceNotReady",
        "WorkspaceNotFound",
        "WorkspaceChanged",
        "IdentityChanged",
        "VersionNotAccepted",
        "WorkspaceSuspended",
        "WorkspaceDeleting",
        "SecretNotFound",
    ];
    let says = |kind| condition(status, kind).is_some_and(|c| woken.contains(&c.1.as_str()));
    let stalled = condition(status, "Stalled").is_some_and(|c| c.0 == "True");
    let refused_token = case
        .tracked
        .memory
        .failures
        .iter()
        .any(|t| t.last.class == run_operator::decide::failure::Class::Unauthorized);
    stalled
        || says("Ready")
        || says("Synced")
        || refused_token
        || case.view == WorkspaceView::Unknown
        || case.namespace_allowed.is_none()
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let ended = |s: &RunStatus| s.phase.is_some_and(Phase::terminal);
    let before = case.run.status.clone().unwrap_or_default();
    // Settles, or panics.
    let case = case.clone().settle();
    let status = case.run.status.clone().unwrap_or_default();
    let decision = case.decide();

    prop_assert!(size(&status) < 32 * 1024);
    let holds = |kind| condition(&status, kind).is_some_and(|c| c.0 == "True");
    prop_assert!(!(holds("Reconciling") && holds("Stalled")));
    prop_assert!(status.conditions.len() <= 8);
    prop_assert_eq!(holds("Finished"), ended(&status));
    if before.run_id.is_some() {
        prop_assert_eq!(&before.run_id, &status.run_id);
    }
    // A later reconcile of an unchanged world writes nothing, unless the time itself requires it.
    if let Some(again) = decision.requeue_at {
        prop_assert!(again > case.now, "looks again in the past");
    }

    let effect = decision.effect.as_ref();
    let own = case.run.intent_record().own().is_some();
    if matches!(effect, Some(Effect::Submit { .. })) {
        prop_assert!(own, "a POST without an intent");
        prop_assert!(matches!(case.view, WorkspaceView::Ready(_)));
    }
    if matches!(
        effect,
        Some(Effect::Submit { .. } | Effect::Refresh { .. } | Effect::Cancel { .. })
    ) {
        prop_assert!(matches!(case.view, WorkspaceView::Ready(_)));
    }
    let foreign = !own;
    let denied = condition(&status, "Finished").is_some_and(|c| c.1 == "RunNotFound");
    let deleting =
        case.over() || case.tracked.deleted() || case.run.metadata.deletion_timestamp.is_some();
    if ended(&status) && !foreign && !(denied && deleting) {
        prop_assert!(
            matches!(effect, None | Some(Effect::Release { .. } | Effect::Delete)),
            "{} after the end",
            name(effect)
        );
        prop_assert_ne!(decision.follow, Follow::Open);
    }
    let quiet = effect.is_none() && decision.requeue_at.is_none();
    if quiet && !ended(&status) && !deleting {
        prop_assert!(
            blocked_or_waits_for_a_watch(&case, &status),
            "nobody will wake it: {:#?}",
            status.conditions
        );
    }
    Ok(())
}

/// The epoch of the intent in the object; 0 if there is none.
fn epoch(case: &Case) -> i64 {
    case.run.intent_record().own().map_or(0, |i| i.epoch)
}

/// True if a run may exist after this POST, by what a request of this fate may have done.
fn may_exist(before: bool, turn: &Turn) -> bool {
    let Turn::Act(Answer::Fails(failure)) = turn else {
        return true;
    };
    let refused = failure.code.is_some()
        && failure.http_status.is_some_and(|s| (400..500).contains(&s))
        && !matches!(
            failure.code.as_deref(),
            Some("idempotency_conflict" | "idempotency_in_progress")
        );
    // A refusal of the bytes speaks for every request with them, any other for itself.
    let of_the_bytes = refused && failure.http_status == Some(422);
    !of_the_bytes && (before || !refused)
}

proptest! {
    #![proptest_config(histories::config(1500))]

    /// Proves: P-at-most-one, P-conditions, P-intent-before-post
    #[test]
    fn whatever_happens_the_decision_is_stable_bounded_and_safe(turns in turns()) {
        let mut case = Case::new();
        for turn in &turns {
            case = apply(case, turn);
            check(&case)?;
        }
    }

    /// No one edits the object here: the effect of a strip and a crash is a limit that is documented.
    /// Proves: D-proof
    #[test]
    fn what_counts_as_never_created_never_was(turns in turns()) {
        let meddled = |t: &Turn| matches!(t, Turn::Strip | Turn::Scribble | Turn::Foreign | Turn::Forge(_) | Turn::Vanish);
        let mut case = Case::new();
        let mut exists = false;
        for turn in turns.iter().filter(|t| !meddled(t)) {
            if matches!(turn, Turn::Act(_) | Turn::Unheard) && case.does() == "submit" {
                exists = may_exist(exists, turn);
            }
            case = apply(case, turn);
            let settled = case.clone().settle();
            let status = settled.run.status.clone().unwrap_or_default();
            if !exists || status.run_id.is_some() {
                continue;
            }
            prop_assert_ne!(status.phase, Some(Phase::Cancelled));
            // One of an earlier epoch may still be stored; it answers nothing of this one.
            let proof = status.refusal.filter(|r| r.not_created).map(|r| r.epoch);
            prop_assert!(proof.is_none_or(|e| e != epoch(&case)), "proved, yet it may exist");
            let orphan = case.run.spec.deletion_policy.is_some();
            let effect = settled.decide().effect;
            let forgets = match &effect {
                Some(Effect::Release { .. }) => !orphan,
                Some(Effect::WriteIntent { clean, .. }) => *clean,
                _ => false,
            };
            prop_assert!(!forgets, "{effect:?}");
        }
    }

    /// Proves: P-terminal
    #[test]
    fn a_terminal_phase_never_changes(
        phase in prop::sample::select(vec![Phase::Succeeded, Phase::Failed, Phase::Cancelled]),
        turns in turns(),
    ) {
        let mut case = Case::new().submitted("running").got(Ok(view(match phase {
            Phase::Succeeded => "succeeded",
            Phase::Failed => "failed",
            _ => "cancelled",
        }))).settle();
        prop_assert_eq!(case.run.status.as_ref().and_then(|s| s.phase), Some(phase));
        for turn in &turns {
            if matches!(turn, Turn::Foreign) {
                continue;
            }
            case = apply(case, turn);
            prop_assert_eq!(case.settled().phase, Some(phase));
            let effect = case.effect();
            let done = effect.as_ref().map(|e| name(Some(e)));
            prop_assert!(matches!(done, None | Some("release" | "delete")), "{done:?}");
        }
    }

    /// Proves: X-caps
    #[test]
    fn the_status_stays_under_32_kib_whatever_the_service_sends(
        text in prop::sample::select(vec!["x", "\u{1}", "\"", "\\", "é", "\u{7f}", "\n", "😀", "<"]),
        length in prop::sample::select(vec![1_usize, 255, 4096, 65_536]),
        end in any::<bool>(),
    ) {
        let huge = text.repeat(length);
        let details = Some(Box::new(RunDetails {
            results: (0..16).map(|n| (format!("{}{n:02}", "n".repeat(61)), huge.clone())).collect(),
            console_url: Some(format!("https://console.example.com/{}", "x".repeat(2020))),
            percent: Some(100),
            message: Some(huge.clone()),
            failure: Some(huge.clone()),
        }));
        let failure = Failure {
            code: Some(huge.clone()), request_id: Some(huge.clone()), message: huge.clone(),
            ..problem(403, "")
        };
        let mut case = Case::new().mine().retry(&huge).posted(Ok(RunView {
            run_id: Some("r".repeat(512)),
            state: Some(huge.clone()),
            request_id: Some(huge.clone()),
            details: details.clone(),
        })).settle();
        for n in 0..12 {
            let event = Received { id: Some(format!("{n}{}", text.repeat(length.min(40)))), kind: huge.clone(), data: huge.clone() };
            case.tracked.memory.event_buffer.receive(&event, None, None, at(n));
        }
        case = case.got(Ok(RunView { run_id: None, details: details.clone(), ..view(&huge) })).at(20).settle();
        prop_assert!(case.run.status.as_ref().is_some_and(|s| s.console_url.is_some()));
        case = case.got(Err(failure.clone())).cancelled(Err(failure.clone()));
        if end {
            case = case.got(Ok(RunView { details, ..view("failed") }));
        }
        let status = case.settled();
        prop_assert!(status.events.len() == 10 || end);
        prop_assert!(size(&status) < 32 * 1024, "{}", size(&status));
        let refused = Case::new().mine().posted(Err(failure)).settled();
        prop_assert!(size(&refused) < 32 * 1024);
        let long_name = WorkspaceRef { kind: None, name: "w".repeat(253) };
        let blocked = Case::new().spec(|s| s.workspace_ref = Some(long_name));
        let blocked = blocked.view(WorkspaceView::NotReady { reason: Reason::Unauthorized, message: huge.clone(), since: at(-60) }).settled();
        prop_assert!(size(&blocked) < 32 * 1024);
        for condition in [&status, &refused, &blocked].into_iter().flat_map(|status| &status.conditions) {
            prop_assert_eq!(cut(&condition.message, MAX_SENTENCES), &condition.message);
        }
        // A runID that can't be kept is no runID.
        let ids = Case::new().mine().posted(Ok(RunView { run_id: Some("r".repeat(65_536)), ..view("running") }));
        prop_assert_eq!(ids.settled().run_id, None);
        prop_assert!(ids.does() != "submit", "not in a hot loop");
    }
}
