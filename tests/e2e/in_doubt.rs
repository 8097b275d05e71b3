//! A submission whose outcome is unknown, and how an object gets out of it.

use kube::ResourceExt;
use run_operator::api::ConditionType as Type;
use serde_json::json;

use crate::support::{World, held, holds_for_a_while, intent_of, row};

/// Proves: D-in-doubt
#[tokio::test]
async fn a_deletion_in_doubt_finds_the_run_by_the_same_post_first() {
    let world = World::new().await;
    let history = world.history().await;
    world.service.leaves_in_doubt().await;
    let created = world.simulate("train", json!({"outcome": "never"})).await;
    world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    world.delete_run("train").await;
    holds_for_a_while(40, async || {
        assert!(held(&world.run("train").await), "let go in doubt");
    })
    .await;
    world.service.delete("faults").await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
    for create in world.service.requests("createRun").await {
        assert_eq!(create["idempotencyKey"].as_str(), created.uid().as_deref());
    }
    history.holds().await;
}

/// Proves: P-orphan-policy, D-forgotten
#[tokio::test]
async fn orphan_set_after_the_deletion_releases_a_run_in_doubt() {
    let world = World::new().await;
    world
        .service
        .lasting_fault(
            json!({"operation": "createRun"}),
            json!({"type": "loseBefore"}),
        )
        .await;
    world.create_run("train", json!({})).await;
    world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    world.delete_run("train").await;
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    world.gone("train").await;
    world.event("train", "Orphaned").await;
}

#[tokio::test]
async fn a_lost_answer_is_retried_with_the_same_key_and_makes_one_run() {
    let world = World::new().await;
    let fits = json!({"operation": "createRun"});
    for lost in ["loseBefore", "doThenLose", "truncatedBody"] {
        world
            .service
            .fault(fits.clone(), json!({"type": lost}))
            .await;
    }
    let created = world.create_run("train", json!({})).await;
    world
        .phase("train", run_operator::api::Phase::Succeeded)
        .await;
    let posts = world.service.requests("createRun").await;
    assert_eq!(posts.len(), 4);
    for post in posts {
        assert_eq!(post["idempotencyKey"].as_str(), created.uid().as_deref());
    }
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: D-proof
#[tokio::test]
async fn a_refusal_in_doubt_is_ignored_and_the_same_post_is_repeated() {
    let world = World::new().await;
    let history = world.history().await;
    let fits = json!({"operation": "createRun"});
    world
        .service
        .fault(fits.clone(), json!({"type": "doThenLose"}))
        .await;
    let refusal = json!({"type": "answer", "status": 403, "code": "forbidden", "retryable": false});
    world.service.fault(fits, refusal).await;
    world.create_run("train", json!({})).await;
    world
        .phase("train", run_operator::api::Phase::Succeeded)
        .await;
    assert_eq!(world.service.requests("createRun").await.len(), 3);
    assert_eq!(world.service.runs().await.len(), 1);
    history.holds().await;
}

/// Proves: D-in-doubt
#[tokio::test]
async fn a_cancel_in_doubt_waits_for_the_run_and_cancels_it() {
    let world = World::new().await;
    let history = world.history().await;
    world.service.leaves_in_doubt().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    world
        .patch_run("train", json!({"spec": {"cancel": true}}))
        .await;
    world
        .run_until("train", "says what becomes of the cancellation", |run| {
            let conditions = &run.status.as_ref().unwrap().conditions;
            conditions
                .iter()
                .any(|c| c.message.contains("as soon as the outcome is known"))
        })
        .await;
    world.service.delete("faults").await;
    let run = world
        .phase("train", run_operator::api::Phase::Cancelled)
        .await;
    assert_eq!(row(&run), "Cancelled: Accepted Finished Ready");
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
    history.holds().await;
}

/// Proves: D-forgotten, D-retention
#[tokio::test]
async fn past_key_retention_nothing_is_posted_and_orphan_releases() {
    let mut world = World::new().await;
    let hang = json!({"type": "hang", "forMs": 60000, "execute": true});
    world
        .service
        .fault(json!({"operation": "createRun"}), hang)
        .await;
    let created = world.create_run("train", json!({})).await;
    world.asked("createRun", 1).await;
    world.kill_operator();
    // The operator was down for longer than the service remembers the key.
    let mut intent = intent_of(&world.run("train").await).unwrap();
    intent["time"] = json!("2020-01-01T00:00:00Z");
    let annotations = json!({"run-operator.dev/intent": intent.to_string()});
    world
        .patch_run("train", json!({"metadata": {"annotations": annotations}}))
        .await;
    world.start_operator().await;
    let run = world
        .condition("train", Type::Stalled, "True", "SubmissionUnknown")
        .await;
    assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Stalled");
    world.delete_run("train").await;
    world
        .run_until("train", "says how to let it go", |run| {
            let conditions = &run.status.as_ref().unwrap().conditions;
            conditions
                .iter()
                .any(|c| c.message.contains("deletionPolicy: Orphan"))
        })
        .await;
    holds_for_a_while(20, async || assert!(held(&world.run("train").await))).await;
    assert_eq!(world.service.requests("createRun").await.len(), 1);
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    world.gone("train").await;
    let note = world.event("train", "Orphaned").await;
    assert!(note.contains(&created.uid().unwrap()), "{note}");
    assert_eq!(world.service.requests("createRun").await.len(), 1);
}

/// Proves: D-forgotten
#[tokio::test]
async fn a_deletion_in_doubt_waits_for_its_workspace_to_be_recreated() {
    let world = World::new().await;
    world.service.leaves_in_doubt().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    world.force_workspace_away("default").await;
    world.delete_run("train").await;
    let run = world
        .condition("train", Type::Stalled, "True", "WorkspaceNotFound")
        .await;
    assert!(held(&run));
    world.service.delete("faults").await;
    world.create_workspace("default", json!({})).await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
}
