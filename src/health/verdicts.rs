//! Recent verdicts on tokens, so that a scraper costs the API server two requests in ten seconds at most.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use run_operator::util::lock;

/// Age at which a verdict is no longer used: a permission that is taken away ends after this time.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Verdicts kept at the same time.
const MAX_VERDICTS: usize = 256;

/// The API server's verdict on a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// No valid token.
    Unauthenticated,
    /// A valid token without the permission.
    Forbidden,
}

/// A hash of a token with this process's salt: of no use to anyone who reads it.
type Key = [u8; 32];

/// A verdict, or the place for one that is being asked for.
pub(super) type Cell = Arc<OnceCell<Verdict>>;

/// Verdicts by the hash of the token.
pub(super) struct Verdicts {
    salt: [u8; 16],
    entries: Mutex<HashMap<Key, (Instant, Cell)>>,
}

impl Verdicts {
    pub(super) fn new() -> Self {
        Self {
            salt: uuid::Uuid::new_v4().into_bytes(),
            entries: Mutex::default(),
        }
    }

    /// The token's cell. Simultaneous requests with one token share it, and so one review.
    pub(super) fn cell(&self, token: &SecretString) -> Cell {
        let mut hash = Sha256::new();
        hash.update(self.salt);
        hash.update(token.expose_secret());
        let key: Key = hash.finalize().into();
        let now = Instant::now();
        let mut entries = lock(&self.entries);
        let fresh = |since: Instant| now.saturating_duration_since(since) < MAX_AGE;
        if let Some((_, cell)) = entries.get(&key).filter(|(since, _)| fresh(*since)) {
            return Arc::clone(cell);
        }
        entries.retain(|_, (since, _)| fresh(*since));
        if entries.len() >= MAX_VERDICTS {
            make_room(&mut entries);
        }
        let cell = Cell::default();
        entries.insert(key, (now, Arc::clone(&cell)));
        cell
    }
}

/// Removes the oldest entry that allows nothing, else the oldest: many wrong tokens don't displace a scraper's.
fn make_room(entries: &mut HashMap<Key, (Instant, Cell)>) {
    let oldest = entries.iter().min_by_key(|(_, (since, cell))| {
        let allowed = cell.get() == Some(&Verdict::Allowed);
        (allowed, *since)
    });
    if let Some(key) = oldest.map(|(key, _)| *key) {
        entries.remove(&key);
    }
}
