//! The reconcile of a Run: newest version → facts → decision → status or effect → again, until nothing is left to do now.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use kube::{Api, ResourceExt};

use crate::api::{EventReason, Run, RunStatus, WorkspaceKey, workspace::RunLimits};
use crate::clock::{now, until, wall};
use crate::controller::{
    apiserver::{
        BadObject,
        patch::WriteError,
        reconciler::{Action, Failed, ReconcileError, Reconciled, caught},
    },
    context::Context,
    enqueue, leader,
    state::{
        call_limiter::CallPermit, run_store::Known, runs::RunEntry, workspaces::WorkspaceState,
    },
    undecodable,
    workspace::kind,
};
use crate::decide::{
    self, CallDelay, Choice, Effect, EventDraft, Inputs, WorkspaceView, choice, failure::Call,
    queue::Claim, turn::Step,
};

use super::{
    calls::Task,
    settled, streams,
    writes::{self, Decided, Found},
};

/// A Run's whole life takes fewer turns; more means that two parts of the policy disagree, and a pause avoids a loop.
const TURNS: usize = 24;
const AFTER_LIMIT: Duration = Duration::from_mins(1);
/// Pause before a Run that the watch lacks, but that exists, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Longest pause between turns for a deleted object, and so the delay before a Workspace that is Ready again is used.
const PAUSE: Duration = Duration::from_secs(5);
const LAST_WRITES: usize = 16;

/// Reconciles one Run. The queue begins no second reconcile of it meanwhile.
pub async fn reconcile(known: Known, ctx: Arc<Context>) -> Reconciled {
    let [uid, ..] = known.identity();
    let entry = match &known {
        // An object that can't be decoded is not reconciled until it changes; its status shows that.
        Known::Bad(bad) => return show_undecodable(&ctx, bad).await,
        Known::Active(run) => Some(ctx.tracked_runs.entry(run)),
        Known::Ended(_) | Known::Gone(_) => ctx.tracked_runs.get(uid),
    };
    let Some(entry) = entry else {
        forget(&ctx, uid);
        return Ok(Action::await_change());
    };
    // The end of a call requests a reconcile. Its answer may be older than this version.
    if entry.with(|state| state.run.calling()) {
        return Ok(Action::await_change());
    }
    let mut version = None;
    if let Known::Active(run) = known {
        version = run.resource_version();
        if left_alone(&entry, version.as_ref()) {
            return Ok(Action::await_change());
        }
    }
    let turns = Reconcile {
        ctx: &ctx,
        entry: &entry,
        permit: None,
        written: None,
        seen: None,
    };
    let turned = alone(&entry, version, turns.run()).await;
    // After a panic.
    match turned.inspect_err(|_| ctx.slots(|queues| queues.pass(&entry.uid)))? {
        Ok(again) => Ok(again),
        Err(error) => {
            let pause = writes::failed(&ctx, &entry, &error).await;
            Err(ReconcileError::Write(error).again(Action::requeue(pause)))
        }
    }
}

/// Whether the reconcile of this version panicked.
fn left_alone(entry: &RunEntry, version: Option<&String>) -> bool {
    let panicked = entry.with(|state| {
        let panicked = state.panicked_at_version.as_ref();
        panicked.is_some() && panicked == version
    });
    if panicked {
        entry.stop_waiting();
    }
    panicked
}

/// After a panic only this Run is left alone, until it changes; one whose object is gone is tried again.
fn alone<T>(
    entry: &RunEntry,
    version: Option<String>,
    turns: impl Future<Output = T>,
) -> impl Future<Output = Result<T, Failed>> {
    let left_alone = move |panicked: ReconcileError| {
        entry.stop_waiting();
        let again = match version {
            Some(_) => Action::await_change(),
            None => Action::requeue(PAUSE),
        };
        entry.with(|state| state.panicked_at_version = version);
        panicked.again(again)
    };
    caught(turns).map(|ended| ended.map_err(left_alone))
}

/// State that the turns of a reconcile share.
struct Reconcile<'a> {
    ctx: &'a Arc<Context>,
    entry: &'a Arc<RunEntry>,
    /// The permit that a call waited for. Dropped, it is given back.
    permit: Option<CallPermit>,
    written: Option<RunStatus>,
    seen: Option<Arc<Run>>,
}

