//! What the service says of a run beside its state (P-details): results, the page in its console, progress, what went
//! wrong. It is mirrored from the answers that are read anyway, and nothing else depends on it.

use jiff::Timestamp;

use crate::api::{
    RunStatus,
    conditions::whole_seconds,
    contract::RunDetails,
    limits::{MAX_FAILURE, MAX_PROGRESS_MESSAGE, MAX_RESULT, MAX_RESULTS_BYTES},
    status::Progress,
};

use super::{
    delays::{DETAIL_WRITES_APART, later},
    events::EventDraft,
    facts::Facts,
    truncate::{cut, stored_bytes},
};

/// Bytes of a result's quotation marks, colon and comma.
const AROUND: usize = 6;

/// Shows what the latest answer says: what it doesn't name is no longer shown. Before the first one the status stays.
pub(crate) fn show(facts: &Facts<'_>, status: &mut RunStatus) {
    let Some(read) = &facts.memory.reading else {
        return;
    };
    let none = RunDetails::default();
    let said = read.details.as_deref().unwrap_or(&none);
    let mut left = MAX_RESULTS_BYTES;
    let results = said.results.iter().filter_map(|(name, value)| {
        let value = cut(value, MAX_RESULT);
        left = left.checked_sub(stored_bytes(name) + stored_bytes(value) + AROUND)?;
        Some((name.clone(), value.to_owned()))
    });
    status.results = results.collect();
    let origins = &facts.settings.console_origins;
    let address = said.console_url.as_deref();
    status.console_url = address.and_then(|address| origins.usable(address));
    let failure = said.failure.as_deref();
    status.failure = failure.map(|text| cut(text, MAX_FAILURE).to_owned());
    let before = status.progress.take().unwrap_or_default();
    let (percent, message) = (said.percent, said.message.as_deref());
    let message = message.map(|text| cut(text, MAX_PROGRESS_MESSAGE).to_owned());
    let unchanged = (before.percent, &before.message) == (percent, &message);
    let now = Progress {
        percent,
        message,
        last_update_time: Some(whole_seconds(read.wall)),
    };
    let told = now.percent.is_some() || now.message.is_some();
    status.progress = told.then_some(if unchanged { before } else { now });
}

/// Makes `status` show what `stored` shows.
pub(crate) fn keep(stored: &RunStatus, status: &mut RunStatus) {
    status.results.clone_from(&stored.results);
    status.console_url.clone_from(&stored.console_url);
    status.progress.clone_from(&stored.progress);
    status.failure.clone_from(&stored.failure);
}

/// Time at which they are written though nothing else changed. A process that has written nothing yet goes by the stored
/// time of the read before the last write.
pub(crate) fn due(facts: &Facts<'_>) -> Timestamp {
    if let Some(at) = facts.memory.written_at {
        return later(at, DETAIL_WRITES_APART);
    }
    let read = facts.status().last_sync_time.as_ref();
    let since = read.map_or(DETAIL_WRITES_APART, |read| facts.since(read.0));
    later(facts.now, DETAIL_WRITES_APART.saturating_sub(since))
}

/// The Event for an address that is left out. Only with a write: each decision would draft it again.
pub(crate) fn refused(facts: &Facts<'_>) -> Option<EventDraft> {
    let read = facts.memory.reading.as_ref()?;
    let address = read.details.as_ref()?.console_url.as_deref()?;
    let usable = facts.settings.console_origins.usable(address);
    usable
        .is_none()
        .then(|| EventDraft::console_url_refused(address))
}
