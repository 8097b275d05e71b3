//! The operator is ended by SIGTERM amid its creates. That it is killed at every step is `tests/chaos/points`.

use kube::api::ListParams;
use run_operator::api::Phase;
use serde_json::json;

use crate::stale::stage;
use crate::support::{Asked, Fault, World, contract_file, eventually};

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
        world.create_run(&format!("run-{n}"), json!({})).await;
    }
    world.asked("createRun", AT_A_TIME).await;
    let mut operator = world.operator.take().unwrap();
    assert_eq!(operator.terminate().await, Some(0));
    // On a slow machine the first are answered before the last of them is sent.
    let begun = world.service.requests("createRun").await.len();
    assert!(begun < RUNS, "the others began too");
    let runs = world.runs().list(&ListParams::default()).await.unwrap();
    let statuses = runs.into_iter().filter_map(|run| run.status);
    let accepted = statuses.filter(|status| status.run_id.is_some()).count();
    assert_eq!(accepted, begun, "each answer was written");
}

/// A webhook that never answers holds the write of one Run; the run of another is created meanwhile.
/// Proves: P-shutdown
#[tokio::test]
async fn sigterm_keeps_an_answer_while_another_runs_write_hangs() {
    let (proxy, mut world) = stage().await;
    let create = json!({"operation": "createRun"});
    let slow = json!({"type": "delay", "forMs": 3000, "execute": true});
    world.service.fault(create, slow).await;
    world.create_run("answered", json!({})).await;
    world.asked("createRun", 1).await;
    let intents = proxy.count("patch", "runs");
    let of_other =
        |asked: &Asked| asked.is("patch", "runs") && asked.name.as_deref() == Some("hangs");
    proxy.fault(1, Fault::Hang, of_other);
    world.create_run("hangs", json!({})).await;
    proxy.until("patch", "runs", intents + 1).await;
    world.operator.as_mut().unwrap().asked_to_end();
    world
        .run_until("answered", "has its runID", |run| {
            run.status
                .as_ref()
                .is_some_and(|status| status.run_id.is_some())
        })
        .await;
    // Not by the end of that write, which takes longer than a shutdown may.
    let operator = world.operator.as_mut().unwrap();
    assert!(
        operator.exit_code().is_none(),
        "it waits for the other write"
    );
}

/// The call would take ten minutes.
/// Proves: P-shutdown
#[tokio::test]
async fn sigterm_waits_for_no_call_longer_than_25_s() {
    let patient = [("requestSeconds: 30", "requestSeconds: 600")];
    let contract = contract_file("restart-patient", &patient);
    let mut world = World::with_flags(&["--contract", contract.leak()]).await;
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
