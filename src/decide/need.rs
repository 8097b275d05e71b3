//! Which Runs a Workspace must outlive.

use crate::api::{
    ConditionType, Reason, Run, conditions, intent::IntentRecord, names, status::ResolvedWorkspace,
};

use super::{
    facts::answers,
    rules::{Rule, holds},
};

/// Whether a Run still needs the Workspace that it refers to, whose base URL is this one (`None`: it has none):
/// it was submitted, or may have been, and has not ended. Judged by the object alone, since the process that
/// asks may know nothing else.
///
/// A Run that waits for its first submission, or that was refused and proved to have made no run, needs none;
/// one that the service denies is asked for once more when it is deleted. One that is pinned to another base
/// URL is not served here: it needs a Workspace that is created again with its own, and a base URL is immutable.
pub fn needs_workspace(run: &Run, base_url: Option<&str>) -> bool {
    needs_any(run) && !pinned_elsewhere(run, base_url)
}

/// Whether a Run needs a Workspace, whatever its base URL.
pub fn needs_any(run: &Run) -> bool {
    if !holds(Rule::WorkspaceOutlives) {
        return false;
    }
    if run.ended() {
        return denied(run);
    }
    let status = run.status.as_ref();
    let submitted = status.is_some_and(|s| s.run_id.is_some());
    match intent_of(run) {
        IntentRecord::Own(intent) => {
            let refused = status
                .and_then(|s| s.refusal.as_ref())
                .is_some_and(|r| r.not_created && answers(r, &intent));
            // The operator's own word of an end takes the finalizer along; one beside it is somebody else's.
            let over = intent.end.is_some() && !has_finalizer(run);
            !over && (submitted || !refused)
        }
        IntentRecord::Absent => submitted,
        // It never POSTs by itself, and what its status says is another object's.
        IntentRecord::Foreign => false,
        IntentRecord::Unreadable => true,
    }
}

fn intent_of(run: &Run) -> IntentRecord {
    let uid = run.metadata.uid.as_deref().unwrap_or_default();
    let annotations = run.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|a| a.get(names::INTENT_ANNOTATION));
    IntentRecord::read(annotation.map(String::as_str), uid)
}

/// Whether a Run is pinned to another base URL than this one (`None`: there is none), by the record that has the
/// word (see [`place`](super::place)).
pub fn pinned_elsewhere(run: &Run, base_url: Option<&str>) -> bool {
    let status = run.status.as_ref().filter(|s| s.run_id.is_some());
    let elsewhere = |pinned: &ResolvedWorkspace| base_url != Some(pinned.base_url.as_str());
    let pinned = match status.and_then(|s| s.workspace.as_ref()) {
        Some(pinned) => elsewhere(pinned),
        None => matches!(intent_of(run), IntentRecord::Own(intent) if elsewhere(&intent.workspace)),
    };
    pinned && holds(Rule::SameBaseUrl)
}

fn has_finalizer(run: &Run) -> bool {
    let finalizers = run.metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|f| f == names::FINALIZER)
}

fn denied(run: &Run) -> bool {
    let conditions = run.status.as_ref().map(|s| s.conditions.as_slice());
    has_finalizer(run)
        && conditions::find(conditions.unwrap_or_default(), ConditionType::Finished)
            .is_some_and(|finished| finished.reason == Reason::RunNotFound.as_str())
}
