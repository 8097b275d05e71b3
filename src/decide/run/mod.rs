//! Policy of one Run: from the inputs to a status and one effect.

mod ended;
mod schedule;
mod status;
mod submitted;
mod unsubmitted;

use jiff::Timestamp;

use super::{
    conditions::Conditions,
    decision::{Decision, Effect},
    details, events,
    facts::Facts,
    inputs::Inputs,
    messages, ttl,
};
use crate::api::RunStatus;

pub fn decide(inputs: &Inputs<'_>) -> Decision {
    let facts = Facts::of(inputs);
    let mut decision = next(&facts);
    hold_status(&facts, &mut decision);
    hold_refused(&facts, &mut decision);
    let before = facts.status();
    if !inputs.deleted_without_release {
        let after = decision.status.as_ref().unwrap_or(before);
        let (contract, now) = (inputs.contract, inputs.now);
        let changes = events::of_run(before, after, contract, now, inputs.wall);
        let latest = events::of_service(before, after, now);
        let latest = latest.filter(|_| inputs.settings.service_events);
        decision.events.extend(changes.into_iter().chain(latest));
        if decision.status_due(facts.run, false).is_some() {
            decision.events.extend(details::refused(&facts));
        }
    }
    let counted = |s: &RunStatus| s.event_count != before.event_count;
    if decision.status.as_ref().is_some_and(counted) {
        let buffer = &inputs.memory.event_buffer;
        decision.shown = if facts.ended() {
            buffer.events
        } else {
            buffer.shown()
        };
    }
    decision
}

/// A status that the API server refused waits for its next attempt. Meanwhile a run whose id is stored is still read and,
/// for a deletion or `spec.cancel`, cancelled.
fn hold_status(facts: &Facts<'_>, decision: &mut Decision) {
    let refused = facts.memory.refused_status.as_ref();
    let Some(refused) = refused.filter(|refused| refused.again > facts.now) else {
        return;
    };
    if decision
        .status_due(facts.run, facts.deleted_without_release)
        .is_none()
    {
        return;
    }
    decision.wants_slot = false;
    let known = facts.status().run_id.is_some();
    let asked = facts.deleting() || facts.spec().cancelled();
    decision.status = None;
    decision.effect.take_if(|effect| match effect {
        Effect::Refresh { .. } => !known,
        Effect::Cancel { .. } => !(known && asked),
        _ => true,
    });
    decision.requeue_at = decision.requeue_at.into_iter().chain([refused.again]).min();
}

/// A write of the metadata that the API server refused waits for its next attempt. Before there is a run the status shows
/// why; later a run's own status does, and after the end an Event alone.
fn hold_refused(facts: &Facts<'_>, decision: &mut Decision) {
    let writes = decision
        .effect
        .as_ref()
        .is_some_and(|effect| effect.call().is_none());
    let Some(refused) = facts.write_waits().filter(|_| writes) else {
        return;
    };
    decision.effect = None;
    decision.wants_slot = false;
    decision.requeue_at = decision.requeue_at.into_iter().chain([refused.again]).min();
    if !facts.ended() && facts.run_id().is_none() {
        let why = messages::write_refused(refused, "Nothing is sent to the service meanwhile.");
        decision.status = Some(facts.status_with(&Conditions::Pending(why)));
    }
}

fn next(facts: &Facts<'_>) -> Decision {
    if facts.ended() {
        return ended::decide(facts);
    }
    match facts.run_id() {
        Some(run_id) => submitted::decide(facts, run_id),
        None => unsubmitted::decide(facts),
    }
}

/// A Run that has ended and was released: policy does nothing more before its TTL, unless the object changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Time of the wall clock at which its TTL deletes it; `None` without a TTL, or if a GitOps tool keeps it.
    pub expires: Option<Timestamp>,
}

/// Asks policy itself whether it has a status or an effect left. An Event that is lost is no reason to keep a Run.
pub fn settled(inputs: &Inputs<'_>) -> Option<Settled> {
    let facts = Facts::of(inputs);
    if !facts.ended() || facts.has_finalizer() || facts.deleting() {
        return None;
    }
    let Decision { status, effect, .. } = decide(inputs);
    let rests = status.is_none() && matches!(effect, None | Some(Effect::Delete));
    let expires = ttl::due(&facts);
    rests.then_some(Settled { expires })
}
