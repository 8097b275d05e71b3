//! Changes one Run's object, and reads it live where a write found another version or none.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Resource};

use crate::api::{ConditionType, Run, RunStatus, WorkspaceKey, conditions::find};
use crate::clock::now;
use crate::controller::{
    apiserver::{
        self, Maybe, ObjectVersion,
        patch::{self, WriteError},
    },
    context::Context,
    refused::Refused,
    state::{runs::RunEntry, workspaces::WorkspaceState},
};
use crate::decide::{
    Choice, Effect, RefusedWrite,
    claims::begins_submission,
    delays,
    milestones::Milestones,
    turn::{Outcome, Step, Turn},
};
use crate::util::error_chain;

/// Usually the watch delivers the newer object earlier. If it doesn't, pauses grow up to `AFTER_REFUSAL`.
const AFTER_CONFLICT: Duration = Duration::from_millis(500);
/// Number of conflicts in a row from which the object is read live.
const CONFLICTS: u32 = 2;

const TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) enum Found {
    /// The object exists; perhaps it can't be decoded.
    Exists,
    /// No object, or another with the same name: this one never comes back.
    Deleted,
    Unknown,
}

pub(crate) struct Decided {
    pub(crate) run: Arc<Run>,
    pub(crate) choice: Choice,
    pub(crate) key: WorkspaceKey,
    /// It had a slot of that Workspace when it was decided.
    pub(crate) had_slot: bool,
    pub(crate) workspace: Arc<WorkspaceState>,
    pub(crate) turn: Turn,
}

fn api(ctx: &Context, entry: &RunEntry) -> Api<Run> {
    Api::namespaced(ctx.client.clone(), &entry.namespace)
}

fn took(ctx: &Context, entry: &RunEntry, decided: &Decided, outcome: Outcome<Run>) {
    let session = decided.workspace.session.as_ref();
    let session = session.map_or(0, |session| session.number);
    let with = entry.report_context(&ctx.config.contract, session);
    entry.took(&decided.turn.step, outcome, with);
}

/// False if it was not written: policy decides again.
pub(crate) async fn write_status(
    ctx: &Context,
    entry: &RunEntry,
    decided: &Decided,
    status: &RunStatus,
) -> Result<bool, WriteError> {
    match patch::write_status(&api(ctx, entry), &decided.run, status).await {
        Ok(written) => {
            measure(ctx, entry, &decided.run, &written);
            took(ctx, entry, decided, Outcome::Written(written));
            Ok(true)
        }
        Err(error) => {
            let ready = find(&status.conditions, ConditionType::Ready);
            refused(ctx, entry, decided, error, ready)
        }
    }
}

/// Takes in a version that was read: it may be the first to show a write whose answer was lost.
pub(crate) fn observe(ctx: &Context, entry: &RunEntry, seen: Arc<Run>) {
    let before = entry.with(|state| state.run.latest().cloned());
    let newest = entry.observe(seen);
    if let Some(before) = before {
        measure(ctx, entry, &before, &newest);
    }
}

/// Counts what `after` is the first version to show.
fn measure(ctx: &Context, entry: &RunEntry, before: &Run, after: &Run) {
    let new = entry.with(|state| Milestones::between(before, after, &state.run.memory, now()));
    ctx.metrics.reached(&entry.namespace, &new);
}

/// Records and tells that the API server refuses a write, and that it was not written; any other error is returned.
fn refused(
    ctx: &Context,
    entry: &RunEntry,
    decided: &Decided,
    error: WriteError,
    condition: Option<&Condition>,
) -> Result<bool, WriteError> {
    let session = decided.workspace.session.as_ref();
    let writes = decided.turn.step.writes().unwrap_or_default();
    let refused = Refused {
        writes,
        error: &error,
        times: entry.with(|state| state.write_failures.saturating_add(1)),
        condition,
        client: session.map(|session| &session.client),
    };
    let Some(sentence) = refused.tell(ctx, &*decided.run) else {
        return Err(error);
    };
    tracing::warn!(
        k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
        writes, error = %sentence,
        "the API server refuses a write of a Run; the write is tried again"
    );
    let pause = pause(entry, &error, count_failure(entry, &error));
    let again = delays::later(now(), pause);
    let refused = Outcome::Refused(RefusedWrite { sentence, again });
    took(ctx, entry, decided, refused);
    Ok(false)
}

