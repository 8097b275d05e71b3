//! `cancel`, `retry`, `suspend`, `resume`, `orphan`: what they change, and what they refuse.

use kube::ResourceExt;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::stale::Proxy;
use crate::support::World;

use super::{plugin, refuse_creates, running, runs, started};

/// Proves: K-change
#[tokio::test]
async fn a_cancelled_run_is_cancelled_at_the_service_and_kept() {
    let world = World::new().await;
    running(&world, "train").await;
    let out = runs(&world, &["cancel", "train"]).await.ok();
    assert_eq!(out, "run.run-operator.dev/train cancelled\n");
    world.phase("train", Phase::Cancelled).await;
    let out = runs(&world, &["cancel", "train"]).await.ok();
    assert_eq!(
        out,
        "run.run-operator.dev/train unchanged: it has ended (Cancelled)\n"
    );
    assert_eq!(world.service.runs().await[0]["cancels"], 1);
    // Nothing of it was begun, and the API server would take the change.
    world.create_run("unbegun", json!({"cancel": true})).await;
    world.phase("unbegun", Phase::Cancelled).await;
    let said = runs(&world, &["suspend", "unbegun"]).await.ended(2);
    assert!(said.contains("unbegun: it has ended"), "{said}");
}

/// Proves: K-retry
#[tokio::test]
async fn a_retry_submits_what_was_refused_and_nothing_else() {
    let world = World::new().await;
    running(&world, "active").await;
    let said = runs(&world, &["retry", "active"]).await.ended(2);
    assert!(
        said.contains("active: Nothing was refused for good"),
        "{said}"
    );
    refuse_creates(&world).await;
    world.simulate("train", json!({})).await;
    world
        .condition("train", Type::Stalled, "True", "Forbidden")
        .await;
    world.service.delete("faults").await;
    // The one that can't be retried doesn't keep the other from it.
    let said = runs(&world, &["retry", "active", "train"]).await.ended(2);
    assert!(
        said.contains("run.run-operator.dev/train retried\n"),
        "{said}"
    );
    world.phase("train", Phase::Succeeded).await;
    let said = runs(&world, &["retry", "train"]).await.ended(2);
    assert!(
        said.contains("train: It has ended. Create a new Run"),
        "{said}"
    );
    assert_eq!(world.service.runs().await.len(), 2);
}

/// Proves: K-change
#[tokio::test]
async fn a_suspended_run_waits_until_it_is_resumed() {
    let mut world = World::new().await;
    world.create_run("train", json!({"suspend": true})).await;
    world
        .condition("train", Type::Ready, "False", "Suspended")
        .await;
    let said = runs(&world, &["retry", "train"]).await.ended(2);
    assert!(said.contains("It is suspended. Resume it."), "{said}");
    let out = runs(&world, &["suspend", "train"]).await.ok();
    assert_eq!(
        out,
        "run.run-operator.dev/train unchanged: it is suspended\n"
    );
    let out = runs(&world, &["resume", "train"]).await.ok();
    assert_eq!(out, "run.run-operator.dev/train resumed\n");
    world.phase("train", Phase::Succeeded).await;
    running(&world, "active").await;
    let said = runs(&world, &["suspend", "active"]).await.ended(2);
    assert!(
        said.contains("active: its submission has begun; it can only be cancelled"),
        "{said}"
    );
    world.kill_operator();
    world.simulate("fresh", json!({})).await;
    let out = runs(&world, &["suspend", "fresh", "-o", "name"]).await.ok();
    assert_eq!(out, "run.run-operator.dev/fresh\n");
    assert_eq!(world.run("fresh").await.spec.suspend, Some(true));
}

/// Proves: K-change
#[tokio::test]
async fn each_change_is_written_once_and_to_the_version_read() {
    let mut world = World::new().await;
    world.kill_operator();
    world.simulate("train", json!({})).await;
    let proxy = Proxy::start(world.control_plane).await;
    let mut read = Vec::new();
    for command in ["suspend", "resume", "orphan", "cancel"] {
        read.push(json!(world.run("train").await.resource_version()));
        for _ in 0..2 {
            let change = plugin(&world, proxy.kubeconfig(), &[command, "train"]);
            started(change, "").end().await.ok();
        }
    }
    let writes = proxy.asked(|asked| asked.verb != "get");
    let written: Vec<Value> = writes
        .iter()
        .map(|asked| {
            let patch: Value = serde_json::from_str(&asked.body).unwrap();
            patch["metadata"]["resourceVersion"].clone()
        })
        .collect();
    assert_eq!(written, read);
    let asked = proxy.asked(|_| true);
    let verbs: Vec<&str> = asked.iter().map(|asked| asked.verb).collect();
    assert_eq!(verbs, ["get", "patch", "get"].repeat(4));
}

/// Proves: K-change
#[tokio::test]
async fn an_orphaned_object_is_deleted_without_its_run() {
    let world = World::new().await;
    let stuck = json!({"outcome": "never", "cancel": "stuck"});
    world.simulate("train", stuck).await;
    world.state("train", "running").await;
    world.delete_run("train").await;
    world.state("train", "cancelling").await;
    let out = runs(&world, &["orphan", "train"]).await.ok();
    assert!(
        out.starts_with("run.run-operator.dev/train orphaned"),
        "{out}"
    );
    world.gone("train").await;
}

/// Proves: K-change
#[tokio::test]
async fn a_change_that_a_gitops_tool_may_undo_says_so() {
    let world = World::new().await;
    running(&world, "train").await;
    let label = json!({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}});
    world.patch_run("train", label).await;
    let said = runs(&world, &["cancel", "train"]).await.ended(0);
    assert!(said.contains("Warning: Flux keeps train"), "{said}");
}
