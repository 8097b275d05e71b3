//! Stale state: the operator is shown an earlier time, and then the present. `matrix` shows it every version of two lives.

use kube::ResourceExt;
use run_operator::api::{Phase, Run};
use serde_json::json;

use super::{
    cancels, eventually_lists, eventually_writes, force_away, ledger, lists, running, stage, writes,
};
use crate::support::{Fault, Hook, holds_for_a_while, intent_of};

/// Long enough for several tries at the pace of conflicts.
const A_WHILE: u32 = 60;

fn version(run: &Run) -> u64 {
    run.resource_version().unwrap().parse().unwrap()
}

/// The list steps back in time while the operator runs, to before a Run existed.
/// Proves: F-stale
#[tokio::test]
async fn a_list_from_the_past_that_lacks_a_live_run_cancels_nothing() {
    let (proxy, world) = stage().await;
    let before = proxy.version().await;
    let run = running(&world, "train").await;
    let listed = lists(&proxy);
    proxy.relist("runs");
    proxy.show("runs", before);
    eventually_lists(&proxy, listed + 1).await;
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(cancels(&world, &run).await, 0, "a live object's run");
    })
    .await;
    proxy.thaw("runs");
    world
        .patch_run("train", json!({"spec": {"cancel": true}}))
        .await;
    world.phase("train", Phase::Cancelled).await;
    ledger(&world, &[(&run, "cancelled")]).await;
}

/// Both changes come while a status write of the Run is in flight, so that no reconcile sees the object between them.
/// Proves: F-stale
#[tokio::test]
async fn a_run_orphaned_unseen_is_not_cancelled_on_its_delete_event() {
    let (proxy, world) = stage().await;
    let run = world.running("train").await;
    let (release, hook) = Hook::held();
    let before = writes(&proxy);
    proxy.fault(1, Fault::LoseAnswer(hook), |asked| {
        asked.is("patch", "runs/status")
    });
    world.set_state("train", "provisioning").await;
    eventually_writes(&proxy, before + 1).await;
    let orphan = json!({"spec": {"deletionPolicy": "Orphan"}});
    world.patch_run("train", orphan).await;
    force_away(&world, "train").await;
    // When the watch has shown this Run, it has shown the deletion.
    let other = world.running("other").await;
    release();
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(cancels(&world, &run).await, 0, "Orphan was its last word");
    })
    .await;
    ledger(&world, &[(&run, "provisioning"), (&other, "running")]).await;
}

/// The object has the intent of a process that has ended, and the view of the next one does not have it.
/// Proves: F-stale, P-owner-posts
#[tokio::test]
async fn a_version_without_the_intent_is_posted_only_after_a_takeover() {
    let (proxy, mut world) = stage().await;
    let create = json!({"operation": "createRun"});
    let hang = json!({"type": "hang", "forMs": 60000, "execute": true});
    world.service.fault(create, hang).await;
    let created = world.create_run("train", json!({})).await;
    world.asked("createRun", 1).await;
    world.kill_operator();
    proxy.show("runs", version(&created));
    let before = proxy.count("patch", "runs");
    world.start_operator().await;
    proxy.until("patch", "runs", before + 1).await;
    let note = json!({"metadata": {"labels": {"seen": "no"}}});
    world.patch_run("train", note).await;
    proxy.thaw("runs");
    let run = world.phase("train", Phase::Succeeded).await;
    assert_eq!(intent_of(&run).unwrap()["epoch"], 2);
    assert_eq!(world.posts_of(&created).await, 2);
    ledger(&world, &[(&created, "succeeded")]).await;
}
