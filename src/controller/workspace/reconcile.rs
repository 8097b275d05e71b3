//! The reconcile of a Workspace of either kind: `/version` without a token, then `/workspaces/current` with it, then
//! Ready. One check serves all its Runs.

use crate::api::{self, Reason, WorkspaceKey};
use crate::clock::{now, until, wall};
use crate::controller::{
    apiserver::{
        BadObject, Maybe,
        patch::{self, WriteError},
        reconciled::{Action, ReconcileError, Reconciled},
    },
    context::Context,
    enqueue, leader,
    state::{
        secrets::SecretName,
        workspaces::{Checks, Due, LastCheck, WorkspaceEntry, WorkspaceState},
    },
    undecodable,
};
use crate::decide::{
    self, WorkspaceView,
    delays::{self, later},
    workspace::{self, Obstacle, assess},
};

use super::{
    finalizer::{self, Removal},
    kind::{Kind, key_of},
    probe, probe_result,
};

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;

/// Shortest pause after a write that met a conflict or got no answer; usually the watch has delivered a newer object by
/// then. If it hasn't, pauses grow: each attempt costs the service two calls.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);
/// Pause after a write was refused: the CRD or a role must be fixed first. Also the longest pause after other failed
/// writes.
const AFTER_REFUSAL: Duration = Duration::from_mins(1);
/// Pause before a Secret is read again after the API server didn't answer, while the Workspace is Ready.
const AFTER_SILENCE: Duration = Duration::from_secs(5);
/// Longest pause before the next attempt to release a Workspace that is being deleted.
const BEING_DELETED: Duration = Duration::from_secs(30);

/// Reconciles one Workspace.
pub async fn reconcile<K: Kind>(object: Arc<Maybe<K>>, ctx: Arc<Context>) -> Reconciled {
    // 1. A process that doesn't lead changes nothing.
    if !ctx.leading.holds() {
        return Ok(Action::requeue(leader::AGAIN));
    }
    let key = key_of::<K>(object.as_ref());
    let entry = ctx.workspaces.entry(&key);
    // 2. An object that can't be decoded is not reconciled until it changes; its status and its Runs show that.
    let workspace = match object.as_ref() {
        Maybe::Good(workspace) => workspace,
        Maybe::Bad(bad) => return show_undecodable::<K>(&ctx, bad, &entry).await,
    };
    steps(&ctx, workspace.as_ref(), &entry).await
}

/// The steps over one Workspace that can be decoded.
async fn steps<K: Kind>(ctx: &Context, workspace: &K, entry: &WorkspaceEntry) -> Reconciled {
    let key = &entry.key;
    // 3. Watch the Secrets that it names.
    follow_secrets(ctx, workspace, key);
    let leaving = workspace.meta().deletion_timestamp.is_some();
    if !leaving {
        entry.open_submissions();
    }
    // 4. Add the finalizer: without it the Workspace could be deleted while its Runs need it.
    let written = match add_finalizer(ctx, workspace, key).await {
        Ok(written) => written,
        Err(error) => return finalizer_not_added(ctx, workspace, entry, error),
    };
    let workspace = written.as_deref().unwrap_or(workspace);
    // 5. Check it, if that is due.
    let (pause, error) = match due(workspace, entry) {
        Due::Now => check_and_apply(ctx, workspace, entry).await,
        Due::NotBefore(at) => (until(at), None),
    };
    let ended = |again: Action| error.map_or(Ok(again), |error| Err(error.again(again)));
    if !ctx.has_workspace(key) {
        // It was deleted during the check, whose result was just stored.
        enqueue::missing_workspaces(ctx);
        return ended(Action::await_change());
    }
    // 6. If it is being deleted and no Run needs it, remove the finalizer.
    if !leaving || !api::finalizer::present(workspace.meta()) {
        return ended(Action::requeue(pause));
    }
    match finalizer::remove_if_unused(ctx, workspace, key).await {
        Ok(Removal::Removed) => ended(Action::await_change()),
        Ok(Removal::Needed) => ended(Action::requeue(pause.min(BEING_DELETED))),
        Err(error @ ReconcileError::Write(WriteError::Conflict)) => {
            Err(error.again(Action::requeue(write_retry(workspace, entry))))
        }
        // Each attempt lists the Runs.
        Err(error) => Err(error.again(Action::requeue(BEING_DELETED))),
    }
}

