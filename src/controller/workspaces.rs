//! The reconcile of a Workspace of either kind: `/version` without a token, then `/workspaces/current`
//! with it, then Ready. One prober for however many Runs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::{Resource, ResourceExt};

use crate::api::Reason;
use crate::decide::{
    self, WorkspaceView, backoff,
    memory::later,
    recheck,
    workspace::{Obstacle, assess},
};

use super::{
    checks::{Checked, Verdict},
    context::{Context, Guarded, now, wall},
    departure::{self, Departure},
    kinds::{Kind, key_of},
    loops::Action,
    metrics::ReconcileResult,
    registry::{Key, Slot},
    secret_table::SecretName,
    settle, undecodable, verify, wake,
    watch::chain,
    writes::{self, WriteError},
};

/// Pause before a write that met a conflict or got no answer is tried again, on a newer view of the object
/// as a rule. Where the watch brings none, pauses grow: each try costs the service two calls.
const IN_VAIN: Duration = Duration::from_secs(1);
/// Pause after a write was refused: a schema or a role has to be mended first. Also the longest after one
/// that came to nothing otherwise.
const AFTER_REFUSAL: Duration = Duration::from_mins(1);
/// Pause before a Secret that the API server didn't give is read again, as long as the Workspace is Ready.
const AFTER_SILENCE: Duration = Duration::from_secs(5);
/// Pause before it is looked again whether a Workspace that is being deleted may go, should nothing say
/// so before.
const DEPARTURE: Duration = Duration::from_secs(30);

/// Reconciles one Workspace; a panic ends this reconcile alone.
pub async fn reconcile<K: Kind>(
    object: Arc<Guarded<K>>,
    ctx: Arc<Context>,
) -> (Action, ReconcileResult) {
    if !ctx.leading.holds() {
        return (Action::await_change(), ReconcileResult::success);
    }
    let key = key_of::<K>(object.as_ref());
    let looked = AssertUnwindSafe(look(&object, &ctx, &key)).catch_unwind();
    looked.await.unwrap_or_else(|_| {
        tracing::error!(
            k8s.namespace.name = %key.namespace, workspace.name = %key.name,
            "the check of a Workspace panicked; checking again later"
        );
        (Action::requeue(AFTER_REFUSAL), ReconcileResult::panic)
    })
}

/// Looks at one Workspace. What goes wrong decides when to look again.
async fn look<K: Kind>(
    object: &Guarded<K>,
    ctx: &Arc<Context>,
    key: &Key,
) -> (Action, ReconcileResult) {
    let Ok(workspace) = &object.0 else {
        tell_runs(ctx, key);
        let api = K::api(ctx.client.clone(), &key.namespace);
        let generation = object.meta().generation.unwrap_or_default();
        let told =
            |status, what: &str| decide::undecodable::workspace(status, what, generation, wall());
        undecodable::show(ctx, &api, object, told).await;
        return (Action::await_change(), ReconcileResult::error);
    };
    follow_secrets(ctx, workspace, key);
    let leaving = workspace.meta().deletion_timestamp.is_some();
    if !leaving {
        ctx.doors.open(key);
    }
    // Without the finalizer it could go while its Runs need it.
    let held = match hold(ctx, workspace, key).await {
        Ok(held) => held,
        Err(error) => return unheld(ctx, workspace, key, &error),
    };
    let workspace = held.as_ref().unwrap_or(workspace);
    let (pause, result) = match due(ctx, workspace, key) {
        Verdict::Now => examine(ctx, workspace, key).await,
        Verdict::NotBefore(at) => {
            let wait = Duration::try_from(at.duration_since(now())).unwrap_or_default();
            (wait, ReconcileResult::requeue_after)
        }
    };
    if !ctx.has_workspace(key) {
        // It was deleted during the check, which has just said otherwise.
        wake::missing_workspaces(ctx);
        return (Action::await_change(), result);
    }
    if !leaving || !writes::held(workspace) {
        return (Action::requeue(pause), result);
    }
    match departure::depart(ctx, workspace, key).await {
        Departure::Released => (Action::await_change(), result),
        Departure::Waits => (Action::requeue(pause.min(DEPARTURE)), result),
        Departure::Overtaken => {
            let pause = in_vain(ctx, workspace, key);
            (Action::requeue(pause), ReconcileResult::conflict)
        }
        // Each try lists the Runs.
        Departure::Failed => (Action::requeue(DEPARTURE), ReconcileResult::error),
    }
}

/// The Runs of a Workspace that can't be decoded wait.
fn tell_runs(ctx: &Context, key: &Key) {
    let view = WorkspaceView::NotReady {
        reason: Reason::WorkspaceInvalid,
        message:
            "its fields can't be read; correct them, or apply the CRDs of this operator's version."
                .to_owned(),
        since: ctx.checks.troubled(key, now()),
    };
    if ctx.registry.set(key, Slot::closed(view)) {
        wake::runs_of(ctx, key);
    }
}

/// Puts the finalizer on, if it is missing and still can be put on. Returns the object as written.
async fn hold<K: Kind>(ctx: &Context, workspace: &K, key: &Key) -> Result<Option<K>, WriteError> {
    if workspace.meta().deletion_timestamp.is_some() || writes::held(workspace) {
        return Ok(None);
    }
    let _one = ctx.api_requests.acquire().await.ok();
    let api = K::api(ctx.client.clone(), &key.namespace);
    writes::write_finalizer(&api, workspace, true)
        .await
        .map(Some)
}

