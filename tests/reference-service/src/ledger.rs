//! The requests to the service, in order, and their counts.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::plan::Millis;
use crate::route::Operation;

/// Requests that are kept; the oldest are dropped first. The counts continue.
pub(crate) const MAX_ENTRIES: usize = 20_000;

/// One request as it came, with the token's fingerprint where the token was.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) at: String,
    pub(crate) request_id: String,
    pub(crate) operation: Operation,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) run_id: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) last_event_id: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    /// Digest of the body as received: equal bytes have equal digests.
    pub(crate) body_sha256: Option<String>,
    /// Absent until the answer is made, and permanently when the connection was cut.
    pub(crate) status: Option<u16>,
    /// The connection was cut with no answer.
    pub(crate) cut: bool,
    /// The id of the fault that changed the answer.
    pub(crate) fault: Option<u64>,
    pub(crate) millis: Option<Millis>,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: VecDeque<Entry>,
    last: u64,
    /// Counts by operation, then by status (or `cut`).
    counts: BTreeMap<Operation, BTreeMap<String, u64>>,
    pub(crate) authorization_on_version: u64,
}

impl Ledger {
    /// Notes a request before it is worked on; returns its number.
    pub(crate) fn open(&mut self, mut entry: Entry) -> u64 {
        self.last += 1;
        entry.number = self.last;
        if entry.operation == Operation::GetVersion && entry.headers.contains_key("authorization") {
            self.authorization_on_version += 1;
        }
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
        self.last
    }

    /// Notes how a request ended; no status means that the connection was cut.
    pub(crate) fn close(
        &mut self,
        number: u64,
        operation: Operation,
        status: Option<u16>,
        fault: Option<u64>,
        millis: Millis,
    ) {
        let word = status.map_or_else(|| "cut".to_owned(), |status| status.to_string());
        *self
            .counts
            .entry(operation)
            .or_default()
            .entry(word)
            .or_default() += 1;
        // Numbers are consecutive, so the place follows from the first; cleared entries have none.
        let first = self.entries.front().map_or(0, |entry| entry.number);
        let place = number
            .checked_sub(first)
            .and_then(|place| usize::try_from(place).ok());
        if let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) {
            entry.status = status;
            entry.cut = status.is_none();
            entry.fault = fault;
            entry.millis = Some(millis);
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn clear_entries(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn counts(&self) -> &BTreeMap<Operation, BTreeMap<String, u64>> {
        &self.counts
    }

    pub(crate) fn count_of_status(&self, status: &str) -> u64 {
        self.counts
            .values()
            .filter_map(|by_status| by_status.get(status))
            .sum()
    }
}
