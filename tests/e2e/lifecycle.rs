//! The main job: from `kubectl apply` to the end.

use run_operator::api::Phase;
use serde_json::json;

use crate::support::{World, intent_of};

/// Proves: S-state, E-createRun
#[tokio::test]
async fn a_run_is_submitted_mirrored_and_released() {
    let world = World::new().await;
    let history = world.history().await;
    let created = world.create_run("train", json!({})).await;
    let run = world.phase("train", Phase::Succeeded).await;
    let status = run.status.unwrap();
    world.one_run_each().await;
    assert_eq!(world.posts_of(&created).await, 1);
    assert_eq!(status.state.as_deref(), Some("succeeded"));
    assert!(status.request_id.is_some() && status.last_event_id.is_some());
    let released = world.released("train").await;
    let end = intent_of(&released).unwrap()["end"].clone();
    assert_eq!(end["runID"].as_str(), status.run_id.as_deref());
    assert_eq!(end["phase"], "Succeeded");
    let calls = world.service.run_calls().await;
    world.delete_run("train").await;
    world.gone("train").await;
    // No call after the end.
    assert_eq!(world.service.run_calls().await, calls);
    history.holds().await;
}
