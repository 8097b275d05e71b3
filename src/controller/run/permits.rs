//! Handles the events of call tasks: a granted permit, with which the Run is decided again; and at shutdown the end of
//! a call, whose outcome no loop would write.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::controller::{
    apiserver::reconciled::counted,
    context::Context,
    state::{
        call_limiter::CallPermit,
        runs::{CallEvent, RunEntry},
    },
};
use crate::decide::tracked_run::{Activity, Presence};

use super::{calls::enqueue, reconcile};

/// Serves until it is aborted. Each event is handled in a task that counts as a call.
pub(crate) async fn serve(ctx: Arc<Context>, mut events: UnboundedReceiver<CallEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            CallEvent::Granted { entry, permit } => {
                ctx.calls.spawn(granted(Arc::clone(&ctx), entry, permit));
            }
            CallEvent::Ended { entry, counted } => {
                let written = reconcile::write_outcome(Arc::clone(&ctx), entry);
                ctx.calls.spawn(async move {
                    written.await;
                    drop(counted);
                });
            }
        }
    }
}

/// Decides the Run again with the granted permit. A reconcile in flight takes the permit over.
async fn granted(ctx: Arc<Context>, entry: Arc<RunEntry>, permit: CallPermit) {
    let mut permit = Some(permit);
    let (waited, begun) = entry.with(|state| {
        let waited = state.waiting.take();
        let cancelling = state.run.presence() == Presence::Cancelling;
        if cancelling || state.run.activity() == Activity::Reconcile {
            state.granted = permit.take();
        }
        let run = state.run.latest().cloned();
        let begins = permit.is_some() && state.run.reconcilable() && !state.retired;
        (
            waited,
            run.filter(|_| begins && state.run.begin_reconcile()),
        )
    });
    drop(waited);
    match begun {
        Some(run) => {
            let result = reconcile::run_passes(&ctx, &entry, run, permit).await;
            if let Err(failed) = &result {
                ctx.metrics.failed("run", counted(&result));
                failed.log("Run", Some(&entry.namespace), &entry.name);
                if failed.panicked() {
                    return;
                }
            }
            if entry.with(|state| state.run.activity() == Activity::Call) {
                return;
            }
            // The loop must schedule the next reconcile; after an error not before the pause.
            let pause = result.err().and_then(|failed| failed.again.pause());
            tokio::select! {
                () = sleep(pause.unwrap_or_default()) => {}
                () = ctx.shutdown.cancelled() => return,
            }
            enqueue(&ctx, &entry);
        }
        None => entry.changed.notify_one(),
    }
}
