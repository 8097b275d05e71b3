//! Deletions: with a run, without one, in doubt, orphaned, and of objects whose finalizer somebody tore off. The table's
//! other rows are proved in `policy`.

use kube::ResourceExt;
use kube::api::PostParams;
use run_operator::api::{ConditionType as Type, Phase, Run, names};
use serde_json::{Value, json};

use crate::support::{World, eventually, held, holds_for_a_while, row};

/// An active Run that only a cancellation ends.
async fn running(world: &World, name: &str, cancel: &str) -> String {
    world
        .simulate(name, json!({"outcome": "never", "cancel": cancel}))
        .await;
    let run = world.state(name, "running").await;
    run.status.unwrap().run_id.unwrap()
}

/// As the chart's `finalizerPolicy` makes them, so that no deletion overtakes the finalizer.
/// Proves: I-finalizer-policy
#[tokio::test]
async fn a_run_created_with_its_finalizer_ends_and_is_deleted() {
    let world = World::new().await;
    let history = world.history().await;
    let workload = |simulate: Value| json!({"workload": {"image": "a", "simulate": simulate}});
    for (name, spec) in [
        ("held", json!({"workload": {"image": "a"}, "suspend": true})),
        ("ends", workload(json!({"runTimeMs": 100}))),
        ("goes-on", workload(json!({"outcome": "never"}))),
    ] {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": name, "finalizers": [names::FINALIZER]}, "spec": spec,
        });
        let run: Run = serde_json::from_value(run).unwrap();
        let params = PostParams::default();
        world.runs().create(&params, &run).await.unwrap();
    }
    world
        .condition("held", Type::Ready, "False", "Suspended")
        .await;
    world.phase("ends", Phase::Succeeded).await;
    world.released("ends").await;
    world.state("goes-on", "running").await;
    for name in ["held", "ends", "goes-on"] {
        world.delete_run(name).await;
        world.gone(name).await;
    }
    let runs = world.service.runs().await;
    let mut states: Vec<&str> = runs.iter().filter_map(|r| r["state"].as_str()).collect();
    states.sort_unstable();
    assert_eq!(states, ["cancelled", "succeeded"]);
    history.holds().await;
}

/// Proves: E-cancelRun, P-none-left, D-cancel
#[tokio::test]
async fn a_deleted_run_is_seen_cancelled_before_its_object_is_removed() {
    let world = World::new().await;
    let history = world.history().await;
    let run_id = running(&world, "train", "stuck").await;
    world.delete_run("train").await;
    let run = world.state("train", "cancelling").await;
    assert_eq!(
        row(&run),
        "Cancelling: Accepted !Finished !Ready Reconciling"
    );
    assert!(held(&run));
    let path = format!("runs/{run_id}/state");
    let cancelled = json!({"state": "cancelled"});
    world.service.post(&path, cancelled).await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (&runs[0]["state"], &runs[0]["cancels"]),
        (&json!("cancelled"), &json!(1))
    );
    history.holds().await;
}

/// Proves: P-orphan-policy
#[tokio::test]
async fn with_orphan_the_object_is_deleted_and_the_run_continues() {
    let world = World::new().await;
    let run_id = running(&world, "train", "confirm").await;
    let key = world.run("train").await.uid().unwrap();
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    let note = world.event("train", "Orphaned").await;
    assert!(note.contains(&key) && note.contains(&run_id), "{note}");
    let log = world.operator_log();
    let named = format!("idempotency key {key}");
    let told = |line: &str| {
        line.contains("publishing Event") && line.contains(&run_id) && line.contains(&named)
    };
    assert!(log.lines().any(told), "no line of the log names both");
    let runs = world.service.runs().await;
    assert_eq!(
        (&runs[0]["state"], &runs[0]["cancels"]),
        (&json!("running"), &json!(0))
    );
    eventually("its stream is closed", async || {
        match world.service.get("stats").await["openStreams"].as_i64() {
            Some(0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Proves: D-in-doubt
#[tokio::test]
async fn a_deletion_in_doubt_finds_the_run_by_the_same_post_first() {
    let world = World::new().await;
    let history = world.history().await;
    world.service.leaves_in_doubt().await;
    let created = world.simulate("train", json!({"outcome": "never"})).await;
    world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    world.delete_run("train").await;
    holds_for_a_while(40, async || {
        assert!(held(&world.run("train").await), "let go in doubt");
    })
    .await;
    world.service.delete("faults").await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
    for create in world.service.requests("createRun").await {
        assert_eq!(create["idempotencyKey"].as_str(), created.uid().as_deref());
    }
    history.holds().await;
}

/// Proves: P-orphan-policy, D-forgotten
#[tokio::test]
async fn orphan_set_after_the_deletion_releases_a_run_in_doubt() {
    let world = World::new().await;
    world
        .service
        .lasting_fault(
            json!({"operation": "createRun"}),
            json!({"type": "loseBefore"}),
        )
        .await;
    world.create_run("train", json!({})).await;
    world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    world.delete_run("train").await;
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    world.gone("train").await;
    world.event("train", "Orphaned").await;
}

async fn is_cancelled(world: &World) {
    eventually(
        "the run of the vanished object is cancelled",
        async || match world.service.runs().await[0]["state"].as_str() {
            Some("cancelled") => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
}

/// Deletes a Run and tears its finalizer off while its cancellation can't succeed.
async fn vanish(world: &World, name: &str) {
    world
        .service
        .lasting_fault(
            json!({"operation": "cancelRun"}),
            json!({"type": "answer", "status": 409, "code": "cancel_refused"}),
        )
        .await;
    world.delete_run(name).await;
    world.asked("cancelRun", 1).await;
    world
        .patch_run(name, json!({"metadata": {"finalizers": null}}))
        .await;
    world.gone(name).await;
}

/// Proves: D-vanished
#[tokio::test]
async fn the_run_of_an_object_that_vanished_is_cancelled_and_counted() {
    let world = World::new().await;
    running(&world, "train", "confirm").await;
    vanish(&world, "train").await;
    assert_eq!(world.service.runs().await[0]["state"], "running");
    world.service.delete("faults").await;
    is_cancelled(&world).await;
    let counted = world
        .operator()
        .metric("run_operator_vanished_runs_total")
        .await;
    assert_eq!(counted, 1.0);
}

/// Proves: D-vanished
#[tokio::test]
async fn a_run_that_is_learnt_after_its_object_vanished_is_cancelled() {
    let world = World::new().await;
    let late = json!({"type": "delay", "forMs": 3000, "execute": true});
    world
        .service
        .fault(json!({"operation": "createRun"}), late)
        .await;
    world.simulate("train", json!({"outcome": "never"})).await;
    let made = async || match world.service.runs().await.len() {
        1 => Ok(()),
        n => Err(format!("{n} runs")),
    };
    eventually("the service has made the run", made).await;
    world.delete_run("train").await;
    world
        .patch_run("train", json!({"metadata": {"finalizers": null}}))
        .await;
    world.gone("train").await;
    is_cancelled(&world).await;
    assert_eq!(world.service.count("createRun").await, 1);
}
