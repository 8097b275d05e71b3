#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use futures::FutureExt;

use super::*;

fn enqueue(places: &mut FairPlaces<u32>, waiting: &[(&str, u32)]) {
    for (namespace, waiter) in waiting {
        places.enqueue(&(*namespace).into(), *waiter);
    }
}

fn one_after_another(places: &mut FairPlaces<u32>) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some((namespace, waiter)) = places.next() {
        assert!(!places.free());
        order.push(waiter);
        places.give_back(&namespace);
    }
    assert!(places.namespaces.is_empty() && places.waiting() == 0);
    order
}

/// Proves: P-calls-bound
#[test]
fn namespaces_take_turns_and_each_is_first_come_first_served() {
    let mut places = FairPlaces::new(1);
    let waiting = [
        ("a", 1),
        ("a", 2),
        ("c", 21),
        ("c", 22),
        ("b", 11),
        ("a", 3),
    ];
    enqueue(&mut places, &waiting);
    assert_eq!(one_after_another(&mut places), [1, 11, 21, 2, 22, 3]);
}

/// Proves: P-calls-bound
#[test]
fn thousands_that_left_cost_no_turn_and_leave_nothing_behind() {
    let mut places = FairPlaces::new(1);
    let big: Arc<str> = "big".into();
    let left: Vec<Ticket> = (0..10_000).map(|n| places.enqueue(&big, n)).collect();
    enqueue(&mut places, &[("big", 1), ("small", 2)]);
    for ticket in left {
        places.leave(&big, ticket);
        places.leave(&big, ticket);
    }
    assert_eq!(places.waiting(), 2);
    assert_eq!(one_after_another(&mut places), [1, 2]);
}

/// Proves: P-calls-bound
#[test]
fn with_half_of_the_places_a_namespace_gets_no_more_while_another_waits() {
    let mut places = FairPlaces::new(8);
    let (big, small): (Arc<str>, Arc<str>) = ("big".into(), "small".into());
    (0..20).for_each(|n| enqueue(&mut places, &[("big", n)]));
    let mut alone = std::iter::from_fn(|| places.next());
    assert_eq!(alone.by_ref().count(), 8, "none else waits");
    (100..120).for_each(|n| enqueue(&mut places, &[("small", n)]));
    // The calls of the small one end at once, the others not: those would have all places in the end.
    for _ in 0..2 {
        places.give_back(&big);
        assert_eq!(places.next().unwrap().0, small);
    }
    for _ in 0..4 {
        places.give_back(&small);
        assert_eq!(places.next().unwrap().0, small);
    }
    for _ in 0..3 {
        places.give_back(&big);
        places.next().unwrap();
    }
    let taken = |namespace| places.namespaces[namespace].taken;
    assert_eq!((taken("big"), taken("small")), (4, 4));
}

fn place(places: &Arc<StreamPlaces>, namespace: &str) -> StreamPlace {
    places.ask(namespace).ok().unwrap()
}

struct Waits(std::pin::Pin<Box<dyn Future<Output = StreamPlace>>>);

impl Waits {
    fn new(places: &Arc<StreamPlaces>, namespace: &str) -> Self {
        let queued = places.ask(namespace).err().unwrap();
        Self(Box::pin(queued.given()))
    }

    fn place(&mut self) -> Option<StreamPlace> {
        (&mut self.0).now_or_never()
    }
}

fn is_asked_back(place: &StreamPlace) -> bool {
    place.asked_back().now_or_never().is_some()
}

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
    assert_eq!(lock(&places.0).places.waiting(), 0);
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
    let table = lock(&places.0);
    assert!(table.taken.is_empty() && table.places.free());
}

/// Proves: P-stream-places
#[test]
fn without_places_all_wait() {
    let places = Arc::new(StreamPlaces::new(0));
    assert!(Waits::new(&places, "team").place().is_none());
}
