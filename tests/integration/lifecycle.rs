//! The main job: from `kubectl apply` to the end.

use run_operator::api::{Phase, names};
use serde_json::json;

use crate::support::World;

#[tokio::test]
async fn a_run_is_submitted_mirrored_and_released() {
    let world = World::new().await;
    let created = world.create_run("train", json!({})).await;
    let run = world.phase("train", Phase::Succeeded).await;
    let status = run.status.unwrap();
    let at_the_service = world.service.runs().await;
    assert_eq!(at_the_service.len(), 1);
    assert_eq!(
        at_the_service[0]["runId"].as_str(),
        status.run_id.as_deref()
    );
    assert_eq!(
        at_the_service[0]["idempotencyKey"].as_str(),
        created.metadata.uid.as_deref()
    );
    assert_eq!(status.state.as_deref(), Some("succeeded"));
    assert!(status.request_id.is_some() && status.last_event_id.is_some());
    world
        .run_until("train", "is released", |run| {
            run.metadata
                .finalizers
                .as_ref()
                .is_none_or(|f| !f.iter().any(|f| f == names::FINALIZER))
        })
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(world.service.get("stats").await["cancels"], 0);
}

#[tokio::test]
async fn a_deleted_run_is_cancelled_at_the_service_before_the_object_goes() {
    let world = World::new().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world
        .run_until("train", "is running", |run| {
            run.status
                .as_ref()
                .is_some_and(|s| s.state.as_deref() == Some("running"))
        })
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
}
