//! Claims of a Run, by its object: a Workspace that outlives it, and a key with which one Run of a namespace submits.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{
    ConditionType, Intent, Reason, Run, RunStatus, WorkspaceKey, conditions, finalizer,
    intent::IntentRecord,
    status::{Refusal, ResolvedWorkspace},
};

use super::{choice::bound, decision::Effect};

/// The Workspace of a Run by its object alone; `None` if that doesn't show it.
pub fn bound_to(run: &Run) -> Option<WorkspaceKey> {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let intent = || run.intent_record().own();
    let reference = bound(&run.spec, run.status.as_ref(), intent)?;
    Some(WorkspaceKey::of(&reference, namespace))
}

/// Whether this may be the Workspace of a Run, by its object.
pub fn may_use(run: &Run, key: &WorkspaceKey) -> bool {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    match bound_to(run) {
        Some(bound) => bound == *key,
        None => key.namespace.is_empty() || *key == WorkspaceKey::own_default(namespace),
    }
}

/// Whether a Run still needs the Workspace that it uses, whose base URL is this one (`None`: it has none): it was
/// submitted, or may have been, and has not ended. A Run pinned to another base URL needs a Workspace re-created with it.
pub fn needs_workspace(run: &Run, base_url: Option<&str>) -> bool {
    needs_any(run) && !pinned_elsewhere(run, base_url)
}

/// Whether an effect on a Run begins a submission, which a Workspace that is being deleted doesn't wait for. Writing an
/// intent once more after a POST that may have made a run begins none: it keeps a run from being left behind.
pub fn begins_submission(effect: &Effect, run: &Run, base_url: Option<&str>) -> bool {
    matches!(effect, Effect::WriteIntent { clean: true, .. }) && !needs_workspace(run, base_url)
}

/// Whether a call to the service may still be needed for a Run. A denied run is asked for once more at the deletion.
pub fn needs_any(run: &Run) -> bool {
    if run.spec.managed_elsewhere() {
        return false;
    }
    if run.ended() {
        return denied(run);
    }
    let status = run.status.as_ref();
    let submitted = status.is_some_and(|s| s.run_id.is_some());
    match run.intent_record() {
        IntentRecord::Own(intent) => {
            let refused = status.is_some_and(|s| proved_by_refusal(s, &intent));
            // The operator removes the finalizer when it writes an end; an end together with a finalizer comes
            // from another writer, and so does one beside a status that was not lost.
            let over = intent.end.is_some()
                && status.is_none_or(lost)
                && !finalizer::present(&run.metadata);
            !over && (submitted || !refused)
        }
        IntentRecord::Absent => submitted,
        // It never leads to a POST automatically, and the status belongs to another object.
        IntentRecord::Foreign => false,
        IntentRecord::Unreadable => true,
    }
}

/// Whether it has one of the slots that `maxActiveRuns` limits, by its object: it was submitted, or may have been, and
/// has not ended.
pub fn holds_slot(run: &Run) -> bool {
    !run.ended() && needs_any(run)
}

/// The Workspace of which an object that can't be decoded has a slot.
pub fn held_by(metadata: &ObjectMeta) -> Option<WorkspaceKey> {
    let intent = IntentRecord::of(metadata).own()?;
    let held = intent.end.is_none() && finalizer::present(metadata);
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    held.then(|| WorkspaceKey::of(&intent.workspace.reference(), namespace))
}

/// Whether a Run is pinned to another base URL, by the record that decides (see [`facts`](super::facts)).
pub fn pinned_elsewhere(run: &Run, base_url: Option<&str>) -> bool {
    let status = run.status.as_ref().filter(|s| s.run_id.is_some());
    let elsewhere = |pinned: &ResolvedWorkspace| base_url != Some(pinned.base_url.as_str());
    if let Some(pinned) = status.and_then(|s| s.workspace.as_ref()) {
        return elsewhere(pinned);
    }
    let intent = run.intent_record().own();
    intent.is_some_and(|intent| elsewhere(&intent.workspace))
}

fn denied(run: &Run) -> bool {
    let conditions = run.status.as_ref().map(|s| s.conditions.as_slice());
    finalizer::present(&run.metadata)
        && conditions::find(conditions.unwrap_or_default(), ConditionType::Finished)
            .is_some_and(|finished| finished.reason == Reason::RunNotFound.as_str())
}

/// Whether a status was lost, so that an end in the intent may take its place: one with a runID that the operator wrote
/// was not.
pub(crate) fn lost(status: &RunStatus) -> bool {
    status.run_id.is_none() || !status.is_observed()
}

pub(crate) fn proved_by_refusal(status: &RunStatus, intent: &Intent) -> bool {
    let refusal = status.refusal.as_ref();
    refusal.is_some_and(|r| r.not_created && refusal_is_for_this_epoch(r, intent))
}

pub(crate) fn refusal_is_for_this_epoch(refusal: &Refusal, intent: &Intent) -> bool {
    refusal.epoch == intent.epoch
}

/// A live Run's relation to its key, in order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyClaim {
    /// It has its own intent, or one that can't be read; or it was submitted, and its intent was removed.
    Holds,
    /// It has no intent: the elder has priority.
    Waits,
    /// It is a copy of another object and waits for a person: it holds nothing before its own intent.
    Copy,
}

impl KeyClaim {
    pub fn of(run: &Run, intent: &IntentRecord) -> Self {
        let submitted = run.status.as_ref().is_some_and(|s| s.run_id.is_some());
        match intent {
            IntentRecord::Own(_) | IntentRecord::Unreadable => Self::Holds,
            IntentRecord::Absent if submitted => Self::Holds,
            IntentRecord::Absent => Self::Waits,
            IntentRecord::Foreign => Self::Copy,
        }
    }

    /// Whether a Run with this claim goes before one that has written no intent. If that one has `claimed` the key in
    /// this process, it waits only for a holder: its intent may be stored unseen. Age: creation time, then uid.
    pub fn has_priority(
        self,
        age: (Timestamp, &str),
        other: (Timestamp, &str),
        claimed: bool,
    ) -> bool {
        match self {
            Self::Holds => true,
            Self::Waits => !claimed && age < other,
            Self::Copy => false,
        }
    }
}

pub fn created(run: &Run) -> Timestamp {
    let created = run.metadata.creation_timestamp.as_ref();
    created.map_or(Timestamp::MIN, |time| time.0)
}
