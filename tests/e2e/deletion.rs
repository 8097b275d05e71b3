//! The design's deletion table, row by row.

use kube::ResourceExt;
use kube::api::PostParams;
use run_operator::api::{ConditionType as Type, Phase, Run, names};
use serde_json::{Value, json};

use crate::support::{World, eventually, held, row};

/// An active Run that only a cancellation ends.
async fn running(world: &World, name: &str, cancel: &str) -> String {
    world
        .simulate(name, json!({"outcome": "never", "cancel": cancel}))
        .await;
    let run = world.state(name, "running").await;
    run.status.unwrap().run_id.unwrap()
}

/// Proves: D-never-created
#[tokio::test]
async fn an_unsubmitted_run_is_deleted_at_once_without_a_call() {
    let world = World::new().await;
    world
        .create_run("waiting", json!({"workspaceRef": {"name": "missing"}}))
        .await;
    world
        .condition("waiting", Type::Ready, "False", "WorkspaceNotFound")
        .await;
    world.create_run("held", json!({"suspend": true})).await;
    world
        .condition("held", Type::Ready, "False", "Suspended")
        .await;
    for name in ["waiting", "held"] {
        world.delete_run(name).await;
        world.gone(name).await;
    }
    assert_eq!(world.service.run_calls().await, 0);
    assert_eq!(
        world
            .operator()
            .metric("run_operator_vanished_runs_total")
            .await,
        0.0
    );
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
    world
        .simulate("train", json!({"outcome": "never", "cancelTimeMs": 1500}))
        .await;
    world.state("train", "running").await;
    world.delete_run("train").await;
    let run = world.phase("train", Phase::Cancelling).await;
    assert_eq!(
        row(&run),
        "Cancelling: Accepted !Finished !Ready Reconciling"
    );
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (&runs[0]["state"], &runs[0]["cancels"]),
        (&json!("cancelled"), &json!(1))
    );
    history.holds().await;
}

/// Proves: D-refused
#[tokio::test]
async fn a_cancel_that_is_refused_first_is_asked_for_again() {
    let world = World::new().await;
    let history = world.history().await;
    running(&world, "train", "confirm").await;
    let refusal =
        json!({"type": "answer", "status": 409, "code": "cancel_refused", "retryable": false});
    world
        .service
        .fault(json!({"operation": "cancelRun"}), refusal)
        .await;
    world.delete_run("train").await;
    let run = world
        .condition("train", Type::Ready, "False", "CancelRefused")
        .await;
    assert!(held(&run), "the object was let go of a run that goes on");
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs[0]["state"], "cancelled");
    assert_eq!(world.service.requests("cancelRun").await.len(), 2);
    history.holds().await;
}

/// Proves: D-cancel
#[tokio::test]
async fn a_cancel_that_is_accepted_and_ignored_is_asked_for_again() {
    let world = World::new().await;
    running(&world, "train", "ignoreFirst").await;
    world.delete_run("train").await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(
        (&runs[0]["state"], &runs[0]["cancels"]),
        (&json!("cancelled"), &json!(2))
    );
}

/// Proves: D-cancel
#[tokio::test]
async fn a_cancel_whose_answer_is_lost_is_retried() {
    let world = World::new().await;
    running(&world, "train", "confirm").await;
    world
        .service
        .fault(
            json!({"operation": "cancelRun"}),
            json!({"type": "loseBefore"}),
        )
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");
}

/// Proves: D-cancel
#[tokio::test]
async fn a_run_that_succeeds_during_its_cancel_is_released() {
    let world = World::new().await;
    running(&world, "train", "finish").await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(world.service.runs().await[0]["state"], "succeeded");
}

/// Proves: D-never-created
#[tokio::test]
async fn a_refused_run_is_deleted_at_once_without_a_further_call() {
    let world = World::new().await;
    world
        .service
        .fault(
            json!({"operation": "createRun"}),
            json!({"type": "answer", "status": 422, "code": "validation_failed"}),
        )
        .await;
    world.create_run("train", json!({})).await;
    world
        .condition("train", Type::Stalled, "True", "CreateRefused")
        .await;
    let calls = world.service.run_calls().await;
    assert_eq!(calls, 1);
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(world.service.run_calls().await, calls);
    assert!(world.service.runs().await.is_empty());
}

/// Proves: D-not-found
#[tokio::test]
async fn a_run_not_found_by_cancel_and_get_is_released() {
    let world = World::new().await;
    let run_id = running(&world, "train", "confirm").await;
    world.service.delete(&format!("runs/{run_id}")).await;
    world.delete_run("train").await;
    world.gone("train").await;
    for operation in ["cancelRun", "getRun"] {
        let requests = world.service.requests(operation).await;
        let denied = requests.iter().any(|request| request["status"] == 404);
        assert!(denied, "{operation} was not asked");
    }
    assert_eq!(world.service.requests("createRun").await.len(), 1);
}

#[tokio::test]
async fn a_run_not_found_before_its_deletion_is_still_released() {
    let world = World::new().await;
    let run_id = running(&world, "train", "confirm").await;
    let other = running(&world, "other", "confirm").await;
    world.service.delete(&format!("runs/{run_id}")).await;
    world
        .condition("train", Type::Synced, "False", "RunNotFound")
        .await;
    assert!(held(&world.run("train").await));
    world.delete_run("train").await;
    world.gone("train").await;
    let cancels = world.service.requests("cancelRun").await;
    assert!(cancels.iter().all(|request| request["status"] == 404));
    // The minute between two confirmations is for failing a Run: this one does not wait for it.
    let polls = world.service.requests("getRun").await;
    let polls = polls
        .iter()
        .filter(|request| request["runId"] == other.as_str());
    assert!(polls.count() < 15, "the deletion took many poll intervals");
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

/// Proves: P-at-most-one
#[tokio::test]
async fn a_recreation_of_the_same_name_is_a_new_run() {
    let world = World::new().await;
    let first = running(&world, "train", "confirm").await;
    world.delete_run("train").await;
    world.gone("train").await;
    let second = running(&world, "train", "confirm").await;
    assert_ne!(first, second);
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 2);
    assert_eq!(
        (&runs[0]["state"], &runs[1]["state"]),
        (&json!("cancelled"), &json!("running"))
    );
    assert_ne!(runs[0]["idempotencyKey"], runs[1]["idempotencyKey"]);
}
