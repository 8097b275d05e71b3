//! The operator is killed at each step of a Run's life: there is one run, and it ends right.

use kube::ResourceExt;
use run_operator::api::Phase;
use serde_json::{Value, json};

use crate::support::{Setup, World, contract_file, eventually, held, intent_of};

/// One run, one key, and the key is the object's uid.
async fn one_run_of(world: &World, uid: &str) -> Value {
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    for create in world.service.requests("createRun").await {
        assert_eq!(create["idempotencyKey"].as_str(), Some(uid));
    }
    runs[0].clone()
}

/// Proves: R1, P-at-most-one
#[tokio::test]
async fn killed_during_the_create_it_finds_the_run_by_the_same_post() {
    for execute in [true, false] {
        let mut world = World::new().await;
        world
            .service
            .fault(
                json!({"operation": "createRun"}),
                json!({"type": "hang", "forMs": 60000, "execute": execute}),
            )
            .await;
        let uid = world.create_run("train", json!({})).await.uid().unwrap();
        world.asked("createRun", 1).await;
        world.kill_operator();
        let owner = intent_of(&world.run("train").await).unwrap()["owner"].clone();
        world.start_operator().await;
        let run = world.phase("train", Phase::Succeeded).await;
        let intent = intent_of(&run).unwrap();
        assert_ne!(
            intent["owner"], owner,
            "it POSTed under another process's intent"
        );
        assert_eq!(intent["epoch"], 2);
        let at_the_service = one_run_of(&world, &uid).await;
        let posts = if execute { 2 } else { 1 };
        assert_eq!(at_the_service["posts"], posts);
    }
}

/// Proves: P-none-left
#[tokio::test]
async fn a_cancel_is_continued_after_a_kill() {
    let mut world = World::new().await;
    let history = world.history().await;
    let simulate = json!({"runId": "train", "outcome": "never", "cancel": "stuck"});
    let created = world.simulate("train", simulate).await;
    world.state("train", "running").await;
    world.delete_run("train").await;
    world.asked("cancelRun", 1).await;
    world.kill_operator();
    assert!(held(&world.run("train").await));
    world.start_operator().await;
    world.set_state("train", "cancelled").await;
    world.gone("train").await;
    let at_the_service = one_run_of(&world, &created.uid().unwrap()).await;
    assert_eq!(at_the_service["state"], "cancelled");
    history.holds().await;
}

/// Proves: P-shutdown
#[tokio::test]
async fn sigterm_completes_the_create_in_flight_and_writes_its_run() {
    let mut world = World::new().await;
    world.running("streaming").await;
    world
        .service
        .fault(
            json!({"operation": "createRun"}),
            json!({"type": "delay", "forMs": 2000, "execute": true}),
        )
        .await;
    world.simulate("posting", json!({"outcome": "never"})).await;
    world.asked("createRun", 2).await;
    let mut operator = world.operator.take().unwrap();
    assert_eq!(operator.terminate().await, Some(0));
    let runs = world.service.runs().await;
    let posted = world.run("posting").await.status.unwrap();
    assert_eq!(posted.run_id.as_deref(), runs[1]["runId"].as_str());
    world.open_streams(0).await;
    assert!(world.operator_log().contains("run-operator has ended"));
}

/// More creates than may be in flight at a time: the rest wait for a permit.
/// Proves: P-shutdown
#[tokio::test]
async fn sigterm_begins_no_call_that_waits_for_its_turn() {
    const RUNS: usize = 64;
    const AT_A_TIME: usize = 32;
    let mut world = World::new().await;
    let create = json!({"operation": "createRun"});
    let slow = json!({"type": "delay", "forMs": 5000, "execute": true});
    world.service.lasting_fault(create, slow).await;
    for n in 0..RUNS {
        world
            .simulate(&format!("run-{n}"), json!({"outcome": "never"}))
            .await;
    }
    world.asked("createRun", AT_A_TIME).await;
    let mut operator = world.operator.take().unwrap();
    assert_eq!(operator.terminate().await, Some(0));
    // On a slow machine the first are answered before the last of them is sent.
    let begun = world.service.requests("createRun").await.len();
    assert!(begun < RUNS, "the others began too");
    let mut accepted = 0;
    for n in 0..RUNS {
        let status = world.run(&format!("run-{n}")).await.status;
        accepted += usize::from(status.is_some_and(|status| status.run_id.is_some()));
    }
    assert_eq!(accepted, begun, "each answer was written");
}

/// The call would take ten minutes.
/// Proves: P-shutdown
#[tokio::test]
async fn sigterm_waits_for_no_call_longer_than_25_s() {
    let patient = [("requestSeconds: 30", "requestSeconds: 600")];
    let contract = contract_file("restart-patient", &patient);
    let mut world = World::with(Setup {
        operator: vec!["--contract", contract.leak()],
        ..Setup::default()
    })
    .await;
    let create = json!({"operation": "createRun"});
    let hang = json!({"type": "hang", "forMs": 600_000, "execute": true});
    world.service.fault(create, hang).await;
    world.create_run("train", json!({})).await;
    world.asked("createRun", 1).await;
    let mut operator = world.operator.take().unwrap();
    operator.asked_to_end();
    eventually("the operator has ended", async || {
        operator.exit_code().map(drop).ok_or("it still runs")
    })
    .await;
    let log = world.operator_log();
    let told = "shutdown timed out with reconciles in flight";
    assert!(log.contains(told), "{log}");
    world.start_operator().await;
    world.phase("train", Phase::Succeeded).await;
    world.one_run_each().await;
}
