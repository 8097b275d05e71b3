//! Versions of Runs by the time of the wall clock at which something is due for them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::controller::apiserver::ObjectVersion;
use crate::util::lock;

/// At most one time for each uid.
#[derive(Default)]
pub struct Timers {
    table: Mutex<Table>,
    sooner: Notify,
}

#[derive(Default)]
struct Table {
    objects: HashMap<Arc<str>, (Timestamp, ObjectVersion)>,
    order: BTreeSet<(Timestamp, Arc<str>)>,
}

impl Timers {
    /// Sets the time for this version, in place of an earlier one of the same uid.
    pub fn set(&self, at: Timestamp, object: ObjectVersion) {
        let uid = Arc::clone(&object.uid);
        let mut table = lock(&self.table);
        table.remove(&uid);
        table.order.insert((at, Arc::clone(&uid)));
        table.objects.insert(uid, (at, object));
        let first = table.order.first().is_some_and(|(first, _)| *first == at);
        drop(table);
        if first {
            self.sooner.notify_one();
        }
    }

    /// Removes the time of this uid.
    pub fn remove(&self, uid: &str) {
        lock(&self.table).remove(uid);
    }

    /// Takes out at most `limit` objects that are due by `wall`, the earliest first.
    pub fn take(&self, wall: Timestamp, limit: usize) -> Vec<ObjectVersion> {
        let mut table = lock(&self.table);
        let due = table.order.iter().take_while(|(at, _)| *at <= wall);
        let due: Vec<Arc<str>> = due.take(limit).map(|(_, uid)| Arc::clone(uid)).collect();
        due.iter().filter_map(|uid| table.remove(uid)).collect()
    }

    /// The earliest time.
    pub fn next(&self) -> Option<Timestamp> {
        lock(&self.table).order.first().map(|(at, _)| *at)
    }

    /// Waits until the earliest time has become earlier.
    pub async fn sooner(&self) {
        self.sooner.notified().await;
    }
}

impl Table {
    fn remove(&mut self, uid: &str) -> Option<ObjectVersion> {
        let (at, object) = self.objects.remove(uid)?;
        self.order.remove(&(at, Arc::clone(&object.uid)));
        Some(object)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod tests {
    use futures::FutureExt;
    use kube::core::ObjectMeta;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn version(uid: &str, version: &str) -> ObjectVersion {
        ObjectVersion::of(&ObjectMeta {
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        })
    }

    fn uids(due: &[ObjectVersion]) -> Vec<&str> {
        due.iter().map(|object| &*object.uid).collect()
    }

    #[test]
    fn the_earliest_are_due_first_and_once() {
        let timers = Timers::default();
        for (uid, second) in [("c", 30), ("a", 10), ("b", 20)] {
            timers.set(at(second), version(uid, "1"));
        }
        assert_eq!(timers.next(), Some(at(10)));
        assert!(timers.take(at(9), 9).is_empty());
        assert_eq!(uids(&timers.take(at(30), 2)), ["a", "b"]);
        assert_eq!(uids(&timers.take(at(30), 2)), ["c"]);
        assert_eq!((timers.next(), timers.take(at(99), 9)), (None, Vec::new()));
    }

    #[test]
    fn a_newer_version_replaces_the_time_and_a_removed_one_has_none() {
        let timers = Timers::default();
        timers.set(at(10), version("a", "1"));
        timers.set(at(20), version("a", "2"));
        timers.set(at(10), version("b", "1"));
        timers.remove("b");
        assert!(timers.take(at(10), 9).is_empty());
        assert_eq!(timers.take(at(20), 9), [version("a", "2")]);
    }

    #[tokio::test]
    async fn only_an_earlier_time_wakes_the_waiter() {
        let timers = Timers::default();
        timers.set(at(10), version("a", "1"));
        timers.sooner().await;
        timers.set(at(20), version("b", "1"));
        assert!(timers.sooner().now_or_never().is_none());
        timers.set(at(5), version("c", "1"));
        assert!(timers.sooner().now_or_never().is_some());
    }
}
