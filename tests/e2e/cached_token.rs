//! A Workspace whose Secret is deleted: submitted Runs continue with the last good token.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{TOKEN, World, condition_of, phase_of, says};

async fn delete_secret(world: &World) {
    let secrets = world.secrets();
    secrets
        .delete("run-operator-token", &DeleteParams::default())
        .await
        .unwrap();
}

async fn running(world: &World, name: &str) {
    let simulate = json!({"runId": name, "outcome": "never"});
    world.simulate(name, simulate).await;
    world.state(name, "running").await;
}

async fn set_state(world: &World, run: &str, state: &str) {
    let state = json!({"state": state});
    let path = format!("runs/{run}/state");
    world.service.post(&path, state).await;
}

/// Proves: P-last-token
#[tokio::test]
async fn without_its_secret_only_submitted_runs_use_the_last_token() {
    let world = World::new().await;
    running(&world, "train").await;
    running(&world, "unwanted").await;
    delete_secret(&world).await;
    let told = world.workspace_condition("default", Type::Ready, "False", "SecretNotFound");
    let words = [
        "Secret run-operator-token doesn't exist",
        "create it",
        "last good token",
        "are blocked",
    ];
    says(&told.await, &words);
    world
        .workspace_condition("default", Type::Authenticated, "True", "Identified")
        .await;
    let late = world.create_run("late", json!({})).await;
    let held = world
        .condition("late", Type::Ready, "False", "SecretNotFound")
        .await;
    says(&condition_of(&held, Type::Ready).unwrap().message, &words);

    set_state(&world, "train", "processing").await;
    let run = world.state("train", "processing").await;
    assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
    world.delete_run("unwanted").await;
    world.gone("unwanted").await;
    assert_eq!(world.posts_of(&late).await, 0);

    world.token(TOKEN).await;
    world.phase("late", Phase::Succeeded).await;
    set_state(&world, "train", "succeeded").await;
    world.phase("train", Phase::Succeeded).await;
    assert_eq!(world.unauthorized().await, 0);
    assert_eq!(world.posts_of(&late).await, 1);
}

/// Proves: P-last-token
#[tokio::test]
async fn calls_stop_when_the_service_rejects_the_last_good_token() {
    let world = World::new().await;
    running(&world, "train").await;
    delete_secret(&world).await;
    world
        .workspace_ready("default", "False", "SecretNotFound")
        .await;
    world.service.delete(&format!("tokens/{TOKEN}")).await;
    set_state(&world, "train", "processing").await;
    let told = world.workspace_condition("default", Type::Ready, "False", "Unauthorized");
    let words = [
        "401",
        "last good one",
        "Secret run-operator-token doesn't exist",
    ];
    says(&told.await, &words);
    let run = world
        .condition("train", Type::Synced, "False", "WorkspaceNotReady")
        .await;
    assert_eq!(phase_of(&run), Some(Phase::Active));
    let next = json!({"token": "canary-of-the-next-one"});
    world.service.post("tokens", next).await;
    world.token("canary-of-the-next-one").await;
    world.state("train", "processing").await;
}

/// Proves: P-last-token
#[tokio::test]
async fn a_secret_without_a_token_is_not_a_deleted_secret() {
    let world = World::new().await;
    running(&world, "train").await;
    let emptied = json!({"stringData": {"other": "x"}, "data": {"token": Value::Null}});
    let patch = Patch::Merge(emptied);
    world
        .secrets()
        .patch("run-operator-token", &PatchParams::default(), &patch)
        .await
        .unwrap();
    world
        .workspace_condition("default", Type::Stalled, "True", "SecretKeyNotFound")
        .await;
    world
        .condition("train", Type::Synced, "False", "WorkspaceNotReady")
        .await;
    // When the Secret is deleted after all, the last good token is used again: it was verified for this Workspace and
    // place.
    delete_secret(&world).await;
    world
        .workspace_ready("default", "False", "SecretNotFound")
        .await;
    set_state(&world, "train", "succeeded").await;
    world.phase("train", Phase::Succeeded).await;
}