/// The finalizer could not be written, and without it no Run is submitted: where that lasts, they are told.
fn unheld<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
    error: &WriteError,
) -> (Action, ReconcileResult) {
    let pause = match error {
        WriteError::Conflict => {
            let pause = in_vain(ctx, workspace, key);
            return (Action::requeue(pause), ReconcileResult::conflict);
        }
        WriteError::Gone => return (Action::await_change(), ReconcileResult::conflict),
        WriteError::Failed(_) | WriteError::Timeout => in_vain(ctx, workspace, key),
        WriteError::Refused(_) | WriteError::Serialize(_) => AFTER_REFUSAL,
    };
    tracing::warn!(
        k8s.namespace.name = %key.namespace, workspace.name = %key.name, error = %chain(error),
        "failed to put the finalizer on a Workspace; trying again"
    );
    if ctx.registry.slot(key).view == WorkspaceView::Unknown {
        let view = WorkspaceView::NotReady {
            reason: Reason::Checking,
            message: "its finalizer could not be written; the operator's log says why, and it is tried again."
                .to_owned(),
            since: ctx.checks.troubled(key, now()),
        };
        ctx.registry.set(key, Slot::closed(view));
        wake::runs_of(ctx, key);
    }
    (Action::requeue(pause), ReconcileResult::error)
}

/// How long to wait after a write that came to nothing.
fn in_vain<K: Kind>(ctx: &Context, workspace: &K, key: &Key) -> Duration {
    let times = ctx.checks.wrote_in_vain(key);
    let seed = backoff::seed(&workspace.uid().unwrap_or_default(), times);
    backoff::delay(times, None, seed).clamp(IN_VAIN, AFTER_REFUSAL)
}

fn follow_secrets<K: Kind>(ctx: &Context, workspace: &K, key: &Key) {
    let spec = workspace.common();
    let ca = spec.ca_secret().map(|(name, _)| name);
    let names = ca.into_iter().chain([spec.token_secret().0]);
    let secrets = names.map(|name| SecretName {
        namespace: K::secret_namespace(ctx, key),
        name: name.to_owned(),
    });
    ctx.secrets.name(key, secrets.collect());
}

fn due<K: Kind>(ctx: &Context, workspace: &K, key: &Key) -> Verdict {
    let generation = workspace.meta().generation.unwrap_or_default();
    let uid = workspace.uid().unwrap_or_default();
    let suspected = ctx.registry.suspected(key);
    ctx.checks.due(key, &uid, generation, suspected, now())
}

/// Checks the Workspace and applies the result. Returns when the next check is due.
async fn examine<K: Kind>(ctx: &Context, workspace: &K, key: &Key) -> (Duration, ReconcileResult) {
    ctx.registry.clear_suspicion(key);
    // A check may wait for others.
    let checked = tokio::select! {
        checked = verify::check(ctx, workspace, key) => checked,
        () = ctx.shutdown.cancelled() => return (AFTER_SILENCE, ReconcileResult::success),
    };
    let (mut check, live) = checked;
    if check.obstacle.as_ref().is_some_and(Obstacle::no_file) {
        // This process's own trouble: the Workspace is what it was.
        ctx.short_of_files();
        ctx.checks.secret_changed(key);
        return (AFTER_SILENCE, ReconcileResult::error);
    }
    let standing = settle::standing(ctx, workspace, key);
    let view = ctx.registry.slot(key).view;
    let said = standing.verified || matches!(view, WorkspaceView::NotReady { .. });
    if check.learnt_nothing() && said {
        // The API server didn't answer; what is known of the Workspace stands.
        ctx.checks.secret_changed(key);
        return (AFTER_SILENCE, ReconcileResult::error);
    }
    if workspace.meta().deletion_timestamp.is_some() {
        check.waits_for = Some(departure::needed_by(ctx, workspace, key));
    }
    let generation = workspace.meta().generation.unwrap_or_default();
    let attempts = ctx.checks.failures(key).saturating_add(1);
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
    let passed_over = recheck::passed_over(&check, standing);
    let (pause, result) = if passed_over {
        let pause = settle::pass_over(ctx, workspace, key, &check, &assessment);
        (pause, ReconcileResult::requeue_after)
    } else {
        // The session first, then the status: whoever reads it may rely on it.
        let pause = settle::settle(ctx, workspace, key, check, live, &assessment);
        let result = settle::write_status(ctx, workspace, key, &assessment.status, waits).await;
        (after_write(ctx, workspace, key, result, pause), result)
    };
    let checked = Checked {
        uid: workspace.uid().unwrap_or_default(),
        generation,
        ready: assessment.ready,
        passed_over,
        next: later(now(), pause),
    };
    if ctx.checks.done(key, checked, now()) {
        // The namespaceSelector is the Runs' business.
        wake::runs_of(ctx, key);
    }
    (pause, result)
}

/// The pause before the next check, after the write of the status.
fn after_write<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
    result: ReconcileResult,
    pause: Duration,
) -> Duration {
    match result {
        ReconcileResult::conflict | ReconcileResult::error => {
            pause.min(in_vain(ctx, workspace, key))
        }
        ReconcileResult::success | ReconcileResult::requeue_after | ReconcileResult::panic => {
            ctx.checks.wrote(key);
            pause
        }
    }
}
