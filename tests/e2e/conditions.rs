//! The design's table "Conditions, by situation", a row a test, as the API server shows it.

use run_operator::api::{ConditionType as Type, Phase, Run, conditions};
use serde_json::json;

use crate::support::{World, row};

fn reason(run: &Run, kind: Type) -> String {
    let status = run.status.as_ref().unwrap();
    let condition = conditions::find(&status.conditions, kind);
    condition.map_or_else(|| format!("no {kind:?}"), |c| c.reason.clone())
}

/// Proves: P-conditions, P-workspace-holds
#[tokio::test]
async fn waiting_for_its_workspace_is_pending_and_reconciling() {
    let world = World::new().await;
    let history = world.history().await;
    let spec = json!({"workspaceRef": {"name": "missing"}});
    world.create_run("train", spec).await;
    let run = world
        .condition("train", Type::Ready, "False", "WorkspaceNotFound")
        .await;
    assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Reconciling");
    assert_eq!(reason(&run, Type::Reconciling), "WorkspaceNotFound");
    history.holds().await;
}

/// Proves: R10, R11, F-retried
#[tokio::test]
async fn retrying_is_pending_and_reconciling_and_names_the_request() {
    let world = World::new().await;
    let history = world.history().await;
    world
        .service
        .lasting_fault(
            json!({"operation": "createRun"}),
            json!({"type": "answer", "status": 503, "code": "busy"}),
        )
        .await;
    world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Reconciling");
    let error = run.status.unwrap().last_error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.http_status),
        ("busy", Some(503))
    );
    assert!(error.request_id.is_some() && error.next_attempt.is_some() && error.retryable);
    world.service.delete("faults").await;
    let run = world.phase("train", Phase::Succeeded).await;
    assert!(run.status.unwrap().last_error.is_none());
    assert_eq!(world.service.runs().await.len(), 1);
    history.holds().await;
}

/// Proves: P-conditions, F-refused-bytes
#[tokio::test]
async fn a_create_refused_for_good_is_failed_and_takes_no_retry() {
    let world = World::new().await;
    let history = world.history().await;
    world
        .service
        .fault(
            json!({"operation": "createRun"}),
            json!({"type": "answer", "status": 422, "code": "validation_failed", "title": "No such image"}),
        )
        .await;
    world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Stalled, "True", "CreateRefused")
        .await;
    assert_eq!(
        row(&run),
        "Failed: !Accepted Finished Failed !Ready Stalled"
    );
    for kind in [Type::Accepted, Type::Finished, Type::Failed, Type::Ready] {
        assert_eq!(reason(&run, kind), "CreateRefused");
    }
    let status = run.status.unwrap();
    assert!(status.completion_time.is_some() && status.run_id.is_none());
    let stalled = conditions::find(&status.conditions, Type::Stalled).unwrap();
    assert!(
        stalled.message.contains("No such image"),
        "{}",
        stalled.message
    );
    assert!(
        stalled
            .message
            .contains(status.request_id.as_deref().unwrap())
    );
    world.released("train").await;
    let retry = json!({"metadata": {"annotations": {"run-operator.dev/retry": "1"}}});
    world.patch_run("train", retry).await;
    // What comes after it is served, and by then the retry was seen too.
    world.create_run("next", json!({})).await;
    world.phase("next", Phase::Succeeded).await;
    assert_eq!(world.service.requests("createRun").await.len(), 2);
    assert_eq!(world.service.runs().await.len(), 1);
    assert_eq!(
        world.run("train").await.status.unwrap().phase,
        Some(Phase::Failed)
    );
    history.holds().await;
}

