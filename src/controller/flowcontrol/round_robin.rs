//! Round-robin over lanes, first in, first out within each. Every operation on one item takes constant time, however
//! many wait.

use std::collections::{HashMap, VecDeque};

/// The queue. A lane exists from its first item to its last.
pub(crate) struct RoundRobin<T> {
    /// Items by lane; no lane is empty.
    lanes: HashMap<String, VecDeque<T>>,
    /// Each lane once; the first is next.
    order: VecDeque<String>,
    /// Items in all lanes.
    len: usize,
}

impl<T> RoundRobin<T> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Self {
            lanes: HashMap::new(),
            order: VecDeque::new(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Adds the item to the end of its lane; a new lane has the last turn.
    pub(crate) fn push_back(&mut self, lane: &str, item: T) {
        self.len += 1;
        if let Some(items) = self.lanes.get_mut(lane) {
            items.push_back(item);
        } else {
            self.lanes.insert(lane.to_owned(), VecDeque::from([item]));
            self.order.push_back(lane.to_owned());
        }
    }

    /// The next item.
    fn front(&self) -> Option<&T> {
        self.lanes.get(self.order.front()?)?.front()
    }

    /// Takes the next item. Its lane has used its turn.
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let lane = self.order.pop_front()?;
        let item = self.take(&lane);
        if self.lanes.contains_key(&lane) {
            self.order.push_back(lane);
        }
        item
    }

    /// Removes the next items as long as they are `gone`; their lanes keep their turns. Returns their number.
    pub(crate) fn discard_while(&mut self, gone: impl Fn(&T) -> bool) -> usize {
        let before = self.len;
        while self.front().is_some_and(&gone) {
            self.discard_front();
        }
        before - self.len
    }

    /// Removes the next item. Its lane keeps its turn.
    fn discard_front(&mut self) -> Option<T> {
        let lane = self.order.pop_front()?;
        let item = self.take(&lane);
        if self.lanes.contains_key(&lane) {
            self.order.push_front(lane);
        }
        item
    }

    /// Keeps the wanted items, with their order and turns. Visits every item, lane by lane.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        let lanes = &mut self.lanes;
        let mut left = 0;
        self.order.retain(|lane| {
            let Some(items) = lanes.get_mut(lane) else {
                return false;
            };
            items.retain(&mut wanted);
            left += items.len();
            let kept = !items.is_empty();
            if !kept {
                lanes.remove(lane);
            }
            kept
        });
        self.len = left;
    }

    /// Takes the first item of a lane; removes the lane with its last item.
    fn take(&mut self, lane: &str) -> Option<T> {
        let items = self.lanes.get_mut(lane)?;
        let item = items.pop_front();
        self.len -= usize::from(item.is_some());
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

    fn all<T>(mut lanes: RoundRobin<T>) -> Vec<T> {
        let items = from_fn(|| lanes.pop_front()).collect();
        assert!(lanes.is_empty() && lanes.lanes.is_empty());
        assert_eq!(lanes.len, 0);
        items
    }

    fn filled(items: &[(&str, u32)]) -> RoundRobin<u32> {
        let mut lanes = RoundRobin::new();
        for (lane, item) in items {
            lanes.push_back(lane, *item);
        }
        lanes
    }

    #[test]
    fn one_lane_is_first_in_first_out() {
        let lanes = filled(&[("a", 1), ("a", 2), ("a", 3)]);
        assert_eq!((lanes.front(), lanes.len()), (Some(&1), 3));
        assert_eq!(all(lanes), [1, 2, 3]);
    }

    /// Proves: P-calls-bound
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
    fn a_lone_item_is_second_behind_1000_others_and_none_is_lost() {
        let mut lanes = RoundRobin::new();
        for item in 0..1000 {
            lanes.push_back("big", item);
        }
        lanes.push_back("small", 5000);
        let expected: Vec<u32> = [0, 5000].into_iter().chain(1..1000).collect();
        assert_eq!(all(lanes), expected);
    }

    #[test]
    fn an_emptied_lane_rejoins_behind_the_waiting_ones() {
        let mut lanes = filled(&[("a", 1), ("b", 11), ("b", 12)]);
        assert_eq!(lanes.pop_front(), Some(1));
        lanes.push_back("a", 2);
        lanes.push_back("a", 3);
        assert_eq!(all(lanes), [11, 2, 12, 3]);
    }

    /// Proves: P-calls-bound
    #[test]
    fn what_is_discarded_costs_its_lane_no_turn() {
        let mut lanes = filled(&[("a", 1), ("a", 2), ("b", 11), ("c", 21)]);
        assert_eq!(lanes.discard_front(), Some(1));
        assert_eq!(lanes.pop_front(), Some(2));
        assert_eq!(lanes.discard_front(), Some(11));
        assert_eq!(all(lanes), [21]);
        assert_eq!(RoundRobin::<u32>::new().discard_front(), None);
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
