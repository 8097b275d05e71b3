//! `spec.ttlSecondsAfterFinished`: deletes a Run that has ended, or records why not.

use jiff::Timestamp;

use crate::api::{ConditionType, RunStatus};
use crate::decide::{
    decision::{Decision, Effect},
    events::{event::EventDraft, transitions::RECENT},
    gitops::NOTICE,
    observation::Observation,
    time::{after_stored, later},
    truncate::{MAX_SENTENCES, cut},
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

/// Adds to the Finished condition of a Run that has ended why its TTL doesn't delete it, or removes that note. It is
/// part of the write of the end; later changes of marks or TTL cost one more write.
pub(crate) fn write_notice(f: &Observation<'_>, status: &mut RunStatus) {
    let ended = ConditionType::Finished.as_str();
    let finished = status
        .conditions
        .iter_mut()
        .find(|c| c.type_ == ended && c.status == "True");
    if let Some(finished) = finished.filter(|_| !f.deleting()) {
        let bare = finished.message.split(NOTICE).next().unwrap_or_default();
        let message = match f.kept_by() {
            Some(by) => format!("{} {}", bare.trim_end(), by.sentence()),
            None => bare.trim_end().to_owned(),
        };
        cut(&message, MAX_SENTENCES).clone_into(&mut finished.message);
    }
}

/// The Event for a status that shows the notice for the first time. For a recent end it is published again, in case the
/// previous process ended before publishing it.
pub(crate) fn event(f: &Observation<'_>, next: Option<&RunStatus>) -> Option<EventDraft> {
    let by = f.kept_by()?;
    let after = next.unwrap_or(f.status());
    let ended = after.completion_time.as_ref();
    let recent = ended.is_some_and(|at| f.o.wall < later(at.0, RECENT));
    (has_notice(after) && (recent || !has_notice(f.status()))).then(|| EventDraft::ttl_ignored(by))
}

fn has_notice(status: &RunStatus) -> bool {
    status.conditions.iter().any(|c| c.message.contains(NOTICE))
}
