//! The gate that every call for a Workspace's Runs passes. It limits the concurrency, applies `spec.rateLimit`, and
//! admits no call during a pause: after a 429 or while the service gives no answers. One Workspace's failures affect
//! only its own gate.
//!
//! # Guarantees
//! - Fair by namespace: the next call of a ClusterWorkspace's tenant waits for one call of each other tenant, not for
//!   their 10,000 Runs. Within a namespace the order is FIFO.
//! - A waiting call is a task parked on its permit. One that gives up delays no other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, futures::Notified, oneshot};
use tokio::time::Instant;

use crate::api::{WorkspaceKey, workspace::RateLimit};
use crate::clock::now;
use crate::controller::metrics::{Metrics, PauseCause, gauge};
use crate::decide::{backoff, failure::Capacity, time::later};
use crate::util::lock;

use super::{
    concurrency::{CallToken, Concurrency},
    fair_queue::FairQueue,
};

/// The gate of one Workspace. It outlives checks and tokens.
pub struct Gate {
    key: WorkspaceKey,
    state: Mutex<State>,
    /// Notified when a pause begins that is long enough to be shown.
    long_pauses: Notify,
    metrics: Arc<Metrics>,
}

struct State {
    queue: FairQueue<oneshot::Sender<Permit>>,
    /// Time of the earliest timer.
    timer: Option<Instant>,
    /// This gate's share of the metric of waiting calls.
    shown: i64,
}

/// Permit for one call. Released when dropped; it counts as unused unless [`Permit::begin`] was called.
pub(crate) struct Permit {
    gate: Arc<Gate>,
    call: CallToken,
    begun: bool,
    outcome: Capacity,
}

impl Permit {
    /// Marks the start of the call.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Marks the end of the call, with this outcome.
    pub(crate) fn ended(mut self, outcome: Capacity) {
        self.begun = true;
        self.outcome = outcome;
    }

    /// Whether it is a permit of this gate.
    pub(crate) fn is_of(&self, gate: &Arc<Gate>) -> bool {
        Arc::ptr_eq(&self.gate, gate)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave(self.call, self.begun, self.outcome);
    }
}

/// A place in the queue. Dropped, it is abandoned.
struct Waiter {
    gate: Arc<Gate>,
    granted: oneshot::Receiver<Permit>,
    done: bool,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.done {
            // Closed first, so that the queue finds it closed; a permit in transit is released.
            self.granted.close();
            self.gate.change(|queue, _| queue.abandon());
        }
    }
}

impl Gate {
    /// An open gate.
    pub(crate) fn new(key: WorkspaceKey, metrics: Arc<Metrics>) -> Self {
        // The seed spreads the pauses of different Workspaces.
        let name = format!("{}/{}", key.namespace, key.name);
        let concurrency = Concurrency::new(backoff::seed(&name, 0));
        Self {
            key,
            state: Mutex::new(State {
                queue: FairQueue::new(concurrency, oneshot::Sender::is_closed),
                timer: None,
                shown: 0,
            }),
            long_pauses: Notify::new(),
            metrics,
        }
    }

    /// Sets the rate limit.
    pub(crate) fn limit(self: &Arc<Self>, limit: Option<RateLimit>) {
        self.change(|queue, _| queue.rate.limit(limit));
    }

    /// Starts with one call after an outage.
    pub(crate) fn start_slowly(self: &Arc<Self>) {
        self.change(|queue, _| queue.concurrency.start_slowly());
    }

    /// A permit without waiting, if the queue is empty and there is room.
    pub(crate) fn permit_at_once(self: &Arc<Self>) -> Option<Permit> {
        let started = self.change(FairQueue::start_at_once);
        started.map(|call| self.permit(call))
    }

    /// Waits for a permit in this namespace's lane.
    pub(crate) async fn permit_for(self: &Arc<Self>, namespace: &str) -> Permit {
        loop {
            if let Some(permit) = self.permit_at_once() {
                return permit;
            }
            let (sender, granted) = oneshot::channel();
            self.change(|queue, _| queue.enqueue(namespace, sender));
            let mut waiter = Waiter {
                gate: Arc::clone(self),
                granted,
                done: false,
            };
            let granted = (&mut waiter.granted).await;
            waiter.done = true;
            // The sender is dropped only with the gate.
            if let Ok(permit) = granted {
                return permit;
            }
        }
    }

    /// End of the current pause by process time, if it is long enough to be shown.
    pub(crate) fn long_pause(&self) -> Option<Timestamp> {
        let at = Instant::now();
        let until = lock(&self.state).queue.concurrency.long_pause(at)?;
        Some(later(now(), until - at))
    }

    /// Waits for the start of a pause that is long enough to be shown.
    pub(crate) fn next_long_pause(&self) -> Notified<'_> {
        self.long_pauses.notified()
    }

    fn permit(self: &Arc<Self>, call: CallToken) -> Permit {
        self.metrics.calls_in_flight.inc();
        Permit {
            gate: Arc::clone(self),
            call,
            begun: false,
            outcome: Capacity::Unknown,
        }
    }

    fn leave(self: &Arc<Self>, call: CallToken, begun: bool, outcome: Capacity) {
        self.metrics.calls_in_flight.dec();
        let long_pause = self.change(|queue, now| {
            if !begun {
                queue.give_back(call, now);
                return false;
            }
            let Some(cause) = queue.concurrency.end(call, outcome, now) else {
                return false;
            };
            let until = queue.concurrency.paused_until(now);
            self.log(cause, until.map_or(Duration::ZERO, |until| until - now));
            queue.concurrency.long_pause(now).is_some()
        });
        if long_pause {
            self.long_pauses.notify_waiters();
        }
    }

    fn log(&self, cause: PauseCause, pause: Duration) {
        self.metrics.paused(cause);
        let sentence = match cause {
            PauseCause::TooManyRequests => "the service answered 429",
            PauseCause::NoAnswer => "the service gives no answers",
        };
        tracing::warn!(
            k8s.namespace.name = %self.key.namespace, workspace.name = %self.key.name,
            cause = sentence, milliseconds = pause.as_millis(), "the calls of a Workspace are paused"
        );
    }

    /// Changes the queue, then grants the permits that are due.
    fn change<R>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut FairQueue<oneshot::Sender<Permit>>, Instant) -> R,
    ) -> R {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let result = change(&mut state.queue, now);
        let due = state.queue.due(now);
        let timer = due
            .again
            .filter(|at| state.timer.is_none_or(|set| *at < set || set <= now));
        if timer.is_some() {
            state.timer = timer;
        }
        let waiting = gauge(state.queue.waiting());
        self.metrics.calls_waiting.inc_by(waiting - state.shown);
        state.shown = waiting;
        drop(state);
        if let Some(at) = timer {
            self.ask_again(at);
        }
        for (waiter, call) in due.go {
            // If the waiter gave up meanwhile, the dropped permit is released.
            let _ = waiter.send(self.permit(call));
        }
        result
    }

    fn ask_again(self: &Arc<Self>, at: Instant) {
        // Permits are also released while the runtime shuts down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let gate = Arc::downgrade(self);
        runtime.spawn(async move {
            // Slightly late, so that the time has certainly passed.
            tokio::time::sleep_until(at + Duration::from_millis(1)).await;
            if let Some(gate) = gate.upgrade() {
                gate.change(|_, _| ());
            }
        });
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let shown = lock(&self.state).shown;
        self.metrics.calls_waiting.dec_by(shown);
    }
}

#[cfg(test)]
mod tests;
