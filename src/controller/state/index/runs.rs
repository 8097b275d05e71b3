//! Index of the Runs of every scope: by uid and by idempotency key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::api::Run;
use crate::decide::key_claim::created;
use crate::util::lock;

use super::{keys::Keys, record::Record};

/// The Runs in the stores.
#[derive(Default)]
pub struct RunIndex {
    table: Mutex<Table>,
}

/// A live Run has ended, was deleted, or can no longer be decoded and holds no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its namespace and key, if it had a key of its own.
    pub freed: Option<(Arc<str>, Arc<str>)>,
}

#[derive(Default)]
struct Table {
    /// By uid.
    records: HashMap<Arc<str>, Record>,
    keys: Keys,
}

impl RunIndex {
    /// Handles a Run that was created or changed.
    pub fn put(&self, mut record: Record) -> Option<Ended> {
        let mut table = lock(&self.table);
        let old = table.remove(&record.uid);
        if let Some(old) = &old {
            record.keep_key(old);
        }
        let ended = ended(old, Some(&record));
        table.insert(record);
        ended
    }

    /// Handles a Run that was deleted.
    pub fn remove(&self, uid: &str) -> Option<Ended> {
        ended(lock(&self.table).remove(uid), None)
    }

    /// Name of the Run with this uid, if it is known and has not ended.
    pub fn live_name(&self, uid: &str) -> Option<Arc<str>> {
        let table = lock(&self.table);
        let live = table.records.get(uid).filter(|record| record.live)?;
        Some(Arc::clone(&live.name))
    }

    /// Name of the live Run with the older claim to this Run's key. Most Runs use their uid as the key, and need no
    /// lookup. A Run that has `claimed` the key may have an intent that the watch has not shown: an elder that came
    /// later waits for it.
    pub fn key_holder(&self, run: &Run, claimed: bool) -> Option<Arc<str>> {
        let key = run.spec.idempotency_key.as_deref()?;
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let uid = run.metadata.uid.as_deref().unwrap_or_default();
        lock(&self.table)
            .keys
            .key_holder(namespace, key, (uid, created(run)), claimed)
    }

    /// Uid of the next live Run of those in a namespace that share a key and don't hold it.
    pub fn next_of_key(&self, namespace: &str, key: &str) -> Option<Arc<str>> {
        lock(&self.table).keys.next(namespace, key)
    }
}

impl Table {
    fn insert(&mut self, record: Record) {
        if let Some(claim) = &record.claim {
            self.keys.insert(&record, claim);
        }
        self.records.insert(Arc::clone(&record.uid), record);
    }

    fn remove(&mut self, uid: &str) -> Option<Record> {
        let record = self.records.remove(uid)?;
        if let Some(claim) = &record.claim {
            self.keys.remove(&record, claim);
        }
        Some(record)
    }
}

/// Whether replacing `old` with `new` ends a live Run.
fn ended(old: Option<Record>, new: Option<&Record>) -> Option<Ended> {
    let old = old.filter(|old| old.live && !new.is_some_and(|new| new.live))?;
    let freed = old
        .claim
        .as_ref()
        .map(|claim| (Arc::clone(&old.namespace), Arc::clone(&claim.key)));
    Some(Ended { freed })
}
