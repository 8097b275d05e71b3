//! When a Workspace is to be checked, and the client that its checks keep.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::workspace::RateLimit;
use crate::decide::{last_token::Verified, memory::later, voice::Voice};
use crate::service::{Client, Token};

use super::{context::lock, gate::Gate, registry::Key};

/// A suspicion leads to a check at most this often, however many Runs raise it.
const SUSPICIONS_APART: Duration = Duration::from_secs(1);

/// Event streams that reconnect lead to a check at most this often, however many they are.
const RECONNECTS_APART: Duration = Duration::from_secs(30);

/// What the last check came to.
pub struct Checked {
    /// The Workspace's uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Whether all went well.
    pub ready: bool,
    /// Whether it failed and was passed over.
    pub passed_over: bool,
    /// When the next regular one is due.
    pub next: Timestamp,
}

/// Whether to check now.
pub enum Verdict {
    /// Something changed, or it is time.
    Now,
    /// Nothing changed; look again then.
    NotBefore(Timestamp),
}

/// The state of all checks.
#[derive(Default)]
pub struct Checks {
    table: Mutex<HashMap<Key, State>>,
    changed_secrets: Mutex<HashSet<Key>>,
}

#[derive(Default)]
struct State {
    last: Option<(Checked, Timestamp)>,
    failures: u32,
    /// Since when no call can be made, as far as the checks know.
    trouble: Option<Timestamp>,
    in_vain: u32,
    client: Option<(String, Option<Vec<u8>>, Client)>,
    gate: Option<Arc<Gate>>,
    last_good: Option<LastGood>,
    voice: Voice,
}

/// What the Secrets held when the service last answered for the token. It outlives them, so that the
/// runs of a namespace whose deletion takes the Secrets first are still cancelled.
#[derive(Clone)]
pub struct LastGood {
    /// What it was good for.
    pub verified: Verified,
    /// The token.
    pub token: Token,
    /// The CA bundle, where the Workspace names one.
    pub ca_pem: Option<Vec<u8>>,
}

impl Checks {
    /// Whether a Workspace is to be checked now.
    pub fn due(
        &self,
        key: &Key,
        uid: &str,
        generation: i64,
        suspected: bool,
        now: Timestamp,
    ) -> Verdict {
        let secret_changed = lock(&self.changed_secrets).remove(key);
        let table = lock(&self.table);
        let Some((last, at)) = table.get(key).and_then(|state| state.last.as_ref()) else {
            return Verdict::Now;
        };
        if secret_changed || last.uid != uid || last.generation != generation || last.next <= now {
            return Verdict::Now;
        }
        let soonest = later(*at, SUSPICIONS_APART);
        if suspected && soonest <= now {
            return Verdict::Now;
        }
        Verdict::NotBefore(if suspected {
            last.next.min(soonest)
        } else {
            last.next
        })
    }

    /// A check ended. Returns whether it was the first of this spec: what the check itself doesn't look at
    /// may have changed too.
    pub fn done(&self, key: &Key, checked: Checked, now: Timestamp) -> bool {
        let mut table = lock(&self.table);
        let state = table.entry(key.clone()).or_default();
        state.failures = if checked.ready {
            0
        } else {
            state.failures.saturating_add(1)
        };
        let before = state.last.as_ref();
        let same = before.is_some_and(|(last, _)| {
            (&last.uid, last.generation) == (&checked.uid, checked.generation)
        });
        state.last = Some((checked, now));
        !same
    }

    /// An event stream is opened anew after a break. A service that was upgraded drops its streams, so the
    /// next check is drawn nearer: to now, or to 30 s behind the last one. Returns whether that is news.
    pub fn reconnected(&self, key: &Key, now: Timestamp) -> bool {
        let mut table = lock(&self.table);
        let last = table.get_mut(key).and_then(|state| state.last.as_mut());
        let Some((last, at)) = last else {
            return false;
        };
        let soonest = later(*at, RECONNECTS_APART).max(now);
        if last.next <= soonest {
            return false;
        }
        last.next = soonest;
        true
    }

