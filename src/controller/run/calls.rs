//! Calls to the service, each in a task of its own: a hanging service delays no other object and no other Workspace. A
//! waiting call is a task parked on its permit. Once it has the permit, the Run is decided again
//! ([`permits`](super::permits)).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use kube::ResourceExt;
use tokio::time::{Instant, sleep, sleep_until};

use crate::api::WorkspaceKey;
use crate::controller::{
    context::Context,
    leader,
    state::{
        call_limiter::{CallLimiter, CallPermit, QueuedCall},
        runs::{CallEvent, LONG_WAIT, RunEntry, Waiting},
        workspaces::{ClientSession, WorkspaceState},
    },
};
use crate::decide::{
    Effect,
    failure::{Capacity, FailedCall, Failure, FailureKind, RunView},
};
use crate::service::{IdempotencyKey, RunId};

use super::{pass::Pass, policy::learning, settled};

/// Makes the call of `effect` with the permit of the pass, or as soon as the Workspace's limiter gives one.
pub(crate) fn start(
    pass: &mut Pass<'_>,
    key: &WorkspaceKey,
    workspace: &WorkspaceState,
    effect: &Effect,
) {
    let Some(session) = &workspace.session else {
        return;
    };
    let limiter = &session.limiter;
    let permit = match pass.permit.take().filter(|permit| permit.is_of(limiter)) {
        Some(granted) => granted,
        // It keeps its place in the queue.
        None if waits_at(pass.entry, limiter) => return,
        None => match limiter.ask(&pass.entry.namespace) {
            Ok(permit) => permit,
            Err(queued) => return park(pass.ctx, pass.entry, limiter, queued),
        },
    };
    pass.entry.stop_waiting();
    pass.entry.with(|state| state.run.begin_call());
    let task = Task {
        ctx: Arc::clone(pass.ctx),
        entry: Arc::clone(pass.entry),
        version: pass.run.resource_version(),
        key: key.clone(),
        workspace: workspace.clone(),
        effect: effect.clone(),
    };
    pass.ctx.calls.spawn(task.run(permit));
}

/// Whether a task of the Run is parked on a permit of this limiter.
fn waits_at(entry: &RunEntry, limiter: &Arc<CallLimiter>) -> bool {
    entry.with(|state| {
        let waiting = state.waiting.as_ref();
        waiting.is_some_and(|waiting| {
            Arc::ptr_eq(&waiting.limiter, limiter) && !waiting.task.is_finished()
        })
    })
}

/// Parks a task on the permit.
fn park(ctx: &Arc<Context>, entry: &Arc<RunEntry>, limiter: &Arc<CallLimiter>, queued: QueuedCall) {
    let since = Instant::now();
    let parked = wait(
        Arc::clone(ctx),
        Arc::clone(entry),
        Arc::clone(limiter),
        queued,
        since,
    );
    // Spawned under the lock: the permit may come at once, and its handler takes this entry.
    let before = entry.with(|state| {
        state.waiting.replace(Waiting {
            limiter: Arc::clone(limiter),
            since,
            task: tokio::spawn(parked).abort_handle(),
        })
    });
    drop(before);
}

