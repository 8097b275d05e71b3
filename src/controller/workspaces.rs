//! The reconcile of a Workspace: `/version` without a token, then `/workspaces/current` with it, then
//! Ready. One prober for however many Runs.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::{Api, Resource, ResourceExt, runtime::controller::Action};

use crate::api::{
    Reason, Workspace, WorkspaceStatus, run::WorkspaceKind, status::ResolvedWorkspace,
};
use crate::decide::{
    Session, WorkspaceView, backoff,
    workspace::{Assessment, Check, Obstacle, assess},
};
use crate::service::{Client, Credentials};

use super::{
    checks::{Checked, Verdict},
    context::{Context, Guarded, now},
    metrics::ReconcileResult,
    registry::{Key, Live, Slot},
    scope::Scope,
    secrets, verify, wake,
    watch::chain,
    writes::{self, WriteError},
};

/// How often a Ready Workspace is checked: a change of the service's version or of the token's workspace
/// is noticed within this time without a call that fails.
const RECHECK: Duration = Duration::from_mins(5);
/// The longest pause of the one prober of a Workspace that is not Ready: also the pace at which a Secret
/// is read again where RBAC forbids the watch.
const PROBE_MAX: Duration = Duration::from_secs(30);
/// Pause before a status that could not be written is tried again, on a newer view of the object.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// Pause after a status was refused: a schema or a role has to be mended first.
const AFTER_REFUSAL: Duration = Duration::from_mins(1);

/// Reconciles one Workspace; a panic ends this reconcile alone.
pub async fn reconcile(
    object: Arc<Guarded<Workspace>>,
    ctx: Arc<Context>,
) -> Result<Action, Infallible> {
    let name = object.meta().name.clone();
    let namespace = object.meta().namespace.clone();
    let checked = AssertUnwindSafe(look(object, Arc::clone(&ctx))).catch_unwind();
    checked.await.unwrap_or_else(|_| {
        ctx.metrics.reconciled("workspace", ReconcileResult::panic);
        tracing::error!(
            k8s.namespace.name = namespace,
            workspace.name = name,
            "the check of a Workspace panicked; checking again later"
        );
        Ok(Action::requeue(AFTER_REFUSAL))
    })
}

/// Reconciles one Workspace. Never fails: what goes wrong decides when to look again.
async fn look(object: Arc<Guarded<Workspace>>, ctx: Arc<Context>) -> Result<Action, Infallible> {
    let workspace = match &object.0 {
        Ok(workspace) => workspace,
        Err(invalid) => {
            ctx.metrics.undecodable.inc();
            let meta = object.meta();
            tracing::error!(
                k8s.namespace.name = meta.namespace.as_deref(), workspace.name = meta.name.as_deref(),
                error = %invalid.error, "failed to decode a Workspace; it is left alone until it changes"
            );
            return Ok(Action::await_change());
        }
    };
    let key = key_of(workspace);
    watch_secrets(&ctx, workspace);
    let generation = workspace.metadata.generation.unwrap_or_default();
    let uid = workspace.uid().unwrap_or_default();
    let suspected = ctx.registry.suspected(&key);
    let verdict = ctx.checks.due(&key, &uid, generation, suspected, now());
    if let Verdict::NotBefore(at) = verdict {
        let wait = Duration::try_from(at.duration_since(now())).unwrap_or_default();
        return Ok(Action::requeue(wait));
    }
    ctx.registry.clear_suspicion(&key);
    let (check, live) = verify::check(&ctx, workspace, &key).await;
    let attempts = ctx.checks.failures(&key).saturating_add(1);
    let contract = &ctx.config.contract;
    let assessment = assess(
        workspace.status.as_ref(),
        &check,
        generation,
        attempts,
        contract,
        now(),
    );
    let result = write_status(&ctx, workspace, &assessment.status).await;
    let pause = settle(&ctx, workspace, &key, check, live, &assessment);
    let pause = match result {
        ReconcileResult::conflict => pause.min(AFTER_CONFLICT),
        ReconcileResult::error => pause.min(AFTER_REFUSAL),
        ReconcileResult::success | ReconcileResult::requeue_after | ReconcileResult::panic => pause,
    };
    let checked = Checked {
        uid,
        generation,
        ready: assessment.ready,
        next: crate::decide::memory::later(now(), pause),
    };
    ctx.checks.done(&key, checked, now());
    ctx.metrics.reconciled("workspace", result);
    if !ctx.has_workspace(&key) {
        // It was deleted during the check, which has just said otherwise.
        wake::missing_workspaces(&ctx);
        return Ok(Action::await_change());
    }
    Ok(Action::requeue(pause))
}

