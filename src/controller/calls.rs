//! The calls to the service, each a task of its own: a service that hangs holds up no other object, and
//! no other Workspace.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use kube::ResourceExt;

use crate::api::Run;
use crate::decide::{
    Effect, Learned,
    answer::{Failure, FailureKind, RunView},
};
use crate::service::{CallError, IdempotencyKey, RunId};

use super::{
    context::Context,
    gate::Permit,
    objects::{Doing, Entry},
    reaper,
    reconcile::{self, learn},
    registry::{Key, Live, Slot},
    window::Outcome,
    writes,
};

/// Objects that are written at the same time at shutdown.
const LAST_WRITES: usize = 16;

/// Makes the call that `effect` asks for, as soon as the Workspace's gate allows it. The object is woken
/// when the outcome is known, or when it is its turn.
pub(super) fn start(
    ctx: &Arc<Context>,
    entry: &Arc<Entry>,
    run: &Run,
    key: &Key,
    slot: &Slot,
    effect: &Effect,
) {
    let Some(gate) = slot.live.as_ref().map(|live| &live.gate) else {
        return;
    };
    let before = entry.with(|state| state.queued_at.take());
    if let Some(other) = before.filter(|before| !Arc::ptr_eq(before, gate)) {
        other.pass(&entry.uid);
    }
    let Some(permit) = gate.enter(&entry.caller()) else {
        entry.with(|state| state.queued_at = Some(Arc::clone(gate)));
        return;
    };
    entry.with(|state| state.doing = Doing::Call);
    let task = Task {
        ctx: Arc::clone(ctx),
        entry: Arc::clone(entry),
        version: run.resource_version(),
        key: key.clone(),
        slot: slot.clone(),
        effect: effect.clone(),
    };
    ctx.calls.spawn(task.run(permit));
}

/// Waits for the calls under way, and writes what they and those before them taught.
pub(super) async fn end(ctx: &Arc<Context>) {
    ctx.calls.close();
    let entries = ctx.objects.all();
    let learnt = entries
        .into_iter()
        .filter(|entry| entry.with(|state| state.learnt && state.doing == Doing::Nothing));
    let written = stream::iter(learnt)
        .map(|entry| reconcile::settle(Arc::clone(ctx), entry))
        .buffer_unordered(LAST_WRITES)
        .collect::<Vec<()>>();
    tokio::join!(written, ctx.calls.wait());
}

/// One call.
struct Task {
    ctx: Arc<Context>,
    entry: Arc<Entry>,
    /// The resourceVersion that was decided on.
    version: Option<String>,
    key: Key,
    slot: Slot,
    effect: Effect,
}

impl Task {
    async fn run(self, permit: Permit) {
        let Self {
            ctx, entry, slot, ..
        } = &self;
        if !ctx.may_begin() {
            entry.with(|state| state.doing = Doing::Nothing);
            return;
        }
        let made = call(ctx, entry, &self.key, slot, &self.effect, permit);
        if AssertUnwindSafe(made).catch_unwind().await.is_err() {
            ctx.metrics.panicked("run");
            entry.with(|state| state.quarantined.clone_from(&self.version));
            tracing::error!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                "a call panicked; the object is left alone until it changes"
            );
        }
        entry.with(|state| {
            state.doing = Doing::Nothing;
            state.learnt = true;
        });
        if ctx.shutdown.is_cancelled() {
            // The loop serves nobody any more.
            reconcile::settle(Arc::clone(ctx), Arc::clone(entry)).await;
            return;
        }
        ctx.runs.wake(&entry.namespace, &entry.name);
        if !reaper::present(ctx, entry) {
            ctx.absent.tell(&entry.uid);
        }
    }
}

/// Makes one call to the service, tells the gate and memory what it came to, and raises a suspicion about
/// the Workspace where the answer calls for it.
pub(super) async fn call(
    ctx: &Context,
    entry: &Entry,
    key: &Key,
    slot: &Slot,
    effect: &Effect,
    permit: Permit,
) {
    let Some(live) = &slot.live else {
        return;
    };
    let (news, answer) = match effect {
        Effect::Submit { key, body } => {
            learn(ctx, entry, slot, Learned::SubmitStarted);
            let answer = create(live, key, body).await;
            (Learned::Submitted(answer.clone()), answer)
        }
        Effect::Refresh { run_id } => {
            learn(ctx, entry, slot, Learned::RefreshStarted);
            let answer = with_run(run_id, async |id| {
                live.client.get_run(&live.credentials, id).await
            })
            .await;
            (Learned::Refreshed(answer.clone()), answer)
        }
        Effect::Cancel { run_id } => {
            let answer = with_run(run_id, async |id| {
                live.client.cancel_run(&live.credentials, id).await
            })
            .await;
            (Learned::CancelAnswered(answer.clone()), answer)
        }
        Effect::WriteIntent { .. } | Effect::Release { .. } | Effect::Delete => return,
    };
    learn(ctx, entry, slot, news);
    // What memory holds now decides what is done with the room that this makes.
    permit.ended(Outcome::of(answer.as_ref()));
    if let Err(failure) = answer {
        failed(ctx, entry, key, live, effect, &failure);
    }
}

async fn create(live: &Live, key: &str, body: &[u8]) -> Result<RunView, Failure> {
    let key = IdempotencyKey::parse(key).map_err(|error| not_sent(&error))?;
    let body = Bytes::copy_from_slice(body);
    live.client
        .create_run(&live.credentials, &key, body)
        .await
        .map_err(|error| Failure::from(&error))
}

async fn with_run(
    run_id: &str,
    call: impl AsyncFnOnce(&RunId) -> Result<RunView, CallError>,
) -> Result<RunView, Failure> {
    let run_id = RunId::parse(run_id).map_err(|error| not_sent(&error))?;
    call(&run_id).await.map_err(|error| Failure::from(&error))
}

fn not_sent(error: &dyn std::error::Error) -> Failure {
    Failure {
        kind: FailureKind::NotSent,
        http_status: None,
        code: None,
        request_id: None,
        retryable: None,
        retry_after: None,
        message: error.to_string(),
    }
}

fn failed(
    ctx: &Context,
    entry: &Entry,
    key: &Key,
    live: &Live,
    effect: &Effect,
    failure: &Failure,
) {
    tracing::warn!(
        k8s.namespace.name = %entry.namespace,
        run.name = %entry.name,
        run.uid = %entry.uid,
        call = writes::effect_name(effect),
        http.status = failure.http_status,
        code = failure.code.as_deref(),
        request.id = failure.request_id.as_deref(),
        error = %failure.message,
        "a call to the service failed"
    );
    ctx.suspect(key, live.number, failure);
}
