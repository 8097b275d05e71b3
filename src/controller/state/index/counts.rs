//! Counts of Runs, updated with each change.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::api::Phase;
use crate::controller::metrics::labels::{PHASES, STALLED};

use super::record::Record;

/// Counts of the Runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// By phase, in the order of [`PHASES`].
    pub phases: [usize; PHASES.len()],
    /// By the reason of their Stalled condition, in the order of [`STALLED`].
    pub stalled: [usize; STALLED.len()],
    /// Runs in doubt: they may have a run whose `runId` is not known.
    pub in_doubt: usize,
    /// Time of the oldest intent among them.
    pub oldest_doubt: Option<Timestamp>,
}

/// The counts with the data to update them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: RunCounts,
    /// The Runs in doubt by the time of their intent.
    doubts: BTreeSet<(Timestamp, Arc<str>)>,
}

impl Tally {
    pub(crate) fn insert(&mut self, record: &Record) {
        self.change(record, |count| *count += 1);
        if let Some(doubt) = doubt(record) {
            self.doubts.insert(doubt);
        }
    }

    pub(crate) fn remove(&mut self, record: &Record) {
        self.change(record, |count| *count = count.saturating_sub(1));
        if let Some(doubt) = doubt(record) {
            self.doubts.remove(&doubt);
        }
    }

    pub(crate) fn counts(&self) -> RunCounts {
        RunCounts {
            in_doubt: self.doubts.len(),
            oldest_doubt: self.doubts.first().map(|(time, _)| *time),
            ..self.counts.clone()
        }
    }

    fn change(&mut self, record: &Record, change: impl Fn(&mut usize)) {
        #[cfg(test)]
        crate::controller::state::index::tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
        if let Some(count) = self.counts.phases.get_mut(place(record.phase)) {
            change(count);
        }
        let stalled = record.stalled.map(usize::from);
        if let Some(count) = stalled.and_then(|place| self.counts.stalled.get_mut(place)) {
            change(count);
        }
    }
}

fn doubt(record: &Record) -> Option<(Timestamp, Arc<str>)> {
    let time = record.details.as_ref()?.doubt?;
    Some((time, Arc::clone(&record.uid)))
}

/// The position of a phase in [`PHASES`].
fn place(phase: Phase) -> usize {
    match phase {
        Phase::Pending => 0,
        Phase::Active => 1,
        Phase::Cancelling => 2,
        Phase::Succeeded => 3,
        Phase::Failed => 4,
        Phase::Cancelled => 5,
    }
}
