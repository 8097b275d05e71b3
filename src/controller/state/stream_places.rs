//! The places for event streams (`--max-streams`), in the order of [`FairPlaces`]. A Run that waits for one is polled.
//! While another namespace waits, one that has more than half of the places gives some back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::util::lock;

use super::fair_places::{FairPlaces, Ticket};

/// All places.
pub struct StreamPlaces {
    table: Mutex<Table>,
}

struct Table {
    places: FairPlaces<oneshot::Sender<StreamPlace>>,
    /// Those taken, with what asks each back: by namespace, the oldest first.
    taken: BTreeMap<(Arc<str>, u64), CancellationToken>,
    /// Number of places given out.
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
    /// Waits until the place must be given back.
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

/// A position in the queue. Dropped, it is left.
pub(crate) struct QueuedStream {
    places: Arc<StreamPlaces>,
    namespace: Arc<str>,
    ticket: Ticket,
    place: oneshot::Receiver<StreamPlace>,
}

impl QueuedStream {
    /// Waits for the place.
    pub(crate) async fn place(mut self) -> StreamPlace {
        match (&mut self.place).await {
            Ok(place) => place,
            // The table keeps the sender as long as this is queued.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for QueuedStream {
    fn drop(&mut self) {
        // A place in transit is dropped with the receiver, and so given back.
        self.places
            .change(|table| table.places.leave(&self.namespace, self.ticket));
    }
}

impl StreamPlaces {
    /// This number of places, all free.
    pub(crate) fn new(most: usize) -> Self {
        let table = Table {
            places: FairPlaces::new(most),
            taken: BTreeMap::new(),
            given: 0,
        };
        Self {
            table: Mutex::new(table),
        }
    }

    /// A place for a stream of a Run of this namespace, if none waits and one is free; else a position in the queue.
    pub(crate) fn ask(self: &Arc<Self>, namespace: &str) -> Result<StreamPlace, QueuedStream> {
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
        asked.map_err(|(ticket, place)| QueuedStream {
            places: Arc::clone(self),
            namespace,
            ticket,
            place,
        })
    }

    fn give(self: &Arc<Self>, table: &mut Table, namespace: Arc<str>) -> StreamPlace {
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
    fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = lock(&self.table);
        let result = change(&mut table);
        let mut given = Vec::new();
        while let Some((namespace, waiter)) = table.places.next() {
            given.push((waiter, self.give(&mut table, namespace)));
        }
        if let Some((namespace, owed)) = table.places.owed() {
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
#[allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn place(places: &Arc<StreamPlaces>, namespace: &str) -> StreamPlace {
        places.ask(namespace).ok().unwrap()
    }

    /// A position in the queue, and whether it has its place now.
    struct Waits(std::pin::Pin<Box<dyn Future<Output = StreamPlace>>>);

    impl Waits {
        fn new(places: &Arc<StreamPlaces>, namespace: &str) -> Self {
            let queued = places.ask(namespace).err().unwrap();
            Self(Box::pin(queued.place()))
        }

        fn place(&mut self) -> Option<StreamPlace> {
            (&mut self.0).now_or_never()
        }
    }

    fn is_asked_back(place: &StreamPlace) -> bool {
        place.asked_back().now_or_never().is_some()
    }

    /// Drops the places that are asked back; returns their number.
    fn give_way(held: &mut Vec<StreamPlace>) -> usize {
        let before = held.len();
        held.retain(|place| !is_asked_back(place));
        before - held.len()
    }

    /// Proves: P-stream-places
    #[test]
    fn while_another_waits_a_namespace_keeps_half_of_the_places() {
        let places = Arc::new(StreamPlaces::new(5));
        let mut big: Vec<_> = (0..5).map(|_| place(&places, "big")).collect();
        let first = big[0].number;
        let more: Vec<_> = (0..5).map(|_| Waits::new(&places, "big")).collect();
        assert_eq!(give_way(&mut big), 0, "none else waits");
        let mut one = Waits::new(&places, "small");
        assert_eq!(give_way(&mut big), 1);
        assert!(big.iter().all(|place| place.number != first), "the oldest");
        let mut small = vec![one.place().unwrap()];
        let mut rest: Vec<_> = (0..5).map(|_| Waits::new(&places, "small")).collect();
        assert_eq!(give_way(&mut big), 1);
        small.push(rest[0].place().unwrap());
        // Three and two: both wait, and neither gives way.
        assert_eq!((give_way(&mut big), give_way(&mut small)), (0, 0));
        assert_eq!((big.len(), small.len()), (3, 2));
        drop((more, rest));
        assert_eq!(lock(&places.table).places.waiting(), 0);
    }

    /// Proves: P-stream-places
    #[test]
    fn a_place_given_back_goes_to_the_first_that_waits() {
        let places = Arc::new(StreamPlaces::new(1));
        let only = place(&places, "team");
        let gone = Waits::new(&places, "team");
        let mut first = Waits::new(&places, "team");
        let mut second = Waits::new(&places, "other");
        assert!(!is_asked_back(&only), "one place is no more than half");
        drop(gone);
        drop(only);
        // It is the other namespace's turn.
        let given = second.place().unwrap();
        assert!(first.place().is_none());
        drop(given);
        assert!(first.place().is_some());
        let table = lock(&places.table);
        assert!(table.taken.is_empty() && table.places.free());
    }

    /// Proves: P-stream-places
    #[test]
    fn without_places_all_wait() {
        let places = Arc::new(StreamPlaces::new(0));
        assert!(Waits::new(&places, "team").place().is_none());
    }
}
