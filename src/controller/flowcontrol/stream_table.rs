//! Assignment of the slots for event streams: fair by namespace, FIFO within one, and by rotation if more wait than
//! there are slots. No I/O and no clock: the caller brings the time.
//!
//! # Rules
//! - A namespace that requests a slot gets one at once from the namespace with the most slots, as long as that has at
//!   least two more. So each has its share, and the others divide the part of a share that is not wanted.
//! - While others wait, a stream that has had its slot for [`TURN`] gives it to a waiting one: of its own namespace, or
//!   of one with fewer slots. At most a [`TURN`]th of the slots moves in a second, so that rotation costs the service a
//!   bounded number of calls.
//! - If this process lacks files, the number of slots shrinks; it grows back step by step.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use crate::decide::time::later;

/// Minimum time for which a stream keeps its slot while others wait.
pub(crate) const TURN: Duration = Duration::from_secs(30);
/// Minimum time between two reductions for lack of files. Also the time after the last such failure before slots grow
/// back, and the interval of their growth.
const AFTER_SHORTAGE: Duration = Duration::from_secs(30);

/// Identifier of a request for a slot.
pub(crate) type Ticket = u64;

/// Instruction to the holder of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The slot is granted.
    Take(Ticket),
    /// The slot must be returned soon.
    Leave(Ticket),
}

/// The slots.
pub(crate) struct Table {
    /// Configured number of slots.
    wanted: usize,
    /// Current number of slots; at least one, if any are configured.
    most: usize,
    slots: HashMap<Ticket, Slot>,
    /// Lanes by namespace; each has slots or waiters.
    lanes: BTreeMap<String, Lane>,
    /// Counts the slots granted, and the namespaces that began to wait.
    given: u64,
    /// Time of the last lack of files.
    last_short: Option<Timestamp>,
    /// Time of the last reduction.
    shrunk: Option<Timestamp>,
    /// Time of the last growth.
    grown: Option<Timestamp>,
}

struct Slot {
    namespace: String,
    since: Timestamp,
    leaving: bool,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Ticket>,
    held: usize,
    /// Number of held slots that must be returned.
    leaving: usize,
    /// Value of the counter when it last got a slot, or began to wait for its first.
    given: u64,
}

impl Lane {
    /// Number of slots that it keeps.
    fn keeps(&self) -> usize {
        self.held - self.leaving
    }
}

