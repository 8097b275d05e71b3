//! Deletions: with a run, and orphaned. The table's other rows are proved in `policy`, a deletion in doubt in
//! `tests/chaos/points` too, and an object whose finalizer somebody tore off in `workspace_finalizer`.

use kube::ResourceExt;
use serde_json::json;

use crate::support::{World, held, row};

/// Proves: E-cancelRun, P-none-left, D-cancel
#[tokio::test]
async fn a_deleted_run_is_seen_cancelled_before_its_object_is_removed() {
    let world = World::new().await;
    let history = world.history().await;
    let stuck = json!({"runId": "train", "outcome": "never", "cancel": "stuck"});
    world.simulate("train", stuck).await;
    world.state("train", "running").await;
    world.delete_run("train").await;
    let run = world.state("train", "cancelling").await;
    assert_eq!(
        row(&run),
        "Cancelling: Accepted !Finished !Ready Reconciling"
    );
    assert!(held(&run));
    world.set_state("train", "cancelled").await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
    assert_eq!(runs[0]["cancels"], 1);
    history.holds().await;
}

/// Proves: P-orphan-policy
#[tokio::test]
async fn with_orphan_the_object_is_deleted_and_the_run_continues() {
    let world = World::new().await;
    let key = world.running("train").await.uid().unwrap();
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    let note = world.event("train", "Orphaned").await;
    assert!(note.contains(&key), "{note}");
    let log = world.operator_log();
    let mut published = log.lines().filter(|line| line.contains("publishing Event"));
    assert!(published.any(|line| line.contains(&format!("idempotency key {key}"))));
    let runs = world.service.runs().await;
    assert_eq!(runs[0]["state"], "running");
    assert_eq!(runs[0]["cancels"], 0);
    world.open_streams(0).await;
}
