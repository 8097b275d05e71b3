//! `activeDeadlineSeconds`: the run is cancelled, and the Run fails when that is confirmed.

use run_operator::api::{ConditionType as Type, Phase, Run};
use serde_json::{Value, json};

use crate::support::{TOKEN, World, condition_of, holds_for_a_while, phase_of, row};

/// Number of checks in about two seconds.
const A_WHILE: u32 = 80;

/// A Run with a deadline, or none, whose workload steers the service; its runId is its name.
async fn create(world: &World, name: &str, deadline: Value, mut simulate: Value) {
    simulate["runId"] = json!(name);
    let workload = json!({"image": "i", "simulate": simulate});
    let spec = json!({"activeDeadlineSeconds": deadline, "workload": workload});
    world.create_run(name, spec).await;
}

async fn move_to(world: &World, name: &str, deadline: Value) {
    world
        .patch_run(name, json!({"spec": {"activeDeadlineSeconds": deadline}}))
        .await;
}

async fn set_state(world: &World, run: &str, state: &str) {
    let path = format!("runs/{run}/state");
    world.service.post(&path, json!({"state": state})).await;
}

fn ready_reason(run: &Run) -> String {
    condition_of(run, Type::Ready).unwrap().reason
}

async fn exceeded(world: &World, name: &str) {
    let run = world.phase(name, Phase::Failed).await;
    assert_eq!(row(&run), "Failed: Accepted Finished Failed !Ready Stalled");
    assert_eq!(ready_reason(&run), "DeadlineExceeded");
}

/// Proves: P-deadline
#[tokio::test]
async fn a_deadline_fails_a_run_only_once_its_cancel_is_confirmed() {
    let world = World::new().await;
    let history = world.history().await;
    let stuck = json!({"outcome": "never", "cancel": "stuck"});
    create(&world, "train", json!(1), stuck).await;
    let run = world.state("train", "cancelling").await;
    let waiting = |run: &Run| {
        assert_eq!(
            row(run),
            "Cancelling: Accepted !Finished !Ready Reconciling"
        );
        assert_eq!(ready_reason(run), "DeadlineExceeded");
        assert!(run.status.as_ref().unwrap().completion_time.is_none());
    };
    waiting(&run);
    holds_for_a_while(A_WHILE, async || waiting(&world.run("train").await)).await;
    // Moved now, it takes nothing back, and the end has the same cause.
    move_to(&world, "train", json!(100_000)).await;
    world
        .run_until("train", "observes the edit", |run| {
            run.status.as_ref().unwrap().observed_generation == run.metadata.generation
        })
        .await;
    set_state(&world, "train", "cancelled").await;
    exceeded(&world, "train").await;
    world.released("train").await;
    assert_eq!(world.service.runs().await[0]["cancels"], 1);
    history.holds().await;
}

/// Proves: P-deadline
#[tokio::test]
async fn a_deadline_passed_while_down_cancels_at_the_next_start() {
    let mut world = World::new().await;
    let history = world.history().await;
    create(&world, "train", json!(100_000), json!({"outcome": "never"})).await;
    let submitted = world.state("train", "running").await;
    world.kill_operator();
    move_to(&world, "train", json!(1)).await;
    world.start_operator().await;
    exceeded(&world, "train").await;
    let time = |run: &Run| run.status.as_ref().unwrap().submission_time.clone();
    assert_eq!(time(&world.run("train").await), time(&submitted));
    assert_eq!(world.service.runs().await[0]["cancels"], 1);
    history.holds().await;
}

/// Proves: P-deadline
#[tokio::test]
async fn a_deadline_can_be_set_shortened_or_removed_on_an_active_run() {
    let world = World::new().await;
    let history = world.history().await;
    let never = json!({"outcome": "never"});
    for (name, deadline) in [
        ("set", Value::Null),
        ("shortened", json!(100_000)),
        ("taken-out", json!(100_000)),
    ] {
        create(&world, name, deadline, never.clone()).await;
    }
    for name in ["set", "shortened", "taken-out"] {
        world.state(name, "running").await;
    }
    move_to(&world, "taken-out", Value::Null).await;
    move_to(&world, "set", json!(1)).await;
    move_to(&world, "shortened", json!(1)).await;
    exceeded(&world, "set").await;
    exceeded(&world, "shortened").await;
    let run = world.run("taken-out").await;
    assert_eq!(row(&run), "Active: Accepted !Finished !Ready Reconciling");
    set_state(&world, "taken-out", "succeeded").await;
    world.phase("taken-out", Phase::Succeeded).await;
    history.holds().await;
}

/// Proves: P-deadline
#[tokio::test]
async fn a_deadline_passed_without_a_valid_token_cancels_afterwards() {
    let world = World::new().await;
    let history = world.history().await;
    create(&world, "train", json!(100_000), json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    world.token("canary-that-nobody-gave").await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    move_to(&world, "train", json!(1)).await;
    // The Run shows it once the failure has lasted.
    let run = world
        .condition("train", Type::Ready, "False", "WorkspaceNotReady")
        .await;
    assert_eq!(phase_of(&run), Some(Phase::Cancelling));
    let ready = condition_of(&run, Type::Ready).unwrap();
    assert!(
        ready.message.contains("not cancelled yet"),
        "{}",
        ready.message
    );
    assert!(world.service.requests("cancelRun").await.is_empty());
    world.token(TOKEN).await;
    exceeded(&world, "train").await;
    assert_eq!(world.service.runs().await[0]["cancels"], 1);
    history.holds().await;
}

/// Proves: P-deadline
#[tokio::test]
async fn a_run_that_succeeds_at_its_deadline_is_succeeded() {
    let world = World::new().await;
    let history = world.history().await;
    let finish = json!({"outcome": "never", "cancel": "finish"});
    create(&world, "train", json!(1), finish).await;
    let run = world.phase("train", Phase::Succeeded).await;
    assert_eq!(row(&run), "Succeeded: Accepted Finished Complete Ready");
    assert_eq!(ready_reason(&run), "Succeeded");
    assert_eq!(world.service.runs().await[0]["cancels"], 1);
    history.holds().await;
}
