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
    let released = world.released("train").await;
    let end = intent_of(&released).unwrap()["end"].clone();
    assert_eq!(end["runId"].as_str(), status.run_id.as_deref());
    assert_eq!(end["phase"], "Succeeded");
    let calls = world.service.run_calls().await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(
        world.service.run_calls().await,
        calls,
        "a call after the end"
    );
    history.holds().await;
}

/// Proves: P-kstatus
#[tokio::test]
async fn kubectl_waits_for_complete_and_for_failed() {
    let world = World::new().await;
    world.create_run("good", json!({})).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    for (condition, name) in [("Complete", "good"), ("Failed", "bad"), ("Finished", "bad")] {
        let args = [
            "wait",
            &format!("--for=condition={condition}"),
            "--timeout=60s",
            &format!("run/{name}"),
        ];
        let said = world.kubectl(&args, "").await.unwrap();
        assert!(said.contains("condition met"), "{said}");
    }
    let never = [
        "wait",
        "--for=condition=Complete",
        "--timeout=1s",
        "run/bad",
    ];
    world.kubectl(&never, "").await.unwrap_err();
}
