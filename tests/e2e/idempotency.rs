//! `spec.idempotencyKey`: an object that is created again finds its run again, and no second run is paid for.

use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use run_operator::api::{ConditionType as Type, Phase, Run};
use serde_json::{Value, json};

use crate::support::{Setup, World, condition_of, held, holds_for_a_while, intent_of, row, says};

/// Number of checks in about two seconds.
const A_WHILE: u32 = 80;

/// The manifest in Git.
fn nightly(simulate: &Value) -> Value {
    json!({"idempotencyKey": "nightly", "workload": {"image": "i", "simulate": simulate}})
}

fn run_id(run: &Run) -> String {
    run.status.as_ref().unwrap().run_id.clone().unwrap()
}

async fn delete(world: &World, name: &str) {
    world.delete_run(name).await;
    world.gone(name).await;
}

async fn set_state(world: &World, run: &str, state: &str) {
    let path = format!("runs/{run}/state");
    world.service.post(&path, json!({"state": state})).await;
}

/// A backup of a Run brought back under another uid, with its annotations and finalizers.
async fn restore(world: &World, backup: &Run, name: &str) -> Run {
    let mut restored = Run::new(name, backup.spec.clone());
    restored.metadata.annotations = Some(backup.annotations().clone());
    restored.metadata.finalizers = Some(backup.finalizers().to_vec());
    let params = PostParams::default();
    world.runs().create(&params, &restored).await.unwrap()
}

/// Some backups bring the status back too, in a second write.
async fn with_status_of(world: &World, backup: &Run, name: &str) {
    let status = json!({"status": backup.status});
    let params = PatchParams::default();
    world
        .runs()
        .patch_status(name, &params, &Patch::Merge(status))
        .await
        .unwrap();
}

async fn retry(world: &World, name: &str) {
    let annotation = json!({"run-operator.dev/retry": "go on"});
    world
        .patch_run(name, json!({"metadata": {"annotations": annotation}}))
        .await;
}

/// Proves: P-key-again
#[tokio::test]
async fn a_recreated_finished_run_is_found_by_its_key_under_any_name() {
    let world = World::new().await;
    let history = world.history().await;
    let spec = nightly(&json!({}));
    world.create_run("train", spec.clone()).await;
    let first = world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    for name in ["train", "renamed"] {
        delete(&world, "train").await;
        let again = world.create_run(name, spec.clone()).await;
        assert_ne!(again.uid(), first.uid());
        let again = world.phase(name, Phase::Succeeded).await;
        assert_eq!(row(&again), row(&first));
        assert_eq!(run_id(&again), run_id(&first));
        if name == "train" {
            world.released(name).await;
        }
    }
    assert_eq!(world.service.runs().await.len(), 1, "it was paid for once");
    assert_eq!(world.service.requests("createRun").await.len(), 3);
    assert!(world.service.requests("cancelRun").await.is_empty());
    history.holds().await;
}