/// False if it was not written: policy decides again.
pub(crate) async fn change(
    ctx: &Context,
    entry: &RunEntry,
    decided: &Decided,
    effect: &Effect,
) -> Result<bool, WriteError> {
    let (run, api) = (&decided.run, api(ctx, entry));
    // A Workspace about to be deleted permits no submission; the next decision shows that.
    let place = decided.workspace.view.place();
    let begins = begins_submission(effect, run, place.map(|place| &*place.base_url));
    let permit = begins.then(|| ctx.workspaces.begin_submission(&decided.key));
    if matches!(permit, Some(None)) {
        return Ok(false);
    }
    let change = effect.metadata_change(run).map_err(WriteError::Serialize)?;
    let claims = effect.claims_key();
    if claims && !ctx.keys.claim(run) {
        return Ok(false);
    }
    let written = match change {
        Some(change) => patch::write_metadata(&api, &**run, &change)
            .await
            .map(Outcome::Written),
        None => match patch::delete(&api, &ObjectVersion::of(&run.metadata)).await {
            Ok(()) | Err(WriteError::Gone) => Ok(Outcome::Removed),
            Err(error) => Err(error),
        },
    };
    // A claim without an intent would block other Runs. After a write without an answer the intent may be stored. So it
    // may after a conflict: the write may have been sent twice on the way and have met its own first copy.
    let unwritten = written.as_ref().is_err_and(WriteError::not_written);
    if claims && unwritten {
        ctx.keys.unclaim(&entry.uid);
    }
    if matches!(effect, Effect::WriteIntent { .. }) && written.is_err() && !unwritten {
        entry.with(|state| state.run.intent_unheard());
    }
    let error = match written {
        Ok(outcome) => {
            took(ctx, entry, decided, outcome);
            return Ok(true);
        }
        Err(error) => error,
    };
    if matches!(error, WriteError::Gone) {
        took(ctx, entry, decided, Outcome::Gone);
    }
    refused(ctx, entry, decided, error, None)
}

pub(crate) async fn read_live(ctx: &Context, entry: &RunEntry) -> Found {
    let found = match apiserver::read_named(&api(ctx, entry), &entry.name, TIMEOUT).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                error = %error_chain(&error), "failed to read a Run live"
            );
            return Found::Unknown;
        }
    };
    let this = |run: &Maybe<Run>| run.meta().uid.as_deref() == Some(&entry.uid);
    if let Some(found) = found.filter(this) {
        if let Some(run) = found.good() {
            observe(ctx, entry, Arc::clone(run));
        }
        return Found::Exists;
    }
    let new = !entry.with(|state| state.run.deleted());
    let with = entry.report_context(&ctx.config.contract, 0);
    entry.took(&Step::ReadLive, Outcome::Gone, with);
    entry.close_stream();
    if new && entry.with(|state| state.run.owes()) {
        ctx.metrics.vanished.inc();
        tracing::warn!(
            k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
            "a Run was deleted without having been released; cancelling its run"
        );
    }
    Found::Deleted
}

/// If the watch doesn't catch up after a conflict, the object is read live. Returns the pause before the next reconcile.
pub(crate) async fn failed(ctx: &Context, entry: &RunEntry, error: &WriteError) -> Duration {
    let n = count_failure(entry, error);
    if matches!(error, WriteError::Gone) || is_conflict(error) && n >= CONFLICTS {
        read_live(ctx, entry).await;
    }
    pause(entry, error, n)
}

fn is_conflict(error: &WriteError) -> bool {
    matches!(error, WriteError::Conflict | WriteError::Gone)
}

/// Returns how many of its kind there were in a row.
fn count_failure(entry: &RunEntry, error: &WriteError) -> u32 {
    entry.with(|state| {
        let counter = if is_conflict(error) {
            &mut state.conflicts
        } else {
            &mut state.write_failures
        };
        *counter = counter.saturating_add(1);
        *counter
    })
}

fn pause(entry: &RunEntry, error: &WriteError, n: u32) -> Duration {
    let delay = || delays::backoff(n, None, delays::seed(&entry.uid, n));
    match error {
        WriteError::Conflict | WriteError::Gone if n == 1 => AFTER_CONFLICT,
        WriteError::Conflict | WriteError::Gone => delay().min(delays::AFTER_REFUSAL),
        WriteError::Failed(_) | WriteError::Timeout => delay(),
        WriteError::Refused(_) | WriteError::Serialize(_) => delays::AFTER_REFUSAL,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::{apiserver::loopback, state::runs::TrackedRuns};

    fn seen(version: &str, phase: &str) -> Arc<Run> {
        let run = json!({
            "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": version},
            "spec": {"workload": {"image": "i"}},
            "status": {"phase": phase},
        });
        Arc::new(serde_json::from_value(run).unwrap())
    }

    /// Proves: P-metrics
    #[tokio::test]
    async fn an_end_that_only_the_watch_shows_counts_once_and_one_that_a_start_finds_does_not() {
        let ctx = Context::idle(loopback(Vec::new()));
        let counted = |times: u8| {
            let name = "run_operator_runs_finished_total";
            let line = format!(r#"{name}{{outcome="Failed",reason="Failed"}} {times}"#);
            let text = ctx.metrics.encode().unwrap();
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        };
        let (before, after) = (TrackedRuns::default(), TrackedRuns::default());
        let first = before.entry(&seen("1", "Active"));
        observe(&ctx, &first, seen("1", "Active"));
        counted(0);
        for version in ["2", "3", "2"] {
            observe(&ctx, &first, seen(version, "Failed"));
        }
        counted(1);
        let restarted = after.entry(&seen("3", "Failed"));
        for version in ["3", "4"] {
            observe(&ctx, &restarted, seen(version, "Failed"));
        }
        counted(1);
    }
}
