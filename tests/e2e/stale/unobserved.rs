//! Unobserved state: changes while the watch is silent are never delivered, and the first list after it shows
//! only their result.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use run_operator::api::{ConditionType as Type, Phase};
use serde_json::json;

use super::{
    cancels, eventually_writes, force_away, ledger, lists, running, stage, stage_with, writes,
};
use crate::support::{Plane, Setup, TOKEN, holds_for_a_while, own_control_plane};

/// The operator's way of seeing the present.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Every event comes late.
    Events,
    /// No event comes, and a list shows the present.
    List,
}

impl Then {
    fn end(self, proxy: &super::Proxy, resource: &str) {
        match self {
            Self::Events => proxy.thaw(resource),
            Self::List => proxy.relist(resource),
        }
    }
}

/// Proves: F-stale
#[rstest]
#[case::told_late(Then::Events)]
#[case::never_told(Then::List)]
#[tokio::test]
async fn a_run_replaced_unseen_is_cancelled_and_the_new_one_submitted(#[case] then: Then) {
    let (proxy, world) = stage().await;
    let first = running(&world, "train").await;
    proxy.freeze("runs").await;
    force_away(&world, "train").await;
    // One that is created and deleted without ever being seen.
    world.simulate("train", json!({"outcome": "never"})).await;
    force_away(&world, "train").await;
    let last = world.simulate("train", json!({"outcome": "never"})).await;
    then.end(&proxy, "runs");
    world.state("train", "running").await;
    ledger(&world, &[(&first, "cancelled"), (&last, "running")]).await;
    world.delete_run("train").await;
    world.gone("train").await;
    ledger(&world, &[(&first, "cancelled"), (&last, "cancelled")]).await;
}

/// Proves: F-stale
#[rstest]
#[case::told_late(Then::Events)]
#[case::never_told(Then::List)]
#[tokio::test]
async fn an_unseen_deletion_cancel_and_removal_are_all_caught_up_on(#[case] then: Then) {
    let (proxy, world) = stage().await;
    let deleted = running(&world, "deleted").await;
    let cancelled = running(&world, "cancelled").await;
    let taken = running(&world, "taken").await;
    proxy.freeze("runs").await;
    world.delete_run("deleted").await;
    let cancel = json!({"spec": {"cancel": true}});
    world.patch_run("cancelled", cancel.clone()).await;
    world.patch_run("taken", cancel).await;
    force_away(&world, "taken").await;
    then.end(&proxy, "runs");
    world.gone("deleted").await;
    world.phase("cancelled", Phase::Cancelled).await;
    ledger(
        &world,
        &[
            (&deleted, "cancelled"),
            (&cancelled, "cancelled"),
            (&taken, "cancelled"),
        ],
    )
    .await;
    assert_eq!(cancels(&world, &deleted).await, 1);
    assert_eq!(lists(&proxy), if then == Then::List { 2 } else { 1 });
}

/// The event is lost, and the watch continues: only the operator's own write can show it.
/// Proves: F-stale
#[tokio::test]
async fn a_deletion_without_an_event_is_noticed_at_the_first_write() {
    let (proxy, world) = stage().await;
    let run = running(&world, "train").await;
    proxy.withhold("runs", "train");
    force_away(&world, "train").await;
    let run_id = run.status.as_ref().unwrap().run_id.clone().unwrap();
    let state = json!({"state": "provisioning"});
    world
        .service
        .post(&format!("runs/{run_id}/state"), state)
        .await;
    ledger(&world, &[(&run, "cancelled")]).await;
    let tries = writes(&proxy);
    let calls = world.service.run_calls().await;
    // The store shows it still; nothing more is tried for it.
    let other = running(&world, "other").await;
    world.token("another").await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    world.token(TOKEN).await;
    world.workspace_ready("default", "True", "Verified").await;
    let of_this =
        |asked: &super::Asked| asked.verb == "patch" && asked.name.as_deref() == Some("train");
    assert!(proxy.asked(of_this).len() <= tries, "written again");
    assert!(calls > 0);
    assert_eq!(cancels(&world, &run).await, 1);
    ledger(&world, &[(&run, "cancelled"), (&other, "running")]).await;
}

/// A change of the object is never delivered; the operator's next write is refused and it reads the object
/// live.
/// Proves: F-stale
#[tokio::test]
async fn an_unseen_cancel_is_noticed_at_the_second_conflict() {
    let (proxy, world) = stage().await;
    let run = running(&world, "train").await;
    proxy.withhold("runs", "train");
    world
        .patch_run("train", json!({"spec": {"cancel": true}}))
        .await;
    let before = writes(&proxy);
    let run_id = run.status.as_ref().unwrap().run_id.clone().unwrap();
    let state = json!({"state": "provisioning"});
    world
        .service
        .post(&format!("runs/{run_id}/state"), state)
        .await;
    world.phase("train", Phase::Cancelled).await;
    world.released("train").await;
    ledger(&world, &[(&run, "cancelled")]).await;
    let tries = writes(&proxy) - before;
    assert!(tries <= 8, "{tries} writes");
}

