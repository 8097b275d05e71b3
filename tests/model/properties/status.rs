//! Properties of a status that replaces another.

use run_operator::api::{
    ConditionType, Phase, Reason, RunStatus, conditions::find, intent::IntentRecord,
};

use super::{Broken, may_come};
use crate::object::Object;
use crate::service;
use crate::state::{RunState, ServiceRun, State};

/// Checks a status that replaced another.
pub(crate) fn status_written(s: &mut State, old: &Object, new: &RunStatus) {
    let before = old.run.status.clone().unwrap_or_default();
    let uid = old.uid;
    let known = s.ghost(uid).run_id.clone().or(before.run_id.clone());
    let foreign = matches!(old.run.intent_record(), IntentRecord::Foreign);
    if known.is_some() && new.run_id.is_some() && new.run_id != known && !foreign {
        s.breaks(Broken::WrittenOnce);
    }
    let lost = |old: bool, same: bool| old && !same;
    if lost(before.run_id.is_some(), before.run_id == new.run_id)
        || lost(
            before.workspace.is_some(),
            before.workspace == new.workspace,
        )
    {
        s.breaks(Broken::WrittenOnce);
    }
    s.ghost(uid).run_id = new.run_id.clone().or(known).filter(|_| !foreign);
    if !foreign {
        if before.phase.is_some_and(Phase::terminal) && before.phase != new.phase {
            s.breaks(Broken::Terminal);
        }
        mirrored(s, &before, new);
        end_is_true(s, uid, &before, new);
        proof_is_true(s, old, &before, new);
    }
}

/// The place of a state among those that the run went through, from 1.
fn place_of(s: &State, status: &RunStatus) -> Option<usize> {
    let run = service::numbered(status.run_id.as_deref()?)?;
    let run = s.service.runs.get(run)?;
    let state = status.state.as_deref()?;
    run.passed
        .iter()
        .position(|p| p.word() == state)
        .map(|p| p + 1)
}

fn mirrored(s: &mut State, before: &RunStatus, new: &RunStatus) {
    let place = place_of(s, new);
    let cursor = new.last_event_id.as_deref();
    let cursor = cursor.and_then(|id| id.strip_prefix('e')?.parse::<usize>().ok());
    if let Some(cursor) = cursor {
        if place.is_none_or(|p| p < cursor) {
            s.breaks(Broken::CursorAhead);
        }
        let counted = usize::try_from(new.event_count.unwrap_or_default()).unwrap();
        let mut ids: Vec<_> = new.events.iter().filter_map(|e| e.id.clone()).collect();
        ids.sort();
        ids.dedup();
        if counted > cursor || ids.len() < new.events.len() {
            s.breaks(Broken::CountedTwice);
        }
    }
    if before.run_id == new.run_id && place < place_of(s, before) {
        s.breaks(Broken::TakenBack);
    }
    let made = new.run_id.as_deref().and_then(service::numbered);
    let made = made.is_some_and(|run| run < s.service.runs.len());
    if made && new.state.is_some() && place.is_none() {
        s.breaks(Broken::OtherState);
    }
}

fn end_is_true(s: &mut State, uid: u8, before: &RunStatus, new: &RunStatus) {
    let Some(phase) = new
        .phase
        .filter(|p| p.terminal() && before.phase != Some(*p))
    else {
        return;
    };
    if s.ghost(uid).misled {
        return;
    }
    let Some(run_id) = &new.run_id else {
        let made = s.service.runs.iter().any(|r| r.uid == uid);
        if made || may_come(s, uid) {
            s.breaks(Broken::FalseEnd);
        }
        return;
    };
    let run = service::numbered(run_id).and_then(|n| s.service.runs.get(n));
    let state = run.map(ServiceRun::state);
    let denied = {
        let mut apart = 0;
        let mut last = None;
        for at in &s.ghosts[usize::from(uid) - 1].denials {
            if last.is_none_or(|last| at - last >= 60) {
                apart += 1;
                last = Some(*at);
            }
        }
        apart >= 3
    };
    let right = match phase {
        Phase::Succeeded => state == Some(RunState::Succeeded),
        // The deadline makes a failure of a cancellation.
        Phase::Failed => denied || matches!(state, Some(RunState::Failed | RunState::Cancelled)),
        _ => state == Some(RunState::Cancelled),
    };
    let elsewhere = find(&new.conditions, ConditionType::Failed)
        .is_some_and(|c| c.reason == Reason::CancelledElsewhere.as_str());
    // Another object with its key may have cancelled the run: that is elsewhere for this one.
    let ours = run.is_some_and(|run| run.cancelled_for == Some(uid));
    if !right {
        s.breaks(Broken::FalseEnd);
    }
    if elsewhere && ours {
        s.breaks(Broken::FalseCause);
    }
}

fn proof_is_true(s: &mut State, old: &Object, before: &RunStatus, new: &RunStatus) {
    let Some(intent) = old.run.intent_record().own() else {
        return;
    };
    let proof = new
        .refusal
        .as_ref()
        .filter(|r| r.not_created && r.epoch == intent.epoch);
    if proof.is_none() || before.refusal == new.refusal {
        return;
    }
    let made = s.service.runs.iter().any(|r| r.uid == old.uid);
    if made || may_come(s, old.uid) {
        s.breaks(Broken::FalseProof);
    }
}
