//! The checks of one Workspace: the time of the next one, and the values that they keep.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::controller::flowcontrol::gate::Gate;
use crate::decide::{time::later, workspace::cached_token::Verified};
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
    /// Whether the Workspace must be checked now.
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

    /// Records a suspicion raised by a call. Returns whether it is the first since the last check began.
    pub fn suspect(&mut self) -> bool {
        !std::mem::replace(&mut self.suspected, true)
    }

    /// Records the start of a check: a suspicion from now on is a new one.
    pub fn begin(&mut self) {
        self.suspected = false;
    }

    /// Records the end of a check. Returns whether it was the first of this spec: fields that the check doesn't read
    /// may have changed, too.
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

    /// Records that an event stream is reopened after a break. A service that was upgraded drops its streams, so the
    /// next check is rescheduled: to now, or to 30 s after the last one. Returns whether the schedule changed.
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

    /// Records that a check found that no call can be made. Returns the time since which that is so.
    pub fn troubled(&mut self, now: Timestamp) -> Timestamp {
        *self.trouble.get_or_insert(now)
    }

    /// Number of failed checks in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Records a write of the Workspace that met another version or got no answer. Returns the number in a row.
    pub fn write_failed(&mut self) -> u32 {
        self.failed_writes = self.failed_writes.saturating_add(1);
        self.failed_writes
    }

    /// Records that the Workspace's status is stored.
    pub fn written(&mut self) {
        self.failed_writes = 0;
    }

    /// Records a change of a Secret that the Workspace names: the Workspace is checked at once.
    pub fn secret_changed(&mut self) {
        self.secret_changed = true;
    }

    /// The values of the last successful check, if it was of this same Workspace at this base URL.
    pub fn last_good(&self, verified: &Verified) -> Option<LastGood> {
        let last = self.last_good.as_ref()?;
        (last.verified == *verified).then(|| last.clone())
    }

    /// Records that a check with these values found that calls can be made.
    pub fn verified(&mut self, good: LastGood) {
        self.last_good = Some(good);
        self.trouble = None;
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