    /// Whether the last check failed and was passed over.
    pub fn passed_over(&self, key: &Key) -> bool {
        let table = lock(&self.table);
        let last = table.get(key).and_then(|state| state.last.as_ref());
        last.is_some_and(|(last, _)| last.passed_over)
    }

    /// A check found that no call can be made. Returns since when that is so.
    pub fn troubled(&self, key: &Key, now: Timestamp) -> Timestamp {
        let mut table = lock(&self.table);
        let state = table.entry(key.clone()).or_default();
        *state.trouble.get_or_insert(now)
    }

    /// A check found that calls can be made.
    pub fn untroubled(&self, key: &Key) {
        if let Some(state) = lock(&self.table).get_mut(key) {
            state.trouble = None;
        }
    }

    /// Checks in a row that failed.
    pub fn failures(&self, key: &Key) -> u32 {
        lock(&self.table).get(key).map_or(0, |state| state.failures)
    }

    /// A write of the Workspace met another version or got no answer. Returns how many did in a row.
    pub fn wrote_in_vain(&self, key: &Key) -> u32 {
        let mut table = lock(&self.table);
        let state = table.entry(key.clone()).or_default();
        state.in_vain = state.in_vain.saturating_add(1);
        state.in_vain
    }

    /// What is to be written of the Workspace stands.
    pub fn wrote(&self, key: &Key) {
        if let Some(state) = lock(&self.table).get_mut(key) {
            state.in_vain = 0;
        }
    }

    /// A Secret that a Workspace names has changed.
    pub fn secret_changed(&self, key: &Key) {
        lock(&self.changed_secrets).insert(key.clone());
    }

    /// What the last good check was made with, if it was of this very Workspace at this base URL.
    pub fn last_good(&self, key: &Key, verified: &Verified) -> Option<LastGood> {
        let table = lock(&self.table);
        let last = table.get(key)?.last_good.as_ref()?;
        (last.verified == *verified).then(|| last.clone())
    }

    /// A check with these went well.
    pub fn keep_good(&self, key: &Key, good: LastGood) {
        lock(&self.table).entry(key.clone()).or_default().last_good = Some(good);
    }

    /// The kept client, if it was made for this base URL and CA.
    pub fn client(&self, key: &Key, base_url: &str, ca_pem: Option<&[u8]>) -> Option<Client> {
        let table = lock(&self.table);
        let (url, ca, client) = table.get(key)?.client.as_ref()?;
        (url == base_url && ca.as_deref() == ca_pem).then(|| client.clone())
    }

    /// Keeps a client for the next check.
    pub fn keep_client(
        &self,
        key: &Key,
        base_url: String,
        ca_pem: Option<Vec<u8>>,
        client: Client,
    ) {
        lock(&self.table).entry(key.clone()).or_default().client = Some((base_url, ca_pem, client));
    }

    /// The Workspace's gate with this rate limit: always the same one, so that a check resets nothing.
    pub fn gate(
        &self,
        key: &Key,
        limit: Option<RateLimit>,
        new: impl FnOnce() -> Gate,
    ) -> Arc<Gate> {
        let mut table = lock(&self.table);
        let kept = &mut table.entry(key.clone()).or_default().gate;
        let gate = Arc::clone(kept.get_or_insert_with(|| Arc::new(new())));
        drop(table);
        gate.limit(limit);
        gate
    }

    /// What was said of a Workspace in Events.
    pub fn voice<T>(&self, key: &Key, with: impl FnOnce(&mut Voice) -> T) -> T {
        let mut table = lock(&self.table);
        with(&mut table.entry(key.clone()).or_default().voice)
    }

    /// Forgets a Workspace that is gone.
    pub fn forget(&self, key: &Key) {
        lock(&self.table).remove(key);
        lock(&self.changed_secrets).remove(key);
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
