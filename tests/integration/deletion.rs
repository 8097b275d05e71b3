//! The design's deletion table, row by row.

use kube::ResourceExt;
use kube::api::PostParams;
use run_operator::api::{ConditionType as Type, Phase, Run};
use serde_json::{Value, json};

use crate::support::{World, eventually, held, holds_for_a_while, intent_of, phase_of, row};

/// An active Run that only a cancellation ends.
async fn running(world: &World, name: &str, cancel: &str) -> String {
    world
        .simulate(name, json!({"outcome": "never", "cancel": cancel}))
        .await;
    let run = world.state(name, "running").await;
    run.status.unwrap().run_id.unwrap()
}

#[tokio::test]
async fn what_was_never_submitted_goes_at_once_without_a_call() {
    let world = World::new().await;
    world
        .create_run("waiting", json!({"workspaceRef": {"name": "missing"}}))
        .await;
    world
        .condition("waiting", Type::Ready, "False", "WorkspaceNotFound")
        .await;
    world.create_run("held", json!({"suspend": true})).await;
    world
        .condition("held", Type::Ready, "False", "Suspended")
        .await;
    for name in ["waiting", "held"] {
        world.delete_run(name).await;
        world.gone(name).await;
    }
    assert_eq!(world.service.run_calls().await, 0);
    assert_eq!(
        world
            .operator()
            .metric("run_operator_vanished_runs_total")
            .await,
        0.0
    );
}

#[tokio::test]
async fn a_running_run_is_cancelled_and_seen_to_end_before_the_object_goes() {
    let world = World::new().await;
    let history = world.history().await;
    world
        .simulate("train", json!({"outcome": "never", "cancelTimeMs": 1500}))
        .await;
    world.state("train", "running").await;
    world.delete_run("train").await;
    let run = world.phase("train", Phase::Cancelling).await;
    assert_eq!(
        row(&run),
        "Cancelling: Accepted !Finished !Ready Reconciling"
    );
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (&runs[0]["state"], &runs[0]["cancels"]),
        (&json!("cancelled"), &json!(1))
    );
    history.holds().await;
}

#[tokio::test]
async fn a_cancel_that_is_refused_first_is_asked_for_again() {
    let world = World::new().await;
    let history = world.history().await;
    running(&world, "train", "confirm").await;
    let refusal =
        json!({"type": "answer", "status": 409, "code": "cancel_refused", "retryable": false});
    world
        .service
        .fault(json!({"operation": "cancelRun"}), refusal)
        .await;
    world.delete_run("train").await;
    let run = world
        .condition("train", Type::Ready, "False", "CancelRefused")
        .await;
    assert!(held(&run), "the object was let go of a run that goes on");
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs[0]["state"], "cancelled");
    assert_eq!(world.service.requests("cancelRun").await.len(), 2);
    history.holds().await;
}

#[tokio::test]
async fn a_cancel_that_is_accepted_and_ignored_is_asked_for_again() {
    let world = World::new().await;
    running(&world, "train", "ignoreFirst").await;
    world.delete_run("train").await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(
        (&runs[0]["state"], &runs[0]["cancels"]),
        (&json!("cancelled"), &json!(2))
    );
}

#[tokio::test]
async fn a_cancel_whose_answer_is_lost_is_retried() {
    let world = World::new().await;
    running(&world, "train", "confirm").await;
    world
        .service
        .fault(
            json!({"operation": "cancelRun"}),
            json!({"type": "loseBefore"}),
        )
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");
}

#[tokio::test]
async fn a_run_that_succeeds_while_it_is_cancelled_lets_the_object_go() {
    let world = World::new().await;
    running(&world, "train", "finish").await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(world.service.runs().await[0]["state"], "succeeded");
}

