//! The reconcile of a Run: from the watched object to the time of the next reconcile.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::ResourceExt;

use crate::api::Run;
use crate::clock::{until, wall};
use crate::controller::{
    apiserver::{
        BadObject,
        patch::WriteError,
        reconciled::{Action, Failed, ReconcileError, Reconciled, caught},
        scope::Scope,
    },
    context::Context,
    state::{
        call_limiter::CallPermit,
        run_store::Known,
        runs::{RunEntry, State},
    },
    undecodable,
};
use crate::decide::backoff;

use super::{
    garbage_collector,
    live_read::{self, Found},
    pass::{Pass, PassResult},
    settled,
};

/// Pause after a first conflict; usually the watch delivers the newer object earlier. If it doesn't, pauses grow up to
/// `AFTER_REFUSAL`.
const AFTER_CONFLICT: Duration = Duration::from_millis(500);
/// Number of conflicts in a row from which the object is read live.
const CONFLICTS: u32 = 2;
/// Pause after the API server refused a write.
const AFTER_REFUSAL: Duration = Duration::from_mins(1);

/// Reconciles one object.
pub async fn reconcile(known: Known, ctx: Arc<Context>) -> Reconciled {
    let run = match known {
        Known::Active(run) => run,
        // 1. An object that can't be decoded is not reconciled until it changes; its status shows that.
        Known::Bad(bad) => return show_undecodable(&ctx, &bad).await,
        // It was requested before its end.
        Known::Ended(_) => return Ok(Action::await_change()),
        Known::Gone(run) => return Ok(garbage_collector::collect(&ctx, &run)),
    };
    // 2. The newest version that this process knows: its own last write may be ahead of the watch.
    loop {
        let entry = ctx.tracked_runs.entry(&run);
        // 3. One operation at a time: a call in flight requests a reconcile at its end.
        match entry.with(|state| admit(state, Arc::clone(&run))) {
            Admission::Begin(run) => return run_passes(&ctx, &entry, run, None).await,
            Admission::Deleted => return Ok(garbage_collector::clean_up_after(&ctx, &entry)),
            Admission::LeftAlone => {
                entry.stop_waiting();
                return Ok(Action::await_change());
            }
            Admission::Busy => return Ok(Action::await_change()),
            // The table has another entry by now.
            Admission::Retired => {}
        }
    }
}

/// Result of asking to begin a reconcile.
enum Admission {
    /// It begins, with this version.
    Begin(Arc<Run>),
    /// The API server reports the object as deleted; the watch still has to show that.
    Deleted,
    /// None begins until the object changes.
    LeftAlone,
    /// Something is in flight, which requests another reconcile at its end.
    Busy,
    /// The Run is no longer tracked by this entry.
    Retired,
}

fn admit(state: &mut State, seen: Arc<Run>) -> Admission {
    if state.retired {
        return Admission::Retired;
    }
    if state.run.deleted() {
        return Admission::Deleted;
    }
    let panicked = state.quarantined.is_some() && state.quarantined == seen.resource_version();
    if panicked || !state.run.reconcilable() {
        return Admission::LeftAlone;
    }
    match state.run.begin_reconcile_of(seen) {
        Some(newest) => Admission::Begin(newest),
        None => Admission::Busy,
    }
}

/// Runs passes until nothing is left to do now. A further pass follows if a permit was granted or a reconcile was
/// requested meanwhile.
pub(crate) async fn run_passes(
    ctx: &Arc<Context>,
    entry: &Arc<RunEntry>,
    mut run: Arc<Run>,
    mut permit: Option<CallPermit>,
) -> Reconciled {
    loop {
        let ended = one_pass(ctx, entry, run, permit).await;
        let next = entry.with(|state| {
            let asked = state.run.end_reconcile();
            let granted = state.granted.take();
            let wanted = asked.is_some() || granted.is_some();
            let panicked = ended.as_ref().is_err_and(Failed::panicked);
            let begins = wanted && !panicked && state.run.reconcilable();
            let seen = asked.or_else(|| state.run.latest().cloned());
            let begun = seen.filter(|_| begins);
            let begun = begun.and_then(|seen| state.run.begin_reconcile_of(seen));
            (begun, granted)
        });
        let (Some(latest), granted) = next else {
            if !settled::at_rest(ctx, entry) {
                return ended;
            }
            // The TTL of a settled Run needs no reconcile.
            return ended.map(|_| Action::await_change());
        };
        (run, permit) = (latest, granted);
    }
}