impl Reconcile<'_> {
    async fn run(mut self) -> Result<Action, WriteError> {
        for _ in 0..TURNS {
            if let Some(again) = self.turn().await? {
                return Ok(again);
            }
        }
        let entry = self.entry;
        tracing::error!(
            k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
            steps = TURNS, "step limit reached; requeueing"
        );
        Ok(Action::requeue(AFTER_LIMIT))
    }

    /// One turn. `None`: another follows at once.
    async fn turn(&mut self) -> Result<Option<Action>, WriteError> {
        let (ctx, entry) = (self.ctx, self.entry);
        // 1. A process that doesn't lead changes nothing. At shutdown, outcomes are still written.
        if !ctx.leading.holds() {
            return Ok(Some(Action::requeue(leader::AGAIN)));
        }
        // 2. Decide, by the newest version of the object and the present state of all else.
        let Some(decided) = self.decide() else {
            return Ok(Some(Action::await_change()));
        };
        if self.claims_slot(&decided) {
            return Ok(None);
        }
        let step = &decided.turn.step;
        // 3. Open or close the event stream, and publish the Events of what the status shows.
        streams::follow(ctx, entry, &decided);
        if !matches!(step, Step::WriteStatus { .. }) {
            self.publish(&decided.turn.events);
        }
        // 4. One write, one read, or a call that begins or waits for its place.
        if matches!(step, Step::ReadLive | Step::Act(_)) && !ctx.may_begin() {
            return Ok(Some(Action::requeue(leader::AGAIN)));
        }
        match step {
            Step::WriteStatus { status, .. } => {
                if !writes::write_status(ctx, entry, &decided, status).await? {
                    return Ok(None);
                }
                self.written = Some(RunStatus::clone(status));
                self.publish(&decided.turn.events);
                log_status(entry, status);
            }
            Step::Act(effect) => {
                tracing::debug!(run.uid = %entry.uid, effect = effect.name(), "acting");
                if let Some(call) = effect.call() {
                    let effect = effect.clone();
                    return Ok(Some(self.call(decided, call, effect)));
                }
                let written = writes::change(ctx, entry, &decided, effect).await?;
                if written && *effect == Effect::Delete {
                    return Ok(Some(self.rest(&decided.run, None)));
                }
            }
            Step::ReadLive => return Ok(self.read_live().await),
            Step::Forget if forget(ctx, &entry.uid) => return Ok(Some(Action::await_change())),
            // The watch shows it again.
            Step::Forget => {}
            Step::Rest(at) => return Ok(Some(self.rest(&decided.run, *at))),
        }
        Ok(None)
    }

    /// The next step. `None`: no more is done for what the store has now.
    fn decide(&mut self) -> Option<Decided> {
        let (ctx, entry) = (self.ctx, self.entry);
        let lacking = self.lacking()?;
        let run = entry.with(|state| state.run.latest().cloned())?;
        let choice = self.choice(&run);
        let key = choice.key(&entry.namespace);
        let workspace = match &choice {
            Choice::One(_) => ctx.workspace_state(&key),
            Choice::Several(_) | Choice::None => {
                Arc::new(WorkspaceState::closed(WorkspaceView::Missing))
            }
            Choice::Unknown => Arc::new(WorkspaceState::closed(WorkspaceView::Unknown)),
        };
        // Before the decision: a permit is never used for one that was made before its grant.
        self.permit = entry.take_permit().or(self.permit.take());
        let key_holder = ctx.keys.holder(&run);
        let had_slot = ctx.has_slot(&entry.uid, &key);
        let needs_slot = (!had_slot).then(|| kind::limits(ctx, &key).unwrap_or_default());
        let session = workspace.session.as_ref();
        let call_delay = match session.and_then(|session| session.limiter.long_pause()) {
            Some(until) => Some(CallDelay::Paused { until }),
            None => entry.waits_long().then_some(CallDelay::Queued),
        };
        let namespace_allowed = kind::allowed(ctx, &key, &entry.namespace);
        let (turn, released) = kind::with_rules(ctx, &key, |rules| {
            entry.with(|state| {
                let stream = state.streaming;
                let written = self.written.as_ref();
                let before = state.run.released();
                let turn = state.run.next(lacking, written, |run, memory, gone| {
                    decide::decide(&Inputs {
                        run,
                        choice: &choice,
                        workspace: &workspace.view,
                        rules,
                        namespace_allowed,
                        memory,
                        key_holder: key_holder.as_deref(),
                        needs_slot,
                        deleted_without_release: gone,
                        stream,
                        call_delay,
                        contract: &ctx.config.contract,
                        settings: &ctx.config.settings,
                        now: now(),
                        wall: wall(),
                    })
                });
                (turn, !before && state.run.released())
            })
        });
        if released {
            tracing::info!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                "cleanup of a deleted Run is done"
            );
        }
        Some(Decided {
            run,
            choice,
            key,
            had_slot,
            workspace,
            turn,
        })
    }

    /// Takes in what the Run claims of its Workspace's slots. True if it has got or lost one since: it is decided again.
    fn claims_slot(&self, decided: &Decided) -> bool {
        let (ctx, entry) = (self.ctx, self.entry);
        // Where it belongs isn't known before the first lists.
        if decided.choice == Choice::Unknown && !ctx.synced() {
            return false;
        }
        let claim = entry.with(|state| state.run.claim(&decided.turn));
        let wants = matches!(claim, Claim::Wants { .. });
        let run = (&*entry.namespace, &*entry.uid);
        ctx.slots(|queues| queues.claim(run, &decided.key, claim));
        let has = ctx.has_slot(&entry.uid, &decided.key);
        self.measure_wait(&decided.key, wants, has);
        wants && has != decided.had_slot
    }

    /// Measures how long the Run waited for a slot, from the first decision without one.
    fn measure_wait(&self, key: &WorkspaceKey, wants: bool, has: bool) {
        let waited = self.entry.with(|state| {
            if wants && !has {
                state.queued_since.get_or_insert_with(now);
                return None;
            }
            state.queued_since.take().filter(|_| wants)
        });
        let limited = || kind::limits(self.ctx, key) != Some(RunLimits::default());
        if let Some(since) = waited.filter(|_| limited()) {
            let waited = Duration::try_from(now().duration_since(since));
            self.ctx.metrics.left_queue(key, waited.unwrap_or_default());
        }
    }

    fn choice(&self, run: &Run) -> Choice {
        let (ctx, entry) = (self.ctx, self.entry);
        let intent = || entry.with(|state| state.run.memory.deciding_intent(run));
        let bound = choice::bound(&run.spec, run.status.as_ref(), intent);
        bound.map_or_else(|| kind::by_rule(ctx, &entry.namespace), Choice::One)
    }

    /// Takes in the store's version, once: what was learnt since may be newer. `None`: nothing is done for the object.
    fn lacking(&mut self) -> Option<bool> {
        let (ctx, entry) = (self.ctx, self.entry);
        let (run, lacking) = match ctx.runs.get(&entry.uid) {
            Some(Known::Active(run)) => (run, false),
            Some(Known::Gone(run)) => (run, true),
            // Its deletion was shown before this process had begun to remember it.
            None => {
                let last = entry.last_version(None);
                enqueue::follow(ctx, &ctx.runs.gone(&entry.uid, last));
                return Some(true);
            }
            Some(Known::Ended(_)) => {
                ctx.tracked_runs.forget(&entry.uid);
                ctx.slots(|queues| queues.leave(&entry.uid));
                return None;
            }
            // It was requested when it changed.
            Some(Known::Bad(_)) => return None,
        };
        let seen = self.seen.replace(Arc::clone(&run));
        if !seen.is_some_and(|seen| Arc::ptr_eq(&seen, &run)) {
            writes::observe(ctx, entry, run);
        }
        Some(lacking)
    }

    /// Makes the call in a task of its own, once it has a permit. At shutdown, no loop serves the Run after it.
    fn call(&mut self, decided: Decided, call: Call, effect: Effect) -> Action {
        let (ctx, entry) = (Arc::clone(self.ctx), Arc::clone(self.entry));
        let task = Task {
            ctx: Arc::clone(&ctx),
            entry: Arc::clone(&entry),
            key: decided.key,
            workspace: decided.workspace,
            call,
            effect,
        };
        let call = match task.begin(self.permit.take()) {
            Ok(call) => call,
            Err(again) => return again,
        };
        self.ctx.calls.spawn(async move {
            call.await;
            if ctx.shutdown.is_cancelled() {
                write_outcome(ctx, entry).await;
            }
        });
        Action::await_change()
    }

    fn publish(&self, events: &[EventDraft]) {
        let (ctx, entry) = (self.ctx, self.entry);
        let Some(run) = entry.with(|state| state.run.latest().cloned()) else {
            return;
        };
        let new = |draft: &&EventDraft| ctx.recorder.publish(&*run, draft);
        for draft in events.iter().filter(new) {
            if draft.reason == EventReason::CancelUnconfirmed {
                ctx.metrics.cancel_unconfirmed.inc();
            }
            tracing::info!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                event.reason = draft.reason.as_str(), note = draft.message, "publishing Event"
            );
        }
    }

    async fn read_live(&mut self) -> Option<Action> {
        let (ctx, entry) = (self.ctx, self.entry);
        drop(self.permit.take());
        let pause = match writes::read_live(ctx, entry).await {
            Found::Deleted => return None,
            Found::Unknown => PAUSE,
            Found::Exists => {
                tracing::warn!(
                    k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                    "a Run that exists is missing from the watch; waiting for the watch"
                );
                LOOK_AGAIN
            }
        };
        entry.stop_waiting();
        Some(Action::requeue(pause))
    }

    /// Nothing is left to do before this time: no call is wanted. The TTL of a settled Run needs no reconcile.
    fn rest(&self, run: &Run, at: Option<jiff::Timestamp>) -> Action {
        let (ctx, entry) = (self.ctx, self.entry);
        entry.stop_waiting();
        let pause = at.map(until);
        let (deleted, owes) = entry.with(|state| (state.run.deleted(), state.run.owes()));
        if deleted && owes {
            return Action::requeue(pause.unwrap_or(PAUSE).min(PAUSE));
        }
        if deleted || settled::at_rest(ctx, entry, run) {
            return Action::await_change();
        }
        pause.map_or(Action::await_change(), Action::requeue)
    }
}

