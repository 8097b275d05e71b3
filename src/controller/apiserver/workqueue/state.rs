//! The objects of one queue by their state.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Namespace and name; the namespace of a cluster-scoped object is empty. A Run has its uid in place of its name.
pub(crate) type Name = (String, String);

/// Objects in order of an instant.
type Moments = BTreeSet<(Instant, Arc<Name>)>;

/// The objects of one queue, and their instants.
#[derive(Default)]
pub(super) struct Items {
    all: HashMap<Arc<Name>, Item>,
    /// Objects with a timer that is not due, by its time.
    timers: Moments,
    /// Objects that are ready and not being reconciled, by the time since which they are.
    ready: Moments,
    /// Objects being reconciled, by start.
    begun: Moments,
}

/// The reconciles in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) count: usize,
    /// Duration of the longest of them so far.
    pub(crate) longest: Duration,
}

impl InFlight {
    /// Those of two queues.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            longest: self.longest.max(other.longest),
        }
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Item {
    /// Time of the first request.
    pub(super) requested: Option<Instant>,
    /// Time of the timer.
    pub(super) timer: Option<Instant>,
    /// Whether the timer is due.
    pub(super) due: bool,
    /// Start of the reconcile.
    pub(super) begun: Option<Instant>,
}

impl Item {
    /// Time since which it is ready to be reconciled.
    pub(super) fn ready_since(&self) -> Option<Instant> {
        let due = self.timer.filter(|_| self.due);
        self.requested.into_iter().chain(due).min()
    }

    /// The same, unless it is being reconciled.
    fn waits_since(&self) -> Option<Instant> {
        self.ready_since().filter(|_| self.begun.is_none())
    }
}

impl Items {
    /// Replaces the item of an object, or removes it.
    pub(super) fn change(&mut self, name: &Arc<Name>, new: Option<Item>) {
        let old = match new {
            Some(item) => self.all.insert(Arc::clone(name), item),
            None => self.all.remove(name),
        };
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let pending = |item: Item| item.timer.filter(|_| !item.due);
        swap(&mut self.timers, name, pending(old), pending(new));
        swap(&mut self.ready, name, old.waits_since(), new.waits_since());
        swap(&mut self.begun, name, old.begun, new.begun);
    }

    /// Marks the timers that are due.
    pub(super) fn advance(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, name)) = self.timers.pop_first()
        {
            let item = self.item(&name);
            self.change(&name, Some(Item { due: true, ..item }));
        }
    }

    /// The object that has waited longest.
    pub(super) fn longest_waiting(&self) -> Option<Arc<Name>> {
        self.ready.first().map(|(_, name)| Arc::clone(name))
    }

    /// The time of the next timer.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The item of an object; empty if there is none.
    pub(super) fn item(&self, name: &Name) -> Item {
        self.all.get(name).copied().unwrap_or_default()
    }

    /// The stored name of an object, or a new one.
    pub(super) fn name(&self, name: Name) -> Arc<Name> {
        let known = self.all.get_key_value(&name);
        known.map_or_else(|| Arc::new(name), |(known, _)| Arc::clone(known))
    }

    /// The reconciles in flight.
    pub(super) fn in_flight(&self, now: Instant) -> InFlight {
        let oldest = self.begun.first().map(|(since, _)| *since);
        let longest = oldest.map(|since| now.saturating_duration_since(since));
        InFlight {
            count: self.begun.len(),
            longest: longest.unwrap_or_default(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
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
