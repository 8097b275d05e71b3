//! What a check of a Workspace leads to: its status, and the session that its Runs use.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;

use crate::api::{ConditionType, Reason, WorkspaceStatus, conditions, status::ResolvedWorkspace};
use crate::decide::{
    Session, WorkspaceView,
    recheck::{self, Standing},
    situation::Why,
    transitions,
    workspace::{Assessment, Check, Obstacle},
};

use super::{
    context::{Context, now, wall},
    kinds::Kind,
    metrics::ReconcileResult,
    registry::{Key, Live, Slot},
    verify::Prepared,
    wake,
    watch::chain,
    writes::{self, WriteError},
};

/// How often a Ready Workspace is checked: a change of the service's version or of the token's workspace
/// is noticed within this time without a call that fails.
const RECHECK: Duration = Duration::from_mins(5);

/// Tells the Runs what they may do. Returns when to check again.
pub(super) fn settle<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
    check: Check,
    live: Option<Prepared>,
    assessment: &Assessment,
) -> Duration {
    let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
    let slot = match (&assessment.usable, live) {
        (Ok(()), Some(prepared)) => {
            ctx.checks.untroubled(key);
            ready_slot(ctx, workspace, key, check, prepared, assessment)
        }
        (Err(why), _) => not_ready_slot(ctx, workspace, key, &check, why, assessment),
        (Ok(()), None) => Slot::closed(WorkspaceView::Unknown),
    };
    if ctx.registry.set(key, slot) {
        wake::runs_of(ctx, key);
    }
    if assessment.ready {
        return RECHECK;
    }
    let attempt = ctx.checks.failures(key).saturating_add(1);
    recheck::pause(&workspace.uid().unwrap_or_default(), attempt, asked)
}

/// The standing before a check. What an earlier process verified counts as long as this one has not looked.
pub(super) fn standing<K: Kind>(ctx: &Context, workspace: &K, key: &Key) -> Standing {
    let slot = ctx.registry.slot(key);
    let uid = workspace.uid().unwrap_or_default();
    let verified = match (&slot.view, &slot.place) {
        (WorkspaceView::NotReady { .. }, _) => false,
        (_, Some(place)) => place.uid == uid,
        (_, None) => workspace
            .stored()
            .is_some_and(|status| conditions::is_true(&status.conditions, ConditionType::Ready)),
    };
    Standing {
        verified,
        passed_over: ctx.checks.passed_over(key),
    }
}

/// A check failed and is passed over: session and streams go on, and no status is written. Only what holds new
/// submissions holds them from now on. Returns when to check again.
pub(super) fn pass_over<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
    check: &Check,
    assessment: &Assessment,
) -> Duration {
    ctx.checks.troubled(key, now());
    let mut slot = ctx.registry.slot(key);
    if let WorkspaceView::Ready(session) = &mut slot.view {
        session.holds = recheck::holds(session.holds.take(), assessment.holds.clone());
        if ctx.registry.set(key, slot) {
            wake::runs_of(ctx, key);
        }
    }
    let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
    recheck::soon(&workspace.uid().unwrap_or_default(), asked)
}

/// Streams that are open stay open as long as the trouble may pass; the Runs repeat an outage in the words that
/// it began with.
fn not_ready_slot<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
    check: &Check,
    why: &Why,
    assessment: &Assessment,
) -> Slot {
    let current = ctx.registry.slot(key);
    let since = ctx.checks.troubled(key, now());
    let uid = workspace.uid().unwrap_or_default();
    let may_pass = check.obstacle.as_ref().is_some_and(Obstacle::may_pass);
    let place = current.place.filter(|place| may_pass && place.uid == uid);
    let outage = |view: &WorkspaceView| matches!(view, WorkspaceView::NotReady { reason, .. } if *reason == Reason::ServiceUnavailable);
    let view = if why.reason == Reason::ServiceUnavailable && outage(&current.view) {
        current.view
    } else {
        WorkspaceView::NotReady {
            reason: why.reason,
            message: assessment.message(),
            since,
        }
    };
    Slot::paused(view, place)
}

/// The same token at the same place goes on with its session, unless a call with it was rejected. A token
/// that suddenly acts for another workspace of the service begins another session.
fn ready_slot<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
    check: Check,
    prepared: Prepared,
    assessment: &Assessment,
) -> Slot {
    let Prepared {
        client,
        credentials,
        good,
    } = prepared;
    ctx.checks.keep_good(key, good);
    let resolved = ResolvedWorkspace {
        kind: key.kind,
        name: key.name.clone(),
        uid: workspace.uid().unwrap_or_default(),
        base_url: check.base_url.unwrap_or_default(),
        identity: check.identity.flatten(),
    };
    let current = ctx.registry.slot(key);
    let other_token = |live: &Arc<Live>| live.credentials.token != credentials.token;
    if current.live.as_ref().is_some_and(other_token) {
        ctx.metrics.token_changes.inc();
    }
    let gate = ctx.gate(key, workspace.common().rate_limit);
    if matches!(current.view, WorkspaceView::NotReady { .. }) {
        gate.start_slowly();
    }
    let same = current.live.filter(|live| {
        live.credentials.token == credentials.token && current.view.serves(&resolved)
    });
    let number = same
        .as_ref()
        .map_or_else(|| ctx.registry.next_session(), |live| live.number);
    let live = Arc::new(Live {
        client,
        credentials,
        number,
        gate,
    });
    let session = Session {
        number,
        resolved,
        holds: assessment.holds.clone(),
    };
    Slot::ready(session, live)
}

/// Writes the status, if it differs from the stored one, and tells of the turn that it took. `waits` says
/// that the Workspace is being deleted and waits for Runs.
pub(super) async fn write_status<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
    status: &WorkspaceStatus,
    waits: bool,
) -> ReconcileResult {
    if workspace.stored() == Some(status) {
        publish(ctx, workspace, key, status, waits);
        return ReconcileResult::requeue_after;
    }
    let _one = ctx.api_requests.acquire().await.ok();
    let api = K::api(ctx.client.clone(), &key.namespace);
    match writes::write_status(&api, workspace, status).await {
        Ok(_) => {
            publish(ctx, workspace, key, status, waits);
            ReconcileResult::requeue_after
        }
        Err(WriteError::Conflict | WriteError::Gone) => ReconcileResult::conflict,
        Err(error) => {
            tracing::warn!(k8s.namespace.name = %key.namespace, workspace.name = %key.name, error = %chain(&error), "failed to write a Workspace's status");
            ReconcileResult::error
        }
    }
}

fn publish<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
    status: &WorkspaceStatus,
    waits: bool,
) {
    let speech = ctx.checks.voice(key, |voice| {
        let before = workspace.stored();
        let notes = transitions::of_workspace(before, status, waits, voice, wall());
        voice.tell(&notes, now())
    });
    for news in &speech.news {
        tracing::info!(
            k8s.namespace.name = %key.namespace, workspace.name = %key.name,
            event.reason = news.reason.as_str(), note = news.message, "note"
        );
    }
    ctx.recorder.publish(workspace, &speech);
}
