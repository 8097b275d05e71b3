//! The gauges of Runs and Workspaces, set at the scrape from counts that the indexes keep: no object is
//! looked at.

use crate::api::run::WorkspaceKind;

use super::{
    context::{Context, wall},
    index::{RunCounts, WorkspaceCounts},
    metrics::{
        Metrics,
        catalogue::{NOT_READY, PHASES, READY, STALLED},
    },
};

/// Sets the gauges.
pub(super) fn take(ctx: &Context) {
    runs(&ctx.metrics, &ctx.run_index.counts());
    ctx.metrics
        .remembered
        .set(i64::try_from(ctx.objects.count()).unwrap_or(i64::MAX));
    let own = ctx.workspace_index(WorkspaceKind::Workspace).counts();
    let shared = ctx
        .workspace_index(WorkspaceKind::ClusterWorkspace)
        .counts();
    workspaces(&ctx.metrics, &own, &shared);
}

fn runs(metrics: &Metrics, counts: &RunCounts) {
    for (phase, count) in PHASES.iter().zip(counts.phases) {
        metrics.set_runs(phase, count);
    }
    for (reason, count) in STALLED.iter().zip(counts.stalled) {
        metrics.set_stalled(reason, count);
    }
    metrics
        .runs_in_doubt
        .set(i64::try_from(counts.in_doubt).unwrap_or(i64::MAX));
    // The intent's time is a stored one: the wall clock's.
    let age = |since| wall().duration_since(since).as_secs().max(0);
    metrics.oldest_doubt.set(counts.oldest_doubt.map_or(0, age));
}

fn workspaces(metrics: &Metrics, own: &WorkspaceCounts, shared: &WorkspaceCounts) {
    for (kind, counts) in [("Workspace", own), ("ClusterWorkspace", shared)] {
        for (shown, count) in READY.iter().zip(counts.ready) {
            metrics.set_workspaces(kind, shown, count);
        }
    }
    let both = own.not_ready.iter().zip(shared.not_ready);
    for (reason, (own, shared)) in NOT_READY.iter().zip(both) {
        metrics.set_not_ready(reason, own + shared);
    }
}
