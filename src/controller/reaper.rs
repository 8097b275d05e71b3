//! Objects that are gone. A Delete event names its object; of a relist, which has none, the index says what
//! it lacks. An object that vanished unreleased has its run cancelled from the last seen version. Before
//! that it is looked for once more: the store may be behind, and what a live object asked for must not be
//! cancelled.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::Run;
use crate::decide::{Effect, need::pinned_elsewhere};

use super::{
    afresh::{self, Found},
    calls,
    context::{Context, Guarded, now},
    departure,
    gate::Permit,
    objects::{Entry, Hold, Parting, State, Whereabouts},
    reconcile::{decide, publish},
    registry::{Key, Slot},
};

/// All uids are compared with the index at this pace. That finds again what was told and could not be settled
/// then.
const PACE: Duration = Duration::from_secs(15);
/// The longest pause of a vanished object's cancellation, which also picks up a Workspace that is Ready
/// again.
const PAUSE: Duration = Duration::from_secs(5);

/// Looks at what is absent until shutdown.
pub(super) async fn run(ctx: Arc<Context>) {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            uids = ctx.absent.due() => uids.iter().for_each(|uid| look(&ctx, uid)),
            _ = pace.tick() => compare(&ctx),
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

/// An object was deleted, and this was its last version.
pub(super) fn last_seen(ctx: &Context, last: &Guarded<Run>) {
    if let Ok(run) = &last.0
        && let Some(entry) = run.uid().and_then(|uid| ctx.objects.get(&uid))
    {
        // Its owner's last word on what is to become of the run may have come with nothing before.
        entry.newest(Arc::new(run.clone()));
    }
}

fn compare(ctx: &Arc<Context>) {
    let absent = |entry: &Arc<Entry>| {
        entry.with(|state| state.departed()) || !ctx.run_index.contains(&entry.uid)
    };
    for entry in ctx.objects.all().into_iter().filter(absent) {
        ctx.absent.expect(&entry.uid);
        look(ctx, &entry.uid);
    }
}

fn look(ctx: &Arc<Context>, uid: &str) {
    let Some(entry) = ctx.objects.get(uid) else {
        ctx.absent.settled(uid);
        return;
    };
    if present(ctx, &entry) {
        ctx.absent.settled(uid);
        return;
    }
    match entry.with(State::part) {
        // Its end tells of it again.
        Parting::Busy => {}
        Parting::Settled => let_go(ctx, &entry),
        Parting::Owes(run) => {
            if entry.with(State::vanish) {
                // Among the calls: one that is under way at shutdown ends.
                ctx.calls.spawn(vanish(Arc::clone(ctx), entry, run));
            }
        }
    }
}

/// Whether the object is there, as far as this process knows.
pub(super) fn present(ctx: &Context, entry: &Entry) -> bool {
    !entry.with(|state| state.departed()) && stored(ctx, entry)
}

fn stored(ctx: &Context, entry: &Entry) -> bool {
    ctx.has_run(&entry.namespace, &entry.name, &entry.uid)
}

/// Nothing is owed for it any more. What the store still shows of it begins nothing new.
fn let_go(ctx: &Context, entry: &Entry) {
    if stored(ctx, entry) {
        entry.with(|state| state.hold = Hold::Gone);
    } else {
        forget(ctx, entry);
    }
}

/// Cancels the run of an object that is gone for good.
async fn vanish(ctx: Arc<Context>, entry: Arc<Entry>, run: Arc<Run>) {
    while !entry.with(|state| state.departed()) && ctx.may_begin() {
        match afresh::look(&ctx, &entry).await {
            Found::Gone => entry.with(State::depart),
            Found::There(_) => {
                tracing::warn!(
                    k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                    "the watch lacks a Run that is there; waiting for the watch"
                );
                entry.with(|state| state.whereabouts = Whereabouts::Stored);
                return;
            }
            Found::Unknown => tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = ctx.shutdown.cancelled() => {}
            },
        }
    }
    if entry.with(|state| state.departed()) {
        entry.close_stream();
        entry.leave_queue();
        ctx.metrics.vanished.inc();
        tracing::warn!(
            k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
            "a Run vanished without having been released; cancelling its run"
        );
    }
    cancel(ctx, entry, run).await;
}

fn forget(ctx: &Context, entry: &Entry) {
    let last_seen = entry.with(|state| state.latest.clone());
    ctx.objects.forget(&entry.uid);
    ctx.claims.release(&entry.uid);
    ctx.absent.settled(&entry.uid);
    if let Some(run) = last_seen {
        departure::run_ended(ctx, &run);
    }
}

/// The names of the Runs that are gone and whose runs are yet to be cancelled with this Workspace,
/// which has this base URL.
pub(super) fn owing(ctx: &Context, key: &Key, base_url: Option<&str>) -> Vec<String> {
    let owes = |entry: &Arc<Entry>| {
        let run = entry.with(|state| state.owes());
        run.is_some_and(|run| {
            Key::of(&run.spec.workspace_ref(), &entry.namespace) == *key
                && !pinned_elsewhere(&run, base_url)
        }) && !present(ctx, entry)
    };
    let absent = ctx.absent.all().into_iter();
    absent
        .filter_map(|uid| ctx.objects.get(&uid))
        .filter(owes)
        .map(|e| key.naming(&e.namespace, &e.name))
        .collect()
}

async fn cancel(ctx: Arc<Context>, entry: Arc<Entry>, run: Arc<Run>) {
    let key = Key::of(&run.spec.workspace_ref(), &entry.namespace);
    let mut permit = None;
    while ctx.may_begin() {
        let slot = ctx.slot(&key);
        let decision = decide(&ctx, &entry, &key, &run, &slot, true);
        match &decision.effect {
            Some(Effect::Release { .. }) => {
                publish(&ctx, &entry, &run, &decision);
                let_go(&ctx, &entry);
                tracing::info!(run.uid = %entry.uid, "a vanished Run is settled");
                return;
            }
            Some(effect) => match permit.take() {
                Some(permit) => calls::call(&ctx, &entry, &key, &slot, effect, permit).await,
                // Decided anew after the wait.
                None => permit = turn(&ctx, &slot, &entry.namespace).await,
            },
            None => {
                permit = None;
                let wait = decision
                    .again
                    .and_then(|at| Duration::try_from(at.duration_since(now())).ok());
                tokio::select! {
                    () = tokio::time::sleep(wait.unwrap_or(PAUSE).min(PAUSE)) => {}
                    () = ctx.shutdown.cancelled() => {}
                }
            }
        }
    }
    tracing::warn!(
        k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
        run.id = run.status.as_ref().and_then(|s| s.run_id.as_deref()),
        "the operator ends before the run of a vanished Run was seen to end"
    );
}

/// Waits for the turn of one call for a Run of this namespace; nothing at shutdown.
async fn turn(ctx: &Context, slot: &Slot, namespace: &str) -> Option<Permit> {
    let live = slot.live.as_ref()?;
    tokio::select! {
        permit = live.gate.wait(namespace) => Some(permit),
        () = ctx.shutdown.cancelled() => None,
    }
}