/// Shows in the status of a Workspace that it can't be decoded. Its Runs wait.
async fn show_undecodable<K: Kind>(
    ctx: &Context,
    bad: &BadObject,
    entry: &WorkspaceEntry,
) -> Reconciled {
    let message =
        "its fields can't be read; correct them, or apply the CRDs of this operator's version.";
    set_not_ready(ctx, entry, Reason::WorkspaceInvalid, message);
    let api = K::api(ctx.client.clone(), &entry.key.namespace);
    let generation = bad.metadata.generation.unwrap_or_default();
    let status = |stored, what: &str| {
        decide::conditions::undecodable_workspace(stored, what, generation, wall())
    };
    undecodable::show(ctx, &api, bad, status).await
}

/// Sets the Workspace to not Ready without a check; its Runs wait.
fn set_not_ready(ctx: &Context, entry: &WorkspaceEntry, reason: Reason, message: &str) {
    let view = WorkspaceView::NotReady {
        reason,
        message: message.to_owned(),
        since: entry.checks(|checks| checks.no_calls_since(now())),
    };
    enqueue::set_state(ctx, entry, WorkspaceState::closed(view));
}

/// Adds the finalizer if it is missing and can still be added. Returns the written object.
async fn add_finalizer<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &WorkspaceKey,
) -> Result<Option<Arc<K>>, WriteError> {
    if workspace.meta().deletion_timestamp.is_some() || api::finalizer::present(workspace.meta()) {
        return Ok(None);
    }
    let _one = ctx.api_requests.acquire().await.ok();
    let api = K::api(ctx.client.clone(), &key.namespace);
    patch::write_finalizer(&api, workspace, true)
        .await
        .map(Some)
}

/// Handles a failed write of the finalizer. Without it no Run is submitted; an unchecked Workspace becomes not Ready.
fn finalizer_not_added<K: Kind>(
    ctx: &Context,
    workspace: &K,
    entry: &WorkspaceEntry,
    error: WriteError,
) -> Reconciled {
    let again = match error {
        WriteError::Gone => Action::await_change(),
        WriteError::Conflict | WriteError::Failed(_) | WriteError::Timeout => {
            Action::requeue(write_retry(workspace, entry))
        }
        WriteError::Refused(_) | WriteError::Serialize(_) => Action::requeue(AFTER_REFUSAL),
    };
    let contradicted = matches!(error, WriteError::Conflict | WriteError::Gone);
    if !contradicted && entry.state().view == WorkspaceView::Unknown {
        let message = "its finalizer could not be written; the operator's log has the error, and the write is retried.";
        set_not_ready(ctx, entry, Reason::Checking, message);
    }
    Err(ReconcileError::Write(error).again(again))
}

/// Pause after a write that met a conflict or got no answer. It grows with each.
fn write_retry<K: Kind>(workspace: &K, entry: &WorkspaceEntry) -> Duration {
    let times = entry.checks(|checks| {
        checks.failed_writes = checks.failed_writes.saturating_add(1);
        checks.failed_writes
    });
    let seed = delays::seed(&workspace.uid().unwrap_or_default(), times);
    delays::backoff(times, None, seed).clamp(AFTER_CONFLICT, AFTER_REFUSAL)
}

fn follow_secrets<K: Kind>(ctx: &Context, workspace: &K, key: &WorkspaceKey) {
    let spec = workspace.common();
    let ca = spec.ca_secret().map(|(name, _)| name);
    let names = ca.into_iter().chain([spec.token_secret().0]);
    let secrets = names.map(|name| SecretName {
        namespace: K::secret_namespace(ctx, key),
        name: name.to_owned(),
    });
    ctx.secrets.name(key, secrets.collect());
}

