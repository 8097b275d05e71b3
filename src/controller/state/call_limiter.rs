//! The limit on the calls for the Runs of one Workspace: 32 at a time, `spec.rateLimit`, and none during a pause: after
//! a 429 (rule 10), or while the service gives no answers. By [`FairPlaces`] a tenant's next call waits for one call of each
//! other tenant, not for their 10,000 Runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::api::{WorkspaceKey, workspace::RateLimit};
use crate::clock::{now, until};
use crate::controller::metrics::{Metrics, TOO_MANY_REQUESTS, UNANSWERED};
use crate::decide::{
    delays::{self, Bounds, TokenBucket, later},
    failure::Capacity,
};
use crate::util::lock;

use super::places::{FairPlaces, Queue, Queued, Ticket};

/// Calls in flight: enough for some hundred a second; few enough that a hanging Workspace holds few connections.
const PLACES: usize = 32;
/// A shorter pause is not shown in the waiting Runs.
const LONG_PAUSE: Duration = Duration::from_secs(5);
/// Calls in a row without an answer that count as an outage, until the Workspace's check decides.
const OUTAGE: u32 = 3;
/// Longest pause after calls without an answer, as an attempt of the backoff: 1 to 2 s, until the check decides.
const OUTAGE_ATTEMPTS: u32 = 2;
/// Calls a second, and calls at once, if `spec.rateLimit` names only the other.
const DEFAULT_RATE: u32 = 20;
const DEFAULT_BURST: u32 = 40;

/// The limit of one Workspace. It outlives checks and tokens.
pub struct CallLimiter {
    key: WorkspaceKey,
    calls: Mutex<Calls<Waiter>>,
    metrics: Arc<Metrics>,
}

/// Permit for one call. Dropped without [`CallPermit::begin`], it is given back unused.
pub(crate) struct CallPermit {
    limiter: Arc<CallLimiter>,
    call: Call,
    used: Option<Capacity>,
}

impl CallPermit {
    pub(crate) fn begin(&mut self) {
        self.used = Some(Capacity::Unknown);
    }

    pub(crate) fn ended(mut self, capacity: Capacity) {
        self.used = Some(capacity);
    }

    pub(crate) fn is_of(&self, limiter: &Arc<CallLimiter>) -> bool {
        Arc::ptr_eq(&self.limiter, limiter)
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.limiter.end(&self.call, self.used);
    }
}

/// Called when a permit is granted, and when a pause begins that is long enough to be shown.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

struct Waiter {
    permit: oneshot::Sender<CallPermit>,
    wake: Wake,
}

impl Queue for CallLimiter {
    fn leave(self: Arc<Self>, namespace: &Arc<str>, ticket: Ticket) {
        self.change(|calls, _| calls.places.leave(namespace, ticket));
        self.metrics.calls_waiting.dec();
    }
}

impl CallLimiter {
    pub(crate) fn new(key: WorkspaceKey, metrics: Arc<Metrics>) -> Self {
        let name = format!("{}/{}", key.namespace, key.name);
        Self {
            calls: Mutex::new(Calls::new(delays::seed(&name, 0))),
            key,
            metrics,
        }
    }

    pub(crate) fn set_rate(self: &Arc<Self>, limit: Option<RateLimit>) {
        self.change(|calls, _| calls.rate.set(limit));
    }

    pub(crate) fn one_first(self: &Arc<Self>) {
        self.change(|calls, _| calls.pauses.one_first = true);
    }

    /// A permit for a call of this namespace, if it may begin now; else a place in the queue, to be awaited.
    pub(crate) fn ask(self: &Arc<Self>, namespace: &str) -> Result<CallPermit, Queued<CallPermit>> {
        self.ask_or_wake(namespace, Box::new(|| ()))
    }

    /// The same, for one who doesn't await the place.
    pub(crate) fn ask_or_wake(
        self: &Arc<Self>,
        namespace: &str,
        wake: Wake,
    ) -> Result<CallPermit, Queued<CallPermit>> {
        let namespace: Arc<str> = namespace.into();
        let asked = self.change(|calls, now| {
            calls.begin_at_once(&namespace, now).ok_or_else(|| {
                let (permit, receiver) = oneshot::channel();
                let ticket = calls.places.enqueue(&namespace, Waiter { permit, wake });
                (ticket, receiver)
            })
        });
        asked
            .map(|call| self.permit(call))
            .map_err(|(ticket, permit)| {
                self.metrics.calls_waiting.inc();
                Queued::new(self.clone(), namespace, ticket, permit)
            })
    }

