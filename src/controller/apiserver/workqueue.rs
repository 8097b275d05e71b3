//! The queue of one loop, after client-go's: an object waits in it once, for the earliest time that was requested, and
//! one that is requested during its reconcile follows after it.

mod state;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::util::lock;

use state::{Item, Items};

pub(crate) use state::{InFlight, Name};

/// The objects of one loop that wait or are being reconciled. One task takes from it.
#[derive(Default)]
pub(crate) struct WorkQueue {
    items: Mutex<Items>,
    /// Signals the one that takes.
    changed: Notify,
    /// Whether requests are accepted.
    open: AtomicBool,
}

impl WorkQueue {
    /// Accepts requests from now on; those before it are dropped.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Requests a reconcile.
    pub(crate) fn add(&self, name: Name, now: Instant) {
        if !self.open.load(Ordering::Acquire) {
            return;
        }
        let mut items = lock(&self.items);
        items.advance(now);
        let item = items.item(&name);
        if item.ready_since().is_some() {
            return;
        }
        let name = items.name(name);
        let requested = Some(now);
        items.change(&name, Some(Item { requested, ..item }));
        drop(items);
        if item.begun.is_none() {
            self.changed.notify_one();
        }
    }

    /// Waits for the object that has been ready longest, and begins its reconcile. May be dropped at any time.
    pub(crate) async fn next(&self) -> Arc<Name> {
        loop {
            let timer = match self.take(Instant::now()) {
                Ok(name) => return name,
                Err(timer) => timer,
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = until(timer) => {}
            }
        }
    }

    /// Begins the reconcile of an object. If none is ready: the time of the next timer.
    fn take(&self, now: Instant) -> Result<Arc<Name>, Option<Instant>> {
        let mut items = lock(&self.items);
        items.advance(now);
        let Some(name) = items.longest_waiting() else {
            return Err(items.next_timer());
        };
        let begun = Item {
            begun: Some(now),
            ..Item::default()
        };
        items.change(&name, Some(begun));
        Ok(name)
    }

    /// Ends a reconcile; the next follows after `again`, or on request. Returns its duration.
    pub(crate) fn done(&self, name: &Arc<Name>, again: Option<Duration>, now: Instant) -> Duration {
        let mut items = lock(&self.items);
        let mut item = items.item(name);
        let begun = item.begun.take();
        if item.requested.is_none() {
            item.timer = again.and_then(|wait| now.checked_add(wait));
            item.due = false;
        }
        let left = item.requested.is_some() || item.timer.is_some();
        items.change(name, left.then_some(item));
        drop(items);
        if left {
            self.changed.notify_one();
        }
        begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun))
    }

    /// Ends the reconcile of an object that no longer exists. One of the same name may have been requested meanwhile.
    pub(crate) fn missing(&self, name: &Arc<Name>) {
        let mut items = lock(&self.items);
        let mut item = items.item(name);
        item.begun = None;
        let requested = item.requested.is_some();
        items.change(name, requested.then_some(item));
        drop(items);
        if requested {
            self.changed.notify_one();
        }
    }

    /// The reconciles in flight.
    pub(crate) fn in_flight(&self, now: Instant) -> InFlight {
        lock(&self.items).in_flight(now)
    }
}

async fn until(timer: Option<Instant>) {
    match timer {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
