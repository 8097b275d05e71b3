//! How many calls of one Workspace may be under way, and when none may start: a window that grows with
//! every answer, a pause after a 429 (rule 10), and a short one where nobody answers. Pure: whoever asks
//! brings the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::decide::{
    answer::{Failure, FailureKind},
    backoff,
};

/// Calls of one Workspace that are under way at the same time, at most. Enough for some hundred calls a
/// second at usual latencies, few enough that a Workspace that hangs holds few connections.
pub(super) const WIDEST: u32 = 32;
/// A pause shorter than this is not worth a word in every Run that waits.
const SILENT: Duration = Duration::from_secs(5);

/// So many calls in a row without an answer look like an outage; the Workspace's check will say.
const OUTAGE: u32 = 3;
/// The longest pause after calls without an answer, as an attempt of the backoff: 1 to 2 s. It only
/// bridges the time until the check: where that goes well, other calls may be fine.
const OUTAGE_ATTEMPTS: u32 = 2;

/// What the end of a call says about the service's capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing: it was not sent, or its answer says that something else is wrong.
    #[default]
    Untold,
    /// The service serves.
    Served,
    /// No answer, or a proxy's: the service may be down.
    Lost,
    /// 429 (rule 10), with what its `Retry-After` asks for, unclamped.
    TooMany(Option<Duration>),
}

/// Why a pause begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A 429.
    TooMany,
    /// Several calls in a row got no answer.
    Lost,
}

impl Outcome {
    /// What an answer says. A 429 marked `retryable: false` speaks of its own request alone.
    pub(super) fn of<T>(answer: Result<&T, &Failure>) -> Self {
        let Err(failure) = answer else {
            return Self::Served;
        };
        match (failure.kind, failure.http_status) {
            (FailureKind::Transport, _) | (FailureKind::Bare, Some(500..=599)) => Self::Lost,
            (FailureKind::Problem | FailureKind::Bare, Some(429)) => match failure.retryable {
                Some(false) => Self::Served,
                Some(true) | None => Self::TooMany(failure.retry_after),
            },
            (FailureKind::Problem, Some(400 | 402..=499)) => Self::Served,
            _ => Self::Untold,
        }
    }
}

/// Goes with a call from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Started {
    /// The pauses before it.
    pauses: u64,
}

/// The calls under way and the bound on them.
#[derive(Debug)]
pub(super) struct Window {
    size: u32,
    under_way: u32,
    /// Those of them that were started since the last pause began.
    fresh: u32,
    pauses: u64,
    /// After a pause one call goes first, until one was served.
    one_first: bool,
    /// 429s in a row that began a pause.
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

impl Window {
    /// Wide open: a service is expected to serve until it says otherwise.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            size: WIDEST,
            under_way: 0,
            fresh: 0,
            pauses: 0,
            one_first: false,
            refusals: 0,
            losses: 0,
            pause: None,
            seed,
        }
    }

    /// The service is back after an outage: one call, then one more with each answer.
    pub(super) fn start_slowly(&mut self) {
        self.size = 1;
    }

    /// How many calls may start now.
    pub(super) fn room(&self, now: Instant) -> u32 {
        if self.paused_until(now).is_some() {
            return 0;
        }
        if self.one_first {
            1_u32.saturating_sub(self.fresh)
        } else {
            self.size.saturating_sub(self.under_way)
        }
    }

    /// Until when no call starts, if that is so.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.pause.map(|p| p.until).filter(|until| *until > now)
    }

    /// The same, where the pause is long enough to be told of.
    pub(super) fn long_pause(&self, now: Instant) -> Option<Instant> {
        let until = self.paused_until(now)?;
        self.pause.filter(|pause| pause.long).map(|_| until)
    }

    /// A call starts.
    pub(super) fn start(&mut self) -> Started {
        self.under_way = self.under_way.saturating_add(1);
        self.fresh = self.fresh.saturating_add(1);
        Started {
            pauses: self.pauses,
        }
    }

    /// A call ended. Returns why a pause begins, if one does.
    pub(super) fn end(&mut self, call: Started, outcome: Outcome, now: Instant) -> Option<Cause> {
        self.under_way = self.under_way.saturating_sub(1);
        // What becomes of a call from before the pause says nothing of the time after it.
        let fresh = call.pauses == self.pauses;
        if fresh {
            self.fresh = self.fresh.saturating_sub(1);
        }
        match outcome {
            Outcome::Served if fresh => {
                self.one_first = false;
                self.refusals = 0;
                self.losses = 0;
                self.size = self.size.saturating_add(1).min(WIDEST);
                None
            }
            Outcome::TooMany(asked) if fresh => {
                self.refusals = self.refusals.saturating_add(1);
                self.size = (self.size / 2).max(1);
                self.begin_pause(self.refusals, asked, now);
                Some(Cause::TooMany)
            }
            // Its pause has begun already; at most it takes longer.
            Outcome::TooMany(asked) => {
                self.pause_for(backoff::asked(asked), now);
                None
            }
            Outcome::Lost if fresh => {
                self.losses = self.losses.saturating_add(1);
                if self.losses < OUTAGE {
                    return None;
                }
                self.size = 1;
                let attempt = self.losses - OUTAGE + 1;
                self.begin_pause(attempt.min(OUTAGE_ATTEMPTS), None, now);
                Some(Cause::Lost)
            }
            Outcome::Untold | Outcome::Served | Outcome::Lost => None,
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
                long: wait >= SILENT,
            });
        }
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
