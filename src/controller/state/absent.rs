//! Tracked Runs whose object is absent, or may be: the garbage collector handles only these.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::util::lock;

/// Uids of Runs whose object is absent, or may be.
#[derive(Default)]
pub struct Absent {
    table: Mutex<Table>,
    reported: Notify,
}

#[derive(Default)]
struct Table {
    /// All uids that are not settled.
    known: HashSet<Arc<str>>,
    /// The uids among them that must be handled.
    due: HashSet<Arc<str>>,
}

impl Absent {
    /// Marks an object as absent before it leaves the index. Otherwise its Workspace could seem unneeded in between.
    pub fn mark(&self, uid: &str) {
        lock(&self.table).known.insert(Arc::from(uid));
    }

    /// Has the garbage collector handle an object that may be absent.
    pub fn report(&self, uid: &str) {
        let uid: Arc<str> = Arc::from(uid);
        let mut table = lock(&self.table);
        table.known.insert(Arc::clone(&uid));
        table.due.insert(uid);
        drop(table);
        self.reported.notify_one();
    }

    /// Waits for objects that must be handled.
    pub async fn due(&self) -> Vec<Arc<str>> {
        loop {
            let due = std::mem::take(&mut lock(&self.table).due);
            if !due.is_empty() {
                return due.into_iter().collect();
            }
            self.reported.notified().await;
        }
    }

    /// Removes an object that exists, or for which nothing is left to do.
    pub fn resolve(&self, uid: &str) {
        let mut table = lock(&self.table);
        table.known.remove(uid);
        table.due.remove(uid);
    }

    /// All uids that are not settled.
    pub fn all(&self) -> Vec<Arc<str>> {
        lock(&self.table).known.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Proves: P-run-index
    #[tokio::test]
    async fn repeated_reports_of_an_absent_object_cause_one_check() {
        let absent = Absent::default();
        absent.mark("a");
        absent.mark("b");
        assert!(absent.due().now_or_never().is_none(), "not yet");
        absent.report("a");
        absent.report("a");
        assert_eq!(absent.due().await, [Arc::from("a")]);
        assert!(absent.due().now_or_never().is_none());
        assert_eq!(absent.all().len(), 2, "neither is settled");
        absent.resolve("a");
        assert_eq!(absent.all(), [Arc::from("b")]);
    }

    #[tokio::test]
    async fn an_absent_object_resolved_before_its_check_is_skipped() {
        let absent = Absent::default();
        absent.report("a");
        absent.resolve("a");
        assert!(absent.due().now_or_never().is_none());
    }
}
