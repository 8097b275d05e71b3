//! The end of the loops: writes the outcomes of the last calls.

use std::sync::Arc;

use futures::{StreamExt, stream};

use crate::controller::context::Context;
use crate::decide::tracked_run::Activity;

use super::reconcile;

/// Objects written at the same time at shutdown.
const LAST_WRITES: usize = 16;

/// Waits for the calls in flight, and writes the outcomes that no reconcile has written.
pub(crate) async fn end(ctx: &Arc<Context>) {
    ctx.calls.close();
    let entries = ctx.tracked_runs.all();
    let learnt = entries.into_iter().filter(|entry| {
        entry.with(|state| state.run.unprocessed() && state.run.activity() == Activity::Idle)
    });
    let written = stream::iter(learnt)
        .map(|entry| reconcile::write_outcome(Arc::clone(ctx), entry))
        .buffer_unordered(LAST_WRITES)
        .collect::<Vec<()>>();
    tokio::join!(written, ctx.calls.wait());
}