#[tokio::test]
async fn in_doubt_the_same_post_learns_the_run_which_is_then_cancelled() {
    let world = World::new().await;
    let history = world.history().await;
    world
        .service
        .fault(
            json!({"operation": "createRun"}),
            json!({"type": "doThenLose"}),
        )
        .await;
    world
        .service
        .lasting_fault(
            json!({"operation": "createRun"}),
            json!({"type": "answer", "status": 503}),
        )
        .await;
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

#[tokio::test]
async fn refused_for_good_goes_at_once_without_a_further_call() {
    let world = World::new().await;
    world
        .service
        .fault(
            json!({"operation": "createRun"}),
            json!({"type": "answer", "status": 422, "code": "validation_failed"}),
        )
        .await;
    world.create_run("train", json!({})).await;
    world
        .condition("train", Type::Stalled, "True", "CreateRefused")
        .await;
    let calls = world.service.run_calls().await;
    assert_eq!(calls, 1);
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(world.service.run_calls().await, calls);
    assert!(world.service.runs().await.is_empty());
}

#[tokio::test]
async fn a_run_that_cancel_and_get_both_deny_lets_the_object_go() {
    let world = World::new().await;
    let run_id = running(&world, "train", "confirm").await;
    world.service.delete(&format!("runs/{run_id}")).await;
    world.delete_run("train").await;
    world.gone("train").await;
    for operation in ["cancelRun", "getRun"] {
        let requests = world.service.requests(operation).await;
        let denied = requests.iter().any(|request| request["status"] == 404);
        assert!(denied, "{operation} was not asked");
    }
    assert_eq!(world.service.requests("createRun").await.len(), 1);
}

#[tokio::test]
async fn a_run_that_was_denied_before_the_deletion_lets_the_object_go_as_well() {
    let world = World::new().await;
    let run_id = running(&world, "train", "confirm").await;
    let other = running(&world, "other", "confirm").await;
    world.service.delete(&format!("runs/{run_id}")).await;
    world
        .condition("train", Type::Synced, "False", "RunNotFound")
        .await;
    assert!(held(&world.run("train").await));
    world.delete_run("train").await;
    world.gone("train").await;
    let cancels = world.service.requests("cancelRun").await;
    assert!(cancels.iter().all(|request| request["status"] == 404));
    // The minute between two confirmations is for failing a Run: this one does not wait for it.
    let polls = world.service.requests("getRun").await;
    let polls = polls
        .iter()
        .filter(|request| request["runId"] == other.as_str());
    assert!(polls.count() < 15, "the deletion took many poll intervals");
}

#[tokio::test]
async fn with_orphan_the_object_goes_and_the_run_goes_on() {
    let world = World::new().await;
    let run_id = running(&world, "train", "confirm").await;
    let key = world.run("train").await.uid().unwrap();
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    let note = world.event("train", "Orphaned").await;
    assert!(note.contains(&key) && note.contains(&run_id), "{note}");
    let runs = world.service.runs().await;
    assert_eq!(
        (&runs[0]["state"], &runs[0]["cancels"]),
        (&json!("running"), &json!(0))
    );
    eventually("its stream is closed", async || {
        match world.service.get("stats").await["openStreams"].as_i64() {
            Some(0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn an_object_in_doubt_is_let_go_by_orphan_also_after_its_deletion() {
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
async fn a_recreation_of_the_same_name_is_a_new_run() {
    let world = World::new().await;
    let first = running(&world, "train", "confirm").await;
    world.delete_run("train").await;
    world.gone("train").await;
    let second = running(&world, "train", "confirm").await;
    assert_ne!(first, second);
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 2);
    assert_eq!(
        (&runs[0]["state"], &runs[1]["state"]),
        (&json!("cancelled"), &json!("running"))
    );
    assert_ne!(runs[0]["idempotencyKey"], runs[1]["idempotencyKey"]);
}

/// What a user keeps in Git: no annotation, no finalizer.
fn manifest(run: &Run) -> Value {
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": run.name_any()}, "spec": run.spec,
    })
}

#[tokio::test]
async fn a_replace_that_strips_finalizer_and_intent_is_mended() {
    let world = World::new().await;
    let history = world.history().await;
    running(&world, "train", "confirm").await;
    let before = world.run("train").await;
    let yaml = manifest(&before).to_string();
    world.kubectl(&["replace", "-f", "-"], &yaml).await.unwrap();
    let stripped = history
        .of("train")
        .iter()
        .any(|run| !held(run) && phase_of(run) == Some(Phase::Active));
    let mended = world
        .run_until("train", "has finalizer and intent again", |run| {
            held(run) && intent_of(run).is_some()
        })
        .await;
    assert!(stripped || mended.resource_version() > before.resource_version());
    assert_eq!(
        intent_of(&mended).unwrap()["key"],
        intent_of(&before).unwrap()["key"]
    );
    world.delete_run("train").await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
    history.holds().await;
}

#[tokio::test]
async fn a_replace_while_the_operator_is_down_is_mended_from_the_status() {
    let mut world = World::new().await;
    running(&world, "train", "confirm").await;
    let before = world.run("train").await;
    world.kill_operator();
    let yaml = manifest(&before).to_string();
    world.kubectl(&["replace", "-f", "-"], &yaml).await.unwrap();
    assert!(!held(&world.run("train").await));
    world.start_operator().await;
    world
        .run_until("train", "has finalizer and intent again", |run| {
            held(run) && intent_of(run).is_some()
        })
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
    assert_eq!(world.service.requests("createRun").await.len(), 1);
}

/// Deletes a Run and tears its finalizer off while its cancellation can't succeed.
async fn vanish(world: &World, name: &str) {
    world
        .service
        .lasting_fault(
            json!({"operation": "cancelRun"}),
            json!({"type": "answer", "status": 409, "code": "cancel_refused"}),
        )
        .await;
    world.delete_run(name).await;
    world.asked("cancelRun", 1).await;
    world
        .patch_run(name, json!({"metadata": {"finalizers": null}}))
        .await;
    world.gone(name).await;
}

#[tokio::test]
async fn the_run_of_an_object_that_vanished_is_cancelled_and_counted() {
    let world = World::new().await;
    running(&world, "train", "confirm").await;
    vanish(&world, "train").await;
    assert_eq!(world.service.runs().await[0]["state"], "running");
    world.service.delete("faults").await;
    eventually(
        "the run of the vanished object is cancelled",
        async || match world.service.runs().await[0]["state"].as_str() {
            Some("cancelled") => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    let counted = world
        .operator()
        .metric("run_operator_vanished_runs_total")
        .await;
    assert_eq!(counted, 1.0);
}

#[tokio::test]
async fn an_object_that_vanished_at_once_has_its_run_cancelled() {
    let world = World::new().await;
    running(&world, "train", "confirm").await;
    // A strip is mended within moments; this one is too quick for that, or loses to it and is an
    // ordinary deletion. Either way no run stays.
    let strip = json!({"metadata": {"finalizers": null}});
    world.patch_run("train", strip).await;
    world.delete_run("train").await;
    world.gone("train").await;
    eventually("the run is cancelled", async || {
        match world.service.runs().await[0]["state"].as_str() {
            Some("cancelled") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// A manifest as a backup or a `kubectl get -o yaml` keeps it: with another object's intent.
async fn copy_of(world: &World, original: &Run, name: &str) -> Run {
    let intent = original
        .annotations()
        .get("run-operator.dev/intent")
        .unwrap();
    let copy = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {
            "name": name, "annotations": {"run-operator.dev/intent": intent},
            "finalizers": original.metadata.finalizers,
        },
        "spec": original.spec,
    });
    let copy: Run = serde_json::from_value(copy).unwrap();
    world
        .runs()
        .create(&PostParams::default(), &copy)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_copy_with_the_intent_of_another_object_is_not_submitted_until_a_retry() {
    let world = World::new().await;
    let history = world.history().await;
    running(&world, "train", "confirm").await;
    let original = world.run("train").await;
    let copy = copy_of(&world, &original, "copy").await;
    copy_of(&world, &original, "deleted").await;
    for name in ["copy", "deleted"] {
        let run = world
            .condition(name, Type::Stalled, "True", "Restored")
            .await;
        assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Stalled");
    }
    world.delete_run("deleted").await;
    world.gone("deleted").await;
    assert_eq!(world.service.requests("createRun").await.len(), 1);
    assert!(world.service.requests("cancelRun").await.is_empty());
    let retry = json!({"metadata": {"annotations": {"run-operator.dev/retry": "again"}}});
    world.patch_run("copy", retry).await;
    world.state("copy", "running").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1]["idempotencyKey"].as_str(), copy.uid().as_deref());
    world.delete_run("copy").await;
    world.gone("copy").await;
    let runs = world.service.runs().await;
    assert_eq!(
        (&runs[0]["state"], &runs[1]["state"]),
        (&json!("running"), &json!("cancelled"))
    );
    history.holds().await;
}
