//! Fair queue for the calls of one Workspace: round-robin by namespace, first in, first out within one, as fast as
//! its concurrency limit and its rate limit allow. Pure: the caller brings the time.

use tokio::time::Instant;

use crate::decide::failure::Capacity;

use super::{
    concurrency::{CallToken, Concurrency},
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
    pub(super) concurrency: Concurrency,
    pub(super) rate: Rate,
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

    /// Number of waiters that have not given up.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len().saturating_sub(self.abandoned)
    }

    /// Starts a call if there is room and the queue is empty.
    pub(crate) fn start_at_once(&mut self, now: Instant) -> Option<CallToken> {
        self.discard_abandoned();
        if self.queue.is_empty() {
            self.start(now)
        } else {
            None
        }
    }

    /// Starts a call if the limits allow one.
    fn start(&mut self, now: Instant) -> Option<CallToken> {
        let free = self.concurrency.room(now) > 0 && self.rate.take(now);
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

    /// Returns an unused permission for a call.
    pub(crate) fn give_back(&mut self, call: CallToken, now: Instant) {
        self.concurrency.end(call, Capacity::Unknown, now);
        self.rate.give_back();
    }

    /// Starts as many calls as the limits allow.
    pub(crate) fn due(&mut self, now: Instant) -> Due<T> {
        let mut go = Vec::new();
        self.discard_abandoned();
        while !self.queue.is_empty()
            && let Some(call) = self.start(now)
            && let Some(waiter) = self.queue.pop_front()
        {
            go.push((waiter, call));
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
        let discarded = self.queue.discard_while(self.gave_up);
        self.abandoned = self.abandoned.saturating_sub(discarded);
    }
}

#[cfg(test)]
mod tests;
