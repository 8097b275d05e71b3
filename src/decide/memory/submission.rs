//! The owner's knowledge about the POSTs under an intent, and the proof that they made no run.

/// The owner's knowledge about the POSTs under an intent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Submission {
    /// Epoch of the intent that this process wrote, to which all other fields refer; 0 before.
    pub epoch: i64,
    /// No other process ever sent a POST for this object, or its POSTs are proved to have made no run.
    pub sole: bool,
    /// An attempt was not answered by a 4xx problem other than an idempotency conflict.
    pub doubt: bool,
    /// A POST was started and its answer was not recorded.
    pub open: bool,
    /// POSTs under this intent.
    pub attempts: u32,
}

impl Submission {
    /// Whether every attempt, if any, was answered by a proof that it made no run. One that was given up in the middle,
    /// or is in flight, proves nothing.
    pub fn made_none(&self) -> bool {
        self.sole && !self.doubt && !self.open
    }

    /// A POST is about to be sent.
    pub(super) fn started(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
        // The POST before was given up in the middle: its outcome is unknown.
        self.doubt |= self.open;
        self.open = true;
    }
}
