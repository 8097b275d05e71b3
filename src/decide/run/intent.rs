//! The intent that a decision writes.

use crate::api::{Intent, status::ResolvedWorkspace};
use crate::decide::{
    observation::Observation,
    request::body::{self, CURRENT_SERIALIZER},
};

/// Epoch of the intent that is written now. An earlier epoch proves nothing about it: a takeover or a retry withdraws
/// the proof. A refusal may outlive its intent, so its epoch counts too.
pub(crate) fn next_epoch(f: &Observation<'_>) -> i64 {
    let refused = f.status().refusal.as_ref().map_or(0, |r| r.epoch);
    let latest = f.own_intent().map_or(refused, |i| i.epoch.max(refused));
    latest.saturating_add(1)
}

/// Intent for a Run at the service whose own intent was lost.
pub(crate) fn rebuilt_intent(f: &Observation<'_>, workspace: &ResolvedWorkspace) -> Intent {
    let body = body::body(f.spec(), CURRENT_SERIALIZER).unwrap_or_default();
    Intent {
        uid: f.uid.to_owned(),
        workspace: workspace.clone(),
        key: f
            .status()
            .idempotency_key
            .clone()
            .unwrap_or_else(|| f.key()),
        sha256: body::sha256(&body),
        serializer: CURRENT_SERIALIZER,
        time: f
            .status()
            .submission_time
            .as_ref()
            .map_or(f.o.wall, |t| t.0),
        owner: f.o.settings.process.clone(),
        epoch: 1,
        retry: f.status().handled_retry.clone(),
        end: None,
    }
}
