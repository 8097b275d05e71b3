//! A Workspace outlives the Runs that need it, and no others.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase, names};

use crate::support::{
    Rights, SECRET, Setup, World, eventually, holds_for_a_while, own_control_plane, says,
};

/// Longer than the second between two tries that were overtaken.
const A_WHILE: u32 = 120;

async fn delete_workspace(world: &World, name: &str) {
    world
        .workspaces()
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
}

async fn workspace_gone(world: &World, name: &str) {
    eventually(
        &format!("the Workspace {name} is gone"),
        async || match world.workspaces().get_opt(name).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
}

/// Proves: P-workspace-finalizer
#[tokio::test]
async fn a_deleting_workspace_waits_for_its_runs_and_admits_no_other() {
    let world = World::new().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    // Refused for good, and proved to have made no run: it needs no Workspace.
    world
        .simulate("refused", json!({"misspelt": "never"}))
        .await;
    world
        .condition("refused", Type::Stalled, "True", "CreateRefused")
        .await;
    delete_workspace(&world, "default").await;
    let told = world
        .workspace_condition("default", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    says(&told, &["Being deleted", "train"]);
    assert!(!told.contains("refused"), "{told}");
    world.create_run("late", json!({})).await;
    world
        .condition("late", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    // It still serves what it has submitted.
    let run = world.run("train").await;
    let id = run.status.unwrap().run_id.unwrap();
    let odd = json!({"state": "provisioning"});
    world.service.post(&format!("runs/{id}/state"), odd).await;
    world.state("train", "provisioning").await;
    world.delete_run("train").await;
    world.gone("train").await;
    workspace_gone(&world, "default").await;
    world
        .condition("late", Type::Ready, "False", "WorkspaceNotFound")
        .await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"], "cancelled");
    // A new one takes up those that wait.
    world.create_workspace("default", json!({})).await;
    world.phase("late", Phase::Succeeded).await;
    assert_eq!(world.service.runs().await.len(), 2);
}

/// Proves: P-workspace-finalizer
#[tokio::test]
async fn an_unneeded_workspace_is_deleted_at_once_after_restart_too() {
    let mut world = World::new().await;
    world.create_run("done", json!({})).await;
    world.phase("done", Phase::Succeeded).await;
    world.create_run("held", json!({"suspend": true})).await;
    world
        .condition("held", Type::Ready, "False", "Suspended")
        .await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    world.kill_operator();
    delete_workspace(&world, "default").await;
    let left = world.workspaces().get("default").await.unwrap();
    assert_eq!(left.finalizers(), [names::FINALIZER]);
    world.start_operator().await;
    world
        .workspace_condition("default", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    world
        .patch_run("train", json!({"spec": {"cancel": true}}))
        .await;
    world.phase("train", Phase::Cancelled).await;
    workspace_gone(&world, "default").await;
}

/// Proves: P-workspace-finalizer
#[tokio::test]
async fn a_deleting_workspace_waits_until_a_run_in_doubt_is_resolved() {
    let world = World::new().await;
    world.service.leaves_in_doubt().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    delete_workspace(&world, "default").await;
    world
        .workspace_condition("default", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    world.service.delete("faults").await;
    world.state("train", "running").await;
    world.delete_run("train").await;
    world.gone("train").await;
    workspace_gone(&world, "default").await;
    assert_eq!(world.service.runs().await.len(), 1);
}

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
    let role = world.namespace.clone();
    let patched = world
        .kubectl(&["patch", "role", &role, "--type=json", "-p", &patch], "")
        .await;
    patched.unwrap();
    world.start_operator().await;
    // It may have made a run: its intent can't be read.
    world.create_run("unseen", json!({})).await;
    let intent = json!({"annotations": {names::INTENT_ANNOTATION: "{"}});
    world.patch_run("unseen", json!({"metadata": intent})).await;
    delete_workspace(&world, "default").await;
    world
        .workspace_condition("default", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    holds_for_a_while(A_WHILE, async || {
        let left = world.workspaces().get("default").await.unwrap();
        assert_eq!(left.finalizers(), [names::FINALIZER]);
    })
    .await;
    world.delete_run("unseen").await;
    workspace_gone(&world, "default").await;
}

/// Proves: P-workspace-finalizer, D-vanished
#[tokio::test]
async fn a_deleting_workspace_waits_for_the_run_of_a_removed_object() {
    let world = World::new().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    let refused = json!({"type": "answer", "status": 503});
    world
        .service
        .lasting_fault(json!({"operation": "cancelRun"}), refused)
        .await;
    world.delete_run("train").await;
    world.asked("cancelRun", 1).await;
    // A person removes the Run's finalizer, but not the Workspace's.
    let strip = json!({"metadata": {"finalizers": null}});
    world.patch_run("train", strip).await;
    world.gone("train").await;
    delete_workspace(&world, "default").await;
    let told = world
        .workspace_condition("default", Type::Ready, "False", "WorkspaceDeleting")
        .await;
    says(&told, &["train"]);
    assert_eq!(world.service.runs().await[0]["state"], "running");
    world.service.delete("faults").await;
    workspace_gone(&world, "default").await;
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");
}

/// Has the API server refuse that this world's Workspaces lose their finalizer.
async fn forbid_release(world: &World) {
    world
        .forbid("workspaces", "has(object.metadata.finalizers)")
        .await;
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let strip = json!({"metadata": {"finalizers": null}});
    eventually("the policy is in force", async || {
        let strip = Patch::Merge(&strip);
        let probe = world.workspaces().patch("default", &params, &strip).await;
        if probe.is_err() {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
}

/// Proves: P-workspace-finalizer
#[tokio::test]
async fn a_refused_finalizer_removal_is_not_retried_every_second() {
    let world = World::new().await;
    world.workspace_ready("default", "True", "Verified").await;
    forbid_release(&world).await;
    delete_workspace(&world, "default").await;
    let refused = r#"controller_runtime_reconcile_errors_total{controller="workspace",reason="write_refused"}"#;
    let tries = async || world.operator().metric(refused).await;
    eventually("the release is refused", async || {
        if tries().await > 0.0 {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    holds_for_a_while(A_WHILE, async || assert_eq!(tries().await, 1.0)).await;
    world.permit().await;
}

#[tokio::test]
async fn a_finalizer_that_somebody_strips_is_put_back() {
    let world = World::new().await;
    world.workspace_ready("default", "True", "Verified").await;
    let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world
        .workspaces()
        .patch("default", &PatchParams::default(), &strip)
        .await
        .unwrap();
    eventually("the finalizer is back", async || {
        let workspace = world.workspaces().get("default").await.unwrap();
        if workspace.finalizers() == [names::FINALIZER] {
            Ok(())
        } else {
            Err(format!("{:?}", workspace.finalizers()))
        }
    })
    .await;
}

#[tokio::test]
async fn runs_of_an_undecodable_workspace_are_reported() {
    let own = own_control_plane().await;
    let world = World::with(Setup {
        control_plane: Some(own),
        ..Setup::default()
    })
    .await;
    world.workspace_ready("default", "True", "Verified").await;
    let crds: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let patch: json_patch::Patch = serde_json::from_value(json!([
        {"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": open},
    ]))
    .unwrap();
    crds.patch(
        "workspaces.run-operator.dev",
        &PatchParams::default(),
        &Patch::Json::<()>(patch),
    )
    .await
    .unwrap();
    let odd = Patch::Merge(json!({"spec": {"suspend": "perhaps"}}));
    let api = world.workspaces();
    eventually("the API server takes the odd Workspace", async || {
        // The answer itself can't be decoded: that is what was asked for.
        match api.patch("default", &PatchParams::default(), &odd).await {
            Err(kube::Error::SerdeError(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Ready, "False", "WorkspaceNotReady")
        .await;
    let told = crate::support::condition_of(&run, Type::Ready).unwrap();
    says(&told.message, &["WorkspaceInvalid", "correct them"]);
    assert!(world.service.runs().await.is_empty());
    let even = Patch::Merge(json!({"spec": {"suspend": null}}));
    api.patch("default", &PatchParams::default(), &even)
        .await
        .unwrap();
    world.phase("train", Phase::Succeeded).await;
}
