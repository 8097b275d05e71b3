//! Last reading of the run at the service, and results of its cancellation.

use jiff::Timestamp;

use crate::api::Reason;
use crate::decide::time::seconds_since;

/// A reading of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The state, verbatim, if the answer named one.
    pub state: Option<String>,
    /// The answer's request id.
    pub request_id: Option<String>,
    /// Time of the reading, by process time.
    pub at: Timestamp,
    /// Time of the reading, by the wall clock.
    pub wall: Timestamp,
    /// A GET read it; the answer to a create or a cancel counts less.
    pub by_get: bool,
    /// The Workspace session that it was read with.
    pub session: u64,
}

/// Results of the cancellation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancel {
    /// Time of the last accepted cancel, by the wall clock.
    pub accepted_at: Option<Timestamp>,
    /// Time of the last answered cancel, accepted or refused, by process time.
    pub answered_at: Option<Timestamp>,
    /// Number of answered cancels.
    pub count: u32,
    /// Reason of the refusal, if the last answer was one.
    pub refused: Option<Reason>,
    /// A GET after the last answer has read the run.
    pub read_since: bool,
    /// A GET after the last answer denied the run's existence.
    pub denied_since: bool,
}

/// The confirmation of a 404.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotFound {
    /// Confirmations, at least [`CONFIRM_APART`] seconds apart.
    pub count: u32,
    /// Time of the last confirmation, by process time.
    pub at: Option<Timestamp>,
}

/// Minimum seconds between two 404s that count: a service that loses its index for a moment must not fail every Run.
pub const CONFIRM_APART: i64 = 60;

/// 404s that must agree before a run counts as lost.
const CONFIRMATIONS: u32 = 3;

impl NotFound {
    /// Counts a 404 if it is far enough from the last one.
    pub(super) fn confirm(&mut self, now: Timestamp) {
        let apart = |at| seconds_since(at, now) >= CONFIRM_APART;
        if self.at.is_none_or(apart) {
            self.count = self.count.saturating_add(1);
            self.at = Some(now);
        }
    }

    /// Whether the run counts as lost.
    pub(crate) fn confirmed(&self) -> bool {
        self.count >= CONFIRMATIONS
    }
}
