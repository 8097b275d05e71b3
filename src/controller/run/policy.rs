//! Asks policy, records the outcomes of effects, and publishes Events.

use crate::api::{EventReason, WorkspaceKey};
use crate::clock::{now, wall};
use crate::controller::{
    context::Context,
    state::{runs::RunEntry, workspaces::WorkspaceState},
    workspace::namespaces,
};
use crate::decide::{self, CallDelay, Decision, EventDraft, Learning, Observed};

use super::pass::Pass;

/// Asks policy.
pub(crate) fn decide(pass: &Pass<'_>, key: &WorkspaceKey, workspace: &WorkspaceState) -> Decision {
    let Pass {
        ctx, entry, run, ..
    } = pass;
    let key_holder = ctx.keys.holder(run);
    let pause = workspace
        .session
        .as_ref()
        .and_then(|session| session.limiter.long_pause());
    let call_delay = match pause {
        Some(until) => Some(CallDelay::Paused { until }),
        None => entry.waits_long().then_some(CallDelay::Queued),
    };
    let namespace_allowed = namespaces::allowed(ctx, key, &entry.namespace);
    entry.with(|state| {
        let observed = Observed {
            run,
            workspace: &workspace.view,
            namespace_allowed,
            memory: &state.run.memory,
            key_holder: key_holder.as_deref(),
            vanished: pass.deleted,
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
    workspace: &WorkspaceState,
) -> Learning<'a> {
    Learning {
        contract: &ctx.config.contract,
        uid: &entry.uid,
        session: workspace
            .session
            .as_ref()
            .map_or(0, |session| session.number),
        now: now(),
        wall: wall(),
    }
}

/// Publishes Events for changes that the status now shows for the first time, and for the coming effect.
pub(crate) fn publish(pass: &Pass<'_>, events: &[EventDraft]) {
    let Pass {
        ctx, entry, run, ..
    } = pass;
    let new = |draft: &&EventDraft| ctx.recorder.publish(&**run, draft);
    for draft in events.iter().filter(new) {
        if draft.reason == EventReason::CancelUnconfirmed {
            ctx.metrics.cancel_unconfirmed.inc();
        }
        tracing::info!(
            k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
            event.reason = draft.reason.as_str(), note = draft.message, "publishing Event"
        );
    }
}
