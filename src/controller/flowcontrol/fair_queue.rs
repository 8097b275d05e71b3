//! Fair queue for the calls of one Workspace: round-robin by namespace, first in, first out within one, as fast as
//! its concurrency limit and its rate limit allow. Pure: the caller brings the time.

use tokio::time::Instant;

use crate::api::workspace::RateLimit;

use super::{
    concurrency::{CallToken, Cause, Concurrency, Outcome},
    rate_limit::Rate,
    round_robin::RoundRobin,
};

/// Result of a change.
#[derive(Debug)]
pub(crate) struct Due<T> {
    /// The waiters that may call now.
    pub(crate) go: Vec<(T, CallToken)>,
    /// Time of the next attempt, if nothing changes before.
    pub(crate) again: Option<Instant>,
}

/// The queue of one Workspace.
pub(crate) struct FairQueue<T> {
    concurrency: Concurrency,
    rate: Rate,
    /// A lane for each namespace.
    queue: RoundRobin<T>,
    /// Known number of waiters in the queue that have given up.
    abandoned: usize,
    gave_up: fn(&T) -> bool,
}

impl<T> FairQueue<T> {
    /// An empty queue. `gave_up` tests whether a waiter has given up.
    pub(crate) fn new(concurrency: Concurrency, gave_up: fn(&T) -> bool) -> Self {
        Self {
            concurrency,
            rate: Rate::default(),
            queue: RoundRobin::new(),
            abandoned: 0,
            gave_up,
        }
    }

    /// The concurrency limit.
    pub(crate) fn concurrency(&self) -> &Concurrency {
        &self.concurrency
    }

    /// Starts again with one call at a time.
    pub(crate) fn start_slowly(&mut self) {
        self.concurrency.start_slowly();
    }

    /// Sets the rate limit.
    pub(crate) fn limit(&mut self, limit: Option<RateLimit>) {
        self.rate.limit(limit);
    }

    /// Number of waiters that have not given up.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len().saturating_sub(self.abandoned)
    }

    /// Starts a call if there is room and the queue is empty.
    pub(crate) fn start_at_once(&mut self, now: Instant) -> Option<CallToken> {
        self.discard_abandoned();
        let free = self.queue.is_empty() && self.concurrency.room(now) > 0 && self.rate.take(now);
        free.then(|| self.concurrency.start())
    }

    /// Adds a waiter to the end of its namespace's lane.
    pub(crate) fn enqueue(&mut self, namespace: &str, waiter: T) {
        self.queue.push_back(namespace, waiter);
    }

    /// Counts a waiter that has given up. If most have, they are removed from the queue: Runs that repeatedly ask and
    /// give up leave little behind.
    pub(crate) fn abandon(&mut self) {
        self.abandoned += 1;
        if self.abandoned * 2 > self.queue.len() {
            let gave_up = self.gave_up;
            self.queue.retain(|waiter| !gave_up(waiter));
            self.abandoned = 0;
        }
    }

    /// Records the end of a call. Returns the cause of a pause that begins.
    pub(crate) fn end(&mut self, call: CallToken, outcome: Outcome, now: Instant) -> Option<Cause> {
        self.concurrency.end(call, outcome, now)
    }

    /// Returns an unused permission for a call.
    pub(crate) fn give_back(&mut self, call: CallToken, now: Instant) {
        self.concurrency.end(call, Outcome::Unknown, now);
        self.rate.give_back();
    }

    /// Starts as many calls as the limits allow.
    pub(crate) fn due(&mut self, now: Instant) -> Due<T> {
        let mut go = Vec::new();
        self.discard_abandoned();
        while !self.queue.is_empty()
            && self.concurrency.room(now) > 0
            && self.rate.take(now)
            && let Some(waiter) = self.queue.pop_front()
        {
            go.push((waiter, self.concurrency.start()));
            self.discard_abandoned();
        }
        let paused = self.concurrency.paused_until(now);
        let again = paused.max(self.rate.held_until(now));
        Due {
            go,
            again: again.filter(|_| !self.queue.is_empty()),
        }
    }

    /// Removes waiters that gave up from the front; no namespace loses its position by that.
    fn discard_abandoned(&mut self) {
        while self.queue.front().is_some_and(self.gave_up) {
            self.queue.discard_front();
            self.abandoned = self.abandoned.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