fn log_status(entry: &RunEntry, status: &RunStatus) {
    tracing::info!(
        k8s.namespace.name = %entry.namespace,
        run.name = %entry.name,
        run.uid = %entry.uid,
        run.id = status.run_id.as_deref(),
        run.phase = status.phase.map(tracing::field::debug),
        run.state = status.state.as_deref(),
        request.id = status.request_id.as_deref(),
        "status written"
    );
}

/// Forgets a Run that the watch lacks. False if the watch shows it again.
fn forget(ctx: &Context, uid: &str) -> bool {
    let change = ctx.runs.forget(uid, || ctx.tracked_runs.forget(uid));
    let change = change.inspect(|change| enqueue::follow(ctx, change));
    change.is_some()
}

/// After the loops have ended: waits for the calls in flight and writes the outcomes that are left. No new effect begins.
pub(crate) async fn finish(ctx: &Arc<Context>) {
    ctx.calls.close();
    ctx.calls.wait().await;
    let mut entries = ctx.tracked_runs.all();
    entries.retain(|entry| entry.with(|state| state.run.unprocessed()));
    stream::iter(entries)
        .map(|entry| write_outcome(Arc::clone(ctx), entry))
        .buffer_unordered(LAST_WRITES)
        .collect::<()>()
        .await;
    for entry in ctx.tracked_runs.all() {
        let lacking = matches!(ctx.runs.get(&entry.uid), Some(Known::Gone(_)));
        let owed = entry.with(|state| {
            let owes = (lacking || state.run.deleted()) && state.run.owes();
            let status = state.run.latest().and_then(|run| run.status.clone());
            let run_id = status.and_then(|status| status.run_id);
            owes.then(|| run_id.or_else(|| state.run.memory.run_id.clone()))
        });
        if let Some(run_id) = owed {
            tracing::warn!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                run.id = run_id,
                "the operator is stopping; the run of a deleted Run was not seen to end"
            );
        }
    }
}

