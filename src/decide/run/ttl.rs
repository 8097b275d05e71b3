//! `spec.ttlSecondsAfterFinished`: deletes a Run that has ended, or records why not.

use crate::api::{ConditionType, RunStatus};
use crate::decide::{
    decision::{Decision, Effect},
    events::{event::EventDraft, transitions::RECENT},
    gitops::NOTICE,
    observation::Observation,
    time::{after_stored, later},
    truncate::{MAX_SENTENCES, cut},
};

/// Deletes the object after its TTL, unless a GitOps tool would re-create it and run it again. Adding or removing that
/// tool's marks changes the object and so requeues it.
pub(crate) fn expiry(f: &Observation<'_>) -> Decision {
    if f.kept_by().is_some() {
        return Decision::quiet();
    }
    let ttl = f
        .spec()
        .ttl_seconds_after_finished
        .and_then(|s| u64::try_from(s).ok());
    let (Some(ttl), Some(ended)) = (ttl, &f.status().completion_time) else {
        return Decision::quiet();
    };
    let due = after_stored(ended.0, ttl);
    if f.deleting() {
        Decision::quiet()
    } else if due <= f.o.wall {
        Decision::act(Effect::Delete)
    } else {
        Decision::quiet().requeue_at(f.when(due))
    }
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
