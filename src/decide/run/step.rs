//! The next step for a run at the service.

use jiff::Timestamp;

use crate::decide::{
    decision::{Decision, Effect},
    events::event::Note,
    observation::Observation,
};

/// The next step for a run.
pub(crate) enum Step {
    Release(Vec<Note>),
    Cancel,
    Refresh,
    Wait(Option<Timestamp>),
}

/// Removes the finalizer and publishes the notes; no effect if the finalizer was removed already.
pub(crate) fn release(f: &Observation<'_>, notes: Vec<Note>) -> Decision {
    if !f.has_finalizer() && !f.o.vanished {
        return Decision::quiet();
    }
    Decision {
        notes,
        ..Decision::act(Effect::Release { end: None })
    }
}
