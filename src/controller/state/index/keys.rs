//! The live Runs that share an `spec.idempotencyKey`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::decide::key_claim::KeyClaim;

use super::record::{Claim, Record};

/// The order in which the Runs of a key submit; the uid makes it total.
type Place = (KeyClaim, Timestamp, Arc<str>);

/// Live Runs by namespace and key.
#[derive(Debug, Default)]
pub(crate) struct Keys(HashMap<Arc<str>, HashMap<Arc<str>, Holders>>);

/// The live Runs of one key, by name.
#[derive(Debug, Default)]
struct Holders(BTreeMap<Place, Arc<str>>);

impl Keys {
    pub(crate) fn insert(&mut self, record: &Record, claim: &Claim) {
        let namespace = self.0.entry(Arc::clone(&record.namespace)).or_default();
        let holders = namespace.entry(Arc::clone(&claim.key)).or_default();
        let name = Arc::clone(&record.name);
        holders.0.insert(place(record, claim), name);
    }

    pub(crate) fn remove(&mut self, record: &Record, claim: &Claim) {
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

    /// Name of the Run that precedes the one with this uid and creation time, if there is one. If this one has
    /// `claimed` the key, only a holder precedes it. Reads at most two Runs, however many share the key.
    pub(crate) fn key_holder(
        &self,
        namespace: &str,
        key: &str,
        (uid, created): (&str, Timestamp),
        claimed: bool,
    ) -> Option<Arc<str>> {
        let holders = self.0.get(namespace)?.get(key)?;
        let ((claim, age, other), name) = holders.0.iter().find(|((_, _, other), _)| {
            #[cfg(test)]
            crate::controller::state::index::tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
            **other != *uid
        })?;
        let before = claim.has_priority((*age, other), (created, uid), claimed);
        before.then(|| Arc::clone(name))
    }

    /// Uid of the first Run of a key that does not hold it; a copy comes last.
    pub(crate) fn next(&self, namespace: &str, key: &str) -> Option<Arc<str>> {
        let holders = self.0.get(namespace)?.get(key)?;
        let waits = |((claim, ..), _): &(&Place, _)| *claim != KeyClaim::Holds;
        let ((.., uid), _) = holders.0.iter().find(waits)?;
        Some(Arc::clone(uid))
    }
}

fn place(record: &Record, claim: &Claim) -> Place {
    (claim.strength, claim.created, Arc::clone(&record.uid))
}
