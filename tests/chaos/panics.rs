//! A bug that panics in a reconcile concerns one object.

use std::path::PathBuf;
use std::time::Duration;

use kube::ResourceExt;
use run_operator::api::Phase;
use serde_json::json;

use crate::support::{Operator, Setup, World, eventually};

/// Pause after which a Workspace is checked again.
const AGAIN: Duration = Duration::from_mins(1);
const FAULT: &str = "RUN_OPERATOR_FAULT";

/// Starts the operator, whose first reconcile of this kind panics.
async fn start(world: &mut World, fault: &str) {
    let mut recipe = world.recipe();
    recipe.variables.push((FAULT, PathBuf::from(fault)));
    world.operator = Some(Operator::start(&recipe).await);
}

/// Waits until one panic is counted for this controller, and is logged with the object's name and nothing of it.
async fn told(world: &World, controller: &str, name: &str) {
    let panics =
        format!("controller_runtime_reconcile_panics_total{{controller=\"{controller}\"}}");
    eventually("the panic is counted", async || {
        let count = world.operator().metric(&panics).await;
        if count == 1.0 { Ok(()) } else { Err(count) }
    })
    .await;
    let log = world.operator_log();
    let line = log
        .lines()
        .find(|line| line.contains("the reconcile panicked;"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains(name), "{line}");
    assert!(!line.contains("example/secret-of-the-spec"), "{line}");
}

/// Proves: F-undecodable
#[tokio::test]
async fn a_run_whose_reconcile_panics_stops_no_other() {
    let mut world = World::unattended(Setup::default()).await;
    let spec = json!({"workload": {"image": "example/secret-of-the-spec"}});
    let run = world.create_run("odd", spec).await;
    start(&mut world, "reconcile.run:1:panic").await;
    told(&world, "run", "odd").await;
    world.create_run("other", json!({})).await;
    world.phase("other", Phase::Succeeded).await;
    assert_eq!(world.posts_of(&run).await, 0, "it is left alone");
    // It is reconciled again when it changes.
    let edit = json!({"metadata": {"labels": {"touched": "yes"}}});
    world.patch_run("odd", edit).await;
    world.phase("odd", Phase::Succeeded).await;
    world.one_run_each().await;
    assert_eq!(world.run("odd").await.uid(), run.uid());
}

/// Proves: F-undecodable
#[tokio::test]
async fn a_workspace_whose_check_panics_stops_no_other() {
    let mut world = World::unattended(Setup::default()).await;
    start(&mut world, "reconcile.workspace:1:panic").await;
    told(&world, "workspace", "default").await;
    world.create_workspace("second", json!({})).await;
    world.workspace_ready("second", "True", "Verified").await;
    let spec = json!({"workspaceRef": {"name": "second"}, "workload": {"image": "i"}});
    world.create_run("other", spec).await;
    world.phase("other", Phase::Succeeded).await;
    let checks = world.service.requests("getWorkspace").await.len();
    world.asked_after(AGAIN, "getWorkspace", checks + 1).await;
    world.workspace_ready("default", "True", "Verified").await;
}