fn due<K: Kind>(workspace: &K, entry: &WorkspaceEntry) -> Due {
    let generation = workspace.meta().generation.unwrap_or_default();
    let uid = workspace.uid().unwrap_or_default();
    entry.checks(|checks| checks.due(&uid, generation, now()))
}

/// Checks the Workspace and applies the result. Returns the pause before the next check.
async fn check_and_apply<K: Kind>(
    ctx: &Context,
    workspace: &K,
    entry: &WorkspaceEntry,
) -> (Duration, Option<ReconcileError>) {
    entry.checks(Checks::begin);
    // A check may wait for others.
    let checked = tokio::select! {
        checked = probe::check(ctx, workspace, entry) => checked,
        () = ctx.shutdown.cancelled() => return (AFTER_SILENCE, None),
    };
    let (mut check, prepared) = checked;
    if check.obstacle.as_ref().is_some_and(Obstacle::no_file) {
        // A lack of files in this process; the Workspace keeps its state.
        ctx.metrics.no_file.inc();
        entry.checks(|checks| checks.due_at_once = true);
        return (AFTER_SILENCE, Some(ReconcileError::NoFile));
    }
    let standing = probe_result::standing(workspace, entry);
    let state = entry.state();
    // After a start or a 401 no call can be made although the stored status is good: the status shows that.
    let shown = state.session.is_some() || matches!(state.view, WorkspaceView::NotReady { .. });
    if check.inconclusive() && shown {
        // The API server didn't answer; the Workspace's state is unchanged.
        entry.checks(|checks| checks.due_at_once = true);
        return (AFTER_SILENCE, Some(ReconcileError::NoAnswer));
    }
    if workspace.meta().deletion_timestamp.is_some() {
        check.waits_for = Some(finalizer::needed_by(ctx, workspace, &entry.key));
    }
    let generation = workspace.meta().generation.unwrap_or_default();
    let attempts = entry.checks(|checks| checks.failures).saturating_add(1);
    let contract = &ctx.config.contract;
    let assessment = assess(
        workspace.stored(),
        &check,
        generation,
        attempts,
        contract,
        wall(),
    );
    let waits = check
        .waits_for
        .as_ref()
        .is_some_and(|runs| !runs.is_empty());
    let failure_ignored = workspace::ignores_failure(&check, standing);
    let (pause, error) = if failure_ignored {
        let pause = probe_result::ignore_first_failure(ctx, workspace, entry, &check, &assessment);
        (pause, None)
    } else {
        // The session first, then the status: a reader of the status can rely on it.
        let pause = probe_result::apply(
            ctx,
            workspace,
            entry,
            check,
            prepared,
            &assessment,
            attempts,
        );
        let written =
            probe_result::write_status(ctx, workspace, entry, &assessment.status, waits).await;
        let error = written.err();
        (
            after_write(workspace, entry, error.as_ref(), pause),
            error.map(ReconcileError::Write),
        )
    };
    let at = now();
    let checked = LastCheck {
        uid: workspace.uid().unwrap_or_default(),
        generation,
        ready: assessment.ready,
        failure_ignored,
        at,
        next: later(at, pause),
    };
    if entry.checks(|checks| checks.done(checked)) {
        // The namespaceSelector is the Runs' business.
        enqueue::runs_of(ctx, &entry.key);
    }
    (pause, error)
}

/// Pause before the next check, by the result of writing the status.
fn after_write<K: Kind>(
    workspace: &K,
    entry: &WorkspaceEntry,
    error: Option<&WriteError>,
    pause: Duration,
) -> Duration {
    if error.is_some() {
        return pause.min(write_retry(workspace, entry));
    }
    entry.checks(|checks| checks.failed_writes = 0);
    pause
}
