//! Asks policy, records the outcomes of effects, and publishes Events.

use crate::api::{EventReason, Run, WorkspaceKey};
use crate::clock::{now, wall};
use crate::controller::{
    context::Context,
    state::{runs::RunEntry, workspaces::WorkspaceState},
    workspace::namespaces,
};
use crate::decide::{self, CallDelay, Decision, EventDraft, Learned, Learning, Observed};

use super::idempotency;

/// Asks policy. `deleted`: the object is deleted without having been released.
pub(crate) fn decide(
    ctx: &Context,
    entry: &RunEntry,
    key: &WorkspaceKey,
    run: &Run,
    slot: &WorkspaceState,
    deleted: bool,
) -> Decision {
    let rival = idempotency::of(ctx, run);
    let pause = slot.live.as_ref().and_then(|live| live.gate.long_pause());
    let call_delay = match pause {
        Some(until) => Some(CallDelay::Paused { until }),
        None => entry.waits_long().then_some(CallDelay::Queued),
    };
    let namespace_allowed = namespaces::allowed(ctx, key, &entry.namespace);
    entry.with(|state| {
        let observed = Observed {
            run,
            workspace: &slot.view,
            namespace_allowed,
            memory: &state.run.memory,
            key_holder: rival.as_deref(),
            vanished: deleted,
            stream: state.streaming,
            call_delay,
            contract: &ctx.config.contract,
            settings: &ctx.config.settings,
            now: now(),
            wall: wall(),
        };
        decide::decide(&observed)
    })
}

/// Inputs for recording something about this Run in memory now.
pub(crate) fn learning<'a>(
    ctx: &'a Context,
    entry: &'a RunEntry,
    slot: &WorkspaceState,
) -> Learning<'a> {
    Learning {
        contract: &ctx.config.contract,
        uid: &entry.uid,
        session: slot.live.as_ref().map_or(0, |live| live.number),
        now: now(),
        wall: wall(),
    }
}

/// Records the outcome of an effect in memory.
pub(crate) fn learn(ctx: &Context, entry: &RunEntry, slot: &WorkspaceState, news: Learned) {
    let with = learning(ctx, entry, slot);
    entry.with(|state| state.run.memory.learn(news, with));
}

/// Publishes Events for changes that the status now shows for the first time, and for the coming effect.
pub(crate) fn publish(ctx: &Context, entry: &RunEntry, run: &Run, events: &[EventDraft]) {
    if events.is_empty() {
        return;
    }
    let batch = entry.with(|state| state.run.memory.correlator.correlate(events, now()));
    for draft in &batch.events {
        if draft.reason == EventReason::CancelUnconfirmed {
            ctx.metrics.cancel_unconfirmed.inc();
        }
        tracing::info!(
            run.uid = %entry.uid, event.reason = draft.reason.as_str(), note = draft.message, "publishing Event"
        );
    }
    ctx.recorder.publish(run, &batch);
}
