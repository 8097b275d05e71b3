//! The objects of one controller by their state, with running totals, so that no scan is needed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Namespace and name.
pub(crate) type Name = (String, String);

/// Objects in order of an instant.
type Moments = BTreeSet<(Instant, Arc<Name>)>;

/// The objects of one controller, and their instants.
#[derive(Default)]
pub(crate) struct Queue {
    items: HashMap<Arc<Name>, Item>,
    /// Objects with a timer that is not due, by its time.
    timers: Moments,
    /// Objects being reconciled, by start.
    begun: Moments,
    /// Sum of those starts, in seconds since `first`.
    begun_sum: f64,
    /// Reference instant: the first one seen.
    first: Option<Instant>,
    /// Number of objects that are ready but not being reconciled.
    waiting: usize,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Item {
    /// Time of the first request.
    pub(crate) asked: Option<Instant>,
    /// Time of the timer.
    pub(crate) timer: Option<Instant>,
    /// Whether the timer is due.
    pub(crate) due: bool,
    /// Start of the reconcile.
    pub(crate) begun: Option<Instant>,
}

impl Item {
    /// Time since which it is ready to be reconciled.
    pub(crate) fn ready_since(&self) -> Option<Instant> {
        let due = self.timer.filter(|_| self.due);
        self.asked.into_iter().chain(due).min()
    }

    /// Whether it is ready but not being reconciled.
    fn waits(&self) -> bool {
        self.begun.is_none() && self.ready_since().is_some()
    }
}

impl Queue {
    /// Replaces the item of an object, or removes it, and updates the totals.
    pub(crate) fn change(&mut self, name: &Arc<Name>, new: Option<Item>) {
        let old = match new {
            Some(item) => self.items.insert(Arc::clone(name), item),
            None => self.items.remove(name),
        };
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let pending = |item: Item| item.timer.filter(|_| !item.due);
        swap(&mut self.timers, name, pending(old), pending(new));
        swap(&mut self.begun, name, old.begun, new.begun);
        self.begun_sum += self.offset(new.begun) - self.offset(old.begun);
        if self.begun.is_empty() {
            // Resets the rounding errors.
            self.begun_sum = 0.0;
        }
        self.waiting += usize::from(new.waits());
        self.waiting = self.waiting.saturating_sub(usize::from(old.waits()));
    }

    fn offset(&mut self, moment: Option<Instant>) -> f64 {
        let Some(moment) = moment else {
            return 0.0;
        };
        let first = *self.first.get_or_insert(moment);
        moment.saturating_duration_since(first).as_secs_f64()
    }

    /// Marks the timers that are due.
    pub(crate) fn advance(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, name)) = self.timers.pop_first()
        {
            let item = self.item(&name);
            self.change(&name, Some(Item { due: true, ..item }));
        }
    }

    /// The item of an object; empty if there is none.
    pub(crate) fn item(&self, name: &Name) -> Item {
        self.items.get(name).copied().unwrap_or_default()
    }

    /// The stored name and item of an object, if there is one.
    pub(crate) fn find(&self, name: &Name) -> Option<(Arc<Name>, Item)> {
        let (name, item) = self.items.get_key_value(name)?;
        Some((Arc::clone(name), *item))
    }

    /// Number of objects that are ready but not being reconciled.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of objects being reconciled.
    pub(crate) fn active(&self) -> usize {
        self.begun.len()
    }

    /// Total duration of the reconciles in flight so far, in seconds.
    #[allow(
        clippy::cast_precision_loss,
        reason = "there are far fewer reconciles than 2^52"
    )]
    pub(crate) fn unfinished(&mut self, now: Instant) -> f64 {
        let now = self.offset(Some(now));
        (now * self.begun.len() as f64 - self.begun_sum).max(0.0)
    }

    /// Duration of the longest reconcile in flight so far.
    pub(crate) fn longest(&self, now: Instant) -> Duration {
        let first = self.begun.first();
        first.map_or(Duration::ZERO, |(since, _)| {
            now.saturating_duration_since(*since)
        })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// Moves an object from one instant to another.
fn swap(moments: &mut Moments, name: &Arc<Name>, old: Option<Instant>, new: Option<Instant>) {
    if old == new {
        return;
    }
    if let Some(at) = old {
        moments.remove(&(at, Arc::clone(name)));
    }
    if let Some(at) = new {
        moments.insert((at, Arc::clone(name)));
    }
}