/// Proves: P-conditions, F-final
#[tokio::test]
async fn a_refusal_that_can_be_mended_is_stalled_until_a_retry() {
    let world = World::new().await;
    let history = world.history().await;
    let refusal = json!({"type": "answer", "status": 403, "code": "forbidden"});
    let creates = json!({"operation": "createRun"});
    world.service.fault(creates, refusal).await;
    world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Stalled, "True", "Forbidden")
        .await;
    assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Stalled");
    let retry = json!({"metadata": {"annotations": {"run-operator.dev/retry": "1"}}});
    world.patch_run("train", retry).await;
    let run = world.phase("train", Phase::Succeeded).await;
    assert_eq!(run.status.unwrap().handled_retry.as_deref(), Some("1"));
    assert_eq!(world.service.runs().await.len(), 1);
    history.holds().await;
}

/// Proves: P-conditions
#[tokio::test]
async fn at_the_service_is_active_and_reconciling() {
    let world = World::new().await;
    let history = world.history().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    let run = world.state("train", "running").await;
    assert_eq!(row(&run), "Active: Accepted !Finished !Ready Reconciling");
    assert_eq!(reason(&run, Type::Accepted), "Submitted");
    assert_eq!(reason(&run, Type::Synced), "Mirrored");
    assert_eq!(reason(&run, Type::Ready), "Active");
    assert!(run.status.unwrap().start_time.is_some());
    history.holds().await;
}

/// Proves: P-ready-when
#[tokio::test]
async fn with_ready_when_accepted_an_active_run_is_ready() {
    let world = World::new().await;
    let history = world.history().await;
    let workload = json!({"image": "i", "simulate": {"outcome": "failed", "runTimeMs": 3000}});
    let spec = json!({"readyWhen": "Accepted", "workload": workload});
    world.create_run("train", spec).await;
    let run = world.state("train", "running").await;
    assert_eq!(row(&run), "Active: Accepted !Finished Ready");
    // Accepted is not the end of it: a failure shows.
    let run = world.phase("train", Phase::Failed).await;
    assert_eq!(row(&run), "Failed: Accepted Finished Failed !Ready Stalled");
    history.holds().await;
}

/// Proves: P-conditions
#[tokio::test]
async fn a_cancellation_that_is_not_seen_to_end_is_cancelling() {
    let world = World::new().await;
    let history = world.history().await;
    world
        .simulate("train", json!({"outcome": "never", "cancel": "stuck"}))
        .await;
    world.state("train", "running").await;
    world
        .patch_run("train", json!({"spec": {"cancel": true}}))
        .await;
    let run = world.state("train", "cancelling").await;
    assert_eq!(
        row(&run),
        "Cancelling: Accepted !Finished !Ready Reconciling"
    );
    let status = run.status.unwrap();
    assert!(status.cancel_accepted_time.is_some() && status.completion_time.is_none());
    history.holds().await;
}

/// Proves: P-conditions
#[tokio::test]
async fn succeeded_is_complete_and_ready() {
    let world = World::new().await;
    let history = world.history().await;
    world.create_run("train", json!({})).await;
    let run = world.phase("train", Phase::Succeeded).await;
    assert_eq!(row(&run), "Succeeded: Accepted Finished Complete Ready");
    for kind in [Type::Finished, Type::Complete, Type::Ready] {
        assert_eq!(reason(&run, kind), "Succeeded");
    }
    assert!(run.status.unwrap().completion_time.is_some());
    history.holds().await;
}

/// Proves: P-conditions
#[tokio::test]
async fn failed_is_failed_and_stalled() {
    let world = World::new().await;
    let history = world.history().await;
    world.simulate("train", json!({"outcome": "failed"})).await;
    let run = world.phase("train", Phase::Failed).await;
    assert_eq!(row(&run), "Failed: Accepted Finished Failed !Ready Stalled");
    for kind in [Type::Finished, Type::Failed, Type::Ready, Type::Stalled] {
        assert_eq!(reason(&run, kind), "Failed");
    }
    assert_eq!(run.status.unwrap().state.as_deref(), Some("failed"));
    world.released("train").await;
    history.holds().await;
}