    /// End of the current pause by process time, if it is long enough to be shown.
    pub(crate) fn long_pause(&self) -> Option<Timestamp> {
        lock(&self.calls).pauses.long_until(now())
    }

    fn permit(self: &Arc<Self>, call: Call) -> CallPermit {
        self.metrics.calls_in_flight.inc();
        CallPermit {
            limiter: Arc::clone(self),
            call,
            used: None,
        }
    }

    fn end(self: &Arc<Self>, call: &Call, used: Option<Capacity>) {
        self.metrics.calls_in_flight.dec();
        let (paused, long) = self.change(|calls, now| {
            let cause = calls.end(call, used, now);
            let until = calls.pauses.until(now);
            (cause.zip(until), calls.pauses.long_until(now))
        });
        let Some((cause, end)) = paused else { return };
        self.metrics.paused(cause);
        let sentence = if cause == TOO_MANY_REQUESTS {
            "the service answered 429"
        } else {
            "the service gives no answers"
        };
        tracing::warn!(
            k8s.namespace.name = %self.key.namespace, workspace.name = %self.key.name,
            cause = sentence, milliseconds = until(end).as_millis(), "the calls of a Workspace are paused"
        );
        if long.is_some() {
            let calls = lock(&self.calls);
            calls.places.each(|waiter: &Waiter| (waiter.wake)());
        }
    }

    fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut Calls<Waiter>, Timestamp) -> R) -> R {
        let now = now();
        let mut calls = lock(&self.calls);
        let result = change(&mut calls, now);
        let begun = calls.begin_waiting(now);
        let timer = calls.next_timer(now);
        drop(calls);
        if let Some(at) = timer {
            self.change_at(at);
        }
        for (waiter, call) in begun {
            // If it is not wanted any more, the permit is dropped and so given back.
            drop(waiter.permit.send(self.permit(call)));
            (waiter.wake)();
        }
        result
    }

    fn change_at(self: &Arc<Self>, at: Timestamp) {
        // Permits are also dropped while the runtime shuts down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let limiter = Arc::downgrade(self);
        runtime.spawn(async move {
            // Slightly late, so that the time has certainly passed.
            tokio::time::sleep(until(at) + Duration::from_millis(1)).await;
            if let Some(limiter) = limiter.upgrade() {
                limiter.change(|_, _| ());
            }
        });
    }
}

#[derive(Clone, Debug)]
struct Call {
    namespace: Arc<str>,
    pauses: u64,
}

/// All limits together, without a clock. `W` notifies who waits.
struct Calls<W> {
    places: FairPlaces<W>,
    pauses: Pauses,
    rate: Rate,
    timer: Option<Timestamp>,
}

impl<W> Calls<W> {
    fn new(seed: u64) -> Self {
        Self {
            places: FairPlaces::new(PLACES),
            pauses: Pauses {
                seed,
                ..Pauses::default()
            },
            rate: Rate::default(),
            timer: None,
        }
    }

    fn begin_at_once(&mut self, namespace: &Arc<str>, now: Timestamp) -> Option<Call> {
        let begins = self.places.waiting() == 0 && self.allows(now);
        begins.then(|| {
            self.places.take(namespace);
            self.pauses.begin(Arc::clone(namespace))
        })
    }

    fn begin_waiting(&mut self, now: Timestamp) -> Vec<(W, Call)> {
        let mut begun = Vec::new();
        while self.places.waiting() > 0
            && self.allows(now)
            && let Some((namespace, waiter)) = self.places.next()
        {
            begun.push((waiter, self.pauses.begin(namespace)));
        }
        begun
    }

    /// Whether a call may begin. If so, the rate limit has counted it.
    fn allows(&mut self, now: Timestamp) -> bool {
        self.places.free() && self.pauses.allow(now) && self.rate.take(now)
    }

