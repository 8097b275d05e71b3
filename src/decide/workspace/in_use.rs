//! The Runs that a Workspace must outlive.

use crate::api::{
    ConditionType, Reason, Run, conditions, finalizer, intent::IntentRecord,
    status::ResolvedWorkspace,
};
use crate::decide::{
    Effect,
    observation::{lost, refusal_is_for_this_epoch},
};

/// Whether a Run still needs the Workspace that it refers to, whose base URL is this one (`None`: it has none): it was
/// submitted, or may have been, and has not ended. Judged only by the object, since this process may know nothing else.
///
/// A Run that waits for its first submission needs no Workspace, nor one that was refused and proved to have made no
/// run. A run that the service denies is asked for once more when its Run is deleted. A Run pinned to another base URL
/// is not served here: a base URL is immutable, so the Run needs a Workspace re-created with its own.
pub fn needs_workspace(run: &Run, base_url: Option<&str>) -> bool {
    needs_any(run) && !pinned_elsewhere(run, base_url)
}

/// Whether an effect on a Run begins a submission, which the Workspace at this base URL (`None`: it has none) doesn't
/// permit once it is being deleted: it doesn't wait for this Run.
///
/// Writing an intent once more after a POST that may have made a run begins none, whatever an edit has left of the
/// object: it keeps a run from being left behind.
pub fn begins_submission(effect: &Effect, run: &Run, base_url: Option<&str>) -> bool {
    matches!(effect, Effect::WriteIntent { clean: true, .. }) && !needs_workspace(run, base_url)
}

/// Whether a Run needs a Workspace, at any base URL: a call to the service may still be needed for it.
pub fn needs_any(run: &Run) -> bool {
    if run.ended() {
        return denied(run);
    }
    let status = run.status.as_ref();
    let submitted = status.is_some_and(|s| s.run_id.is_some());
    match run.intent_record() {
        IntentRecord::Own(intent) => {
            let refused = status
                .and_then(|s| s.refusal.as_ref())
                .is_some_and(|r| r.not_created && refusal_is_for_this_epoch(r, &intent));
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

/// Whether a Run is pinned to another base URL than this one (`None`: there is none), by the record that decides (see
/// [`place`](crate::decide::run::pinning)).
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
