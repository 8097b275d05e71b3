//! `spec.ttlSecondsAfterFinished`: deletes a Run that has ended, or records why not.

use jiff::Timestamp;

use crate::api::{ConditionType, RunStatus, conditions::is_true};
use crate::decide::{
    decision::{Decision, Effect},
    observation::Observation,
    time::after_stored,
};

/// Deletes the object after its TTL.
pub(crate) fn expiry(f: &Observation<'_>) -> Decision {
    match due(f).filter(|_| !f.deleting()) {
        None => Decision::quiet(),
        Some(due) if due <= f.o.wall => Decision::act(Effect::Delete),
        Some(due) => Decision::quiet().requeue_at(f.when(due)),
    }
}

/// Time of the wall clock at which the TTL deletes the object. None if a GitOps tool would re-create it and run it
/// again: adding or removing that tool's marks changes the object and so requeues it.
pub(crate) fn due(f: &Observation<'_>) -> Option<Timestamp> {
    if f.kept_by().is_some() {
        return None;
    }
    let ttl = u64::try_from(f.spec().ttl_seconds_after_finished?).ok()?;
    let ended = f.status().completion_time.as_ref()?;
    Some(after_stored(ended.0, ttl))
}

/// Records which tool keeps a Run that has ended past its TTL. It is part of the write of the end; later changes of
/// marks or TTL cost one more write.
pub(crate) fn record_keeper(f: &Observation<'_>, status: &mut RunStatus) {
    if is_true(&status.conditions, ConditionType::Finished) && !f.deleting() {
        status.kept_by = f.kept_by().map(|by| by.to_string());
    }
}
