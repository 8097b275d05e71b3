//! Who holds an `spec.idempotencyKey`: of the live Runs of a namespace with one key one is submitted, by the order of
//! [`KeyClaim`]. The watch shows an intent only after it was written: two reconciles at the same time would both find the
//! key free. So a Run claims it before, until it ends or the intent was certainly not written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use crate::api::Run;
use crate::decide::claims::{KeyClaim, created};
use crate::util::lock;

use super::run_store::Known;

type Place = (String, String);
/// The order in which the Runs of a key submit; the uid makes it total.
type Rank = (KeyClaim, Timestamp, Arc<str>);

/// Namespace and uid of a Run.
pub type RunRef = (String, Arc<str>);

#[derive(Default)]
pub struct Keys(Mutex<Holders>);

#[derive(Default)]
struct Holders {
    places: HashMap<Place, Sharing>,
    runs: HashMap<Arc<str>, (Place, Rank)>,
}

#[derive(Default)]
struct Sharing {
    names: BTreeMap<Rank, Arc<str>>,
    /// The one of them that has claimed the key in this process.
    claimed_by: Option<Arc<str>>,
}

impl Keys {
    /// Returns the next Run of a key that became free. One that can't be decoded keeps its key: another would get its run.
    pub fn update(&self, known: &Known) -> Option<RunRef> {
        let [uid, _, name] = known.identity();
        let mut table = lock(&self.0);
        let place = match known {
            Known::Active(run) if !run.ended() => place(run).zip(Some(run)),
            Known::Bad(_) if table.holds(uid) => return None,
            Known::Active(_) | Known::Bad(_) | Known::Ended(_) | Known::Gone(_) => None,
        };
        let place = place.map(|(place, run)| {
            let claim = KeyClaim::of(run, &run.intent_record());
            (place, (claim, created(run), Arc::from(uid)))
        });
        table.replace(uid, name, place)
    }

    /// Takes in that a Run no longer exists. Returns the next Run of its key.
    pub fn remove(&self, uid: &str) -> Option<RunRef> {
        lock(&self.0).replace(uid, "", None)
    }

    /// The Run that goes before this one, or has claimed the key. Reads at most two Runs, however many share the key.
    pub fn holder(&self, run: &Run) -> Option<Arc<str>> {
        let place = place(run)?;
        let uid = run.metadata.uid.as_deref().unwrap_or_default();
        let table = lock(&self.0);
        let sharing = table.places.get(&place)?;
        let claimed = sharing.claimed_by.as_deref() == Some(uid);
        let first = sharing.first_but(uid).filter(|((claim, age, other), _)| {
            claim.has_priority((*age, other), (created(run), uid), claimed)
        });
        let claimant = || {
            let (_, rank) = table.runs.get(sharing.claimed_by.as_ref()?)?;
            sharing.names.get(rank).filter(|_| !claimed)
        };
        first.map(|(_, name)| name).or_else(claimant).cloned()
    }

    /// Claims the key of a Run before its first intent is written. False if another live Run holds or has claimed it.
    pub fn claim(&self, run: &Run) -> bool {
        let Some(place) = place(run) else {
            return true;
        };
        let uid = run.metadata.uid.as_deref().unwrap_or_default();
        let mut table = lock(&self.0);
        let Holders { places, runs } = &mut *table;
        let Some(sharing) = places.get_mut(&place) else {
            return true;
        };
        let first = sharing.first_but(uid);
        let held = first.is_some_and(|((claim, ..), _)| *claim == KeyClaim::Holds);
        if held || sharing.claimed_by.as_deref().is_some_and(|by| by != uid) {
            return false;
        }
        // The claim of a Run that is gone by now would never end.
        let here = runs.get_key_value(uid);
        sharing.claimed_by = here.map(|(uid, _)| Arc::clone(uid));
        true
    }

    /// Ends the claim of a Run whose intent was certainly not written.
    pub fn unclaim(&self, uid: &str) {
        let mut table = lock(&self.0);
        let Holders { places, runs } = &mut *table;
        let sharing = runs.get(uid).and_then(|(place, _)| places.get_mut(place));
        if let Some(sharing) = sharing
            && sharing.claimed_by.as_deref() == Some(uid)
        {
            sharing.claimed_by = None;
        }
    }
}

impl Holders {
    fn holds(&self, uid: &str) -> bool {
        let here = self.runs.get(uid);
        here.is_some_and(|(place, (claim, ..))| {
            let sharing = self.places.get(place);
            let claimed = sharing.and_then(|sharing| sharing.claimed_by.as_deref());
            *claim == KeyClaim::Holds || claimed == Some(uid)
        })
    }

    /// Moves a Run to another place or rank. Returns the next Run of the place that it has left.
    fn replace(&mut self, uid: &str, name: &str, new: Option<(Place, Rank)>) -> Option<RunRef> {
        let old = self.runs.remove(uid);
        let left = old.and_then(|(place, rank)| {
            if let Some(sharing) = self.places.get_mut(&place) {
                sharing.names.remove(&rank);
            }
            let stays = new.as_ref().is_some_and(|(new, _)| *new == place);
            (!stays).then_some(place)
        });
        if let Some((place, rank)) = new {
            let sharing = self.places.entry(place.clone()).or_default();
            sharing.names.insert(rank.clone(), Arc::from(name));
            self.runs.insert(Arc::from(uid), (place, rank));
        }
        let left = left?;
        let sharing = self.places.get_mut(&left)?;
        if sharing.claimed_by.as_deref() == Some(uid) {
            sharing.claimed_by = None;
        }
        // The others would only write a new holder; they are reconciled later.
        let waits = |(claim, ..): &&Rank| *claim != KeyClaim::Holds;
        let next = sharing.names.keys().find(waits);
        let next = next.map(|(.., uid)| (left.0.clone(), Arc::clone(uid)));
        if sharing.names.is_empty() {
            self.places.remove(&left);
        }
        next
    }
}

impl Sharing {
    fn first_but(&self, uid: &str) -> Option<(&Rank, &Arc<str>)> {
        self.names.iter().find(|((.., other), _)| **other != *uid)
    }
}

fn place(run: &Run) -> Option<Place> {
    let key = run.spec.idempotency_key.clone()?;
    Some((run.metadata.namespace.clone().unwrap_or_default(), key))
}

#[cfg(test)]
mod tests;
