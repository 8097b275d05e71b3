//! Claims of this process's Runs on idempotency keys.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::util::lock;

/// Namespace and key.
pub(crate) type Place = (String, String);

/// Claims on keys, by the uids of this process's Runs. The index shows an intent only after it was written, so that two
/// concurrent reconciles would both find the key free. A claim is released when its write is known to have failed, or
/// when its Run has ended or was deleted.
#[derive(Default)]
pub struct IdempotencyClaims(Mutex<Held>);

#[derive(Default)]
struct Held {
    by_key: HashMap<Place, String>,
    by_uid: HashMap<String, Place>,
}

impl IdempotencyClaims {
    /// Releases the claim of a Run, if it has one.
    pub fn release(&self, uid: &str) {
        let mut held = lock(&self.0);
        if let Some(place) = held.by_uid.remove(uid) {
            held.by_key.remove(&place);
        }
    }

    /// Claims a key for a Run. False if another `live` Run has claimed it.
    pub(crate) fn take(&self, place: Place, uid: &str, live: impl FnOnce(&str) -> bool) -> bool {
        let mut held = lock(&self.0);
        let holder = held.by_key.get(&place).filter(|holder| *holder != uid);
        if let Some(holder) = holder.cloned() {
            if live(&holder) {
                return false;
            }
            held.by_uid.remove(&holder);
        }
        held.by_uid.insert(uid.to_owned(), place.clone());
        held.by_key.insert(place, uid.to_owned());
        true
    }

    /// The uid of the Run that has claimed a key.
    pub(crate) fn holder(&self, place: &Place) -> Option<String> {
        lock(&self.0).by_key.get(place).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &str) -> Place {
        ("team".to_owned(), key.to_owned())
    }

    /// Proves: P-key-index
    #[test]
    fn a_key_is_taken_once_and_again_when_its_claim_is_released() {
        let claims = IdempotencyClaims::default();
        assert!(claims.take(place("k"), "a", |_| true));
        assert!(claims.take(place("k"), "a", |_| true), "it is its own");
        assert!(!claims.take(place("k"), "b", |_| true));
        assert!(claims.take(place("other"), "b", |_| true));
        claims.release("a");
        assert_eq!(claims.holder(&place("k")), None);
        assert!(claims.take(place("k"), "c", |_| true));
    }

    /// Proves: P-key-index
    #[test]
    fn a_claim_of_an_absent_run_passes_on_and_leaves_no_entry() {
        let claims = IdempotencyClaims::default();
        assert!(claims.take(place("k"), "a", |_| true));
        assert!(claims.take(place("k"), "b", |_| false));
        claims.release("a");
        assert_eq!(claims.holder(&place("k")).as_deref(), Some("b"));
        claims.release("b");
        let held = lock(&claims.0);
        assert!(held.by_key.is_empty() && held.by_uid.is_empty());
    }

    /// Proves: P-key-index
    #[test]
    fn a_claim_asks_about_one_holder_however_many_there_are() {
        let claims = IdempotencyClaims::default();
        let mut asked = 0;
        for n in 0..100_000 {
            let key = place(&n.to_string());
            assert!(claims.take(key, &format!("uid-{n}"), |_| true));
        }
        assert!(!claims.take(place("7"), "late", |holder| {
            asked += 1;
            holder == "uid-7"
        }));
        assert_eq!(asked, 1);
        (0..100_000).for_each(|n| claims.release(&format!("uid-{n}")));
        assert!(lock(&claims.0).by_key.is_empty());
    }
}
