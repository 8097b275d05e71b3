//! Bounded concurrency of the calls that check Workspaces: 32 in all, 8 at one origin of a service. The origins
//! that wait take turns, and the namespaces within one, so that no tenant's thousands delay another's check for
//! long, whoever hangs.
//!
//! # Guarantees
//! - A call of a check ends within 10 s (`service::Client`), so that a place is given back within that time.
//! - While at most 3 origins hang, a check at another one waits for none of them. With more, it waits for at most
//!   10 s for each 32 of them, before each of its two calls.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::{context::lock, lanes::Lanes};

/// Calls at the same time.
const PLACES: usize = 32;
/// Of these, at one origin.
const PER_ORIGIN: usize = 8;

/// The places, shared by all checks.
#[derive(Default)]
pub struct CheckPlaces {
    table: Mutex<Table<oneshot::Sender<Place>>>,
}

/// The right to one call; given back when dropped.
pub struct Place {
    places: Arc<CheckPlaces>,
    origin: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.change(|table| table.leave(&self.origin));
    }
}

impl CheckPlaces {
    /// Waits for a place for a call at `origin` for a Workspace of `namespace`.
    pub async fn enter(self: &Arc<Self>, origin: &str, namespace: &str) -> Option<Place> {
        let (sender, receiver) = oneshot::channel();
        self.change(|table| table.wait(origin, namespace, sender));
        receiver.await.ok()
    }

    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Table<oneshot::Sender<Place>>)) {
        let mut table = lock(&self.table);
        change(&mut table);
        let granted = table.grant();
        drop(table);
        for (origin, waiter) in granted {
            let places = Arc::clone(self);
            // A waiter that is gone gives the place back by dropping it.
            drop(waiter.send(Place { places, origin }));
        }
    }
}

/// Who waits, and how many places are taken.
struct Table<W> {
    taken: usize,
    origins: HashMap<String, Origin<W>>,
    /// The origins at which somebody waits, each once; the first is next.
    order: VecDeque<String>,
}

struct Origin<W> {
    taken: usize,
    waiting: Lanes<W>,
}

impl<W> Default for Table<W> {
    fn default() -> Self {
        Self {
            taken: 0,
            origins: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<W> Table<W> {
    fn wait(&mut self, origin: &str, namespace: &str, waiter: W) {
        let one = self
            .origins
            .entry(origin.to_owned())
            .or_insert_with(|| Origin {
                taken: 0,
                waiting: Lanes::new(),
            });
        if one.waiting.is_empty() {
            self.order.push_back(origin.to_owned());
        }
        one.waiting.push_back(namespace, waiter);
    }

    fn leave(&mut self, origin: &str) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(one) = self.origins.get_mut(origin) {
            one.taken = one.taken.saturating_sub(1);
            if one.taken == 0 && one.waiting.is_empty() {
                self.origins.remove(origin);
            }
        }
    }

    /// Gives the free places to those that are next.
    fn grant(&mut self) -> Vec<(String, W)> {
        let mut granted = Vec::new();
        let mut full = VecDeque::new();
        while self.taken < PLACES
            && let Some(origin) = self.order.pop_front()
        {
            let Some(one) = self.origins.get_mut(&origin) else {
                continue;
            };
            if one.taken >= PER_ORIGIN {
                full.push_back(origin);
                continue;
            }
            let Some(waiter) = one.waiting.pop_front() else {
                continue;
            };
            one.taken += 1;
            self.taken += 1;
            if !one.waiting.is_empty() {
                self.order.push_back(origin.clone());
            }
            granted.push((origin, waiter));
        }
        // Before the others: they lose no turn by having been full.
        full.append(&mut self.order);
        self.order = full;
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(table: &mut Table<u32>) -> Vec<u32> {
        table
            .grant()
            .into_iter()
            .map(|(_, waiter)| waiter)
            .collect()
    }

    #[test]
    fn an_origin_that_hangs_leaves_places_to_the_others() {
        let mut table = Table::default();
        for n in 0..1000 {
            table.wait("https://hangs", "big", n);
        }
        assert_eq!(granted(&mut table).len(), PER_ORIGIN);
        table.wait("https://good", "small", 5000);
        assert_eq!(granted(&mut table), [5000]);
    }

    #[test]
    fn the_places_are_bounded_and_the_origins_take_turns() {
        let mut table = Table::default();
        let origins: Vec<String> = (0..50).map(|n| format!("https://{n}")).collect();
        for origin in &origins {
            for n in 0..40 {
                table.wait(origin, "big", n);
            }
        }
        assert_eq!(granted(&mut table), vec![0; PLACES], "one of each origin");
        table.wait("https://good", "small", 5000);
        // Each place that is given back goes to the next origin; one that comes is behind those that wait.
        for origin in &origins {
            table.leave(origin);
            let next = granted(&mut table);
            assert!(next.len() == 1 && next != [5000], "{next:?}");
        }
        table.leave(&origins[0]);
        assert_eq!(granted(&mut table), [5000]);
    }

    #[test]
    fn the_namespaces_at_one_origin_take_turns() {
        let mut table = Table::default();
        for n in 0..100 {
            table.wait("https://one", "big", n);
        }
        granted(&mut table);
        table.wait("https://one", "small", 5000);
        table.leave("https://one");
        table.leave("https://one");
        assert_eq!(granted(&mut table), [8, 5000]);
    }

    #[tokio::test]
    async fn a_place_is_given_back_by_who_took_it_and_by_who_left() {
        let places = Arc::new(CheckPlaces::default());
        let mut taken = Vec::new();
        for _ in 0..PER_ORIGIN {
            taken.push(places.enter("https://one", "a").await.unwrap());
        }
        let left = places.enter("https://one", "a");
        assert!(futures::FutureExt::now_or_never(left).is_none());
        taken.clear();
        let table = lock(&places.table);
        assert_eq!((table.taken, table.origins.len()), (0, 0));
    }
}
