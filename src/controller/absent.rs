//! Remembered Runs whose object is absent, or may be: the reaper looks at these, and at no others.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::context::lock;

/// Uids of Runs whose object is absent, or may be.
#[derive(Default)]
pub struct Absent {
    table: Mutex<Table>,
    told: Notify,
}

#[derive(Default)]
struct Table {
    /// All that nothing was settled for yet.
    known: HashSet<Arc<str>>,
    /// Those among them that are to be looked at.
    due: HashSet<Arc<str>>,
}

impl Absent {
    /// An object is about to leave the index: from now on it counts as absent, so that no moment is left in
    /// which neither says that its Workspace is needed.
    pub fn expect(&self, uid: &str) {
        lock(&self.table).known.insert(Arc::from(uid));
    }

    /// An object may be absent: has the reaper look at it.
    pub fn tell(&self, uid: &str) {
        let uid: Arc<str> = Arc::from(uid);
        let mut table = lock(&self.table);
        table.known.insert(Arc::clone(&uid));
        table.due.insert(uid);
        drop(table);
        self.told.notify_one();
    }

    /// Waits for objects that are to be looked at.
    pub async fn due(&self) -> Vec<Arc<str>> {
        loop {
            let due = std::mem::take(&mut lock(&self.table).due);
            if !due.is_empty() {
                return due.into_iter().collect();
            }
            self.told.notified().await;
        }
    }

    /// Nothing is left to be done for an object, or it is there.
    pub fn settled(&self, uid: &str) {
        let mut table = lock(&self.table);
        table.known.remove(uid);
        table.due.remove(uid);
    }

    /// All that nothing was settled for yet.
    pub fn all(&self) -> Vec<Arc<str>> {
        lock(&self.table).known.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn an_object_is_looked_at_once_for_each_time_it_is_told() {
        let absent = Absent::default();
        absent.expect("a");
        assert!(absent.due().now_or_never().is_none(), "not yet");
        absent.tell("a");
        absent.tell("a");
        assert_eq!(absent.due().await, [Arc::from("a")]);
        assert!(absent.due().now_or_never().is_none());
        assert_eq!(absent.all(), [Arc::from("a")], "it is not settled");
        absent.settled("a");
        assert!(absent.all().is_empty());
    }

    #[tokio::test]
    async fn what_is_settled_before_its_turn_is_not_looked_at() {
        let absent = Absent::default();
        absent.tell("a");
        absent.settled("a");
        assert!(absent.due().now_or_never().is_none());
    }
}
