//! Policy of one Run: from the observed state to a status and one effect.

mod ended;
mod schedule;
mod status;
mod submitted;
mod unsubmitted;

use jiff::Timestamp;

use super::{
    decision::{Decision, Effect},
    events,
    facts::Observation,
    inputs::Observed,
    ttl,
};
use crate::api::RunStatus;

/// Decides the next status and effect for one Run.
pub fn decide(observed: &Observed<'_>) -> Decision {
    let f = Observation::gather(observed);
    let mut decision = next(&f);
    let before = f.status();
    // No status is written for a deleted object.
    if !observed.vanished {
        let after = decision.status.as_ref().unwrap_or(before);
        let (contract, now) = (observed.contract, observed.now);
        let changes = events::of_run(before, after, contract, now, observed.wall);
        decision.events.extend(changes);
        if observed.settings.service_events {
            let latest = events::of_service(before, after, now);
            decision.events.extend(latest);
        }
    }
    let counted = |s: &RunStatus| s.event_count != before.event_count;
    if decision.status.as_ref().is_some_and(counted) {
        let buffer = &observed.memory.event_buffer;
        decision.shown = if f.ended() {
            buffer.received()
        } else {
            buffer.shown()
        };
    }
    decision
}

fn next(f: &Observation<'_>) -> Decision {
    if f.ended() {
        return ended::decide(f);
    }
    match f.run_id() {
        Some(run_id) => submitted::decide(f, run_id),
        None => unsubmitted::decide(f),
    }
}

/// A Run that has ended and was released, and for which policy does nothing more before its TTL, unless its object
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Time of the wall clock at which its TTL deletes it; `None` without a TTL, or if a GitOps tool keeps it.
    pub expires: Option<Timestamp>,
}

/// Whether a Run is settled. This is no rule of its own: policy itself is asked whether it has a status or an effect left.
/// An Event that is lost is no reason to keep it.
pub fn settled(observed: &Observed<'_>) -> Option<Settled> {
    let f = Observation::gather(observed);
    if !f.ended() || f.has_finalizer() || f.deleting() {
        return None;
    }
    let Decision { status, effect, .. } = decide(observed);
    let rests = status.is_none() && matches!(effect, None | Some(Effect::Delete));
    rests.then(|| Settled {
        expires: ttl::due(&f),
    })
}