fn key_of(workspace: &Workspace) -> Key {
    Key {
        kind: WorkspaceKind::Workspace,
        namespace: workspace.namespace().unwrap_or_default(),
        name: workspace.name_any(),
    }
}

/// Under a cluster-wide watch one filtered watch serves all namespaces.
fn watch_secrets(ctx: &Arc<Context>, workspace: &Workspace) {
    let namespace = workspace.namespace().unwrap_or_default();
    let scope = if ctx.config.namespaces.is_empty() {
        Scope::All
    } else {
        Scope::Namespace(namespace)
    };
    secrets::watch(ctx, &scope, workspace.spec.token_secret().0);
    if let Some((ca, _)) = workspace.spec.ca_secret() {
        secrets::watch(ctx, &scope, ca);
    }
}

/// Tells the Runs what they may do. Returns when to check again.
fn settle(
    ctx: &Context,
    workspace: &Workspace,
    key: &Key,
    check: Check,
    live: Option<(Client, Credentials)>,
    assessment: &Assessment,
) -> Duration {
    let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
    let slot = match (&assessment.usable, live) {
        (Ok(()), Some((client, credentials))) => {
            ready_slot(ctx, workspace, key, check, client, credentials, assessment)
        }
        (Err(why), _) => Slot {
            view: WorkspaceView::NotReady {
                reason: why.reason,
                message: assessment.message(),
            },
            live: None,
        },
        (Ok(()), None) => Slot {
            view: WorkspaceView::Unknown,
            live: None,
        },
    };
    if ctx.registry.set(key, slot) {
        wake::runs_of(ctx, key);
    }
    if assessment.ready {
        return RECHECK;
    }
    let attempt = ctx.checks.failures(key).saturating_add(1);
    let seed = backoff::seed(&workspace.uid().unwrap_or_default(), attempt);
    let own = backoff::delay(attempt, None, seed).min(PROBE_MAX);
    own.max(backoff::asked(asked))
}

/// The same token at the same place goes on with its session, unless a call with it was rejected.
fn ready_slot(
    ctx: &Context,
    workspace: &Workspace,
    key: &Key,
    check: Check,
    client: Client,
    credentials: Credentials,
    assessment: &Assessment,
) -> Slot {
    let resolved = ResolvedWorkspace {
        kind: key.kind,
        name: key.name.clone(),
        uid: workspace.uid().unwrap_or_default(),
        base_url: check.base_url.unwrap_or_default(),
        identity: check.identity.flatten(),
    };
    let suspended = workspace.spec.suspend.unwrap_or_default();
    let holds = if workspace.metadata.deletion_timestamp.is_some() {
        Some((
            Reason::WorkspaceDeleting,
            "The Workspace is being deleted and takes no new Runs.".to_owned(),
        ))
    } else if suspended {
        Some((
            Reason::WorkspaceSuspended,
            "The Workspace's spec.suspend holds new submissions.".to_owned(),
        ))
    } else {
        assessment.holds.clone()
    };
    let current = ctx.registry.slot(key);
    let gate = ctx.gate(key, workspace.spec.rate_limit);
    if matches!(current.view, WorkspaceView::NotReady { .. }) {
        gate.start_slowly();
    }
    let same = current.live.filter(|live| {
        live.credentials.token == credentials.token
            && live.client.base_url().as_str() == resolved.base_url
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
    Slot {
        view: WorkspaceView::Ready(Session {
            number,
            resolved,
            holds,
        }),
        live: Some(live),
    }
}

async fn write_status(
    ctx: &Context,
    workspace: &Workspace,
    status: &WorkspaceStatus,
) -> ReconcileResult {
    if workspace.status.as_ref() == Some(status) {
        return ReconcileResult::requeue_after;
    }
    let namespace = workspace.namespace().unwrap_or_default();
    let api: Api<Workspace> = Api::namespaced(ctx.client.clone(), &namespace);
    match writes::write_status(&api, workspace, status).await {
        Ok(_) => ReconcileResult::requeue_after,
        Err(WriteError::Conflict | WriteError::Gone) => ReconcileResult::conflict,
        Err(error) => {
            tracing::warn!(k8s.namespace.name = %namespace, workspace.name = %workspace.name_any(), error = %chain(&error), "failed to write a Workspace's status");
            ReconcileResult::error
        }
    }
}
