//! The memory of one object.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Contract, Intent, Run, RunStatus, contract::StateClass};
use crate::decide::{
    event_buffer::{EventBuffer, Received},
    failure::{Call, CallFailures},
    last_events::LastEvents,
    token_bucket::{Bounds, TokenBucket},
};

use super::{
    remote::{Cancel, NotFound, Seen},
    submission::Submission,
};

/// Limit of the GETs that hints cause for one run.
const HINTS: Bounds = Bounds {
    burst: 3,
    refill: Duration::from_secs(1),
};

/// The memory of one object, kept by uid.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The intent as this process last wrote it; used to restore an annotation that a replace stripped.
    pub intent: Option<Intent>,
    /// Knowledge about the POSTs under this intent.
    pub submission: Submission,
    /// The runId, from the answer until it is in the status.
    pub run_id: Option<String>,
    /// The latest reading of the run.
    pub seen: Option<Seen>,
    /// A GET has shown that the run has ended.
    pub ended: bool,
    /// The consecutive failures, at most one entry per kind of call.
    pub failures: Vec<CallFailures>,
    /// The service's events, until they are in the status.
    pub event_buffer: EventBuffer,
    /// Progress of the streams.
    pub last_events: LastEvents,
    /// Results of the cancellation.
    pub cancel: Cancel,
    /// Consecutive 404s of GETs, a minute apart.
    pub not_found: NotFound,
    /// Consecutive polls without a change.
    pub quiet_polls: u32,
    /// Consecutive GETs that did not show the end that the latest event names: a lagging replica answers them.
    pub lagging: u32,
    /// Remaining allowance of GETs for hints.
    hints: TokenBucket,
    /// Time at which this process last wrote the status, by process time.
    pub written_at: Option<Timestamp>,
}

impl Memory {
    /// The memory of a process that reads the object for the first time.
    pub fn of(run: &Run) -> Self {
        let mut memory = Self::default();
        if let Some(status) = &run.status {
            memory.event_buffer.remember(status);
        }
        memory
    }

    /// Records an event of the stream. Returns whether it is new.
    pub fn received(&mut self, event: &Received, contract: &Contract, wall: Timestamp) -> bool {
        let named = contract.event_state_of(&event.data);
        let seen = self.seen.as_ref().and_then(|seen| seen.state.as_deref());
        let new = self
            .event_buffer
            .receive(event, named.as_deref(), seen, wall);
        if new {
            let class = named.map(|state| contract.state(&state));
            self.last_events
                .received(class.and_then(StateClass::terminal).is_some());
        }
        new
    }

    /// The state of the latest reading, if it named one.
    pub(crate) fn seen_state(&self) -> Option<&str> {
        self.seen.as_ref()?.state.as_deref()
    }

    /// Called when another process or a person wrote the status. This process's reading may be older than the one
    /// mirrored there and must not overwrite it.
    pub fn overtaken(&mut self, status: &RunStatus) {
        self.event_buffer.overtaken(status);
        self.seen = None;
        self.cancel.read_since = false;
        self.event_buffer.uncover();
    }

    /// Whether it is proved by this process's own POSTs, or by a refusal of the bytes, that no run was made.
    pub(crate) fn knows_none_made(&self) -> bool {
        let refused_bytes = self
            .failures_of(Call::Create)
            .is_some_and(|failed| failed.last.refuses_the_bytes());
        self.submission.made_none() || refused_bytes
    }

    /// Earliest time of the next GET for a hint; `now` or later.
    pub(crate) fn hint_due(&self, now: Timestamp) -> Timestamp {
        self.hints.next(HINTS, now)
    }

    /// A GET for a hint starts.
    pub(super) fn hint_taken(&mut self, now: Timestamp) {
        self.hints.take(HINTS, now);
    }

    /// The consecutive failures of `call`.
    pub fn failures_of(&self, call: Call) -> Option<&CallFailures> {
        self.failures.iter().find(|failed| failed.last.call == call)
    }

    pub(super) fn succeeded(&mut self, call: Call) {
        self.failures.retain(|failed| failed.last.call != call);
    }
}
