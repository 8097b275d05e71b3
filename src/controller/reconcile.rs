//! The reconcile of a Run: observe, decide, write the status, act, learn, and again until nothing is
//! left to be done now.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use crate::api::{EventReason, Run, RunStatus};
use crate::clock::until;
use crate::decide::{self, Decision, Learned, Learning, Observed, backoff, memory::later};

use super::{
    act::{self, Acted},
    afresh::{self, Found},
    context::{Context, Guarded, now, wall},
    loops::Action,
    metrics::ReconcileResult,
    namespaces,
    objects::{Doing, Entry, Hold, State},
    reaper,
    registry::{Key, Slot},
    rivals,
    scope::Scope,
    streams, undecodable,
    watch::chain,
    writes::{self, WriteError},
};

/// Steps of one reconcile. A whole life takes fewer; more means that two parts of the policy disagree,
/// and a pause is better than a loop.
const STEPS: usize = 24;
/// Pause after a conflict; most often the watch brings the newer object before. Where it doesn't, pauses
/// grow up to that after a refusal.
const AFTER_CONFLICT: Duration = Duration::from_millis(500);
/// Conflicts in a row from which on the watch is no longer relied on.
const CONFLICTS: u32 = 2;
/// Pause after the API server refused a write, or the steps ran out.
const AFTER_REFUSAL: Duration = Duration::from_mins(1);

/// Reconciles one object. Never fails: what goes wrong decides when to look again.
pub async fn reconcile(object: Arc<Guarded<Run>>, ctx: Arc<Context>) -> (Action, ReconcileResult) {
    let Ok(run) = &object.0 else {
        show_undecodable(&ctx, &object).await;
        return (Action::await_change(), ReconcileResult::error);
    };
    let run = Arc::new(run.clone());
    let entry = ctx.objects.entry(&run);
    let begun = entry.with(|state| {
        let quarantined = state.quarantined.is_some();
        let left_alone = state.hold == Hold::Gone
            || state.departed()
            || quarantined && state.quarantined == run.resource_version();
        if left_alone || state.doing == Doing::Call {
            return Err(left_alone);
        }
        state.begin();
        Ok(())
    });
    match begun {
        Ok(()) => look(&ctx, &entry, run).await,
        Err(left_alone) => {
            if left_alone {
                entry.leave_queue();
            }
            // A call that is under way wakes the object at its end.
            (Action::await_change(), ReconcileResult::success)
        }
    }
}

/// A Run that can't be decoded is left alone until it changes, and says so.
async fn show_undecodable(ctx: &Context, object: &Guarded<Run>) {
    let meta = object.meta();
    if let Some(entry) = meta.uid.as_deref().and_then(|uid| ctx.objects.get(uid)) {
        entry.leave_queue();
    }
    let namespace = meta.namespace.clone().unwrap_or_default();
    let api = Scope::Namespace(namespace).api::<Run>(ctx.client.clone());
    let generation = meta.generation.unwrap_or_default();
    let told = |status, what: &str| decide::undecodable::run(status, what, generation, wall());
    undecodable::show(ctx, &api, object, told).await;
}

/// After the loop has ended: what a call taught is written, and nothing more is begun.
pub(super) fn settle(ctx: Arc<Context>, entry: Arc<Entry>) -> BoxFuture<'static, ()> {
    let settled = async move {
        let stored = ctx.run(&entry.namespace, &entry.name, &entry.uid);
        let stored = stored.and_then(|object| object.0.as_ref().ok().cloned().map(Arc::new));
        let Some(run) = stored else {
            return;
        };
        let begun = entry.with(|state| {
            let due = state.learnt && state.doing == Doing::Nothing;
            if due {
                state.begin();
            }
            due
        });
        if begun {
            look(&ctx, &entry, run).await;
        }
    };
    settled.boxed()
}

