//! The gauges of Runs and Workspaces, set at scrape time by a scan of all of them: at most once a second.

use jiff::Timestamp;
use kube::runtime::reflector::Store;

use crate::api::{
    ClusterWorkspace, ConditionType, Phase, Reason, Run, Workspace, WorkspaceKind,
    conditions::{find, is_true},
    finalizer,
    intent::IntentRecord,
};
use crate::clock::wall;

use super::{
    apiserver::Maybe,
    context::Context,
    metrics::{
        Metrics, gauge,
        labels::{ByPhase, ByReady, ByReason, NOT_READY, PHASES, READY, STALLED},
    },
    state::run_store::Known,
    workspace::kind::Kind,
};

/// Sets the gauges.
pub(crate) fn take(ctx: &Context) {
    let mut counts = RunCounts::default();
    ctx.runs.each(|known| counts.add(known));
    counts.show(&ctx.metrics);
    ctx.metrics.remembered.set(gauge(ctx.tracked_runs.count()));
    let mut not_ready = [0; NOT_READY.len()];
    workspaces::<Workspace>(ctx, &mut not_ready);
    workspaces::<ClusterWorkspace>(ctx, &mut not_ready);
    for (&reason, count) in NOT_READY.iter().zip(not_ready) {
        let of_reason = ctx
            .metrics
            .workspaces_not_ready
            .get_or_create(&ByReason { reason });
        of_reason.set(gauge(count));
    }
}

/// Sets the gauges of the reconciles in flight, which every process has.
pub(crate) fn take_reconciles(ctx: &Context) {
    let all = [
        ("run", &ctx.run_trigger),
        ("workspace", &ctx.workspace_trigger),
        ("clusterworkspace", &ctx.cluster_workspace_trigger),
    ];
    for (controller, trigger) in all {
        let (count, longest) = trigger.in_flight();
        ctx.metrics.set_in_flight(controller, count, longest);
    }
}

#[derive(Default)]
struct RunCounts {
    /// In the order of [`PHASES`].
    phases: [usize; PHASES.len()],
    /// In the order of [`STALLED`].
    stalled: [usize; STALLED.len()],
    /// Runs that may have a run whose `runId` is not known.
    in_doubt: usize,
    /// Time of the oldest intent among them.
    oldest_doubt: Option<Timestamp>,
}

impl RunCounts {
    /// A Run without a status, or one that can't be decoded, counts as Pending.
    fn add(&mut self, known: &Known) {
        let phase = match known {
            Known::Active(run) => {
                if let Some(reason) = stalled(run) {
                    count(&mut self.stalled, STALLED, reason);
                }
                if let Some(since) = doubt(run) {
                    self.in_doubt += 1;
                    self.oldest_doubt = self.oldest_doubt.into_iter().chain([since]).min();
                }
                run.status.as_ref().and_then(|s| s.phase)
            }
            Known::Bad(bad) => {
                // Without the finalizer the operator does not manage it.
                if finalizer::present(&bad.metadata) {
                    count(&mut self.stalled, STALLED, Reason::RunInvalid.as_str());
                }
                None
            }
            Known::Ended(ended) => Some(ended.phase),
            Known::Gone(_) => return,
        };
        let phase = phase.unwrap_or(Phase::Pending);
        count(&mut self.phases, PHASES, phase.as_str());
    }

    fn show(&self, metrics: &Metrics) {
        for (&phase, count) in PHASES.iter().zip(self.phases) {
            metrics
                .runs
                .get_or_create(&ByPhase { phase })
                .set(gauge(count));
        }
        for (&reason, count) in STALLED.iter().zip(self.stalled) {
            let stalled = metrics.runs_stalled.get_or_create(&ByReason { reason });
            stalled.set(gauge(count));
        }
        metrics.runs_in_doubt.set(gauge(self.in_doubt));
        // The intent's time was taken from the wall clock.
        let age = |since| wall().duration_since(since).as_secs().max(0);
        metrics.oldest_doubt.set(self.oldest_doubt.map_or(0, age));
    }
}

/// Counts a word; the last place is for all words that are not known.
fn count(counts: &mut [usize], words: &[&str], word: &str) {
    let last = words.len().saturating_sub(1);
    let place = words.iter().position(|w| *w == word).unwrap_or(last);
    if let Some(count) = counts.get_mut(place) {
        *count += 1;
    }
}

/// The reason for which an unfinished Run waits for a person.
fn stalled(run: &Run) -> Option<&str> {
    let conditions = &run.status.as_ref()?.conditions;
    let stalled = find(conditions, ConditionType::Stalled).filter(|c| c.status == "True")?;
    (!is_true(conditions, ConditionType::Finished)).then_some(&*stalled.reason)
}

/// Time of the intent of an unfinished Run whose outcome is not in the status.
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

fn workspaces<K: Kind>(ctx: &Context, not_ready: &mut [usize]) {
    let mut by_status = [0; READY.len()];
    for object in K::stores(ctx).iter().flat_map(Store::state) {
        let (status, reason) = ready(&object);
        count(&mut by_status, READY, status);
        if status != "True" {
            count(not_ready, NOT_READY, reason);
        }
    }
    for (&ready, count) in READY.iter().zip(by_status) {
        let kind = match K::KIND {
            WorkspaceKind::Workspace => "Workspace",
            WorkspaceKind::ClusterWorkspace => "ClusterWorkspace",
        };
        let of_status = ctx
            .metrics
            .workspaces
            .get_or_create(&ByReady { kind, ready });
        of_status.set(gauge(count));
    }
}

/// Status and reason of the Ready condition. A Workspace that can't be decoded is not Ready, whatever its last status.
fn ready<K: Kind>(object: &Maybe<K>) -> (&str, &str) {
    let Maybe::Good(workspace) = object else {
        return ("False", Reason::WorkspaceInvalid.as_str());
    };
    let status = workspace.stored();
    let ready = status.and_then(|s| find(&s.conditions, ConditionType::Ready));
    ready.map_or(("", ""), |ready| (&*ready.status, &*ready.reason))
}

#[cfg(test)]
mod tests;
