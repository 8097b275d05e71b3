//! The next step for a run at the service.

use jiff::Timestamp;

use crate::decide::{
    decision::{Decision, Effect},
    events::EventDraft,
    observation::Observation,
};

/// The next step for a run.
pub(crate) enum Step {
    Release(Vec<EventDraft>),
    Cancel,
    Refresh,
    Wait(Option<Timestamp>),
}

/// Removes the finalizer and publishes the Events; no effect if the finalizer was removed already.
pub(crate) fn release(f: &Observation<'_>, events: Vec<EventDraft>) -> Decision {
    if !f.has_finalizer() && !f.o.vanished {
        return Decision::quiet();
    }
    Decision {
        events,
        ..Decision::act(Effect::Release { end: None })
    }
}
