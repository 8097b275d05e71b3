//! Changes of an object by people, backups and other controllers.

use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use run_operator::api::{ConditionType as Type, Phase, Run};
use serde_json::{Value, json};

use crate::support::{Service, World, eventually, held, intent_of, phase_of, row};
use test_cluster::Scratch;

/// An active Run that only a cancellation ends.
async fn running(world: &World, name: &str) {
    world.simulate(name, json!({"outcome": "never"})).await;
    world.state(name, "running").await;
}

/// The manifest that a user keeps in Git: no annotation, no finalizer.
fn manifest(run: &Run) -> Value {
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": run.name_any()}, "spec": run.spec,
    })
}

/// Proves: D-stripped
#[tokio::test]
async fn a_replace_that_strips_finalizer_and_intent_is_mended() {
    let world = World::new().await;
    let history = world.history().await;
    running(&world, "train").await;
    let before = world.run("train").await;
    let yaml = manifest(&before).to_string();
    world.kubectl(&["replace", "-f", "-"], &yaml).await.unwrap();
    eventually("a version without the finalizer", async || {
        let stripped = |run: &Run| !held(run) && phase_of(run) == Some(Phase::Active);
        let seen = history.of("train").iter().any(stripped);
        if seen { Ok(()) } else { Err("none is seen") }
    })
    .await;
    let mended = world
        .run_until("train", "has finalizer and intent again", |run| {
            held(run) && intent_of(run).is_some()
        })
        .await;
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

/// Proves: D-stripped
#[tokio::test]
async fn a_replace_while_the_operator_is_down_is_repaired_from_status() {
    let mut world = World::new().await;
    running(&world, "train").await;
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

/// Proves: D-stripped
#[tokio::test]
async fn a_deleting_workspace_lets_a_stripped_run_be_mended() {
    let mut world = World::new().await;
    let scratch = Scratch::new("tampering").unwrap();
    let elsewhere = Service::start(&scratch, &[]).await;
    running(&world, "moved").await;
    world.restart_operator_at(&elsewhere.base_url()).await;
    world
        .condition("moved", Type::Synced, "False", "WorkspaceChanged")
        .await;
    // The Workspace waits for this one, whose run is at its present base URL, and not for the other.
    running(&world, "awaited").await;
    let workspaces = world.workspaces();
    workspaces
        .delete("default", &DeleteParams::default())
        .await
        .unwrap();
    world
        .workspace_condition("default", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    let yaml = manifest(&world.run("moved").await).to_string();
    world.kubectl(&["replace", "-f", "-"], &yaml).await.unwrap();
    world
        .run_until("moved", "has finalizer and intent again", |run| {
            held(run) && intent_of(run).is_some()
        })
        .await;
    assert!(workspaces.get_opt("default").await.unwrap().is_some());
    assert_eq!(elsewhere.requests("createRun").await.len(), 1);
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

/// Proves: D-vanished
#[tokio::test]
async fn the_run_of_an_object_that_vanished_is_cancelled_and_counted() {
    let world = World::new().await;
    running(&world, "train").await;
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

/// Proves: D-vanished
#[tokio::test]
async fn a_run_that_is_learnt_after_its_object_vanished_is_cancelled() {
    let world = World::new().await;
    let late = json!({"type": "delay", "forMs": 3000, "execute": true});
    world
        .service
        .fault(json!({"operation": "createRun"}), late)
        .await;
    world.simulate("train", json!({"outcome": "never"})).await;
    let made = async || match world.service.runs().await.len() {
        1 => Ok(()),
        n => Err(format!("{n} runs")),
    };
    eventually("the service has made the run", made).await;
    world.delete_run("train").await;
    world
        .patch_run("train", json!({"metadata": {"finalizers": null}}))
        .await;
    world.gone("train").await;
    eventually("the run is cancelled", async || {
        match world.service.runs().await[0]["state"].as_str() {
            Some("cancelled") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(world.service.count("createRun").await, 1);
}

/// Proves: D-vanished
#[tokio::test]
async fn an_object_that_vanished_at_once_has_its_run_cancelled() {
    let world = World::new().await;
    running(&world, "train").await;
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

/// Proves: P-foreign-intent
#[tokio::test]
async fn a_copy_with_another_objects_intent_is_not_submitted_unasked() {
    let world = World::new().await;
    let history = world.history().await;
    running(&world, "train").await;
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
