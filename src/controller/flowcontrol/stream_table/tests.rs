//! The slots for event streams, by counts.

use std::collections::BTreeMap;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A table whose orders are followed at once.
struct Room {
    table: Table,
    namespaces: BTreeMap<Ticket, String>,
    /// The tickets with a slot.
    inside: Vec<Ticket>,
    /// Number of slots that each ticket has had.
    turns: BTreeMap<Ticket, u32>,
    /// Number of slots that were asked back.
    asked: usize,
    now: i64,
}

impl Room {
    fn new(most: usize) -> Self {
        Self {
            table: Table::new(most),
            namespaces: BTreeMap::new(),
            inside: Vec::new(),
            turns: BTreeMap::new(),
            asked: 0,
            now: 0,
        }
    }

    fn enter(&mut self, namespace: &str, tickets: std::ops::Range<Ticket>) {
        for ticket in tickets {
            self.namespaces.insert(ticket, namespace.to_owned());
            let orders = self.table.enter(ticket, namespace, at(self.now));
            self.follow(orders);
        }
    }

    /// A ticket that is asked to leave does so and waits again.
    fn follow(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Take(ticket) => {
                    assert!(!self.inside.contains(&ticket));
                    self.inside.push(ticket);
                    *self.turns.entry(ticket).or_default() += 1;
                }
                Order::Leave(ticket) => {
                    self.asked += 1;
                    self.leave(ticket);
                    let namespace = self.namespaces[&ticket].clone();
                    let orders = self.table.enter(ticket, &namespace, at(self.now));
                    self.follow(orders);
                }
            }
        }
    }

    fn leave(&mut self, ticket: Ticket) {
        self.inside.retain(|inside| *inside != ticket);
        let orders = self.table.leave(ticket, at(self.now));
        self.follow(orders);
    }

    fn seconds(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += 1;
            let orders = self.table.tick(at(self.now));
            self.follow(orders);
            assert!(self.inside.len() <= self.table.most());
        }
    }

    fn has(&self, namespace: &str) -> usize {
        let of_it = |ticket: &&Ticket| self.namespaces[*ticket] == namespace;
        self.inside.iter().filter(of_it).count()
    }
}

/// Proves: P-stream-places
#[test]
fn another_namespace_gets_its_share_at_once() {
    let mut room = Room::new(20);
    room.enter("big", 0..60);
    assert_eq!((room.has("big"), room.asked), (20, 0));
    room.enter("small", 100..103);
    assert_eq!((room.has("big"), room.has("small")), (17, 3));
    room.enter("third", 200..260);
    assert_eq!((room.has("big"), room.has("third")), (9, 8));
    assert_eq!(room.has("small"), 3, "it wants no more");
    room.enter("small", 103..160);
    let shares = ["big", "small", "third"].map(|namespace| room.has(namespace));
    assert_eq!(shares.iter().sum::<usize>(), 20);
    assert!(
        shares.iter().all(|share| (6..=8).contains(share)),
        "{shares:?}"
    );
}

/// Proves: P-stream-places
#[test]
fn every_one_that_waits_has_a_place_in_turn() {
    let mut room = Room::new(20);
    room.enter("big", 0..60);
    room.seconds(29);
    assert_eq!(room.asked, 0, "a place is kept for a while");
    room.seconds(100);
    assert_eq!(room.turns.len(), 60, "every one had a place");
    let most = room.turns.values().max().unwrap();
    let least = room.turns.values().min().unwrap();
    assert!(most - least <= 1, "{:?}", room.turns);
    // Twenty slots, each kept for at least thirty seconds.
    assert!(room.asked <= 20 * 129 / 30, "{} changes", room.asked);
}

/// Proves: P-stream-places
#[test]
fn more_namespaces_than_places_take_turns_too() {
    let mut room = Room::new(4);
    for n in 0..12 {
        room.enter(&format!("team-{n}"), n..n + 1);
    }
    room.seconds(100);
    assert_eq!(room.turns.len(), 12, "{:?}", room.turns);
}

#[test]
fn no_stream_is_closed_while_none_waits() {
    let mut room = Room::new(20);
    room.enter("big", 0..15);
    room.enter("small", 100..105);
    room.seconds(600);
    assert_eq!(room.asked, 0);
}

/// Proves: P-stream-places
#[test]
fn a_namespace_at_its_share_keeps_it_while_others_wait() {
    let mut room = Room::new(20);
    room.enter("small", 100..110);
    room.enter("big", 0..60);
    assert_eq!((room.has("big"), room.has("small")), (10, 10));
    room.seconds(300);
    assert!((100..110).all(|ticket| room.turns[&ticket] == 1));
}

#[test]
fn a_freed_slot_is_given_to_the_namespace_with_the_fewest() {
    let mut room = Room::new(3);
    room.enter("big", 0..10);
    room.enter("small", 100..101);
    assert_eq!((room.has("big"), room.has("small")), (2, 1));
    room.leave(100);
    assert_eq!(room.has("big"), 3);
    for ticket in room.inside.clone() {
        room.leave(ticket);
    }
    assert_eq!(room.has("big"), 3, "the others");
    for ticket in 0..10 {
        room.leave(ticket);
    }
    assert!(room.table.lanes.is_empty() && room.table.slots.is_empty());
}

/// Proves: P-files
#[test]
fn without_files_there_are_fewer_places_for_a_while() {
    let mut room = Room::new(20);
    room.enter("big", 0..30);
    let (news, orders) = room.table.short_of_files(at(0));
    assert!(news);
    room.follow(orders);
    assert_eq!((room.table.most(), room.inside.len()), (15, 15));
    assert!(
        !room.table.short_of_files(at(1)).0,
        "once for many failures"
    );
    room.seconds(30);
    assert_eq!(room.table.most(), 15);
    room.seconds(1);
    assert_eq!((room.table.most(), room.inside.len()), (19, 19));
    room.seconds(30);
    assert_eq!((room.table.most(), room.inside.len()), (20, 20));
    // It shrinks again at once, even if it has just grown.
    assert!(room.table.short_of_files(at(62)).0);
    assert_eq!(room.table.most(), 15);
    let mut none = Room::new(1);
    none.enter("big", 0..2);
    assert!(none.table.short_of_files(at(0)).0);
    assert_eq!(none.table.most(), 1, "one is always left");
}

/// Proves: P-files
#[test]
fn as_long_as_files_are_short_no_place_grows_back() {
    let mut room = Room::new(100);
    room.enter("big", 0..200);
    let mut most = vec![room.table.most()];
    for _ in 0..30 {
        let (_, orders) = room.table.short_of_files(at(room.now));
        room.follow(orders);
        room.seconds(10);
        most.push(room.table.most());
    }
    assert!(most.is_sorted_by(|a, b| a >= b), "{most:?}");
    let least = room.table.most();
    assert!(
        least < 25,
        "shortages that continue are not only those of others: {least}"
    );
    room.seconds(19);
    assert_eq!(room.table.most(), least);
    room.seconds(1);
    assert!(room.table.most() > least);
}

/// Proves: P-files
#[test]
fn few_streams_are_no_reason_to_have_few_places() {
    let mut room = Room::new(100);
    room.enter("small", 0..2);
    let (news, orders) = room.table.short_of_files(at(0));
    room.follow(orders);
    assert!(news);
    assert_eq!((room.table.most(), room.inside.len()), (25, 2));
}
