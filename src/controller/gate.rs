//! The gate that every call for a Workspace's Runs passes: at most so many at the same time, none while
//! the service has asked for a pause or gives no answers, and as `spec.rateLimit` says. One Workspace's trouble stays before
//! its own gate.
//!
//! # Guarantees
//! - The namespaces whose calls wait take turns; within each it is first come, first served. So the next
//!   call of a ClusterWorkspace's tenant waits for one of each other tenant, not for their 10,000 Runs.
//! - A Run that was called and doesn't come blocks nobody for longer than 5 s.
//! - A Run waits without a task and without a place in the loop: it is woken when it may go, and decides
//!   anew.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::api::workspace::RateLimit;
use crate::decide::{Held, backoff, memory::later};

use super::{
    context::{lock, now},
    metrics::{Metrics, PauseCause},
    registry::Key,
    turns::{Caller, Turn, Turns},
    window::{Cause, Outcome, Started, Window},
};

/// Wakes a Run, by namespace and name.
pub(super) type Wake = Box<dyn Fn(&str, &str) + Send + Sync>;

/// The gate of one Workspace. It outlives its checks and its tokens.
pub struct Gate {
    key: Key,
    state: Mutex<State>,
    wake: Wake,
    metrics: Arc<Metrics>,
}

struct State {
    turns: Turns<oneshot::Sender<Permit>>,
    /// When the earliest timer looks again.
    timer: Option<Instant>,
    /// The share of those that wait in the metric.
    shown: i64,
}

/// The right to one call, given back when it is dropped.
pub(super) struct Permit {
    gate: Arc<Gate>,
    call: Started,
    outcome: Outcome,
}

impl Permit {
    /// The call has ended so.
    pub(super) fn ended(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave(self.call, self.outcome);
    }
}

impl Gate {
    /// An open gate.
    pub(super) fn new(key: Key, wake: Wake, metrics: Arc<Metrics>) -> Self {
        // Spreads the pauses of different Workspaces.
        let name = format!("{}/{}", key.namespace, key.name);
        let window = Window::new(backoff::seed(&name, 0));
        Self {
            key,
            state: Mutex::new(State {
                turns: Turns::new(window, oneshot::Sender::is_closed),
                timer: None,
                shown: 0,
            }),
            wake,
            metrics,
        }
    }

    /// Sets the rate limit.
    pub(super) fn limit(self: &Arc<Self>, limit: Option<RateLimit>) {
        self.change(|turns, _| turns.limit(limit));
    }

    /// The service is back after an outage: its calls begin with one.
    pub(super) fn start_slowly(self: &Arc<Self>) {
        self.change(|turns, _| turns.start_slowly());
    }

    /// Lets a Run make a call now, or has it wait: it is woken when it is its turn.
    pub(super) fn enter(self: &Arc<Self>, caller: &Caller) -> Option<Permit> {
        let started = self.change(|turns, now| turns.enter(caller, now));
        started.map(|call| self.permit(call))
    }

    /// Lets a task make a call now, if nobody waits.
    pub(super) fn enter_at_once(self: &Arc<Self>) -> Option<Permit> {
        let started = self.change(Turns::enter_at_once);
        started.map(|call| self.permit(call))
    }

    /// Waits for the right to one call for a Run of this namespace.
    pub(super) async fn wait(self: &Arc<Self>, namespace: &str) -> Permit {
        loop {
            if let Some(permit) = self.enter_at_once() {
                return permit;
            }
            let (sender, receiver) = oneshot::channel();
            self.change(|turns, _| turns.enqueue(namespace, sender));
            // The sender is dropped only together with the gate.
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// A Run wants no call any more.
    pub(super) fn pass(self: &Arc<Self>, uid: &str) {
        self.change(|turns, _| turns.pass(uid));
    }

    /// Why this Run's call would wait, where that is worth a word.
    pub(super) fn held(&self, uid: &str) -> Option<Held> {
        let at = Instant::now();
        let state = lock(&self.state);
        if let Some(until) = state.turns.window().long_pause(at) {
            let until = later(now(), until - at);
            return Some(Held::Paused { until });
        }
        state.turns.waits_long(uid, at).then_some(Held::Queued)
    }

    fn permit(self: &Arc<Self>, call: Started) -> Permit {
        self.metrics.calls_in_flight.inc();
        Permit {
            gate: Arc::clone(self),
            call,
            outcome: Outcome::Untold,
        }
    }

    fn leave(self: &Arc<Self>, call: Started, outcome: Outcome) {
        self.metrics.calls_in_flight.dec();
        let away = self.change(|turns, now| {
            let Some(cause) = turns.end(call, outcome, now) else {
                return Vec::new();
            };
            let until = turns.window().paused_until(now);
            self.tell(cause, until.map_or(Duration::ZERO, |until| until - now));
            match turns.window().long_pause(now) {
                Some(_) => turns.send_away(),
                None => Vec::new(),
            }
        });
        self.wake_all(&away);
    }

    fn tell(&self, cause: Cause, pause: Duration) {
        let (word, sentence) = match cause {
            Cause::TooMany => (PauseCause::TooManyRequests, "the service answered 429"),
            Cause::Lost => (PauseCause::NoAnswer, "the service gives no answers"),
        };
        self.metrics.paused(word);
        tracing::warn!(
            k8s.namespace.name = %self.key.namespace, workspace.name = %self.key.name,
            cause = sentence, milliseconds = pause.as_millis(), "the calls of a Workspace are paused"
        );
    }

    /// Changes the queue, then sees to whose turn it is.
    fn change<R>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Turns<oneshot::Sender<Permit>>, Instant) -> R,
    ) -> R {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let result = change(&mut state.turns, now);
        let turn = state.turns.turn(now);
        let timer = turn
            .again
            .filter(|at| state.timer.is_none_or(|set| *at < set || set <= now));
        if timer.is_some() {
            state.timer = timer;
        }
        let waiting = i64::try_from(state.turns.waiting()).unwrap_or(i64::MAX);
        self.metrics.calls_waiting.inc_by(waiting - state.shown);
        state.shown = waiting;
        drop(state);
        if let Some(at) = timer {
            self.look_again(at);
        }
        self.carry_out(turn);
        result
    }

    fn carry_out(self: &Arc<Self>, turn: Turn<oneshot::Sender<Permit>>) {
        self.wake_all(&turn.wake);
        for (task, call) in turn.go {
            // A task that has gone meanwhile gives the permit back by dropping it.
            let _ = task.send(self.permit(call));
        }
    }

    fn wake_all(&self, callers: &[Caller]) {
        for caller in callers {
            (self.wake)(&caller.namespace, &caller.name);
        }
    }

    fn look_again(self: &Arc<Self>, at: Instant) {
        // Permits are also given back while the runtime goes down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let gate = Arc::downgrade(self);
        runtime.spawn(async move {
            // A moment later than due, so that what is due has come.
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
#[path = "gate_tests.rs"]
mod tests;
