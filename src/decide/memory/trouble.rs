//! Consecutive failures of one kind of call.

use jiff::Timestamp;

use crate::decide::response::{
    answer::Failure,
    classify::{Call, Class},
};

/// Consecutive failures of one kind of call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The call that failed.
    pub call: Call,
    /// Class of the last failure.
    pub class: Class,
    /// The last failure.
    pub failure: Failure,
    /// Number of consecutive failures.
    pub count: u32,
    /// Time of the last failure, by process time.
    pub at: Timestamp,
    /// Time of the last failure, by the wall clock.
    pub wall: Timestamp,
    /// Earliest next attempt by backoff and the answer's `Retry-After`, by process time.
    pub next: Timestamp,
    /// The Workspace session that the call used.
    pub session: u64,
}

/// Consecutive failed GETs that are not worth a write: a restart of the service is over by then.
const SILENT_FAILURES: u32 = 2;

impl Trouble {
    /// Whether this is a short failure of the mirror that the next attempt most likely ends. A first 401 is one too:
    /// the Workspace's status is about to show the error of the token.
    pub fn passing(&self) -> bool {
        let worth = match self.class {
            Class::Retry => SILENT_FAILURES,
            Class::Unauthorized => 1,
            Class::InProgress | Class::Violation | Class::Refused(_) | Class::Final(_) => 0,
        };
        self.call == Call::Get && self.count <= worth
    }
}
