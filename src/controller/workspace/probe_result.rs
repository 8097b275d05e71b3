//! Result of a Workspace's check: its status, and the session that its Runs use.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;

use crate::api::{ConditionType, Reason, WorkspaceStatus, conditions, status::ResolvedWorkspace};
use crate::clock::{now, wall};
use crate::controller::{
    apiserver::patch::{self, WriteError},
    context::Context,
    enqueue,
    state::workspaces::{ClientSession, WorkspaceEntry, WorkspaceState},
};
use crate::decide::{
    EventDraft, Session, WorkspaceView,
    conditions::Why,
    delays, events,
    workspace::{self, Assessment, Check, Obstacle, Standing},
};

use super::{kind::Kind, probe::Prepared};

/// Sets the Workspace's state and enqueues its Runs. `attempt` is the number of failed checks in a row, if this one
/// failed. Returns the pause before the next check.
pub(crate) fn apply<K: Kind>(
    ctx: &Context,
    workspace: &K,
    entry: &WorkspaceEntry,
    check: Check,
    prepared: Option<Prepared>,
    assessment: &Assessment,
    attempt: u32,
) -> Duration {
    let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
    let state = match (&assessment.usable, prepared) {
        (Ok(()), Some(prepared)) => ready_state(ctx, workspace, entry, check, prepared, assessment),
        (Err(why), _) => not_ready_state(workspace, entry, &check, why, assessment),
        (Ok(()), None) => WorkspaceState::closed(WorkspaceView::Unknown),
    };
    enqueue::set_state(ctx, entry, state);
    let uid = workspace.uid().unwrap_or_default();
    delays::next_check(assessment.ready, &uid, attempt, asked)
}

/// The standing before a check. An earlier process's verification counts until this one has checked.
pub(crate) fn standing<K: Kind>(workspace: &K, entry: &WorkspaceEntry) -> Standing {
    let state = entry.state();
    let uid = workspace.uid().unwrap_or_default();
    let verified = match (&state.view, &state.place) {
        (WorkspaceView::NotReady { .. }, _) => false,
        (_, Some(place)) => place.uid == uid,
        (_, None) => workspace
            .stored()
            .is_some_and(|status| conditions::is_true(&status.conditions, ConditionType::Ready)),
    };
    Standing {
        verified,
        failure_ignored: entry.checks(|checks| checks.failure_ignored()),
    }
}

/// Passes over a failed check: session and streams continue, and no status is written. New blocks on submissions apply
/// from now on. Returns the pause before the next check.
pub(crate) fn ignore_first_failure<K: Kind>(
    ctx: &Context,
    workspace: &K,
    entry: &WorkspaceEntry,
    check: &Check,
    assessment: &Assessment,
) -> Duration {
    entry.checks(|checks| checks.no_calls_since(now()));
    let mut state = Arc::unwrap_or_clone(entry.state());
    if let WorkspaceView::Ready(session) = &mut state.view {
        session.submissions_blocked = workspace::still_blocked(
            session.submissions_blocked.take(),
            assessment.submissions_blocked.clone(),
        );
        enqueue::set_state(ctx, entry, state);
    }
    let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
    delays::check_again(&workspace.uid().unwrap_or_default(), asked)
}

/// Open streams stay open as long as the failure may pass; the Runs repeat an outage in the words that
/// it began with.
fn not_ready_state<K: Kind>(
    workspace: &K,
    entry: &WorkspaceEntry,
    check: &Check,
    why: &Why,
    assessment: &Assessment,
) -> WorkspaceState {
    let current = Arc::unwrap_or_clone(entry.state());
    let since = entry.checks(|checks| checks.no_calls_since(now()));
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
    WorkspaceState::paused(view, place)
}

/// The same token at the same place continues with its session, unless a call with it was rejected. A token
/// that suddenly acts for another workspace of the service begins another session.
fn ready_state<K: Kind>(
    ctx: &Context,
    workspace: &K,
    entry: &WorkspaceEntry,
    check: Check,
    prepared: Prepared,
    assessment: &Assessment,
) -> WorkspaceState {
    let Prepared {
        client,
        credentials,
        good,
    } = prepared;
    entry.checks(|checks| checks.verified(good));
    let resolved = ResolvedWorkspace {
        kind: entry.key.kind,
        name: entry.key.name.clone(),
        uid: workspace.uid().unwrap_or_default(),
        base_url: check.base_url.unwrap_or_default(),
        identity: check.identity.flatten(),
    };
    let current = Arc::unwrap_or_clone(entry.state());
    let other_token = |session: &Arc<ClientSession>| session.credentials.token != credentials.token;
    if current.session.as_ref().is_some_and(other_token) {
        ctx.metrics.token_changes.inc();
    }
    let limiter = entry.limiter(&ctx.metrics);
    limiter.set_rate(workspace.common().rate_limit);
    if matches!(current.view, WorkspaceView::NotReady { .. }) {
        limiter.one_first();
    }
    let same = current.session.filter(|session| {
        session.credentials.token == credentials.token && current.view.serves(&resolved)
    });
    let number = same
        .as_ref()
        .map_or_else(|| ctx.workspaces.next_session(), |session| session.number);
    let session = Arc::new(ClientSession {
        client,
        credentials,
        number,
        limiter,
    });
    let verified = Session {
        number,
        resolved,
        submissions_blocked: assessment.submissions_blocked.clone(),
    };
    WorkspaceState::ready(verified, session)
}

/// Writes the status if it differs from the stored one, and publishes Events for the changes. `waits`: the Workspace is
/// being deleted and waits for Runs.
pub(crate) async fn write_status<K: Kind>(
    ctx: &Context,
    workspace: &K,
    entry: &WorkspaceEntry,
    status: &WorkspaceStatus,
    waits: bool,
) -> Result<(), WriteError> {
    if workspace.stored() == Some(status) {
        publish(ctx, workspace, entry, status, waits);
        return Ok(());
    }
    let _one = ctx.api_requests.acquire().await.ok();
    let api = K::api(ctx.client.clone(), &entry.key.namespace);
    patch::write_status(&api, workspace, status).await?;
    publish(ctx, workspace, entry, status, waits);
    Ok(())
}

fn publish<K: Kind>(
    ctx: &Context,
    workspace: &K,
    entry: &WorkspaceEntry,
    status: &WorkspaceStatus,
    waits: bool,
) {
    let event = events::of_workspace(workspace.stored(), status, waits, wall());
    let new = |draft: &EventDraft| ctx.recorder.publish(workspace, draft);
    if let Some(draft) = event.filter(new) {
        tracing::info!(
            k8s.namespace.name = %entry.key.namespace, workspace.name = %entry.key.name,
            event.reason = draft.reason.as_str(), note = draft.message, "publishing Event"
        );
    }
}
