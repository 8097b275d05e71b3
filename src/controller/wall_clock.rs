//! Steps of the wall clock. Deadlines and TTLs are stored as wall clock times but awaited by process time. A forward
//! step makes them due before the wait ends.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use crate::clock::{Steps, now, wall};

use super::context::Context;

/// Interval at which the two clocks are compared: a step is detected within this time, at no cost for each Run.
const COMPARE_EVERY: Duration = Duration::from_secs(5);

/// Compares the clocks until shutdown.
pub(crate) async fn run(ctx: Arc<Context>) {
    let mut steps = Steps::new(now(), wall());
    loop {
        tokio::select! {
            () = tokio::time::sleep(COMPARE_EVERY) => {}
            () = ctx.shutdown.cancelled() => return,
        }
        let Some(step) = steps.taken(now(), wall()) else {
            continue;
        };
        tracing::warn!(
            seconds = step.as_secs(),
            "the wall clock has stepped; deadlines, TTLs and key retention follow it"
        );
        // After a step back, deadlines come later: the Runs are only enqueued too early.
        if step > SignedDuration::ZERO {
            enqueue_waiting(&ctx);
        }
    }
}

/// Enqueues the Runs that may wait for a time of the wall clock.
fn enqueue_waiting(ctx: &Context) {
    for object in ctx.run_caches.iter().flat_map(|c| c.reader().state()) {
        let Some(run) = object.good() else { continue };
        if run.ended() && run.spec.ttl_seconds_after_finished.is_none() {
            continue;
        }
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        ctx.run_trigger
            .enqueue(namespace, run.metadata.name.as_deref().unwrap_or_default());
    }
}
