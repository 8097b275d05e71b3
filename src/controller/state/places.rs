//! A bounded number of places that namespaces share: for the calls of a Workspace, for event streams.
//! - A free place goes to the next namespace, in the order of their names, and there to the one that waits longest.
//! - A namespace that has half of the places, rounded up, gets no more while another waits. For streams, it gives back
//!   what it has beyond.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::util::lock;

/// Those who came later have larger ones.
pub(crate) type Ticket = u64;

/// The places, and who waits for one. `W` notifies the one who waits.
pub(crate) struct FairPlaces<W> {
    most: usize,
    taken: usize,
    waiting: usize,
    namespaces: BTreeMap<Arc<str>, Share<W>>,
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

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn free(&self) -> bool {
        self.taken < self.most
    }

    pub(crate) fn take(&mut self, namespace: &Arc<str>) {
        self.share(namespace).taken += 1;
        self.taken += 1;
        self.last = Arc::clone(namespace);
    }

    pub(crate) fn give_back(&mut self, namespace: &Arc<str>) {
        let share = self.share(namespace);
        share.taken = share.taken.saturating_sub(1);
        self.taken = self.taken.saturating_sub(1);
        self.forget_unused(namespace);
    }

    pub(crate) fn enqueue(&mut self, namespace: &Arc<str>, waiter: W) -> Ticket {
        self.tickets += 1;
        let ticket = self.tickets;
        self.share(namespace).waiting.insert(ticket, waiter);
        self.waiting += 1;
        ticket
    }

    pub(crate) fn leave(&mut self, namespace: &Arc<str>, ticket: Ticket) {
        let left = self.share(namespace).waiting.remove(&ticket);
        self.waiting -= usize::from(left.is_some());
        self.forget_unused(namespace);
    }

    pub(crate) fn each(&self, look: impl FnMut(&W)) {
        let shares = self.namespaces.values();
        shares
            .flat_map(|share| share.waiting.values())
            .for_each(look);
    }

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
    pub(crate) fn to_give_back(&self) -> Option<(Arc<str>, usize)> {
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

pub(crate) trait Queue: Send + Sync {
    /// Leaves it, if the place was not given yet.
    fn leave(self: Arc<Self>, namespace: &Arc<str>, ticket: Ticket);
}

/// A position in a queue for a `T`. Dropped, it is left.
pub(crate) struct Queued<T> {
    queue: Arc<dyn Queue>,
    namespace: Arc<str>,
    ticket: Ticket,
    given: oneshot::Receiver<T>,
    pub(crate) since: Instant,
}

impl<T> Queued<T> {
    pub(crate) fn new(
        queue: Arc<dyn Queue>,
        namespace: Arc<str>,
        ticket: Ticket,
        given: oneshot::Receiver<T>,
    ) -> Self {
        Self {
            queue,
            namespace,
            ticket,
            given,
            since: Instant::now(),
        }
    }

    pub(crate) async fn given(mut self) -> T {
        match (&mut self.given).await {
            Ok(given) => given,
            // The queue keeps the sender as long as this is in it.
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) fn try_given(&mut self) -> Option<T> {
        self.given.try_recv().ok()
    }

    pub(crate) fn is_in<Q>(&self, queue: &Arc<Q>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.queue), Arc::as_ptr(queue))
    }
}

impl<T> Drop for Queued<T> {
    fn drop(&mut self) {
        // What is in transit is dropped with the receiver, and so given back.
        Arc::clone(&self.queue).leave(&self.namespace, self.ticket);
    }
}

/// The places for event streams (`--max-streams`). A Run that waits for one is polled.
pub struct StreamPlaces(Mutex<Streams>);

struct Streams {
    places: FairPlaces<oneshot::Sender<StreamPlace>>,
    /// Those taken, with what asks each back: by namespace, the oldest first.
    taken: BTreeMap<(Arc<str>, u64), CancellationToken>,
    given: u64,
}

/// A place for an open stream. Dropped, it is given back.
pub(crate) struct StreamPlace {
    places: Arc<StreamPlaces>,
    namespace: Arc<str>,
    number: u64,
    asked_back: CancellationToken,
}

impl StreamPlace {
    pub(crate) async fn asked_back(&self) {
        self.asked_back.cancelled().await;
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let taken = (Arc::clone(&self.namespace), self.number);
        self.places.change(|table| {
            table.taken.remove(&taken);
            table.places.give_back(&taken.0);
        });
    }
}

impl Queue for StreamPlaces {
    fn leave(self: Arc<Self>, namespace: &Arc<str>, ticket: Ticket) {
        self.change(|table| table.places.leave(namespace, ticket));
    }
}

impl StreamPlaces {
    pub(crate) fn new(most: usize) -> Self {
        Self(Mutex::new(Streams {
            places: FairPlaces::new(most),
            taken: BTreeMap::new(),
            given: 0,
        }))
    }

    pub(crate) fn ask(
        self: &Arc<Self>,
        namespace: &str,
    ) -> Result<StreamPlace, Queued<StreamPlace>> {
        let namespace: Arc<str> = namespace.into();
        let asked = self.change(|table| {
            if table.places.waiting() == 0 && table.places.free() {
                table.places.take(&namespace);
                Ok(self.give(table, Arc::clone(&namespace)))
            } else {
                let (sender, place) = oneshot::channel();
                Err((table.places.enqueue(&namespace, sender), place))
            }
        });
        asked.map_err(|(ticket, place)| Queued::new(self.clone(), namespace, ticket, place))
    }

    fn give(self: &Arc<Self>, table: &mut Streams, namespace: Arc<str>) -> StreamPlace {
        table.given += 1;
        let place = StreamPlace {
            places: Arc::clone(self),
            namespace: Arc::clone(&namespace),
            number: table.given,
            asked_back: CancellationToken::new(),
        };
        let taken = (namespace, place.number);
        table.taken.insert(taken, place.asked_back.clone());
        place
    }

    /// Changes the table, then gives the free places to those who wait, and asks back what is owed.
    fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut Streams) -> R) -> R {
        let mut table = lock(&self.0);
        let result = change(&mut table);
        let mut given = Vec::new();
        while let Some((namespace, waiter)) = table.places.next() {
            given.push((waiter, self.give(&mut table, namespace)));
        }
        if let Some((namespace, owed)) = table.places.to_give_back() {
            let all = (Arc::clone(&namespace), 0)..=(namespace, u64::MAX);
            for (_, place) in table.taken.range(all).take(owed) {
                place.cancel();
            }
        }
        drop(table);
        for (waiter, place) in given {
            // If it is not wanted any more, the place is dropped and so given back.
            drop(waiter.send(place));
        }
        result
    }
}

#[cfg(test)]
mod tests;
