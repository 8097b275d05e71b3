//! Bounded concurrency of the calls that check Workspaces: 32 in all, 8 at one origin of a service. The order is
//! round-robin by origin, and by namespace within one. No tenant's thousands of Workspaces delay another tenant's check
//! for long, even if a service hangs.
//!
//! # Guarantees
//! - A call of a check ends within 10 s (`service::Client`), so that its slot is released within that time.
//! - While at most 3 origins hang, a check at another one waits for none of them. With more, it waits at most 10 s for
//!   each 32 of them, before each of its two calls.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::util::lock;

use super::round_robin::RoundRobin;

/// Calls at the same time.
const SLOTS: usize = 32;
/// Calls at the same time at one origin.
const PER_ORIGIN: usize = 8;

/// Lane of the calls that the Workspaces of many namespaces share; no namespace has such a name. In the lane of the
/// namespace that asked first, its queue would delay them.
pub const VERSIONS: &str = "/version";

/// The slots that all checks share.
#[derive(Default)]
pub struct ProbeSlots {
    table: Mutex<Table<oneshot::Sender<ProbeSlot>>>,
}

/// Permission for one call; released when dropped.
pub struct ProbeSlot {
    slots: Arc<ProbeSlots>,
    origin: String,
}

impl Drop for ProbeSlot {
    fn drop(&mut self) {
        self.slots.change(|table| table.leave(&self.origin));
    }
}

impl ProbeSlots {
    /// Waits for a slot for a call at `origin` in this lane: a Workspace's namespace, or [`VERSIONS`].
    pub async fn enter(self: &Arc<Self>, origin: &str, lane: &str) -> Option<ProbeSlot> {
        let (sender, receiver) = oneshot::channel();
        self.change(|table| table.wait(origin, lane, sender));
        receiver.await.ok()
    }

    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Table<oneshot::Sender<ProbeSlot>>)) {
        let mut table = lock(&self.table);
        change(&mut table);
        let granted = table.grant(oneshot::Sender::is_closed);
        drop(table);
        for (origin, waiter) in granted {
            let slots = Arc::clone(self);
            // If the waiter gave up just now, the dropped slot is released.
            drop(waiter.send(ProbeSlot { slots, origin }));
        }
    }
}

/// The waiters, and the number of slots in use.
struct Table<W> {
    taken: usize,
    origins: HashMap<String, Origin<W>>,
    /// The origins with waiters, each once; the first is next.
    order: VecDeque<String>,
}

struct Origin<W> {
    taken: usize,
    waiting: RoundRobin<W>,
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
                waiting: RoundRobin::new(),
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

    /// Grants the free slots to the next waiters; skips those that are `gone`.
    fn grant(&mut self, gone: impl Fn(&W) -> bool) -> Vec<(String, W)> {
        let mut granted = Vec::new();
        let mut full = VecDeque::new();
        while self.taken < SLOTS
            && let Some(origin) = self.order.pop_front()
        {
            let Some(one) = self.origins.get_mut(&origin) else {
                continue;
            };
            if one.taken >= PER_ORIGIN {
                full.push_back(origin);
                continue;
            }
            one.waiting.discard_while(&gone);
            let Some(waiter) = one.waiting.pop_front() else {
                if one.taken == 0 {
                    self.origins.remove(&origin);
                }
                continue;
            };
            one.taken += 1;
            self.taken += 1;
            if !one.waiting.is_empty() {
                self.order.push_back(origin.clone());
            }
            granted.push((origin, waiter));
        }
        // Full origins go first next time: they lose no turn.
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
            .grant(|_| false)
            .into_iter()
            .map(|(_, waiter)| waiter)
            .collect()
    }

    /// Proves: P-many-workspaces
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

    /// Proves: P-many-workspaces
    #[test]
    fn the_places_are_bounded_and_the_origins_take_turns() {
        let mut table = Table::default();
        let origins: Vec<String> = (0..50).map(|n| format!("https://{n}")).collect();
        for origin in &origins {
            for n in 0..40 {
                table.wait(origin, "big", n);
            }
        }
        assert_eq!(granted(&mut table), vec![0; SLOTS], "one of each origin");
        table.wait("https://good", "small", 5000);
        // Each released slot goes to the next origin; a new waiter comes after the others.
        for origin in &origins {
            table.leave(origin);
            let next = granted(&mut table);
            assert!(next.len() == 1 && next != [5000], "{next:?}");
        }
        table.leave(&origins[0]);
        assert_eq!(granted(&mut table), [5000]);
    }

    /// Proves: P-many-workspaces
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

    /// Proves: P-many-workspaces
    #[test]
    fn a_shared_version_call_does_not_queue_behind_one_namespace() {
        let mut table = Table::default();
        for n in 0..100 {
            table.wait("https://one", "big", n);
        }
        granted(&mut table);
        table.wait("https://one", VERSIONS, 5000);
        table.leave("https://one");
        table.leave("https://one");
        assert!(granted(&mut table).contains(&5000));
    }

    /// Proves: P-many-workspaces
    #[tokio::test]
    async fn a_place_is_given_back_by_who_took_it_and_by_who_left() {
        let slots = Arc::new(ProbeSlots::default());
        let mut taken = Vec::new();
        for _ in 0..PER_ORIGIN {
            taken.push(slots.enter("https://one", "a").await.unwrap());
        }
        let left = slots.enter("https://one", "a");
        assert!(futures::FutureExt::now_or_never(left).is_none());
        taken.clear();
        let table = lock(&slots.table);
        assert_eq!((table.taken, table.origins.len()), (0, 0));
    }

    /// Proves: P-many-workspaces
    #[tokio::test]
    async fn thousands_that_wait_no_more_are_passed_over_without_a_place() {
        let slots = Arc::new(ProbeSlots::default());
        let mut taken = Vec::new();
        for _ in 0..PER_ORIGIN {
            taken.push(slots.enter("https://one", "a").await.unwrap());
        }
        let mut left = Vec::new();
        for n in 0..10_000 {
            let (slots, lane) = (Arc::clone(&slots), format!("lane-{}", n % 7));
            let mut waits = Box::pin(async move { slots.enter("https://one", &lane).await });
            assert!(futures::poll!(&mut waits).is_pending());
            left.push(waits);
        }
        drop(left);
        let mut last = Box::pin(slots.enter("https://one", "b"));
        assert!(futures::poll!(&mut last).is_pending());
        taken.pop();
        let last = last.await;
        assert_eq!(lock(&slots.table).taken, PER_ORIGIN);
        drop((last, taken));
        let table = lock(&slots.table);
        let rest = (table.taken, table.origins.len(), table.order.len());
        assert_eq!(rest, (0, 0, 0));
    }
}
