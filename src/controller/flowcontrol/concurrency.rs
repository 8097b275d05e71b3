//! Concurrency limit on the calls of one Workspace. The limit grows with every answer. A 429 begins a pause (rule 10);
//! several calls without an answer begin a short one. Pure: the caller brings the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::controller::metrics::PauseCause;
use crate::decide::{backoff, failure::Capacity};

/// Limit on the calls of one Workspace in flight. Enough for some hundred calls a second at usual latencies; few enough
/// that a hanging Workspace holds few connections.
pub(crate) const MAX_IN_FLIGHT: u32 = 32;
/// A shorter pause is not shown in the waiting Runs.
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// Calls in a row without an answer that count as an outage, until the Workspace's check decides.
const OUTAGE: u32 = 3;
/// Longest pause after calls without an answer, as an attempt of the backoff: 1 to 2 s. It only bridges the time until
/// the check: if that succeeds, other calls may succeed too.
const OUTAGE_ATTEMPTS: u32 = 2;

/// Token that a call carries from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallToken {
    /// Number of pauses before the call started.
    pauses: u64,
}

/// The calls in flight and their limit.
#[derive(Debug)]
pub(crate) struct Concurrency {
    size: u32,
    in_flight: u32,
    /// Calls in flight that started since the last pause began.
    fresh: u32,
    pauses: u64,
    /// Whether only one call may start, until one was served after the pause.
    one_first: bool,
    /// 429s in a row that each began a pause.
    refusals: u32,
    /// Calls in a row without an answer.
    losses: u32,
    pause: Option<Pause>,
    /// Spreads the pauses of different Workspaces.
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Instant,
    long: bool,
}

impl Concurrency {
    /// Starts with the highest limit: a service is expected to serve until it refuses.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            size: MAX_IN_FLIGHT,
            in_flight: 0,
            fresh: 0,
            pauses: 0,
            one_first: false,
            refusals: 0,
            losses: 0,
            pause: None,
            seed,
        }
    }

    /// Starts with one call after an outage; each answer adds one.
    pub(crate) fn start_slowly(&mut self) {
        self.size = 1;
    }

    /// Number of calls that may start now.
    pub(crate) fn room(&self, now: Instant) -> u32 {
        if self.paused_until(now).is_some() {
            return 0;
        }
        if self.one_first {
            1_u32.saturating_sub(self.fresh)
        } else {
            self.size.saturating_sub(self.in_flight)
        }
    }

    /// End of the current pause, if there is one.
    pub(crate) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.pause.map(|p| p.until).filter(|until| *until > now)
    }

    /// The same, if the pause is long enough to be shown.
    pub(crate) fn long_pause(&self, now: Instant) -> Option<Instant> {
        let until = self.paused_until(now)?;
        self.pause.filter(|pause| pause.long).map(|_| until)
    }

    /// Records the start of a call.
    pub(crate) fn start(&mut self) -> CallToken {
        self.in_flight = self.in_flight.saturating_add(1);
        self.fresh = self.fresh.saturating_add(1);
        CallToken {
            pauses: self.pauses,
        }
    }

    /// Records the end of a call. Returns the cause of a pause that begins.
    pub(crate) fn end(
        &mut self,
        call: CallToken,
        capacity: Capacity,
        now: Instant,
    ) -> Option<PauseCause> {
        self.in_flight = self.in_flight.saturating_sub(1);
        // The outcome of a call from before the pause is no evidence about the time after it.
        let fresh = call.pauses == self.pauses;
        if fresh {
            self.fresh = self.fresh.saturating_sub(1);
        }
        match capacity {
            Capacity::Served if fresh => {
                self.one_first = false;
                self.refusals = 0;
                self.losses = 0;
                self.size = self.size.saturating_add(1).min(MAX_IN_FLIGHT);
                None
            }
            Capacity::TooMany(asked) if fresh => {
                self.refusals = self.refusals.saturating_add(1);
                self.size = (self.size / 2).max(1);
                self.begin_pause(self.refusals, asked, now);
                Some(PauseCause::TooManyRequests)
            }
            // Its pause has already begun; it may only become longer.
            Capacity::TooMany(asked) => {
                self.pause_for(backoff::asked(asked), now);
                None
            }
            Capacity::Lost if fresh => {
                self.losses = self.losses.saturating_add(1);
                if self.losses < OUTAGE {
                    return None;
                }
                self.size = 1;
                let attempt = self.losses - OUTAGE + 1;
                self.begin_pause(attempt.min(OUTAGE_ATTEMPTS), None, now);
                Some(PauseCause::NoAnswer)
            }
            Capacity::Unknown | Capacity::Served | Capacity::Lost => None,
        }
    }

    fn begin_pause(&mut self, attempt: u32, asked: Option<Duration>, now: Instant) {
        self.pauses += 1;
        self.fresh = 0;
        self.one_first = true;
        let seed = self.seed.wrapping_add(self.pauses);
        self.pause_for(backoff::delay(attempt, asked, seed), now);
    }

    fn pause_for(&mut self, wait: Duration, now: Instant) {
        let until = now + wait;
        if self.pause.is_none_or(|pause| pause.until < until) {
            self.pause = Some(Pause {
                until,
                long: wait >= LONG_PAUSE,
            });
        }
    }
}

#[cfg(test)]
mod tests;
