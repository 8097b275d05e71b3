//! A queue with lanes that take turns: first in, first out within each, round robin over those that
//! hold anything. Every operation on one item takes constant time, however many wait.

use std::collections::{HashMap, VecDeque};

/// The queue. A lane begins with its first item and ends with its last one.
pub(super) struct Lanes<T> {
    /// None of them is empty.
    lanes: HashMap<String, VecDeque<T>>,
    /// Each lane once; the first is next.
    order: VecDeque<String>,
}

impl<T> Lanes<T> {
    /// Nothing waits.
    pub(super) fn new() -> Self {
        Self {
            lanes: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Puts the item behind those of its lane; a new lane is the last to have its turn.
    pub(super) fn push_back(&mut self, lane: &str, item: T) {
        if let Some(items) = self.lanes.get_mut(lane) {
            items.push_back(item);
        } else {
            self.begin(lane, item);
            self.order.push_back(lane.to_owned());
        }
    }

    /// Puts the item before those of its lane, which keeps its turn; a new lane is the first to have one.
    pub(super) fn push_front(&mut self, lane: &str, item: T) {
        if let Some(items) = self.lanes.get_mut(lane) {
            items.push_front(item);
        } else {
            self.begin(lane, item);
            self.order.push_front(lane.to_owned());
        }
    }

    /// What is next.
    pub(super) fn front(&self) -> Option<&T> {
        self.lanes.get(self.order.front()?)?.front()
    }

    /// Takes what is next. Its lane has had its turn.
    pub(super) fn pop_front(&mut self) -> Option<T> {
        let lane = self.order.pop_front()?;
        let item = self.take(&lane);
        if self.lanes.contains_key(&lane) {
            self.order.push_back(lane);
        }
        item
    }

    /// Takes what is next away. Its lane still has its turn.
    pub(super) fn discard_front(&mut self) -> Option<T> {
        let lane = self.order.pop_front()?;
        let item = self.take(&lane);
        if self.lanes.contains_key(&lane) {
            self.order.push_front(lane);
        }
        item
    }

    /// Keeps what is wanted, in its order and with its turns; looks at everything, lane by lane.
    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        let lanes = &mut self.lanes;
        self.order.retain(|lane| {
            let Some(items) = lanes.get_mut(lane) else {
                return false;
            };
            items.retain(&mut wanted);
            let kept = !items.is_empty();
            if !kept {
                lanes.remove(lane);
            }
            kept
        });
    }

    fn begin(&mut self, lane: &str, item: T) {
        self.lanes.insert(lane.to_owned(), VecDeque::from([item]));
    }

    /// Takes the first of a lane, and the lane with its last.
    fn take(&mut self, lane: &str) -> Option<T> {
        let items = self.lanes.get_mut(lane)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.lanes.remove(lane);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use std::iter::from_fn;

    use super::*;

    fn all<T>(mut lanes: Lanes<T>) -> Vec<T> {
        let items = from_fn(|| lanes.pop_front()).collect();
        assert!(lanes.is_empty() && lanes.lanes.is_empty());
        items
    }

    fn filled(items: &[(&str, u32)]) -> Lanes<u32> {
        let mut lanes = Lanes::new();
        for (lane, item) in items {
            lanes.push_back(lane, *item);
        }
        lanes
    }

    #[test]
    fn one_lane_is_first_in_first_out() {
        let mut lanes = filled(&[("a", 1), ("a", 2), ("a", 3)]);
        assert_eq!(lanes.front(), Some(&1));
        lanes.push_front("a", 0);
        assert_eq!(all(lanes), [0, 1, 2, 3]);
    }

    #[test]
    fn lanes_take_turns_and_each_keeps_its_order() {
        let lanes = filled(&[
            ("a", 1),
            ("a", 2),
            ("a", 3),
            ("b", 11),
            ("c", 21),
            ("c", 22),
        ]);
        assert_eq!(all(lanes), [1, 11, 21, 2, 22, 3]);
    }

    #[test]
    fn one_behind_a_thousand_of_another_lane_is_second_and_nothing_is_lost() {
        let mut lanes = Lanes::new();
        for item in 0..1000 {
            lanes.push_back("big", item);
        }
        lanes.push_back("small", 5000);
        let expected: Vec<u32> = [0, 5000].into_iter().chain(1..1000).collect();
        assert_eq!(all(lanes), expected);
    }

    #[test]
    fn a_lane_that_empties_and_comes_back_is_behind_those_that_wait() {
        let mut lanes = filled(&[("a", 1), ("b", 11), ("b", 12)]);
        assert_eq!(lanes.pop_front(), Some(1));
        lanes.push_back("a", 2);
        lanes.push_back("a", 3);
        assert_eq!(all(lanes), [11, 2, 12, 3]);
    }

    #[test]
    fn what_is_put_before_a_lane_waits_for_the_turn_of_its_lane_and_a_new_lane_for_none() {
        let mut lanes = filled(&[("a", 1), ("b", 11)]);
        lanes.push_front("b", 10);
        lanes.push_front("c", 20);
        assert_eq!(all(lanes), [20, 1, 10, 11]);
    }

    #[test]
    fn what_is_discarded_costs_its_lane_no_turn() {
        let mut lanes = filled(&[("a", 1), ("a", 2), ("b", 11), ("c", 21)]);
        assert_eq!(lanes.discard_front(), Some(1));
        assert_eq!(lanes.pop_front(), Some(2));
        assert_eq!(lanes.discard_front(), Some(11));
        assert_eq!(all(lanes), [21]);
        assert_eq!(Lanes::<u32>::new().discard_front(), None);
    }

    #[test]
    fn what_is_kept_keeps_its_order_and_its_turns() {
        let mut lanes = filled(&[("a", 1), ("b", 11), ("b", 12), ("c", 21), ("b", 13)]);
        assert_eq!(lanes.pop_front(), Some(1));
        let mut seen = Vec::new();
        lanes.retain(|item| {
            seen.push(*item);
            item % 2 == 0 || *item == 13
        });
        assert_eq!(seen, [11, 12, 13, 21]);
        lanes.push_back("c", 22);
        assert_eq!(all(lanes), [12, 22, 13]);
    }
}