/// Proves: F-stale
#[rstest]
#[case::told_late(Then::Events)]
#[case::never_told(Then::List)]
#[tokio::test]
async fn a_workspace_replaced_unseen_takes_effect_once_it_is_observed(#[case] then: Then) {
    let (proxy, world) = stage().await;
    let kept = running(&world, "kept").await;
    proxy.freeze("workspaces").await;
    world.force_workspace_away("default").await;
    let suspended = json!({"suspend": true});
    world.create_workspace("default", suspended).await;
    // As far as the operator knows, this may be submitted.
    let meanwhile = running(&world, "meanwhile").await;
    then.end(&proxy, "workspaces");
    // The new one's status is empty until it is seen.
    world.workspace_ready("default", "True", "Verified").await;
    world.create_run("late", json!({})).await;
    world
        .condition("late", Type::Reconciling, "True", "WorkspaceSuspended")
        .await;
    let patch = Patch::Merge(json!({"spec": {"suspend": null}}));
    let params = PatchParams::default();
    let workspaces = world.workspaces();
    workspaces.patch("default", &params, &patch).await.unwrap();
    let late = world.phase("late", Phase::Succeeded).await;
    for name in ["kept", "meanwhile"] {
        world.delete_run(name).await;
        world.gone(name).await;
    }
    let ended = [
        (&kept, "cancelled"),
        (&meanwhile, "cancelled"),
        (&late, "succeeded"),
    ];
    ledger(&world, &ended).await;
}

/// The first call that is refused has the Secret read past the watch.
/// Proves: F-stale
#[tokio::test]
async fn a_token_rotated_unseen_is_read_at_the_first_401() {
    let (proxy, world) = stage().await;
    let first = running(&world, "first").await;
    proxy.freeze("secrets").await;
    let tokens = world.service.get("tokens").await;
    let old = tokens[0]["fingerprint"].as_str().unwrap().to_owned();
    world
        .service
        .post("tokens", json!({"token": "another"}))
        .await;
    world.token("another").await;
    world.service.delete(&format!("tokens/{old}")).await;
    let second = world.create_run("second", json!({})).await;
    world.phase("second", Phase::Succeeded).await;
    world.delete_run("first").await;
    world.gone("first").await;
    ledger(&world, &[(&first, "cancelled"), (&second, "succeeded")]).await;
    assert!(world.unauthorized().await <= 4);
}

/// A Workspace that the watch does not bring back costs the service a bounded number of checks.
/// Proves: F-refusing
#[tokio::test]
async fn probes_of_a_workspace_that_cannot_be_written_back_off() {
    let (proxy, world) = stage().await;
    world.workspace_ready("default", "True", "Verified").await;
    proxy.freeze("workspaces").await;
    let note = Patch::Merge(json!({"metadata": {"labels": {"seen": "no"}}}));
    let params = PatchParams::default();
    world
        .workspaces()
        .patch("default", &params, &note)
        .await
        .unwrap();
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

/// The labels of a namespace, and so its right to a `ClusterWorkspace`, change unseen.
/// Proves: F-stale
#[tokio::test]
async fn a_namespace_deselected_unseen_keeps_its_run_and_submits_none() {
    let own = own_control_plane().await;
    let (proxy, world) = stage_with(Setup {
        plane: Plane::Own(own),
        everywhere: true,
        ..Setup::default()
    })
    .await;
    let shared = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "ClusterWorkspace",
        "metadata": {"name": "shared"},
        "spec": {"namespaceSelector": {"matchLabels": {"runs": "yes"}}},
    });
    world
        .kubectl(&["create", "-f", "-"], &shared.to_string())
        .await
        .unwrap();
    let label = async |value: &str| {
        let label = format!("runs={value}");
        let args = [
            "label",
            "--overwrite",
            "namespace",
            &world.namespace,
            &label,
        ];
        world.kubectl(&args, "").await.unwrap();
    };
    label("yes").await;
    let of_shared = json!({
        "workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"},
        "workload": {"image": "i", "simulate": {"outcome": "never"}},
    });
    let first = world.create_run("first", of_shared.clone()).await;
    world.state("first", "running").await;
    proxy.freeze("namespaces").await;
    label("no").await;
    // A watch that begins after the list: its labels are in effect by then.
    let watches = proxy.count("watch", "namespaces");
    proxy.relist("namespaces");
    proxy.until("watch", "namespaces", watches + 1).await;
    world.create_run("second", of_shared).await;
    world
        .condition("second", Type::Ready, "False", "NamespaceNotAllowed")
        .await;
    world.delete_run("first").await;
    world.gone("first").await;
    ledger(&world, &[(&first, "cancelled")]).await;
    eventually_writes(&proxy, 1).await;
    assert_eq!(world.posts_of(&first).await, 1);
    let second = world.run("second").await;
    assert!(second.uid().is_some());
    assert_eq!(world.posts_of(&second).await, 0);
}