impl Table {
    /// A table of `most` slots.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            wanted: most,
            most,
            slots: HashMap::new(),
            lanes: BTreeMap::new(),
            given: 0,
            last_short: None,
            shrunk: None,
            grown: None,
        }
    }

    /// Current number of slots.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Requests a slot for a stream of this namespace.
    pub(crate) fn enter(&mut self, ticket: Ticket, namespace: &str, now: Timestamp) -> Vec<Order> {
        if !self.lanes.contains_key(namespace) {
            self.given += 1;
            let lane = Lane {
                given: self.given,
                ..Lane::default()
            };
            self.lanes.insert(namespace.to_owned(), lane);
        }
        if let Some(lane) = self.lanes.get_mut(namespace) {
            lane.waiting.push_back(ticket);
        }
        self.assign(now)
    }

    /// Returns a slot, or withdraws the request for one.
    pub(crate) fn leave(&mut self, ticket: Ticket, now: Timestamp) -> Vec<Order> {
        if let Some(slot) = self.slots.remove(&ticket) {
            if let Some(lane) = self.lanes.get_mut(&slot.namespace) {
                lane.held -= 1;
                lane.leaving -= usize::from(slot.leaving);
            }
        } else {
            for lane in self.lanes.values_mut() {
                lane.waiting.retain(|waiting| *waiting != ticket);
            }
        }
        self.lanes
            .retain(|_, lane| lane.held > 0 || !lane.waiting.is_empty());
        self.assign(now)
    }

    /// Rotates slots to waiters. Must be called every second.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Vec<Order> {
        self.grow_back(now);
        let mut orders = self.assign(now);
        let turn = usize::try_from(TURN.as_secs()).unwrap_or(usize::MAX);
        let unserved = self.waiting().saturating_sub(self.leaving());
        let budget = unserved.min(self.most.div_ceil(turn));
        if budget == 0 {
            return orders;
        }
        let mut ripe: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, slot)| !slot.leaving && later(slot.since, TURN) <= now)
            .map(|(ticket, slot)| (slot.since, *ticket))
            .collect();
        ripe.sort_unstable();
        let mut left = budget;
        for (_, ticket) in ripe {
            if left > 0 && self.gives_way(ticket) {
                orders.extend(self.ask_to_leave(ticket));
                left -= 1;
            }
        }
        orders
    }

    /// Handles a lack of files: the number of slots shrinks for a while. Returns whether it shrank now.
    pub(crate) fn short_of_files(&mut self, now: Timestamp) -> (bool, Vec<Order>) {
        self.last_short = Some(now);
        if !past(self.shrunk, now) {
            return (false, Vec::new());
        }
        self.shrunk = Some(now);
        // If few slots are in use, files are short elsewhere: growing back from so few slots would take too long.
        let taken = (self.slots.len() * 3 / 4).max(self.wanted / 4);
        self.most = (self.most * 3 / 4).min(taken).max(1).min(self.wanted);
        (true, self.assign(now))
    }

    fn grow_back(&mut self, now: Timestamp) {
        if self.most < self.wanted && past(self.last_short, now) && past(self.grown, now) {
            self.most = (self.most + self.most.div_ceil(4)).min(self.wanted);
            self.grown = Some(now);
        }
    }

    /// Grants free slots, and asks for slots that are due to others.
    fn assign(&mut self, now: Timestamp) -> Vec<Order> {
        let mut orders = Vec::new();
        while self.slots.len() < self.most
            && let Some(ticket) = self.give(now)
        {
            orders.push(Order::Take(ticket));
        }
        let surplus = self.slots.len().saturating_sub(self.most);
        for _ in self.leaving()..surplus {
            orders.extend(self.longest_of_richest(0));
        }
        let mut expected = self.expected(surplus);
        while let Some((poorest, keeps)) = self.poorest(&expected)
            && let Some(order) = self.longest_of_richest(keeps + 2)
        {
            *expected.entry(poorest).or_default() += 1;
            orders.push(order);
        }
        orders
    }

    /// The namespaces that will get the slots about to be returned, less the `surplus` that is removed.
    fn expected(&self, surplus: usize) -> BTreeMap<String, usize> {
        let mut expected = BTreeMap::new();
        for _ in surplus..self.leaving() {
            if let Some((poorest, _)) = self.poorest(&expected) {
                *expected.entry(poorest).or_default() += 1;
            }
        }
        expected
    }

    /// The namespace with the fewest slots among those that want more than they can expect, and its number of slots
    /// including these.
    fn poorest(&self, expected: &BTreeMap<String, usize>) -> Option<(String, usize)> {
        let lanes = self.lanes.iter().filter_map(|(namespace, lane)| {
            let coming = expected.get(namespace).copied().unwrap_or_default();
            let wants = lane.waiting.len() > coming;
            wants.then_some((lane.keeps() + coming, lane.given, namespace))
        });
        let (keeps, _, namespace) = lanes.min()?;
        Some((namespace.clone(), keeps))
    }

    /// Grants a slot to the first waiter of the namespace that keeps the fewest; of several, the one granted longest
    /// ago.
    fn give(&mut self, now: Timestamp) -> Option<Ticket> {
        let wanting = self.lanes.iter_mut().filter(|(_, l)| !l.waiting.is_empty());
        let (namespace, lane) = wanting.min_by_key(|(_, l)| (l.keeps(), l.given))?;
        let ticket = lane.waiting.pop_front()?;
        self.given += 1;
        lane.given = self.given;
        lane.held += 1;
        let slot = Slot {
            namespace: namespace.clone(),
            since: now,
            leaving: false,
        };
        self.slots.insert(ticket, slot);
        Some(ticket)
    }

    fn waiting(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len()).sum()
    }

    fn leaving(&self) -> usize {
        self.lanes.values().map(|lane| lane.leaving).sum()
    }

    /// Asks the longest holder in the namespace that keeps the most slots to leave, if it keeps `at_least` so many.
    fn longest_of_richest(&mut self, at_least: usize) -> Option<Order> {
        let lanes = self.lanes.iter();
        let rich = lanes.filter(|(_, lane)| lane.keeps() >= at_least.max(1));
        let (namespace, _) = rich.max_by_key(|(_, lane)| (lane.keeps(), Reverse(lane.given)))?;
        let slots = self.slots.iter();
        let theirs = slots.filter(|(_, slot)| !slot.leaving && slot.namespace == *namespace);
        let longest = theirs.min_by_key(|(ticket, slot)| (slot.since, **ticket));
        let ticket = longest.map(|(ticket, _)| *ticket)?;
        self.ask_to_leave(ticket)
    }

    /// Whether a waiter exists that may take the slot of this ticket.
    fn gives_way(&self, ticket: Ticket) -> bool {
        let Some(lane) = self
            .slots
            .get(&ticket)
            .and_then(|slot| self.lanes.get(&slot.namespace))
        else {
            return false;
        };
        let own = lane.waiting.len() > lane.leaving;
        let poorer = |other: &Lane| !other.waiting.is_empty() && other.keeps() < lane.keeps();
        own || self.lanes.values().any(poorer)
    }

    fn ask_to_leave(&mut self, ticket: Ticket) -> Option<Order> {
        let slot = self.slots.get_mut(&ticket)?;
        slot.leaving = true;
        if let Some(lane) = self.lanes.get_mut(&slot.namespace) {
            lane.leaving += 1;
        }
        Some(Order::Leave(ticket))
    }
}

/// Whether [`AFTER_SHORTAGE`] has passed since `then`; true if it is `None`.
fn past(then: Option<Timestamp>, now: Timestamp) -> bool {
    then.is_none_or(|then| later(then, AFTER_SHORTAGE) <= now)
}

#[cfg(test)]
mod tests;
