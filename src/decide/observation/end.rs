//! The Run's runId and end, and the records that they are read from.

use crate::api::{ConditionType, Reason, RunStatus, conditions, intent::End, status::Phase};

use super::{Observation, intent::Known};

/// Whether a status was lost, so that an end in the intent may take its place: one with a runId and a phase was not.
pub(crate) fn lost(status: &RunStatus) -> bool {
    status.run_id.is_none() || status.phase.is_none()
}

impl Observation<'_> {
    /// The runId: from the status, else from the answer that is not stored yet, else from the intent.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.trusted_status()
            .and_then(|s| s.run_id.as_deref())
            .or(self.o.memory.run_id.as_deref())
            .or(self.kept_end().and_then(|e| e.run_id.as_deref()))
    }

    /// The end stored in the intent in case the status is lost. Not believed if this process wrote an intent or knows of
    /// a run, and has seen no end: anyone with permission to edit the object can write one.
    fn kept_end(&self) -> Option<&End> {
        let memory = self.memory();
        let knows = memory.run_id.is_some() || memory.submission.epoch > 0;
        let end = self.own_intent()?.end.as_ref();
        end.filter(|_| lost(self.status()) && (memory.ended || !knows))
    }

    /// The status, unless it came with an intent that belongs to another object.
    fn trusted_status(&self) -> Option<&RunStatus> {
        if matches!(self.intent(), Known::Foreign) {
            None
        } else {
            Some(self.status())
        }
    }

    /// Whether the Run has ended, by its status or, if that was lost, by its intent. Terminal is absorbing.
    pub(crate) fn ended(&self) -> bool {
        let phase = self.trusted_status().and_then(|s| s.phase);
        phase.is_some_and(Phase::terminal) || self.cancelled_copy() || self.kept_end().is_some()
    }

    /// Whether this is a copy of another object that was cancelled before its own submission.
    fn cancelled_copy(&self) -> bool {
        matches!(self.intent(), Known::Foreign)
            && self.spec().cancelled()
            && self.status().phase == Some(Phase::Cancelled)
    }

    /// The reason of the Finished condition.
    pub(crate) fn end_reason(&self) -> Option<Reason> {
        let finished = conditions::find(&self.status().conditions, ConditionType::Finished)?;
        Reason::named(&finished.reason)
    }
}