/// Writes the outcome of a call that has ended at shutdown. Boxed: it may begin none, but its type doesn't say that.
pub(crate) fn write_outcome(ctx: Arc<Context>, entry: Arc<RunEntry>) -> BoxFuture<'static, ()> {
    let written = async move {
        let known = ctx.runs.get(&entry.uid);
        let known = known.filter(|known| matches!(known, Known::Active(_) | Known::Gone(_)));
        if let Some(known) = known
            && let Err(failed) = reconcile(known, ctx).await
        {
            failed.log("Run", Some(&entry.namespace), &entry.name);
        }
    };
    written.boxed()
}

/// Its stream is closed, since its events can't be processed.
async fn show_undecodable(ctx: &Context, bad: &BadObject) -> Reconciled {
    let meta = &bad.metadata;
    let uid = meta.uid.as_deref().unwrap_or_default();
    if let Some(entry) = ctx.tracked_runs.get(uid) {
        entry.stop_waiting();
        entry.close_stream();
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let api = Api::<Run>::namespaced(ctx.client.clone(), namespace);
    undecodable::show(ctx, &api, bad, decide::conditions::undecodable_run).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::state::runs::TrackedRuns;

    fn seen(version: &str) -> Run {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": "odd", "namespace": "team", "uid": "u", "resourceVersion": version},
            "spec": {"workload": {"image": "i"}},
        });
        serde_json::from_value(run).unwrap()
    }

    /// Proves: F-undecodable
    #[tokio::test]
    async fn a_run_whose_pass_panics_is_left_alone_until_it_changes() {
        let entry = TrackedRuns::default().entry(&seen("1"));
        let left = |version: &str| left_alone(&entry, seen(version).resource_version().as_ref());
        assert!(!left("1"));
        let pass = |version: Option<&str>| {
            let turns = async { panic!("the test's own") };
            alone::<()>(&entry, version.map(str::to_owned), turns)
        };
        let failed = pass(Some("1")).await.unwrap_err();
        assert!(matches!(failed.error, ReconcileError::Panicked));
        assert_eq!(failed.again, Action::await_change());
        assert!(left("1") && !left("2"));
        let gone = pass(None).await.unwrap_err();
        assert_eq!(gone.again, Action::requeue(PAUSE));
    }
}
