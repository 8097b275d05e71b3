//! Policy of one Run: from the observed state to a status and one effect.
//!
//! Imports the inputs of a decision (observation, memory, conditions, messages, events, request and response) and the
//! rules of the Run's Workspace. Nothing below imports it.

mod intent;
pub mod pinning;
mod refusal;
mod remote_state;
mod schedule;
mod settled;
mod staleness;
mod status;
mod step;
mod submit;
mod submitted;
mod terminal;
mod ttl;
mod unsubmitted;
mod waiting;

pub use settled::{Settled, settled};

use super::{decision::Decision, events, observation::Observation, observed::Observed};
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
        return terminal::decide(f);
    }
    match f.run_id() {
        Some(run_id) => submitted::decide(f, run_id),
        None => unsubmitted::decide(f),
    }
}
