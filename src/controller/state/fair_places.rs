//! A bounded number of places that namespaces share: for the calls of a Workspace, for event streams.
//!
//! # Rules
//! - A free place goes to the next namespace, in the order of their names, and there to the one that waits longest.
//! - A namespace that has half of the places, rounded up, gets no more while another waits.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Number of one who waits: those who came later have larger ones.
pub(crate) type Ticket = u64;

/// The places, and who waits for one. `W` notifies the one who waits.
pub(crate) struct FairPlaces<W> {
    most: usize,
    taken: usize,
    waiting: usize,
    /// Those that have places, or wait.
    namespaces: BTreeMap<Arc<str>, Share<W>>,
    /// The namespace that got the last place.
    last: Arc<str>,
    tickets: Ticket,
}

struct Share<W> {
    taken: usize,
    waiting: BTreeMap<Ticket, W>,
}

impl<W> FairPlaces<W> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            taken: 0,
            waiting: 0,
            namespaces: BTreeMap::new(),
            last: "".into(),
            tickets: 0,
        }
    }

    /// Number of those who wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether a place is free.
    pub(crate) fn free(&self) -> bool {
        self.taken < self.most
    }

    /// Takes a free place.
    pub(crate) fn take(&mut self, namespace: &Arc<str>) {
        self.share(namespace).taken += 1;
        self.taken += 1;
        self.last = Arc::clone(namespace);
    }

    /// Gives a place back.
    pub(crate) fn give_back(&mut self, namespace: &Arc<str>) {
        let share = self.share(namespace);
        share.taken = share.taken.saturating_sub(1);
        self.taken = self.taken.saturating_sub(1);
        self.forget_unused(namespace);
    }

    /// Waits for a place.
    pub(crate) fn enqueue(&mut self, namespace: &Arc<str>, waiter: W) -> Ticket {
        self.tickets += 1;
        let ticket = self.tickets;
        self.share(namespace).waiting.insert(ticket, waiter);
        self.waiting += 1;
        ticket
    }

    /// Waits no more.
    pub(crate) fn leave(&mut self, namespace: &Arc<str>, ticket: Ticket) {
        let left = self.share(namespace).waiting.remove(&ticket);
        self.waiting -= usize::from(left.is_some());
        self.forget_unused(namespace);
    }

    /// Looks at each who waits.
    pub(crate) fn each(&self, look: impl FnMut(&W)) {
        let shares = self.namespaces.values();
        shares
            .flat_map(|share| share.waiting.values())
            .for_each(look);
    }

    /// Gives a free place to the next of those who wait.
    pub(crate) fn next(&mut self) -> Option<(Arc<str>, W)> {
        if !self.free() {
            return None;
        }
        let namespace = self.next_namespace()?;
        let (_, waiter) = self.share(&namespace).waiting.pop_first()?;
        self.waiting -= 1;
        self.take(&namespace);
        Some((namespace, waiter))
    }

    fn next_namespace(&self) -> Option<Arc<str>> {
        if self.waiting == 0 {
            return None;
        }
        let last: &str = &self.last;
        let after = (Bound::Excluded(last), Bound::Unbounded);
        let until = (Bound::Unbounded, Bound::Included(last));
        let round = self.namespaces.range::<str, _>(after);
        let round = round.chain(self.namespaces.range::<str, _>(until));
        let mut wanting = round.filter(|(_, share)| !share.waiting.is_empty());
        let first = wanting.next()?;
        let below_half = |(_, share): &(_, &Share<W>)| share.taken < self.half();
        let next = std::iter::once(first).chain(wanting).find(below_half);
        Some(Arc::clone(next.unwrap_or(first).0))
    }

    /// The namespace with more than half of the places while others wait, and how many it has to give back.
    pub(crate) fn owed(&self) -> Option<(Arc<str>, usize)> {
        let mut shares = self.namespaces.iter();
        let (namespace, share) = shares.find(|(_, share)| share.taken > self.half())?;
        let others = self.waiting - share.waiting.len();
        let owed = others.min(share.taken - self.half());
        (owed > 0).then(|| (Arc::clone(namespace), owed))
    }

    fn half(&self) -> usize {
        self.most.div_ceil(2)
    }

    fn share(&mut self, namespace: &Arc<str>) -> &mut Share<W> {
        let new = || Share {
            taken: 0,
            waiting: BTreeMap::new(),
        };
        self.namespaces
            .entry(Arc::clone(namespace))
            .or_insert_with(new)
    }

    fn forget_unused(&mut self, namespace: &Arc<str>) {
        let share = self.share(namespace);
        if share.taken == 0 && share.waiting.is_empty() {
            self.namespaces.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests;