/// One pass.
async fn one_pass(
    ctx: &Arc<Context>,
    entry: &Arc<RunEntry>,
    run: Arc<Run>,
    permit: Option<CallPermit>,
) -> Reconciled {
    let version = run.resource_version();
    let pass = async { Pass::new(ctx, entry, run, permit).run().await };
    match alone(entry, version, pass).await? {
        Ok(PassResult::Call) => Ok(Action::await_change()),
        Ok(PassResult::Until(again)) => {
            entry.stop_waiting();
            Ok(again.map_or(Action::await_change(), |at| Action::requeue(until(at))))
        }
        Ok(PassResult::Released) => {
            entry.stop_waiting();
            Ok(Action::await_change())
        }
        Err(error @ (WriteError::Conflict | WriteError::Gone)) => {
            let pause = after_conflict(ctx, entry, &error).await;
            Err(ReconcileError::Write(error).again(Action::requeue(pause)))
        }
        Err(error) => {
            let pause = after_write_error(entry, &error);
            Err(ReconcileError::Write(error).again(Action::requeue(pause)))
        }
    }
}

/// Carries out a pass over this version. After a panic only this Run is no longer reconciled, until it changes.
fn alone<T>(
    entry: &RunEntry,
    version: Option<String>,
    pass: impl Future<Output = T>,
) -> impl Future<Output = Result<T, Failed>> {
    let left_alone = move |panicked: ReconcileError| {
        entry.stop_waiting();
        entry.with(|state| state.quarantined = version);
        panicked.again(Action::await_change())
    };
    caught(pass).map(|ended| ended.map_err(left_alone))
}

/// Writes the outcome of the last call after the loops have ended. No new effect begins.
pub(crate) async fn write_outcome(ctx: Arc<Context>, entry: Arc<RunEntry>) {
    let due = entry.with(|state| state.run.unprocessed());
    let stored = ctx.runs.get(&entry.uid);
    if let Some(Known::Active(run)) = stored.filter(|_| due)
        && let Admission::Begin(run) = entry.with(|state| admit(state, run))
        && let Err(failed) = run_passes(&ctx, &entry, run, None).await
    {
        failed.log("Run", Some(&entry.namespace), &entry.name);
    }
}

/// Skips a Run that can't be decoded until it changes, and shows that in its status. Its stream is closed, since
/// its events can't be processed.
async fn show_undecodable(ctx: &Context, bad: &BadObject) -> Reconciled {
    let meta = &bad.metadata;
    if let Some(entry) = meta
        .uid
        .as_deref()
        .and_then(|uid| ctx.tracked_runs.get(uid))
    {
        entry.stop_waiting();
        entry.close_stream();
    }
    let namespace = meta.namespace.clone().unwrap_or_default();
    let api = Scope::Namespace(namespace).api::<Run>(ctx.client.clone());
    let generation = meta.generation.unwrap_or_default();
    let describe =
        |status, what: &str| crate::decide::undecodable::run(status, what, generation, wall());
    undecodable::show(ctx, &api, bad, describe).await
}

/// Handles a write that met another version of the object, or none: the watch is behind. Usually it catches up at once;
/// if it doesn't, the object is read live. Returns the pause before the next reconcile.
async fn after_conflict(ctx: &Context, entry: &RunEntry, error: &WriteError) -> Duration {
    let conflicts = entry.with(|state| {
        state.conflicts = state.conflicts.saturating_add(1);
        state.conflicts
    });
    if matches!(error, WriteError::Gone) || conflicts >= CONFLICTS {
        match live_read::read(ctx, entry).await {
            Found::Exists(Some(run)) => drop(entry.observe(run)),
            // The garbage collector handles the rest.
            Found::Deleted => entry.with(|state| state.run.confirm_deleted()),
            Found::Exists(None) | Found::Unknown => {}
        }
    }
    match conflicts {
        1 => AFTER_CONFLICT,
        n => backoff::delay(n, None, backoff::seed(&entry.uid, n)).min(AFTER_REFUSAL),
    }
}

/// Pause after a write that failed or was refused.
fn after_write_error(entry: &RunEntry, error: &WriteError) -> Duration {
    let failures = entry.with(|state| {
        state.write_failures = state.write_failures.saturating_add(1);
        state.write_failures
    });
    match error {
        WriteError::Failed(_) | WriteError::Timeout => {
            backoff::delay(failures, None, backoff::seed(&entry.uid, failures))
        }
        _ => AFTER_REFUSAL,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::state::runs::TrackedRuns;

    fn seen(version: &str) -> Arc<Run> {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": "odd", "namespace": "team", "uid": "u", "resourceVersion": version},
            "spec": {"workload": {"image": "i"}},
        });
        Arc::new(serde_json::from_value(run).unwrap())
    }

    /// Proves: F-undecodable
    #[tokio::test]
    async fn a_run_whose_pass_panics_is_left_alone_until_it_changes() {
        let entry = TrackedRuns::default().entry(&seen("1"));
        let admitted = |version| entry.with(|state| admit(state, seen(version)));
        assert!(matches!(admitted("1"), Admission::Begin(_)));
        let pass = alone::<()>(&entry, Some("1".to_owned()), async {
            panic!("the test's own")
        });
        let failed = pass.await.unwrap_err();
        assert!(failed.panicked());
        assert_eq!(failed.again, Action::await_change());
        entry.with(|state| state.run.end_reconcile());
        assert!(matches!(admitted("1"), Admission::LeftAlone));
        assert!(matches!(admitted("2"), Admission::Begin(_)));
    }
}
