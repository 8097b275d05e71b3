//! The gauges of Runs and Workspaces, set at scrape time from the indexes' counts, without reading any object.

use crate::api::workspace_ref::WorkspaceKind;
use crate::clock::wall;

use super::{
    context::Context,
    metrics::{
        Metrics, gauge,
        labels::{ByPhase, ByReady, ByReason, NOT_READY, PHASES, READY, STALLED},
    },
    state::index::{RunCounts, WorkspaceCounts},
};

/// Sets the gauges.
pub(crate) fn take(ctx: &Context) {
    runs(&ctx.metrics, &ctx.run_index.counts());
    ctx.metrics.remembered.set(gauge(ctx.tracked_runs.count()));
    let own = ctx.workspace_index(WorkspaceKind::Workspace).counts();
    let shared = ctx
        .workspace_index(WorkspaceKind::ClusterWorkspace)
        .counts();
    workspaces(&ctx.metrics, &own, &shared);
}

/// Sets the gauges of the reconciles in flight, which every process has.
pub(crate) fn take_reconciles(ctx: &Context) {
    let all = [
        ("run", &ctx.run_trigger),
        ("workspace", &ctx.workspace_trigger),
        ("clusterworkspace", &ctx.cluster_workspace_trigger),
    ];
    for (controller, trigger) in all {
        let in_flight = trigger.in_flight();
        ctx.metrics
            .set_in_flight(controller, in_flight.count, in_flight.longest);
    }
}

fn runs(metrics: &Metrics, counts: &RunCounts) {
    for (&phase, count) in PHASES.iter().zip(counts.phases) {
        let runs = metrics.runs.get_or_create(&ByPhase { phase });
        runs.set(gauge(count));
    }
    for (&reason, count) in STALLED.iter().zip(counts.stalled) {
        let stalled = metrics.runs_stalled.get_or_create(&ByReason { reason });
        stalled.set(gauge(count));
    }
    metrics.runs_in_doubt.set(gauge(counts.in_doubt));
    // The intent's time was taken from the wall clock.
    let age = |since| wall().duration_since(since).as_secs().max(0);
    metrics.oldest_doubt.set(counts.oldest_doubt.map_or(0, age));
}

fn workspaces(metrics: &Metrics, own: &WorkspaceCounts, shared: &WorkspaceCounts) {
    for (kind, counts) in [("Workspace", own), ("ClusterWorkspace", shared)] {
        for (&ready, count) in READY.iter().zip(counts.ready) {
            let of_kind = metrics.workspaces.get_or_create(&ByReady { kind, ready });
            of_kind.set(gauge(count));
        }
    }
    let both = own.not_ready.iter().zip(shared.not_ready);
    for (&reason, (own, shared)) in NOT_READY.iter().zip(both) {
        let not_ready = metrics
            .workspaces_not_ready
            .get_or_create(&ByReason { reason });
        not_ready.set(gauge(own + shared));
    }
}