    /// Records the end of a call; `used` is `None` if it was never begun. Returns the cause of a pause that begins.
    fn end(&mut self, call: &Call, used: Option<Capacity>, now: Timestamp) -> Option<&'static str> {
        self.places.give_back(&call.namespace);
        if used.is_none() {
            self.rate.give_back();
        }
        self.pauses.end(call, used.unwrap_or_default(), now)
    }

    /// Time of the next attempt for the waiting calls, unless a timer is set for an earlier one.
    fn next_timer(&mut self, now: Timestamp) -> Option<Timestamp> {
        let at = self.pauses.until(now).max(self.rate.next(now));
        let at = at.filter(|_| self.places.waiting() > 0)?;
        let set = self.timer.filter(|set| now < *set && *set <= at);
        set.is_none().then(|| *self.timer.insert(at))
    }
}

#[derive(Default)]
struct Pauses {
    end: Timestamp,
    long: bool,
    /// Whether calls are sent one at a time, until one was served.
    one_first: bool,
    /// Calls in flight that began since the last pause began.
    fresh: usize,
    number: u64,
    /// 429s in a row that each began a pause.
    refusals: u32,
    losses: u32,
    /// Spreads the pauses of different Workspaces.
    seed: u64,
}

impl Pauses {
    fn until(&self, now: Timestamp) -> Option<Timestamp> {
        (self.end > now).then_some(self.end)
    }

    fn long_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.until(now).filter(|_| self.long)
    }

    fn allow(&self, now: Timestamp) -> bool {
        self.until(now).is_none() && !(self.one_first && self.fresh > 0)
    }

    fn begin(&mut self, namespace: Arc<str>) -> Call {
        self.fresh += 1;
        Call {
            namespace,
            pauses: self.number,
        }
    }

    fn end(&mut self, call: &Call, capacity: Capacity, now: Timestamp) -> Option<&'static str> {
        if call.pauses != self.number {
            // The end of a call from before the pause is no evidence about the time after it. A 429 may only
            // make the pause longer.
            if let Capacity::TooMany(asked) = capacity {
                self.pause_for(delays::asked(asked), now);
            }
            return None;
        }
        self.fresh = self.fresh.saturating_sub(1);
        match capacity {
            Capacity::Unknown => None,
            Capacity::Served => {
                self.one_first = false;
                self.refusals = 0;
                self.losses = 0;
                None
            }
            Capacity::TooMany(asked) => {
                self.refusals = self.refusals.saturating_add(1);
                self.pause(self.refusals, asked, now);
                Some(TOO_MANY_REQUESTS)
            }
            Capacity::Lost => {
                self.losses = self.losses.saturating_add(1);
                if self.losses < OUTAGE {
                    return None;
                }
                let attempt = self.losses - OUTAGE + 1;
                self.pause(attempt.min(OUTAGE_ATTEMPTS), None, now);
                Some(UNANSWERED)
            }
        }
    }

    fn pause(&mut self, attempt: u32, asked: Option<Duration>, now: Timestamp) {
        self.number += 1;
        self.fresh = 0;
        self.one_first = true;
        let seed = self.seed.wrapping_add(self.number);
        self.pause_for(delays::backoff(attempt, asked, seed), now);
    }

    fn pause_for(&mut self, wait: Duration, now: Timestamp) {
        let end = later(now, wait);
        if self.end < end {
            self.end = end;
            self.long = wait >= LONG_PAUSE;
        }
    }
}

#[derive(Default)]
struct Rate {
    bounds: Option<Bounds>,
    calls: TokenBucket,
}

impl Rate {
    /// Sets the limit. With an unchanged one it goes on, so that a check resets nothing.
    fn set(&mut self, limit: Option<RateLimit>) {
        let positive = |number: Option<i32>, default: u32| {
            let number = number.and_then(|number| u32::try_from(number).ok());
            number.filter(|number| *number > 0).unwrap_or(default)
        };
        let bounds = limit.map(|limit| Bounds {
            burst: positive(limit.burst, DEFAULT_BURST),
            refill: Duration::from_secs(1) / positive(limit.requests_per_second, DEFAULT_RATE),
        });
        if self.bounds != bounds {
            let calls = TokenBucket::default();
            *self = Self { bounds, calls };
        }
    }

    fn take(&mut self, now: Timestamp) -> bool {
        let bounds = self.bounds;
        bounds.is_none_or(|bounds| self.calls.take(bounds, now))
    }

    fn give_back(&mut self) {
        if let Some(bounds) = self.bounds {
            self.calls.give_back(bounds);
        }
    }

    fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let at = self.calls.next(self.bounds?, now);
        (at > now).then_some(at)
    }
}

#[cfg(test)]
mod tests;
