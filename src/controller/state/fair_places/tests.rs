#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use super::*;

fn enqueue(places: &mut FairPlaces<u32>, waiting: &[(&str, u32)]) {
    for (namespace, waiter) in waiting {
        places.enqueue(&(*namespace).into(), *waiter);
    }
}

/// Gives out the one place, again and again.
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
fn a_lone_one_is_second_behind_a_thousand_elsewhere() {
    let mut places = FairPlaces::new(1);
    (0..1000).for_each(|n| enqueue(&mut places, &[("big", n)]));
    enqueue(&mut places, &[("small", 5000)]);
    let expected: Vec<u32> = [0, 5000].into_iter().chain(1..1000).collect();
    assert_eq!(one_after_another(&mut places), expected);
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
