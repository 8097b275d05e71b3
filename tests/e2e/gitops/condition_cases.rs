//! The situations of the table in docs/conditions.md, and how each tool reads them.

/// The condition whose message is in Argo CD's health message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// A condition's message.
    By(&'static str),
    /// `Being deleted: ` and Ready's message.
    Deleting,
    /// The script's own.
    Own(&'static str),
}

/// One object in one situation. The name is the object's, and its file's in `testdata`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    pub(super) kstatus: &'static str,
    pub(super) argo: &'static str,
    pub(super) told: Told,
    /// By the `healthCheckExprs` of `deploy/flux/runs.yaml`.
    pub(super) flux: &'static str,
    /// The actions that Argo CD offers.
    pub(super) actions: &'static [&'static str],
}

const UNSEEN: Told = Told::Own("Waiting for run-operator to see this version of the spec");
const HELD: Told = Told::Own("spec.suspend holds new Runs; submitted ones go on");

const fn run(
    name: &'static str,
    kstatus: &'static str,
    argo: &'static str,
    told: Told,
    flux: &'static str,
    actions: &'static [&'static str],
) -> Situation {
    let kind = "Run";
    Situation {
        kind,
        name,
        kstatus,
        argo,
        told,
        flux,
        actions,
    }
}

const fn shared(
    kind: &'static str,
    name: &'static str,
    kstatus: &'static str,
    argo: &'static str,
    told: Told,
    actions: &'static [&'static str],
) -> Situation {
    // A Terminating object is InProgress to expressions, which speak of nothing else.
    let flux = match kstatus.as_bytes() {
        b"Terminating" => "InProgress",
        _ => kstatus,
    };
    Situation {
        kind,
        name,
        kstatus,
        argo,
        told,
        flux,
        actions,
    }
}

const RECONCILING: Told = Told::By("Reconciling");
const STALLED: Told = Told::By("Stalled");
const READY: Told = Told::By("Ready");

/// Every row of the table for Runs, and what kstatus has beside it: not seen yet, seen too early, deleted.
#[rustfmt::skip]
pub(super) const RUNS: &[Situation] = &[
    run("waiting", "InProgress", "Progressing", RECONCILING, "InProgress", &["cancel", "suspend"]),
    run("retrying", "InProgress", "Progressing", RECONCILING, "InProgress", &["cancel"]),
    run("suspended", "InProgress", "Suspended", READY, "Current", &["cancel", "resume"]),
    run("create-refused", "Failed", "Degraded", STALLED, "Failed", &[]),
    run("refused", "Failed", "Degraded", STALLED, "Failed", &["cancel", "retry"]),
    run("active", "InProgress", "Progressing", RECONCILING, "InProgress", &["cancel"]),
    run("accepted", "Current", "Healthy", READY, "Current", &["cancel"]),
    run("two-run-ids", "Failed", "Degraded", STALLED, "Failed", &["cancel"]),
    run("cancelling", "InProgress", "Progressing", RECONCILING, "InProgress", &[]),
    run("succeeded", "Current", "Healthy", READY, "Current", &[]),
    run("failed", "Failed", "Degraded", STALLED, "Failed", &[]),
    run("deadline-exceeded", "Failed", "Degraded", STALLED, "Failed", &[]),
    run("cancelled", "Current", "Healthy", READY, "Current", &[]),
    run("cancelled-elsewhere", "Failed", "Degraded", STALLED, "Failed", &[]),
    run("terminating", "Terminating", "Progressing", Told::Deleting, "InProgress", &[]),
    run("fresh", "InProgress", "Progressing", UNSEEN, "InProgress", &["cancel", "suspend"]),
    run("stale", "InProgress", "Progressing", UNSEEN, "InProgress", &["cancel"]),
];

#[rustfmt::skip]
pub(super) const WORKSPACES: &[Situation] = &[
    shared("Workspace", "default", "Current", "Healthy", READY, &["suspend"]),
    shared("Workspace", "waiting", "InProgress", "Progressing", RECONCILING, &["suspend"]),
    shared("Workspace", "refused", "Failed", "Degraded", STALLED, &["suspend"]),
    shared("Workspace", "suspended", "Current", "Suspended", HELD, &["resume"]),
    shared("Workspace", "terminating", "Terminating", "Progressing", Told::Deleting, &[]),
    shared("Workspace", "fresh", "InProgress", "Progressing", UNSEEN, &["suspend"]),
    shared("Workspace", "stale", "InProgress", "Progressing", UNSEEN, &["suspend"]),
];

#[rustfmt::skip]
pub(super) const CLUSTER_WORKSPACES: &[Situation] = &[
    shared("ClusterWorkspace", "shared", "Current", "Healthy", READY, &["suspend"]),
    shared("ClusterWorkspace", "waiting", "InProgress", "Progressing", RECONCILING, &["suspend"]),
    shared("ClusterWorkspace", "refused", "Failed", "Degraded", STALLED, &["suspend"]),
    shared("ClusterWorkspace", "suspended", "Current", "Suspended", HELD, &["resume"]),
    shared("ClusterWorkspace", "fresh", "InProgress", "Progressing", UNSEEN, &["suspend"]),
];
