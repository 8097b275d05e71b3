//! Who has one of the places for event streams: fair by namespace, first come, first served within one, and
//! in turn where more wait than there are places. No I/O and no clock: the caller brings the time.
//!
//! # Rules
//! - A namespace that wants a place gets one at once from the namespace with the most, as long as that has
//!   two more than it: each has its share, and what one doesn't want is shared by the others.
//! - While others wait, a stream that has had its place for [`TURN`] gives it to one that waits: of its own
//!   namespace, or of one with fewer places. At most a [`TURN`]th of the places goes over in a second, so
//!   that rotation costs the service a bounded number of calls.
//! - Where this process lacks files, the number of places shrinks; it grows back step by step.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use crate::decide::memory::later;

/// How long a stream keeps its place, at least, while others wait.
pub(super) const TURN: Duration = Duration::from_secs(30);
/// A failure for lack of files shrinks the places at most this often, and they grow back at this pace.
const AFTER_SHORTAGE: Duration = Duration::from_secs(30);

/// Names one who wants a place.
pub(super) type Ticket = u64;

/// What somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The place is theirs.
    Take(Ticket),
    /// Give the place back soon.
    Leave(Ticket),
}

/// The places.
pub(super) struct Table {
    /// Places as configured.
    wanted: usize,
    /// Places now; where any are configured, at least one.
    most: usize,
    seats: HashMap<Ticket, Seat>,
    /// By namespace; none is without both seats and waiters.
    lanes: BTreeMap<String, Lane>,
    /// Counts the places given, and the namespaces that began to wait.
    given: u64,
    /// When files were last short, or the places last grew back.
    short_at: Option<Timestamp>,
}

struct Seat {
    namespace: String,
    since: Timestamp,
    leaving: bool,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Ticket>,
    held: usize,
    /// How many of them were asked to leave.
    leaving: usize,
    /// When it was last given a place, or began to wait for its first: counted, not timed.
    given: u64,
}

impl Lane {
    /// The places that it keeps.
    fn keeps(&self) -> usize {
        self.held - self.leaving
    }
}

impl Table {
    /// So many places.
    pub(super) fn new(most: usize) -> Self {
        Self {
            wanted: most,
            most,
            seats: HashMap::new(),
            lanes: BTreeMap::new(),
            given: 0,
            short_at: None,
        }
    }

    /// How many places there are now.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Somebody of this namespace wants a place.
    pub(super) fn enter(&mut self, ticket: Ticket, namespace: &str, now: Timestamp) -> Vec<Order> {
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
        self.settle(now)
    }

    /// Somebody gives the place back, or wants none any more.
    pub(super) fn leave(&mut self, ticket: Ticket, now: Timestamp) -> Vec<Order> {
        if let Some(seat) = self.seats.remove(&ticket) {
            if let Some(lane) = self.lanes.get_mut(&seat.namespace) {
                lane.held -= 1;
                lane.leaving -= usize::from(seat.leaving);
            }
        } else {
            for lane in self.lanes.values_mut() {
                lane.waiting.retain(|waiting| *waiting != ticket);
            }
        }
        self.lanes
            .retain(|_, lane| lane.held > 0 || !lane.waiting.is_empty());
        self.settle(now)
    }

