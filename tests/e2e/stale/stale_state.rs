//! Stale state: an operator that restarts is shown an earlier time, and then the present.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use run_operator::api::{Phase, Run};
use serde_json::json;

use super::{
    cancels, eventually_lists, eventually_writes, force_away, ledger, lists, running, stage, writes,
};
use crate::support::{World, held, holds_for_a_while, intent_of, phase_of};

/// Long enough for several tries at the pace of conflicts.
const A_WHILE: u32 = 60;

fn version(run: &Run) -> u64 {
    run.resource_version().unwrap().parse().unwrap()
}

async fn nothing_is_posted(world: &World, posts: usize) {
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.service.requests("createRun").await.len(), posts);
    })
    .await;
}

/// Proves: F-stale
#[tokio::test]
async fn a_version_from_before_the_submission_is_not_submitted_again() {
    let (proxy, mut world) = stage().await;
    let created = world.simulate("train", json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    world.kill_operator();
    let before = proxy.count("patch", "runs");
    proxy.show("runs", version(&created));
    world.start_operator().await;
    world.workspace_ready("default", "True", "Verified").await;
    proxy.until("patch", "runs", before + 1).await;
    nothing_is_posted(&world, 1).await;
    let tries = proxy.count("patch", "runs") - before;
    assert!(tries <= 4, "{tries} writes in two seconds on an old view");
    proxy.thaw("runs");
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(world.posts_of(&created).await, 1);
    ledger(&world, &[(&created, "cancelled")]).await;
}

/// Proves: F-stale
#[tokio::test]
async fn shown_a_finished_run_as_it_ran_it_undoes_no_end() {
    let (proxy, mut world) = stage().await;
    let history = world.history().await;
    let created = world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    let ended = world.released("train").await;
    world.kill_operator();
    let running = history
        .of("train")
        .into_iter()
        .find(|run| run.status.as_ref().is_some_and(|s| s.run_id.is_some()));
    proxy.show("runs", version(&running.unwrap()));
    world.start_operator().await;
    // Two lists after the start and the first write at the latest, the present is known.
    proxy.until("patch", "runs/status", 1).await;
    proxy.thaw("runs");
    world.create_run("other", json!({})).await;
    let other = world.phase("other", Phase::Succeeded).await;
    let after = world.run("train").await;
    assert_eq!(after.resource_version(), ended.resource_version());
    assert_eq!(world.posts_of(&created).await, 1);
    assert_eq!(cancels(&world, &created).await, 0);
    history.holds().await;
    ledger(&world, &[(&created, "succeeded"), (&other, "succeeded")]).await;
}

/// Proves: F-stale
#[rstest]
#[case::as_it_ran(false)]
#[case::as_it_was_about_to_be_let_go(true)]
#[tokio::test]
async fn a_version_from_before_a_recreation_leaves_the_new_run_intact(#[case] ended: bool) {
    let (proxy, mut world) = stage().await;
    let history = world.history().await;
    let mut first = running(&world, "train").await;
    world.delete_run("train").await;
    world.gone("train").await;
    history.gone("train").await;
    if ended {
        // The last one is delivered with the version of the deletion itself.
        let mut versions = history.of("train").into_iter();
        let about = |run: &Run| held(run) && phase_of(run) == Some(Phase::Cancelled);
        first = versions.find(about).unwrap();
    }
    let second = running(&world, "train").await;
    assert!(held(&second));
    world.kill_operator();
    let tried = writes(&proxy);
    proxy.show("runs", version(&first));
    world.start_operator().await;
    // It tries to write the first one's end, or to let it go, and meets the second one.
    eventually_writes(&proxy, tried + 1).await;
    holds_for_a_while(A_WHILE, async || {
        let now = world.run("train").await;
        assert_eq!(now.resource_version(), second.resource_version());
    })
    .await;
    assert_eq!(cancels(&world, &second).await, 0);
    proxy.relist("runs");
    ledger(&world, &[(&first, "cancelled"), (&second, "running")]).await;
    world.delete_run("train").await;
    world.gone("train").await;
    ledger(&world, &[(&first, "cancelled"), (&second, "cancelled")]).await;
    assert_eq!(world.service.requests("createRun").await.len(), 2);
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

/// Orphaned and removed while no operator ran; the next one is first shown it as it ran.
/// Proves: F-stale
#[tokio::test]
async fn a_run_orphaned_unseen_is_not_cancelled_on_its_delete_event() {
    let (proxy, mut world) = stage().await;
    let run = running(&world, "train").await;
    world.kill_operator();
    let orphan = json!({"spec": {"deletionPolicy": "Orphan"}});
    world.patch_run("train", orphan).await;
    force_away(&world, "train").await;
    proxy.show("runs", version(&run));
    let streams = world.service.requests("streamEvents").await.len();
    world.start_operator().await;
    world.asked("streamEvents", streams + 1).await;
    proxy.thaw("runs");
    let other = running(&world, "other").await;
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(cancels(&world, &run).await, 0, "Orphan was its last word");
    })
    .await;
    ledger(&world, &[(&run, "running"), (&other, "running")]).await;
}

/// The object has the intent of a process that has ended, and the view of the next one does not have it.
/// Proves: F-stale, P-owner-posts
#[tokio::test]
async fn a_version_without_the_intent_is_posted_only_after_a_takeover() {
    let (proxy, mut world) = stage().await;
    world
        .service
        .fault(
            json!({"operation": "createRun"}),
            json!({"type": "hang", "forMs": 60000, "execute": true}),
        )
        .await;
    let created = world.create_run("train", json!({})).await;
    world.asked("createRun", 1).await;
    world.kill_operator();
    proxy.show("runs", version(&created));
    let before = proxy.count("patch", "runs");
    world.start_operator().await;
    proxy.until("patch", "runs", before + 1).await;
    let params = PatchParams::default();
    let note = Patch::Merge(json!({"metadata": {"labels": {"seen": "no"}}}));
    world.runs().patch("train", &params, &note).await.unwrap();
    proxy.thaw("runs");
    let run = world.phase("train", Phase::Succeeded).await;
    assert_eq!(intent_of(&run).unwrap()["epoch"], 2);
    assert_eq!(world.posts_of(&created).await, 2);
    ledger(&world, &[(&created, "succeeded")]).await;
}
