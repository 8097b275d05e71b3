//! Runs for which nothing is left to do. A process that has many of them keeps only what identifies them.

use jiff::Timestamp;

use crate::decide::{
    Decision, Effect, Observed, events::transitions::RECENT, observation::Observation, time::later,
};

use super::ttl;

/// A Run that has ended and was released, and for which policy does nothing more before its TTL, unless its object
/// changes. Both times are of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Time from which this holds: until then Events that an earlier process may have lost are published again.
    pub from: Timestamp,
    /// Time at which its TTL deletes it; `None` without a TTL, or if a GitOps tool keeps it.
    pub expires: Option<Timestamp>,
}

/// Whether a Run is settled. This is no rule of its own: policy itself is asked whether it has a status, an effect or an
/// Event left.
pub fn settled(observed: &Observed<'_>) -> Option<Settled> {
    let f = Observation::gather(observed);
    if !f.ended() || f.has_finalizer() || f.deleting() {
        return None;
    }
    let decision = super::decide(observed);
    if !rests(&decision) {
        return None;
    }
    let from = if decision.events.is_empty() {
        observed.wall
    } else {
        let old = later(f.status().completion_time.as_ref()?.0, RECENT);
        let then = super::decide(&Observed {
            wall: old.max(observed.wall),
            ..*observed
        });
        (rests(&then) && then.events.is_empty()).then_some(old)?
    };
    Some(Settled {
        from,
        expires: ttl::due(&f),
    })
}

/// Whether nothing but the TTL is left to do to the object.
fn rests(decision: &Decision) -> bool {
    decision.status.is_none() && matches!(decision.effect, None | Some(Effect::Delete))
}
