//! The metrics of the work queues, as client-go names them.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{
    catalogue::{
        ACTIVE_WORKERS, LONGEST, QUEUE_ADDS, QUEUE_DEPTH, QUEUE_SECONDS, UNFINISHED, WORK_SECONDS,
    },
    family::{Family, Seconds, gauge},
};

/// The families that the queues of all controllers share.
pub(super) struct Families {
    depth: Family<Gauge>,
    adds: Family<Counter>,
    waited: Family<Histogram>,
    worked: Family<Histogram>,
    unfinished: Family<Seconds>,
    longest: Family<Seconds>,
    active: Family<Gauge>,
}

/// What a queue counts while it is used.
#[derive(Clone)]
pub struct QueueMetrics {
    adds: Counter,
    waited: Histogram,
    worked: Histogram,
}

/// What queues hold at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueTotals {
    /// Objects that are ready but not being reconciled.
    pub depth: usize,
    /// Objects being reconciled.
    pub active: usize,
    /// Total duration of the reconciles in flight so far, in seconds.
    pub unfinished: f64,
    /// Duration of the longest of them so far.
    pub longest: Duration,
}

impl QueueTotals {
    /// The totals of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            depth: self.depth + other.depth,
            active: self.active + other.active,
            unfinished: self.unfinished + other.unfinished,
            longest: self.longest.max(other.longest),
        }
    }
}

impl Families {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            active: Family::new(registry, &ACTIVE_WORKERS),
            depth: Family::new(registry, &QUEUE_DEPTH),
            adds: Family::new(registry, &QUEUE_ADDS),
            waited: Family::new(registry, &QUEUE_SECONDS),
            worked: Family::new(registry, &WORK_SECONDS),
            unfinished: Family::new(registry, &UNFINISHED),
            longest: Family::new(registry, &LONGEST),
        }
    }

    /// The metrics that each queue of a controller counts in.
    pub(super) fn of(&self, controller: &str) -> QueueMetrics {
        let queue = [controller, controller];
        QueueMetrics {
            adds: self.adds.of(&queue),
            waited: self.waited.of(&queue),
            worked: self.worked.of(&queue),
        }
    }

    /// Sets the gauges of a controller.
    pub(super) fn set(&self, controller: &str, totals: QueueTotals) {
        let queue = [controller, controller];
        self.depth.of(&queue).set(gauge(totals.depth));
        self.active.of(&[controller]).set(gauge(totals.active));
        self.unfinished.of(&queue).set(totals.unfinished);
        self.longest.of(&queue).set(totals.longest.as_secs_f64());
    }
}

impl QueueMetrics {
    /// Counts an object that began to wait.
    pub fn added(&self) {
        self.adds.inc();
    }

    /// Records how long an object waited.
    pub fn waited(&self, time: Duration) {
        self.waited.observe(time.as_secs_f64());
    }

    /// Records how long a reconcile took.
    pub fn worked(&self, time: Duration) {
        self.worked.observe(time.as_secs_f64());
    }
}

#[cfg(test)]
impl QueueMetrics {
    pub(crate) fn adds(&self) -> u64 {
        self.adds.get()
    }

    pub(crate) fn waited_sum(&self) -> f64 {
        self.waited.sum()
    }
}

/// The metrics of a queue alone.
#[cfg(test)]
pub(crate) fn queue_metrics(registry: &mut Registry, controller: &str) -> QueueMetrics {
    Families::new(registry).of(controller)
}
