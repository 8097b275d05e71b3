//! The situations of the table in docs/reasons.md, and how each tool reads them.

/// One object in one situation, by the object's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub(super) name: &'static str,
    pub(super) kstatus: &'static str,
    pub(super) argo: &'static str,
    /// The condition whose message is in Argo CD's; else the script's own words.
    pub(super) told: &'static str,
    /// By the `healthCheckExprs` of `deploy/flux/runs.yaml`.
    pub(super) flux: &'static str,
    /// The actions that Argo CD offers.
    pub(super) actions: &'static [&'static str],
}

const UNSEEN: &str = "Waiting for run-operator to see this version of the spec";
const HELD: &str = "spec.suspend holds new Runs; submitted ones go on";

const fn row(
    name: &'static str,
    kstatus: &'static str,
    argo: &'static str,
    told: &'static str,
    flux: &'static str,
    actions: &'static [&'static str],
) -> Situation {
    Situation {
        name,
        kstatus,
        argo,
        told,
        flux,
        actions,
    }
}

/// Every row of the table for Runs, and what kstatus has beside it: not seen yet, seen too early, deleted.
#[rustfmt::skip]
pub(super) const RUNS: &[Situation] = &[
    row("waiting", "InProgress", "Progressing", "Reconciling", "InProgress", &["cancel", "suspend"]),
    row("retrying", "InProgress", "Progressing", "Reconciling", "InProgress", &["cancel"]),
    row("suspended", "InProgress", "Suspended", "Suspended", "Current", &["cancel", "resume"]),
    row("create-refused", "Failed", "Degraded", "Stalled", "Failed", &["rerun"]),
    row("refused", "Failed", "Degraded", "Stalled", "Failed", &["cancel", "retry"]),
    row("active", "InProgress", "Progressing", "Reconciling", "InProgress", &["cancel"]),
    row("accepted", "Current", "Healthy", "Ready", "Current", &["cancel"]),
    row("two-run-ids", "Failed", "Degraded", "Stalled", "Failed", &["cancel"]),
    row("cancelling", "InProgress", "Progressing", "Reconciling", "InProgress", &[]),
    row("succeeded", "Current", "Healthy", "Ready", "Current", &["rerun"]),
    row("failed", "Failed", "Degraded", "Stalled", "Failed", &["rerun"]),
    row("deadline-exceeded", "Failed", "Degraded", "Stalled", "Failed", &["rerun"]),
    row("cancelled", "Current", "Healthy", "Ready", "Current", &["rerun"]),
    row("cancelled-elsewhere", "Failed", "Degraded", "Stalled", "Failed", &["rerun"]),
    row("terminating", "Terminating", "Progressing", "Ready", "InProgress", &[]),
    row("fresh", "InProgress", "Progressing", UNSEEN, "InProgress", &["cancel", "suspend"]),
    row("stale", "InProgress", "Progressing", UNSEEN, "InProgress", &["cancel"]),
];

#[rustfmt::skip]
pub(super) const WORKSPACES: &[Situation] = &[
    row("default", "Current", "Healthy", "Ready", "Current", &["suspend"]),
    row("waiting", "InProgress", "Progressing", "Reconciling", "InProgress", &["suspend"]),
    row("refused", "Failed", "Degraded", "Stalled", "Failed", &["suspend"]),
    row("suspended", "Current", "Suspended", HELD, "Current", &["resume"]),
    row("terminating", "Terminating", "Progressing", "Ready", "InProgress", &[]),
    row("fresh", "InProgress", "Progressing", UNSEEN, "InProgress", &["suspend"]),
    row("stale", "InProgress", "Progressing", UNSEEN, "InProgress", &["suspend"]),
];

#[rustfmt::skip]
pub(super) const CLUSTER_WORKSPACES: &[Situation] = &[
    row("shared", "Current", "Healthy", "Ready", "Current", &["suspend"]),
    row("waiting", "InProgress", "Progressing", "Reconciling", "InProgress", &["suspend"]),
    row("refused", "Failed", "Degraded", "Stalled", "Failed", &["suspend"]),
    row("suspended", "Current", "Suspended", HELD, "Current", &["resume"]),
    row("fresh", "InProgress", "Progressing", UNSEEN, "InProgress", &["suspend"]),
];
