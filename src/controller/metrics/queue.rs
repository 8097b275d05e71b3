//! The objects of one controller by what they wait for, so that nothing has to be counted.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Namespace and name.
pub(super) type Name = (String, String);

/// Objects by a moment.
type Moments = BTreeSet<(Instant, Arc<Name>)>;

/// The objects of one controller and the moments that matter.
#[derive(Default)]
pub(super) struct Queue {
    items: HashMap<Arc<Name>, Item>,
    /// Those that are looked at again by themselves, by when.
    timers: Moments,
    /// Those that are worked on, by since when.
    begun: Moments,
    /// The sum of those moments, as seconds since the first of all.
    begun_sum: f64,
    /// The first of all.
    first: Option<Instant>,
    /// How many could be worked on and are not.
    waiting: usize,
}

/// One object.
#[derive(Clone, Copy, Default)]
pub(super) struct Item {
    /// Since when it is asked for.
    pub(super) asked: Option<Instant>,
    /// When it is looked at again by itself.
    pub(super) timer: Option<Instant>,
    /// Whether that time has come.
    pub(super) due: bool,
    /// Since when it is worked on.
    pub(super) begun: Option<Instant>,
}

impl Item {
    /// Since when it could be worked on.
    pub(super) fn ready_since(&self) -> Option<Instant> {
        let due = self.timer.filter(|_| self.due);
        self.asked.into_iter().chain(due).min()
    }

    /// Whether it could be worked on and is not.
    fn waits(&self) -> bool {
        self.begun.is_none() && self.ready_since().is_some()
    }
}

impl Queue {
    /// Changes the item of an object, and what is kept of all: its new state, or none, in the place of the
    /// old one.
    pub(super) fn change(&mut self, name: &Arc<Name>, new: Option<Item>) {
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
            // Nothing is left of what rounding has added.
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

    /// The timers whose time has come are due.
    pub(super) fn advance(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, name)) = self.timers.pop_first()
        {
            let item = self.item(&name);
            self.change(&name, Some(Item { due: true, ..item }));
        }
    }

    /// What is kept of an object; nothing is as good as an empty item.
    pub(super) fn item(&self, name: &Name) -> Item {
        self.items.get(name).copied().unwrap_or_default()
    }

    /// The same of an object that something is kept of.
    pub(super) fn find(&self, name: &Name) -> Option<(Arc<Name>, Item)> {
        let (name, item) = self.items.get_key_value(name)?;
        Some((Arc::clone(name), *item))
    }

    /// How many could be worked on and are not.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many are worked on.
    pub(super) fn active(&self) -> usize {
        self.begun.len()
    }

    /// How long these have taken so far, all together, in seconds.
    #[allow(
        clippy::cast_precision_loss,
        reason = "there are far fewer reconciles than 2^52"
    )]
    pub(super) fn unfinished(&mut self, now: Instant) -> f64 {
        let now = self.offset(Some(now));
        (now * self.begun.len() as f64 - self.begun_sum).max(0.0)
    }

    /// How long the longest of them has taken so far.
    pub(super) fn longest(&self, now: Instant) -> Duration {
        let first = self.begun.first();
        first.map_or(Duration::ZERO, |(since, _)| {
            now.saturating_duration_since(*since)
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// Moves an object from one moment to another.
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