/// Runs the steps; a panic in them leaves this object alone and no other.
async fn look(ctx: &Arc<Context>, entry: &Arc<Entry>, run: Arc<Run>) -> (Action, ReconcileResult) {
    let version = run.resource_version();
    let steps = AssertUnwindSafe(steps(ctx, entry, run))
        .catch_unwind()
        .await;
    entry.with(|state| {
        // A call that the steps began goes on.
        if state.doing == Doing::Reconcile {
            state.doing = Doing::Nothing;
        }
    });
    if !reaper::present(ctx, entry) {
        // It went meanwhile; the reaper left it alone.
        ctx.absent.tell(&entry.uid);
    }
    match steps {
        Ok(Ok(Next::Awaited)) => (Action::await_change(), ReconcileResult::success),
        Ok(Ok(Next::Look(again))) => {
            entry.leave_queue();
            next_look(again)
        }
        Ok(Err(WriteError::Conflict)) => contradicted(ctx, entry, true).await,
        Ok(Err(WriteError::Gone)) => contradicted(ctx, entry, false).await,
        Ok(Err(error)) => after_write_error(entry, &error),
        Err(_) => {
            entry.leave_queue();
            entry.with(|state| state.quarantined = version);
            tracing::error!(k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid, "a reconcile panicked; the object is left alone until it changes");
            (Action::await_change(), ReconcileResult::panic)
        }
    }
}

fn next_look(again: Option<Timestamp>) -> (Action, ReconcileResult) {
    match again {
        Some(at) => (Action::requeue(until(at)), ReconcileResult::requeue_after),
        None => (Action::await_change(), ReconcileResult::success),
    }
}

/// A write met another version of the object, or none: the watch is behind. Most often by a moment; where
/// that lasts, the object is read past it.
async fn contradicted(ctx: &Context, entry: &Entry, there: bool) -> (Action, ReconcileResult) {
    let conflicts = entry.with(|state| {
        state.conflicts = state.conflicts.saturating_add(1);
        state.conflicts
    });
    tracing::debug!(run.uid = %entry.uid, conflicts, "the object changed meanwhile; observing again");
    if !there || conflicts >= CONFLICTS {
        match afresh::look(ctx, entry).await {
            Found::There(Some(run)) => drop(entry.newest(run)),
            // What is left of it is the reaper's.
            Found::Gone => {
                entry.with(State::depart);
                ctx.absent.tell(&entry.uid);
            }
            Found::There(None) | Found::Unknown => {}
        }
    }
    let wait = match conflicts {
        1 => AFTER_CONFLICT,
        n => backoff::delay(n, None, backoff::seed(&entry.uid, n)).min(AFTER_REFUSAL),
    };
    (Action::requeue(wait), ReconcileResult::conflict)
}

fn after_write_error(entry: &Entry, error: &WriteError) -> (Action, ReconcileResult) {
    let failures = entry.with(|state| {
        state.write_failures = state.write_failures.saturating_add(1);
        state.write_failures
    });
    let wait = match error {
        WriteError::Failed(_) | WriteError::Timeout => {
            backoff::delay(failures, None, backoff::seed(&entry.uid, failures))
        }
        _ => AFTER_REFUSAL,
    };
    tracing::warn!(
        k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid, failures,
        error = %chain(error), "failed to write a Run; trying again"
    );
    (Action::requeue(wait), ReconcileResult::error)
}

/// How the steps end.
enum Next {
    /// Nothing is left to be done before this time, or before something changes.
    Look(Option<Timestamp>),
    /// A call is under way or waits for its turn.
    Awaited,
}

