//! Two operators at once, and an API server that is away.

use kube::ResourceExt;
use run_operator::api::Phase;
use serde_json::json;

use crate::support::{Plane, Setup, World, eventually};

/// Proves: P-at-most-one, P-two-leaders, P-owner-posts, P-guarded-writes, F-outage
#[tokio::test]
async fn a_second_operator_beside_the_first_makes_no_second_run() {
    let world = World::new().await;
    let history = world.history().await;
    let mut other = world.another_operator().await;
    let names: Vec<String> = (0..20).map(|n| format!("train-{n}")).collect();
    let mut uids = Vec::new();
    for name in &names {
        uids.push(world.create_run(name, json!({})).await.uid().unwrap());
    }
    for name in &names {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
    }
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), names.len());
    let mut keys: Vec<String> = runs
        .iter()
        .map(|run| run["idempotencyKey"].as_str().unwrap().to_owned())
        .collect();
    keys.sort();
    uids.sort();
    assert_eq!(keys, uids);
    history.holds().await;
    other.kill();
}

/// Proves: F-outage
#[tokio::test]
async fn an_outage_of_the_api_server_doubles_and_loses_nothing() {
    let world = World::with(Setup {
        plane: Plane::Alone,
        ..Setup::default()
    })
    .await;
    world.running("deleted").await;
    let mut names = Vec::new();
    for n in 0..8 {
        let name = format!("train-{n}");
        world.simulate(&name, json!({"runTimeMs": 200 * n})).await;
        names.push(name);
    }
    world.asked("createRun", 4).await;
    world.delete_run("deleted").await;
    world.control_plane.stop_apiserver().unwrap();
    // Several attempts at writing and watching fail before it is back.
    eventually("the operator notices", async || {
        let log = world.operator_log();
        let failures = log.matches("watch failed; retrying").count();
        if failures >= 3 { Ok(()) } else { Err(failures) }
    })
    .await;
    world.control_plane.start_apiserver().await.unwrap();
    for name in &names {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
    }
    world.gone("deleted").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), names.len() + 1);
    assert_eq!(runs[0]["state"], "cancelled");
}
