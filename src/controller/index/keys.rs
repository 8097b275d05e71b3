//! The live Runs that share an `spec.idempotencyKey`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::record::{Claim, Record, Standing};

/// The order in which the Runs of a key go; the uid makes it total.
type Place = (Standing, Timestamp, Arc<str>);

/// Live Runs by namespace and key.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<Arc<str>, HashMap<Arc<str>, Holders>>);

/// The live Runs of one key, by name.
#[derive(Debug, Default)]
struct Holders(BTreeMap<Place, Arc<str>>);

impl Keys {
    pub(super) fn insert(&mut self, record: &Record, claim: &Claim) {
        let namespace = self.0.entry(Arc::clone(&record.namespace)).or_default();
        let holders = namespace.entry(Arc::clone(&claim.key)).or_default();
        let name = Arc::clone(&record.name);
        holders.0.insert(place(record, claim), name);
    }

    pub(super) fn remove(&mut self, record: &Record, claim: &Claim) {
        let Some(namespace) = self.0.get_mut(&record.namespace) else {
            return;
        };
        if let Some(holders) = namespace.get_mut(&claim.key) {
            holders.0.remove(&place(record, claim));
            if holders.0.is_empty() {
                namespace.remove(&claim.key);
            }
        }
        if namespace.is_empty() {
            self.0.remove(&record.namespace);
        }
    }

    /// The name of the Run that goes before the one with this uid, created then, if there is one. Looks at
    /// two Runs at most, however many share the key.
    pub(super) fn rival(
        &self,
        namespace: &str,
        key: &str,
        uid: &str,
        created: Timestamp,
    ) -> Option<Arc<str>> {
        let holders = self.0.get(namespace)?.get(key)?;
        let ((standing, age, other), name) = holders.0.iter().find(|((_, _, other), _)| {
            #[cfg(test)]
            super::tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
            **other != *uid
        })?;
        let before = match standing {
            Standing::Holds => true,
            Standing::Waits => (*age, &**other) < (created, uid),
            Standing::Copy => false,
        };
        before.then(|| Arc::clone(name))
    }

    /// The names of the live Runs of a key.
    pub(super) fn names(&self, namespace: &str, key: &str) -> Vec<Arc<str>> {
        let holders = self.0.get(namespace).and_then(|keys| keys.get(key));
        holders.map_or_else(Vec::new, |holders| holders.0.values().cloned().collect())
    }
}

fn place(record: &Record, claim: &Claim) -> Place {
    (claim.standing, claim.created, Arc::clone(&record.uid))
}
