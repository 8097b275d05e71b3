//! The checks of one Workspace: when the next one is due, and what they keep.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::controller::flowcontrol::gate::Gate;
use crate::decide::{
    events::correlator::Correlator, time::later, workspace::cached_token::Verified,
};
use crate::service::{Client, Token};

/// A suspicion triggers a check at most this often, however many Runs raise it.
const SUSPICIONS_APART: Duration = Duration::from_secs(1);

/// Reconnecting event streams trigger a check at most this often, however many they are.
const RECONNECTS_APART: Duration = Duration::from_secs(30);

/// Result of the last check.
pub struct ProbeRecord {
    pub uid: String,
    pub generation: i64,
    /// Whether the Workspace was found Ready.
    pub ready: bool,
    /// Whether the check failed and was passed over.
    pub passed_over: bool,
    /// Time of the next regular check.
    pub next: Timestamp,
}

/// Whether a check is due.
pub enum Verdict {
    /// Something changed, or the regular check is due.
    Now,
    /// Nothing changed; the next check is due then.
    NotBefore(Timestamp),
}

/// The checks of one Workspace.
#[derive(Default)]
pub struct Probe {
    last: Option<(ProbeRecord, Timestamp)>,
    /// A call raised a suspicion that no check has cleared yet.
    suspected: bool,
    /// A Secret that the Workspace names has changed since the last check.
    secret_changed: bool,
    failures: u32,
    /// Time since which no call can be made, by the checks.
    trouble: Option<Timestamp>,
    /// Writes in a row that met another version or got no answer.
    failed_writes: u32,
    client: Option<(String, Option<Vec<u8>>, Client)>,
    gate: Option<Arc<Gate>>,
    last_good: Option<LastGood>,
    /// The Kubernetes Events that were published.
    pub correlator: Correlator,
}

/// The Secrets' values in the last successful check. They are kept after the Secrets are deleted, so that runs are
/// still cancelled in a namespace whose deletion removes the Secrets first.
#[derive(Clone)]
pub struct LastGood {
    /// The Workspace and base URL that they were verified for.
    pub verified: Verified,
    pub token: Token,
    /// The CA bundle, if the Workspace names one.
    pub ca_pem: Option<Vec<u8>>,
}

impl Probe {
    /// Whether the Workspace is to be checked now.
    pub fn due(&mut self, uid: &str, generation: i64, now: Timestamp) -> Verdict {
        let secret_changed = std::mem::take(&mut self.secret_changed);
        let Some((last, at)) = &self.last else {
            return Verdict::Now;
        };
        if secret_changed || last.uid != uid || last.generation != generation || last.next <= now {
            return Verdict::Now;
        }
        let soonest = later(*at, SUSPICIONS_APART);
        match (self.suspected, soonest <= now) {
            (true, true) => Verdict::Now,
            (true, false) => Verdict::NotBefore(last.next.min(soonest)),
            (false, _) => Verdict::NotBefore(last.next),
        }
    }

    /// A call raised a suspicion. Returns whether it is the first since the last check began.
    pub fn suspect(&mut self) -> bool {
        !std::mem::replace(&mut self.suspected, true)
    }

    /// A check begins: a suspicion from now on is another one.
    pub fn begin(&mut self) {
        self.suspected = false;
    }

    /// A check ended. Returns whether it was the first of this spec: what the check itself doesn't look at
    /// may have changed too.
    pub fn done(&mut self, checked: ProbeRecord, now: Timestamp) -> bool {
        self.failures = if checked.ready {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let same = self.last.as_ref().is_some_and(|(last, _)| {
            (&last.uid, last.generation) == (&checked.uid, checked.generation)
        });
        self.last = Some((checked, now));
        !same
    }

    /// An event stream is reopened after a break. A service that was upgraded drops its streams, so the next check
    /// is rescheduled: to now, or to 30 s after the last one. Returns whether the schedule changed.
    pub fn reconnected(&mut self, now: Timestamp) -> bool {
        let Some((last, at)) = &mut self.last else {
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
    pub fn passed_over(&self) -> bool {
        self.last.as_ref().is_some_and(|(last, _)| last.passed_over)
    }

    /// A check found that no call can be made. Returns since when that is so.
    pub fn troubled(&mut self, now: Timestamp) -> Timestamp {
        *self.trouble.get_or_insert(now)
    }

    /// A check found that calls can be made.
    pub fn untroubled(&mut self) {
        self.trouble = None;
    }

    /// Checks in a row that failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A write of the Workspace met another version or got no answer. Returns how many did in a row.
    pub fn write_failed(&mut self) -> u32 {
        self.failed_writes = self.failed_writes.saturating_add(1);
        self.failed_writes
    }

    /// What is to be written of the Workspace is stored.
    pub fn written(&mut self) {
        self.failed_writes = 0;
    }

    /// A Secret that the Workspace names has changed: it is checked at once.
    pub fn secret_changed(&mut self) {
        self.secret_changed = true;
    }

    /// What the last good check was made with, if it was of this very Workspace at this base URL.
    pub fn last_good(&self, verified: &Verified) -> Option<LastGood> {
        let last = self.last_good.as_ref()?;
        (last.verified == *verified).then(|| last.clone())
    }

    /// A check with these went well.
    pub fn keep_good(&mut self, good: LastGood) {
        self.last_good = Some(good);
    }

    /// The kept client, if it was made for this base URL and CA.
    pub fn client(&self, base_url: &str, ca_pem: Option<&[u8]>) -> Option<Client> {
        let (url, ca, client) = self.client.as_ref()?;
        (url == base_url && ca.as_deref() == ca_pem).then(|| client.clone())
    }

    /// Keeps a client for the next check.
    pub fn keep_client(&mut self, base_url: String, ca_pem: Option<Vec<u8>>, client: Client) {
        self.client = Some((base_url, ca_pem, client));
    }

    /// The Workspace's gate: always the same one, so that a check resets nothing.
    pub fn gate(&mut self, new: impl FnOnce() -> Gate) -> Arc<Gate> {
        Arc::clone(self.gate.get_or_insert_with(|| Arc::new(new())))
    }
}

#[cfg(test)]
mod tests;