/// Proves: P-key-again
#[tokio::test]
async fn a_replayed_failed_run_explains_how_to_run_it_again() {
    let world = World::new().await;
    let spec = nightly(&json!({"outcome": "failed"}));
    for _ in 0..2 {
        world.create_run("train", spec.clone()).await;
        let run = world.phase("train", Phase::Failed).await;
        let told = condition_of(&run, Type::Stalled).unwrap().message;
        says(&told, &["with another spec.idempotencyKey"]);
        world.released("train").await;
        delete(&world, "train").await;
    }
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: P-key-again
#[tokio::test]
async fn an_orphaned_run_is_adopted_by_the_next_object_with_its_key() {
    let world = World::new().await;
    let history = world.history().await;
    let mut spec = nightly(&json!({"outcome": "never"}));
    spec["deletionPolicy"] = json!("Orphan");
    for _ in 0..2 {
        world.create_run("train", spec.clone()).await;
        world.state("train", "running").await;
        delete(&world, "train").await;
    }
    assert!(world.service.requests("cancelRun").await.is_empty());
    // To its end this time.
    world.create_run("train", spec.clone()).await;
    let live = run_id(&world.state("train", "running").await);
    set_state(&world, &live, "succeeded").await;
    world.phase("train", Phase::Succeeded).await;
    assert_eq!(world.service.runs().await.len(), 1);
    // What is adopted is cancelled with its object as any other.
    let mut other = spec;
    other["idempotencyKey"] = json!("weekly");
    world.create_run("weekly", other.clone()).await;
    world.state("weekly", "running").await;
    delete(&world, "weekly").await;
    other["deletionPolicy"] = json!("Cancel");
    world.create_run("weekly", other).await;
    world.state("weekly", "running").await;
    delete(&world, "weekly").await;
    let runs = world.service.runs().await;
    assert_eq!((runs.len(), &runs[1]["state"]), (2, &json!("cancelled")));
    history.holds().await;
}

/// Proves: P-key-again, P-recipes
#[tokio::test]
async fn a_restored_backup_is_stalled_until_a_retry_finds_its_run() {
    let world = World::new().await;
    let history = world.history().await;
    world
        .create_run("train", nightly(&json!({"outcome": "never"})))
        .await;
    let backup = world.state("train", "running").await;
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    delete(&world, "train").await;
    // Whether the original still exists in another cluster can't be known from here, and two objects with one
    // run would cancel it for each other.
    for name in ["train", "copy", "with-status"] {
        restore(&world, &backup, name).await;
        let run = world
            .condition(name, Type::Stalled, "True", "Restored")
            .await;
        assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Stalled");
        let told = condition_of(&run, Type::Stalled).unwrap().message;
        says(
            &told,
            &[
                "get its run by spec.idempotencyKey",
                "run-operator.dev/retry",
            ],
        );
    }
    with_status_of(&world, &backup, "with-status").await;
    world
        .run_until(
            "with-status",
            "is not taken for what its status says",
            |run| row(run).starts_with("Pending") && run.status.as_ref().unwrap().run_id.is_some(),
        )
        .await;
    assert_eq!(world.service.requests("createRun").await.len(), 1);
    delete(&world, "with-status").await;
    // Of two that are asked for, neither blocks the other for good.
    retry(&world, "train").await;
    let found = world.state("train", "running").await;
    assert_eq!(run_id(&found), run_id(&backup));
    retry(&world, "copy").await;
    world
        .condition("copy", Type::Stalled, "True", "KeyInUse")
        .await;
    set_state(&world, &run_id(&backup), "succeeded").await;
    for name in ["train", "copy"] {
        let run = world.phase(name, Phase::Succeeded).await;
        assert_eq!(run_id(&run), run_id(&backup));
    }
    assert_eq!(world.service.runs().await.len(), 1, "it was paid for once");
    assert!(world.service.requests("cancelRun").await.is_empty());
    history.holds().await;
}

/// Two restored copies once waited for each other, as did every Run with their key.
/// Proves: P-key-in-use
#[tokio::test]
async fn an_unrequested_restored_copy_claims_no_key() {
    let world = World::new().await;
    world
        .create_run("train", nightly(&json!({"outcome": "never"})))
        .await;
    let backup = world.state("train", "running").await;
    set_state(&world, &run_id(&backup), "succeeded").await;
    world.released("train").await;
    for name in ["copy", "with-status"] {
        restore(&world, &backup, name).await;
        world
            .condition(name, Type::Stalled, "True", "Restored")
            .await;
    }
    with_status_of(&world, &backup, "with-status").await;
    world
        .create_run("fresh", nightly(&json!({"outcome": "never"})))
        .await;
    let fresh = world.phase("fresh", Phase::Succeeded).await;
    assert_eq!(run_id(&fresh), run_id(&backup));
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: P-key-again
#[tokio::test]
async fn another_body_under_a_used_key_is_a_conflict_with_advice() {
    let world = World::new().await;
    world.create_run("train", nightly(&json!({}))).await;
    world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    delete(&world, "train").await;
    let changed = nightly(&json!({"logEvents": 1}));
    world.create_run("train", changed).await;
    let run = world
        .condition("train", Type::Stalled, "True", "IdempotencyConflict")
        .await;
    assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Stalled");
    let told = condition_of(&run, Type::Stalled).unwrap().message;
    says(
        &told,
        &[
            "another request",
            "another spec.idempotencyKey in a new Run",
        ],
    );
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: P-key-again
#[tokio::test]
async fn the_same_key_in_two_namespaces_is_two_keys() {
    let one = World::new().await;
    let mut two = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    // Both namespaces speak for the same workspace of the same service.
    let url = one.service.base_url();
    two.restart_operator_with(&["--allowed-base-url", &url])
        .await;
    two.token(crate::support::TOKEN).await;
    two.create_workspace("default", json!({"baseUrl": url}))
        .await;
    let mut ids = Vec::new();
    for world in [&one, &two] {
        world.create_run("train", nightly(&json!({}))).await;
        ids.push(run_id(&world.phase("train", Phase::Succeeded).await));
    }
    assert_ne!(ids[0], ids[1]);
    let runs = one.service.runs().await;
    let keys: Vec<_> = runs.iter().map(|r| r["idempotencyKey"].clone()).collect();
    let scoped = [&one, &two].map(|world| json!(format!("{}/nightly", world.namespace)));
    assert_eq!(keys, scoped);
}

/// A limit, and written down as one: the service has forgotten the key.
/// Proves: P-key-again
#[tokio::test]
async fn past_key_retention_a_recreated_object_makes_a_new_run() {
    let world = World::with(Setup {
        service: vec!["--key-retention", "1ms"],
        ..Setup::default()
    })
    .await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        world.create_run("train", nightly(&json!({}))).await;
        ids.push(run_id(&world.phase("train", Phase::Succeeded).await));
        world.released("train").await;
        delete(&world, "train").await;
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(world.service.runs().await.len(), 2);
}

/// Proves: P-key-in-use
#[tokio::test]
async fn a_run_waits_for_its_key_while_the_owner_is_being_deleted() {
    let world = World::new().await;
    let history = world.history().await;
    let spec = nightly(&json!({"outcome": "never", "cancel": "stuck"}));
    world.create_run("old", spec.clone()).await;
    let old = run_id(&world.state("old", "running").await);
    world.delete_run("old").await;
    world.state("old", "cancelling").await;
    world.create_run("new", spec).await;
    let waits = world
        .condition("new", Type::Stalled, "True", "KeyInUse")
        .await;
    assert!(!held(&waits) && intent_of(&waits).is_none());
    says(
        &condition_of(&waits, Type::Stalled).unwrap().message,
        &["The Run old", "ended or is deleted"],
    );
    let version = world.run("new").await.resource_version();
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.service.requests("createRun").await.len(), 1);
        assert_eq!(world.run("new").await.resource_version(), version);
    })
    .await;
    set_state(&world, &old, "cancelled").await;
    world.gone("old").await;
    // A key is one run, whatever became of it.
    let new = world.phase("new", Phase::Cancelled).await;
    assert_eq!(run_id(&new), old);
    let told = condition_of(&new, Type::Stalled).unwrap();
    assert_eq!(told.reason, "CancelledElsewhere");
    says(&told.message, &["with another spec.idempotencyKey"]);
    assert_eq!(world.service.requests("createRun").await.len(), 2);
    assert_eq!(world.service.runs().await.len(), 1);
    history.holds().await;
}
