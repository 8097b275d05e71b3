//! A token bucket: so many at once, then one in a while.

use std::time::Duration;

use jiff::Timestamp;

use super::memory::later;

/// How much may be done: `burst` at once, then one in `refill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) burst: u32,
    pub(super) refill: Duration,
}

/// A bucket that is full at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowance {
    /// When it is full again.
    full_at: Option<Timestamp>,
}

impl Allowance {
    /// When a token is there; `now` or later.
    pub(super) fn next(self, bounds: Bounds, now: Timestamp) -> Timestamp {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        let spare = bounds.refill * bounds.burst.saturating_sub(1);
        full_at.checked_sub(spare).map_or(now, |at| at.max(now))
    }

    /// Takes a token; false, if there is none.
    pub(super) fn take(&mut self, bounds: Bounds, now: Timestamp) -> bool {
        let enough = self.next(bounds, now) <= now;
        if enough {
            let full_at = self.full_at.map_or(now, |at| at.max(now));
            self.full_at = Some(later(full_at, bounds.refill));
        }
        enough
    }
}
