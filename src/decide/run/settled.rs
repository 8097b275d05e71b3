//! Runs for which nothing is left to do. A process that has many of them keeps only what identifies them.

use jiff::Timestamp;

use crate::decide::{Decision, Effect, Observed, observation::Observation};

use super::ttl;

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
    let Decision { status, effect, .. } = super::decide(observed);
    let rests = status.is_none() && matches!(effect, None | Some(Effect::Delete));
    rests.then(|| Settled {
        expires: ttl::due(&f),
    })
}
