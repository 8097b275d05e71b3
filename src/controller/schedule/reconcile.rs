//! The reconcile of a RunSchedule: decide, write the status, one effect, and again.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Resource, ResourceExt};
use tokio::time::{MissedTickBehavior, interval};

use crate::api::conditions::find;
use crate::api::{ConditionType, EventReason, RunSchedule, RunScheduleStatus, RunTemplate};
use crate::clock::{now, until, wall};
use crate::controller::{
    apiserver::{
        self, Maybe,
        patch::{self, WriteError},
        reconciler::{Action, Failed, ReconcileError, Reconciled},
    },
    context::Context,
    leader,
    metrics::{MISSED, SKIPPED},
    refused::Refused,
    undecodable,
};
use crate::decide::delays::{self, AFTER_REFUSAL};
use crate::decide::schedule::{self, Decision, Inputs, decide, source};

use super::writes::{EffectError, Runs};

/// Interval at which the ticks are compared with the wall clock, which may step.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Turns of one reconcile; the rest follows in the next, so that none lasts long.
const TURNS: usize = 64;
/// Pause before the caches are looked at again that have no first list yet.
const UNTIL_SYNCED: Duration = Duration::from_secs(1);
const AFTER_CONFLICT: Duration = Duration::from_millis(500);
/// The shortest pause after another failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Enqueues the schedules whose time has come.
pub(crate) async fn enqueue_due(ctx: Arc<Context>) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = wall();
    loop {
        ticks.tick().await;
        let wall = wall();
        // A clock that was set back may leave the next tick far ahead, which every schedule then shows.
        let until = if wall < before { Timestamp::MAX } else { wall };
        before = wall;
        for (namespace, name) in ctx.schedules.take_due(until) {
            ctx.enqueue_schedule(&namespace, &name);
        }
    }
}

pub(crate) async fn reconcile(object: Arc<Maybe<RunSchedule>>, ctx: Arc<Context>) -> Reconciled {
    if !ctx.leading.holds() {
        return Ok(Action::requeue(leader::AGAIN));
    }
    // Without its Runs, one of an earlier tick might be active.
    if !ctx.schedules_synced() {
        return Ok(Action::requeue(UNTIL_SYNCED));
    }
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    let api = Api::namespaced(ctx.client.clone(), namespace);
    match object.as_ref() {
        Maybe::Bad(bad) => undecodable::show(&ctx, &api, bad, schedule::undecodable).await,
        Maybe::Good(schedule) => take_turns(&ctx, &api, Arc::clone(schedule)).await,
    }
}

async fn take_turns(
    ctx: &Context,
    api: &Api<RunSchedule>,
    mut schedule: Arc<RunSchedule>,
) -> Reconciled {
    let uid = schedule.uid().unwrap_or_default();
    let name = (
        schedule.namespace().unwrap_or_default(),
        schedule.name_any(),
    );
    for _ in 0..TURNS {
        if !ctx.may_begin() {
            return Ok(Action::requeue(leader::AGAIN));
        }
        let template = template_of(ctx, &schedule);
        let source = source(&schedule, template.as_deref());
        let (runs, memory) = (ctx.schedules.runs(&uid), ctx.schedules.memory(&uid));
        let inputs = Inputs {
            schedule: &schedule,
            source: &source,
            runs: &runs,
            memory: &memory,
            now: now(),
            wall: wall(),
        };
        let decision = decide(&inputs);
        // Also where what follows fails: the next tick must be seen.
        ctx.schedules.set_due(&uid, name.clone(), decision.due);
        let stored = schedule.status.clone().unwrap_or_default();
        if decision.status != stored {
            match patch::write_status(api, &schedule, &decision.status).await {
                Ok(written) => {
                    publish(ctx, &written, &decision);
                    schedule = written;
                }
                Err(error) => return Err(not_written(ctx, &schedule, &decision.status, error)),
            }
            continue;
        }
        publish(ctx, &schedule, &decision);
        let Some(effect) = &decision.effect else {
            ctx.schedules.succeeded(&uid);
            let again = decision.again.map(|at| Action::requeue(until(at)));
            return Ok(again.unwrap_or(Action::await_change()));
        };
        let runs = Runs {
            ctx,
            schedule: &schedule,
            source: source.as_ref().ok(),
            failures: ctx.schedules.failures(&uid),
        };
        match runs.carry_out(effect).await {
            Ok(None) => ctx.schedules.succeeded(&uid),
            Ok(Some(outcome)) => {
                ctx.schedules.succeeded(&uid);
                ctx.schedules.remember(&uid, inputs.record(outcome, now()));
            }
            Err(error) => return Err(not_done(ctx, &uid, error)),
        }
    }
    Ok(Action::requeue(Duration::ZERO))
}

fn template_of(ctx: &Context, schedule: &RunSchedule) -> Option<Arc<RunTemplate>> {
    let name = &schedule.spec.template_ref.as_ref()?.name;
    let namespace = schedule.metadata.namespace.as_deref().unwrap_or_default();
    let found = apiserver::find(&ctx.caches.templates, namespace, name)?;
    found.good().cloned()
}

/// The recorder takes each Event once, and what it has taken before was counted.
fn publish(ctx: &Context, schedule: &RunSchedule, decision: &Decision) {
    for event in &decision.events {
        let new = ctx.recorder.publish(schedule, event);
        match event.reason {
            EventReason::TickSkipped if new => ctx.metrics.tick(SKIPPED),
            EventReason::TickMissed if new => ctx.metrics.tick(MISSED),
            _ => {}
        }
    }
}

fn not_written(
    ctx: &Context,
    schedule: &RunSchedule,
    status: &RunScheduleStatus,
    error: WriteError,
) -> Failed {
    let uid = schedule.uid().unwrap_or_default();
    let refused = Refused {
        writes: "status",
        error: &error,
        times: ctx.schedules.failures(&uid).saturating_add(1),
        condition: find(&status.conditions, ConditionType::Ready),
        client: None,
    };
    refused.tell(ctx, schedule);
    not_done(ctx, &uid, error.into())
}

fn not_done(ctx: &Context, uid: &str, error: EffectError) -> Failed {
    let error = match error {
        // The watch delivers a newer version, most likely at once.
        EffectError::Write(error @ (WriteError::Conflict | WriteError::Gone)) => {
            return ReconcileError::Write(error).again(Action::requeue(AFTER_CONFLICT));
        }
        EffectError::Write(error) => ReconcileError::Write(error),
        EffectError::Read(error) => ReconcileError::List(error),
    };
    let times = ctx.schedules.failed(uid);
    let pause = delays::backoff(times, None, delays::seed(uid, times));
    error.again(Action::requeue(pause.clamp(AFTER_FAILURE, AFTER_REFUSAL)))
}
