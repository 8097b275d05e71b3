//! An API server that is away.

use run_operator::api::Phase;
use serde_json::json;

use crate::support::{Plane, Setup, World, eventually};

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
