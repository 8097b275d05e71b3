//! The operator under a wall clock that steps by an hour while it runs; its other clocks are true.

use run_operator::api::{ConditionType as Type, Phase};
use serde_json::json;

use crate::support::{Setup, TOKEN, WallClock, World, condition_of, holds_for_a_while};

mod takeover;

/// An hour back, back to the true time, an hour forward: by how much the clock is wrong then, in seconds.
const WRONG: [i64; 3] = [-3600, 0, 3600];
/// Number of checks in about two seconds.
const A_WHILE: u32 = 80;

/// A world whose operator has a wall clock of its own.
async fn world() -> (World, WallClock) {
    let mut world = World::unattended(Setup::default()).await;
    let clock = WallClock::new(world.folder());
    world.recipe.variables = clock.variables();
    world.start_operator().await;
    (world, clock)
}

/// Proves: P-clock
#[tokio::test]
async fn a_step_of_the_wall_clock_delays_no_event_of_a_stream() {
    let (world, clock) = world().await;
    for wrong in WRONG {
        let name = format!("followed-{}", wrong + 3600);
        world.running(&name).await;
        clock.is_wrong_by(wrong);
        world.set_state(&name, "succeeded").await;
        world.phase(&name, Phase::Succeeded).await;
        world.event(&name, "Succeeded").await;
    }
    world.one_run_each().await;
}

/// Proves: P-clock
#[tokio::test]
async fn a_step_of_the_wall_clock_delays_no_check() {
    let (world, clock) = world().await;
    world.workspace_ready("default", "True", "Verified").await;
    for wrong in WRONG {
        world.service.delete(&format!("tokens/{TOKEN}")).await;
        let name = format!("late-{}", wrong + 3600);
        // Its create is refused, and so the Workspace is suspected.
        world.create_run(&name, json!({})).await;
        world
            .workspace_ready("default", "False", "Unauthorized")
            .await;
        clock.is_wrong_by(wrong);
        let checks = world.service.requests("getWorkspace").await.len();
        world.asked("getWorkspace", checks + 2).await;
        world.service.post("tokens", json!({"token": TOKEN})).await;
        world.phase(&name, Phase::Succeeded).await;
    }
    world.one_run_each().await;
}

/// The deadline is seen when the Run is next polled.
/// Proves: P-clock, P-deadline
#[tokio::test]
async fn a_deadline_and_a_ttl_are_seen_when_the_clock_passes_them() {
    let (world, clock) = world().await;
    // It has ended, and no poll is due.
    let short = json!({"image": "i", "simulate": {"runTimeMs": 100}});
    let spec = json!({"ttlSecondsAfterFinished": 1800, "workload": short});
    world.create_run("ended", spec).await;
    world.phase("ended", Phase::Succeeded).await;
    world.released("ended").await;
    let endless = json!({"image": "i", "simulate": {"outcome": "never"}});
    let spec = json!({"activeDeadlineSeconds": 1800, "workload": endless});
    world.create_run("train", spec).await;
    world.state("train", "running").await;
    clock.is_wrong_by(-3600);
    holds_for_a_while(A_WHILE, async || {
        assert!(world.service.requests("cancelRun").await.is_empty());
    })
    .await;
    clock.is_wrong_by(3600);
    world.gone("ended").await;
    let run = world.phase("train", Phase::Failed).await;
    let failed = condition_of(&run, Type::Failed).unwrap();
    assert_eq!(failed.reason, "DeadlineExceeded");
}

/// The process that cancelled also waits by its own clock; the next one has only the stored times.
/// Proves: D-cancelling
#[tokio::test]
async fn a_run_that_stays_cancelling_is_released_and_counted() {
    let (mut world, clock) = world().await;
    let stuck = json!({"runId": "stuck", "outcome": "never", "cancel": "stuck"});
    world.simulate("stuck", stuck).await;
    world.state("stuck", "running").await;
    world.delete_run("stuck").await;
    world.state("stuck", "cancelling").await;
    let unconfirmed = "run_operator_cancel_unconfirmed_total";
    assert_eq!(world.operator().metric(unconfirmed).await, 0.0);
    world.kill_operator();
    clock.is_wrong_by(301);
    world.start_operator().await;
    world.gone("stuck").await;
    assert_eq!(world.operator().metric(unconfirmed).await, 1.0);
    world.event("stuck", "CancelUnconfirmed").await;
    assert_eq!(world.service.requests("cancelRun").await.len(), 1);
}