/// Waits for the permit. Meanwhile has the Run reconciled when its status changes: a long pause began, or the wait
/// became long.
async fn wait(
    ctx: Arc<Context>,
    entry: Arc<RunEntry>,
    limiter: Arc<CallLimiter>,
    queued: QueuedCall,
    since: Instant,
) {
    let permit = queued.permit();
    let pause = limiter.next_long_pause();
    tokio::pin!(permit, pause);
    pause.as_mut().enable();
    if limiter.long_pause().is_some() {
        enqueue(&ctx, &entry);
    }
    let mut shown = false;
    loop {
        tokio::select! {
            permit = &mut permit => {
                let entry = Arc::clone(&entry);
                // The receiver is dropped only when no call is wanted.
                let _ = ctx.call_events.send(CallEvent::Granted { entry, permit });
                return;
            }
            () = &mut pause => {
                pause.set(limiter.next_long_pause());
                pause.as_mut().enable();
                enqueue(&ctx, &entry);
            }
            () = sleep_until(since + LONG_WAIT), if !shown => {
                shown = true;
                enqueue(&ctx, &entry);
            }
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

/// Requests a reconcile; for a deleted object, the next pass of its cleanup.
pub(crate) fn enqueue(ctx: &Context, entry: &RunEntry) {
    entry.changed.notify_one();
    ctx.run_trigger.enqueue(&entry.namespace, &entry.uid);
}

struct Task {
    ctx: Arc<Context>,
    entry: Arc<RunEntry>,
    /// The resourceVersion that policy decided on.
    version: Option<String>,
    key: WorkspaceKey,
    workspace: WorkspaceState,
    effect: Effect,
}

impl Task {
    async fn run(self, permit: CallPermit) {
        let Self {
            ctx,
            entry,
            workspace,
            ..
        } = &self;
        if !ctx.may_begin() {
            drop(permit);
            entry.with(|state| state.run.drop_call());
            if !ctx.shutdown.is_cancelled() {
                sleep(leader::AGAIN).await;
                enqueue(ctx, entry);
            }
            return;
        }
        let made = call(ctx, entry, &self.key, workspace, &self.effect, permit);
        if AssertUnwindSafe(made).catch_unwind().await.is_err() {
            ctx.metrics.panicked("run");
            entry.with(|state| state.quarantined.clone_from(&self.version));
            tracing::error!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                "a call panicked; the Run is not reconciled until it changes"
            );
        }
        entry.with(|state| state.run.end_call());
        entry.changed.notify_one();
        if ctx.shutdown.is_cancelled() {
            // No loop serves the Run now. The manager ends only after it has handled this event.
            let _ = ctx.call_events.send(CallEvent::Ended {
                entry: Arc::clone(entry),
                counted: ctx.calls.token(),
            });
            return;
        }
        ctx.run_trigger.enqueue(&entry.namespace, &entry.uid);
        // No cache may have it any more, and then no reconcile follows.
        settled::at_rest(ctx, entry);
    }
}

/// Makes one call to the service, and records its outcome with the limiter and in memory. Has the Workspace checked if the
/// answer requires it.
async fn call(
    ctx: &Context,
    entry: &RunEntry,
    key: &WorkspaceKey,
    workspace: &WorkspaceState,
    effect: &Effect,
    mut permit: CallPermit,
) {
    let (Some(session), Some(call)) = (&workspace.session, effect.call()) else {
        return;
    };
    permit.begin();
    let with = learning(ctx, entry, workspace);
    entry.with(|state| state.run.call_sent(call, with));
    let answer = match effect {
        Effect::Submit { key, body } => create(session, key, body).await,
        Effect::Refresh { run_id } => {
            let get = async |id: &RunId| session.client.get_run(&session.credentials, id).await;
            with_run(run_id, get).await
        }
        Effect::Cancel { run_id } => {
            let cancel =
                async |id: &RunId| session.client.cancel_run(&session.credentials, id).await;
            with_run(run_id, cancel).await
        }
        Effect::WriteIntent { .. } | Effect::Release { .. } | Effect::Delete => return,
    };
    let contract = &ctx.config.contract;
    let failed = answer
        .clone()
        .err()
        .map(|failure| FailedCall::new(call, failure, contract));
    let with = learning(ctx, entry, workspace);
    entry.with(|state| state.run.call_answered(call, answer, with));
    // Afterwards: policy uses the memory to decide on the capacity freed here.
    permit.ended(Capacity::after(failed.as_ref()));
    if let Some(failed) = failed {
        log_failure(entry, effect, &failed.failure);
        ctx.suspect(key, session.number, &failed);
    }
}

async fn create(session: &ClientSession, key: &str, body: &[u8]) -> Result<RunView, Failure> {
    let key = IdempotencyKey::parse(key).map_err(|error| not_sent(&error))?;
    let body = Bytes::copy_from_slice(body);
    session
        .client
        .create_run(&session.credentials, &key, body)
        .await
}

async fn with_run(
    run_id: &str,
    call: impl AsyncFnOnce(&RunId) -> Result<RunView, Failure>,
) -> Result<RunView, Failure> {
    let run_id = RunId::parse(run_id).map_err(|error| not_sent(&error))?;
    call(&run_id).await
}

fn not_sent(error: &dyn std::error::Error) -> Failure {
    Failure::new(FailureKind::NotSent, error.to_string())
}

fn log_failure(entry: &RunEntry, effect: &Effect, failure: &Failure) {
    tracing::warn!(
        k8s.namespace.name = %entry.namespace,
        run.name = %entry.name,
        run.uid = %entry.uid,
        call = effect.name(),
        http.status = failure.http_status,
        code = failure.code.as_deref(),
        request.id = failure.request_id.as_deref(),
        error = %failure.message,
        "a call to the service failed"
    );
}
