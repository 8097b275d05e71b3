//! Waiting objects and reconciles in flight, by controller. kube-rs's scheduler exposes neither, so its rules are
//! reproduced here. It holds an object once, for the earliest requested time. An object requested during its reconcile
//! follows after it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::util::lock;

use super::{
    catalogue::{
        ACTIVE_WORKERS, LONGEST, QUEUE_ADDS, QUEUE_DEPTH, QUEUE_SECONDS, UNFINISHED, WORK_SECONDS,
    },
    family::{Family, Seconds, gauge},
    queue_state::{Item, Name, Queue},
};

/// The families that the backlogs of all controllers share.
pub(crate) struct Families {
    depth: Family<Gauge>,
    adds: Family<Counter>,
    waited: Family<Histogram>,
    worked: Family<Histogram>,
    unfinished: Family<Seconds>,
    longest: Family<Seconds>,
    active: Family<Gauge>,
}

impl Families {
    pub(crate) fn new(registry: &mut Registry) -> Self {
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
}

/// The objects of one controller that wait or are being reconciled. Its gauges are updated as objects change: a
/// measurement reads only the objects that became due since the last one.
pub struct Backlog {
    queue: Mutex<Queue>,
    depth: Gauge,
    adds: Counter,
    waited: Histogram,
    worked: Histogram,
    unfinished: Seconds,
    longest: Seconds,
    active: Gauge,
}

impl Backlog {
    pub(crate) fn new(families: &Families, controller: &str) -> Self {
        let queue = [controller, controller];
        Self {
            queue: Mutex::default(),
            depth: families.depth.of(&queue),
            adds: families.adds.of(&queue),
            waited: families.waited.of(&queue),
            worked: families.worked.of(&queue),
            unfinished: families.unfinished.of(&queue),
            longest: families.longest.of(&queue),
            active: families.active.of(&[controller]),
        }
    }

    /// Records a request for a reconcile.
    pub fn ask(&self, namespace: Option<&str>, name: &str, now: Instant) {
        let name = key(namespace, name);
        let mut queue = lock(&self.queue);
        queue.advance(now);
        let item = queue.item(&name);
        if item.ready_since().is_none() {
            let asked = Some(now);
            queue.change(&Arc::new(name), Some(Item { asked, ..item }));
            self.adds.inc();
        }
    }

    /// Records the start of a reconcile.
    pub fn begin(&self, namespace: Option<&str>, name: &str, now: Instant) {
        let name = key(namespace, name);
        let mut queue = lock(&self.queue);
        queue.advance(now);
        let item = queue.item(&name);
        let since = item.ready_since().unwrap_or(now);
        if item.asked.is_none() {
            // Its timer is due.
            self.adds.inc();
        }
        self.waited.observe((now - since).as_secs_f64());
        let begun = Item {
            begun: Some(now),
            ..Item::default()
        };
        queue.change(&Arc::new(name), Some(begun));
    }

    /// Records the end of a reconcile; the next follows after `again`, or on request. Returns its duration.
    pub fn end(
        &self,
        namespace: Option<&str>,
        name: &str,
        again: Option<Duration>,
        now: Instant,
    ) -> Duration {
        let mut queue = lock(&self.queue);
        let Some((name, mut item)) = queue.find(&key(namespace, name)) else {
            return Duration::ZERO;
        };
        let begun = item.begun.take();
        let took = begun.map_or(Duration::ZERO, |begun| now - begun);
        self.worked.observe(took.as_secs_f64());
        if item.asked.is_none() {
            item.timer = again.and_then(|wait| now.checked_add(wait));
            item.due = false;
        }
        let left = item.asked.is_some() || item.timer.is_some();
        queue.change(&name, left.then_some(item));
        took
    }

    /// Removes an object that was requested but no longer exists.
    pub fn missing(&self, namespace: Option<&str>, name: &str) {
        let name = Arc::new(key(namespace, name));
        lock(&self.queue).change(&name, None);
    }

