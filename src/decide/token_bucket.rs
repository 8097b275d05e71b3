//! A token bucket: a burst, then one token per interval.

use std::time::Duration;

use jiff::Timestamp;

use super::time::later;

/// Limit: `burst` at once, then one per `refill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) burst: u32,
    pub(crate) refill: Duration,
}

/// A bucket that starts full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// Time at which it is full again.
    full_at: Option<Timestamp>,
}

impl TokenBucket {
    /// Time at which a token is available; `now` or later.
    pub(crate) fn next(self, bounds: Bounds, now: Timestamp) -> Timestamp {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        let spare = bounds.refill * bounds.burst.saturating_sub(1);
        full_at.checked_sub(spare).map_or(now, |at| at.max(now))
    }

    /// Takes a token; false if there is none.
    pub(crate) fn take(&mut self, bounds: Bounds, now: Timestamp) -> bool {
        let enough = self.next(bounds, now) <= now;
        if enough {
            let full_at = self.full_at.map_or(now, |at| at.max(now));
            self.full_at = Some(later(full_at, bounds.refill));
        }
        enough
    }

    /// Puts back a token that was not used.
    pub(crate) fn give_back(&mut self, bounds: Bounds) {
        let full_at = self.full_at;
        self.full_at = full_at.and_then(|at| at.checked_sub(bounds.refill).ok());
    }
}