/// Decides and acts until nothing is left to be done now.
async fn steps(ctx: &Arc<Context>, entry: &Arc<Entry>, run: Arc<Run>) -> Result<Next, WriteError> {
    let mut run = entry.newest(run);
    let mut told: Option<RunStatus> = None;
    let scope = Scope::Namespace(entry.namespace.clone());
    let api = scope.api::<Run>(ctx.client.clone());
    for _ in 0..STEPS {
        // What was learnt is written at a shutdown too, but not by one who leads no more.
        if !ctx.leading.holds() {
            return Ok(Next::Look(None));
        }
        let key = Key::of(&run.spec.workspace_ref(), &entry.namespace);
        let slot = ctx.slot(&key);
        let decision = decide(ctx, entry, &key, &run, &slot, false);
        streams::follow(ctx, entry, &key, &slot, &run, decision.follow);
        // What was just told is not told again, should the API server keep something else of it (an
        // older CRD drops what it doesn't know).
        if let Some(status) = decision
            .status
            .as_ref()
            .filter(|s| told.as_ref() != Some(s))
            && run.status.as_ref() != Some(status)
        {
            told = Some(status.clone());
            let written = writes::write_status(&api, &run, status).await?;
            run = entry.wrote(written);
            learn(ctx, entry, &slot, Learned::StatusWritten);
            entry.with(|state| state.memory.feed.written(decision.shown));
            publish(ctx, entry, &run, &decision);
            log_transition(entry, &run);
            continue;
        }
        publish(ctx, entry, &run, &decision);
        let Some(effect) = &decision.effect else {
            return Ok(Next::Look(decision.again));
        };
        if !ctx.may_begin() {
            return Ok(Next::Look(None));
        }
        match act::act(ctx, entry, &api, &run, &key, &slot, effect).await? {
            Acted::Object(changed) => run = changed,
            Acted::Learned => {}
            Acted::Awaited => return Ok(Next::Awaited),
            Acted::Finished => return Ok(Next::Look(None)),
        }
    }
    tracing::error!(run.uid = %entry.uid, steps = STEPS, "a reconcile did not settle; looking again later");
    Ok(Next::Look(Some(later(now(), AFTER_REFUSAL))))
}

/// Asks policy.
pub(super) fn decide(
    ctx: &Context,
    entry: &Entry,
    key: &Key,
    run: &Run,
    slot: &Slot,
    vanished: bool,
) -> Decision {
    let rival = rivals::of(ctx, run);
    let held = slot.live.as_ref().and_then(|l| l.gate.held(&entry.uid));
    let namespace_allowed = namespaces::allowed(ctx, key, &entry.namespace);
    entry.with(|state| {
        let observed = Observed {
            run,
            workspace: &slot.view,
            namespace_allowed,
            memory: &state.memory,
            key_rival: rival.as_deref(),
            vanished,
            stream: state.streaming,
            held,
            contract: &ctx.config.contract,
            settings: &ctx.config.settings,
            now: now(),
            wall: wall(),
        };
        decide::decide(&observed)
    })
}

/// Tells memory what an effect came to.
pub(super) fn learn(ctx: &Context, entry: &Entry, slot: &Slot, news: Learned) {
    let session = slot.live.as_ref().map_or(0, |live| live.number);
    entry.with(|state| {
        let with = Learning {
            contract: &ctx.config.contract,
            uid: &entry.uid,
            session,
            now: now(),
            wall: wall(),
        };
        state.memory.learn(news, with);
    });
}

/// Tells of what the status, as it stands now, deserves an Event for, and of what is about to be done.
pub(super) fn publish(ctx: &Context, entry: &Entry, run: &Run, decision: &Decision) {
    if decision.notes.is_empty() {
        return;
    }
    let speech = entry.with(|state| state.memory.voice.tell(&decision.notes, now()));
    for news in &speech.news {
        if news.reason == EventReason::CancelUnconfirmed {
            ctx.metrics.cancel_unconfirmed.inc();
        }
        tracing::info!(
            run.uid = %entry.uid, event.reason = news.reason.as_str(), note = news.message, "note"
        );
    }
    ctx.recorder.publish(run, &speech);
}

fn log_transition(entry: &Entry, run: &Run) {
    let status = run.status.as_ref();
    tracing::info!(
        k8s.namespace.name = %entry.namespace,
        run.name = %entry.name,
        run.uid = %entry.uid,
        run.id = status.and_then(|s| s.run_id.as_deref()),
        run.phase = status.and_then(|s| s.phase).map(tracing::field::debug),
        run.state = status.and_then(|s| s.state.as_deref()),
        request.id = status.and_then(|s| s.request_id.as_deref()),
        "status written"
    );
}