    /// Updates the gauges.
    pub(crate) fn measure(&self, now: Instant) {
        let mut queue = lock(&self.queue);
        queue.advance(now);
        self.depth.set(gauge(queue.waiting()));
        self.active.set(gauge(queue.active()));
        self.unfinished.set(queue.unfinished(now));
        self.longest.set(queue.longest(now).as_secs_f64());
    }
}

fn key(namespace: Option<&str>, name: &str) -> Name {
    (namespace.unwrap_or_default().to_owned(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const TEAM: Option<&str> = Some("team");

    fn backlog() -> Backlog {
        Backlog::new(&Families::new(&mut Registry::default()), "run")
    }

    // Proves: P-metrics
    #[test]
    fn a_queued_object_is_counted_once_however_often_it_is_enqueued() {
        let (backlog, start) = (backlog(), Instant::now());
        backlog.ask(TEAM, "a", start);
        backlog.ask(TEAM, "a", start + SECOND);
        backlog.ask(TEAM, "b", start + SECOND);
        backlog.measure(start + SECOND);
        assert_eq!((backlog.depth.get(), backlog.adds.get()), (2, 2));
        backlog.begin(TEAM, "a", start + 3 * SECOND);
        assert!((backlog.waited.sum() - 3.0).abs() < 1e-6);
        backlog.measure(start + 5 * SECOND);
        assert_eq!((backlog.depth.get(), backlog.active.get()), (1, 1));
        assert!((backlog.longest.get() - 2.0).abs() < 1e-6);
    }

    // Proves: P-metrics
    #[test]
    fn an_object_whose_time_has_come_waits_from_then_on() {
        let (backlog, start) = (backlog(), Instant::now());
        backlog.begin(TEAM, "a", start);
        let took = backlog.end(TEAM, "a", Some(10 * SECOND), start + SECOND);
        assert_eq!(took, SECOND);
        backlog.measure(start + 5 * SECOND);
        assert_eq!(backlog.depth.get(), 0);
        backlog.measure(start + 12 * SECOND);
        assert_eq!(backlog.depth.get(), 1);
        backlog.begin(TEAM, "a", start + 13 * SECOND);
        assert!((backlog.waited.sum() - 2.0).abs() < 1e-6);
        assert_eq!(backlog.adds.get(), 2);
    }

    // Proves: P-metrics
    #[test]
    fn an_object_enqueued_during_its_reconcile_is_queued_after_it() {
        let (backlog, start) = (backlog(), Instant::now());
        backlog.ask(TEAM, "a", start);
        backlog.begin(TEAM, "a", start);
        backlog.ask(TEAM, "a", start + SECOND);
        backlog.ask(TEAM, "a", start + SECOND);
        backlog.measure(start + SECOND);
        assert_eq!((backlog.depth.get(), backlog.adds.get()), (0, 2));
        // Earlier than its timer.
        backlog.end(TEAM, "a", Some(60 * SECOND), start + 2 * SECOND);
        backlog.measure(start + 2 * SECOND);
        assert_eq!(backlog.depth.get(), 1);
        backlog.begin(TEAM, "a", start + 2 * SECOND);
        backlog.end(TEAM, "a", None, start + 2 * SECOND);
        assert!(lock(&backlog.queue).is_empty());
    }

    #[test]
    fn an_object_both_due_and_enqueued_is_queued_once() {
        let (backlog, start) = (backlog(), Instant::now());
        backlog.begin(TEAM, "a", start);
        backlog.end(TEAM, "a", Some(10 * SECOND), start);
        backlog.ask(TEAM, "a", start + 12 * SECOND);
        assert_eq!(backlog.adds.get(), 1, "it waits already");
        backlog.begin(TEAM, "a", start + 13 * SECOND);
        assert_eq!(backlog.adds.get(), 2);
        assert!((backlog.waited.sum() - 3.0).abs() < 1e-6);
        backlog.begin(TEAM, "b", start + 14 * SECOND);
        backlog.measure(start + 15 * SECOND);
        assert!((backlog.longest.get() - 2.0).abs() < 1e-6);
        assert!((backlog.unfinished.get() - 3.0).abs() < 1e-6);
    }

    // Proves: P-metrics
    #[test]
    fn a_deleted_object_is_removed_from_the_queue() {
        let backlog = backlog();
        backlog.ask(TEAM, "a", Instant::now());
        backlog.missing(TEAM, "a");
        backlog.measure(Instant::now());
        assert_eq!(backlog.depth.get(), 0);
    }
}
