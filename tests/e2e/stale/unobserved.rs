//! Unobserved state: changes while the watch is silent are never delivered, and the first list after it shows
//! only their result.

use rstest::rstest;
use run_operator::api::Phase;
use serde_json::json;

use super::{Asked, cancels, force_away, ledger, lists, running, stage, writes};
use crate::support::{TOKEN, holds_for_a_while};

/// Every event comes late, or none comes and a list shows the present.
/// Proves: F-stale
#[rstest]
#[case::told_late(false)]
#[case::never_told(true)]
#[tokio::test]
async fn a_run_replaced_unseen_is_cancelled_and_the_new_one_submitted(#[case] by_list: bool) {
    let (proxy, world) = stage().await;
    let first = running(&world, "train").await;
    let deleted = running(&world, "deleted").await;
    let cancelled = running(&world, "cancelled").await;
    proxy.freeze("runs").await;
    force_away(&world, "train").await;
    // One that is created and deleted without ever being seen.
    world.simulate("train", json!({"outcome": "never"})).await;
    force_away(&world, "train").await;
    let last = world.simulate("train", json!({"outcome": "never"})).await;
    world.delete_run("deleted").await;
    let cancel = json!({"spec": {"cancel": true}});
    world.patch_run("cancelled", cancel).await;
    if by_list {
        proxy.relist("runs");
    } else {
        proxy.thaw("runs");
    }
    world.state("train", "running").await;
    world.gone("deleted").await;
    world.phase("cancelled", Phase::Cancelled).await;
    let mut ended = [&first, &deleted, &cancelled]
        .map(|run| (run, "cancelled"))
        .to_vec();
    ended.push((&last, "running"));
    ledger(&world, &ended).await;
    assert_eq!(lists(&proxy), 1 + usize::from(by_list));
}

/// The event is lost, and the watch continues: only the operator's own write can show it.
/// Proves: F-stale
#[tokio::test]
async fn a_deletion_without_an_event_is_noticed_at_the_first_write() {
    let (proxy, world) = stage().await;
    let run = world.running("train").await;
    proxy.withhold("runs", "train");
    force_away(&world, "train").await;
    world.set_state("train", "provisioning").await;
    ledger(&world, &[(&run, "cancelled")]).await;
    let tries = writes(&proxy);
    // The store shows it still; nothing more is tried for it.
    let other = world.running("other").await;
    world.token("another").await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    world.token(TOKEN).await;
    world.workspace_ready("default", "True", "Verified").await;
    let of_this = |asked: &Asked| asked.verb == "patch" && asked.name.as_deref() == Some("train");
    assert!(proxy.asked(of_this).len() <= tries, "written again");
    assert_eq!(cancels(&world, &run).await, 1);
    ledger(&world, &[(&run, "cancelled"), (&other, "running")]).await;
}

/// A change of the object is never delivered; the operator's next write is refused and it reads the object
/// live.
/// Proves: F-stale
#[tokio::test]
async fn an_unseen_cancel_is_noticed_at_the_second_conflict() {
    let (proxy, world) = stage().await;
    let run = world.running("train").await;
    proxy.withhold("runs", "train");
    world
        .patch_run("train", json!({"spec": {"cancel": true}}))
        .await;
    let before = writes(&proxy);
    world.set_state("train", "provisioning").await;
    world.phase("train", Phase::Cancelled).await;
    world.released("train").await;
    ledger(&world, &[(&run, "cancelled")]).await;
    let tries = writes(&proxy) - before;
    assert!(tries <= 8, "{tries} writes");
}

/// A Workspace that the watch does not bring back costs the service a bounded number of checks.
/// Proves: F-outage
#[tokio::test]
async fn probes_of_a_workspace_that_cannot_be_written_back_off() {
    let (proxy, world) = stage().await;
    world.workspace_ready("default", "True", "Verified").await;
    proxy.freeze("workspaces").await;
    let label = ["label", "workspaces.run-operator.dev", "default", "seen=no"];
    world.kubectl(&label, "").await.unwrap();
    let before = world.service.count("getWorkspace").await;
    world.token("another").await;
    proxy.until("patch", "workspaces/status", 3).await;
    let checks = async || world.service.count("getWorkspace").await - before;
    holds_for_a_while(400, async || {
        let checks = checks().await;
        assert!(checks <= 9, "{checks} checks");
    })
    .await;
    assert!(checks().await > 0);
    world.token(TOKEN).await;
    proxy.thaw("workspaces");
    world.workspace_ready("default", "True", "Verified").await;
}
