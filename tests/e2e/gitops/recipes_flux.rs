//! The recipes of `docs/gitops.md` for Flux, by the library that its kustomize-controller applies and waits with.

use kube::ResourceExt;
use run_operator::api::Phase;
use serde_json::json;

use super::tools::{endless, text_of};
use crate::support::World;

fn example(name: &str) -> String {
    text_of(&format!("deploy/examples/gitops/{name}.yaml"))
}

/// Longer than anything here takes; a failure ends the wait at once.
const WAIT: [&str; 2] = ["--timeout", "80s"];

/// Proves: P-recipes
#[tokio::test]
async fn flux_waits_until_a_run_has_succeeded_or_failed() {
    let world = World::new().await;
    world.flux("apply", &WAIT, &example("waves")).await.unwrap();
    let run = world.run("train").await;
    assert_eq!(run.status.unwrap().phase, Some(Phase::Succeeded));
    let image = "image: ghcr.io/acme/train:1.4\n";
    let fails = example("promotion/run")
        .replace("name: train", "name: fails")
        .replace(
            image,
            &format!("{image}    simulate: {{outcome: failed}}\n"),
        );
    let complaint = world.flux("apply", &WAIT, &fails).await.unwrap_err();
    assert!(
        complaint.contains("fails") && complaint.contains("Failed"),
        "{complaint}"
    );
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
    let complaint = world
        .flux("apply", &[], &changed(&plain))
        .await
        .unwrap_err();
    assert!(complaint.contains("is immutable"), "{complaint}");
    assert_eq!(world.run("train").await.uid(), before.uid());
    // The annotation of the example, in force from the moment that the object has it.
    world
        .flux("apply", &[], &endless(&example("rerun")))
        .await
        .unwrap();
    assert_eq!(world.run("train").await.uid(), before.uid());
    world
        .flux("apply", &[], &changed(&example("rerun")))
        .await
        .unwrap();
    let after = world.phase("train", Phase::Succeeded).await;
    assert_ne!(after.uid(), before.uid());
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 2);
    assert_eq!(
        (&runs[0]["state"], &runs[0]["cancels"]),
        (&json!("cancelled"), &json!(1))
    );
    // Unlike Argo CD's options, it asks whether anything changed.
    world
        .flux("apply", &[], &changed(&example("rerun")))
        .await
        .unwrap();
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
    assert!(
        world
            .run("train")
            .await
            .metadata
            .deletion_timestamp
            .is_none()
    );
    assert_eq!(world.service.get("stats").await["cancels"], 1);
}

/// Proves: P-no-drift, P-recipes
#[tokio::test]
async fn a_cancellation_by_hand_is_no_drift_to_flux() {
    let world = World::new().await;
    let manifests = endless(&example("promotion/run"));
    world.flux("apply", &[], &manifests).await.unwrap();
    world.state("train", "running").await;
    world
        .patch_run("train", json!({"spec": {"cancel": true}}))
        .await;
    world.phase("train", Phase::Cancelled).await;
    assert_eq!(
        world.flux("diff", &[], &manifests).await.unwrap(),
        json!([])
    );
    world.flux("apply", &[], &manifests).await.unwrap();
    assert_eq!(world.run("train").await.spec.cancel, Some(true));
}
