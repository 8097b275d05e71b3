//! One live Run a key: who else of the namespace holds the same `spec.idempotencyKey`.

use std::collections::HashMap;
use std::sync::Mutex;

use kube::ResourceExt;

use crate::api::Run;

use super::context::{Context, lock};

/// Namespace and key.
type Place = (String, String);

/// Who of this process's Runs has the right to a key, by uid. The index shows an intent only after it was
/// written, and two reconciles at the same time would both find the key free. A claim is released when the
/// write failed, or its Run has ended or is gone.
#[derive(Default)]
pub struct Claims(Mutex<Held>);

#[derive(Default)]
struct Held {
    by_key: HashMap<Place, String>,
    by_uid: HashMap<String, Place>,
}

impl Claims {
    /// Releases the claim of a Run, if it has one.
    pub fn release(&self, uid: &str) {
        let mut held = lock(&self.0);
        if let Some(place) = held.by_uid.remove(uid) {
            held.by_key.remove(&place);
        }
    }

    /// Takes a key for a Run. False: another one holds it that is `live`.
    fn take(&self, place: Place, uid: &str, live: impl FnOnce(&str) -> bool) -> bool {
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

    /// The uid of the Run that holds a key.
    fn holder(&self, place: &Place) -> Option<String> {
        lock(&self.0).by_key.get(place).cloned()
    }
}

/// Takes the key for this Run before its intent is written. False: another live Run was quicker.
pub(super) fn claim(ctx: &Context, run: &Run) -> bool {
    let Some(place) = place(run) else {
        return true;
    };
    let uid = run.uid().unwrap_or_default();
    let live = |holder: &str| ctx.run_index.live_name(holder).is_some();
    ctx.claims.take(place, &uid, live)
}

/// The name of the Run that has the older claim to this Run's key, if there is one. Nearly every Run's
/// key is its uid, and then nothing is looked up.
pub(super) fn of(ctx: &Context, run: &Run) -> Option<String> {
    let place = place(run)?;
    let rival = ctx.run_index.rival(run).or_else(|| {
        let holder = ctx.claims.holder(&place)?;
        let other = Some(&holder) != run.uid().as_ref();
        other.then(|| ctx.run_index.live_name(&holder)).flatten()
    });
    rival.map(|name| name.to_string())
}

fn place(run: &Run) -> Option<Place> {
    let key = run.spec.idempotency_key.clone()?;
    Some((run.namespace().unwrap_or_default(), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &str) -> Place {
        ("team".to_owned(), key.to_owned())
    }

    #[test]
    fn a_key_is_taken_once_and_again_when_its_claim_is_released() {
        let claims = Claims::default();
        assert!(claims.take(place("k"), "a", |_| true));
        assert!(claims.take(place("k"), "a", |_| true), "it is its own");
        assert!(!claims.take(place("k"), "b", |_| true));
        assert!(claims.take(place("other"), "b", |_| true));
        claims.release("a");
        assert_eq!(claims.holder(&place("k")), None);
        assert!(claims.take(place("k"), "c", |_| true));
    }

    #[test]
    fn a_claim_of_one_that_is_not_live_passes_on_and_nothing_is_left_of_it() {
        let claims = Claims::default();
        assert!(claims.take(place("k"), "a", |_| true));
        assert!(claims.take(place("k"), "b", |_| false));
        claims.release("a");
        assert_eq!(claims.holder(&place("k")).as_deref(), Some("b"));
        claims.release("b");
        let held = lock(&claims.0);
        assert!(held.by_key.is_empty() && held.by_uid.is_empty());
    }

    #[test]
    fn a_claim_asks_about_one_holder_however_many_there_are() {
        let claims = Claims::default();
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
