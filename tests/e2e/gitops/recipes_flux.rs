//! The recipes of `docs/gitops.md` for Flux, by the library that its kustomize-controller applies and waits with.

use kube::ResourceExt;
use run_operator::api::Phase;
use serde_json::json;

use super::tools::{cancelled_and_succeeded, endless, example, simulating};
use crate::support::{World, says};

/// Longer than anything here takes; a failure ends the wait at once.
const WAIT: [&str; 2] = ["--timeout", "80s"];

/// Proves: P-recipes
#[tokio::test]
async fn flux_waits_until_a_run_has_succeeded_or_failed() {
    let world = World::new().await;
    world.flux("apply", &WAIT, &example("waves")).await.unwrap();
    let run = world.run("train").await;
    assert_eq!(run.status.unwrap().phase, Some(Phase::Succeeded));
    let fails =
        simulating(&example("promotion/run"), "failed").replace("name: train", "name: fails");
    let complaint = world.flux("apply", &WAIT, &fails).await.unwrap_err();
    says(&complaint, &["fails", "Failed"]);
    assert!(!complaint.contains("timeout waiting"), "{complaint}");
}

/// Proves: P-recipes
#[tokio::test]
async fn flux_waits_for_no_more_than_ready_when() {
    let world = World::new().await;
    let manifests = endless(&example("long"));
    world.flux("apply", &WAIT, &manifests).await.unwrap();
    let train = world.run("train").await;
    assert_eq!(train.status.unwrap().phase, Some(Phase::Active));
}

/// Proves: P-recipes
#[tokio::test]
async fn flux_rejects_a_changed_workload_and_recreates_it_with_force() {
    let world = World::new().await;
    let plain = endless(&example("promotion/run"));
    world.flux("apply", &[], &plain).await.unwrap();
    let before = world.state("train", "running").await;
    let changed = |text: &str| text.replace("train:1.4", "train:1.5");
    let complaint = world.flux("apply", &[], &changed(&plain)).await;
    says(&complaint.unwrap_err(), &["is immutable"]);
    assert_eq!(world.run("train").await.uid(), before.uid());
    // The annotation of the example, in force from the moment that the object has it.
    let forced = endless(&example("rerun"));
    world.flux("apply", &[], &forced).await.unwrap();
    assert_eq!(world.run("train").await.uid(), before.uid());
    let changed = changed(&example("rerun"));
    world.flux("apply", &[], &changed).await.unwrap();
    let after = world.phase("train", Phase::Succeeded).await;
    assert_ne!(after.uid(), before.uid());
    cancelled_and_succeeded(&world).await;
    // Unlike Argo CD's options, it asks whether anything changed.
    world.flux("apply", &[], &changed).await.unwrap();
    assert_eq!(world.run("train").await.uid(), after.uid());
}

/// Proves: P-recipes
#[tokio::test]
async fn flux_pruning_cancels_a_run_unless_it_is_disabled_for_it() {
    let world = World::new().await;
    let kept = endless(&example("keep"));
    let pruned = endless(&example("promotion/run")).replace("name: train", "name: pruned");
    let both = format!("{kept}---\n{pruned}");
    world.flux("apply", &[], &both).await.unwrap();
    for name in ["train", "pruned"] {
        world.state(name, "running").await;
    }
    world.flux("delete", &[], &both).await.unwrap();
    world.gone("pruned").await;
    let kept = world.run("train").await.metadata;
    assert_eq!(kept.deletion_timestamp, None);
    assert_eq!(world.service.get("stats").await["cancels"], 1);
}

/// Proves: P-argocd, P-recipes
#[tokio::test]
async fn a_cancellation_by_hand_is_no_drift_to_flux() {
    let world = World::new().await;
    let manifests = endless(&example("promotion/run"));
    world.flux("apply", &[], &manifests).await.unwrap();
    world.state("train", "running").await;
    let cancel = json!({"spec": {"cancel": true}});
    world.patch_run("train", cancel).await;
    world.phase("train", Phase::Cancelled).await;
    let differing = world.flux("diff", &[], &manifests).await.unwrap();
    assert_eq!(differing, json!([]));
    world.flux("apply", &[], &manifests).await.unwrap();
    assert_eq!(world.run("train").await.spec.cancel, Some(true));
}
