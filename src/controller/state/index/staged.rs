//! Lists in progress, and words by their position among the metrics' labels.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::controller::apiserver::scope::Scope;
use crate::util::lock;

/// Records of the lists in progress, by scope. A list takes effect at its end, as in the store.
pub(crate) struct Staged<T>(Mutex<HashMap<Scope, Vec<T>>>);

impl<T> Default for Staged<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Staged<T> {
    /// Begins a list; the items of an unfinished one are dropped.
    pub(crate) fn begin(&self, scope: &Scope) {
        lock(&self.0).insert(scope.clone(), Vec::new());
    }

    /// Adds one object of the list.
    pub(crate) fn add(&self, scope: &Scope, record: T) {
        let mut staged = lock(&self.0);
        match staged.get_mut(scope) {
            Some(records) => records.push(record),
            None => drop(staged.insert(scope.clone(), vec![record])),
        }
    }

    /// Ends the list and returns its objects.
    pub(crate) fn take(&self, scope: &Scope) -> Vec<T> {
        lock(&self.0).remove(scope).unwrap_or_default()
    }
}

/// Position of a word among a metric's labels; the last position is for all other words.
pub(crate) fn place_of(words: &[&str], word: &str) -> u8 {
    let last = words.len().saturating_sub(1);
    let place = words.iter().position(|w| *w == word).unwrap_or(last);
    u8::try_from(place).unwrap_or(u8::MAX)
}
