//! A Workspace outlives the Runs that need it, and no others.

use kube::ResourceExt;
use serde_json::json;

use run_operator::api::{ConditionType as Type, names};

use crate::support::{Rights, SECRET, Setup, World, holds_for_a_while, says};

/// Longer than the second between two tries that were overtaken.
const A_WHILE: u32 = 120;

/// The operator may list Runs and not watch them, so that it sees none that was made after its start.
/// Proves: P-workspace-finalizer
#[tokio::test]
async fn a_workspace_waits_for_a_run_that_only_a_live_list_shows() {
    let rules = json!([{
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"],
    }]);
    let mut world = World::with(Setup {
        rights: Rights::Secrets(rules),
        ..Setup::default()
    })
    .await;
    world.workspace_ready("default", "True", "Verified").await;
    world.kill_operator();
    let group = ["run-operator.dev"];
    let rules = json!([
        {"apiGroups": group, "resources": ["workspaces", "workspaces/status"], "verbs": ["*"]},
        {"apiGroups": group, "resources": ["runs", "runs/status"], "verbs": ["get", "list", "patch"]},
    ]);
    let patch = json!([{"op": "replace", "path": "/rules", "value": rules}]).to_string();
    let role = &world.namespace;
    let patch = ["patch", "role", role, "--type=json", "-p", &patch];
    world.kubectl(&patch, "").await.unwrap();
    world.start_operator().await;
    // It may have made a run: its intent can't be read.
    world.create_run("unseen", json!({})).await;
    let intent = json!({"annotations": {names::INTENT_ANNOTATION: "{"}});
    world.patch_run("unseen", json!({"metadata": intent})).await;
    world.delete_workspace("default").await;
    world
        .workspace_condition("default", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    holds_for_a_while(A_WHILE, async || {
        let left = world.workspaces().get("default").await.unwrap();
        assert_eq!(left.finalizers(), [names::FINALIZER]);
    })
    .await;
    world.delete_run("unseen").await;
    world.workspace_gone("default").await;
}

/// Proves: P-workspace-finalizer, D-vanished
#[tokio::test]
async fn a_deleting_workspace_waits_for_the_run_of_a_removed_object() {
    let world = World::new().await;
    world.running("train").await;
    let refused = json!({"type": "answer", "status": 503});
    let cancel = json!({"operation": "cancelRun"});
    world.service.lasting_fault(cancel, refused).await;
    world.delete_run("train").await;
    world.asked("cancelRun", 1).await;
    // A person removes the Run's finalizer, but not the Workspace's.
    let strip = json!({"metadata": {"finalizers": null}});
    world.patch_run("train", strip).await;
    world.gone("train").await;
    world.delete_workspace("default").await;
    let told = world
        .workspace_condition("default", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    says(&told, &["train"]);
    assert_eq!(world.service.runs().await[0]["state"], "running");
    world
        .metric_is("run_operator_vanished_runs_total", 1.0)
        .await;
    world.service.delete("faults").await;
    world.workspace_gone("default").await;
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");
}