/// Proves: P-deadline
#[tokio::test]
async fn a_passed_deadline_cancels_and_fails_with_deadline_exceeded() {
    let world = World::new().await;
    let history = world.history().await;
    let workload = json!({"image": "i", "simulate": {"outcome": "never"}});
    let spec = json!({"activeDeadlineSeconds": 1, "workload": workload});
    world.create_run("train", spec).await;
    let run = world.phase("train", Phase::Failed).await;
    assert_eq!(row(&run), "Failed: Accepted Finished Failed !Ready Stalled");
    for kind in [Type::Finished, Type::Failed, Type::Ready, Type::Stalled] {
        assert_eq!(reason(&run, kind), "DeadlineExceeded");
    }
    let at_the_service = world.service.runs().await;
    assert_eq!(at_the_service[0]["state"], "cancelled");
    assert_eq!(at_the_service[0]["cancels"], 1);
    history.holds().await;
}

/// Proves: P-conditions
#[tokio::test]
async fn a_running_run_cancelled_by_spec_is_ready_and_is_kept() {
    let world = World::new().await;
    let history = world.history().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    world
        .patch_run("train", json!({"spec": {"cancel": true}}))
        .await;
    let run = world.phase("train", Phase::Cancelled).await;
    assert_eq!(row(&run), "Cancelled: Accepted Finished Ready");
    for kind in [Type::Finished, Type::Ready] {
        assert_eq!(reason(&run, kind), "Cancelled");
    }
    let released = world.released("train").await;
    assert!(released.metadata.deletion_timestamp.is_none());
    assert_eq!(world.service.runs().await[0]["cancels"], 1);
    history.holds().await;
}

/// Proves: P-conditions, P-cancel-unsubmitted
#[tokio::test]
async fn cancelled_before_its_submission_makes_no_call() {
    let world = World::new().await;
    let history = world.history().await;
    world
        .create_run("born-cancelled", json!({"cancel": true}))
        .await;
    world.create_run("held", json!({"suspend": true})).await;
    world
        .condition("held", Type::Ready, "False", "Suspended")
        .await;
    world
        .patch_run("held", json!({"spec": {"cancel": true}}))
        .await;
    for name in ["born-cancelled", "held"] {
        let run = world.phase(name, Phase::Cancelled).await;
        assert_eq!(row(&run), "Cancelled: !Accepted Finished Ready");
        assert!(!crate::support::held(&run));
    }
    assert_eq!(world.service.run_calls().await, 0);
    history.holds().await;
}

/// Proves: P-conditions
#[tokio::test]
async fn cancelled_by_somebody_else_is_failed_and_stalled() {
    let world = World::new().await;
    let history = world.history().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    let run = world.state("train", "running").await;
    let run_id = run.status.unwrap().run_id.unwrap();
    world
        .service
        .post(
            &format!("runs/{run_id}/state"),
            json!({"state": "cancelled"}),
        )
        .await;
    let run = world.phase("train", Phase::Cancelled).await;
    assert_eq!(
        row(&run),
        "Cancelled: Accepted Finished Failed !Ready Stalled"
    );
    for kind in [Type::Finished, Type::Failed, Type::Ready, Type::Stalled] {
        assert_eq!(reason(&run, kind), "CancelledElsewhere");
    }
    assert_eq!(world.service.get("stats").await["cancels"], 0);
    history.holds().await;
}

/// Proves: P-synced
#[tokio::test]
async fn a_stale_mirror_is_shown_and_recovers() {
    let world = World::new().await;
    let history = world.history().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    world
        .service
        .lasting_fault(
            json!({"operation": "getRun"}),
            json!({"type": "answer", "status": 500, "code": "oops"}),
        )
        .await;
    let run = world
        .condition("train", Type::Synced, "False", "ServiceUnavailable")
        .await;
    assert_eq!(row(&run), "Active: Accepted !Finished !Ready Reconciling");
    world.service.delete("faults").await;
    world
        .condition("train", Type::Synced, "True", "Mirrored")
        .await;
    history.holds().await;
}
