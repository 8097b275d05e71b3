//! Indexes of the objects in the stores, updated with each watch event: lookups and counts that would
//! otherwise walk every object.
//!
//! # Guarantees
//! - An index changes right after its store and never before.
//! - Nothing here costs more for the objects that it does not concern.

use std::collections::HashMap;
use std::sync::Mutex;

use super::{context::lock, scope::Scope};

mod counts;
mod keys;
mod record;
mod runs;
mod workspaces;

#[cfg(test)]
mod tests;

pub use counts::RunCounts;
pub use record::Record;
pub use runs::{Change, RunIndex, RunRef};
pub use workspaces::{WorkspaceCounts, WorkspaceIndex};

/// Records of the lists that are being read, by scope. A list takes effect at its end, as in the store.
struct Staged<T>(Mutex<HashMap<Scope, Vec<T>>>);

impl<T> Default for Staged<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Staged<T> {
    /// A list begins; what an earlier one brought that never ended is dropped.
    fn begin(&self, scope: &Scope) {
        lock(&self.0).insert(scope.clone(), Vec::new());
    }

    /// One object of the list.
    fn add(&self, scope: &Scope, record: T) {
        let mut staged = lock(&self.0);
        match staged.get_mut(scope) {
            Some(records) => records.push(record),
            None => drop(staged.insert(scope.clone(), vec![record])),
        }
    }

    /// Every object of the list.
    fn take(&self, scope: &Scope) -> Vec<T> {
        lock(&self.0).remove(scope).unwrap_or_default()
    }
}

/// The word as the metrics' catalogue has it, by its place there; the last word stands for all others.
fn place_of(words: &[&str], word: &str) -> u8 {
    let last = words.len().saturating_sub(1);
    let place = words.iter().position(|w| *w == word).unwrap_or(last);
    u8::try_from(place).unwrap_or(u8::MAX)
}
