//! The gauges of Runs, Workspaces and RunSchedules, set at scrape time by a scan of all of them: at most once a second.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::reflector::Store;

use crate::api::{
    ClusterWorkspace, ConditionType, Contract, Phase, Reason, Run, RunSchedule, Workspace,
    conditions::{find, is_true},
    contract::StateClass,
    finalizer,
    intent::IntentRecord,
};
use crate::clock::wall;

use super::{
    apiserver::Maybe,
    context::Context,
    metrics::{Counts, Metrics, OTHER, STATUSES, gauge, reason},
    state::run_store::Known,
    workspace::kind::Kind,
};

pub(crate) fn take(ctx: &Context) {
    let mut counts = RunCounts::default();
    ctx.runs
        .each(|known| counts.add(known, &ctx.config.contract));
    counts.show(&ctx.metrics);
    ctx.metrics.remembered.set(gauge(ctx.tracked_runs.count()));
    ctx.show_slots();
    let mut not_ready = Counts::new();
    workspaces::<Workspace>(ctx, &mut not_ready);
    workspaces::<ClusterWorkspace>(ctx, &mut not_ready);
    ctx.metrics.set_not_ready(&not_ready);
    schedules(ctx);
}

/// Sets the gauges of the reconciles in flight, which every process has.
pub(crate) fn take_reconciles(ctx: &Context) {
    let all = &ctx.triggers;
    for trigger in [
        &all.runs,
        &all.workspaces,
        &all.cluster_workspaces,
        &all.schedules,
    ] {
        let (count, longest) = trigger.in_flight();
        ctx.metrics
            .set_in_flight(trigger.controller, count, longest);
    }
}

fn add(counts: &mut Counts, of: &'static str) {
    *counts.entry(of).or_default() += 1;
}

#[derive(Default)]
struct RunCounts {
    phases: Counts,
    stalled: Counts,
    not_mapped: usize,
    /// Runs that may have a run whose `runID` is not known.
    in_doubt: usize,
    oldest_doubt: Option<Timestamp>,
}

impl RunCounts {
    /// A Run without a status, or one that can't be decoded, counts as Pending.
    fn add(&mut self, known: &Known, contract: &Contract) {
        let phase = match known {
            Known::Active(run) => {
                if let Some(text) = stalled(run) {
                    add(&mut self.stalled, reason(text));
                }
                self.not_mapped += usize::from(has_unmapped_state(run, contract));
                if let Some(since) = doubt(run) {
                    self.in_doubt += 1;
                    self.oldest_doubt = self.oldest_doubt.into_iter().chain([since]).min();
                }
                run.status.as_ref().and_then(|s| s.phase)
            }
            Known::Bad(bad) => {
                // Without the finalizer the operator does not manage it.
                if finalizer::present(&bad.metadata) {
                    add(&mut self.stalled, Reason::RunInvalid.as_str());
                }
                None
            }
            Known::Ended(ended) => Some(ended.phase),
            Known::Gone(_) => return,
        };
        let phase = phase.unwrap_or(Phase::Pending);
        add(&mut self.phases, phase.as_str());
    }

    fn show(&self, metrics: &Metrics) {
        metrics.set_runs(&self.phases, &self.stalled);
        metrics.runs_not_mapped.set(gauge(self.not_mapped));
        metrics.runs_in_doubt.set(gauge(self.in_doubt));
        // The intent's time was taken from the wall clock.
        let age = |since| wall().duration_since(since).as_secs().max(0);
        metrics.oldest_doubt.set(self.oldest_doubt.map_or(0, age));
    }
}

fn stalled(run: &Run) -> Option<&str> {
    let conditions = &run.status.as_ref()?.conditions;
    let stalled = find(conditions, ConditionType::Stalled).filter(|c| c.status == "True")?;
    (!is_true(conditions, ConditionType::Finished)).then_some(&*stalled.reason)
}

fn has_unmapped_state(run: &Run, contract: &Contract) -> bool {
    let state = run.status.as_ref().and_then(|s| s.state.as_deref());
    !run.ended() && state.is_some_and(|state| contract.state(state) == StateClass::Unmapped)
}

fn doubt(run: &Run) -> Option<Timestamp> {
    let status = run.status.as_ref();
    if run.ended() || status.is_some_and(|s| s.run_id.is_some() || s.refusal.is_some()) {
        return None;
    }
    match run.intent_record() {
        IntentRecord::Own(intent) => Some(intent.time),
        _ => None,
    }
}

fn workspaces<K: Kind>(ctx: &Context, not_ready: &mut Counts) {
    let mut by_status = Counts::new();
    for object in K::stores(ctx).iter().flat_map(Store::state) {
        let (status, reason) = ready(&object);
        add(&mut by_status, status);
        if status != "True" {
            add(not_ready, reason);
        }
    }
    ctx.metrics.set_ready(K::KIND, &by_status);
}

/// Status and reason of the Ready condition. A Workspace that can't be decoded is not Ready, whatever its last status.
fn ready<K: Kind>(object: &Maybe<K>) -> (&'static str, &'static str) {
    let Maybe::Good(workspace) = object else {
        return ("False", Reason::WorkspaceInvalid.as_str());
    };
    let status = workspace.stored();
    let ready = status.and_then(|s| find(&s.conditions, ConditionType::Ready));
    (
        known(ready),
        ready.map_or(OTHER, |ready| reason(&ready.reason)),
    )
}

fn known(condition: Option<&Condition>) -> &'static str {
    let of = |condition: &Condition| STATUSES.into_iter().find(|s| *s == condition.status);
    condition.and_then(of).unwrap_or("Unknown")
}

fn schedules(ctx: &Context) {
    let (mut ready, mut stalled) = (Counts::new(), Counts::new());
    for object in ctx.caches.schedules.iter().flat_map(Store::state) {
        let (status, why) = of_schedule(&object);
        add(&mut ready, status);
        if let Some(reason) = why {
            add(&mut stalled, reason);
        }
    }
    ctx.metrics.set_schedules(&ready, &stalled);
}

/// Status of the Ready condition, and the reason if it is Stalled, as one that can't be decoded is.
fn of_schedule(object: &Maybe<RunSchedule>) -> (&'static str, Option<&'static str>) {
    let Maybe::Good(schedule) = object else {
        return ("False", Some(Reason::ScheduleInvalid.as_str()));
    };
    let Some(status) = &schedule.status else {
        return (known(None), None);
    };
    let conditions = &status.conditions;
    let stalled = find(conditions, ConditionType::Stalled).filter(|c| c.status == "True");
    let ready = known(find(conditions, ConditionType::Ready));
    (ready, stalled.map(|stalled| reason(&stalled.reason)))
}

#[cfg(test)]
mod tests;