    /// Time has passed: lets those who wait have their turn. To be called every second.
    pub(super) fn tick(&mut self, now: Timestamp) -> Vec<Order> {
        self.grow_back(now);
        let mut orders = self.settle(now);
        let turn = usize::try_from(TURN.as_secs()).unwrap_or(usize::MAX);
        let unserved = self.waiting().saturating_sub(self.leaving());
        let budget = unserved.min(self.most.div_ceil(turn));
        if budget == 0 {
            return orders;
        }
        let mut ripe: Vec<_> = self
            .seats
            .iter()
            .filter(|(_, seat)| !seat.leaving && later(seat.since, TURN) <= now)
            .map(|(ticket, seat)| (seat.since, *ticket))
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

    /// This process could open no more files: there are fewer places for a while. Returns whether that is
    /// news.
    pub(super) fn short_of_files(&mut self, now: Timestamp) -> (bool, Vec<Order>) {
        if self
            .short_at
            .is_some_and(|at| now < later(at, AFTER_SHORTAGE))
        {
            return (false, Vec::new());
        }
        self.short_at = Some(now);
        self.most = (self.most.min(self.seats.len()) * 3 / 4)
            .max(1)
            .min(self.wanted);
        (true, self.settle(now))
    }

    fn grow_back(&mut self, now: Timestamp) {
        let due = |at: Timestamp| later(at, AFTER_SHORTAGE) <= now;
        if self.most < self.wanted && self.short_at.is_some_and(due) {
            self.most = (self.most + self.most.div_ceil(4)).min(self.wanted);
            self.short_at = Some(now);
        }
    }

    /// Gives free places away, and asks for the places that are due to others.
    fn settle(&mut self, now: Timestamp) -> Vec<Order> {
        let mut orders = Vec::new();
        while self.seats.len() < self.most
            && let Some(ticket) = self.give(now)
        {
            orders.push(Order::Take(ticket));
        }
        let surplus = self.seats.len().saturating_sub(self.most);
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

    /// To whom the places go that are about to be given back, `surplus` of them to nobody.
    fn expected(&self, surplus: usize) -> BTreeMap<String, usize> {
        let mut expected = BTreeMap::new();
        for _ in surplus..self.leaving() {
            if let Some((poorest, _)) = self.poorest(&expected) {
                *expected.entry(poorest).or_default() += 1;
            }
        }
        expected
    }

    /// The namespace that has the fewest places, of those that want more than they can expect, and how many
    /// it has with these.
    fn poorest(&self, expected: &BTreeMap<String, usize>) -> Option<(String, usize)> {
        let lanes = self.lanes.iter().filter_map(|(namespace, lane)| {
            let coming = expected.get(namespace).copied().unwrap_or_default();
            let wants = lane.waiting.len() > coming;
            wants.then_some((lane.keeps() + coming, lane.given, namespace))
        });
        let (keeps, _, namespace) = lanes.min()?;
        Some((namespace.clone(), keeps))
    }

    /// Gives a place to the longest waiting of the namespace that keeps the fewest; of several to the one
    /// whose last turn is longest ago.
    fn give(&mut self, now: Timestamp) -> Option<Ticket> {
        let wanting = self.lanes.iter_mut().filter(|(_, l)| !l.waiting.is_empty());
        let (namespace, lane) = wanting.min_by_key(|(_, l)| (l.keeps(), l.given))?;
        let ticket = lane.waiting.pop_front()?;
        self.given += 1;
        lane.given = self.given;
        lane.held += 1;
        let seat = Seat {
            namespace: namespace.clone(),
            since: now,
            leaving: false,
        };
        self.seats.insert(ticket, seat);
        Some(ticket)
    }

    fn waiting(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len()).sum()
    }

    fn leaving(&self) -> usize {
        self.lanes.values().map(|lane| lane.leaving).sum()
    }

    /// Asks the longest seated of the namespace that keeps the most to leave, if those are so many `at_least`.
    fn longest_of_richest(&mut self, at_least: usize) -> Option<Order> {
        let lanes = self.lanes.iter();
        let rich = lanes.filter(|(_, lane)| lane.keeps() >= at_least.max(1));
        let (namespace, _) = rich.max_by_key(|(_, lane)| (lane.keeps(), Reverse(lane.given)))?;
        let seats = self.seats.iter();
        let theirs = seats.filter(|(_, seat)| !seat.leaving && seat.namespace == *namespace);
        let longest = theirs.min_by_key(|(ticket, seat)| (seat.since, **ticket));
        let ticket = longest.map(|(ticket, _)| *ticket)?;
        self.ask_to_leave(ticket)
    }

    /// Whether somebody waits to whom the place of this ticket may go.
    fn gives_way(&self, ticket: Ticket) -> bool {
        let Some(lane) = self
            .seats
            .get(&ticket)
            .and_then(|seat| self.lanes.get(&seat.namespace))
        else {
            return false;
        };
        let own = lane.waiting.len() > lane.leaving;
        let poorer = |other: &Lane| !other.waiting.is_empty() && other.keeps() < lane.keeps();
        own || self.lanes.values().any(poorer)
    }

    fn ask_to_leave(&mut self, ticket: Ticket) -> Option<Order> {
        let seat = self.seats.get_mut(&ticket)?;
        seat.leaving = true;
        if let Some(lane) = self.lanes.get_mut(&seat.namespace) {
            lane.leaving += 1;
        }
        Some(Order::Leave(ticket))
    }
}

#[cfg(test)]
#[path = "stream_table_tests.rs"]
mod tests;
