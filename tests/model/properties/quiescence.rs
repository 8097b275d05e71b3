//! Properties of an object when its operator is at rest.

use run_operator::api::{RunStatus, intent::IntentRecord};

use super::Broken;
use crate::object::Object;
use crate::state::State;

/// True if a status shows that the service refused the run for good.
pub(super) fn finally(status: &RunStatus) -> bool {
    stalled(status, &["Forbidden", "CreateRefused", "ApprovalConflict"])
}

fn stalled(status: &RunStatus, reasons: &[&str]) -> bool {
    let mut all = status.conditions.iter();
    all.any(|c| c.type_ == "Stalled" && reasons.contains(&c.reason.as_str()))
}

/// True if a status shows that the submission is held.
fn waits(status: &RunStatus) -> bool {
    let held = ["Suspended", "VersionNotAccepted", "WorkspaceDeleting"];
    let mut all = status.conditions.iter();
    all.any(|c| held.contains(&c.reason.as_str()))
}

/// At rest, if the status shows that no run was made for the object, none was.
pub(crate) fn told(s: &State, object: &Object) -> bool {
    let status = object.run.status.clone().unwrap_or_default();
    let made = s.service.runs.iter().any(|r| r.uid == object.uid);
    let own = matches!(object.run.intent_record(), IntentRecord::Own(_));
    !(own && made && (waits(&status) || finally(&status)))
}

/// At rest a status shows a final refusal only for the retry that a person set last.
pub(crate) fn retried(s: &State, object: &Object) -> bool {
    let status = object.run.status.clone().unwrap_or_default();
    let own = matches!(object.run.intent_record(), IntentRecord::Own(_));
    let ghost = &s.ghosts[usize::from(object.uid) - 1];
    let in_doubt = ["ServerError", "IdempotencyConflict", "ContractViolation"];
    // An end takes no retry.
    let over = object.deleting() || object.run.ended();
    over || !own
        || !finally(&status) && !stalled(&status, &in_doubt)
        || object
            .wish()
            .is_none_or(|w| ghost.retried.as_ref() == Some(w))
}

/// Checks that the object of a live run has its finalizer when its operator is at rest: it knows the current
/// object, and has nothing to do.
pub(crate) fn held(s: &mut State, seen: &Object) {
    let now = s.live.iter().flatten().any(|o| **o == *seen);
    let known = seen.run_id().is_some()
        && matches!(
            seen.run.intent_record(),
            IntentRecord::Own(_) | IntentRecord::Absent
        );
    if now && known && !seen.held() && !seen.deleting() && !seen.run.ended() {
        s.breaks(Broken::Unheld);
    }
}
